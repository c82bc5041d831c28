//! The baseline of group benchmarks: plain multicast UDP to the same number of receivers.
//!
//! `multicast_udp_bench bare COUNT SECONDS SENDER_CPU RECEIVER_CPU` - mean MB/s received by each of
//! COUNT receivers from a sender that sends segmented UDP as fast as it can, without
//! acknowledgements and retransmission. The receivers are threads of one separate process, as in
//! the transport xtp-multicast.

#[path = "bench/peer.rs"]
mod peer;

use peer::{Outcome, Peer, pin, print_place, wait_for_end};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::xtp::group::example_group;
use wire::Wire;
use wire_udp::UdpWire;

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

fn bare(count: &str, seconds: f64, sender: &str, receiver: &str) -> Outcome<f64> {
    let group = example_group();
    let receivers = Peer::start(&["receive", &group.to_string(), count, receiver])?;
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
    let bytes: f64 = receivers.end()?.parse()?;
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
    print_place("ready")?;
    wait_for_end()?;
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
