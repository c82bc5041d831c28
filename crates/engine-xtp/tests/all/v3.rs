//! Associations of XTP 3.x: sequence number wrap, control packets with rates, dseq in DATA, mutated
//! packets.

use crate::drawn::seeds;
use crate::fuzz::targets::fix_checksums;
use crate::pair::{MS, Outcome, both, clean, joined, messages, packet_log, run};
use crate::user::Plan;
use core::time::Duration;
use engine::{
    Address, Associations, AssociationsExt, Batch, CloseReason, Deliveries, Framing, Instant,
    Protocol, Received, SplitMix64,
};
use engine_xtp::pdu::v3::{BodyV3, HeaderV3, PacketKind, PacketV3};
use engine_xtp::pdu::{Options, Service, Version};
use engine_xtp::{Config, ErrorControl, Holdings, RateLimit, StatusRequestKind, Xtp};
use link::LinkConfig;

const ALL: [Version; 3] = [Version::V33, Version::V35, Version::V36];

fn config(version: Version) -> Config {
    Config {
        version,
        packet_len: 1500,
        ..Config::default()
    }
}

fn plan(sends: Vec<Vec<u8>>, answers: bool) -> Plan {
    Plan {
        sends,
        answers,
        ..Plan::default()
    }
}

fn packets(outcome: &Outcome, version: Version) -> Vec<(usize, PacketV3<'_>)> {
    let parse = |line: &'_ crate::pair::TraceLine| line.from;
    let froms: Vec<usize> = outcome.trace.iter().map(parse).collect();
    let packets = outcome
        .trace
        .iter()
        .map(|line| PacketV3::parse(version, &line.packet).expect("an engine sends good packets"));
    froms.into_iter().zip(packets).collect()
}

