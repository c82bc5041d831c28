//! Hosts that restart and get a key of their earlier life again. In 3.x ten bits of a key are random,
//! so syncs tell the associations apart (0008, Names).

use crate::engine_pair::carry;
use core::time::Duration;
use engine::test_kit::{give_packet, take_packets, zeros};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, CloseReason, Event, Instant, Protocol,
    Secret,
};
use engine_xtp::pdu::Version;
use engine_xtp::pdu::v3::{BodyV3, HeaderV3, PacketV3};
use engine_xtp::{Config, Xtp};
use std::collections::BTreeMap;

const V3: [Version; 3] = [Version::V33, Version::V35, Version::V36];

/// An endpoint that is as new: its random numbers follow from `seed`.
fn endpoint(version: Version, seed: u64) -> Xtp {
    endpoint_from(version, seed, None)
}

/// The same, with the first sequence number of its associations.
fn endpoint_from(version: Version, seed: u64, initial_seq: Option<u32>) -> Xtp {
    configured(Config {
        initial_seq,
        version,
        seed,
        secret: Secret::from_seed(seed),
        packet_len: 576,
        explicit: false,
        ..Config::default()
    })
}

fn configured(config: Config) -> Xtp {
    let mut endpoint = Xtp::new(config);
    endpoint.listen(true);
    endpoint
}

/// Two stations; packets are carried by hand, user bytes are zeros.
pub struct Stations {
    pub engines: [Xtp; 2],
    pub now: Instant,
    /// Bytes delivered at each station, by association.
    delivered: [BTreeMap<AssociationId, usize>; 2],
    events: [Vec<Event>; 2],
}

impl Stations {
    pub fn new(engines: [Xtp; 2]) -> Stations {
        Stations {
            engines,
            now: Instant::from_nanos(1_000_000),
            delivered: Default::default(),
            events: Default::default(),
        }
    }

    /// The station restarts with another engine.
    fn restart(&mut self, station: usize, engine: Xtp) {
        self.engines[station] = engine;
        self.delivered[station].clear();
        self.events[station].clear();
    }

    /// Opens an association of the first station with `bytes` in its send buffer.
    pub fn open(&mut self, bytes: u64) -> AssociationId {
        let id = self.engines[0].connect(self.now, &[Address::Station(1)]);
        let id = id.expect("room");
        self.engines[0].push(self.now, id, bytes);
        id
    }

    pub fn take(&mut self, station: usize) -> Vec<Vec<u8>> {
        let sent = take_packets(&mut self.engines[station], self.now, 1, zeros);
        sent.into_iter().map(|(_, octets)| octets).collect()
    }

    pub fn arrive(&mut self, station: usize, packet: &[u8]) {
        let from = Address::Station(1 - station as u32);
        let deliveries = give_packet(&mut self.engines[station], self.now, from, packet);
        for delivery in deliveries.bytes {
            let len = delivery.bytes.len();
            *self.delivered[station]
                .entry(delivery.association)
                .or_default() += len;
            self.engines[station].consume(self.now, delivery.association, len as u64);
        }
        while let Some(event) = self.engines[station].poll_event() {
            self.events[station].push(event);
        }
    }

    /// Carries packets until there are none.
    pub fn settle(&mut self) {
        carry(self, Stations::take, Stations::arrive);
    }

    /// Carries packets and lets timers expire for `span`.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while let Some(at) = self.engines.iter().filter_map(Xtp::poll_timeout).min() {
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            for (engine, events) in self.engines.iter_mut().zip(&mut self.events) {
                engine.handle_timeout(self.now);
                events.extend(core::iter::from_fn(|| engine.poll_event()));
            }
            self.settle();
        }
        self.now = end;
    }

    /// The associations that the second station accepted.
    fn accepted(&self) -> Vec<AssociationId> {
        let accepted = |event: &Event| match event {
            Event::Accepted(id, _) => Some(*id),
            _ => None,
        };
        self.events[1].iter().filter_map(accepted).collect()
    }

    fn closed(&self, station: usize) -> Option<CloseReason> {
        self.events[station].iter().find_map(|event| match event {
            Event::Closed(_, reason) => Some(*reason),
            _ => None,
        })
    }
}

