//! The wire on the loopback and between two hosts.

mod loopback;
mod multicast;
mod tshark;

use engine::Address;
use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use wire::{Arrival, Wire};
use wire_ip::IpWire;

/// Longest wait of any test.
const LIMIT: Duration = Duration::from_secs(10);

/// Protocol number for experiments (RFC 3692), so that no other program is disturbed.
const EXPERIMENT: u8 = 253;

/// A wire at `local`; prints SKIPPED and returns None where this user may not open one.
fn wire(local: &str, protocol: u8) -> Option<IpWire> {
    let local: IpAddr = local.parse().expect("a literal address");
    match IpWire::bind(local, protocol) {
        Ok(wire) => Some(wire),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text = error.to_string();
            assert!(
                text.contains("CAP_NET_RAW") && text.contains("root"),
                "{text}"
            );
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            eprintln!("SKIPPED: this machine has no address {local}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn address(wire: &IpWire) -> Address {
    Address::Socket(SocketAddr::new(wire.local(), 0))
}

fn send(wire: &mut IpWire, to: Address, octets: &[u8], segment_size: usize) {
    let (front, back) = octets.split_at(octets.len() / 3);
    let slices = [IoSlice::new(front), IoSlice::new(back)];
    wire.send(to.into(), &slices, segment_size)
        .expect("room for a few packets");
}

/// The next arrival and its packets.
fn receive(wire: &mut IpWire) -> (Arrival, Vec<Vec<u8>>) {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    let end = Instant::now() + LIMIT;
    loop {
        match wire.receive(&mut buffer) {
            Ok(arrival) => {
                let packets = buffer[..arrival.len].chunks(arrival.segment_size);
                return (arrival, packets.map(<[u8]>::to_vec).collect());
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < end, "nothing arrives");
        std::thread::yield_now();
    }
}
