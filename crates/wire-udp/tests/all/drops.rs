//! Datagrams that a full socket drops are counted, those of groups too.

use engine::{Address, Path};
use std::io::IoSlice;
use std::net::SocketAddr;
use wire::Wire;
use wire_udp::{BUFFER_LEN, UdpWire};

const PACKET_LEN: usize = 1000;

fn on_loopback() -> UdpWire {
    UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port")
}

/// Datagrams to `to` of which the socket there drops some: their payload alone is more than its buffer, which nobody reads.
fn overflow(to: SocketAddr) -> u64 {
    let mut near = on_loopback();
    let octets = [7; PACKET_LEN];
    // The kernel doubles what a buffer is asked to be.
    let count = 2 * BUFFER_LEN / PACKET_LEN + 100;
    for _ in 0..count {
        let path = Path::to(Address::Socket(to));
        near.send(path, &[IoSlice::new(&octets)], PACKET_LEN)
            .expect("the loopback has room");
    }
    count as u64
}

fn received(wire: &mut UdpWire) -> u64 {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    let mut packets = 0;
    while let Ok(arrival) = wire.receive(&mut buffer) {
        packets += arrival.len.div_ceil(arrival.segment_size) as u64;
    }
    packets
}

#[test]
fn datagrams_that_a_full_socket_drops_are_counted() {
    let mut far = on_loopback();
    assert_eq!(far.receive_drops(), Some(0));
    let sent = overflow(far.local_addr().expect("it is bound"));
    let received = received(&mut far);
    assert!(received > 0 && received < sent, "{received} of {sent}");
    assert_eq!(far.receive_drops(), Some(sent - received));
}

#[test]
fn drops_of_a_group_count_also_when_the_wire_has_left_it() {
    let mut far = on_loopback();
    let port = far.local_addr().expect("it is bound").port();
    let group = SocketAddr::from(([239, 255, 77, 1], port));
    far.join(Address::Socket(group))
        .expect("the loopback has groups");
    let sent = overflow(group);
    let received = received(&mut far);
    assert!(received > 0 && received < sent, "{received} of {sent}");
    assert_eq!(far.receive_drops(), Some(sent - received));
    far.leave(Address::Socket(group)).expect("it is in it");
    assert_eq!(far.receive_drops(), Some(sent - received));
}
