//! Packet rings on interfaces of a namespace of the test's own.

use engine::Address;
use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};
use testbed::{INTERFACE, Testbed, TestbedPlan};
use wire::Wire;
use wire_ether::{Encapsulation, EtherWire, EtherWireConfig, Interface};

/// Longest wait of any test.
const LIMIT: Duration = Duration::from_secs(10);

fn settings() -> EtherWireConfig {
    EtherWireConfig {
        ethertype: 0x88b5,
        packet_max: 1500,
        bypass: false,
        encapsulation: Encapsulation::EtherType,
    }
}

/// The first two octets of a packet are its length.
fn packet_len(packet: &[u8]) -> Option<usize> {
    let len = packet.first_chunk::<2>()?;
    Some(usize::from(u16::from_be_bytes(*len)))
}

/// Two hosts and a wire in each; prints SKIPPED and returns None where this user may not make them.
fn wires(settings: EtherWireConfig, links: &str) -> Option<(Testbed, [EtherWire; 2])> {
    let plan = TestbedPlan::pair(links.parse().expect("a link"), 1);
    let testbed = Testbed::up_or_skip(&plan)?;
    let wires = [0, 1].map(|at| {
        let made = testbed.hosts()[at].run(move || {
            let interface = Interface::find(INTERFACE)?;
            let mut wire = EtherWire::open(interface, &settings)?;
            wire.set_packet_len(packet_len);
            Ok::<_, std::io::Error>(wire)
        });
        made.expect("the host lives")
            .expect("its owner may open sockets")
    });
    Some((testbed, wires))
}

fn packet(len: usize, mark: u8) -> Vec<u8> {
    let mut packet = vec![mark; len];
    packet[..2].copy_from_slice(&(len as u16).to_be_bytes());
    packet
}

fn send(wire: &mut EtherWire, to: Address, octets: &[u8], segment_size: usize) {
    let (front, back) = octets.split_at(octets.len() / 3);
    let end = Instant::now() + LIMIT;
    loop {
        match wire.send(
            to.into(),
            &[IoSlice::new(front), IoSlice::new(back)],
            segment_size,
        ) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < end, "no room");
        std::thread::yield_now();
    }
}

