//! What the other processes do, and how they are started: two descriptors as standard input and output.

use super::forward::Copies;
use super::links::{SLOTS, failed, slot_len};
use super::remap::{self, Way};
use super::source::{HEAD_LEN, Sink};
use super::{FORWARDED_LENS, PassingPlan, REMAPPED_LEN_MAX};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use towpath::channel::{Arena, ChannelReceiver, ChannelSender, Geometry, Signal};

/// The work of one of the other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Hands on what comes by standard input to standard output.
    Middle {
        /// How it does so.
        copies: Copies,
        /// Octets of a message.
        size: usize,
    },
    /// Reads what comes by standard output, and reports by standard input.
    Last {
        /// How messages come.
        copies: Copies,
        /// Octets of a message.
        size: usize,
    },
    /// Reads messages in the pages of the file that is its standard output.
    Reader {
        /// How it reads them.
        way: Way,
        /// Octets of a message.
        size: usize,
    },
}

impl Stage {
    /// The words of `channel stage` for it.
    #[must_use]
    pub fn words(self) -> [String; 3] {
        let (role, how, size) = match self {
            Stage::Middle { copies, size } => ("middle", copies.count().to_string(), size),
            Stage::Last { copies, size } => ("last", copies.count().to_string(), size),
            Stage::Reader { way, size } => ("reader", way.name().to_owned(), size),
        };
        [role.to_owned(), how, size.to_string()]
    }

    /// What [`Self::words`] say; None for others.
    #[must_use]
    pub fn parse(role: &str, how: &str, size: &str) -> Option<Stage> {
        let size: usize = size.parse().ok()?;
        let copies = Copies::ALL.into_iter();
        let copies = copies.filter(|copies| copies.count().to_string() == how);
        let copies = copies.take(usize::from(FORWARDED_LENS.contains(&size)));
        let mut ways = Way::ALL.into_iter().filter(|way| way.name() == how);
        match role {
            "middle" => copies.map(|copies| Stage::Middle { copies, size }).next(),
            "last" => copies.map(|copies| Stage::Last { copies, size }).next(),
            "reader" if (1..=REMAPPED_LEN_MAX).contains(&size) => Some(Stage::Reader {
                way: ways.next()?,
                size,
            }),
            _ => None,
        }
    }

    /// Works until the first process ends it.
    ///
    /// # Errors
    ///
    /// A message that is missing; another process that is gone.
    pub fn run(self) -> io::Result<()> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        match self {
            Stage::Middle { copies, size } => match copies {
                Copies::None => pass_slots(input.into(), output.into()),
                Copies::Two => copy_on(input.into(), output.into(), size),
                Copies::Four => send_on(&input, &output, size),
            },
            Stage::Last { copies, size } => match copies {
                Copies::None => read_slots(input.into(), output.into()),
                Copies::Two => read_ring(input.into(), output.into()),
                Copies::Four => read_socket(input.into(), &output, size),
            },
            Stage::Reader { way, size } => remap::read(way, size, input.into(), output),
        }
    }
}

/// A process that ends with its owner.
pub(super) struct StageProcess(Child);

impl Drop for StageProcess {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process with these descriptors, of which it has the only copies.
pub(super) fn start(
    plan: &PassingPlan,
    stage: Stage,
    input: impl Into<OwnedFd>,
    output: impl Into<OwnedFd>,
) -> io::Result<StageProcess> {
    let child = Command::new(&plan.program)
        .args(["channel", "stage"])
        .args(stage.words())
        .stdin(Stdio::from(input.into()))
        .stdout(Stdio::from(output.into()))
        .spawn()?;
    Ok(StageProcess(child))
}

fn pass_slots(input: UnixStream, output: UnixStream) -> io::Result<()> {
    let arena = Arena::join(input.try_clone()?).map_err(failed)?;
    let mut incoming = arena.accept(input, Signal::Futex).map_err(failed)?;
    let mut outgoing = arena.open(output, Signal::Futex).map_err(failed)?;
    while let Some(message) = incoming.receive().map_err(failed)? {
        outgoing.pass(&message).map_err(failed)?;
    }
    Ok(())
}

fn read_slots(control: UnixStream, input: UnixStream) -> io::Result<()> {
    let arena = Arena::join(control.try_clone()?).map_err(failed)?;
    let mut incoming = arena.accept(input, Signal::Futex).map_err(failed)?;
    count_all(control, |head| {
        let message = incoming.receive().map_err(failed)?;
        Ok(message.map(|message| message.read(0, head)).is_some())
    })
}

fn copy_on(input: UnixStream, output: UnixStream, size: usize) -> io::Result<()> {
    let mut incoming = ChannelReceiver::accept(input, Signal::Futex).map_err(failed)?;
    let geometry = Geometry::new(slot_len(size), SLOTS / 2).map_err(failed)?;
    let mut outgoing = ChannelSender::open(output, geometry, Signal::Futex).map_err(failed)?;
    let mut octets = vec![0; size];
    while let Some(message) = incoming.receive().map_err(failed)? {
        let len = message.read(0, &mut octets);
        drop(message);
        outgoing.send(&octets[..len]).map_err(failed)?;
    }
    Ok(())
}

fn read_ring(control: UnixStream, input: UnixStream) -> io::Result<()> {
    let mut incoming = ChannelReceiver::accept(input, Signal::Futex).map_err(failed)?;
    count_all(control, |head| {
        let message = incoming.receive().map_err(failed)?;
        Ok(message.map(|message| message.read(0, head)).is_some())
    })
}

fn send_on(input: &OwnedFd, output: &OwnedFd, size: usize) -> io::Result<()> {
    let mut octets = vec![0; size];
    loop {
        match receive(input, &mut octets)? {
            0 => return Ok(()),
            len => rustix::net::send(output, &octets[..len], SendFlags::NOSIGNAL)?,
        };
    }
}

fn read_socket(control: UnixStream, input: &OwnedFd, size: usize) -> io::Result<()> {
    let mut octets = vec![0; size];
    count_all(control, |head| {
        let len = receive(input, &mut octets)?;
        head.copy_from_slice(&octets[..HEAD_LEN]);
        Ok(len != 0)
    })
}

/// Counts messages, of which `next` reads the head; false when there is none any more.
fn count_all(
    control: UnixStream,
    mut next: impl FnMut(&mut [u8; HEAD_LEN]) -> io::Result<bool>,
) -> io::Result<()> {
    let mut sink = Sink::new(control);
    let mut head = [0; HEAD_LEN];
    while next(&mut head)? {
        sink.take(head)?;
    }
    Ok(())
}

/// Octets of the next message; 0 at the end.
fn receive(socket: &OwnedFd, octets: &mut [u8]) -> io::Result<usize> {
    let (len, _) = rustix::net::recv(socket, octets, RecvFlags::empty())?;
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_stage_say_the_same_stage_and_others_none() {
        let (size, way) = (4096, Way::ByFaults);
        let mut all = vec![Stage::Reader { way, size }];
        for copies in Copies::ALL {
            all.push(Stage::Middle { copies, size });
            all.push(Stage::Last { copies, size });
        }
        for stage in all {
            let [role, how, size] = stage.words();
            assert_eq!(Stage::parse(&role, &how, &size), Some(stage));
        }
        for (role, how, size) in [
            ("first", "0", "64"),
            ("middle", "1", "64"),
            ("last", "0", "7"),
            ("middle", "0", "65537"),
            ("reader", "0", "4096"),
            ("reader", "copied", "0"),
            ("reader", "copied", "-1"),
        ] {
            assert_eq!(Stage::parse(role, how, size), None, "{role} {how} {size}");
        }
    }
}
