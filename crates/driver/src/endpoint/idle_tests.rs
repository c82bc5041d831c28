//! Idle circuits have no memory in their send stores, and carry data again.

use crate::{Circuit, Endpoint};
use engine::Address;
use engine_xtp::{Config, Xtp};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// Longest wait of the test.
const LIMIT: Duration = Duration::from_secs(10);

type End = Endpoint<Xtp, UdpWire>;

fn endpoint() -> (End, Address) {
    let wire = UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let own = wire.local_addr().expect("bound");
    let end = Endpoint::new(Xtp::new(Config::default()), wire, 128 << 10).expect("a thread");
    end.listen(true);
    (end, Address::Socket(own))
}

/// Sends a message there and the same back.
fn exchange(ends: [&mut Circuit<Xtp, UdpWire>; 2], message: &[u8]) {
    let mut buffer = [0; 1024];
    let [near, far] = ends;
    near.send(message, LIMIT).expect("room");
    near.flush().expect("the wire takes it");
    let len = far.recv(&mut buffer, LIMIT).expect("it comes");
    assert_eq!(&buffer[..len.expect("open")], message);
    far.send(message, LIMIT).expect("room");
    let len = near.recv(&mut buffer, LIMIT).expect("it comes back");
    assert_eq!(&buffer[..len.expect("open")], message);
}

#[test]
fn idle_circuits_have_no_memory_in_their_stores() {
    let [(near, _), (far, to)] = [endpoint(), endpoint()];
    let mut circuits = Vec::new();
    for number in 0..20 {
        let mut called = near.connect(to, LIMIT).expect("it listens");
        called.send(&[number; 100], LIMIT).expect("room");
        let mut answering = far.accept(LIMIT).expect("it was called");
        let mut first = [0; 100];
        answering.recv(&mut first, LIMIT).expect("it comes");
        assert_eq!(first, [number; 100]);
        circuits.push((called, answering));
    }
    for round in 0..3u8 {
        for (number, (called, answering)) in circuits.iter_mut().enumerate() {
            exchange([called, answering], &[round ^ number as u8; 700]);
        }
        // The last acknowledgements come by themselves; one or two stores keep what they have.
        let end = Instant::now() + LIMIT;
        for end_of in [&near, &far] {
            while !end_of.shared.pool.is_kept_by_stores() {
                assert!(Instant::now() < end, "idle stores have memory");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
