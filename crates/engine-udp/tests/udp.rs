//! Datagrams between two endpoints.

use engine::test_kit::written;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CloseReason, Deliveries, Event,
    Instant, Note, Path, Protocol, Received, SendFlags, SplitMix64,
};
use engine_udp::{MESSAGE_MAX, Udp, UdpConfig};
use std::time::Duration;

const START: Instant = Instant::from_nanos(0);

fn endpoint(checksum: bool) -> Udp {
    let mut endpoint = Udp::new(UdpConfig {
        checksum,
        ..UdpConfig::default()
    });
    endpoint.listen(true);
    endpoint
}

fn byte(at: u64) -> u8 {
    (at * 31 + at / 251) as u8
}

/// The packets of an endpoint that has connected to station 2 and sends messages of these lengths.
fn packets(sender: &mut Udp, lens: &[u64]) -> Vec<Vec<u8>> {
    let id = sender.connect(START, &[Address::Station(2)]).expect("room");
    let mut end = 0;
    for (number, len) in lens.iter().enumerate() {
        end += len;
        let note = Note {
            tag: Some(number as u64 + 1),
            ..Note::default()
        };
        sender.submit(START, id, end, SendFlags::END_OF_MESSAGE, &note);
    }
    let mut packets = Vec::new();
    let mut batch = Batch::new(3);
    loop {
        batch.clear();
        sender.poll_transmit(START, &mut batch);
        if batch.is_empty() {
            return packets;
        }
        assert_eq!(batch.path(), Some(Path::to(Address::Station(2))));
        packets.extend(written(&batch, |_, range, out| {
            out.extend(range.clone().map(byte))
        }));
    }
}

