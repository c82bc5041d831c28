//! Counted groups: joins, late joins, leaves, departures.

use super::network::GroupNetwork;
use super::plan::{MS, Station, clean};
use engine::{Address, AssociationsExt, CloseReason, Protocol};
use engine_xtp::group::{Config, LateJoin, MemberState};
use link::LinkConfig;

const LONG: u64 = 100_000 * MS;

fn config() -> Config {
    Config {
        packet_len: 1000,
        ..Config::default()
    }
}

/// A sender of `bytes` and the `receivers` it waits for.
fn group(config: &Config, bytes: u64, receivers: usize) -> Vec<Station> {
    let config = Config {
        members_min: receivers,
        ..config.clone()
    };
    let mut stations = vec![Station::sender(&config, bytes)];
    stations.extend((0..receivers).map(|_| Station::receiver(&config)));
    stations
}

fn assert_all_received(network: &GroupNetwork, bytes: u64) {
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    for station in 1..network.hosts.len() {
        let stream = network.stream(station).expect("it joined");
        assert_eq!(
            (stream.bytes, stream.wrong, stream.gaps),
            (bytes, 0, 0),
            "{station}"
        );
        assert!(stream.finished, "{station}");
        assert_eq!(stream.closed, Some(CloseReason::Graceful), "{station}");
    }
}

#[test]
fn eight_members_receive_and_are_reported_done() {
    let mut network = GroupNetwork::new(group(&config(), 500_000, 8), 1);
    network.run(LONG);
    assert_all_received(&network, 500_000);
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    assert_eq!(members.len(), 8);
    for member in members {
        assert_eq!(member.state, MemberState::Done);
        assert_eq!(member.received, 500_000);
    }
    let sent = network.hosts[0].engine.counters().bytes_sent;
    assert_eq!(sent, 500_000, "each byte was sent once");
}

#[test]
fn packet_with_the_last_byte_asks_all_members_where_the_user_waits() {
    let quiet = Config {
        status_delay: core::time::Duration::from_secs(1000),
        ..config()
    };
    for (asks, bytes) in [(false, 500), (true, 500), (true, 2500)] {
        let mut stations = group(&quiet, bytes, 3);
        stations[0].asks = asks;
        let mut network = GroupNetwork::new(stations, 1);
        network.hosts[0].never_ends = true;
        network.run(10_000 * MS);
        let host = &network.hosts[0];
        let acknowledged = if asks { bytes } else { 0 };
        assert_eq!(host.released, acknowledged, "{asks} {bytes}");
        assert_eq!(host.engine_retransmissions(), 0);
    }
}

#[test]
fn empty_stream_ends() {
    let mut network = GroupNetwork::new(group(&config(), 0, 3), 1);
    network.run(LONG);
    assert_all_received(&network, 0);
}

#[test]
fn one_members_loss_repaired_selectively_or_go_back_n() {
    use engine_xtp::ErrorControl::{GoBackN, Selective};
    let mut repeats = Vec::new();
    for error in [Selective, GoBackN] {
        let config = Config { error, ..config() };
        let mut stations = group(&config, 2_000_000, 5);
        stations[3].link.loss_ppm = 10_000;
        let mut network = GroupNetwork::new(stations, 4);
        network.run(LONG);
        assert_all_received(&network, 2_000_000);
        repeats.push(network.hosts[0].engine.counters().retransmissions);
    }
    assert!(repeats[0] > 0 && repeats[0] * 3 < repeats[1], "{repeats:?}");
}

#[test]
fn late_join_earliest_next_or_never() {
    for late in [LateJoin::Earliest, LateJoin::Next, LateJoin::Never] {
        let config = Config {
            late_join: late,
            ..config()
        };
        let mut stations = group(&config, 3_000_000, 2);
        let mut third = Station::receiver(&config);
        third.start_ps = 100 * MS;
        stations.push(third);
        let mut network = GroupNetwork::new(stations, 2);
        network.run(LONG);
        assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
        let Some(stream) = network.stream(3) else {
            assert_eq!(late, LateJoin::Never);
            continue;
        };
        let from = stream.start.expect("it received bytes");
        assert!(from > 0 && from < 3_000_000, "{from}");
        assert_eq!((from + stream.bytes, stream.wrong), (3_000_000, 0));
        assert_eq!((stream.gaps, stream.finished), (1, true));
        let id = network.hosts[0].sending.expect("it sends");
        let members = network.hosts[0].engine.members(id);
        assert_eq!(members[2].start, from);
        assert_eq!(members[2].state, MemberState::Done);
    }
}

#[test]
fn crashed_member_reported_silent() {
    let mut stations = group(&config(), 3_000_000, 4);
    stations[2].crash_ps = Some(50 * MS);
    let mut network = GroupNetwork::new(stations, 3);
    network.run(LONG);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    for station in [1, 3, 4] {
        assert_eq!(network.stream(station).expect("it joined").bytes, 3_000_000);
    }
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    let silent: Vec<_> = members
        .iter()
        .filter(|member| member.state == MemberState::Silent)
        .collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(silent[0].address, Address::Station(2));
    assert!(silent[0].received < 3_000_000);
    assert!(network.hosts[0].member_events.contains(silent[0]));
}

