//! What passing a message on costs: `forward_bench arena|copy whole|ends SIZE SECONDS` prints the
//! messages a second that go from one process's thread through a second to a third.
//!
//! `arena` passes slots on by their number, `copy` reads a message out of one ring and sends it into the
//! next. With `whole` the first writes each octet and the last reads each; with `ends` they touch the
//! number in front only, so that the figure is the middle's alone.

use channel::{Arena, ArenaOwner, ChannelError, ChannelReceiver, ChannelSender, Geometry, Signal};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Messages that are on the way at most, in either kind.
const SLOTS: u32 = 64;

/// Octets of the number in front of a message.
const NUMBER_LEN: usize = 8;

#[derive(Clone, Copy)]
struct Load {
    size: usize,
    /// Octets that the first writes and the last reads.
    touched: usize,
    seconds: f64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, load)) = parsed(&words) else {
        eprintln!("usage: forward_bench arena|copy whole|ends SIZE SECONDS");
        return ExitCode::from(2);
    };
    let rate = match kind {
        "arena" => through_arena(load),
        _ => by_copying(load),
    };
    match rate {
        Ok(rate) => println!("{rate:.0}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parsed(words: &[String]) -> Option<(&str, Load)> {
    let [kind, part, size, seconds] = words else {
        return None;
    };
    let size: usize = size.parse().ok().filter(|&size| size >= NUMBER_LEN)?;
    let touched = match part.as_str() {
        "whole" => size,
        "ends" => NUMBER_LEN,
        _ => return None,
    };
    let seconds = seconds.parse().ok()?;
    let known = kind == "arena" || kind == "copy";
    known.then_some((
        kind,
        Load {
            size,
            touched,
            seconds,
        },
    ))
}

/// Numbers the messages until the time is over; the octets behind the number stay as they are.
struct Source {
    load: Load,
    started: Instant,
    octets: Vec<u8>,
    number: u64,
}

impl Source {
    fn new(load: Load) -> Self {
        let octets = vec![7; load.touched];
        Self {
            load,
            started: Instant::now(),
            octets,
            number: 0,
        }
    }

    fn next(&mut self) -> Option<&[u8]> {
        // A clock read costs tens of nanoseconds, so it is made once in 64 messages.
        let over = self.number.is_multiple_of(64)
            && self.started.elapsed().as_secs_f64() > self.load.seconds;
        if over {
            return None;
        }
        self.octets[..NUMBER_LEN].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        Some(&self.octets)
    }

    fn rate(&self) -> f64 {
        self.number as f64 / self.started.elapsed().as_secs_f64()
    }
}

/// # Panics
/// When a message is missing.
fn check(octets: &[u8], expected: u64) {
    assert_eq!(
        octets[..NUMBER_LEN],
        expected.to_le_bytes(),
        "a message is missing"
    );
}

fn through_arena(load: Load) -> Result<f64, ChannelError> {
    let slot_len = (load.size as u32).next_power_of_two().max(64);
    let mut owner = ArenaOwner::create(Geometry::new(slot_len, SLOTS)?)?;
    let pairs = [(); 4].map(|()| UnixStream::pair().expect("a pair of sockets"));
    let [
        (admit_middle, middle),
        (admit_last, last),
        (to_middle, from_first),
        (to_last, from_middle),
    ] = pairs;
    owner.admit(admit_middle)?;
    owner.admit(admit_last)?;
    let passing = thread::spawn(move || pass_on(middle, from_first, to_last));
    let reading = thread::spawn(move || read_slots(load, last, from_middle));
    let mut outgoing = owner.arena().open(to_middle, Signal::Futex)?;
    let mut source = Source::new(load);
    while let Some(octets) = source.next() {
        let mut slot = loop {
            if let Some(slot) = owner.arena().take_within(Duration::from_secs(1))? {
                break slot;
            }
        };
        slot.write(0, octets)?;
        slot.set_len(load.size)?;
        outgoing.pass(&slot)?;
    }
    drop(outgoing);
    passing.join().expect("the middle ends")?;
    reading.join().expect("the last ends")?;
    Ok(source.rate())
}

fn pass_on(member: UnixStream, from: UnixStream, to: UnixStream) -> Result<(), ChannelError> {
    let arena = Arena::join(member)?;
    let mut incoming = arena.accept(from, Signal::Futex)?;
    let mut outgoing = arena.open(to, Signal::Futex)?;
    while let Some(message) = incoming.receive()? {
        outgoing.pass(&message)?;
    }
    Ok(())
}

fn read_slots(load: Load, member: UnixStream, from: UnixStream) -> Result<(), ChannelError> {
    let arena = Arena::join(member)?;
    let mut incoming = arena.accept(from, Signal::Futex)?;
    read_all(load, |octets| {
        let message = incoming.receive()?;
        Ok(message.map(|message| message.read(0, octets)).is_some())
    })
}

fn by_copying(load: Load) -> Result<f64, ChannelError> {
    let slot_len = (load.size as u32).next_power_of_two().max(64);
    // Half the slots a ring: as much memory as the arena.
    let geometry = Geometry::new(slot_len, SLOTS / 2)?;
    let (to_middle, from_first) = UnixStream::pair().expect("a pair of sockets");
    let (to_last, from_middle) = UnixStream::pair().expect("a pair of sockets");
    let copying = thread::spawn(move || copy_on(geometry, from_first, to_last));
    let reading = thread::spawn(move || read_ring(load, from_middle));
    let mut outgoing = ChannelSender::open(to_middle, geometry, Signal::Futex)?;
    let mut source = Source::new(load);
    while let Some(octets) = source.next() {
        let mut lent = outgoing.lend(load.size)?;
        lent.write(0, octets)?;
        lent.commit(load.size)?;
    }
    drop(outgoing);
    copying.join().expect("the middle ends")?;
    reading.join().expect("the last ends")?;
    Ok(source.rate())
}

fn copy_on(geometry: Geometry, from: UnixStream, to: UnixStream) -> Result<(), ChannelError> {
    let mut incoming = ChannelReceiver::accept(from, Signal::Futex)?;
    let mut outgoing = ChannelSender::open(to, geometry, Signal::Futex)?;
    let mut octets = vec![0; geometry.capacity() as usize];
    while let Some(message) = incoming.receive()? {
        let len = message.read(0, &mut octets);
        drop(message);
        outgoing.send(&octets[..len])?;
    }
    Ok(())
}

fn read_ring(load: Load, from: UnixStream) -> Result<(), ChannelError> {
    let mut incoming = ChannelReceiver::accept(from, Signal::Futex)?;
    read_all(load, |octets| {
        let message = incoming.receive()?;
        Ok(message.map(|message| message.read(0, octets)).is_some())
    })
}

/// Lets `read` fill octets until it has no more, and checks that each message is the next one.
fn read_all(
    load: Load,
    mut read: impl FnMut(&mut [u8]) -> Result<bool, ChannelError>,
) -> Result<(), ChannelError> {
    let mut octets = vec![0; load.touched];
    let mut expected = 0;
    while read(&mut octets)? {
        check(&octets, expected);
        expected += 1;
    }
    Ok(())
}
