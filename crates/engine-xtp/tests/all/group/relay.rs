//! Groups with members behind a relay, in virtual time, with loss on every hop.

use super::network::ALL;
use crate::drawn::seeds;
use core::time::Duration;
use engine::test_kit::written;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Bytes, CloseReason, Deliveries,
    Event, Instant, Protocol, Received, SplitMix64,
};
use engine_xtp::group::relay::{ArrivalAddress, Relay, RelayConfig};
use engine_xtp::group::{BucketConfig, Config, GroupEndpoint, MemberState, Reliability};
use std::collections::BTreeMap;

/// The first address of the stand-ins.
const STAND_INS: u32 = 1000;
/// Delay of a hop: 200 us.
const DELAY_NS: u64 = 200_000;
const LIMIT_NS: u64 = 400_000_000_000;
/// Size of a sender's send buffer.
const STORE_LEN: u64 = 100_000;

/// A stream as a node received it.
#[derive(Default)]
struct ReceivedStream {
    bytes: Vec<u8>,
    finished: bool,
}

struct Node {
    engine: GroupEndpoint,
    /// What it sends, if it is a sender.
    sends: Option<Vec<u8>>,
    stream: Option<AssociationId>,
    connected: bool,
    finished: bool,
    closed: Option<CloseReason>,
    written: u64,
    released: u64,
    received: BTreeMap<AssociationId, ReceivedStream>,
}

/// Senders, then receivers of the group, then members behind the relay.
struct RelayNetwork {
    nodes: Vec<Node>,
    behind_relay: u32,
    relay: Relay,
    now_ns: u64,
    made: u64,
    air: BTreeMap<(u64, u64), (u32, u32, Vec<u8>)>,
    random: SplitMix64,
    loss_ppm: u64,
}

/// The relay's own address in the group.
const RELAY: u32 = 999;

impl RelayNetwork {
    fn new(seed: u64, counts: [u32; 3], loss_ppm: u64) -> RelayNetwork {
        let [_, direct, behind_relay] = counts;
        let config = Config {
            packet_len: 500,
            members_min: (direct + behind_relay) as usize,
            // An answer takes four hops: with one packet in ten lost, a third of them fail.
            retries_max: 20,
            ..Config::default()
        };
        RelayNetwork::with_config(seed, counts, loss_ppm, &config)
    }

    /// All of `config`; the relay repeats answers where it has damping.
    fn with_config(seed: u64, counts: [u32; 3], loss_ppm: u64, config: &Config) -> RelayNetwork {
        let [senders, direct, behind_relay] = counts;
        let first_far = senders + direct;
        let node = |index: u32| {
            let config = Config {
                seed: seed * 100 + u64::from(index),
                ..config.clone()
            };
            let mut engine = GroupEndpoint::new(config);
            let sends = (index < senders).then(|| stream_bytes(index));
            let mut stream = None;
            match &sends {
                Some(_) => stream = engine.connect(Instant::from_nanos(0), &[ALL]).ok(),
                None => engine.listen(true),
            }
            Node {
                engine,
                sends,
                stream,
                connected: false,
                finished: false,
                closed: None,
                written: 0,
                released: 0,
                received: BTreeMap::new(),
            }
        };
        let members = (first_far..first_far + behind_relay).map(Address::Station);
        let mut relay = Relay::new(RelayConfig {
            members: members.collect(),
            ..RelayConfig::default()
        });
        if config.damping {
            relay.enable_damping();
        }
        RelayNetwork {
            nodes: (0..first_far + behind_relay).map(node).collect(),
            behind_relay: first_far,
            relay,
            now_ns: 0,
            made: 0,
            air: BTreeMap::new(),
            random: SplitMix64::new(seed),
            loss_ppm,
        }
    }

