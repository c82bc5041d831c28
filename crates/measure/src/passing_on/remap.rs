//! Messages in pages of a file that two processes have: the receiver remaps them to where it wants them, or copies them there.

use super::links::failed;
use super::source::{HEAD_LEN, Outgoing, Sink, measured};
use super::stage::{Stage, start};
use super::{PassingPlan, TurnTime};
use serde::Serialize;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use towpath::channel::{
    ChannelReceiver, ChannelSender, Fill, Geometry, PageFile, PageWindow, SLOT_LEN_MIN, Signal,
};

/// Messages that are on the way at most. The file has places for twice as many, so that none is written while it is read.
const WINDOW: u32 = 8;

/// Messages that the file has places for.
const PLACES: u64 = 2 * WINDOW as u64;

/// How a receiver gets a message to its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It copies it from where the file is mapped.
    Copied,
    /// It maps the message's pages there in place of the last one's, all in one call.
    Remapped,
    /// The same, but each page is entered into its tables when it touches it.
    ByFaults,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Copied, Way::Remapped, Way::ByFaults];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Copied => "copied",
            Way::Remapped => "remapped",
            Way::ByFaults => "by-faults",
        }
    }
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RemapTurn {
    /// How the receiver gets messages.
    pub way: Way,
    /// Of which message, when and how long.
    #[serde(flatten)]
    pub time: TurnTime,
}

/// Measures once.
pub(super) fn turn(plan: &PassingPlan, way: Way, size: usize, block: u32) -> io::Result<RemapTurn> {
    let file = PageFile::create(file_len(size)).map_err(failed)?;
    let (control, far) = UnixStream::pair()?;
    let stage = Stage::Reader { way, size };
    let _reader = start(plan, stage, far, file.descriptor().try_clone_to_owned()?)?;
    let geometry = Geometry::new(SLOT_LEN_MIN, WINDOW).map_err(failed)?;
    let sender = ChannelSender::open(control.try_clone()?, geometry, Signal::Futex);
    let sender = sender.map_err(failed)?;
    let message_us = measured(&mut PagesOut { file, sender, size }, &[control], plan.turn)?;
    Ok(RemapTurn {
        way,
        time: TurnTime::new(size, block, message_us),
    })
}

fn file_len(size: usize) -> usize {
    PLACES as usize * size
}

/// Where the message that begins with `head` lies.
fn place(head: [u8; HEAD_LEN], size: usize) -> usize {
    (u64::from_le_bytes(head) % PLACES) as usize * size
}

struct PagesOut {
    file: PageFile,
    sender: ChannelSender,
    size: usize,
}

impl Outgoing for PagesOut {
    /// Writes the head into the message's first page; the other octets stay as they are.
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        self.file.write(place(head, self.size), &head);
        self.sender.send(&head).map_err(failed)
    }
}

/// The other process: takes each message in its way, and touches each of its pages.
pub(super) fn read(way: Way, size: usize, control: UnixStream, file: OwnedFd) -> io::Result<()> {
    let file = PageFile::adopt(file, file_len(size)).map_err(failed)?;
    let accepted = ChannelReceiver::accept(control.try_clone()?, Signal::Futex);
    let mut incoming = accepted.map_err(failed)?;
    let mut sink = Sink::new(control);
    let mut taken = Taken::new(size)?;
    while let Some(message) = incoming.receive().map_err(failed)? {
        let mut head = [0; HEAD_LEN];
        message.read(0, &mut head);
        let found = taken.take(&file, place(head, size), way)?;
        drop(message);
        if found != head {
            return Err(io::Error::other("the pages of another message appeared"));
        }
        sink.take(head)?;
    }
    Ok(())
}

/// Where the receiver has a message: in octets of its own, or in a window.
struct Taken {
    octets: Vec<u8>,
    window: PageWindow,
}

impl Taken {
    fn new(size: usize) -> io::Result<Self> {
        Ok(Self {
            octets: vec![0; size],
            window: PageWindow::new(size).map_err(failed)?,
        })
    }

    /// Takes the message at `at`, and returns its head.
    fn take(&mut self, file: &PageFile, at: usize, way: Way) -> io::Result<[u8; HEAD_LEN]> {
        let fill = match way {
            Way::Copied => {
                file.read(at, &mut self.octets);
                let mut head = [0; HEAD_LEN];
                head.copy_from_slice(&std::hint::black_box(&self.octets)[..HEAD_LEN]);
                return Ok(head);
            }
            Way::Remapped => Fill::AtOnce,
            Way::ByFaults => Fill::ByFaults,
        };
        let size = self.octets.len();
        self.window.show(file, at, size, fill).map_err(failed)?;
        let (mut head, mut touched) = ([0; HEAD_LEN], [0; HEAD_LEN]);
        self.window.read(0, &mut head);
        for page in (0..size).step_by(rustix::param::page_size()).skip(1) {
            self.window.read(page, &mut touched);
            std::hint::black_box(touched);
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same message is found in each way, wherever it lies.
    #[test]
    fn each_way_finds_the_message_at_its_place() {
        let size = 2 * rustix::param::page_size();
        let file = PageFile::create(file_len(size)).unwrap();
        let heads = (0..PLACES + 3).map(u64::to_le_bytes);
        let mut taken = Taken::new(size).unwrap();
        for head in heads {
            file.write(place(head, size), &head);
            for way in Way::ALL {
                let found = taken.take(&file, place(head, size), way).unwrap();
                assert_eq!(found, head, "{way:?}");
            }
        }
    }
}
