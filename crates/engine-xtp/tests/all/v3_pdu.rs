//! Packets of XTP 3.x: lengths of the studies, layouts, round trips, bit errors.

use crate::drawn::seeds;
use engine::SplitMix64;
use engine_xtp::pdu::v3::{
    BodyV3, ControlSegmentV3, HeaderV3, InformationSegment, PAIRS_MAX, PacketKind, PacketV3,
    RTN_V3, ResendPairs, TRAILER_LEN,
};
use engine_xtp::pdu::{
    AddressSegment, Diag, DiagCode, DiagValue, Endpoints, Options, Reject, Service, SyncNumber,
    TrafficSpec, Version,
};

const ALL: [Version; 3] = [Version::V33, Version::V35, Version::V36];

fn header(kind: PacketKind) -> HeaderV3 {
    HeaderV3 {
        kind,
        options: Options::SREQ,
        pad_front: 0,
        pad_back: 0,
        key: 0x0102_0304,
        route: RTN_V3 | 9,
        seq: 0xffff_fff0,
        dseq: 3,
        sync: SyncNumber(7),
        dlen: 0,
        sort: 0,
        ttl: 0,
    }
}

fn control() -> ControlSegmentV3 {
    ControlSegmentV3 {
        rseq: 1,
        alloc: 2,
        echo: SyncNumber(3),
        rate: 4,
        burst: 5,
        xkey: 6,
        maxdata: 1456,
        reserved: [0; 4],
    }
}

/// CXOR-32, straight from its definition.
fn reference_checksum(octets: &[u8]) -> u32 {
    let (mut plain, mut turned) = (0u16, 0u16);
    for pair in octets.chunks(2) {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        plain ^= word;
        let top = turned >> 15;
        turned = (turned << 1) + top;
        turned ^= word;
    }
    u32::from(plain) << 16 | u32::from(turned)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn packet_lengths_match_studies() {
    let of = |version: Version, pairs: ResendPairs<'_>| {
        let body = BodyV3::Cntl(control(), pairs);
        let header = header(PacketKind::Cntl);
        PacketV3 { header, body }.emit(version).len()
    };
    let fixed = ResendPairs::new(&[], true).expect("an empty list fits");
    let lengths = ALL.map(|version| (of(version, ResendPairs::EMPTY), of(version, fixed)));
    assert_eq!(lengths, [(64, 192), (88, 216), (92, 220)]);
    // 3.6: header 40, trailer 4, the shortest packet 48; 1460 bytes in a frame of 3.5.
    let shortest = PacketV3 {
        header: header(PacketKind::Data),
        body: BodyV3::Data(&[]),
    };
    assert_eq!(shortest.emit(Version::V36).len(), 48);
    assert_eq!(Version::V36.header_len(), 40);
    assert_eq!(ALL.map(Version::overhead), [32, 40, 44]);
    assert_eq!(1500 - Version::V35.overhead(), 1460);
}

#[test]
fn header_fields_at_decided_offsets() {
    let header = HeaderV3 {
        options: Options::SREQ | Options::EOM,
        sort: 0x0a0b_0c0d,
        ttl: 16,
        ..header(PacketKind::Data)
    };
    let packet = PacketV3 {
        header,
        body: BodyV3::Data(b"hello"),
    };
    // SREQ is 0x0040 and EOM 0x0004 of the sixteen bits; three octets of padding behind.
    let first = |revision: u32| 0x0044_0000 | 3 << 8 | revision << 5;
    let named = [0x0102_0304, 0x8000_0009, 0xffff_fff0, 3, 7];
    let start = |revision: u32| words(&[&[first(revision)][..], &named].concat());
    let segment = b"hello\0\0\0";
    let trailer = reference_checksum(segment).to_be_bytes();

    let mut old = start(3);
    old.extend([0, 8]);
    let check = reference_checksum(&old) as u16;
    old.extend(check.to_be_bytes());
    assert_eq!(
        packet.emit(Version::V33),
        [&old, &segment[..], &trailer].concat()
    );

    let mut v35_packet = start(5);
    v35_packet.extend(words(&[8, 0x0a0b_0c0d]));
    let check = reference_checksum(&v35_packet);
    v35_packet.extend(check.to_be_bytes());
    let wanted = [&v35_packet, &segment[..], &trailer].concat();
    assert_eq!(packet.emit(Version::V35), wanted);

    let mut new = start(6);
    new.extend(words(&[8, 0x0a0b_0c0d, 16 << 24]));
    let check = reference_checksum(&new);
    new.extend(check.to_be_bytes());
    assert_eq!(
        packet.emit(Version::V36),
        [&new, &segment[..], &trailer].concat()
    );
}

