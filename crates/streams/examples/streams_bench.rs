//! What a message costs in the runtime: `streams_bench hop`, `thousand`, `pipe LEN`, `kernel-pipe LEN`.
//!
//! * `hop`: nanoseconds that an empty module adds to a message of 64 octets: the slope over 0 to 32
//!   modules.
//! * `thousand`: messages a second over 1,000 streams, five modules deep, all of which queue.
//! * `pipe`, `kernel-pipe`: messages a second that one thread writes to a pipe of STREAMS, or of the
//!   kernel, and reads again, as many at a time as half the pipe holds.

use std::io::{Read, Write};
use std::time::Instant;
use streams::modules::{Buffer, Pass};
use streams::{Error, Hysteresis, Marks, Runtime, StreamId};

/// Messages of one measurement.
const MESSAGES: u32 = 400_000;

/// Octets that are written to a pipe before they are read: half of what both kinds hold.
const BURST_LEN: usize = 32 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["hop"] => println!("{:.2}", hop_ns()?),
        ["thousand"] => println!("{:.0}", messages_per_s(1000, 5)?),
        ["pipe", len] => println!("{:.0}", through_pipe(len.parse()?)?),
        ["kernel-pipe", len] => println!("{:.0}", through_kernel_pipe(len.parse()?)?),
        _ => return Err("usage: streams_bench hop|thousand|pipe LEN|kernel-pipe LEN".into()),
    }
    Ok(())
}

/// Messages a second that `write` puts into a pipe and `read` takes out, in bursts.
fn in_bursts(
    len: usize,
    mut write: impl FnMut() -> std::io::Result<()>,
    mut read: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<f64> {
    let burst = (BURST_LEN / len.max(1)).clamp(1, 512);
    let rounds = MESSAGES as usize / burst + 1;
    let start = Instant::now();
    for _ in 0..rounds {
        for _ in 0..burst {
            write()?;
        }
        for _ in 0..burst {
            read()?;
        }
    }
    Ok((rounds * burst) as f64 / start.elapsed().as_secs_f64())
}

fn through_pipe(len: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let runtime = std::cell::RefCell::new(Runtime::new(Hysteresis::Full));
    let (a, b) = runtime.borrow_mut().pipe();
    let (message, mut buffer) = (vec![7; len], vec![0; len]);
    let failed = |error: Error| std::io::Error::from_raw_os_error(error.errno());
    let write = || {
        let written = runtime.borrow_mut().write(a, &message);
        written.map(drop).map_err(failed)
    };
    let read = || {
        let read = runtime.borrow_mut().read(b, &mut buffer);
        read.map(drop).map_err(failed)
    };
    Ok(in_bursts(len, write, read)?)
}

fn through_kernel_pipe(len: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let (mut from, mut to) = std::io::pipe()?;
    let (message, mut buffer) = (vec![7; len], vec![0; len]);
    let write = || to.write_all(&message);
    let read = || from.read_exact(&mut buffer);
    Ok(in_bursts(len, write, read)?)
}

/// Nanoseconds a module: the least of five measurements with 32 modules, less that with none.
fn hop_ns() -> Result<f64, Error> {
    let least = |modules| -> Result<f64, Error> {
        let mut least = f64::INFINITY;
        for _ in 0..5 {
            least = least.min(message_ns(modules)?);
        }
        Ok(least)
    };
    Ok((least(32)? - least(0)?) / 32.0)
}

fn message_ns(modules: usize) -> Result<f64, Error> {
    let mut runtime = Runtime::new(Hysteresis::Full);
    let (a, b) = runtime.pipe();
    for _ in 0..modules {
        runtime.push(a, Box::new(Pass))?;
    }
    let mut buffer = [0; 64];
    let start = Instant::now();
    for _ in 0..MESSAGES {
        runtime.write(a, &[7; 64])?;
        runtime.read(b, &mut buffer)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(MESSAGES))
}

/// Messages of 64 octets a second that pass streams of modules that queue each of them.
fn messages_per_s(streams: usize, modules: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let marks = Marks::new(5120, 1024)?;
    let mut runtime = Runtime::new(Hysteresis::Full);
    let mut ends = Vec::new();
    for _ in 0..streams {
        let (a, b) = runtime.pipe();
        for _ in 0..modules {
            runtime.push(a, Box::new(Buffer::deferring(marks)))?;
        }
        ends.push((a, b));
    }
    let rounds = 200;
    let start = Instant::now();
    for _ in 0..rounds {
        round(&mut runtime, &ends)?;
    }
    let messages = (rounds * streams * 4) as f64;
    Ok(messages / start.elapsed().as_secs_f64())
}

/// Four messages into each stream, carried through, and read.
fn round(runtime: &mut Runtime, ends: &[(StreamId, StreamId)]) -> Result<(), Error> {
    let mut buffer = [0; 256];
    for (a, _) in ends {
        for _ in 0..4 {
            runtime.write(*a, &[7; 64])?;
        }
    }
    while runtime.run(4096) == 4096 {}
    for (_, b) in ends {
        runtime.read(*b, &mut buffer)?;
    }
    Ok(())
}
