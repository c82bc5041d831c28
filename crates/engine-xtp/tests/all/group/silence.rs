//! What is sent when nothing is lost, and what slotting and damping save.

use super::plan::{MS, Station};
use super::world::{ALL, World};
use core::time::Duration;
use engine::CloseReason;
use engine_xtp::group::{Buckets, Config, Reliability};

const LONG: u64 = 100_000 * MS;

fn bucketed(receivers: usize, damping: bool, slot: Duration) -> World {
    let config = Config {
        packet_len: 1000,
        reliability: Reliability::Buckets(Buckets {
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
    let mut world = World::new(stations, 7);
    world.run(LONG);
    assert_eq!(world.hosts[0].closed, Some(CloseReason::Graceful));
    for station in 1..=receivers {
        let stream = world.stream(station).expect("it heard the opening");
        assert_eq!((stream.bytes, stream.wrong, stream.gaps), (500_000, 0, 0));
    }
    world
}

fn answers(world: &World) -> (u64, u64) {
    let each = world.hosts[1..].iter().map(|host| host.engine.answers());
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn without_loss_nothing_is_sent_again_by_buckets() {
    let world = bucketed(20, false, Duration::ZERO);
    let counters = engine::Engine::counters(&world.hosts[0].engine);
    assert_eq!(
        (counters.retransmissions, counters.bytes_sent),
        (0, 500_000)
    );
    let (given, damped) = answers(&world);
    assert_eq!(damped, 0);
    assert!(given <= world.requests.len() as u64 * 20);
}

#[test]
fn damping_leaves_most_answers_out_where_there_are_slots() {
    let slot = Duration::from_millis(20);
    let (alone, none) = answers(&bucketed(50, false, slot));
    let (given, damped) = answers(&bucketed(50, true, slot));
    assert_eq!(none, 0);
    assert!(damped > 0 && given * 3 < alone, "{given} of {alone}");
}

#[test]
fn without_loss_a_counted_group_answers_what_it_is_asked_and_no_more() {
    let config = Config {
        packet_len: 1000,
        members_min: 20,
        fastnak: true,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, 2_000_000)];
    stations.extend((0..20).map(|_| Station::receiver(&config)));
    let mut world = World::new(stations, 7);
    world.run(LONG);
    let counters = engine::Engine::counters(&world.hosts[0].engine);
    assert_eq!(
        (counters.retransmissions, counters.bytes_sent),
        (0, 2_000_000)
    );
    let asked = |packet: &[u8]| packet[9] & 0x40 != 0;
    let requests = world
        .trace
        .iter()
        .filter(|(_, from, packet)| *from == 0 && asked(packet));
    let (given, _) = answers(&world);
    assert!(given <= requests.count() as u64 * 20, "{given}");
}

/// A world of three receivers whose sender has sent 1000 bytes after a second, and more to come or
/// nothing, and the packets of the minute that follows.
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
    let mut world = World::new(stations, 7);
    world.hosts[0].never_ends = true;
    world.run(1_000 * MS);
    let before = world.trace.len();
    world.run(61_000 * MS);
    assert!(world.hosts[0].closed.is_none());
    assert_eq!(world.stream(1).expect("it joined").bytes, 1000);
    world.trace.len() - before
}

#[test]
fn an_idle_group_is_asked_once_in_five_seconds() {
    let packets = packets_of_a_minute(1000, Duration::ZERO);
    assert!((4 * 10..=4 * 13).contains(&packets), "{packets} packets");
}

#[test]
fn a_group_with_a_closed_window_is_asked_once_in_two_seconds() {
    let packets = packets_of_a_minute(5000, Duration::from_secs(3600));
    assert!((4 * 20..=4 * 40).contains(&packets), "{packets} packets");
}
