//! Benchmarks of SCTP endpoints, besides races: many associations, and a path that is cut.
//!
//! `sctp_endpoint_bench associations COUNT SECONDS SENDER_CPU RECEIVER_CPU` - Mbit/s of messages of 16
//! KiB that arrived over COUNT associations of one endpoint, all of which always have data to send, once they have
//! run for a while. The receiver is a process of its own.
//! `sctp_endpoint_bench failover TRIALS` - milliseconds (median) from the cut of the path of data to the
//! first delivery of a message that was sent after it. Two endpoints of this process have two paths; the
//! wires of both drop what takes the first one. RTO.Min is 50 ms.

#[path = "bench/cut_wire.rs"]
mod cut_wire;
#[path = "bench/many.rs"]
mod many;
#[path = "bench/peer.rs"]
mod peer;

use cut_wire::{Cut, CutWire};
use driver::{Circuit, Endpoint};
use engine::{Address, Associations};
use engine_sctp::{LocalAddresses, PathStatus, Sctp, SctpConfig};
use many::{keep_full, receive_on_all};
use peer::{Outcome, Peer, pin, print_place};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use wire::{Many, Wire};
use wire_udp::UdpWire;

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of a message of `associations`, and of `failover`.
const LONG: usize = 16 << 10;
const SHORT: usize = 1 << 10;

/// Octets of a send store, and of a receive window: those of a race.
const BUFFER: usize = 512 << 10;

/// Bytes of a socket's buffers: a batch of each of a thousand associations, and the kernel's overhead.
const SOCKET_BUFFER: usize = 256 << 20;

/// How long associations run before what arrives counts: what is lost among the first packets of a thousand, before
/// any round trip was measured, is sent again after a second (RFC 9260 section 16, RTO.Initial).
const WARM_UP: Duration = Duration::from_millis(1500);

/// How often `failover` sends a message.
const PERIOD: Duration = Duration::from_millis(1);

/// How long data flow before the cut.
const BEFORE_CUT: Duration = Duration::from_millis(300);

/// When no message comes for so long after a cut, it was not survived.
const LOST_AFTER: Duration = Duration::from_secs(10);

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["associations", count, seconds, sender, receiver] => {
            associations(count.parse()?, seconds.parse()?, sender, receiver)
        }
        ["failover", trials] => failover(trials.parse()?),
        ["count", count, cpu] => count_bytes(count.parse()?, cpu),
        _ => Err("see the top of this file for how to call it".into()),
    }
}

/// An endpoint on the loopback for `count` associations.
fn bind(count: usize) -> Outcome<(Endpoint<Sctp, UdpWire>, SocketAddr)> {
    let wire = UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let socket = wire.descriptor().ok_or("a socket has a descriptor")?;
    wire_udp::sys::set_buffers(socket, SOCKET_BUFFER);
    let address = wire.local_addr()?;
    let config = SctpConfig {
        seed: std::process::id().into(),
        associations_max: count.max(1),
        ..SctpConfig::default()
    };
    Ok((Endpoint::new(Sctp::new(config), wire, BUFFER)?, address))
}

fn associations(count: usize, seconds: f64, sender: &str, receiver: &str) -> Outcome<()> {
    let peer = Peer::start(&["count", &count.to_string(), receiver])?;
    let to = Address::Socket(peer.place.parse()?);
    pin(sender)?;
    let (endpoint, _) = bind(count)?;
    let mut circuits = Vec::with_capacity(count);
    for _ in 0..count {
        circuits.push(endpoint.connect(to, LIMIT)?);
    }
    let mut watch = endpoint.watch()?;
    let ids: Vec<_> = circuits.iter().map(Circuit::id).collect();
    let end = Instant::now() + WARM_UP + Duration::from_secs_f64(seconds);
    keep_full(&ids, &mut watch, (end, peer), |at| {
        circuits[at].try_send(&[7; LONG])
    })
}

/// Receives on `count` associations until its input ends; prints Mbit/s received once they have run for [`WARM_UP`].
fn count_bytes(count: usize, cpu: &str) -> Outcome<()> {
    pin(cpu)?;
    let (endpoint, address) = bind(count)?;
    endpoint.listen(true);
    print_place(address)?;
    let mut watch = endpoint.watch()?;
    let accept = || {
        let circuit = endpoint.try_accept()?;
        Ok((circuit.id(), circuit))
    };
    let all = (count, WARM_UP);
    let bytes_per_s = receive_on_all(all, &mut watch, accept, Circuit::try_recv)?;
    let bytes_per_s =
        bytes_per_s.ok_or_else(|| format!("not all of {count} associations came, or too late"))?;
    println!("{:.1}", 8.0 * bytes_per_s / 1e6);
    std::process::exit(0);
}

