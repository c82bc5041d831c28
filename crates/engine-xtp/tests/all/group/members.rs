//! Counted groups: joins, leaves, who is late, who is gone.

use super::plan::{MS, Station, clean};
use super::world::World;
use engine::{Address, CloseReason, Engine};
use engine_xtp::group::{Config, Late, Standing};
use link::LinkConfig;

const LONG: u64 = 100_000 * MS;

fn config() -> Config {
    Config {
        packet_len: 1000,
        ..Config::default()
    }
}

/// One sender of `bytes` and `receivers` others that it waits for.
fn group(config: &Config, bytes: u64, receivers: usize) -> Vec<Station> {
    let config = Config {
        members_min: receivers,
        ..config.clone()
    };
    let mut stations = vec![Station::sender(&config, bytes)];
    stations.extend((0..receivers).map(|_| Station::receiver(&config)));
    stations
}

fn check_all(world: &World, bytes: u64) {
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    for station in 1..world.hosts.len() {
        let stream = world.stream(station).expect("it joined");
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
fn eight_receivers_get_a_stream_and_are_reported_done() {
    let mut world = World::new(group(&config(), 500_000, 8), 1);
    world.run(LONG);
    check_all(&world, 500_000);
    let id = world.hosts[0].sending.expect("it sends");
    let members = world.hosts[0].engine.members(id);
    assert_eq!(members.len(), 8);
    for member in members {
        assert_eq!(member.standing, Standing::Done);
        assert_eq!(member.received, 500_000);
    }
    let sent = world.hosts[0].engine.counters().bytes_sent;
    assert_eq!(sent, 500_000, "each byte was sent once for all");
}

#[test]
fn an_empty_stream_ends_too() {
    let mut world = World::new(group(&config(), 0, 3), 1);
    world.run(LONG);
    check_all(&world, 0);
}

#[test]
fn a_loss_of_one_is_repaired_for_it_alone_and_goes_back_if_told_to() {
    use engine_xtp::ErrorControl::{GoBackN, Selective};
    let mut repeats = Vec::new();
    for error in [Selective, GoBackN] {
        let config = Config { error, ..config() };
        let mut stations = group(&config, 2_000_000, 5);
        stations[3].link.loss_ppm = 10_000;
        let mut world = World::new(stations, 4);
        world.run(LONG);
        check_all(&world, 2_000_000);
        repeats.push(world.hosts[0].engine.counters().retransmissions);
    }
    assert!(repeats[0] > 0 && repeats[0] * 3 < repeats[1], "{repeats:?}");
}

#[test]
fn a_late_receiver_gets_what_there_still_is_or_what_comes_next_or_nothing() {
    for late in [Late::Earliest, Late::Next, Late::Never] {
        let config = Config { late, ..config() };
        let mut stations = group(&config, 3_000_000, 2);
        let mut third = Station::receiver(&config);
        third.from_ps = 100 * MS;
        stations.push(third);
        let mut world = World::new(stations, 2);
        world.run(LONG);
        assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
        let Some(stream) = world.stream(3) else {
            assert_eq!(late, Late::Never);
            continue;
        };
        let from = stream.from.expect("it got something");
        assert!(from > 0 && from < 3_000_000, "{from}");
        assert_eq!((from + stream.bytes, stream.wrong), (3_000_000, 0));
        assert_eq!((stream.gaps, stream.finished), (1, true));
        let id = world.hosts[0].sending.expect("it sends");
        let members = world.hosts[0].engine.members(id);
        assert_eq!(members[2].from, from);
        assert_eq!(members[2].standing, Standing::Done);
    }
}

#[test]
fn a_member_that_crashes_is_reported_and_the_others_go_on() {
    let mut stations = group(&config(), 3_000_000, 4);
    stations[2].crash_ps = Some(50 * MS);
    let mut world = World::new(stations, 3);
    world.run(LONG);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    for station in [1, 3, 4] {
        assert_eq!(world.stream(station).expect("it joined").bytes, 3_000_000);
    }
    let id = world.hosts[0].sending.expect("it sends");
    let members = world.hosts[0].engine.members(id);
    let silent: Vec<_> = members
        .iter()
        .filter(|member| member.standing == Standing::Silent)
        .collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(silent[0].address, Address::Station(2));
    assert!(silent[0].received < 3_000_000);
    assert!(world.hosts[0].news.contains(silent[0]));
}

#[test]
fn a_member_that_comes_back_with_nothing_joins_anew() {
    let mut stations = group(&config(), 3_000_000, 2);
    stations[1].crash_ps = Some(50 * MS);
    stations[1].again_ps = Some(60 * MS);
    let mut world = World::new(stations, 3);
    world.run(LONG);
    let id = world.hosts[0].sending.expect("it sends");
    let members = world.hosts[0].engine.members(id);
    let standings: Vec<_> = members.iter().map(|member| member.standing).collect();
    assert_eq!(
        standings,
        [Standing::Restarted, Standing::Done, Standing::Done]
    );
    let stream = world.stream(1).expect("it joined again");
    assert_eq!(stream.from.map(|from| from + stream.bytes), Some(3_000_000));
}

#[test]
fn all_or_nothing_ends_with_the_first_that_is_gone() {
    let config = Config {
        members_keep: 3,
        ..config()
    };
    let mut stations = group(&config, 3_000_000, 3);
    stations[2].crash_ps = Some(50 * MS);
    let mut world = World::new(stations, 3);
    world.run(LONG);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Aborted));
    for station in [1, 3] {
        let stream = world.stream(station).expect("it joined");
        assert_eq!(stream.closed, Some(CloseReason::Aborted));
        assert!(stream.wrong == 0 && !stream.finished);
    }
}

