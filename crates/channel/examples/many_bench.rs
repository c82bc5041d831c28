//! What many senders of one receiver cost: `many_bench gather|channels SENDERS SIZE SECONDS` prints the messages a second
//! that one receiver gets, and with `gather` the claims in 1000 messages at which another sender was faster.
//!
//! `gather` is one ring whose places the senders claim, `channels` a ring for each sender.

use channel::{
    ChannelError, ChannelReceiver, ChannelSender, GatherReceiver, GatherSender, Gathered, Geometry,
    ManyReceivers, Signal,
};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Messages that are on the way at most, in the one ring, and in each of many.
const SLOTS: u32 = 256;

/// How long an end waits before it looks whether to stop.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy)]
struct Load {
    senders: usize,
    size: usize,
    seconds: f64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, load)) = parsed(&words) else {
        eprintln!("usage: many_bench gather|channels SENDERS SIZE SECONDS");
        return ExitCode::from(2);
    };
    let measured = match kind {
        "gather" => by_one_ring(load),
        _ => by_a_ring_each(load),
    };
    match measured {
        Ok((rate, collisions)) => println!("{rate:.0} {collisions:.2}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parsed(words: &[String]) -> Option<(&str, Load)> {
    let [kind, senders, size, seconds] = words else {
        return None;
    };
    let load = Load {
        senders: senders
            .parse()
            .ok()
            .filter(|count| (1..=31).contains(count))?,
        size: size
            .parse()
            .ok()
            .filter(|size| (1..=1 << 16).contains(size))?,
        seconds: seconds.parse().ok()?,
    };
    let known = kind == "gather" || kind == "channels";
    known.then_some((kind.as_str(), load))
}

/// Slots that hold a message and what is in front of it.
fn geometry(size: usize) -> Result<Geometry, ChannelError> {
    let slot_len = (size + 4).next_power_of_two().max(64);
    Geometry::new(slot_len as u32, SLOTS)
}

fn by_one_ring(load: Load) -> Result<(f64, f64), ChannelError> {
    let mut receiver = GatherReceiver::create(geometry(load.size)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut sending = Vec::new();
    for _ in 0..load.senders {
        let (near, far) = pair()?;
        receiver.admit(near)?;
        let (mut sender, stop) = (GatherSender::join(far)?, Arc::clone(&stop));
        sending.push(thread::spawn(move || {
            let message = vec![7; load.size];
            while !stop.load(Ordering::Relaxed) && sender.send(&message, PAUSE).is_ok() {}
            sender.collisions()
        }));
    }
    let mut buffer = vec![0; load.size];
    let rate = rate(load, || match receiver.receive(&mut buffer, PAUSE)? {
        Gathered::Message { .. } => Ok(1),
        Gathered::Nothing | Gathered::End => Ok(0),
    })?;
    stop.store(true, Ordering::Relaxed);
    drop(receiver);
    let collisions: u64 = sending.into_iter().filter_map(|one| one.join().ok()).sum();
    Ok((rate, 1e3 * collisions as f64 / (rate * load.seconds)))
}

fn by_a_ring_each(load: Load) -> Result<(f64, f64), ChannelError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut receivers, mut sending) = (Vec::new(), Vec::new());
    for _ in 0..load.senders {
        let (near, far) = pair()?;
        let mut sender = ChannelSender::open(near, geometry(load.size)?, Signal::Futex)?;
        receivers.push(ChannelReceiver::accept(far, Signal::Futex)?);
        let stop = Arc::clone(&stop);
        sending.push(thread::spawn(move || {
            let message = vec![7; load.size];
            while !stop.load(Ordering::Relaxed) && sender.send(&message).is_ok() {}
        }));
    }
    let mut many = ManyReceivers::new(receivers);
    let mut buffer = vec![0; load.size];
    let rate = rate(load, || {
        let Some(index) = many.wait(PAUSE)? else {
            return Ok(0);
        };
        let Some(message) = many.end(index).receive()? else {
            return Ok(0);
        };
        message.read(0, &mut buffer);
        Ok(1)
    })?;
    stop.store(true, Ordering::Relaxed);
    drop(many);
    sending.into_iter().for_each(|one| drop(one.join()));
    Ok((rate, 0.0))
}

/// Messages a second of `receive`, which says how many it got.
fn rate(
    load: Load,
    mut receive: impl FnMut() -> Result<u64, ChannelError>,
) -> Result<f64, ChannelError> {
    let started = Instant::now();
    let mut count = 0;
    loop {
        for _ in 0..100 {
            count += receive()?;
        }
        let elapsed = started.elapsed().as_secs_f64();
        if elapsed >= load.seconds {
            return Ok(count as f64 / elapsed);
        }
    }
}

fn pair() -> Result<(UnixStream, UnixStream), ChannelError> {
    UnixStream::pair().map_err(|source| ChannelError::System {
        action: "a pair of sockets",
        source,
    })
}
