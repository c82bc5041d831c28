//! Openings whose source may be forged: honest peers get in beside them, and they cost little.

use crate::pair::{MS, both, clean, joined, run};
use crate::user::Plan;
use engine::test_kit::{give_packet, take_packets, zeros};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, CloseReason, Event, Instant, Protocol,
};
use engine_xtp::pdu::v3::{
    BodyV3, ControlSegmentV3, HeaderV3, PacketKind, PacketV3, RTN_V3, ResendPairs,
};
use engine_xtp::pdu::{
    Body, CommonControl, Format, Header, Options, Packet, RTN, Reject, Service, SyncNumber,
    TrafficSpec, UNLIMITED, Version,
};
use engine_xtp::{Config, RateLimit, Xtp};
use std::collections::{BTreeMap, BTreeSet};

const SERVER: Address = Address::Station(1);

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

/// What `xtp` sends now; its user bytes are zeros.
fn sent_by(xtp: &mut Xtp, now: Instant) -> Vec<(Address, Vec<u8>)> {
    take_packets(xtp, now, 8, zeros)
}

fn events(xtp: &mut Xtp) -> Vec<Event> {
    std::iter::from_fn(|| xtp.poll_event()).collect()
}

/// The FIRST of an endpoint with `config`.
fn first_of(config: &Config) -> Vec<u8> {
    let mut xtp = Xtp::new(config.clone());
    let id = xtp.connect(at(0), &[SERVER]).expect("room");
    xtp.push(at(0), id, 20);
    sent_by(&mut xtp, at(0)).remove(0).1
}

fn listening(config: &Config) -> Xtp {
    let mut xtp = Xtp::new(config.clone());
    xtp.listen(true);
    xtp
}

/// A server, honest clients and a station that forges FIRST.
struct Flood {
    server: Xtp,
    clients: BTreeMap<u32, Xtp>,
    /// Packets on their way: when they arrive, and a number; from where to where.
    queue: BTreeMap<(u64, u64), (Address, Address, Vec<u8>)>,
    made: u64,
    now_us: u64,
    delay_us: u64,
    opened_us: BTreeMap<u32, u64>,
    accepted_us: BTreeMap<u32, u64>,
    /// Clients whose first byte the server's user got.
    heard: BTreeSet<u32>,
    owners: BTreeMap<AssociationId, u32>,
}

impl Flood {
    fn new(config: &Config, delay_us: u64) -> Flood {
        Flood {
            server: listening(config),
            clients: BTreeMap::new(),
            queue: BTreeMap::new(),
            made: 0,
            now_us: 0,
            delay_us,
            opened_us: BTreeMap::new(),
            accepted_us: BTreeMap::new(),
            heard: BTreeSet::new(),
            owners: BTreeMap::new(),
        }
    }

    fn now(&self) -> Instant {
        at(self.now_us)
    }

    fn open(&mut self, station: u32, config: &Config) {
        let mut xtp = Xtp::new(Config {
            seed: u64::from(station),
            ..config.clone()
        });
        let id = xtp.connect(self.now(), &[SERVER]).expect("room");
        xtp.push(self.now(), id, 100);
        self.clients.insert(station, xtp);
        self.opened_us.insert(station, self.now_us);
    }

    fn serve(&mut self) {
        let now = self.now();
        let due = self.queue.split_off(&(self.now_us + 1, 0));
        for (_, (from, to, packet)) in std::mem::replace(&mut self.queue, due) {
            self.arrive(from, to, &packet);
        }
        self.server.handle_timeout(now);
        let mut sent: Vec<(Address, Address, Vec<u8>)> = Vec::new();
        for (to, packet) in sent_by(&mut self.server, now) {
            sent.push((SERVER, to, packet));
        }
        for (&station, client) in &mut self.clients {
            client.handle_timeout(now);
            while client.poll_event().is_some() {}
            for (to, packet) in sent_by(client, now) {
                sent.push((Address::Station(station), to, packet));
            }
        }
        for one in sent {
            self.made += 1;
            let arrival = (self.now_us + self.delay_us, self.made);
            self.queue.insert(arrival, one);
        }
    }