type CutEndpoint = Endpoint<Sctp, CutWire<Many<UdpWire>>>;

fn failover(trials: usize) -> Outcome<()> {
    let times: Outcome<Vec<Duration>> = (0..trials.max(1)).map(failover_once).collect();
    let mut times = times?;
    times.sort_unstable();
    println!("{:.1}", times[times.len() / 2].as_secs_f64() * 1000.0);
    Ok(())
}

/// An endpoint with two addresses whose first path `cut` may cut.
fn bind_two(cut: &Cut, seed: usize) -> Outcome<(CutEndpoint, Vec<Address>)> {
    let first = UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let port = first.local_addr()?.port();
    let second = UdpWire::bind(SocketAddr::from(([127, 0, 0, 2], port)))?;
    let ips = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
    let mut config = SctpConfig {
        local_addresses: LocalAddresses::Internet(ips.to_vec()),
        seed: seed as u64,
        ..SctpConfig::default()
    };
    config.rto.min = Duration::from_millis(50);
    let wire = CutWire::new(Many::new(vec![first, second])?, cut.clone());
    let addresses = ips.map(|ip| Address::Socket(SocketAddr::new(ip, port)));
    let endpoint = Endpoint::new(Sctp::new(config), wire, BUFFER)?;
    Ok((endpoint, addresses.to_vec()))
}

/// From the cut to the first delivery of a message that was sent after it.
fn failover_once(trial: usize) -> Outcome<Duration> {
    let cut = Cut::default();
    let (server, to) = bind_two(&cut, 2 * trial)?;
    server.listen(true);
    let (client, _) = bind_two(&cut, 2 * trial + 1)?;
    let open = |engine: &mut Sctp, now| engine.connect(now, &to);
    let mut sender = client.connect_by(to[0], LIMIT, open)?;
    let receiver = server.accept(LIMIT)?;
    wait_for_paths(&sender)?;
    wait_for_paths(&receiver)?;
    let arrivals = std::thread::spawn(move || receive_all(receiver));
    let (mut number, mut was_cut) = (0u64, None);
    let began = Instant::now();
    let mut message = [0; SHORT];
    // A delivery is looked for among all arrivals once the sender has ended.
    while was_cut.is_none_or(|(at, _): (Instant, u64)| at.elapsed() < Duration::from_secs(1)) {
        if was_cut.is_none() && began.elapsed() > BEFORE_CUT {
            was_cut = Some((Instant::now(), number));
            cut.cut();
        }
        message[..8].copy_from_slice(&number.to_be_bytes());
        match sender.try_send(&message) {
            Ok(()) => number += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        sender.flush()?;
        sender.drive()?;
        std::thread::sleep(PERIOD);
    }
    let (at, first) = was_cut.ok_or("no cut")?;
    sender.drain(LOST_AFTER)?;
    sender.finish()?;
    let arrivals = arrivals.join().map_err(|_| "the receiver panicked")?;
    let found = arrivals.iter().find(|(number, _)| *number >= first);
    let (_, delivered) = found.ok_or("nothing was delivered after the cut")?;
    Ok(delivered.saturating_duration_since(at))
}

/// Waits until both paths are verified.
fn wait_for_paths(circuit: &Circuit<Sctp, CutWire<Many<UdpWire>>>) -> Outcome<()> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let paths = circuit.with_pump(|pump| pump.engine().paths(circuit.id()));
        let active = paths
            .iter()
            .filter(|path| path.status == PathStatus::Active)
            .count();
        if active == 2 {
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
    Err("the second path was not verified".into())
}

/// Numbers of messages, and when they came, until the association ends.
fn receive_all(mut circuit: Circuit<Sctp, CutWire<Many<UdpWire>>>) -> Vec<(u64, Instant)> {
    let mut arrivals = Vec::new();
    let mut buffer = [0; SHORT];
    while let Ok(Some(SHORT)) = circuit.recv(&mut buffer, LOST_AFTER) {
        let number = buffer
            .first_chunk::<8>()
            .map_or(0, |at| u64::from_be_bytes(*at));
        arrivals.push((number, Instant::now()));
    }
    arrivals
}
