//! FIRST with an address or traffic specifier that is malformed, unsupported or for another host.

use engine::test_kit::{give_packet, nothing, take_packets};
use engine::{Address, Associations, CloseReason, Event, Instant, Protocol};
use engine_xtp::pdu::{
    AddressFormat, Body, DiagValue, Format, Header, NamedAddress, Options, Packet, SyncNumber,
    Version,
};
use engine_xtp::{Config, Xtp};

/// The DIAG that answers a FIRST with this body.
fn refusal(body: &[u8]) -> Option<DiagValue> {
    let mut engine = Xtp::new(Config::default());
    engine.listen(true);
    let header = Header {
        key: 5,
        options: Options::SREQ,
        format: Format::First,
        dlen: 0,
        check: 0,
        sort: 0,
        sync: SyncNumber(1),
        seq: 0,
    };
    let mut packet = Vec::new();
    Packet {
        header,
        body: Body::Data { data: body },
    }
    .emit_with_checksum(&mut packet);
    give_packet(&mut engine, Instant::ZERO, Address::Station(0), &packet);
    let answers = take_packets(&mut engine, Instant::ZERO, 1, nothing);
    let (_, packet) = answers.first()?;
    let packet = Packet::parse(packet).expect("a good packet");
    match packet.body {
        Body::Diag(diag) => Some(diag.value),
        _ => None,
    }
}

#[test]
fn first_refusal_names_bad_address_or_traffic() {
    let traffic = [0, 8, 4, 0, 0, 0, 0, 0];
    let with = |address: &[u8], traffic: &[u8]| refusal(&[address, traffic].concat());
    let null = [0, 8, 0, 0, 0, 0, 0, 0];
    let direct = [0, 10, 0, 5, 1, 2, 3, 4, 5, 6];
    assert_eq!(with(&null, &traffic), None);
    assert_eq!(
        with(&direct, &traffic),
        None,
        "direct addresses are up to the listener"
    );
    for code in [2, 3, 4, 77, 200] {
        let other = [0, 8, 0, code, 0, 0, 0, 0];
        assert_eq!(
            with(&other, &traffic),
            Some(DiagValue::ADDRESS_FORMAT),
            "{code}"
        );
    }
    let short = [0, 8, 0, 1, 0, 0, 0, 0];
    assert_eq!(with(&short, &traffic), Some(DiagValue::MALFORMED_ADDRESS));
    let format = [0, 8, 4, 9, 0, 0, 0, 0];
    assert_eq!(with(&null, &format), Some(DiagValue::TRAFFIC_FORMAT));
    let long = [0, 9, 4, 0, 0, 0, 0, 0, 0];
    assert_eq!(with(&null, &long), Some(DiagValue::MALFORMED_TRAFFIC));
    let names = [0, 1, 2, 3, 4, 5, 6, 9, 128].map(AddressFormat::from_code);
    let apart: std::collections::BTreeSet<String> =
        names.iter().map(|name| format!("{name:?}")).collect();
    assert_eq!(apart.len(), names.len());
}

fn end(version: Version, address: Option<&str>, early_accept: bool) -> Xtp {
    Xtp::new(Config {
        version,
        early_accept,
        address: address.map(|text| NamedAddress::parse(text).expect(text)),
        ..Config::default()
    })
}

/// What both ends hear of an association that one opens to the other, and the first packet.
fn open(mut ends: [Xtp; 2]) -> ([Vec<Event>; 2], Vec<u8>) {
    ends[1].listen(true);
    let to = Address::Station(1);
    ends[0]
        .connect(Instant::ZERO, &[to])
        .expect("there is room");
    let (mut events, mut first) = ([Vec::new(), Vec::new()], None);
    for round in 0..20u64 {
        let from = (round % 2) as usize;
        // After the coalescing delay.
        let now = Instant::from_nanos(round * 2_000_000);
        ends[from].handle_timeout(now);
        for (_, packet) in take_packets(&mut ends[from], now, 1, nothing) {
            first.get_or_insert_with(|| packet.clone());
            let source = Address::Station(from as u32);
            give_packet(&mut ends[1 - from], now, source, &packet);
        }
        for (end, heard) in ends.iter_mut().zip(&mut events) {
            heard.extend(std::iter::from_fn(|| end.poll_event()));
        }
    }
    (events, first.expect("FIRST"))
}

#[test]
fn listener_answers_to_the_address_that_it_has() {
    let names = ["direct:0a0b0c", "iso:49000101", "xns:1.020000000002.451"];
    for version in [Version::V33, Version::V35, Version::V36, Version::V40] {
        for (name, early) in names
            .iter()
            .flat_map(|name| [(*name, true), (*name, false)])
        {
            let ends = [Some(name), Some(name)].map(|name| end(version, name, early));
            let ([opener, listener], first) = open(ends);
            let connected = opener
                .iter()
                .any(|event| matches!(event, Event::Connected(_)));
            let accepted = listener
                .iter()
                .any(|event| matches!(event, Event::Accepted(..)));
            assert!(
                connected && accepted,
                "{version:?} {name}: {opener:?} {listener:?}"
            );
            let segment = NamedAddress::parse(name).expect(name);
            let format = match segment.segment().format() {
                AddressFormat::Direct => 5,
                AddressFormat::Iso => 2,
                other => {
                    assert_eq!(other, AddressFormat::Xns);
                    3
                }
            };
            assert_eq!(first[version.header_len() + 3], format);
        }
    }
}

#[test]
fn listener_refuses_what_it_is_not_called() {
    let refused = |version, asked: Option<&str>, own: Option<&str>| {
        let ([opener, listener], _) = open([end(version, asked, true), end(version, own, true)]);
        assert!(listener.is_empty(), "{listener:?}");
        let is_refusal = |event: &Event| matches!(event, Event::Closed(_, CloseReason::Refused));
        assert!(
            opener.iter().any(is_refusal),
            "{asked:?} of {own:?}: {opener:?}"
        );
    };
    for version in [Version::V36, Version::V40] {
        refused(version, Some("iso:49000101"), None);
        refused(version, Some("iso:49000101"), Some("iso:49000102"));
        refused(version, Some("iso:49000101"), Some("direct:49000101"));
        refused(version, Some("xns:1.2.3"), Some("xns:1.2.4"));
        refused(version, Some("direct:01"), Some("direct:02"));
    }
    // A listener with an address has its port too, and one without takes any Direct address.
    for (asked, own) in [(None, Some("iso:49000101")), (Some("direct:01"), None)] {
        let ends = [asked, own].map(|name| end(Version::V40, name, true));
        let ([opener, _], _) = open(ends);
        assert!(
            opener
                .iter()
                .any(|event| matches!(event, Event::Connected(_)))
        );
    }
}
