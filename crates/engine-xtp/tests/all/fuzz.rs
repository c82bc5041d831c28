//! The functions of the fuzz targets on mutated packets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/lib.rs"]
pub mod targets;

use crate::drawn::seeds;
use crate::pair::{both, clean, messages, run};
use crate::pdu::FORMATS;
use crate::user::Plan;
use engine::SplitMix64;
use engine_xtp::Config;
use engine_xtp::pdu::{HEADER_LEN, Header, Service};
use link::LinkConfig;
use targets::Summary;

/// Packets of valid sessions of all services, both directions.
fn recorded() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (seed, service) in [
        (1, Service::Stream),
        (2, Service::Transaction),
        (3, Service::AckedDatagram),
    ] {
        let config = Config {
            service,
            packet_len: 256,
            fastnak: true,
            ..Config::default()
        };
        let sends = messages(&mut SplitMix64::new(seed), 4);
        let plans = [sends.clone(), sends].map(|sends| Plan {
            sends,
            answers: false,
            ..Plan::default()
        });
        let [opener, other] = plans;
        let plans = match service {
            Service::AckedDatagram => [opener, Plan::default()],
            _ => [
                opener,
                Plan {
                    answers: true,
                    ..other
                },
            ],
        };
        let lossy = LinkConfig {
            loss_ppm: 50_000,
            ..clean()
        };
        let outcome = run(both(&config, seed), plans, lossy, seed);
        packets.extend(outcome.trace.into_iter().map(|line| line.packet));
    }
    packets
}

/// Flips bits, truncates, joins packets, or writes a boundary value into a field.
fn mutate(random: &mut SplitMix64, octets: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(octets.len().max(1) as u64) as usize;
    match random.below(6) {
        0 => octets.truncate(at),
        1 => {
            let from = random.below(other.len().max(1) as u64) as usize;
            octets.truncate(at);
            octets.extend_from_slice(&other[from.min(other.len())..]);
        }
        2 | 3 => {
            // Key, dlen, sync, seq, rseq, alloc, echo, spans.
            let fields = [0, 8, 12, 20, 24, 28, 32, 40, 48, 52, 56, 64];
            let at = fields[random.below(fields.len() as u64) as usize];
            let bits = random.below(64);
            let near_max = u64::MAX - random.below(4);
            let value = [random.next_u64() >> bits, near_max, 0, 1 << bits];
            let value = value[random.below(4) as usize].to_be_bytes();
            let behind = octets.iter_mut().skip(at);
            behind.zip(value).for_each(|(octet, new)| *octet = new);
        }
        _ => {
            if let Some(octet) = octets.get_mut(at) {
                *octet ^= 1 << random.below(8);
            }
        }
    }
}

#[test]
fn mutated_packets_keep_decoder_invariants() {
    let packets = recorded();
    let any = |random: &mut SplitMix64| &packets[random.below(packets.len() as u64) as usize];
    let mut seen = [0u32; 9];
    for seed in seeds(80_000) {
        let mut random = SplitMix64::new(seed);
        let mut octets = any(&mut random).clone();
        if let Ok(header) = Header::parse(&octets) {
            seen[header.format as usize] += 1;
        }
        for _ in 0..random.below(4) {
            let other = any(&mut random);
            mutate(&mut random, &mut octets, other);
        }
        targets::header(&octets);
        let body = octets.get(HEADER_LEN..).unwrap_or(&[]);
        let decoders = [
            targets::first,
            targets::cntl,
            targets::ecntl,
            targets::tcntl,
            targets::jcntl,
            targets::diag,
            targets::data,
        ];
        decoders.iter().for_each(|decoder| decoder(body));
    }
    for format in &FORMATS[..5] {
        assert!(
            seen[*format as usize] > 0 || seeds(0).count() > 0,
            "no {format:?} was recorded"
        );
    }
}

/// A script of packets of valid sessions, with commands between them.
fn script(random: &mut SplitMix64, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut script = (random.next_u64() as u32).to_be_bytes().to_vec();
    // Two associations to begin with, or none.
    script.extend([0, 0, 0, 1].iter().take(random.below(3) as usize * 2));
    let start = random.below(packets.len() as u64) as usize;
    for packet in packets
        .iter()
        .cycle()
        .skip(start)
        .take(random.below(60) as usize)
    {
        let mut packet = packet.clone();
        let repeats = if random.below(8) == 0 { 2 } else { 1 };
        for _ in 0..repeats {
            if random.below(3) == 0 {
                let other = &packets[random.below(packets.len() as u64) as usize];
                mutate(random, &mut packet, other);
            }
            let len = packet.len().min(255 * 6).div_ceil(6);
            packet.resize(len * 6, 0);
            let what = 8 | random.next_u64() as u8 & 0x37;
            script.extend([what, random.next_u64() as u8, len as u8]);
            script.extend_from_slice(&packet);
        }
        if random.below(2) == 0 {
            // The low half is the command, the high half its variant.
            script.extend([random.next_u64() as u8 & 0x37, random.next_u64() as u8]);
        }
    }
    script
}

#[test]
fn mutated_sessions_keep_endpoint_invariants() {
    let packets = recorded();
    let mut total = Summary::default();
    for seed in seeds(20_000) {
        let mut random = SplitMix64::new(seed);
        let mut script = script(&mut random, &packets);
        if random.below(4) == 0 {
            let other = script.clone();
            mutate(&mut random, &mut script, &other);
        }
        let summary = targets::sequence(&script);
        total.accepted += summary.accepted;
        total.delivered += summary.delivered;
        total.sent += summary.sent;
    }
    let far = total.accepted > 1000 && total.delivered > 1000 && total.sent > 1000;
    assert!(
        far || seeds(20_000).count() < 20_000,
        "too few packets were accepted: {total:?}"
    );
}

#[test]
fn mutated_sessions_keep_group_invariants() {
    let packets = crate::group::recorded();
    let mut total = Summary::default();
    for seed in seeds(4_000) {
        let mut random = SplitMix64::new(seed);
        let mut script = script(&mut random, &packets);
        if random.below(4) == 0 {
            let other = script.clone();
            mutate(&mut random, &mut script, &other);
        }
        let summary = targets::group(&script);
        total.accepted += summary.accepted;
        total.delivered += summary.delivered;
        total.sent += summary.sent;
    }
    let far = total.accepted > 1000 && total.delivered > 1000 && total.sent > 1000;
    assert!(
        far || seeds(4_000).count() < 4_000,
        "too few packets were accepted: {total:?}"
    );
}

#[test]
fn mutated_v3_packets_roundtrip() {
    for seed in seeds(4000) {
        let mut random = SplitMix64::new(seed);
        let len = random.below(260) as usize;
        let mut octets: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        if random.below(2) == 0 {
            // Small numbers more often than a uniform draw gives.
            octets.iter_mut().for_each(|octet| *octet &= 0x83);
        }
        targets::v3(&octets);
    }
}
