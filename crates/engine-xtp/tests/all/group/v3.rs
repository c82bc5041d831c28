//! Groups in the packets of XTP 3.5 and 3.6 (0122).

use super::network::{ALL, GroupNetwork};
use super::plan::{MS, Station};
use core::time::Duration;
use engine::{
    Address, Associations, AssociationsExt, Batch, CloseReason, Deliveries, Instant, Protocol,
    Received, SplitMix64,
};
use engine_xtp::RateLimit;
use engine_xtp::group::{BucketConfig, Config, GroupEndpoint, LateJoin, Reliability};
use engine_xtp::pdu::v3::{BodyV3, PacketKind, PacketV3, RTN_V3};
use engine_xtp::pdu::{Options, Reject, SyncNumber, Version};

const LONG: u64 = 100_000 * MS;
const BYTES: u64 = 300_000;
const VERSIONS: [Version; 2] = [Version::V35, Version::V36];

fn config(version: Version) -> Config {
    Config {
        version,
        packet_len: 1500,
        reliability: Reliability::Buckets(BucketConfig::default()),
        answer_to: Some(ALL),
        ..Config::default()
    }
}

fn stations(config: &Config, receivers: usize) -> Vec<Station> {
    let receivers = (0..receivers).map(|_| Station::receiver(config));
    std::iter::once(Station::sender(config, BYTES))
        .chain(receivers)
        .collect()
}

fn run(stations: Vec<Station>) -> GroupNetwork {
    let mut network = GroupNetwork::new(stations, 7);
    network.run(LONG);
    network
}

/// All receivers have all bytes, and the sender knows it.
#[track_caller]
fn assert_whole(network: &GroupNetwork) {
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    for station in 1..network.hosts.len() {
        let stream = network.stream(station).expect("it heard the sender");
        let got = (stream.bytes, stream.wrong, stream.gaps, stream.finished);
        assert_eq!(got, (BYTES, 0, 0, true), "station {station}");
    }
}

#[test]
fn packets_follow_the_rules_of_3x_multicast() {
    for version in VERSIONS {
        let network = run(stations(&config(version), 3));
        assert_whole(&network);
        let mut firsts = 0;
        let mut longest = 0;
        for (_, from, octets) in &network.trace {
            let PacketV3 { header, body } = PacketV3::parse(version, octets).expect("a packet");
            let has = |option| header.options.has(option);
            assert!(has(Options::MULTI) && !has(Options::DREQ));
            assert_eq!(header.key & RTN_V3 != 0, *from != 0, "{header:?}");
            assert_eq!(header.route, 0);
            match body {
                BodyV3::First { data, .. } => {
                    firsts += 1;
                    assert!(*from == 0 && data.is_empty() && !has(Options::SREQ));
                }
                BodyV3::Data(data) => {
                    assert!(*from == 0 && !has(Options::SREQ));
                    longest = longest.max(data.len());
                }
                BodyV3::Cntl(control, pairs) => {
                    assert!(control.xkey == 0 && pairs.is_empty());
                    assert_eq!(has(Options::SREQ), *from == 0 && !has(Options::END));
                }
                other => panic!("{other:?} is no packet of a group"),
            }
        }
        assert_eq!(firsts, 1);
        assert_eq!(longest, if version == Version::V35 { 1460 } else { 1456 });
        let counters = network.hosts[0].engine.counters();
        assert_eq!((counters.retransmissions, counters.bytes_sent), (0, BYTES));
    }
}

#[test]
fn bytes_are_kept_until_users_consumed_them() {
    let unreleased = |version| {
        let mut plan = stations(&config(version), 3);
        for station in &mut plan {
            station.sends = station.sends.map(|_| 20_000);
        }
        plan[2].pause = Duration::from_secs(3600);
        let mut network = GroupNetwork::new(plan, 7);
        network.run(5_000 * MS);
        assert_eq!(network.stream(2).expect("it heard FIRST").bytes, 20_000);
        network.hosts[0].engine.holdings().unreleased
    };
    for version in VERSIONS {
        assert_eq!(unreleased(version), 20_000);
    }
    // 4.0 has no dseq.
    assert_eq!(unreleased(Version::V40), 0);
}