    fn arrive(&mut self, from: Address, to: Address, packet: &[u8]) {
        let now = self.now();
        if let Address::Station(station) = to
            && let Some(client) = self.clients.get_mut(&station)
        {
            give_packet(client, now, from, packet);
        }
        if to == SERVER {
            let deliveries = give_packet(&mut self.server, now, from, packet);
            self.note_events();
            for delivery in deliveries.bytes {
                self.heard.extend(self.owners.get(&delivery.association));
            }
        }
    }

    fn note_events(&mut self) {
        for event in events(&mut self.server) {
            match event {
                Event::Accepted(id, Address::Station(station)) => {
                    self.owners.insert(id, station);
                    self.accepted_us.entry(station).or_insert(self.now_us);
                }
                Event::Closed(id, _) => {
                    self.owners.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// A forged FIRST arrives: the server's answer goes to a station that did not ask.
    fn forge(&mut self, station: u32, packet: &[u8]) {
        let now = self.now();
        give_packet(&mut self.server, now, Address::Station(station), packet);
        self.note_events();
    }
}

/// Clients that the server heard within three round trips, of `count`, one each 10 ms, while 10^5
/// forged FIRST a second arrive.
fn heard_in_time(config: &Config, delay_us: u64, count: u32) -> usize {
    let mut flood = Flood::new(config, delay_us);
    let forged = first_of(config);
    let mut opened = 0;
    for step in 0..u64::from(count + 10) * 1000 {
        flood.now_us = step * 10;
        flood.forge(1 << 20 | step as u32, &forged);
        // The flood goes on for 50 ms before the first honest client.
        if step.is_multiple_of(1000) && step >= 5000 && opened < count {
            opened += 1;
            flood.open(100 + opened, config);
        }
        if step.is_multiple_of(10) {
            flood.serve();
        }
        let holdings = flood.server.holdings();
        assert!(holdings.unvalidated <= config.unvalidated_max);
        assert!(holdings.associations <= config.unvalidated_max + count as usize);
        assert!(holdings.queued <= 1100, "{holdings:?}");
    }
    let in_time = |station: &&u32| {
        let accepted = flood.accepted_us.get(station);
        let late_us = accepted.map_or(u64::MAX, |at| at - flood.opened_us[station]);
        // The test serves its stations each 100 us.
        late_us <= 6 * delay_us + 1000 && flood.heard.contains(station)
    };
    flood.opened_us.keys().filter(in_time).count()
}

#[test]
fn honest_clients_get_in_beside_forged_openings() {
    let in_time = heard_in_time(&Config::default(), 10_000, 100);
    assert!(in_time >= 99, "{in_time} of 100 with explicit openings");
    let implicit = Config {
        explicit: false,
        ..Config::default()
    };
    let in_time = heard_in_time(&implicit, 10_000, 100);
    assert!(in_time >= 99, "{in_time} of 100 with implicit openings");
}

/// Without cookies the room is 10 ms long at this rate.
#[test]
fn honest_clients_get_in_beside_forged_openings_v3_if_the_path_is_short() {
    let config = Config {
        version: Version::V36,
        ..Config::default()
    };
    let in_time = heard_in_time(&config, 2_000, 100);
    assert!(in_time >= 99, "{in_time} of 100");
}

#[test]
fn opening_is_not_reported_before_its_address_is_validated() {
    let config = Config {
        early_accept: false,
        ..Config::default()
    };
    let [mut client, mut server] = [Xtp::new(config.clone()), listening(&config)];
    let id = client.connect(at(0), &[SERVER]).expect("room");
    client.push(at(0), id, 100);
    let peer = Address::Station(7);
    for (_, packet) in sent_by(&mut client, at(0)) {
        give_packet(&mut server, at(0), peer, &packet);
    }
    assert_eq!(events(&mut server), []);
    assert_eq!(server.holdings().associations, 0);
    let (_, answer) = sent_by(&mut server, at(0)).remove(0);
    give_packet(&mut client, at(0), SERVER, &answer);
    assert_eq!(events(&mut client), [Event::Connected(id)]);
    let returned = sent_by(&mut client, at(0));
    // The same packets from elsewhere prove nothing.
    for (_, packet) in &returned {
        give_packet(&mut server, at(0), Address::Station(8), packet);
    }
    assert_eq!(events(&mut server), []);
    let mut heard = 0;
    for (_, packet) in &returned {
        heard += give_packet(&mut server, at(0), peer, packet).bytes.len();
    }
    assert!(matches!(events(&mut server)[..], [Event::Accepted(_, from)] if from == peer));
    assert!(heard > 0, "data do not wait for another round trip");
    let holdings = server.holdings();
    assert_eq!((holdings.associations, holdings.unvalidated), (1, 0));
}

#[test]
fn rate_imposed_before_cookie_returned_reaches_responder() {
    let config = Config {
        early_accept: false,
        ..Config::default()
    };
    let [mut client, mut server] = [Xtp::new(config.clone()), listening(&config)];
    let rate = RateLimit {
        rate_bytes_per_s: 9000,
        burst_bytes: 3000,
    };
    let id = client.connect(at(0), &[SERVER]).expect("room");
    client.impose_rate(at(0), id, Some(rate));
    client.push(at(0), id, 100);
    for _ in 0..3 {
        for (_, packet) in sent_by(&mut client, at(0)) {
            give_packet(&mut server, at(0), Address::Station(7), &packet);
        }
        for (_, packet) in sent_by(&mut server, at(0)) {
            give_packet(&mut client, at(0), SERVER, &packet);
        }
    }
    let [Event::Accepted(peer, _), ..] = events(&mut server)[..] else {
        panic!("it is not accepted");
    };
    assert_eq!(server.rate(peer), Some(rate));
}

/// In 3.x an association that is not accepted yet is kept, says nothing and takes no data.
#[test]
fn forged_opening_costs_the_user_nothing_v3() {
    let config = Config {
        version: Version::V36,
        early_accept: false,
        explicit: false,
        ..Config::default()
    };
    let mut server = listening(&config);
    let delivered = give_packet(&mut server, at(0), Address::Station(7), &first_of(&config));
    assert!(delivered.bytes.is_empty());
    server.handle_timeout(at(31_000_000));
    assert_eq!(events(&mut server), []);
    assert_eq!(server.holdings().associations, 0);
}

#[test]
fn late_acceptance_carries_every_service() {
    for service in [
        Service::Stream,
        Service::Transaction,
        Service::AckedDatagram,
        Service::Bulk,
    ] {
        let (v40, v36) = (Version::V40, Version::V36);
        for (explicit, packet_len, version) in [
            (true, 1472, v40),
            (false, 1472, v40),
            (false, 600, v40),
            (true, 1472, v36),
            (false, 600, v36),
        ] {
            let config = Config {
                service,
                explicit,
                packet_len,
                version,
                early_accept: false,
                ..Config::default()
            };
            let sends = |len| Plan {
                sends: vec![vec![7; len]],
                answers: true,
                ..Plan::default()
            };
            let one_way = service == Service::AckedDatagram;
            let plans = [
                Plan {
                    answers: false,
                    ..sends(5000)
                },
                sends(if one_way { 0 } else { 3000 }),
            ];
            let outcome = run(both(&config, 1), plans, clean(), 1);
            assert_eq!(
                outcome.closed,
                [Some(CloseReason::Graceful); 2],
                "{config:?}"
            );
            let lens = [0, 1].map(|side| joined(&outcome.received[side]).len());
            assert_eq!(lens, [if one_way { 0 } else { 3000 }, 5000]);
            assert!(outcome.end_ps < 40_000 * MS);
        }
    }
}

#[test]
fn invalid_packets_do_not_prolong_an_unvalidated_association() {
    let config = Config::default();
    let mut server = listening(&config);
    let peer = Address::Station(7);
    give_packet(&mut server, at(0), peer, &first_of(&config));
    let header = Header::parse(&first_of(&config)).expect("a good packet");
    let beyond = Packet {
        header: Header {
            format: Format::Data,
            options: Options::NONE,
            seq: 1 << 40,
            ..header
        },
        body: Body::Data { data: b"x" },
    };
    let mut packet = Vec::new();
    beyond.emit_with_checksum(&mut packet);
    for second in 1..30 {
        let now = at(second * 1_000_000);
        server.handle_timeout(now);
        give_packet(&mut server, now, peer, &packet);
    }
    assert_eq!(server.rejects().count(Reject::BeyondWindow), 29);
    server.handle_timeout(at(30_000_001));
    assert_eq!(server.holdings().associations, 0);
}

#[test]
fn strangers_are_answered_a_thousand_times_a_second() {
    let config = Config::default();
    let mut deaf = Xtp::new(config.clone());
    let first = first_of(&config);
    for second in [5, 6] {
        let mut answers = 0;
        for us in 0..100_000 {
            let now = at(second * 1_000_000 + us);
            give_packet(&mut deaf, now, Address::Station(us as u32), &first);
            answers += sent_by(&mut deaf, now).len();
        }
        assert_eq!(answers, 1000);
    }
}

#[test]
fn peer_with_tiny_bursts_does_not_keep_the_sender_busy() {
    let mut client = Xtp::new(Config::default());
    let id = client.connect(at(0), &[SERVER]).expect("room");
    let (_, first) = sent_by(&mut client, at(0)).remove(0);
    let first = Header::parse(&first).expect("a good packet");
    let answer = Packet {
        header: Header {
            key: first.key | RTN,
            format: Format::Tcntl,
            options: Options::NONE,
            ..first
        },
        body: Body::Tcntl {
            common: CommonControl {
                rseq: 0,
                alloc: 1 << 20,
                echo: first.sync,
            },
            reserved: 0,
            xkey: 9,
            traffic: TrafficSpec::Limits {
                service: Service::Stream,
                maxdata: 1440,
                inrate: 4_000_000_000,
                inburst: 1,
                outrate: UNLIMITED,
                outburst: UNLIMITED,
            },
        },
    };
    let mut packet = Vec::new();
    answer.emit_with_checksum(&mut packet);
    give_packet(&mut client, at(0), SERVER, &packet);
    client.push(at(0), id, 1 << 20);
    let (mut now, mut timeouts) = (at(0), 0);
    while now < at(900) {
        sent_by(&mut client, now);
        timeouts += 1;
        now = client.poll_timeout().expect("a timer").max(now);
        client.handle_timeout(now);
    }
    assert!(client.bytes_in_flight(id) >= 1_000_000, "it stands still");
    assert!(timeouts <= 10, "{timeouts} timeouts for 1 MiB");
}

/// A CNTL of 3.x from the client that sent `first` and got `answer`, which echoes `echo`.
fn control_v3(first: &HeaderV3, answer: &HeaderV3, server_key: u32, echo: SyncNumber) -> Vec<u8> {
    let control = ControlSegmentV3 {
        rseq: answer.seq,
        alloc: answer.seq.wrapping_add(1 << 20),
        echo,
        rate: UNLIMITED,
        burst: UNLIMITED,
        xkey: first.key,
        maxdata: 1400,
        reserved: [0; 4],
    };
    let header = HeaderV3 {
        kind: PacketKind::Cntl,
        options: Options::NONE,
        pad_front: 0,
        pad_back: 0,
        key: server_key | RTN_V3,
        route: 0,
        seq: first.seq.wrapping_add(20),
        dseq: answer.seq,
        sync: first.sync,
        dlen: 0,
        sort: 0,
        ttl: 9,
    };
    let body = BodyV3::Cntl(control, ResendPairs::EMPTY);
    PacketV3 { header, body }.emit(Version::V36)
}

/// Ten bits of a key in 3.x are random: who cannot hear may guess it.
#[test]
fn returned_key_without_echoed_sync_validates_no_address_v3() {
    let config = Config {
        version: Version::V36,
        ..Config::default()
    };
    let mut server = listening(&config);
    let peer = Address::Station(7);
    let first = first_of(&config);
    give_packet(&mut server, at(0), peer, &first);
    let first = PacketV3::parse(Version::V36, &first).expect("a good packet");
    let (_, answer) = sent_by(&mut server, at(0)).remove(0);
    let answer = PacketV3::parse(Version::V36, &answer).expect("a good packet");
    let BodyV3::Cntl(control, _) = answer.body else {
        panic!("no control packet: {answer:?}");
    };
    let SyncNumber(sync) = answer.header.sync;
    for echo in [0, 1, sync.wrapping_add(1), sync.wrapping_sub(1), u32::MAX] {
        let guess = control_v3(
            &first.header,
            &answer.header,
            control.xkey,
            SyncNumber(echo),
        );
        give_packet(&mut server, at(1), peer, &guess);
        assert_eq!(server.holdings().unvalidated, 1, "echo {echo}");
    }
    let proof = control_v3(
        &first.header,
        &answer.header,
        control.xkey,
        SyncNumber(sync),
    );
    give_packet(&mut server, at(1), peer, &proof);
    let holdings = server.holdings();
    assert_eq!((holdings.associations, holdings.unvalidated), (1, 0));
}
