//! Malformed and forged packets to a group endpoint: wire numbers at the limits of 64 bits.

use super::multicast_packet;
use engine::{Address, Associations, Deliveries, Event, Instant, Protocol, Received};
use engine_xtp::group::{Config, GroupEndpoint};
use engine_xtp::pdu::{
    AddressSegment, Body, CommonControl, Format, Options, Reject, Service, SyncNumber, TrafficSpec,
};

/// Largest sequence number taken from a peer; windows are added to it.
const SEQ_MAX: u64 = 1 << 62;

/// A listening endpoint.
fn receiver() -> GroupEndpoint {
    let mut endpoint = GroupEndpoint::new(Config::default());
    endpoint.listen(true);
    endpoint
}

fn octets(key: u64, options: Options, seq: u64, body: Body<'_>) -> Vec<u8> {
    multicast_packet(key, options, (1, seq), body)
}

/// Sends a packet of station 7 to `endpoint`.
fn hit(endpoint: &mut GroupEndpoint, packet: &[u8]) {
    let mut deliveries = Deliveries::default();
    let now = Instant::from_nanos(1000);
    endpoint.handle_packet(
        now,
        Received::new(Address::Station(7), packet),
        &mut deliveries,
    );
}

/// The packets that can open a stream without error control.
fn openings(key: u64, seq: u64) -> [Vec<u8>; 3] {
    let first = Body::First {
        domain: 0,
        address: AddressSegment::Null([0; 4]),
        traffic: TrafficSpec::Plain(Service::from_code(5), [0; 4]),
        data: b"",
    };
    let control = Body::Cntl(CommonControl {
        rseq: 0,
        alloc: 0,
        echo: SyncNumber(0),
    });
    [first, Body::Data { data: b"x" }, control].map(|body| octets(key, Options::NOERR, seq, body))
}

#[test]
fn noerr_stream_beyond_sequence_limit_rejected() {
    let mut endpoint = receiver();
    let seqs = [SEQ_MAX + 1, 1 << 63, u64::MAX - (1 << 20), u64::MAX];
    for (key, seq) in (5..).zip(seqs) {
        for packet in openings(key, seq) {
            hit(&mut endpoint, &packet);
        }
    }
    assert_eq!(endpoint.rejects().count(Reject::Body), 3 * 4);
    assert_eq!(endpoint.holdings().associations, 0);
    assert_eq!(endpoint.poll_event(), None);
}

#[test]
fn noerr_stream_at_sequence_limit_accepted() {
    for (format, packet) in [Format::First, Format::Data, Format::Cntl]
        .into_iter()
        .zip(openings(5, SEQ_MAX - 1))
    {
        let mut endpoint = receiver();
        hit(&mut endpoint, &packet);
        let accepted = matches!(endpoint.poll_event(), Some(Event::Accepted(..)));
        assert!(accepted, "{format:?}");
    }
}

/// Four gaps of nearly 2^62 bytes: their sum does not fit into 64 bits.
#[test]
fn lost_bytes_counter_saturates() {
    let mut endpoint = receiver();
    for key in 1..=5 {
        for seq in [0, SEQ_MAX - 1] {
            let data = Body::Data { data: b"x" };
            hit(&mut endpoint, &octets(key, Options::NOERR, seq, data));
        }
    }
    assert_eq!(endpoint.counters().bytes_lost, u64::MAX);
    assert_eq!(endpoint.counters().bytes_delivered, 10);
}