#[test]
fn losses_go_back_to_the_first_byte_that_is_missing() {
    for version in VERSIONS {
        let mut plan = stations(&config(version), 4);
        plan[2].link.loss_ppm = 20_000;
        plan[3].link.loss_ppm = 20_000;
        let network = run(plan);
        assert_whole(&network);
        assert!(network.hosts[0].engine_retransmissions() > 0);
    }
}

/// Station 2 hears nothing for the first packets.
fn late(version: Version, late_join: LateJoin, deaf_ms: u64) -> GroupNetwork {
    let config = Config {
        late_join,
        rate: Some(RateLimit {
            rate_bytes_per_s: 1_000_000,
            burst_bytes: 6000,
        }),
        ..config(version)
    };
    let mut plan = stations(&config, 2);
    plan[2].cut_ps = 0..deaf_ms * MS;
    run(plan)
}

#[test]
fn receiver_that_missed_first_begins_with_a_status_request() {
    for version in VERSIONS {
        // A request every 40 ms at first, and five buckets: the first byte is still kept.
        let network = late(version, LateJoin::Earliest, 30);
        assert_whole(&network);
        let network = late(version, LateJoin::Next, 100);
        let stream = network.stream(2).expect("it heard the sender");
        assert_eq!((stream.wrong, stream.gaps, stream.finished), (0, 1, true));
        assert!(stream.bytes < BYTES && stream.start > Some(0), "{stream:?}");
        let network = late(version, LateJoin::Never, 100);
        assert!(network.stream(2).is_none());
    }
}

#[test]
fn packets_of_another_version_are_dropped_and_not_answered() {
    for (ours, theirs) in [
        (Version::V36, Version::V40),
        (Version::V40, Version::V36),
        (Version::V35, Version::V36),
    ] {
        let mut plan = stations(&config(ours), 2);
        for station in &mut plan[1..] {
            station.config.version = theirs;
        }
        let mut network = GroupNetwork::new(plan, 7);
        network.run(3_000 * MS);
        assert!(network.trace.iter().all(|(_, from, _)| *from == 0));
        for host in &network.hosts[1..] {
            assert!(host.streams.is_empty());
            assert!(host.engine.rejects().count(Reject::Version) > 0);
        }
    }
}

#[test]
fn members_of_3x_are_not_counted() {
    for version in VERSIONS {
        let counted = Config {
            reliability: Reliability::Counted,
            members_min: 5,
            ..config(version)
        };
        // Two receivers of five: nobody waits for the others.
        let network = run(stations(&counted, 2));
        assert_whole(&network);
        let host = &network.hosts[0];
        assert!(
            host.engine
                .members(host.sending.expect("it sends"))
                .is_empty()
        );
    }
}

#[test]
fn without_error_control_nothing_is_asked_or_answered() {
    for version in VERSIONS {
        let unreliable = Config {
            reliability: Reliability::None,
            ..config(version)
        };
        let mut plan = stations(&unreliable, 2);
        plan[2].link.loss_ppm = 50_000;
        let network = run(plan);
        assert!(network.trace.iter().all(|(_, from, _)| *from == 0));
        assert_eq!(network.stream(1).expect("it heard FIRST").bytes, BYTES);
        let lossy = network.stream(2).expect("it heard FIRST");
        assert!(lossy.bytes < BYTES && lossy.wrong == 0 && lossy.gaps > 0);
    }
}

