//! Which bytes are sent again.

use crate::restarts::Stations;
use engine::{Associations, AssociationsExt, Protocol};
use engine_xtp::pdu::Version;
use engine_xtp::{Config, ErrorControl, Xtp};

/// Packets that a selective sender sends again when the first of `sent` is lost and the answer to the
/// second arrives before the others do.
fn sent_again(version: Version, receiver: ErrorControl, sent: usize) -> usize {
    let engine = |error| {
        let mut engine = Xtp::new(Config {
            version,
            error,
            packet_len: 576,
            status_interval_bytes: 1,
            ..Config::default()
        });
        engine.listen(true);
        engine
    };
    let mut stations = Stations::new([ErrorControl::Selective, receiver].map(engine));
    let id = stations.open(100);
    stations.settle();
    let payload = stations.engines[0].layout(None).payload as u64;
    stations.engines[0].push(stations.now, id, 100 + payload * sent as u64);
    let packets = stations.take(0);
    assert!(packets.len() >= sent, "{} packets", packets.len());
    stations.arrive(1, &packets[1]);
    for answer in stations.take(1) {
        stations.arrive(0, &answer);
    }
    let count = |engine: &Xtp| engine.counters().retransmissions;
    let before = count(&stations.engines[0]);
    stations.take(0);
    (count(&stations.engines[0]) - before) as usize
}

#[test]
fn selective_sender_goes_back_for_a_receiver_that_drops_what_is_beyond_a_gap() {
    for version in [Version::V40, Version::V36] {
        assert_eq!(sent_again(version, ErrorControl::Selective, 6), 1);
        assert_eq!(sent_again(version, ErrorControl::GoBackN, 6), 6);
    }
}