/// Both sides send beyond the wrap of the 32-bit sequence numbers, over faulty links.
#[test]
fn sequence_numbers_wrap_under_faults() {
    let mut wrapped = 0;
    for seed in seeds(240) {
        let mut random = SplitMix64::new(seed);
        let version = ALL[seed as usize % 3];
        let link = LinkConfig {
            loss_ppm: random.below(60_000) as u32,
            duplicate_ppm: random.below(50_000) as u32,
            reorder_ppm: random.below(60_000) as u32,
            reorder_ps: random.below(20) * MS,
            corrupt_ppm: random.below(10_000) as u32,
            ..clean()
        };
        let config = Config {
            initial_seq: Some(u32::MAX - random.below(60_000) as u32),
            fixed_pairs: random.below(2) == 0,
            error: [ErrorControl::Selective, ErrorControl::GoBackN][random.below(2) as usize],
            status_request_kind: [StatusRequestKind::Received, StatusRequestKind::Delivered]
                [random.below(2) as usize],
            explicit: random.below(2) == 0,
            fastnak: random.below(2) == 0,
            window: 8192 << random.below(6),
            ..config(version)
        };
        let sent = [0, 1].map(|_| messages(&mut random, 60));
        let plans = sent.clone().map(|sends| plan(sends, false));
        let outcome = run(both(&config, seed), plans, link, seed);
        for side in [0, 1] {
            let (got, sent) = (joined(&outcome.received[side]), joined(&sent[1 - side]));
            assert!(
                got == sent,
                "seed {seed}, {version:?}: {} of {}",
                got.len(),
                sent.len()
            );
        }
        outcome.assert_ended(&format!("seed {seed}"));
        let low = |(_, packet): &(usize, PacketV3<'_>)| packet.header.seq < 1 << 30;
        wrapped += u64::from(packets(&outcome, version).iter().any(low));
    }
    assert!(
        wrapped > 100 || seeds(240).count() == 1,
        "{wrapped} runs wrapped around"
    );
}

#[test]
fn clean_link_no_retransmission_few_control_packets() {
    for version in ALL {
        let sent = messages(&mut SplitMix64::new(11), 1000);
        let plans = [plan(sent.clone(), false), plan(Vec::new(), false)];
        let outcome = run(both(&config(version), 1), plans, clean(), 11);
        assert!(
            joined(&outcome.received[1]) == joined(&sent),
            "bytes differ"
        );
        let retransmissions = outcome.counters.map(|counters| counters.retransmissions);
        assert_eq!(retransmissions, [0, 0], "{version:?}");
        assert_eq!(outcome.holdings, [Holdings::default(); 2]);
        let bytes = joined(&sent).len();
        let control = packets(&outcome, version)
            .iter()
            .filter(|(_, packet)| packet.header.kind == PacketKind::Cntl)
            .count();
        assert!(
            control <= bytes / (64 << 10) + 12,
            "{control} control packets for {bytes} bytes"
        );
        let longest = outcome.trace.iter().map(|line| line.packet.len()).max();
        assert_eq!(longest, Some(1500));
    }
}

#[test]
fn same_seed_gives_same_trace() {
    let link = LinkConfig {
        loss_ppm: 50_000,
        ..clean()
    };
    let trace = |seed: u64| {
        let sends = messages(&mut SplitMix64::new(3), 60);
        let plans = [plan(sends.clone(), false), plan(sends, false)];
        run(both(&config(Version::V36), seed), plans, link, seed).trace
    };
    assert!(trace(5) == trace(5));
    assert!(trace(5) != trace(6));
}

#[test]
fn transaction_takes_three_packets() {
    let mut found = Vec::new();
    for version in ALL {
        let transaction = Config {
            service: Service::Transaction,
            framing: Framing::Messages,
            ..config(version)
        };
        let plans = [
            plan(vec![b"what time is it?".to_vec()], false),
            plan(vec![b"late".to_vec()], true),
        ];
        let outcome = run(both(&transaction, 1), plans, clean(), 1);
        assert_eq!(
            outcome.received[0],
            [b"late".to_vec()],
            "{}",
            packet_log(&outcome.trace)
        );
        assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
        found.push(outcome.trace.len());
    }
    assert_eq!(
        found,
        [3, 3, 3],
        "setup, request, reply and close take three packets"
    );
}

#[test]
fn dreq_answered_by_dseq_in_data() {
    // A conversation: the dseq of each answer acknowledges that the user consumed the question.
    let config = Config {
        status_request_kind: StatusRequestKind::Delivered,
        status_interval_bytes: 1,
        initial_seq: Some(0),
        ..config(Version::V36)
    };
    let mut ends = crate::engine_pair::EnginePair::new(&config, 1);
    let (ends, id) = (&mut ends.0, ends.1[0]);
    let peer = ends.pairs[&id];
    let mut kinds = Vec::new();
    for round in 1..=10u64 {
        ends.engines[0].push(ends.now, id, 100 * round);
        for packet in ends.take(0, 10) {
            kinds.push(HeaderV3::parse(Version::V36, &packet).expect("good").kind);
            ends.arrive(1, &packet);
        }
        ends.engines[1].consume(ends.now, peer, 100);
        ends.engines[1].push(ends.now, peer, 50 * round);
        for packet in ends.take(1, 10) {
            let header = HeaderV3::parse(Version::V36, &packet).expect("good");
            assert_eq!(header.dseq, 100 * round as u32);
            kinds.push(header.kind);
            ends.arrive(0, &packet);
        }
        ends.engines[0].consume(ends.now, id, 50);
        assert_eq!(
            ends.engines[0].bytes_in_flight(id),
            0,
            "dseq in DATA acknowledged it"
        );
        ends.now = ends.now + Duration::from_micros(100);
    }
    let control = kinds[2..]
        .iter()
        .filter(|kind| **kind == PacketKind::Cntl)
        .count();
    assert!(control <= 12, "{kinds:?}");
}

#[test]
fn control_packets_carry_rate() {
    let limit = RateLimit {
        rate_bytes_per_s: 100_000,
        burst_bytes: 5000,
    };
    let mut configs = both(&config(Version::V35), 1);
    configs[1].rate = Some(limit);
    let plans = [plan(vec![vec![1; 100_000]], false), plan(Vec::new(), false)];
    let outcome = run(configs, plans, clean(), 1);
    assert_eq!(joined(&outcome.received[1]).len(), 100_000);
    let last = outcome.trace.iter().rfind(|line| line.packet.len() > 500);
    let last_ms = last.expect("data were sent").at_ps / MS;
    assert!((900..1400).contains(&last_ms), "{last_ms} ms");
    for (from, packet) in packets(&outcome, Version::V35) {
        if let BodyV3::Cntl(control, _) = packet.body {
            let rate = if from == 1 { 100_000 } else { u32::MAX };
            assert_eq!(control.rate, rate);
        }
    }
}

#[test]
fn amplification_limit_before_address_validation() {
    for version in ALL {
        for fixed_pairs in [false, true] {
            let config = Config {
                service: Service::Transaction,
                framing: Framing::Messages,
                fixed_pairs,
                ..config(version)
            };
            let plans = [
                plan(vec![vec![1; 3]], false),
                plan(vec![vec![3; 20_000]], true),
            ];
            let outcome = run(both(&config, 1), plans, clean(), 1);
            assert_eq!(joined(&outcome.received[0]).len(), 20_000, "{version:?}");
            let mut balance = 0i64;
            for line in &outcome.trace {
                let header = HeaderV3::parse(version, &line.packet).expect("a good packet");
                if line.from == 0 && header.key >> 31 != 0 {
                    break;
                }
                let len = line.packet.len() as i64;
                balance += if line.from == 0 { len } else { -len };
                assert!(balance >= 0, "{version:?}: {}", packet_log(&outcome.trace));
            }
        }
    }
}

/// Packets of valid sessions with flipped bits and corrected checks.
#[test]
fn endpoint_survives_mutated_packets() {
    for version in ALL {
        let sends = messages(&mut SplitMix64::new(1), 20);
        let plans = [plan(sends.clone(), false), plan(sends, false)];
        let link = LinkConfig {
            loss_ppm: 50_000,
            ..clean()
        };
        let recorded = run(both(&config(version), 1), plans, link, 1).trace;
        for seed in seeds(60) {
            run_mutated_packets(version, &recorded, seed);
        }
    }
}

fn run_mutated_packets(version: Version, recorded: &[crate::pair::TraceLine], seed: u64) {
    let mut random = SplitMix64::new(seed);
    let config = Config {
        window: 32 << 10,
        associations_max: 6,
        quarantine_max: 8,
        ..config(version)
    };
    let mut victim = Xtp::new(config);
    victim.listen(true);
    let mut now = Instant::from_nanos(1000);
    victim
        .connect(now, &[Address::Station(0)])
        .expect("room for one");
    for _ in 0..80 {
        let line = &recorded[random.below(recorded.len() as u64) as usize];
        let mut packet = line.packet.clone();
        for _ in 0..random.below(4) {
            let at = random.below(packet.len() as u64) as usize;
            packet[at] ^= random.next_u64() as u8;
        }
        packet.truncate(packet.len() - 4);
        if random.below(8) > 0 && !fix_checksums(version, &mut packet) {
            continue;
        }
        let mut deliveries = Deliveries::default();
        victim.handle_packet(
            now,
            Received::new(Address::Station(0), &packet),
            &mut deliveries,
        );
        now = now + Duration::from_micros(random.below(1 << 18));
        victim.handle_timeout(now);
        assert!(
            victim.poll_timeout().is_none_or(|at| at > now),
            "an expired timer stays armed"
        );
        let mut sent = 0;
        loop {
            let mut batch = Batch::new(1);
            victim.poll_transmit(now, &mut batch);
            if batch.is_empty() {
                break;
            }
            sent += 1;
            assert!(sent < 100, "seed {seed}: endless transmission");
        }
        while victim.poll_event().is_some() {}
        let holdings = victim.holdings();
        assert!(holdings.reassembly_bytes <= 6 * (32 << 10) && holdings.associations <= 6);
    }
    while let Some(at) = victim.poll_timeout() {
        now = at.max(now);
        victim.handle_timeout(now);
        let mut batch = Batch::new(1);
        victim.poll_transmit(now, &mut batch);
        while victim.poll_event().is_some() {}
        if now > Instant::from_nanos(600_000_000_000) {
            break;
        }
    }
}

#[test]
fn tags_and_v4_options_carried() {
    let config = Config {
        framing: Framing::Messages,
        sort: Some(4),
        ..config(Version::V36)
    };
    let sends = vec![vec![7; 20], vec![8; 3000]];
    let tagged = Plan {
        tags: vec![true, true],
        ..plan(sends.clone(), false)
    };
    let outcome = run(
        both(&config, 1),
        [tagged, plan(Vec::new(), false)],
        clean(),
        1,
    );
    assert_eq!(
        (&outcome.received[1], &outcome.tagged[1]),
        (&sends, &vec![true, true])
    );
    for (_, packet) in packets(&outcome, Version::V36) {
        assert!(packet.header.options.has(Options::SORT) && packet.header.sort == 4);
    }
}

#[test]
fn end_tags_not_split_under_loss() {
    let lossy = LinkConfig {
        loss_ppm: 100_000,
        ..clean()
    };
    for (number, version) in [Version::V36, Version::V35, Version::V33]
        .into_iter()
        .enumerate()
    {
        for window in [4096, 100_000] {
            for explicit in [true, false] {
                let config = Config {
                    framing: Framing::Messages,
                    window,
                    explicit,
                    ..config(version)
                };
                // Lengths around a packet's, so that tags would be split across packets.
                let sends: Vec<Vec<u8>> = (0..40).map(|at| vec![at as u8; 1440 + at]).collect();
                let ends: Vec<bool> = (0..40).map(|at| at % 3 != 1).collect();
                let begins: Vec<bool> = (0..40).map(|at| at % 2 == 0).collect();
                let tagged = |answers| Plan {
                    tags: begins.clone(),
                    end_tags: ends.clone(),
                    ..plan(sends.clone(), answers)
                };
                let outcome = run(
                    both(&config, 1),
                    [tagged(false), tagged(true)],
                    lossy,
                    7 + number as u64,
                );
                for side in 0..2 {
                    assert_eq!(outcome.received[side], sends);
                    assert_eq!(outcome.tagged[side], begins);
                    assert_eq!(outcome.end_tagged[side], ends);
                }
                assert_end_tags(&outcome, version);
            }
        }
    }
}

/// Checks that packets with an end tag carry the whole tag and end a message.
fn assert_end_tags(outcome: &Outcome, version: Version) {
    let mut count = 0;
    for (_, packet) in packets(outcome, version) {
        if packet.header.options.has(Options::ETAG) {
            assert!(packet.header.options.has(Options::EOM));
            count += 1;
        }
    }
    assert!(count >= 54, "{count} packets with a tag at their end");
}