#[test]
fn a_receiver_that_leaves_is_told_from_one_that_fell_silent() {
    let mut world = World::new(group(&config(), 3_000_000, 3), 3);
    world.run(50 * MS);
    let now = engine::Instant::from_nanos(world.now_ps / 1000);
    let id = *world.hosts[2].streams.keys().next().expect("it joined");
    engine::Engine::finish(&mut world.hosts[2].engine, now, id);
    world.run(LONG);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    let id = world.hosts[0].sending.expect("it sends");
    let members = world.hosts[0].engine.members(id);
    assert_eq!(members[0].standing, Standing::Left);
    assert_eq!(members[0].address, Address::Station(2));
    let id = world.hosts[0].sending.expect("it sends");
    assert_eq!(world.hosts[0].engine.members(id).len(), 3);
}

#[test]
fn a_slow_member_holds_the_group_until_it_is_expelled() {
    let config = Config {
        window: 20_000,
        ..config()
    };
    let mut stations = group(&config, 400_000, 3);
    stations[2].pause = core::time::Duration::from_secs(3600);
    let mut world = World::new(stations, 3);
    world.run(5_000 * MS);
    assert_eq!(world.stream(1).expect("it joined").bytes, 20_000);
    let now = engine::Instant::from_nanos(world.now_ps / 1000);
    let id = world.hosts[0].sending.expect("it sends");
    world.hosts[0].engine.expel(now, id, Address::Station(2));
    world.run(1_000_000 * MS);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    assert_eq!(world.stream(3).expect("it joined").bytes, 400_000);
    let slow = world.stream(2).expect("it joined");
    assert_eq!(slow.closed, Some(CloseReason::Aborted));
}

#[test]
fn no_more_join_than_there_is_room_for() {
    let config = Config {
        members_max: 2,
        members_min: 2,
        ..config()
    };
    let mut stations = vec![Station::sender(&config, 100_000)];
    stations.extend((0..4).map(|_| Station::receiver(&config)));
    let mut world = World::new(stations, 3);
    world.run(LONG);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    let got = (1..5).filter(|&station| world.stream(station).is_some());
    assert_eq!(got.count(), 2);
    assert!(world.most.members <= 2);
}

#[test]
fn many_senders_reach_one_receiver_each_in_a_stream_of_its_own() {
    let config = Config {
        packet_len: 500,
        ..config()
    };
    let mut stations: Vec<_> = (0..40).map(|_| Station::sender(&config, 20_000)).collect();
    stations.push(Station::receiver(&config));
    for station in &mut stations {
        station.link.loss_ppm = 5_000;
    }
    let mut world = World::new(stations, 5);
    world.run(LONG);
    let receiver = &world.hosts[40];
    assert_eq!(receiver.streams.len(), 40);
    for stream in receiver.streams.values() {
        assert_eq!((stream.bytes, stream.wrong), (20_000, 0));
        assert!(stream.finished);
    }
}

#[test]
fn without_multicast_the_sender_repeats_each_packet_to_each() {
    let receivers = 5;
    let mut stations = group(&config(), 300_000, receivers);
    let each = 1..=receivers as u32;
    stations[0].config.replicate = each.map(Address::Station).collect();
    stations[1].link.loss_ppm = 20_000;
    stations[4].out.loss_ppm = 20_000;
    let mut world = World::new(stations, 6);
    world.run(LONG);
    check_all(&world, 300_000);
}

#[test]
fn a_cut_that_heals_in_time_costs_nobody_anything() {
    let mut stations = group(&config(), 3_000_000, 3);
    stations[2].cut_ps = 50 * MS..900 * MS;
    let mut world = World::new(stations, 3);
    world.run(LONG);
    check_all(&world, 3_000_000);
}

#[test]
fn messages_of_nobody_are_lost_on_a_bad_path_shared_by_all() {
    let mut stations = group(&config(), 500_000, 10);
    stations[0].out = LinkConfig {
        loss_ppm: 100_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        reorder_ps: 3 * MS,
        ..clean()
    };
    let mut world = World::new(stations, 8);
    world.run(LONG);
    check_all(&world, 500_000);
}