#[test]
fn a_receiver_asks_for_a_rate() {
    for version in VERSIONS {
        let mut plan = stations(&config(version), 2);
        plan[2].config.rate = Some(RateLimit {
            rate_bytes_per_s: 100_000,
            burst_bytes: 3000,
        });
        let network = run(plan);
        assert_whole(&network);
        let is_data = |packet: &[u8]| {
            let parsed = PacketV3::parse(version, packet);
            parsed.is_ok_and(|packet| packet.header.kind == PacketKind::Data)
        };
        let mut data = network
            .trace
            .iter()
            .filter(|(_, _, packet)| is_data(packet));
        let (last_ps, ..) = data.next_back().expect("data were sent");
        // Less the first window, which was sent before anybody answered.
        assert!(*last_ps > 2_000 * MS, "{last_ps} ps");
    }
}

#[test]
fn damping_suppresses_most_control_packets_of_3x() {
    let sent = |version, damping| {
        let config = Config {
            damping,
            slot: Duration::from_millis(20),
            ..config(version)
        };
        let network = run(stations(&config, 40));
        assert_whole(&network);
        let each = network.hosts[1..].iter();
        each.map(|host| host.engine.control_counts().0).sum::<u64>()
    };
    for version in VERSIONS {
        let (alone, damped) = (sent(version, false), sent(version, true));
        assert!(damped * 3 < alone, "{damped} of {alone}");
    }
}

#[test]
fn packets_are_replicated_with_their_trailers() {
    for version in VERSIONS {
        let replicating = Config {
            answer_to: None,
            replicate: (1..=3).map(Address::Station).collect(),
            ..config(version)
        };
        let mut plan = stations(&replicating, 3);
        plan[3].link.loss_ppm = 10_000;
        let network = run(plan);
        assert_whole(&network);
        assert!(
            network.trace.iter().all(|(_, from, octets)| {
                *from != 0 || PacketV3::parse(version, octets).is_ok()
            })
        );
    }
}

/// Packets of a group with other numbers, in all fields that a stranger can write.
#[test]
fn forged_numbers_harm_no_end() {
    let mut random = SplitMix64::new(1);
    for version in VERSIONS {
        let network = run(stations(&config(version), 2));
        // The first has the keys of the sender that was recorded.
        let mut ends = [7000, 1].map(|seed| {
            GroupEndpoint::new(Config {
                seed,
                ..config(version)
            })
        });
        for end in &mut ends {
            end.listen(true);
        }
        let opened = ends[0].connect(Instant::ZERO, &[ALL]);
        ends[0].push(Instant::ZERO, opened.expect("there is room"), BYTES);
        for round in 0..20_000u64 {
            let count = network.trace.len() as u64;
            let (_, from, octets) = &network.trace[random.below(count) as usize];
            let forged = forge(version, octets, &mut random);
            let now = Instant::from_nanos(round * 100_000);
            let source = Address::Station(*from as u32);
            for end in &mut ends {
                let mut deliveries = Deliveries::default();
                end.handle_packet(now, Received::new(source, &forged), &mut deliveries);
                end.handle_timeout(now);
                while end.poll_event().is_some() {}
                let mut batch = Batch::new(4);
                end.poll_transmit(now, &mut batch);
                assert!(end.holdings().associations <= 4096);
            }
        }
    }
}

fn forge(version: Version, octets: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut packet = PacketV3::parse(version, octets).expect("an engine sends good packets");
    let header = &mut packet.header;
    let mut number = |known: u32| match random.below(4) {
        0 => random.next_u64() as u32,
        1 => known.wrapping_add(1 << 31),
        _ => known,
    };
    header.seq = number(header.seq);
    header.dseq = number(header.dseq);
    header.sync = SyncNumber(number(header.sync.0));
    header.key = number(header.key);
    if let BodyV3::Cntl(control, _) = &mut packet.body {
        control.rseq = number(control.rseq);
        control.alloc = number(control.alloc);
        control.echo = SyncNumber(number(control.echo.0));
        control.rate = number(control.rate);
        control.burst = number(control.burst);
    }
    packet.emit(version)
}
