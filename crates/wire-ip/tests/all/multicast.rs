//! Multicast on raw IP and on UDP, which share their code.

use crate::{EXPERIMENT, LIMIT, address, receive, send, wire};
use engine::Address;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::Instant;
use testbed::{Testbed, TestbedPlan};
use wire::Wire;
use wire_ip::IpWire;
use wire_udp::UdpWire;

fn group(text: &str) -> Address {
    Address::Socket(text.parse().expect("a literal address"))
}

#[test]
fn multicast_reaches_each_member_and_replies_are_unicast() {
    let wires = ["127.8.5.1", "127.8.5.2", "127.8.5.3"].map(|local| wire(local, EXPERIMENT));
    let [Some(mut sender), Some(mut one), Some(mut two)] = wires else {
        return;
    };
    let to = group("239.8.5.1:0");
    for receiver in [&mut one, &mut two] {
        receiver.join(to).expect("the loopback carries groups");
    }
    send(&mut sender, to, b"to all", 10);
    for receiver in [&mut one, &mut two] {
        let (arrival, packets) = receive(receiver);
        assert_eq!(packets, [b"to all"]);
        send(receiver, arrival.path.remote, b"heard", 10);
        let (answer, _) = receive(&mut sender);
        assert_eq!(answer.path.remote, address(receiver));
    }
}

#[test]
fn udp_members_keep_their_own_ports() {
    let bind = || UdpWire::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let (mut sender, mut receivers) = (bind(), [bind(), bind()]);
    // The process's own port, so that the test receives nothing of other tests on this machine.
    let port = sender.local_addr().expect("bound").port();
    let to = group(&format!("239.8.6.1:{port}"));
    for receiver in &mut receivers {
        receiver.join(to).expect("the loopback carries groups");
        assert!(receiver.receiver().is_some());
    }
    let slices = [IoSlice::new(b"to all")];
    sender
        .send(to.into(), &slices, 10)
        .expect("room for a packet");
    let mut buffer = vec![0; 65_536];
    for receiver in &mut receivers {
        let from = poll(receiver, &mut buffer);
        assert_eq!(&buffer[..6], b"to all");
        let slices = [IoSlice::new(b"heard")];
        receiver
            .send(from.into(), &slices, 10)
            .expect("room for a packet");
        let own = receiver.local_addr().expect("bound");
        assert_eq!(poll(&mut sender, &mut buffer), Address::Socket(own));
    }
}

fn poll(wire: &mut impl Wire, buffer: &mut [u8]) -> Address {
    let end = Instant::now() + LIMIT;
    loop {
        match wire.receive(buffer) {
            Ok(arrival) => return arrival.path.remote,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < end, "nothing arrives");
        std::thread::yield_now();
    }
}

#[test]
fn multicast_reaches_another_host() {
    let plan = TestbedPlan::pair("".parse().expect("an empty link"), 1);
    let Some(testbed) = Testbed::up_or_skip(&plan) else {
        return;
    };
    let wires = [0, 1].map(|at| {
        let host = &testbed.hosts()[at];
        let local = host.address();
        let made = host.run(move || {
            let mut wire = IpWire::bind(local, EXPERIMENT)?;
            if at == 1 {
                wire.join(group("239.8.7.1:0"))?;
            }
            Ok::<_, std::io::Error>(wire)
        });
        made.expect("the host lives")
            .expect("its owner may open sockets")
    });
    let [mut near, mut far] = wires;
    send(&mut near, group("239.8.7.1:0"), b"across", 10);
    let (arrival, packets) = receive(&mut far);
    assert_eq!(
        (arrival.path.remote, &packets[0][..]),
        (address(&near), &b"across"[..])
    );
}

#[test]
fn join_rejects_unicast_address() {
    let mut udp = UdpWire::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let mut wrong = vec![group("10.0.0.1:9"), Address::Ether([3; 6])];
    wrong.push(Address::Socket(SocketAddr::from(([0; 16], 9))));
    for group in wrong {
        let error = udp.join(group).expect_err("it is none");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{group:?}");
    }
}

#[test]
fn group_joined_during_a_wait_reaches_the_receiver_until_it_is_left() {
    let wires = ["127.8.5.4", "127.8.5.5"].map(|local| wire(local, EXPERIMENT));
    let [Some(mut sender), Some(mut member)] = wires else {
        return;
    };
    member.set_max_wait(Some(LIMIT)).expect("a limit");
    let receiver = member.receiver().expect("it has one");
    let (began, begins) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        began.send(()).expect("somebody listens");
        let mut buffer = vec![0; 65_536];
        loop {
            match receiver.receive(&mut buffer) {
                Ok(arrival) => return buffer[..arrival.len].to_vec(),
                // The join ended the wait on the unicast socket.
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
        }
    });
    begins.recv().expect("it begins");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let to = group("239.8.5.4:0");
    member.join(to).expect("the loopback carries groups");
    let again = member.join(to).expect_err("it is in it");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    send(&mut sender, to, b"in time", 10);
    assert_eq!(waiting.join().expect("no panic"), b"in time");
    member.leave(to).expect("it was in it");
    let again = member.leave(to).expect_err("it is out of it");
    assert_eq!(again.kind(), ErrorKind::NotFound);
    send(&mut sender, to, b"too late", 10);
    send(&mut sender, address(&member), b"unicast", 10);
    assert_eq!(receive(&mut member).1, [b"unicast"]);
}

/// A UDP datagram from port 0, which only a raw socket can send: nobody could answer it.
#[test]
fn datagram_from_port_0_is_dropped_and_counted() {
    const UDP: u8 = 17;
    let Some(mut raw) = wire("127.8.5.6", UDP) else {
        return;
    };
    let mut udp = UdpWire::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let own = udp.local_addr().expect("bound");
    let receiver = udp.receiver().expect("it has one");
    let mut sender = UdpWire::bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let mut datagram = vec![0, 0];
    datagram.extend(own.port().to_be_bytes());
    // Its length, and no checksum.
    datagram.extend([0, 11, 0, 0]);
    datagram.extend(b"bad");
    let mut buffer = vec![0; 65_536];
    for waits in [false, true] {
        send(&mut raw, Address::Socket(own), &datagram, 100);
        let slices = [IoSlice::new(b"good")];
        let to = Address::Socket(own);
        sender.send(to.into(), &slices, 10).expect("room");
        let end = Instant::now() + LIMIT;
        let arrival = loop {
            let received = match waits {
                true => receiver.receive(&mut buffer),
                false => udp.receive(&mut buffer),
            };
            match received {
                Ok(arrival) => break arrival,
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock),
                    "{error}"
                ),
            }
            assert!(Instant::now() < end, "nothing arrives");
        };
        assert_eq!(&buffer[..arrival.len], b"good");
    }
    assert_eq!(udp.unanswerable(), 2);
}
