//! Packets of XTP 4.0: test vectors and random octets.

use crate::fuzz::targets::completed as resummed;
use engine::SplitMix64;
use engine_xtp::pdu::{
    AddressSegment, Body, CommonControl, Diag, DiagCode, DiagValue, Endpoints, Format, HEADER_LEN,
    Header, Options, Packet, RTN, Reject, Service, Span, SyncNumber, TrafficSpec,
};

/// The formats; packets of the first five are in each recorded session.
pub const FORMATS: [Format; 7] = [
    Format::Data,
    Format::Cntl,
    Format::First,
    Format::Ecntl,
    Format::Tcntl,
    Format::Jcntl,
    Format::Diag,
];

/// Packets that an independent decoder accepted as well formed, with good checksums.
const VECTORS: [(&str, &str); 8] = [
    (
        "FIRST",
        "00000001000000010040002200000018bc6e0000000000010000000000000000001000010a0000020a000001138817700008040000000000",
    ),
    (
        "DATA",
        "00000001000000010044002000000005bbc0000000000002000000000000000068656c6c6f",
    ),
    (
        "DATA unsummed",
        "00000001000000014000002000000005bfd6000000000002000000000000000068656c6c6f",
    ),
    (
        "CNTL",
        "800000010000000100000021000000147fba00000000000100000000000000000000000000000005000000000001000500000002",
    ),
    (
        "ECNTL",
        "800000000000000100000023000000284d6c00000000000200000000000000000000000000000578000000000001117000000003000000010000000000000af00000000000001068",
    ),
    (
        "TCNTL",
        "80000000000000010000002500000038b49b00000000000100000000000000000000000000000000000000000001000000000001000000000000000200000007001804010000057807735940000100000773594000010000",
    ),
    (
        "JCNTL",
        "00000000000000020800002700000038b48000000000000000000000000000000000000000000000000000000001000000000000000000000000000000000009001000010a0000020a000001138817700008040000000000",
    ),
    (
        "DIAG",
        "8000000000000001000200280000001432a4000000000000000000000000000000000001000000016e6f206c697374656e657200",
    ),
];

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn vector(name: &str) -> Vec<u8> {
    let found = VECTORS.iter().find(|(known, _)| *known == name);
    octets(found.expect("a known name").1)
}

#[test]
fn test_vectors_roundtrip() {
    for (name, hex) in VECTORS {
        let known = octets(hex);
        let packet = Packet::parse(&known).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        assert_eq!(packet.emit(), known, "{name}");
        let mut summed = Vec::new();
        packet.emit_with_checksum(&mut summed);
        assert_eq!(summed, known, "{name}: dlen or check differs");
    }
}

#[test]
fn first_vector_fields() {
    let known = vector("FIRST");
    let packet = Packet::parse(&known).expect("a good packet");
    assert_eq!(packet.header.key, 0x1_0000_0001);
    assert!(packet.header.options.has(Options::SREQ));
    let expected = Body::First {
        domain: 0,
        address: AddressSegment::V4(Endpoints {
            dst_host: [10, 0, 0, 2].into(),
            src_host: [10, 0, 0, 1].into(),
            dst_port: 5000,
            src_port: 6000,
        }),
        traffic: TrafficSpec::Plain(Service::Stream, [0; 4]),
        data: &[],
    };
    assert_eq!(packet.body, expected);
}

#[test]
fn control_vector_fields() {
    let known = vector("ECNTL");
    let packet = Packet::parse(&known).expect("a good packet");
    assert_eq!(packet.header.key, RTN | 1);
    let Body::Ecntl(common, spans) = packet.body else {
        panic!("not an ECNTL: {packet:?}");
    };
    assert_eq!(
        common,
        CommonControl {
            rseq: 1400,
            alloc: 70_000,
            echo: SyncNumber(3)
        }
    );
    let spans: Vec<Span> = spans.iter().collect();
    assert_eq!(
        spans,
        [Span {
            left: 2800,
            right: 4200
        }]
    );

    let known = vector("TCNTL");
    let packet = Packet::parse(&known).expect("a good packet");
    let Body::Tcntl {
        common,
        xkey,
        traffic,
        ..
    } = packet.body
    else {
        panic!("not a TCNTL: {packet:?}");
    };
    assert_eq!((common.alloc, xkey), (65_536, 0x2_0000_0007));
    let limits = TrafficSpec::Limits {
        service: Service::Stream,
        maxdata: 1400,
        inrate: 125_000_000,
        inburst: 65_536,
        outrate: 125_000_000,
        outburst: 65_536,
    };
    assert_eq!(traffic, limits);
}

#[test]
fn diag_vector_fields() {
    let known = vector("DIAG");
    let packet = Packet::parse(&known).expect("a good packet");
    let expected = Diag {
        code: DiagCode::REFUSED,
        value: DiagValue::NO_LISTENER,
        text: b"no listener\0",
    };
    assert_eq!(packet.body, Body::Diag(expected));
}

#[test]
fn parse_rejects_in_check_order() {
    let good = vector("CNTL");
    assert_eq!(Packet::parse(&good[..31]), Err(Reject::Short));
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        bad
    };
    assert_eq!(Packet::parse(&with(11, 0x41)), Err(Reject::Version));
    assert_eq!(Packet::parse(&with(15, 19)), Err(Reject::Length));
    assert_eq!(Packet::parse(&with(40, 1)), Err(Reject::Checksum));
    assert_eq!(
        Packet::parse(&resummed(with(11, 0x24))),
        Err(Reject::Format)
    );
    assert_eq!(Packet::parse(&resummed(with(11, 0x23))), Err(Reject::Body));
}

#[test]
fn random_octets_roundtrip_or_rejected() {
    let mut random = SplitMix64::new(9);
    let mut accepted = [0u32; 9];
    for round in 0..300_000 {
        let mut packet = match round % 3 {
            0 => (0..random.below(160))
                .map(|_| random.next_u64() as u8)
                .collect(),
            _ => octets(VECTORS[random.below(8) as usize].1),
        };
        for _ in 0..random.below(4) {
            let at = random.below(packet.len().max(1) as u64) as usize;
            match (random.below(3), packet.get_mut(at)) {
                (0, _) => packet.truncate(at),
                (1, Some(octet)) => *octet = random.next_u64() as u8,
                (_, Some(octet)) => *octet ^= 1 << random.below(8),
                _ => {}
            }
        }
        if packet.len() >= HEADER_LEN && random.below(8) > 0 {
            packet = resummed(packet);
        }
        if let Ok(parsed) = Packet::parse(&packet) {
            assert_eq!(parsed.emit(), packet);
            assert_eq!(parsed.body.format(), parsed.header.format);
            accepted[parsed.header.format as usize] += 1;
        }
    }
    for format in FORMATS {
        let count = accepted[format as usize];
        assert!(
            count > 1000,
            "{format:?}: only {count} accepted, too few to test"
        );
    }
}

#[test]
fn header_checksum_extended_over_payload() {
    let header = Header {
        key: 7,
        options: Options::EOM,
        format: Format::Data,
        dlen: 5,
        check: 0,
        sort: 0,
        sync: SyncNumber(3),
        seq: 1 << 40,
    };
    let mut packet = header.emit_with_checksum().to_vec();
    let check = u16::from_be_bytes([packet[16], packet[17]]);
    let whole = engine::checksum::extend(check, engine::checksum::sum(b"hello"));
    packet[16..18].copy_from_slice(&whole.to_be_bytes());
    packet.extend_from_slice(b"hello");
    assert!(Packet::parse(&packet).is_ok());
}
