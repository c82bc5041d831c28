//! Forged packets to receivers of groups and to relays: what they are answered, and the room that
//! they take (0018).

use super::multicast_packet;
use super::network::GroupNetwork;
use super::plan::{MS, Station};
use core::time::Duration;
use engine::{
    Address, Associations, Batch, CloseReason, Deliveries, Instant, Protocol, Received, SplitMix64,
};
use engine_xtp::group::relay::{ArrivalAddress, Relay, RelayConfig};
use engine_xtp::group::{Config, GroupEndpoint};
use engine_xtp::pdu::{
    AddressSegment, Body, CommonControl, Options, Packet, RTN, Service, SyncNumber, TrafficSpec,
};
use std::collections::BTreeMap;

fn first(key: u64, options: Options) -> Vec<u8> {
    let body = Body::First {
        domain: 0,
        address: AddressSegment::Null([0; 4]),
        traffic: TrafficSpec::Plain(Service::from_code(6), [0; 4]),
        data: b"",
    };
    multicast_packet(key, options, (1, 0), body)
}

fn data(key: u64, options: Options, sync: u32, len: usize) -> Vec<u8> {
    let octets_of_user = vec![7; len];
    let body = Body::Data {
        data: &octets_of_user,
    };
    multicast_packet(key, options, (sync, 0), body)
}

fn control(key: u64, options: Options, sync: u32) -> Vec<u8> {
    let common = CommonControl {
        rseq: u64::from(sync % 2) * 1000,
        alloc: 0,
        echo: SyncNumber(0),
    };
    multicast_packet(key, options, (sync, 0), Body::Cntl(common))
}

/// Any packet that a sender may send to a group.
fn forged(random: &mut SplitMix64, key: u64) -> Vec<u8> {
    let one_of =
        |random: &mut SplitMix64, all: &[Options]| all[random.below(all.len() as u64) as usize];
    let sreq = [Options::SREQ, Options::SREQ, Options::default()];
    let all = [
        Options::default(),
        Options::NOERR,
        Options::WCLOSE,
        Options::END,
    ];
    let options = one_of(random, &sreq) | one_of(random, &all);
    let sync = random.next_u64() as u32;
    match random.below(4) {
        0 => first(key, options),
        1 => control(key, options, sync),
        2 => data(key, options, sync, 0),
        _ => data(key, options, sync, random.below(200) as usize),
    }
}

/// Octets that an endpoint received from each address, and sent to it.
#[derive(Default)]
struct Traffic(BTreeMap<Address, (u64, u64)>);

impl Traffic {
    /// Advances `endpoint` to `now` and sends all it has.
    fn advance(&mut self, endpoint: &mut GroupEndpoint, now: Instant) {
        while let Some(at) = endpoint.poll_timeout().filter(|at| *at <= now) {
            endpoint.handle_timeout(at);
            self.drain(endpoint, at);
        }
        self.drain(endpoint, now);
    }

    fn drain(&mut self, endpoint: &mut GroupEndpoint, now: Instant) {
        while endpoint.poll_event().is_some() {}
        loop {
            let mut batch = Batch::new(1);
            endpoint.poll_transmit(now, &mut batch);
            let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
                return;
            };
            let (received, sent) = self.0.entry(path.remote).or_default();
            *sent += batch.packet_len() as u64;
            assert!(sent <= received, "{sent} octets for {received} to {path:?}");
        }
    }
}

#[test]
fn forged_packets_answered_with_no_more_octets_than_they_have() {
    for (seed, slot) in [(1, Duration::ZERO), (2, Duration::from_millis(20))] {
        let mut endpoint = GroupEndpoint::new(Config {
            slot,
            ..Config::default()
        });
        endpoint.listen(true);
        let mut random = SplitMix64::new(seed);
        let mut traffic = Traffic::default();
        for ms in 0..60_000 {
            let now = Instant::from_nanos(ms * 1_000_000);
            let from = Address::Station(100 + random.below(50) as u32);
            let key = 1 + random.below(400);
            let packet = forged(&mut random, key);
            let (received, _) = traffic.0.entry(from).or_default();
            *received += packet.len() as u64;
            let packet = Received::new(from, &packet);
            endpoint.handle_packet(now, packet, &mut Deliveries::default());
            traffic.advance(&mut endpoint, now);
        }
        traffic.advance(&mut endpoint, Instant::from_nanos(200_000_000_000));
        let (received, sent) = traffic
            .0
            .values()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(
            sent > received / 20,
            "{sent} of {received}: nothing was answered"
        );
        println!("{sent} octets for {received}");
    }
}

