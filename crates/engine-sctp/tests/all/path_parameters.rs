//! Heartbeats and timeouts of one path (RFC 6458 section 8.1.12), in virtual time.

use crate::paths::network::{CLIENT, Network, SERVER, config};
use congestion::RtoBounds;
use core::time::Duration;
use engine::CommandError;
use engine_sctp::PathStatus;
use engine_sctp::pdu::ChunkType;

const SECOND: Duration = Duration::from_secs(1);

/// Two ends with two paths that are confirmed, at 1 s.
fn open() -> Network {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    network
}

/// HEARTBEATs that the client sent on a path since the trace had `from` packets.
fn heartbeats(network: &Network, from: usize, medium: u16) -> usize {
    let sent = network.trace[from..].iter();
    sent.filter(|sent| sent.from == CLIENT && sent.path == medium && sent.has(ChunkType::HEARTBEAT))
        .count()
}

#[test]
fn one_path_has_no_heartbeats_and_the_other_more() {
    let mut network = open();
    let no_heartbeat = network.set_path(CLIENT, 1, |of| of.heartbeat_interval = Duration::ZERO);
    no_heartbeat.expect("a path");
    network
        .set_path(CLIENT, 0, |of| of.heartbeat_interval = SECOND / 10)
        .expect("a path");
    let from = network.trace.len();
    network.run_until(11_000);
    assert_eq!(heartbeats(&network, from, 1), 0);
    // 100 ms, and half to one and a half RTO: 50 ms, as the path takes 10.
    let often = heartbeats(&network, from, 0);
    assert!((57..=80).contains(&often), "{often} in 10 s");

    // They come back with an interval.
    network
        .set_path(CLIENT, 1, |of| of.heartbeat_interval = SECOND)
        .expect("a path");
    let from = network.trace.len();
    network.run_until(21_000);
    let again = heartbeats(&network, from, 1);
    assert!((8..=10).contains(&again), "{again} in 10 s");
}

/// Nobody looks at a path without heartbeats that carries nothing: its failure shows when it is needed.
#[test]
fn path_without_heartbeats_fails_unseen() {
    let mut network = open();
    network
        .set_path(CLIENT, 1, |of| of.heartbeat_interval = Duration::ZERO)
        .expect("a path");
    network.cut[1] = true;
    network.run_until(60_000);
    assert_eq!(network.paths(CLIENT)[1].status, PathStatus::Active);
    assert_ne!(network.paths(SERVER)[1].status, PathStatus::Active);
}

#[test]
fn timeouts_of_one_path_are_its_own() {
    let mut network = open();
    let before = network.paths(CLIENT)[1];
    let longer = RtoBounds {
        initial: SECOND,
        min: SECOND / 2,
        max: SECOND,
    };
    network
        .set_path(CLIENT, 0, |of| of.rto = longer)
        .expect("a path");
    let paths = network.paths(CLIENT);
    assert_eq!((paths[0].rto, paths[1]), (SECOND / 2, before));
    // Data that are lost on it come after half a second, not after 50 ms, and by the other path.
    network.cut[0] = true;
    network.send(CLIENT, 1000);
    network.run_until(1490);
    assert_eq!(network.received[SERVER], 0);
    network.run_until(1520);
    assert_eq!(network.received[SERVER], 1000);
    // It doubles up to the longest.
    network.run_until(20_000);
    assert_eq!(network.paths(CLIENT)[0].rto, SECOND);
}

#[test]
fn path_survives_as_many_timeouts_as_it_is_said_to() {
    let mut network = open();
    network
        .set_path(CLIENT, 0, |of| of.retries = 0)
        .expect("a path");
    network.cut = [true; 8];
    network.send(CLIENT, 1000);
    network.run_until(1100);
    let status = |network: &Network, path: usize| network.paths(CLIENT)[path].status;
    assert_eq!(status(&network, 0), PathStatus::Inactive);
    assert_ne!(status(&network, 1), PathStatus::Inactive);
}

#[test]
fn what_is_no_path_or_out_of_order_is_refused() {
    let mut network = open();
    let before = network.paths(CLIENT);
    let refused = Err(CommandError::Unsupported);
    assert_eq!(network.set_path(CLIENT, 2, |_| {}), refused);
    let wrong: [fn(&mut RtoBounds); 3] = [
        |rto| rto.min = rto.max + SECOND,
        |rto| rto.initial = rto.max + SECOND,
        |rto| rto.min = Duration::ZERO,
    ];
    for change in wrong {
        let set = network.set_path(CLIENT, 0, |of| change(&mut of.rto));
        assert_eq!(set, refused);
    }
    assert_eq!(network.paths(CLIENT), before);
    network.close(CLIENT);
    network.run_until(2000);
    let gone = network.ends[CLIENT].paths(network.ids[CLIENT].expect("there was one"));
    assert_eq!(gone, []);
}
