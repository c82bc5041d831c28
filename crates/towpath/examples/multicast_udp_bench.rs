//! The baseline of group benchmarks: plain multicast UDP to the same number of receivers.
//!
//! `multicast_udp_bench bare COUNT SECONDS SENDER_CPU RECEIVER_CPU` - mean MB/s received by each of
//! COUNT receivers from a sender that sends segmented UDP as fast as it can, without
//! acknowledgements and retransmission. The receivers are threads of one separate process, as in
//! the transport xtp-multicast.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::xtp::group::example_group;
use wire::Wire;
use wire_udp::UdpWire;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Octets per packet and packets per call, as with XTP.
const PACKET_LEN: usize = 1472;
const SEGMENTS: usize = 44;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bare", count, seconds, sender, receiver] => {
            println!("{:.3}", bare(count, seconds.parse()?, sender, receiver)?);
            Ok(())
        }
        ["receive", group, count, cpu] => run_receivers(group.parse()?, count.parse()?, cpu),
        _ => Err("see the top of this file for how to call it".into()),
    }
}

fn pin(cpu: &str) -> Outcome<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu.parse()?);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

fn bare(count: &str, seconds: f64, sender: &str, receiver: &str) -> Outcome<f64> {
    let group = example_group();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["receive", &group.to_string(), count, receiver])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    lines.next().ok_or("the receivers do not start")??;
    pin(sender)?;
    let mut wire = UdpWire::bind("127.0.0.1:0".parse()?)?;
    let octets = vec![0x5a; PACKET_LEN * SEGMENTS];
    let to = engine::Address::Socket(group);
    let begin = Instant::now();
    let span = Duration::from_secs_f64(seconds);
    while begin.elapsed() < span {
        match wire.send(to.into(), &[io::IoSlice::new(&octets)], PACKET_LEN) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            other => other?,
        }
    }
    let took = begin.elapsed().as_secs_f64();
    drop(child.stdin.take());
    let bytes: f64 = lines
        .next()
        .ok_or("the receivers print nothing")??
        .parse()?;
    child.wait()?;
    Ok(bytes / took / 1e6)
}

/// The receivers' process: prints the mean of the bytes each received when its input ends.
fn run_receivers(group: SocketAddr, count: usize, cpu: &str) -> Outcome<()> {
    pin(cpu)?;
    let ended = Arc::new(AtomicBool::new(false));
    let total = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for _ in 0..count {
        let mut wire = UdpWire::bind("127.0.0.1:0".parse()?)?;
        wire.join(engine::Address::Socket(group))?;
        let (ended, total) = (Arc::clone(&ended), Arc::clone(&total));
        threads.push(std::thread::spawn(move || {
            let bytes = count_received(&mut wire, &ended);
            total.fetch_add(bytes, Ordering::Relaxed);
        }));
    }
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    ended.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a receiver panicked")?;
    }
    println!("{}", total.load(Ordering::Relaxed) / count as u64);
    Ok(())
}

/// Octets received by one receiver.
fn count_received(wire: &mut UdpWire, ended: &AtomicBool) -> u64 {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    let mut buffer = vec![0; 65_536];
    let mut bytes = 0;
    while !ended.load(Ordering::Relaxed) {
        match wire.receive(&mut buffer) {
            Ok(arrival) => bytes += arrival.len as u64,
            Err(_) => {
                if let Some(socket) = wire.descriptor() {
                    let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&tick));
                }
            }
        }
    }
    bytes
}