#[test]
fn one_short_packet_answered_by_nothing_in_a_minute() {
    for packet in [data(5, Options::SREQ, 1, 0), first(5, Options::SREQ)] {
        let mut endpoint = GroupEndpoint::new(Config::default());
        endpoint.listen(true);
        let from = Address::Station(7);
        let mut traffic = Traffic::default();
        traffic.0.insert(from, (packet.len() as u64, 0));
        let packet = Received::new(from, &packet);
        endpoint.handle_packet(Instant::ZERO, packet, &mut Deliveries::default());
        traffic.advance(&mut endpoint, Instant::from_nanos(60_000_000_000));
        assert_eq!(traffic.0[&from].1, 0);
        assert_eq!(endpoint.holdings().associations, 0, "it was given up");
    }
}

/// Ten thousand forged openings a second, of which half need no join.
fn flood(network: &mut GroupNetwork, seconds: u64, mut from: impl FnMut(u64) -> usize) {
    for number in 0..10_000 * seconds {
        let options = [Options::SREQ, Options::default()][number as usize % 2];
        let packet = first(1000 + number, options);
        network.forge(number * MS / 10, from(number), 1, packet);
    }
}

#[test]
fn receiver_joins_and_receives_among_ten_thousand_forged_openings_a_second() {
    let config = Config {
        packet_len: 1000,
        ..Config::default()
    };
    for spoofs_addresses in [true, false] {
        let mut sender = Station::sender(&config, 5_000_000);
        sender.start_ps = 500 * MS;
        let mut network = GroupNetwork::new(vec![sender, Station::receiver(&config)], 3);
        let mut random = SplitMix64::new(9);
        flood(&mut network, 2, |_| match spoofs_addresses {
            true => 1000 + random.below(1 << 30) as usize,
            false => 77,
        });
        network.run(30_000 * MS);
        assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
        let streams = network.hosts[1].streams.values();
        let whole = streams.filter(|stream| stream.finished && stream.wrong == 0);
        assert!(whole.into_iter().any(|stream| stream.bytes == 5_000_000));
        let joined = network.hosts[0].member_events.first().copied();
        assert!(joined.is_some(), "it is a member");
        let opened = network.trace.iter().find(|(_, from, _)| *from == 0);
        let answered = network
            .trace
            .iter()
            .find(|(at, from, packet)| *from == 1 && *at > 500 * MS && is_join(packet));
        let delay_ps = answered.expect("it joins").0 - opened.expect("it opens").0;
        assert!(delay_ps < 50 * MS, "the first answer took {delay_ps} ps");
    }
}

fn is_join(packet: &[u8]) -> bool {
    let parsed = Packet::parse(packet).expect("an engine sends good packets");
    matches!(parsed.body, Body::Jcntl { .. })
}

#[test]
fn one_address_takes_one_share_of_the_contexts() {
    let mut endpoint = GroupEndpoint::new(Config::default());
    endpoint.listen(true);
    let mut open = |from: u32, key: u64| {
        let packet = first(key, Options::SREQ);
        let packet = Received::new(Address::Station(from), &packet);
        endpoint.handle_packet(Instant::from_nanos(key), packet, &mut Deliveries::default());
        endpoint.holdings().associations
    };
    assert_eq!(open(1, 1), 1);
    for key in 2..10_000 {
        assert!(open(2, key) <= 1 + 64);
    }
    for key in 10_000..50_000 {
        assert!(open(key as u32, key) <= 4096);
    }
}

/// A relay with one member, at station 1.
fn relay() -> Relay {
    Relay::new(RelayConfig {
        members: vec![Address::Station(1)],
        ..RelayConfig::default()
    })
}