    fn run(&mut self) {
        loop {
            (0..self.nodes.len()).for_each(|index| self.serve(index));
            let deadlines = self
                .nodes
                .iter()
                .filter_map(|node| node.engine.poll_timeout());
            let deadlines = deadlines.map(|at| at.as_nanos());
            let arrival = self.air.keys().next().map(|key| key.0);
            let Some(next) = deadlines.chain(arrival).min() else {
                return;
            };
            if next > LIMIT_NS {
                return;
            }
            self.now_ns = self.now_ns.max(next);
            while let Some(entry) = self.air.first_entry() {
                if entry.key().0 > self.now_ns {
                    break;
                }
                let (from, to, packet) = entry.remove();
                self.arrive(from, to, &packet);
            }
            let now = Instant::from_nanos(self.now_ns);
            for node in &mut self.nodes {
                if node.engine.poll_timeout().is_some_and(|at| at <= now) {
                    node.engine.handle_timeout(now);
                }
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let now = Instant::from_nanos(self.now_ns);
        let node = &mut self.nodes[index];
        take_events(node);
        if let (Some(bytes), Some(id), true) = (&node.sends, node.stream, node.connected) {
            let to = (bytes.len() as u64).min(node.released + STORE_LEN);
            if to > node.written {
                node.written = to;
                node.engine.push(now, id, to);
            }
            if to == bytes.len() as u64 && !node.finished {
                node.finished = true;
                node.engine.finish(now, id);
            }
        }
        loop {
            let mut batch = Batch::new(4);
            let node = &mut self.nodes[index];
            node.engine.poll_transmit(now, &mut batch);
            let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
                break;
            };
            let sends = node.sends.clone().unwrap_or_default();
            let packets = written(&batch, |_, range, out| {
                out.extend_from_slice(&sends[range.start as usize..range.end as usize]);
            });
            for packet in packets {
                self.send(index as u32, path.remote, &packet);
            }
            take_events(&mut self.nodes[index]);
        }
        take_events(&mut self.nodes[index]);
    }

    /// Sends to all nodes on the group's network, or to one address.
    fn send(&mut self, from: u32, to: Address, packet: &[u8]) {
        if to == ALL {
            let direct = (0..self.behind_relay).filter(|index| *index != from);
            let receivers: Vec<u32> = direct.chain([RELAY]).collect();
            for receiver in receivers {
                self.carry(from, receiver, packet);
            }
        } else if let Address::Station(to) = to {
            let is_far = |station: u32| (self.behind_relay..RELAY).contains(&station);
            assert!(
                !is_far(to) || from >= STAND_INS,
                "only stand-ins reach members"
            );
            assert!(
                !is_far(from) || to >= STAND_INS,
                "members reach stand-ins only"
            );
            self.carry(from, to, packet);
        }
    }

    fn carry(&mut self, from: u32, to: u32, packet: &[u8]) {
        if self.random.below(1_000_000) < self.loss_ppm {
            return;
        }
        self.made += 1;
        let key = (self.now_ns + DELAY_NS, self.made);
        self.air.insert(key, (from, to, packet.to_vec()));
    }

    fn arrive(&mut self, from: u32, to: u32, packet: &[u8]) {
        let now = Instant::from_nanos(self.now_ns);
        let source = Address::Station(from);
        if to >= RELAY {
            let arrival = match to.checked_sub(STAND_INS) {
                Some(index) => ArrivalAddress::StandIn(index as usize),
                None => ArrivalAddress::Group,
            };
            let mut out = Vec::new();
            let send = |index: usize, to: Address| out.push((index, to));
            self.relay.handle_packet(now, arrival, source, packet, send);
            for (index, to) in out {
                self.send(STAND_INS + index as u32, to, packet);
            }
            return;
        }
        let node = &mut self.nodes[to as usize];
        let mut deliveries = Deliveries::default();
        node.engine
            .handle_packet(now, Received::new(source, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            assert!(!delivery.gap);
            let bytes = match delivery.bytes {
                Bytes::Packet(range) => packet[range].to_vec(),
                Bytes::Reassembled(bytes) => bytes,
            };
            let received = node.received.entry(delivery.association).or_default();
            received.bytes.extend_from_slice(&bytes);
            node.engine
                .consume(now, delivery.association, bytes.len() as u64);
        }
    }
}

fn take_events(node: &mut Node) {
    while let Some(event) = node.engine.poll_event() {
        match event {
            Event::Connected(_) => node.connected = true,
            Event::Accepted(id, _) => drop(node.received.entry(id).or_default()),
            Event::Released(_, range) => {
                assert_eq!(range.start, node.released, "not the next bytes");
                node.released = range.end;
            }
            Event::Finished(id) => node.received.entry(id).or_default().finished = true,
            Event::Closed(id, reason) if Some(id) == node.stream => node.closed = Some(reason),
            Event::Closed(..) => {}
            other => panic!("no event of a group: {other:?}"),
        }
    }
    while node.engine.poll_member_event().is_some() {}
}

/// The bytes that sender `index` sends; each sender's length is different.
fn stream_bytes(index: u32) -> Vec<u8> {
    let len = 60_000 + u64::from(index) * 7;
    (0..len)
        .map(|at| (at * 31 % 251 + u64::from(index)) as u8)
        .collect()
}

#[test]
fn relay_members_receive_all_senders_under_loss() {
    let mut repaired = 0;
    for seed in seeds(20) {
        let mut random = SplitMix64::new(seed);
        let counts = [1 + random.below(3), random.below(3), 1 + random.below(8)].map(|n| n as u32);
        let loss_ppm = [0, 10_000, 50_000, 100_000][random.below(4) as usize];
        let mut network = RelayNetwork::new(seed, counts, loss_ppm);
        network.run();
        let about = format!("seed {seed}, {counts:?}, loss {loss_ppm}");
        let [senders, direct, behind_relay] = counts;
        let mut expected: Vec<Vec<u8>> = (0..senders).map(stream_bytes).collect();
        expected.sort();
        for node in &network.nodes[..senders as usize] {
            assert_eq!(node.closed, Some(CloseReason::Graceful), "{about}");
            let id = node.stream.expect("it sends");
            let report = node.engine.members(id);
            assert_eq!(
                report.len() as u32,
                direct + behind_relay,
                "{about}: {report:?}"
            );
            for index in 0..behind_relay {
                let stand_in = Address::Station(STAND_INS + index);
                let done = |member: &engine_xtp::group::Member| {
                    member.address == stand_in && member.state == MemberState::Done
                };
                assert!(report.iter().any(done), "{about}: {report:?}");
            }
            repaired += node.engine.counters().retransmissions;
        }
        for node in &network.nodes[senders as usize..] {
            assert!(
                node.received.values().all(|received| received.finished),
                "{about}"
            );
            let mut received: Vec<_> = node
                .received
                .values()
                .map(|received| received.bytes.clone())
                .collect();
            received.sort();
            assert!(received == expected, "{about}");
        }
        assert_eq!(network.relay.streams() as u32, senders);
    }
    assert!(repaired > 100 || seeds(20).count() == 1, "{repaired}");
}

/// Answers of members behind a relay, all together, and how many damping suppressed; `direct` receivers are in the group.
fn answers_behind_relay(direct: u32, damping: bool) -> (u64, u64) {
    let config = Config {
        packet_len: 500,
        reliability: Reliability::Buckets(BucketConfig {
            requests: 2,
            tolerated: 2,
        }),
        answer_to: None,
        damping,
        slot: Duration::from_millis(20),
        ..Config::default()
    };
    let mut network = RelayNetwork::with_config(9, [1, direct, 20], 0, &config);
    // Receivers in the group answer to the group; a member behind a relay reaches its stand-in alone.
    let in_group = Config {
        answer_to: Some(ALL),
        ..config
    };
    for (index, node) in network.nodes.iter_mut().enumerate().skip(1) {
        if index <= direct as usize {
            let seed = 900 + index as u64;
            let config = Config {
                seed,
                ..in_group.clone()
            };
            node.engine = GroupEndpoint::new(config);
            node.engine.listen(true);
        }
    }
    network.run();
    assert_eq!(network.nodes[0].closed, Some(CloseReason::Graceful));
    let behind = &network.nodes[1 + direct as usize..];
    for node in behind {
        let all = node.received.values();
        assert!(all.map(|received| &received.bytes).eq([&stream_bytes(0)]));
    }
    let counts = behind.iter().map(|node| node.engine.control_counts());
    counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn damping_behind_a_relay_suppresses_most_answers() {
    for direct in [0, 5] {
        let (alone, none) = answers_behind_relay(direct, false);
        let (given, damped) = answers_behind_relay(direct, true);
        assert_eq!(none, 0);
        assert!(
            damped > 0 && given * 2 < alone,
            "{given} of {alone}, {direct} in the group"
        );
    }
}

#[test]
fn dead_member_behind_relay_reported_silent() {
    let mut network = RelayNetwork::new(3, [1, 1, 3], 0);
    // The last member joins and then crashes.
    while !network.nodes[0].connected {
        (0..network.nodes.len()).for_each(|index| network.serve(index));
        let Some((&key, _)) = network.air.iter().next() else {
            break;
        };
        network.now_ns = key.0;
        let (from, to, packet) = network.air.remove(&key).expect("it is the first");
        network.arrive(from, to, &packet);
    }
    let silent = network.nodes.len() - 1;
    network.nodes[silent].engine = GroupEndpoint::new(Config::default());
    network.nodes[silent].received.clear();
    network.run();
    let report = network.nodes[0]
        .engine
        .members(network.nodes[0].stream.expect("it sends"));
    let state_of = |index: u32| {
        let at = Address::Station(STAND_INS + index);
        let known = report.iter().find(|member| member.address == at);
        known.map(|member| member.state)
    };
    let [one, two, three] = [0, 1, 2].map(state_of);
    assert_eq!(
        (one, two),
        (Some(MemberState::Done), Some(MemberState::Done))
    );
    assert_eq!(three, Some(MemberState::Silent), "{report:?}");
    for node in &network.nodes[1..silent] {
        assert!(
            node.received
                .values()
                .any(|received| received.bytes == stream_bytes(0))
        );
    }
}

#[test]
fn relay_forwards_only_known_streams() {
    let packets = super::recorded();
    let members = [Address::Station(1), Address::Station(2)];
    let mut relay = Relay::new(RelayConfig {
        members: members.to_vec(),
        ..RelayConfig::default()
    });
    let now = Instant::from_nanos(0);
    let mut count = |arrival: ArrivalAddress, from: u32, packet: &[u8]| {
        let mut sent = Vec::new();
        let from = Address::Station(from);
        relay.handle_packet(now, arrival, from, packet, |index, to| {
            sent.push((index, to))
        });
        sent
    };
    let first = &packets[0];
    // A control packet of an unknown stream is dropped, and so is a packet of a foreign source.
    let answer = packets.iter().find(|packet| packet[0] & 0x80 != 0);
    let answer = answer.expect("receivers answer");
    assert!(count(ArrivalAddress::StandIn(0), 1, answer).is_empty());
    assert!(count(ArrivalAddress::StandIn(0), 77, first).is_empty());
    assert_eq!(
        count(ArrivalAddress::Group, 50, first),
        [(0, members[0]), (1, members[1])]
    );
    // Dropped: the same key from another source, a control packet to the group, damaged packets.
    assert!(count(ArrivalAddress::Group, 51, first).is_empty());
    assert!(count(ArrivalAddress::Group, 50, answer).is_empty());
    let mut damaged = first.clone();
    damaged[20] ^= 1;
    assert!(count(ArrivalAddress::Group, 50, &damaged).is_empty());
    assert!(count(ArrivalAddress::Group, 50, &first[..20]).is_empty());
    // The sender's packet to one member; an index without a member.
    assert_eq!(
        count(ArrivalAddress::StandIn(1), 50, first),
        [(1, members[1])]
    );
    assert!(count(ArrivalAddress::StandIn(2), 50, first).is_empty());
    assert_eq!(relay.streams(), 1);
}
