//! Malformed, forged and excessive packets: rejected, counted, and bounded in memory and replies.

use engine::test_kit::{take_packets, zeros};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Deliveries, Delivery, Event, Instant,
    Protocol, Received, SplitMix64,
};
use engine_xtp::pdu::{
    AddressSegment, Body, CommonControl, Diag, DiagCode, DiagValue, Endpoints, Format, HEADER_LEN,
    Header, Options, Packet, RTN, Reject, SPAN_LEN, Service, Spans, SyncNumber, TrafficSpec,
};
use engine_xtp::{Config, Holdings, Xtp};

const PEER: Address = Address::Station(7);
const SECOND: u64 = 1_000_000_000;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn header(key: u64, options: Options, sync: u32, seq: u64) -> Header {
    Header {
        key,
        options,
        format: Format::Data,
        dlen: 0,
        check: 0,
        sort: 0,
        sync: SyncNumber(sync),
        seq,
    }
}

fn octets(header: Header, body: Body<'_>) -> Vec<u8> {
    let header = Header {
        format: body.format(),
        ..header
    };
    let mut out = Vec::new();
    Packet { header, body }.emit_with_checksum(&mut out);
    out
}

fn first(key: u64, options: Options, data: &[u8]) -> Vec<u8> {
    let address = AddressSegment::V4(Endpoints {
        dst_host: [10, 0, 0, 2].into(),
        src_host: [10, 0, 0, 1].into(),
        dst_port: 1,
        src_port: 6000,
    });
    let traffic = TrafficSpec::Plain(Service::Stream, [0; 4]);
    octets(
        header(key, options, 1, 0),
        Body::First {
            domain: 0,
            address,
            traffic,
            data,
        },
    )
}

/// The endpoint under attack, and the packets it sent.
struct Victim {
    xtp: Xtp,
    now: Instant,
    sent: Vec<(Address, Vec<u8>)>,
    delivered: Deliveries,
}

impl Victim {
    fn new(config: Config) -> Victim {
        let mut xtp = Xtp::new(config);
        xtp.listen(true);
        Victim {
            xtp,
            now: at(1000),
            sent: Vec::new(),
            delivered: Deliveries::default(),
        }
    }

    fn hit(&mut self, from: Address, packet: &[u8]) {
        self.xtp
            .handle_packet(self.now, Received::new(from, packet), &mut self.delivered);
        self.drain();
    }

    /// Takes all packets the endpoint sends. User bytes are zeros.
    fn drain(&mut self) {
        self.sent
            .extend(take_packets(&mut self.xtp, self.now, 8, zeros));
    }

    fn rejected(&self, reason: Reject) -> u64 {
        self.xtp.rejects().count(reason)
    }

    /// Opens an association from the victim to `PEER` and answers it; returns its id and key.
    fn connected(&mut self) -> (AssociationId, u64) {
        let id = self.xtp.connect(self.now, &[PEER]).expect("room for one");
        self.drain();
        let (_, packet) = self.sent.pop().expect("a FIRST");
        let header = Header::parse(&packet).expect("a good packet");
        self.hit(
            PEER,
            &self.report(header.key, 0, 1 << 20, header.sync.0, &[]),
        );
        assert_eq!(self.xtp.poll_event(), Some(Event::Connected(id)));
        (id, header.key)
    }

    fn report(&self, key: u64, rseq: u64, alloc: u64, echo: u32, spans: &[(u64, u64)]) -> Vec<u8> {
        let common = CommonControl {
            rseq,
            alloc,
            echo: SyncNumber(echo),
        };
        let mut list = Vec::new();
        for (left, right) in spans {
            list.extend_from_slice(&left.to_be_bytes());
            list.extend_from_slice(&right.to_be_bytes());
        }
        let spans = Spans::new(&list).expect("whole spans");
        let body = if spans.is_empty() {
            Body::Cntl(common)
        } else {
            Body::Ecntl(common, spans)
        };
        octets(header(key | RTN, Options::NONE, 1, 0), body)
    }
}

