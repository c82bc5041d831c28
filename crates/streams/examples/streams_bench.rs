//! What a message costs in the runtime: `streams_bench hop` and `streams_bench thousand`.
//!
//! `hop`: nanoseconds that an empty module adds to a message of 64 octets: the slope over 0 to 32
//! modules. `thousand`: messages a second over 1,000 streams, five modules deep, all of which queue.

use std::time::Instant;
use streams::modules::{Buffer, Pass};
use streams::{Error, Hysteresis, Marks, Runtime, StreamId};

/// Messages of one measurement.
const MESSAGES: u32 = 400_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("hop") => println!("{:.2}", hop_ns()?),
        Some("thousand") => println!("{:.0}", messages_per_s(1000, 5)?),
        _ => return Err("usage: streams_bench hop|thousand".into()),
    }
    Ok(())
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
