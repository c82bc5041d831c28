//! Packets on the loopback.

use crate::{EXPERIMENT, LIMIT, address, receive, send, wire};
use engine::Address;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::Wire;

/// Packets of `len` octets, numbered in their first octet.
fn numbered(count: usize, len: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| std::iter::repeat_n(number as u8, len))
        .collect()
}

#[test]
fn batch_arrives_in_order_with_shorter_last_packet() {
    for (near, far) in [("127.8.1.1", "127.8.1.2"), ("::1", "::1")] {
        let (Some(mut near), Some(mut far)) = (wire(near, EXPERIMENT), wire(far, EXPERIMENT))
        else {
            continue;
        };
        let mut octets = numbered(40, 1000);
        octets.truncate(39_300);
        let to = address(&far);
        send(&mut near, to, &octets, 1000);
        let mut got = Vec::new();
        while got.len() < 40 {
            let (arrival, packets) = receive(&mut far);
            assert_eq!(arrival.path.remote, address(&near));
            got.extend(packets);
        }
        let sent: Vec<&[u8]> = octets.chunks(1000).collect();
        assert!(got == sent, "{to:?}");
        assert!(!far.has_buffered());
    }
}

#[test]
fn packets_of_two_senders_are_not_merged_or_left_buffered() {
    let wires = ["127.8.2.1", "127.8.2.2", "127.8.2.3"].map(|local| wire(local, EXPERIMENT));
    let [Some(mut one), Some(mut two), Some(mut far)] = wires else {
        return;
    };
    let to = address(&far);
    for number in 0..12 {
        send(&mut one, to, &numbered(1, 300 + number), 1500);
        send(&mut two, to, &numbered(2, 200), 200);
    }
    let (mut from_one, mut from_two) = (Vec::new(), 0);
    while from_one.len() < 12 || from_two < 24 {
        let (arrival, packets) = receive(&mut far);
        if arrival.path.remote == address(&one) {
            from_one.extend(packets.iter().map(Vec::len));
        } else {
            assert_eq!(arrival.path.remote, address(&two));
            from_two += packets.len();
        }
    }
    assert_eq!(from_one, (300..312).collect::<Vec<_>>());
    let error = far.receive(&mut [0; 65_536]).expect_err("all came");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn receiver_waits_and_times_out() {
    let wires = ["127.8.3.1", "127.8.3.2"].map(|local| wire(local, EXPERIMENT));
    let [Some(mut near), Some(mut far)] = wires else {
        return;
    };
    let mut buffer = vec![0; 65_536];
    let receiver = far.receiver().expect("a wire without groups has one");
    let error = receiver.receive(&mut buffer).expect_err("nothing comes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    far.set_max_wait(Some(LIMIT)).expect("a limit");
    let receiver = far.receiver().expect("a wire without groups has one");
    let to = address(&far);
    let sending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        send(&mut near, to, b"late", 10);
    });
    let arrival = receiver.receive(&mut buffer).expect("it comes");
    assert_eq!(&buffer[..arrival.len], b"late");
    sending.join().expect("it was sent");
}

#[test]
fn new_wire_holds_no_packets_to_other_addresses() {
    let Some(mut near) = wire("127.8.5.1", EXPERIMENT) else {
        return;
    };
    let over = AtomicBool::new(false);
    let to = SocketAddr::new([127, 8, 5, 2].into(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                send(&mut near, Address::Socket(to), b"knock", 5);
            }
        });
        let held = (0..1000).any(|_| {
            let mut far = wire("127.8.5.3", EXPERIMENT).expect("as the other");
            far.receive(&mut [0; 65_536]).is_ok()
        });
        over.store(true, Ordering::Relaxed);
        assert!(!held);
    });
}

#[test]
fn send_rejects_non_internet_address() {
    let Some(mut near) = wire("127.8.4.1", EXPERIMENT) else {
        return;
    };
    for to in [Address::Station(1), Address::Ether([2; 6])] {
        let slices = [std::io::IoSlice::new(b"x")];
        let error = near
            .send(to.into(), &slices, 1)
            .expect_err("no Internet address");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
