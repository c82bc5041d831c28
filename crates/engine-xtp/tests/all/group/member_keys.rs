//! Packets in the name of a member, written by others (0018, Keys).

use super::multicast_packet;
use super::network::GroupNetwork;
use super::plan::{MS, Station};
use engine::test_kit::{give_packet, nothing, take_packets, written, zeros};
use engine::{Address, Associations, AssociationsExt, Batch, CloseReason, Instant, Protocol};
use engine_xtp::group::{AdmittedHost, Config, GroupEndpoint, JoinSecret, MemberState};
use engine_xtp::pdu::{
    AddressSegment, Body, CommonControl, Header, Options, Packet, RTN, Reject, Service, Span,
    Spans, SyncNumber, TrafficSpec,
};
use std::net::SocketAddr;

const BYTES: u64 = 2_000_000;

fn octets(key: u64, options: Options, sync: u32, body: Body<'_>) -> Vec<u8> {
    multicast_packet(key | RTN, options, (sync, 0), body)
}

fn common(rseq: u64, alloc: u64, echo: u32) -> CommonControl {
    CommonControl {
        rseq,
        alloc,
        echo: SyncNumber(echo),
    }
}

fn join(stream: u64, own: u64, window: u64) -> Vec<u8> {
    let body = Body::Jcntl {
        common: common(u64::MAX, window, 0),
        reserved: 0,
        xkey: own,
        domain: 0,
        address: AddressSegment::Null([0; 4]),
        traffic: TrafficSpec::Plain(Service::from_code(6), [0; 4]),
    };
    octets(stream, Options::default(), 0, body)
}

/// A group whose second member, behind a link with loss, is impersonated: `forge` makes packets
/// from the key of the stream, its latest sync, and the bytes that were sent.
fn impersonate(forge: impl Fn(u64, u32, u64) -> Vec<u8>) -> GroupNetwork {
    let config = Config {
        packet_len: 1000,
        members_min: 3,
        ..Config::default()
    };
    let mut stations = vec![Station::sender(&config, BYTES)];
    stations.extend((0..3).map(|_| Station::receiver(&config)));
    stations[2].link.loss_ppm = 20_000;
    let mut network = GroupNetwork::new(stations, 3);
    for ms in 1..400 {
        network.run(ms * MS);
        let sent = network.trace.iter().filter(|(_, from, _)| *from == 0);
        let headers = sent.map(|(_, _, packet)| Packet::parse(packet).expect("good").header);
        let headers: Vec<Header> = headers.filter(|header| header.key & RTN == 0).collect();
        let last = headers.last().expect("it sends");
        let seq = headers.iter().map(|header| {
            header.seq
                + u64::from(header.dlen) * u64::from(header.format == engine_xtp::pdu::Format::Data)
        });
        let packet = forge(last.key, last.sync.0, seq.max().unwrap_or(0));
        network.forge(network.now_ps + 1, 2, 0, packet);
    }
    network.run(100_000 * MS);
    network
}

fn assert_all_done(network: &GroupNetwork) {
    assert_eq!(network.hosts[0].closed, Some(CloseReason::Graceful));
    let id = network.hosts[0].sending.expect("it sends");
    let members = network.hosts[0].engine.members(id);
    let states: Vec<_> = members.iter().map(|member| member.state).collect();
    assert_eq!(states, [MemberState::Done; 3]);
    for station in 1..=3 {
        let stream = network.stream(station).expect("it joined");
        let got = (stream.bytes, stream.wrong, stream.gaps, stream.finished);
        assert_eq!(got, (BYTES, 0, 0, true), "{station}");
        assert_eq!(stream.closed, Some(CloseReason::Graceful), "{station}");
    }
}

#[test]
fn forged_end_does_not_end_a_member() {
    assert_all_done(&impersonate(|key, sync, sent| {
        let body = Body::Cntl(common(sent, sent, sync));
        octets(key, Options::END, sync, body)
    }));
}

#[test]
fn forged_acknowledgement_releases_nothing() {
    assert_all_done(&impersonate(|key, sync, sent| {
        let body = Body::Cntl(common(sent, 1 << 40, sync));
        octets(key, Options::RCLOSE, sync, body)
    }));
}

#[test]
fn forged_join_does_not_let_go_of_a_members_bytes() {
    assert_all_done(&impersonate(|key, sync, _| {
        join(key, 1000 + u64::from(sync), 1000)
    }));
}

#[test]
fn forged_key_of_a_member_is_a_foreign_source() {
    let network = impersonate(|key, sync, sent| {
        let body = Body::Cntl(common(sent, sent, sync));
        octets(key ^ 2, Options::RCLOSE, sync, body)
    });
    assert_all_done(&network);
    let rejects = network.hosts[0].engine.rejects();
    assert!(rejects.count(Reject::UnknownKey) > 10);
}

/// A sender with a member at station 1, with the key of the stream, the key granted to the member,
/// and the last sync. `BYTES` were submitted and what the window allows was sent.
fn sender_with_member(window: u64) -> (GroupEndpoint, u64, u64, u32) {
    let mut sender = GroupEndpoint::new(Config::default());
    let id = sender.connect(Instant::ZERO, &[Address::Station(9)]);
    let id = id.expect("there is room");
    let stream = drain(&mut sender).0.expect("it sends FIRST");
    handle(&mut sender, &join(stream, 77, window));
    let granted = drain(&mut sender).1.expect("it grants");
    sender.push(Instant::ZERO, id, BYTES);
    let (_, _, sync) = drain(&mut sender);
    (sender, stream, granted, sync)
}

fn handle(endpoint: &mut GroupEndpoint, packet: &[u8]) {
    give_packet(endpoint, Instant::ZERO, Address::Station(1), packet);
}