/// A new endpoint's first packet.
fn first_packet(version: Version, seed: u64) -> Vec<u8> {
    let mut stations = Stations::new([seed, 0].map(|seed| endpoint(version, seed)));
    stations.open(100);
    stations.take(0).remove(0)
}

/// Two seeds whose endpoints give their first association the same key, and different syncs.
fn seeds_of_one_key(version: Version) -> [u64; 2] {
    let mut seen = BTreeMap::new();
    for seed in 1..10_000 {
        let packet = first_packet(version, seed);
        let key = HeaderV3::parse(version, &packet)
            .expect("a good packet")
            .key;
        if let Some(earlier) = seen.insert(key, seed) {
            return [earlier, seed];
        }
    }
    panic!("10,000 keys of ten bits differ");
}

#[test]
fn initiator_restarted_with_its_key_opens_another_association() {
    for version in V3 {
        let [before, after] = seeds_of_one_key(version);
        let mut stations = Stations::new([before, 77].map(|seed| endpoint(version, seed)));
        stations.open(100);
        stations.settle();
        stations.restart(0, endpoint(version, after));
        let id = stations.open(300);
        stations.settle();
        let accepted = stations.accepted();
        assert_eq!(accepted.len(), 2, "{version:?}");
        assert_eq!(stations.delivered[1][&accepted[0]], 100);
        assert_eq!(stations.delivered[1][&accepted[1]], 300);
        assert_eq!(stations.engines[0].bytes_in_flight(id), 0);
        // What the peer still sends to the association before has the right key, and no other name.
        stations.engines[1].push(stations.now, accepted[0], 50);
        stations.settle();
        assert!(stations.delivered[0].is_empty(), "{version:?}");
        stations.engines[1].push(stations.now, accepted[1], 70);
        stations.settle();
        assert_eq!(stations.delivered[0][&id], 70);
    }
}

#[test]
fn initiator_that_waits_for_an_answer_takes_none_meant_for_its_earlier_life() {
    for version in V3 {
        let [before, after] = seeds_of_one_key(version);
        let mut stations = Stations::new([before, 77].map(|seed| endpoint(version, seed)));
        stations.open(100);
        stations.settle();
        let old = stations.accepted()[0];
        stations.engines[1].push(stations.now, old, 50);
        let mut late = stations.take(1);
        stations.engines[1].close(stations.now, old, engine::Close::Abort);
        late.extend(stations.take(1));
        assert!(late.len() >= 2, "data and END");
        stations.restart(0, endpoint(version, after));
        let id = stations.open(300);
        let first = stations.take(0);
        for packet in &late {
            stations.arrive(0, packet);
        }
        assert!(stations.delivered[0].is_empty(), "{version:?}");
        assert_eq!(stations.closed(0), None, "{version:?}");
        for packet in &first {
            stations.arrive(1, packet);
        }
        stations.settle();
        assert_eq!(stations.engines[0].bytes_in_flight(id), 0);
        assert_eq!(stations.delivered[1][&stations.accepted()[1]], 300);
    }
}

#[test]
fn key_in_quarantine_does_not_end_an_association_of_the_next_life() {
    for version in V3 {
        let [before, after] = seeds_of_one_key(version);
        let mut stations = Stations::new([before, 77].map(|seed| endpoint(version, seed)));
        let id = stations.open(100);
        stations.settle();
        let peer = stations.accepted()[0];
        stations.engines[0].close(stations.now, id, engine::Close::Graceful);
        stations.engines[1].close(stations.now, peer, engine::Close::Graceful);
        stations.settle();
        assert_eq!(
            stations.closed(1),
            Some(CloseReason::Graceful),
            "{version:?}"
        );
        stations.restart(0, endpoint(version, after));
        stations.open(300);
        stations.settle();
        assert_eq!(stations.closed(0), None, "{version:?}");
        assert_eq!(stations.delivered[1][&stations.accepted()[1]], 300);
    }
}

/// The key that a responder chose, from its first control packet.
fn chosen_key(version: Version, packets: &[Vec<u8>]) -> u32 {
    let key = |packet: &Vec<u8>| match PacketV3::parse(version, packet).ok()?.body {
        BodyV3::Cntl(control, _) => Some(control.xkey),
        _ => None,
    };
    packets.iter().find_map(key).expect("a control packet")
}