/// The stations that `relay` forwards a packet to.
fn relayed(relay: &mut Relay, arrival: ArrivalAddress, from: u32, packet: &[u8]) -> Vec<Address> {
    let mut sent = Vec::new();
    let from = Address::Station(from);
    relay.handle_packet(Instant::ZERO, arrival, from, packet, |_, to| sent.push(to));
    sent
}

/// The JCNTL of a member with key `own` to the stream `key`, and the sender's TCNTL, which grants
/// the key `granted`.
fn join(key: u64, own: u64, granted: u64) -> [Vec<u8>; 2] {
    let common = CommonControl {
        rseq: 0,
        alloc: 1000,
        echo: SyncNumber(0),
    };
    let traffic = TrafficSpec::Plain(Service::from_code(6), [0; 4]);
    let join = Body::Jcntl {
        common,
        reserved: 0,
        xkey: own,
        domain: 0,
        address: AddressSegment::Null([0; 4]),
        traffic,
    };
    let grant = Body::Tcntl {
        common,
        reserved: 0,
        xkey: granted,
        traffic,
    };
    [
        multicast_packet(key | RTN, Options::default(), (1, 0), join),
        multicast_packet(own | RTN, Options::default(), (1, 0), grant),
    ]
}

#[test]
fn validated_stream_keeps_its_room_in_a_flooded_relay() {
    let (group, member) = (ArrivalAddress::Group, ArrivalAddress::StandIn(0));
    let (sender, receiver) = (Address::Station(50), Address::Station(1));
    let mut relay = relay();
    let opening = first(7, Options::SREQ);
    assert_eq!(relayed(&mut relay, group, 50, &opening), [receiver]);
    let [asked, granted] = join(7, 11, 13);
    assert_eq!(relayed(&mut relay, member, 1, &asked), [sender]);
    assert_eq!(relayed(&mut relay, member, 50, &granted), [receiver]);
    for key in 1000..20_000 {
        let packet = first(key, Options::SREQ);
        assert_eq!(relayed(&mut relay, group, key as u32, &packet), [receiver]);
        assert!(relay.streams() <= 1024);
    }
    let answer = control(13 | RTN, Options::default(), 2);
    assert_eq!(relayed(&mut relay, member, 1, &answer), [sender]);
    let forgotten = control(1000 | RTN, Options::default(), 2);
    assert!(relayed(&mut relay, member, 1, &forgotten).is_empty());
}

#[test]
fn one_address_takes_one_share_of_a_relay() {
    let mut relay = relay();
    let quiet = first(7, Options::SREQ);
    relayed(&mut relay, ArrivalAddress::Group, 50, &quiet);
    for key in 1000..20_000 {
        let packet = first(key, Options::SREQ);
        relayed(&mut relay, ArrivalAddress::Group, 51, &packet);
        assert!(relay.streams() <= 1 + 16);
    }
    let answer = control(7 | RTN, Options::default(), 2);
    let known = relayed(&mut relay, ArrivalAddress::StandIn(0), 1, &answer);
    assert_eq!(known, [Address::Station(50)]);
}

#[test]
fn forged_join_behind_a_relay_does_not_cut_off_the_member() {
    let (group, member) = (ArrivalAddress::Group, ArrivalAddress::StandIn(0));
    let mut relay = relay();
    relayed(&mut relay, group, 50, &first(7, Options::SREQ));
    let answer = control(13 | RTN, Options::default(), 2);
    let mut answered = Vec::new();
    for (own, granted) in [(11, 13), (21, 23), (31, 33)] {
        let [asked, grant] = join(7, own, granted);
        relayed(&mut relay, member, 1, &asked);
        relayed(&mut relay, member, 50, &grant);
        answered.push(relayed(&mut relay, member, 1, &answer));
    }
    assert!(answered.iter().all(|to| to[..] == [Address::Station(50)]));
    // A member that lost its state and joined again is heard with its new key alone.
    let restarted = control(33 | RTN, Options::default(), 3);
    assert_eq!(relayed(&mut relay, member, 1, &restarted).len(), 1);
    assert!(relayed(&mut relay, member, 1, &answer).is_empty());
}
