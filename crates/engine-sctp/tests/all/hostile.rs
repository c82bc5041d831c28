//! Hostile peers: nothing panics, loops long or takes memory without bound.

use engine::test_kit::{take_packets, zeros};
use engine::{Address, Deliveries, Instant, Path, Protocol, Received, Secret, SplitMix64};
use engine::{Associations, Bytes};
use engine_sctp::numbers::Tag;
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::{ChunkType, CommonHeader, Init};
use engine_sctp::{DiscardReason, Sctp, SctpConfig};

fn endpoint(seed: u64) -> Sctp {
    let mut engine = Sctp::new(SctpConfig {
        seed,
        secret: Secret::from_seed(seed),
        associations_max: 8,
        receive_buffer: 20_000,
        ..SctpConfig::default()
    });
    engine.listen(true);
    engine
}

/// Everything an endpoint sends now.
fn packets(engine: &mut Sctp, now: Instant) -> Vec<Vec<u8>> {
    let sent = take_packets(engine, now, 16, zeros);
    sent.into_iter().map(|(_, octets)| octets).collect()
}

#[test]
fn flood_of_inits_leaves_no_state() {
    let mut engine = endpoint(1);
    let now = Instant::from_nanos(1);
    let mut deliveries = Deliveries::default();
    for number in 0..5000u32 {
        let init = Init {
            tag: Tag(number + 1),
            rwnd: 10_000,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Default::default(),
            parameters: Default::default(),
        };
        let header = CommonHeader {
            source: Default::default(),
            destination: SctpConfig::default().port,
            tag: Tag::NONE,
        };
        let mut packet = header.emit().to_vec();
        init.push(&mut packet, ChunkType::INIT);
        complete_checksum(&mut packet);
        let from = Path::to(Address::Station(number));
        engine.handle_packet(now, Received::new(from, &packet), &mut deliveries);
    }
    assert_eq!(engine.associations_len(), 0);
    assert_eq!(
        packets(&mut engine, now).len(),
        1024,
        "answers have a limit"
    );
    assert_eq!(engine.discards().count(DiscardReason::Full), 5000 - 1024);
}

/// Two endpoints exchange packets, some of them changed in one place with the checksum made right again.
fn exchange(seed: u64, rounds: usize) -> (u64, u64) {
    let mut random = SplitMix64::new(seed);
    let mut ends = [endpoint(2 * seed), endpoint(2 * seed + 1)];
    let stations = [0, 1].map(Address::Station);
    let mut ids = Vec::new();
    let mut waiting: [Vec<Vec<u8>>; 2] = Default::default();
    let (mut delivered, mut position) = (0, 0);
    let mut deliveries = Deliveries::default();
    for round in 0..rounds {
        let now = Instant::from_nanos(1_000_000 * (round as u64 + 1));
        if ids.len() < 4
            && random.below(4) == 0
            && let Ok(id) = ends[0].connect(now, &[stations[1]])
        {
            ids.push(id);
        }
        position += 1 + random.below(3000);
        for id in &ids {
            crate::support::submit_message(&mut ends[0], *id, position, &Default::default());
        }
        for end in &mut ends {
            end.handle_timeout(now);
        }
        for from in 0..2 {
            let sent = packets(&mut ends[from], now);
            waiting[from].extend(sent);
            for mut packet in std::mem::take(&mut waiting[from]) {
                if random.below(3) == 0 {
                    let at = 12 + random.below(packet.len() as u64 - 12) as usize;
                    packet[at] = random.next_u64() as u8;
                    complete_checksum(&mut packet);
                }
                let received = Received::new(stations[from], &packet);
                ends[1 - from].handle_packet(now, received, &mut deliveries);
                for delivery in deliveries.bytes.drain(..) {
                    if let Bytes::Packet(range) = &delivery.bytes {
                        assert!(range.end <= packet.len());
                    }
                    delivered += 1;
                    ends[1 - from].consume(now, delivery.association, 1000);
                }
                deliveries.clear();
            }
        }
        for end in &mut ends {
            while let Some(event) = end.poll_event() {
                if let engine::Event::Closed(id, _) = event {
                    ids.retain(|one| *one != id);
                }
            }
            assert!(end.associations_len() <= 8);
        }
    }
    (delivered, ends[1].counters().packets_discarded)
}

#[test]
fn changed_packets_neither_panic_nor_open_more_than_allowed() {
    let (mut delivered, mut discarded) = (0, 0);
    for seed in 0..60 {
        let outcome = exchange(seed, 150);
        delivered += outcome.0;
        discarded += outcome.1;
    }
    assert!(
        delivered > 1000 && discarded > 100,
        "{delivered} {discarded}"
    );
}

#[test]
fn random_octets_are_dropped() {
    let mut random = SplitMix64::new(3);
    let mut engine = endpoint(3);
    let mut deliveries = Deliveries::default();
    let now = Instant::from_nanos(1);
    for _ in 0..50_000 {
        let mut packet: Vec<u8> = (0..random.below(90))
            .map(|_| random.next_u64() as u8)
            .collect();
        if packet.len() >= 16 {
            packet[12] = random.below(20) as u8;
            packet[4..8].fill(0);
            packet[2..4].copy_from_slice(&5000u16.to_be_bytes());
            complete_checksum(&mut packet);
        }
        engine.handle_packet(
            now,
            Received::new(Address::Station(9), &packet),
            &mut deliveries,
        );
        packets(&mut engine, now);
    }
    assert_eq!(engine.associations_len(), 0);
    assert!(deliveries.is_empty());
}

#[test]
fn random_scripts_pass_the_checks_of_the_fuzz_targets() {
    let mut random = SplitMix64::new(17);
    let mut delivered = 0;
    for _ in crate::drawn::seeds(400) {
        let mut octets: Vec<u8> = (0..600).map(|_| random.next_u64() as u8).collect();
        octets[1..3].copy_from_slice(&[5, 0]);
        delivered += crate::fuzz::script(&octets).unwrap_or(0);
        crate::fuzz::packet(&octets);
        crate::fuzz::cookie(&octets);
    }
    assert!(
        delivered > 10_000,
        "only {delivered} bytes: the test checks too little"
    );
}