#[test]
fn forged_keys_and_foreign_sources_ignored() {
    let mut victim = Victim::new(Config::default());
    let (_, key) = victim.connected();
    victim.sent.clear();
    let end = |key| {
        octets(
            header(key | RTN, Options::END, 1, 0),
            Body::Cntl(CommonControl {
                rseq: 0,
                alloc: 0,
                echo: SyncNumber(0),
            }),
        )
    };
    let mut random = SplitMix64::new(1);
    for _ in 0..10_000 {
        victim.hit(PEER, &end(random.next_u64() >> 1));
    }
    assert_eq!(victim.rejected(Reject::UnknownKey), 10_000);
    victim.hit(Address::Station(8), &end(key));
    assert_eq!(victim.rejected(Reject::ForeignSource), 1);
    assert_eq!(victim.xtp.poll_event(), None);
    assert!(victim.sent.is_empty(), "a forged packet was answered");
    victim.hit(PEER, &end(key));
    assert!(matches!(victim.xtp.poll_event(), Some(Event::Closed(..))));
}

#[test]
fn ack_of_unsent_data_rejected() {
    let mut victim = Victim::new(Config::default());
    let (id, key) = victim.connected();
    victim.xtp.push(victim.now, id, 10_000);
    victim.drain();
    let sync = Header::parse(&victim.sent.last().expect("data").1)
        .expect("good")
        .sync
        .0;
    let bad: [(u64, &[(u64, u64)]); 7] = [
        (10_001, &[]),
        (u64::MAX, &[]),
        (0, &[(1440, 10_001)]),
        (0, &[(1440, 1440)]),
        (0, &[(2880, 1440)]),
        (0, &[(2880, 4320), (1440, 2880)]),
        (5000, &[(1440, 2880)]),
    ];
    for (rseq, spans) in bad {
        victim.hit(PEER, &victim.report(key, rseq, 1 << 20, sync, spans));
    }
    victim.hit(
        PEER,
        &victim.report(key, 10_000, 1 << 20, sync.wrapping_add(1 << 20), &[]),
    );
    assert_eq!(victim.rejected(Reject::NeverSent), 8);
    assert_eq!(victim.xtp.bytes_in_flight(id), 10_000);
    assert_eq!(victim.xtp.counters().retransmissions, 0);
    victim.hit(PEER, &victim.report(key, 10_000, 1 << 20, sync, &[]));
    assert_eq!(victim.xtp.bytes_in_flight(id), 0);
}

#[test]
fn decreasing_alloc_ignored() {
    let mut victim = Victim::new(Config::default());
    let (id, key) = victim.connected();
    let sync = 0;
    victim.hit(PEER, &victim.report(key, 0, 5, sync, &[]));
    victim.sent.clear();
    victim.xtp.push(victim.now, id, 100_000);
    victim.drain();
    assert_eq!(victim.xtp.bytes_in_flight(id), 100_000);
}

#[test]
fn retransmission_request_below_una_rejected() {
    let mut victim = Victim::new(Config::default());
    let (id, key) = victim.connected();
    victim.xtp.push(victim.now, id, 10_000);
    victim.drain();
    victim.hit(PEER, &victim.report(key, 5000, 1 << 20, 0, &[]));
    victim.hit(PEER, &victim.report(key, 0, 1 << 20, 0, &[(1440, 2880)]));
    assert_eq!(victim.rejected(Reject::Released), 1);
    assert_eq!(victim.xtp.counters().retransmissions, 0);
}

#[test]
fn first_flood_bounded_memory_and_no_amplification() {
    let config = Config {
        unvalidated_max: 50,
        ..Config::default()
    };
    let mut victim = Victim::new(config.clone());
    let (mut received, mut short) = (0, 0);
    for index in 1..20_000u64 {
        let from = Address::Station(index as u32 % 5000);
        let options = if index % 2 == 0 {
            Options::SREQ
        } else {
            Options::NONE
        };
        let packet = first(index, options, &vec![0; (index % 100) as usize]);
        received += packet.len();
        // Too short for a cookie in return.
        short += u64::from(index > 50 && packet.len() < HEADER_LEN + 40);
        victim.hit(from, &packet);
    }
    assert_eq!(victim.xtp.holdings().associations, 50);
    assert_eq!(victim.rejected(Reject::NoRoom), short);
    for station in 0..5000 {
        let to = Address::Station(station);
        let out: usize = victim
            .sent
            .iter()
            .filter(|(dest, _)| *dest == to)
            .map(|(_, p)| p.len())
            .sum();
        assert!(out <= 4 * (HEADER_LEN + 24 + 100), "{out} octets to {to:?}");
    }
    let sent: usize = victim.sent.iter().map(|(_, packet)| packet.len()).sum();
    assert!(sent <= received, "{sent} octets for {received}");
    while victim.xtp.poll_event().is_some() {}
    while victim.xtp.holdings() != Holdings::default() {
        victim.now = victim
            .xtp
            .poll_timeout()
            .expect("unvalidated associations expire");
        victim.xtp.handle_timeout(victim.now);
        victim.drain();
        while victim.xtp.poll_event().is_some() {}
    }
    let sent: usize = victim.sent.iter().map(|(_, packet)| packet.len()).sum();
    assert!(sent <= received, "{sent} octets for {received}");
    assert!(victim.now < at(1000 + 2 * 30 * SECOND));
}

