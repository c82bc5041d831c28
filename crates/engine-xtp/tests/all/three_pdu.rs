//! The octets of the third revision: lengths of the studies, layouts, round trips, damage.

use crate::pair::seeds;
use engine::SplitMix64;
use engine_xtp::pdu::three::{
    Body3, Control3, Header3, Information, Kind, PAIRS_MAX, Packet3, Pairs, RTN3, TRAILER_LEN,
};
use engine_xtp::pdu::{
    AddressSegment, Diag, DiagCode, DiagValue, Dialect, Endpoints, Options, Reject, Service,
    TrafficSpec,
};

const ALL: [Dialect; 3] = [Dialect::V33, Dialect::V35, Dialect::V36];

fn header(kind: Kind) -> Header3 {
    Header3 {
        kind,
        options: Options::SREQ,
        front: 0,
        back: 0,
        key: 0x0102_0304,
        route: RTN3 | 9,
        seq: 0xffff_fff0,
        dseq: 3,
        sync: 7,
        dlen: 0,
        sort: 0,
        ttl: 0,
    }
}

fn control() -> Control3 {
    Control3 {
        rseq: 1,
        alloc: 2,
        echo: 3,
        rate: 4,
        burst: 5,
        xkey: 6,
        maxdata: 1456,
        reserved: [0; 4],
    }
}

/// The check function, as its definition reads.
fn textbook(octets: &[u8]) -> u32 {
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
fn lengths_are_those_of_the_studies() {
    let of = |dialect: Dialect, pairs: Pairs<'_>| {
        let body = Body3::Cntl(control(), pairs);
        let header = header(Kind::Cntl);
        Packet3 { header, body }.emit(dialect).len()
    };
    let fixed = Pairs::new(&[], true).expect("none are few enough");
    let lengths = ALL.map(|dialect| (of(dialect, Pairs::EMPTY), of(dialect, fixed)));
    assert_eq!(lengths, [(64, 192), (88, 216), (92, 220)]);
    // 3.6: header 40, trailer 4, the shortest packet 48; 1460 bytes in a frame of 3.5.
    let shortest = Packet3 {
        header: header(Kind::Data),
        body: Body3::Data(&[]),
    };
    assert_eq!(shortest.emit(Dialect::V36).len(), 48);
    assert_eq!(Dialect::V36.header_len(), 40);
    assert_eq!(ALL.map(Dialect::overhead), [32, 40, 44]);
    assert_eq!(1500 - Dialect::V35.overhead(), 1460);
}

#[test]
fn fields_stand_where_the_decision_puts_them() {
    let header = Header3 {
        options: Options::SREQ | Options::EOM,
        sort: 0x0a0b_0c0d,
        ttl: 16,
        ..header(Kind::Data)
    };
    let packet = Packet3 {
        header,
        body: Body3::Data(b"hello"),
    };
    // SREQ is 0x0040 and EOM 0x0004 of the sixteen bits; three octets of padding behind.
    let first = |revision: u32| 0x0044_0000 | 3 << 8 | revision << 5;
    let named = [0x0102_0304, 0x8000_0009, 0xffff_fff0, 3, 7];
    let start = |revision: u32| words(&[&[first(revision)][..], &named].concat());
    let middle = b"hello\0\0\0";
    let trailer = textbook(middle).to_be_bytes();

    let mut old = start(3);
    old.extend([0, 8]);
    let check = textbook(&old) as u16;
    old.extend(check.to_be_bytes());
    assert_eq!(
        packet.emit(Dialect::V33),
        [&old, &middle[..], &trailer].concat()
    );

    let mut middle_aged = start(5);
    middle_aged.extend(words(&[8, 0x0a0b_0c0d]));
    let check = textbook(&middle_aged);
    middle_aged.extend(check.to_be_bytes());
    let wanted = [&middle_aged, &middle[..], &trailer].concat();
    assert_eq!(packet.emit(Dialect::V35), wanted);

    let mut new = start(6);
    new.extend(words(&[8, 0x0a0b_0c0d, 16 << 24]));
    let check = textbook(&new);
    new.extend(check.to_be_bytes());
    assert_eq!(
        packet.emit(Dialect::V36),
        [&new, &middle[..], &trailer].concat()
    );
}

#[test]
fn a_control_segment_says_everything() {
    let octets = words(&[10, 20, 30, 40]);
    let pairs = Pairs::new(&octets, false).expect("two");
    let packet = Packet3 {
        header: header(Kind::Cntl),
        body: Body3::Cntl(control(), pairs),
    };
    let short = words(&[1, 2, 3, 4, 5, 6, 2 << 16 | 1456, 0]);
    let told = words(&[10, 20, 30, 40]);
    let emitted = packet.emit(Dialect::V33);
    assert_eq!(emitted[28..emitted.len() - 4], [&short[..], &told].concat());
    let emitted = packet.emit(Dialect::V36);
    let long = [&short[..], &words(&[0; 4]), &told].concat();
    assert_eq!(emitted[40..emitted.len() - 4], long);
}

