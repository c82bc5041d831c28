//! Control packets without loss, and how many slotting and damping save.

use super::network::{ALL, GroupNetwork};
use super::plan::{MS, Station};
use core::time::Duration;
use engine::CloseReason;
use engine_xtp::group::{BucketConfig, Config, Reliability};

const LONG: u64 = 100_000 * MS;

fn bucketed(receivers: usize, damping: bool, slot: Duration) -> GroupNetwork {
    let config = Config {
        packet_len: 1000,
        reliability: Reliability::Buckets(BucketConfig {
            requests: 2,
            tolerated: 2,
        }),
        answer_to: Some(ALL),
        damping,
        slot,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, 500_000)];
    stations.extend((0..receivers).map(|_| Station::receiver(&config)));
    let mut network = GroupNetwork::new(stations, 7);
    network.run(LONG);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    for station in 1..=receivers {
        let stream = network.stream(station).expect("it received FIRST");
        assert_eq!((stream.bytes, stream.wrong, stream.gaps), (500_000, 0, 0));
    }
    network
}

fn control_counts(network: &GroupNetwork) -> (u64, u64) {
    let each = network.hosts[1..]
        .iter()
        .map(|host| host.engine.control_counts());
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn buckets_no_retransmission_without_loss() {
    let network = bucketed(20, false, Duration::ZERO);
    let counters = engine::Protocol::counters(&network.hosts[0].engine);
    assert_eq!(
        (counters.retransmissions, counters.bytes_sent),
        (0, 500_000)
    );
    let (given, damped) = control_counts(&network);
    assert_eq!(damped, 0);
    assert!(given <= network.requests.len() as u64 * 20);
}

#[test]
fn damping_suppresses_most_control_packets() {
    let slot = Duration::from_millis(20);
    let (alone, none) = control_counts(&bucketed(50, false, slot));
    let (given, damped) = control_counts(&bucketed(50, true, slot));
    assert_eq!(none, 0);
    assert!(damped > 0 && given * 3 < alone, "{given} of {alone}");
}

#[test]
fn counted_group_sends_one_control_packet_per_request() {
    let config = Config {
        packet_len: 1000,
        members_min: 20,
        fastnak: true,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, 2_000_000)];
    stations.extend((0..20).map(|_| Station::receiver(&config)));
    let mut network = GroupNetwork::new(stations, 7);
    network.run(LONG);
    let counters = engine::Protocol::counters(&network.hosts[0].engine);
    assert_eq!(
        (counters.retransmissions, counters.bytes_sent),
        (0, 2_000_000)
    );
    let is_request = |packet: &[u8]| packet[9] & 0x40 != 0;
    let requests = network
        .trace
        .iter()
        .filter(|(_, from, packet)| *from == 0 && is_request(packet));
    let (given, _) = control_counts(&network);
    assert!(given <= requests.count() as u64 * 20, "{given}");
}

#[test]
fn rate_of_a_sender_bounds_what_its_group_gets() {
    let limit = engine_xtp::RateLimit {
        rate_bytes_per_s: 1_000_000,
        burst_bytes: 10_000,
    };
    let [free, limited] = [None, Some(limit)].map(|rate| {
        let config = Config {
            packet_len: 1000,
            rate,
            ..Config::default()
        };
        let stations = vec![
            Station::sender(&config, 500_000),
            Station::receiver(&config),
        ];
        let mut network = GroupNetwork::new(stations, 7);
        network.run(LONG);
        assert_eq!(network.stream(1).expect("it joined").bytes, 500_000);
        let of_sender = network.trace.iter().rev();
        let data = of_sender.filter(|(_, from, packet)| *from == 0 && packet.len() > 500);
        data.map(|(at_ps, ..)| *at_ps)
            .next()
            .expect("data were sent")
    });
    // 500,000 bytes and their headers, less the first burst, at 1 MB/s.
    assert!(limited > 490 * MS && limited < 700 * MS, "{limited} ps");
    assert!(free < 100 * MS, "{free} ps");
}

/// Packets in the minute after the first second, with three receivers and a sender that submitted
/// `bytes` and does not finish.
fn packets_of_a_minute(bytes: u64, pause: Duration) -> usize {
    let config = Config {
        members_min: 3,
        window: 1000,
        packet_len: 532,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, bytes)];
    stations.extend((0..3).map(|_| Station::receiver(&config)));
    for station in &mut stations {
        station.pause = pause;
    }
    let mut network = GroupNetwork::new(stations, 7);
    network.hosts[0].never_ends = true;
    network.run(1_000 * MS);
    let before = network.trace.len();
    network.run(61_000 * MS);
    assert!(network.hosts[0].closed.is_none());
    assert_eq!(network.stream(1).expect("it joined").bytes, 1000);
    network.trace.len() - before
}

#[test]
fn idle_group_keepalive_every_five_seconds() {
    let packets = packets_of_a_minute(1000, Duration::ZERO);
    assert!((4 * 10..=4 * 13).contains(&packets), "{packets} packets");
}

#[test]
fn closed_window_probed_every_two_seconds() {
    let packets = packets_of_a_minute(5000, Duration::from_secs(3600));
    assert!((4 * 20..=4 * 40).contains(&packets), "{packets} packets");
}