#[test]
fn amplification_limit_holds_for_user_data() {
    let mut victim = Victim::new(Config::default());
    let packet = first(5, Options::SREQ, b"hi");
    victim.hit(PEER, &packet);
    let Some(Event::Accepted(id, _)) = victim.xtp.poll_event() else {
        panic!("not accepted");
    };
    victim.xtp.push(victim.now, id, 100_000);
    victim.drain();
    while victim.now < at(20 * SECOND) {
        victim.now = victim.xtp.poll_timeout().expect("a timer").max(victim.now);
        victim.xtp.handle_timeout(victim.now);
        victim.drain();
    }
    let sent: usize = victim.sent.iter().map(|(_, packet)| packet.len()).sum();
    assert!(sent <= packet.len(), "{sent} octets for {}", packet.len());
}

#[test]
fn out_of_order_bytes_bounded_by_window_and_fragments() {
    let mut victim = Victim::new(Config {
        window: 64 << 10,
        ..Config::default()
    });
    victim.hit(PEER, &first(5, Options::NONE, b""));
    for index in 1..100_000u64 {
        let data = header(5, Options::FASTNAK, 1, index * 2);
        victim.hit(PEER, &octets(data, Body::Data { data: b"x" }));
    }
    let buffered = victim.xtp.holdings().reassembly_bytes;
    assert!(
        buffered > 0 && buffered <= (64 << 10) / 64,
        "{buffered} bytes buffered"
    );
    assert!(victim.rejected(Reject::BeyondWindow) > 90_000);
    assert!(victim.delivered.is_empty());
}

#[test]
fn second_end_or_data_after_end_rejected() {
    let mut victim = Victim::new(Config::default());
    victim.hit(PEER, &first(5, Options::NONE, b"12345"));
    let data =
        |options, seq, data: &'static [u8]| octets(header(5, options, 1, seq), Body::Data { data });
    victim.hit(PEER, &data(Options::WCLOSE, 2, b""));
    victim.hit(PEER, &data(Options::WCLOSE, 7, b"8"));
    victim.hit(PEER, &data(Options::WCLOSE, 5, b"6"));
    victim.hit(PEER, &data(Options::NONE, 8, b"9"));
    victim.hit(PEER, &data(Options::NONE, u64::MAX, b"9"));
    assert_eq!(victim.rejected(Reject::State), 4);
    assert_eq!(victim.delivered.bytes.len(), 1);
}

#[test]
fn quarantined_key_answers_data_but_not_end_or_diag() {
    let mut victim = Victim::new(Config::default());
    let (id, key) = victim.connected();
    victim.xtp.abort(victim.now, id);
    victim.drain();
    victim.sent.clear();
    let data = octets(
        header(key | RTN, Options::NONE, 1, 0),
        Body::Data { data: b"late" },
    );
    victim.hit(PEER, &data);
    assert!(
        Header::parse(&victim.sent[0].1)
            .expect("good")
            .options
            .has(Options::END)
    );
    victim.sent.clear();
    let end = octets(
        header(key | RTN, Options::END, 1, 0),
        Body::Data { data: b"" },
    );
    let diag = Diag {
        code: DiagCode::ABANDONED,
        value: DiagValue::UNSPECIFIED,
        text: b"",
    };
    let diag = octets(header(key | RTN, Options::NONE, 1, 0), Body::Diag(diag));
    victim.hit(PEER, &end);
    victim.hit(PEER, &diag);
    assert!(victim.sent.is_empty());
    victim.now = at(4 * SECOND);
    victim.xtp.handle_timeout(victim.now);
    while victim.xtp.poll_event().is_some() {}
    assert_eq!(victim.xtp.holdings(), Holdings::default());
}