fn receive(wire: &mut EtherWire, count: usize) -> (Address, Vec<Vec<u8>>) {
    let mut buffer = vec![0; wire.capabilities().receive_len];
    let end = Instant::now() + LIMIT;
    let (mut from, mut packets) = (Address::Station(0), Vec::new());
    while packets.len() < count {
        match wire.receive(&mut buffer) {
            Ok(arrival) => {
                from = arrival.path.remote;
                let new = buffer[..arrival.len].chunks(arrival.segment_size);
                packets.extend(new.map(<[u8]>::to_vec));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < end, "{} of {count} came", packets.len());
        std::thread::yield_now();
    }
    (from, packets)
}

#[test]
fn batches_stay_in_order_across_ring_wraparound() {
    for (bypass, encapsulation) in [
        (false, Encapsulation::EtherType),
        (true, Encapsulation::EtherType),
        (false, Encapsulation::Llc),
    ] {
        let settings = EtherWireConfig {
            bypass,
            encapsulation,
            ..settings()
        };
        let Some((_testbed, [mut near, mut far])) = wires(settings, "kernel") else {
            return;
        };
        let to = far.address();
        let full = 1500 - encapsulation.overhead();
        for round in 0..100u8 {
            let mut octets = packet(full, round).repeat(40);
            octets.extend(packet(700, round));
            send(&mut near, to, &octets, full);
            let (from, packets) = receive(&mut far, 41);
            assert_eq!(from, near.address());
            let sent: Vec<&[u8]> = octets.chunks(full).collect();
            assert!(packets == sent, "round {round}");
        }
        assert_eq!(far.receive_drops(), Some(0));
    }
}

#[test]
fn full_send_ring_would_block_and_loses_nothing() {
    // Nothing is received until all is sent: as much as the receive ring holds.
    let Some((_testbed, [mut near, mut far])) = wires(settings(), "kernel") else {
        return;
    };
    let to = far.address();
    let mut octets = Vec::new();
    for number in 0..64 {
        octets.extend(packet(1000, number));
    }
    for _ in 0..30 {
        send(&mut near, to, &octets, 1000);
    }
    let (_, packets) = receive(&mut far, 30 * 64);
    for (packet, sent) in packets.iter().zip(octets.chunks(1000).cycle()) {
        assert!(packet == sent);
    }
    assert_eq!(far.receive_drops(), Some(0));
}

/// Nothing is received until more was sent than the receive ring holds.
#[test]
fn frames_that_a_full_ring_drops_are_counted_each_time() {
    let Some((_testbed, [mut near, mut far])) = wires(settings(), "kernel") else {
        return;
    };
    let octets = packet(1000, 1).repeat(64);
    let mut dropped = 0;
    for _ in 0..2 {
        for _ in 0..50 {
            send(&mut near, far.address(), &octets, 1000);
        }
        let sent = 50 * 64;
        let mut buffer = vec![0; far.capabilities().receive_len];
        let mut received = 0;
        while let Ok(arrival) = far.receive(&mut buffer) {
            received += arrival.len / 1000;
        }
        assert!(received > 0 && received < sent, "{received} of {sent}");
        dropped += (sent - received) as u64;
        assert_eq!(
            far.receive_drops(),
            Some(dropped),
            "it asks the kernel, which forgets"
        );
        assert_eq!(far.receive_drops(), Some(dropped));
    }
}

#[test]
fn short_frames_lose_padding_and_multicast_arrives() {
    let Some((_testbed, [mut near, mut far])) = wires(settings(), "") else {
        return;
    };
    let to = far.address();
    for len in [2, 20, 45, 46, 47] {
        send(&mut near, to, &packet(len, 9), 1500);
        let (_, packets) = receive(&mut far, 1);
        assert_eq!(packets, [packet(len, 9)]);
    }
    let group = Address::Ether([1, 0, 0x5e, 1, 2, 3]);
    far.join(group).expect("an interface has groups");
    send(&mut near, group, &packet(100, 5), 1500);
    assert_eq!(receive(&mut far, 1).1, [packet(100, 5)]);
    let again = far.join(group).expect_err("it is in it");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    far.leave(group).expect("it was in it");
    let again = far.leave(group).expect_err("it is out of it");
    assert_eq!(again.kind(), ErrorKind::NotFound);
    far.join(group).expect("it left");
    send(&mut near, group, &packet(100, 6), 1500);
    assert_eq!(receive(&mut far, 1).1, [packet(100, 6)]);
}

#[test]
fn receiver_waits_and_ignores_frames_for_other_hosts() {
    let Some((_testbed, [mut near, far])) = wires(settings(), "") else {
        return;
    };
    let receiver = far.receiver().expect("it has one");
    let mut buffer = vec![0; 65_536];
    let mut read = || {
        let end = Instant::now() + LIMIT;
        loop {
            match receiver.receive(&mut buffer) {
                Ok(arrival) => return buffer[..arrival.len].to_vec(),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(Instant::now() < end, "nothing arrives");
        }
    };
    // A frame for another host, then one for this host.
    send(
        &mut near,
        Address::Ether([2, 9, 9, 9, 9, 9]),
        &packet(60, 1),
        1500,
    );
    send(&mut near, far.address(), &packet(60, 2), 1500);
    assert_eq!(read(), packet(60, 2));
}

#[test]
fn oversized_packet_and_wrong_address_are_rejected() {
    let Some((_testbed, [mut near, far])) = wires(settings(), "kernel") else {
        return;
    };
    let slices = [IoSlice::new(&[0; 1501])];
    let error = near
        .send(far.address().into(), &slices, 1501)
        .expect_err("too long");
    assert!(error.to_string().contains("MTU"), "{error}");
    for to in [
        Address::Station(1),
        Address::Socket(([10, 0, 0, 1], 9).into()),
    ] {
        let slices = [IoSlice::new(b"x")];
        let error = near
            .send(to.into(), &slices, 1)
            .expect_err("no hardware address");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(near.join(to).is_err());
    }
    assert!(near.join(far.address()).is_err(), "a host is no group");
}

/// A socket that one process opens and another uses: it hears one source.
#[test]
fn socket_for_one_source_hears_no_other() {
    use wire_ether::packet::{self, OutgoingFrames, PacketSocketOptions};
    let Some((testbed, [mut sender, receiver])) = wires(settings(), "delay=100us") else {
        return;
    };
    let Address::Ether(source) = sender.address() else {
        panic!("it has a hardware address");
    };
    let open = |source| {
        let opened = testbed.hosts()[1].run(move || {
            let interface = Interface::find(INTERFACE)?;
            let opening = PacketSocketOptions {
                ethertype: 0x88b5,
                port: None,
                source: Some(source),
                outgoing: OutgoingFrames::Ignored,
                timestamped: false,
                receive_buffer: None,
                nonblocking: true,
            };
            let (socket, _) = packet::open(&interface, &opening)?;
            let mut wire = EtherWire::over(socket, interface, &settings())?;
            wire.set_packet_len(packet_len);
            Ok::<_, std::io::Error>(wire)
        });
        opened.expect("the host lives").expect("a socket")
    };
    let other = [
        source[0],
        source[1],
        source[2],
        source[3],
        source[4],
        source[5] ^ 1,
    ];
    let (mut hears, mut deaf) = (open(source), open(other));
    send(&mut sender, receiver.address(), &packet(100, 7), 100);
    let (from, packets) = receive(&mut hears, 1);
    assert_eq!(from, sender.address());
    assert_eq!(packets, [packet(100, 7)]);
    let nothing = deaf.receive(&mut vec![0; 65_536]);
    assert_eq!(
        nothing.expect_err("not for it").kind(),
        ErrorKind::WouldBlock
    );
}