/// The messages that arrive: their number and octets.
fn received(receiver: &mut Udp, packets: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut messages = Vec::new();
    for packet in packets {
        let mut deliveries = Deliveries::default();
        let path = Path::to(Address::Station(1));
        receiver.handle_packet(START, Received::new(path, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            assert!(delivery.end_of_message && !delivery.gap);
            let octets = match delivery.bytes {
                Bytes::Packet(range) => packet[range].to_vec(),
                Bytes::Reassembled(octets) => octets,
            };
            messages.push((delivery.note.tag.unwrap_or(0), octets));
        }
    }
    messages
}

#[test]
fn long_datagrams_travel_in_fragments_of_the_medium() {
    for checksum in [true, false] {
        let (mut sender, mut receiver) = (endpoint(checksum), endpoint(checksum));
        let lens = [0, 1, 1472, 1473, 8192, MESSAGE_MAX];
        let packets = packets(&mut sender, &lens);
        // 8,200 octets of a datagram in pieces of 1,480.
        let of_each = [1, 1, 1, 2, 6, 45];
        assert_eq!(packets.len(), of_each.iter().sum::<usize>());
        assert!(packets.iter().all(|packet| packet.len() <= 1500));
        let mut at = 0;
        for ((number, octets), len) in received(&mut receiver, &packets).into_iter().zip(lens) {
            assert_eq!(
                octets,
                (at..at + len).map(byte).collect::<Vec<u8>>(),
                "message {number}"
            );
            at += len;
        }
        assert_eq!(
            receiver.counters().bytes_delivered,
            lens.iter().sum::<u64>()
        );
        let events: Vec<Event> = std::iter::from_fn(|| receiver.poll_event()).collect();
        assert_eq!(
            events,
            [Event::Accepted(AssociationId(1), Address::Station(1))]
        );
        let released: u64 = std::iter::from_fn(|| sender.poll_event())
            .map(|event| match event {
                Event::Released(_, range) => range.end - range.start,
                _ => 0,
            })
            .sum();
        assert_eq!(released, at, "nothing is kept for a retransmission");
    }
}

#[test]
fn loss_of_a_fragment_loses_the_datagram_and_no_other() {
    for lost in 0..6 {
        let mut packets = packets(&mut endpoint(true), &[8192, 8192]);
        packets.remove(lost);
        let mut receiver = endpoint(true);
        let numbers: Vec<u64> = received(&mut receiver, &packets)
            .iter()
            .map(|one| one.0)
            .collect();
        assert_eq!(numbers, [2], "fragment {lost}");
        let deadline = receiver.poll_timeout().expect("fragments wait");
        assert_eq!(deadline, START + Duration::from_secs(30));
        receiver.handle_timeout(deadline);
        assert_eq!(receiver.poll_timeout(), None);
        assert_eq!(receiver.counters().packets_discarded, 1);
    }
}

#[test]
fn wrong_octets_are_found_with_a_checksum_alone() {
    for checksum in [true, false] {
        let mut packets = packets(&mut endpoint(checksum), &[100]);
        packets[0][60] ^= 1;
        let arrived = received(&mut endpoint(checksum), &packets);
        assert_eq!(arrived.is_empty(), checksum);
    }
}

#[test]
fn user_that_does_not_read_loses_what_does_not_fit() {
    let config = UdpConfig {
        receive_buffer: 250,
        ..UdpConfig::default()
    };
    let mut receiver = Udp::new(config);
    receiver.listen(true);
    let packets = packets(&mut endpoint(true), &[100, 100, 100, 50, 100]);
    let first = received(&mut receiver, &packets[..4]);
    let numbers: Vec<u64> = first.iter().map(|one| one.0).collect();
    assert_eq!(numbers, [1, 2, 4]);
    receiver.consume(START, AssociationId(1), 200);
    assert_eq!(received(&mut receiver, &packets[4..]).len(), 1);
}

#[test]
fn too_long_messages_never_leave_and_closing_waits_for_those_that_do() {
    let mut sender = endpoint(true);
    assert!(packets(&mut sender, &[MESSAGE_MAX + 1]).is_empty());
    assert_eq!(sender.counters().bytes_lost, MESSAGE_MAX + 1);
    let id = AssociationId(1);
    sender.submit(
        START,
        id,
        MESSAGE_MAX + 101,
        SendFlags::END_OF_MESSAGE,
        &Note::default(),
    );
    sender.close(START, id, Close::Graceful);
    while let Some(event) = sender.poll_event() {
        assert!(!matches!(event, Event::Closed(..)));
    }
    sender.poll_transmit(START, &mut Batch::new(1));
    let events: Vec<Event> = std::iter::from_fn(|| sender.poll_event()).collect();
    assert_eq!(
        events.last(),
        Some(&Event::Closed(id, CloseReason::Graceful))
    );
}

#[test]
fn nobody_listens_and_nothing_is_delivered() {
    let packets = packets(&mut endpoint(true), &[100, 3000]);
    let mut deaf = Udp::new(UdpConfig::default());
    assert!(received(&mut deaf, &packets).is_empty());
    assert_eq!(deaf.poll_event(), None);
}

#[test]
fn mutated_packets_never_panic() {
    let good = packets(&mut endpoint(false), &[10, 3000, 5000]);
    let mut random = SplitMix64::new(7);
    let mut receiver = endpoint(false);
    for _ in 0..20_000 {
        let mut packet = good[random.below(good.len() as u64) as usize].clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(packet.len().min(40) as u64) as usize;
            packet[at] = random.next_u64() as u8;
        }
        packet.truncate(1 + random.below(packet.len() as u64) as usize);
        if random.below(2) == 0 && packet.len() >= 20 {
            // With a length and a sum that are right, the rest is looked at.
            let len = (packet.len() as u16).to_be_bytes();
            packet[2..4].copy_from_slice(&len);
            packet[10..12].fill(0);
            let check = engine::checksum::checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        received(&mut receiver, &[packet]);
    }
}

/// The ports of the first packets, and the numbers of their datagrams, of an endpoint that connects twice to a peer at this time.
fn starts_at(now: Instant) -> Vec<(u16, u16)> {
    let mut sender = endpoint(true);
    let mut starts = Vec::new();
    for _ in 0..2 {
        let id = sender.connect(now, &[Address::Station(2)]).expect("room");
        sender.submit(now, id, 8, SendFlags::END_OF_MESSAGE, &Note::default());
        let mut batch = Batch::new(3);
        sender.poll_transmit(now, &mut batch);
        for packet in batch.packets() {
            let mut octets = Vec::new();
            batch.write(packet, &mut octets, |_, range, out| {
                out.extend(range.clone().map(byte))
            });
            let word = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
            starts.push((word(20), word(4)));
        }
    }
    starts
}

#[test]
fn endpoint_that_restarts_takes_up_no_port_and_no_number_of_its_earlier_life() {
    let at = |ms: u64| START + Duration::from_millis(ms);
    let first = starts_at(START);
    assert_eq!(first, [(1024, 0), (1025, 1)]);
    for ms in [1, 2, 683, 9000] {
        let later = starts_at(at(ms));
        assert_eq!(later.len(), 2, "{ms}");
        let is_new = |(port, number): &(u16, u16)| {
            first
                .iter()
                .all(|(old, old_number)| port != old && number != old_number)
        };
        assert!(later.iter().all(is_new), "{ms}: {later:?}");
    }
    assert!(starts_at(at(1 << 40)).iter().all(|(port, _)| *port >= 1024));
}