/// Sends all: the key of the stream, the key granted in a TCNTL, and the last sync.
fn drain(endpoint: &mut GroupEndpoint) -> (Option<u64>, Option<u64>, u32) {
    let (mut stream, mut granted, mut sync) = (None, None, 0);
    for (_, octets) in take_packets(endpoint, Instant::ZERO, 1, zeros) {
        let packet = Packet::parse(&octets).expect("an engine sends good packets");
        sync = packet.header.sync.0;
        match packet.body {
            Body::Tcntl { xkey, .. } => granted = Some(xkey),
            _ if packet.header.key & RTN == 0 => stream = Some(packet.header.key),
            _ => {}
        }
    }
    (stream, granted, sync)
}

#[test]
fn each_member_has_a_key_of_its_own() {
    let (mut sender, stream, granted, _) = sender_with_member(1 << 20);
    assert_ne!(granted, stream);
    handle(&mut sender, &join(stream, 77, 1 << 20));
    assert_eq!(drain(&mut sender).1, Some(granted), "a repeated JCNTL");
    handle(&mut sender, &join(stream, 78, 1 << 20));
    assert_ne!(drain(&mut sender).1, Some(granted), "another JCNTL");
}

#[test]
fn numbers_at_the_limits_of_64_bits_leave_the_sender_whole() {
    let limits = [
        0,
        1,
        1 << 32,
        (1 << 62) - 1,
        1 << 62,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    for rseq in limits {
        for alloc in limits {
            let (mut sender, stream, granted, sync) = sender_with_member(alloc);
            for key in [granted, stream] {
                let control = Body::Cntl(common(rseq, alloc, sync));
                handle(&mut sender, &octets(key, Options::default(), sync, control));
                let (left, right) = (rseq.to_be_bytes(), alloc.to_be_bytes());
                let span = [left, right].concat();
                let spans = Spans::new(&span).expect("it is one span");
                let control = Body::Ecntl(common(0, alloc, sync), spans);
                handle(&mut sender, &octets(key, Options::default(), sync, control));
            }
            drain(&mut sender);
            let next = sender.poll_timeout().unwrap_or(Instant::ZERO);
            sender.handle_timeout(next);
        }
    }
}

#[test]
fn spans_out_of_order_rejected() {
    let span = |left, right| Span { left, right };
    for spans in [
        vec![span(2000, 3000), span(1000, 1500)],
        vec![span(2000, 1000)],
        vec![span(2000, 2000)],
        vec![span(1000, 3000), span(2000, 4000)],
        vec![span(100, 3000)],
        vec![span(1000, BYTES + 1)],
    ] {
        let (mut sender, _, granted, sync) = sender_with_member(1 << 30);
        let list: Vec<u8> = spans
            .iter()
            .flat_map(|span| [span.left.to_be_bytes(), span.right.to_be_bytes()])
            .flatten()
            .collect();
        let list = Spans::new(&list).expect("whole spans");
        let body = Body::Ecntl(common(500, 1 << 30, sync), list);
        handle(
            &mut sender,
            &octets(granted, Options::default(), sync, body),
        );
        assert_eq!(sender.rejects().count(Reject::NeverSent), 1, "{spans:?}");
        assert_eq!(
            sender.holdings().entries,
            sender_with_member(1 << 30).0.holdings().entries
        );
    }
}

fn socket(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Exchanges all packets of two endpoints, the first at 10.0.0.1 and the second at 10.0.0.2.
fn exchange(endpoints: &mut [GroupEndpoint; 2]) {
    let addresses = [socket("10.0.0.1:5000"), socket("10.0.0.2:5000")];
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut batch = Batch::new(4);
            endpoints[from].poll_transmit(Instant::ZERO, &mut batch);
            for packet in written(&batch, nothing) {
                let from = Address::Socket(addresses[from]);
                give_packet(&mut endpoints[to], Instant::ZERO, from, &packet);
            }
        }
    }
}

#[test]
fn only_hosts_with_the_advertised_secret_are_admitted() {
    let secret = JoinSecret::new([5; 16]);
    for (advertised, address, joins) in [
        (Some(secret), "10.0.0.2", true),
        (Some(JoinSecret::new([6; 16])), "10.0.0.2", false),
        (Some(secret), "10.0.0.3", false),
        (None, "10.0.0.2", true),
    ] {
        let mut sender = GroupEndpoint::new(Config {
            admitted: Some(vec![AdmittedHost {
                address: address.parse().expect("an address"),
                join_secret: advertised,
            }]),
            ..Config::default()
        });
        let mut receiver = GroupEndpoint::new(Config {
            join_secret: Some(secret),
            ..Config::default()
        });
        receiver.listen(true);
        let group = Address::Socket(socket("239.1.2.3:5000"));
        let id = sender
            .connect(Instant::ZERO, &[group])
            .expect("there is room");
        let mut endpoints = [sender, receiver];
        exchange(&mut endpoints);
        assert_eq!(
            endpoints[0].members(id).len(),
            usize::from(joins),
            "{advertised:?} {address}"
        );
    }
}

#[test]
fn streams_of_other_hosts_are_refused() {
    for (host, accepted) in [("10.0.0.1", 1), ("10.0.0.9", 0)] {
        let mut receiver = GroupEndpoint::new(Config {
            accept_from: Some(vec![host.parse().expect("an address")]),
            ..Config::default()
        });
        receiver.listen(true);
        let mut sender = GroupEndpoint::new(Config::default());
        let group = Address::Socket(socket("239.1.2.3:5000"));
        sender
            .connect(Instant::ZERO, &[group])
            .expect("there is room");
        let mut endpoints = [sender, receiver];
        exchange(&mut endpoints);
        assert_eq!(endpoints[1].holdings().associations, accepted);
    }
}