#[test]
fn control_segment_fields_roundtrip() {
    let octets = words(&[10, 20, 30, 40]);
    let pairs = ResendPairs::new(&octets, false).expect("two");
    let packet = PacketV3 {
        header: header(PacketKind::Cntl),
        body: BodyV3::Cntl(control(), pairs),
    };
    let short = words(&[1, 2, 3, 4, 5, 6, 2 << 16 | 1456, 0]);
    let control_words = words(&[10, 20, 30, 40]);
    let emitted = packet.emit(Version::V33);
    assert_eq!(
        emitted[28..emitted.len() - 4],
        [&short[..], &control_words].concat()
    );
    let emitted = packet.emit(Version::V36);
    let long = [&short[..], &words(&[0; 4]), &control_words].concat();
    assert_eq!(emitted[40..emitted.len() - 4], long);
}

fn bodies<'a>(pairs: &'a [u8], data: &'a [u8]) -> Vec<BodyV3<'a>> {
    let host = |last: u8| core::net::Ipv4Addr::new(10, 0, 0, last);
    let address = AddressSegment::V4(Endpoints {
        dst_host: host(2),
        src_host: host(1),
        dst_port: 5000,
        src_port: 6000,
    });
    let traffic = |service: Service| TrafficSpec::Plain(service, [0; 4]);
    let info = InformationSegment {
        op: 1,
        octets: data,
    };
    let kept = ResendPairs::new(pairs, false).expect("few");
    let fixed = ResendPairs::new(pairs, true).expect("few");
    let first = |service: Service| BodyV3::First {
        address,
        traffic: traffic(service),
        data,
    };
    vec![
        BodyV3::Data(data),
        BodyV3::Cntl(control(), kept),
        BodyV3::Cntl(control(), fixed),
        first(Service::Stream),
        first(Service::Isochronous),
        first(Service::Bulk),
        BodyV3::Path(address),
        BodyV3::Path(AddressSegment::Direct(&[1, 2, 3])),
        BodyV3::Diag(Diag {
            code: DiagCode::REFUSED,
            value: DiagValue::NO_LISTENER,
            text: b"no listener\0",
        }),
        BodyV3::Maint(info),
        BodyV3::Mgmt(info),
        BodyV3::Route { op: 1, route: 77 },
        BodyV3::Rcntl {
            rate: 1_000_000,
            burst: 8000,
        },
    ]
}

#[test]
fn all_packet_kinds_roundtrip() {
    for seed in seeds(60) {
        let mut random = SplitMix64::new(seed);
        let pairs = words(&vec![5; 2 * random.below(PAIRS_MAX as u64) as usize]);
        let data: Vec<u8> = (0..random.below(300)).map(|at| at as u8).collect();
        for version in ALL {
            for body in bodies(&pairs, &data) {
                let header = HeaderV3 {
                    pad_front: random.below(16) as u8,
                    pad_back: random.below(12) as u8,
                    options: Options((random.next_u64() as u32 & 0x7fff) << 8),
                    key: random.next_u64() as u32,
                    ..header(body.kind())
                };
                let mut octets = PacketV3 { header, body }.emit(version);
                let whole = octets.len();
                assert!(whole.is_multiple_of(4), "aligned");
                // The medium may pad the packet behind its trailer.
                octets.resize(whole + random.below(20) as usize, 0xff);
                let read = PacketV3::parse(version, &octets).expect("a good packet");
                assert_eq!(read.body, body, "seed {seed}, {version:?}");
                assert_eq!(read.header.pad_front, header.pad_front);
                assert!(read.header.pad_back >= header.pad_back);
                assert_eq!(read.emit(version), octets[..whole]);
            }
        }
    }
}

#[test]
fn every_bit_error_found_by_a_check() {
    for version in ALL {
        for (body, covered) in [
            (BodyV3::Data(b"some bytes of a user"), true),
            (BodyV3::Data(b"unsummed"), false),
        ] {
            let options = Options::NONE.with(Options::NOCHECK, !covered);
            let packet = PacketV3 {
                header: HeaderV3 {
                    options,
                    ..header(PacketKind::Data)
                },
                body,
            };
            let octets = packet.emit(version);
            let head = version.header_len();
            for bit in 0..octets.len() * 8 {
                let mut bad = octets.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let in_segment = (head..octets.len() - TRAILER_LEN).contains(&(bit / 8));
                let read = PacketV3::parse(version, &bad);
                assert_eq!(
                    read.is_ok(),
                    in_segment && !covered,
                    "{version:?}, bit {bit}"
                );
            }
            for len in 0..octets.len() {
                assert!(
                    PacketV3::parse(version, &octets[..len]).is_err(),
                    "cut to {len}"
                );
            }
        }
    }
}

#[test]
fn versions_reject_each_other() {
    for version in ALL {
        let packet = PacketV3 {
            header: header(PacketKind::Data),
            body: BodyV3::Data(&[1; 100]),
        };
        let octets = packet.emit(version);
        for other in ALL.into_iter().filter(|other| *other != version) {
            assert_eq!(PacketV3::parse(other, &octets), Err(Reject::Version));
        }
        assert!(engine_xtp::pdu::Packet::parse(&octets).is_err());
    }
}
