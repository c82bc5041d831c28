//! The functions of the fuzz target on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says; and offers of peers that lie.

#[path = "../../../../fuzz/src/shortcut.rs"]
mod targets;

use crate::drawn::{drawn_octets, seeds};
use crate::support::{HERE, Pair, address, on, receive_one, send, wire};
use wire::Wire;
use wire_shortcut::{MeetingPlace, ShortcutWire, offer};

#[test]
fn drawn_datagrams_are_packets_or_offers_that_nobody_made() {
    let seeds = seeds(300);
    let rounds = seeds.end - seeds.start;
    let octets = seeds.map(|seed| drawn_octets(seed, 300));
    let whole: u64 = octets.map(|octets| targets::datagrams(&octets)).sum();
    assert!(2 * whole > rounds, "{whole} packets of {rounds} scripts");
}

#[test]
fn offer_that_was_forged_or_that_nobody_waits_for_makes_no_ring() {
    let mut far = on(MeetingPlace::Namespace);
    let mut stranger = ShortcutWire::off(wire());
    let to = address(&far);
    let right = offer::encode(&HERE, &[1; offer::NONCE_LEN]);
    let mut forged = right;
    forged[offer::OFFER_LEN - 1] ^= 1;
    for one in [right, forged] {
        send(&mut stranger, to, &one, offer::OFFER_LEN);
    }
    send(&mut stranger, to, b"packet", 6);
    assert_eq!(receive_one(&mut far).0, b"packet", "offers are no packets");
    assert!(far.handle().expect("it is on").rings().is_empty());
}

#[test]
fn offer_in_one_datagram_with_packets_is_taken_out_of_them() {
    let mut far = on(MeetingPlace::Namespace);
    let mut stranger = ShortcutWire::off(wire());
    let packet = [b'p'; 60];
    let right = offer::encode(&HERE, &[1; offer::NONCE_LEN]);
    let together = [&packet[..], &packet, &right].concat();
    // Segmentation by the kernel: two packets of 60 octets, then one of 40.
    send(&mut stranger, address(&far), &together, packet.len());
    let mut octets = Vec::new();
    while octets.len() < 2 * packet.len() {
        octets.extend(receive_one(&mut far).0);
    }
    assert_eq!(octets, [packet, packet].concat());
    send(&mut stranger, address(&far), b"next", 4);
    assert_eq!(receive_one(&mut far).0, b"next");
}

/// An end that floods its ring does not keep the other from hearing others.
#[test]
fn ring_that_never_pauses_leaves_udp_its_turn() {
    let mut pair = Pair::met();
    let mut stranger = ShortcutWire::off(wire());
    let to = address(&pair.far);
    send(&mut stranger, to, b"stranger", 8);
    for _ in 0..200 {
        send(&mut pair.near, to, b"flood", 5);
        let (octets, arrival) = receive_one(&mut pair.far);
        if octets == b"stranger" {
            assert_ne!(
                arrival.path.remote,
                engine::Address::Socket(address(&pair.near))
            );
            return;
        }
    }
    panic!("200 packets of a ring before one of UDP");
}

#[test]
fn wire_in_use_has_the_capabilities_of_udp() {
    let pair = Pair::met();
    assert_eq!(pair.near.capabilities(), pair.near.udp().capabilities());
}