#[test]
fn restarted_member_joins_anew() {
    let mut stations = group(&config(), 3_000_000, 2);
    stations[1].crash_ps = Some(50 * MS);
    stations[1].restart_ps = Some(60 * MS);
    let mut network = GroupNetwork::new(stations, 3);
    network.run(LONG);
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    let states: Vec<_> = members.iter().map(|member| member.state).collect();
    assert_eq!(
        states,
        [MemberState::Restarted, MemberState::Done, MemberState::Done]
    );
    let stream = network.stream(1).expect("it joined again");
    assert_eq!(
        stream.start.map(|from| from + stream.bytes),
        Some(3_000_000)
    );
}

#[test]
fn all_or_nothing_group_ends_at_first_departure() {
    let config = Config {
        members_keep: 3,
        ..config()
    };
    let mut stations = group(&config, 3_000_000, 3);
    stations[2].crash_ps = Some(50 * MS);
    let mut network = GroupNetwork::new(stations, 3);
    network.run(LONG);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Aborted));
    for station in [1, 3] {
        let stream = network.stream(station).expect("it joined");
        assert_eq!(stream.closed, Some(CloseReason::Aborted));
        assert!(stream.wrong == 0 && !stream.finished);
    }
}

#[test]
fn leave_and_silence_reported_differently() {
    let mut network = GroupNetwork::new(group(&config(), 3_000_000, 3), 3);
    network.run(50 * MS);
    let now = engine::Instant::from_nanos(network.now_ps / 1000);
    let id = *network.hosts[2].streams.keys().next().expect("it joined");
    network.hosts[2].engine.finish(now, id);
    network.run(LONG);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    assert_eq!(members[0].state, MemberState::Left);
    assert_eq!(members[0].address, Address::Station(2));
    let id = network.hosts[0].sending.expect("it sends");
    assert_eq!(network.hosts[0].engine.members(id).len(), 3);
}

#[test]
fn slow_member_blocks_group_until_expelled() {
    let config = Config {
        window: 20_000,
        ..config()
    };
    let mut stations = group(&config, 400_000, 3);
    stations[2].pause = core::time::Duration::from_secs(3600);
    let mut network = GroupNetwork::new(stations, 3);
    network.run(5_000 * MS);
    assert_eq!(network.stream(1).expect("it joined").bytes, 20_000);
    let now = engine::Instant::from_nanos(network.now_ps / 1000);
    let id = network.hosts[0].sending.expect("it sends");
    network.hosts[0].engine.expel(now, id, Address::Station(2));
    network.run(1_000_000 * MS);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    assert_eq!(network.stream(3).expect("it joined").bytes, 400_000);
    let slow = network.stream(2).expect("it joined");
    assert_eq!(slow.closed, Some(CloseReason::Aborted));
}

#[test]
fn members_max_enforced() {
    let config = Config {
        members_max: 2,
        members_min: 2,
        ..config()
    };
    let mut stations = vec![Station::sender(&config, 100_000)];
    stations.extend((0..4).map(|_| Station::receiver(&config)));
    let mut network = GroupNetwork::new(stations, 3);
    network.run(LONG);
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    let got = (1..5).filter(|&station| network.stream(station).is_some());
    assert_eq!(got.count(), 2);
    assert!(network.holdings_max.members <= 2);
}

#[test]
fn one_receiver_many_senders_one_stream_each() {
    let config = Config {
        packet_len: 500,
        ..config()
    };
    let mut stations: Vec<_> = (0..40).map(|_| Station::sender(&config, 20_000)).collect();
    stations.push(Station::receiver(&config));
    for station in &mut stations {
        station.link.loss_ppm = 5_000;
    }
    let mut network = GroupNetwork::new(stations, 5);
    network.run(LONG);
    let receiver = &network.hosts[40];
    assert_eq!(receiver.streams.len(), 40);
    for stream in receiver.streams.values() {
        assert_eq!((stream.bytes, stream.wrong), (20_000, 0));
        assert!(stream.finished);
    }
}

#[test]
fn replicate_sends_each_packet_to_each_receiver() {
    let receivers = 5;
    let mut stations = group(&config(), 300_000, receivers);
    let each = 1..=receivers as u32;
    stations[0].config.replicate = each.map(Address::Station).collect();
    stations[1].link.loss_ppm = 20_000;
    stations[4].out.loss_ppm = 20_000;
    let mut network = GroupNetwork::new(stations, 6);
    network.run(LONG);
    assert_all_received(&network, 300_000);
}

#[test]
fn short_partition_loses_no_member() {
    let mut stations = group(&config(), 3_000_000, 3);
    stations[2].cut_ps = 50 * MS..900 * MS;
    let mut network = GroupNetwork::new(stations, 3);
    network.run(LONG);
    assert_all_received(&network, 3_000_000);
}

#[test]
fn shared_loss_loses_no_message() {
    let mut stations = group(&config(), 500_000, 10);
    stations[0].out = LinkConfig {
        loss_ppm: 100_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        reorder_ps: 3 * MS,
        ..clean()
    };
    let mut network = GroupNetwork::new(stations, 8);
    network.run(LONG);
    assert_all_received(&network, 500_000);
}