fn bodies<'a>(pairs: &'a [u8], data: &'a [u8]) -> Vec<Body3<'a>> {
    let host = |last: u8| core::net::Ipv4Addr::new(10, 0, 0, last);
    let address = AddressSegment::V4(Endpoints {
        dst_host: host(2),
        src_host: host(1),
        dst_port: 5000,
        src_port: 6000,
    });
    let traffic = |service: Service| TrafficSpec::Plain(service, [0; 4]);
    let info = Information {
        op: 1,
        octets: data,
    };
    let kept = Pairs::new(pairs, false).expect("few");
    let fixed = Pairs::new(pairs, true).expect("few");
    let first = |service: Service| Body3::First {
        address,
        traffic: traffic(service),
        data,
    };
    vec![
        Body3::Data(data),
        Body3::Cntl(control(), kept),
        Body3::Cntl(control(), fixed),
        first(Service::Stream),
        first(Service::Isochronous),
        first(Service::Bulk),
        Body3::Path(address),
        Body3::Path(AddressSegment::Direct(&[1, 2, 3])),
        Body3::Diag(Diag {
            code: DiagCode::REFUSED,
            value: DiagValue::NO_LISTENER,
            text: b"no listener\0",
        }),
        Body3::Maint(info),
        Body3::Mgmt(info),
        Body3::Route { op: 1, route: 77 },
        Body3::Rcntl {
            rate: 1_000_000,
            burst: 8000,
        },
    ]
}

#[test]
fn packets_of_every_kind_read_back_as_written() {
    for seed in seeds(60) {
        let mut random = SplitMix64::new(seed);
        let pairs = words(&vec![5; 2 * random.below(PAIRS_MAX as u64) as usize]);
        let data: Vec<u8> = (0..random.below(300)).map(|at| at as u8).collect();
        for dialect in ALL {
            for body in bodies(&pairs, &data) {
                let header = Header3 {
                    front: random.below(16) as u8,
                    back: random.below(12) as u8,
                    options: Options((random.next_u64() as u32 & 0x7fff) << 8),
                    key: random.next_u64() as u32,
                    ..header(body.kind())
                };
                let mut octets = Packet3 { header, body }.emit(dialect);
                let whole = octets.len();
                assert!(whole.is_multiple_of(4), "aligned");
                // The medium may add octets behind the trailer.
                octets.resize(whole + random.below(20) as usize, 0xff);
                let read = Packet3::parse(dialect, &octets).expect("a good packet");
                assert_eq!(read.body, body, "seed {seed}, {dialect:?}");
                assert_eq!(read.header.front, header.front);
                assert!(read.header.back >= header.back);
                assert_eq!(read.emit(dialect), octets[..whole]);
            }
        }
    }
}

#[test]
fn every_damaged_bit_is_found_by_one_of_the_two_checks() {
    for dialect in ALL {
        for (body, covered) in [
            (Body3::Data(b"some bytes of a user"), true),
            (Body3::Data(b"unsummed"), false),
        ] {
            let options = Options::NONE.with(Options::NOCHECK, !covered);
            let packet = Packet3 {
                header: Header3 {
                    options,
                    ..header(Kind::Data)
                },
                body,
            };
            let octets = packet.emit(dialect);
            let head = dialect.header_len();
            for bit in 0..octets.len() * 8 {
                let mut bad = octets.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let in_middle = (head..octets.len() - TRAILER_LEN).contains(&(bit / 8));
                let read = Packet3::parse(dialect, &bad);
                assert_eq!(
                    read.is_ok(),
                    in_middle && !covered,
                    "{dialect:?}, bit {bit}"
                );
            }
            for len in 0..octets.len() {
                assert!(
                    Packet3::parse(dialect, &octets[..len]).is_err(),
                    "cut to {len}"
                );
            }
        }
    }
}

#[test]
fn revisions_do_not_take_each_other_for_their_own() {
    for dialect in ALL {
        let packet = Packet3 {
            header: header(Kind::Data),
            body: Body3::Data(&[1; 100]),
        };
        let octets = packet.emit(dialect);
        for other in ALL.into_iter().filter(|other| *other != dialect) {
            assert_eq!(Packet3::parse(other, &octets), Err(Reject::Version));
        }
        assert!(engine_xtp::pdu::Packet::parse(&octets).is_err());
    }
}