#[test]
fn responder_restarted_with_its_key_keeps_associations_apart() {
    for version in V3 {
        // With equal sequence numbers, syncs alone tell the associations apart.
        let same = |seed| endpoint_from(version, seed, Some(0));
        let mut stations = Stations::new([1, 77].map(same));
        let old = stations.open(100);
        let first = stations.take(0);
        first.iter().for_each(|packet| stations.arrive(1, packet));
        let answers = stations.take(1);
        let key = chosen_key(version, &answers);
        answers.iter().for_each(|packet| stations.arrive(0, packet));
        stations.settle();
        stations.open(300);
        let first = stations.take(0);
        let again = |seed: &u64| {
            stations.restart(1, endpoint(version, *seed));
            first.iter().for_each(|packet| stations.arrive(1, packet));
            chosen_key(version, &stations.take(1)) == key
        };
        (1000..30_000)
            .find(again)
            .expect("a key of ten bits comes back");
        stations.engines[0].push(stations.now, old, 100 + 555);
        stations.settle();
        let total: usize = stations.delivered[1].values().sum();
        assert_eq!(total, 300, "{version:?}: what its earlier life would get");
    }
}

#[test]
fn refusal_of_an_earlier_association_does_not_close_the_next() {
    for version in V3 {
        let [before, after] = seeds_of_one_key(version);
        let mut stations = Stations::new([before, 77].map(|seed| endpoint(version, seed)));
        stations.engines[1].listen(false);
        stations.open(100);
        let first = stations.take(0).remove(0);
        stations.arrive(1, &first);
        let refusal = stations.take(1).remove(0);
        let mut next = Stations::new([after, 77].map(|seed| endpoint(version, seed)));
        next.open(100);
        next.take(0);
        next.arrive(0, &refusal);
        assert_eq!(next.closed(0), None, "{version:?}");
        stations.arrive(0, &refusal);
        assert_eq!(
            stations.closed(0),
            Some(CloseReason::Refused),
            "{version:?}"
        );
    }
}

/// A copy of FIRST reaches a responder that was restarted, and even chooses the same key. It cannot get
/// what was acknowledged and released since, so the association cannot go on.
#[test]
fn peer_that_lost_its_state_ends_the_association() {
    for version in [Version::V40, Version::V33, Version::V35, Version::V36] {
        let mut stations = Stations::new([1, 77].map(|seed| endpoint(version, seed)));
        let id = stations.open(5000);
        let first = stations.take(0);
        first.iter().for_each(|packet| stations.arrive(1, packet));
        stations.settle();
        assert_eq!(stations.engines[0].bytes_in_flight(id), 0, "{version:?}");
        stations.restart(1, endpoint(version, 77));
        stations.arrive(1, &first[0]);
        stations.take(1);
        stations.engines[0].push(stations.now, id, 9000);
        stations.pass(Duration::from_secs(5));
        assert_eq!(
            stations.closed(0),
            Some(CloseReason::Aborted),
            "{version:?}"
        );
        let delivered = stations.delivered[1].values().sum::<usize>();
        assert!(
            delivered <= 576,
            "{version:?}: {delivered} bytes beyond the gap"
        );
    }
}

#[test]
fn first_on_a_route_of_the_responders_earlier_life_opens_no_second_association() {
    let endpoint = |seed| {
        configured(Config {
            version: Version::V36,
            seed,
            secret: Secret::from_seed(seed),
            routes: true,
            explicit: false,
            ..Config::default()
        })
    };
    let mut stations = Stations::new([1, 77].map(endpoint));
    stations.open(100);
    stations.settle();
    stations.restart(1, endpoint(78));
    let id = stations.open(300);
    for packet in stations.take(0) {
        stations.arrive(1, &packet);
    }
    let lost = stations.take(1);
    stations.pass(Duration::from_secs(5));
    assert_eq!(
        stations.accepted().len(),
        1,
        "{} answers were lost",
        lost.len()
    );
    assert_eq!(stations.delivered[1][&stations.accepted()[0]], 300);
    assert_eq!(stations.engines[0].bytes_in_flight(id), 0);
}
