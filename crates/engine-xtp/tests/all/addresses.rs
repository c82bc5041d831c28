//! FIRST with an address or traffic specifier that is malformed, unsupported or for another host.

use crate::user::plain;
use engine::{Address, Associations, Batch, Deliveries, Instant, Protocol, Received};
use engine_xtp::pdu::{AddressFormat, Body, DiagValue, Format, Header, Options, Packet};
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
        sync: 1,
        seq: 0,
    };
    let mut packet = Vec::new();
    Packet {
        header,
        body: Body::Data { data: body },
    }
    .emit_with_checksum(&mut packet);
    let received = Received::new(Address::Station(0), &packet);
    engine.handle_packet(Instant::ZERO, received, &mut Deliveries::default());
    let mut batch = Batch::new(1);
    engine.poll_transmit(Instant::ZERO, &mut batch);
    let packets = plain(&batch);
    let packet = Packet::parse(packets.first()?).expect("a good packet");
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