#[test]
fn multi_packet_rejected_by_unicast_endpoint() {
    let mut victim = Victim::new(Config::default());
    victim.hit(PEER, &first(5, Options::MULTI, b""));
    assert_eq!(victim.rejected(Reject::Multicast), 1);
    assert!(victim.sent.is_empty());
}

/// Random sequences of well-formed packets, mostly with keys that exist.
#[test]
fn random_packets_bounded_memory() {
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let config = Config {
            associations_max: 6,
            quarantine_max: 20,
            window: 32 << 10,
            ..Config::default()
        };
        let mut victim = Victim::new(config);
        let (id, key) = victim.connected();
        let mut keys = vec![key | RTN, 5, 6];
        let mut delivered = 0;
        for step in 0..40_000u64 {
            let packet = any_packet(&mut random, &keys);
            victim.hit(PEER, &packet);
            let within = |delivery: &Delivery| match &delivery.bytes {
                engine::Bytes::Packet(range) => range.end <= packet.len(),
                engine::Bytes::Reassembled(bytes) => !bytes.is_empty(),
            };
            assert!(victim.delivered.bytes.iter().all(within));
            delivered += victim.delivered.bytes.len();
            victim.delivered.clear();
            if let Some((_, sent)) = victim.sent.last()
                && let Ok(parsed) = Packet::parse(sent)
                && let Body::Tcntl { xkey, .. } = parsed.body
            {
                keys = vec![key | RTN, xkey | RTN, 5, 6];
            }
            victim.sent.clear();
            victim.now = at(1000 + step * 100_000);
            victim.xtp.handle_timeout(victim.now);
            victim.xtp.push(victim.now, id, step);
            while victim.xtp.poll_event().is_some() {}
            let holdings = victim.xtp.holdings();
            assert!(holdings.associations <= 6 && holdings.quarantined <= 20);
            assert!(holdings.reassembly_bytes <= 6 * (32 << 10));
        }
        assert!(
            delivered > 0 && victim.xtp.rejects().total() > 1000,
            "seed {seed}: nothing was tried"
        );
    }
}

fn any_packet(random: &mut SplitMix64, keys: &[u64]) -> Vec<u8> {
    let key = keys[random.below(keys.len() as u64) as usize];
    let small = |random: &mut SplitMix64| {
        // One number in 40 is near the largest sequence number or near 2^64.
        match random.below(80) {
            0 => (1 << 62) + 2 - random.below(4),
            1 => u64::MAX - random.below(4),
            _ => {
                let bits = random.below(18);
                random.below(1 << bits)
            }
        }
    };
    let close = if random.below(20) == 0 { 0x1a00 } else { 0 };
    let options =
        Options((random.next_u64() as u32 & 0x37_e500) | (random.next_u64() as u32 & close));
    let header = header(key, options, small(random) as u32, small(random));
    let common = CommonControl {
        rseq: small(random),
        alloc: small(random),
        echo: SyncNumber(random.next_u64() as u32),
    };
    let data = vec![1; random.below(1400) as usize];
    let traffic = TrafficSpec::Plain(Service::from_code(random.below(6) as u8), [0; 4]);
    let list: Vec<u8> = (0..random.below(5) * 2)
        .flat_map(|_| small(random).to_be_bytes())
        .collect();
    debug_assert!(list.len().is_multiple_of(SPAN_LEN));
    let body = match random.below(8) {
        0 => return first(5 + random.below(4), options, &data),
        1 => Body::Cntl(common),
        2 => Body::Ecntl(common, Spans::new(&list).expect("whole spans")),
        3 => Body::Tcntl {
            common,
            reserved: 0,
            xkey: random.below(3),
            traffic,
        },
        4 if random.below(50) == 0 => Body::Diag(Diag {
            code: DiagCode(random.below(9) as u32),
            value: DiagValue(0),
            text: b"",
        }),
        _ => Body::Data { data: &data },
    };
    octets(header, body)
}
