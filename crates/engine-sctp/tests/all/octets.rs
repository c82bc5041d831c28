//! Packets on the wire: known ones, round trips, random octets.

use engine::{Address, Instant, LocalAddress, Path, Secret, SplitMix64};
use engine_sctp::numbers::{Fsn, Mid, Port, Ssn, StreamId, Tag, Tsn};
use engine_sctp::pdu::chunk::{push_chunk, push_pad};
use engine_sctp::pdu::cookie::CookieKeys;
use engine_sctp::pdu::forward_tsn::{SkippedStream, push_forward_tsn};
use engine_sctp::pdu::header::{PacketCheck, check_packet, complete_checksum, packet_crc};
use engine_sctp::pdu::re_config::{
    ReconfigResult, RequestNumber, push_add_streams, push_reset_outgoing, push_responses,
};
use engine_sctp::pdu::sack::push_sack;
use engine_sctp::pdu::{
    AuthOffer, ChunkType, Chunks, CommonHeader, Cookie, DataHeader, ForwardTsn, HmacId,
    IDataHeader, Init, InitFault, ReconfigParameter, Sack,
};
use std::net::SocketAddr;

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A whole packet of `chunks` to tag 11223344, ports 5000 to 5001.
fn packet(tag: u32, chunks: &[u8]) -> Vec<u8> {
    let header = CommonHeader {
        source: Port(5000),
        destination: Port(5001),
        tag: Tag(tag),
    };
    let mut packet = [&header.emit()[..], chunks].concat();
    complete_checksum(&mut packet);
    packet
}

const INIT: &str =
    "13881389000000001794ca62010000201122334400020000000a080000000001c000000480080008c082c240";
const DATA: &str = "13881389112233444763535d0003001300000001000000000000000061626300";
const SACK: &str = "1389138855667788a7aac29203000018000000090001000000010001000200030000000700030011\
                    000000010000000000000000610000000007001500000002000100000000002e68656c6c6f000000";
const SHUTDOWN: &str = "138813891122334439d1f31e0700000800000001";

#[test]
fn crc_of_known_octets_matches() {
    let known: Vec<u8> = (0..1400u32).map(|at| (7 * at + 3) as u8).collect();
    let mut crc = engine::checksum::Crc32c::new();
    crc.update(&known);
    assert_eq!(crc.finish(), 0x4261_d649);
    let mut crc = engine::checksum::Crc32c::new();
    crc.update(b"a");
    assert_eq!(crc.finish(), 0xc1d0_4330);
}

#[test]
fn known_packets_have_the_right_checksum() {
    for hex in [INIT, DATA, SACK, SHUTDOWN] {
        let packet = octets(&hex.replace(' ', ""));
        assert_eq!(check_packet(&packet, false), PacketCheck::Right, "{hex}");
        let mut wrong = packet.clone();
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        assert_eq!(check_packet(&wrong, false), PacketCheck::Wrong);
        wrong[8..12].fill(0);
        assert_eq!(check_packet(&wrong, false), PacketCheck::Zero);
        assert_eq!(check_packet(&wrong, true), PacketCheck::Zero);
        assert_ne!(packet_crc(&wrong), packet_crc(&packet));
    }
}

#[test]
fn known_init_is_read_and_its_extensions_found() {
    let packet = octets(INIT);
    let header = CommonHeader::parse(&packet).expect("a header");
    assert_eq!(
        (header.source, header.destination, header.tag),
        (Port(5000), Port(5001), Tag(0))
    );
    let chunk = Chunks::new(&packet).next().expect("a chunk");
    assert_eq!(chunk.kind, ChunkType::INIT);
    let init = Init::parse(chunk.value).expect("an INIT");
    assert_eq!((init.tag, init.rwnd), (Tag(0x1122_3344), 131_072));
    assert_eq!((init.outbound_streams, init.inbound_streams), (10, 2048));
    assert_eq!(init.initial_tsn, Tsn(1));
    assert!(init.parameters.extensions.forward_tsn);
    assert!(init.parameters.unrecognized.is_empty());
}

#[test]
fn data_and_sack_are_written_as_known() {
    let data = |tsn, stream, ppid| DataHeader {
        flags: 3,
        tsn: Tsn(tsn),
        stream: StreamId(stream),
        ssn: Ssn(0),
        ppid,
    };
    let chunk = [&data(1, 0, 0).emit(3)[..], b"abc\0"].concat();
    assert_eq!(packet(0x1122_3344, &chunk), octets(DATA));
    let mut chunks = Vec::new();
    push_sack(
        &mut chunks,
        100,
        (Tsn(9), 0x10000),
        [2..=3].into_iter(),
        &[Tsn(7)],
    );
    chunks.extend(data(1, 0, 0).emit(1));
    chunks.extend(b"a\0\0\0");
    let hello = DataHeader {
        flags: 7,
        ..data(2, 1, 46)
    };
    chunks.extend(hello.emit(5));
    chunks.extend(b"hello\0\0\0");
    let whole = octets(&SACK.replace(' ', ""));
    let sack = Chunks::new(&whole).next().expect("a SACK");
    let parsed = Sack::parse(sack.value).expect("a SACK");
    assert_eq!((parsed.cumulative, parsed.rwnd), (Tsn(9), 0x10000));
    assert!(parsed.gaps().eq([2..=3]));
    assert!(parsed.duplicates().eq([Tsn(7)]));
    assert_eq!(chunks, whole[12..]);
    let kinds: Vec<u8> = Chunks::new(&whole).map(|chunk| chunk.kind.0).collect();
    assert_eq!(kinds, [3, 0, 0]);
}

const I_DATA: &str = "13881389112233448c681611400300160000000100030000000000050000003368690000";

#[test]
fn i_data_is_written_and_read_as_known() {
    let header = IDataHeader {
        flags: 3,
        tsn: Tsn(1),
        stream: StreamId(3),
        mid: Mid(5),
        ppid: 51,
        fsn: Fsn(0),
    };
    let chunk = [&header.emit(2)[..], b"hi\0\0"].concat();
    assert_eq!(packet(0x1122_3344, &chunk), octets(I_DATA));
    assert_eq!(IDataHeader::parse(3, &chunk[4..]), Some(header));
    let later = IDataHeader {
        flags: 5,
        ppid: 0,
        fsn: Fsn(51),
        ..header
    };
    let octets = later.emit(2);
    assert_eq!(octets[2..], header.emit(2)[2..], "one field, two meanings");
    assert_eq!(IDataHeader::parse(5, &octets[4..]), Some(later));
    assert_eq!(IDataHeader::parse(5, &octets[5..]), None);
}

#[test]
fn forward_tsn_names_streams_and_the_last_number_of_each() {
    let skipped = |stream, unordered, number| SkippedStream {
        stream: StreamId(stream),
        unordered,
        number,
    };
    let written = |interleaved, streams: &[SkippedStream]| {
        let mut chunk = Vec::new();
        push_forward_tsn(&mut chunk, interleaved, Tsn(9), streams.iter().copied());
        chunk
    };
    let plain = [skipped(1, false, 7), skipped(2, false, 0xffff)];
    let chunk = written(false, &plain);
    assert_eq!(chunk, octets("c000001000000009000100070002ffff"));
    let parsed = ForwardTsn::parse(ChunkType::FORWARD_TSN, &chunk[4..]).expect("a FORWARD-TSN");
    assert_eq!(parsed.cumulative, Tsn(9));
    assert!(parsed.streams().eq(plain));
    let both = [skipped(1, true, 7), skipped(2, false, 0x0001_0000)];
    let chunk = written(true, &both);
    let known = "c2000018000000090001000100000007".to_owned() + "0002000000010000";
    assert_eq!(chunk, octets(&known));
    let parse = |kind, value: &[u8]| ForwardTsn::parse(kind, value).map(|it| it.streams().count());
    assert_eq!(parse(ChunkType::I_FORWARD_TSN, &chunk[4..]), Some(2));
    assert_eq!(
        parse(ChunkType::I_FORWARD_TSN, &chunk[4..20]),
        None,
        "half an entry"
    );
    assert_eq!(parse(ChunkType::FORWARD_TSN, &chunk[4..7]), None);
}

#[test]
fn supported_extensions_are_listed_and_found() {
    let mut init = Init::parse(&[0, 0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]).expect("an INIT");
    for (forward_tsn, interleave) in [(false, false), (true, false), (false, true), (true, true)] {
        let extensions = &mut init.parameters.extensions;
        extensions.forward_tsn = forward_tsn;
        extensions.interleave = interleave;
        extensions.i_forward_tsn = forward_tsn && interleave;
        let mut chunk = Vec::new();
        init.push(&mut chunk, ChunkType::INIT);
        assert_eq!(Init::parse(&chunk[4..]), Ok(init.clone()));
    }
}

#[test]
fn shutdown_is_written_as_known() {
    let mut chunk = Vec::new();
    push_chunk(&mut chunk, ChunkType::SHUTDOWN, 0, &1u32.to_be_bytes());
    assert_eq!(packet(0x1122_3344, &chunk), octets(SHUTDOWN));
}

#[test]
fn impossible_sacks_are_refused() {
    let sack = |gaps: &[(u16, u16)]| {
        let mut chunk = Vec::new();
        let blocks = gaps.iter().map(|&(start, end)| start..=end);
        push_sack(&mut chunk, 4000, (Tsn(1), 1), blocks, &[]);
        chunk
    };
    let parse = |chunk: &[u8]| Sack::parse(&chunk[4..]).is_some();
    assert!(parse(&sack(&[(2, 3), (5, 5)])));
    for gaps in [
        &[(0, 3)][..],
        &[(3, 2)],
        &[(2, 5), (4, 7)],
        &[(5, 6), (2, 3)],
    ] {
        assert!(!parse(&sack(gaps)), "{gaps:?}");
    }
    let mut cut = sack(&[(2, 3)]);
    cut.truncate(cut.len() - 1);
    assert!(!parse(&cut));
}

#[test]
fn init_faults_differ_by_what_may_be_answered() {
    let init = |tag: u32, rwnd: u32, streams: u16| {
        let mut value = tag.to_be_bytes().to_vec();
        value.extend(rwnd.to_be_bytes());
        value.extend(streams.to_be_bytes());
        value.extend([0, 1, 0, 0, 0, 9]);
        Init::parse(&value)
    };
    assert!(init(5, 1500, 1).is_ok());
    assert_eq!(init(0, 1500, 1), Err(InitFault::Unanswerable));
    assert_eq!(init(5, 1499, 1), Err(InitFault::Impossible(Tag(5))));
    assert_eq!(init(5, 1500, 0), Err(InitFault::Impossible(Tag(5))));
    assert_eq!(Init::parse(&[0; 15]), Err(InitFault::Unanswerable));
}

#[test]
fn thousand_addresses_leave_a_few() {
    let mut value = [0, 0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9].to_vec();
    for last in 0..1000u16 {
        let [high, low] = last.to_be_bytes();
        value.extend([0, 5, 0, 8, 10, 1, high, low]);
    }
    let init = Init::parse(&value).expect("an INIT");
    assert_eq!(init.parameters.addresses.len(), 8);
}

fn cookie() -> Cookie {
    let remote: SocketAddr = "[2001:db8::1]:9899".parse().expect("an address");
    Cookie {
        created_at: Instant::from_nanos(7_300_000_000_000),
        life_ms: 60_000,
        ports: (Port(5000), Port(50_000)),
        local_tag: Tag(1),
        peer_tag: Tag(2),
        tie_tags: (Tag(3), Tag(4)),
        local_tsn: Tsn(5),
        peer_tsn: Tsn(6),
        peer_rwnd: 7,
        streams: (8, 9),
        zero_checksum: true,
        forward_tsn: false,
        interleave: true,
        reconfigure: true,
        dynamic_addresses: true,
        adaptation: Some(0),
        auth: Some(AuthOffer::new([7; 32], &[ChunkType::DATA], &[HmacId::SHA1])),
        path: Path {
            local: LocalAddress(1),
            remote: Address::Socket(remote),
        },
        addresses: vec!["10.0.0.1".parse().expect("an address"), remote.ip()],
    }
}

#[test]
fn cookie_opens_under_its_own_keys_alone() {
    let keys = CookieKeys::new(Secret::from_seed(1), 1);
    let octets = cookie().emit(&keys);
    let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
    assert_eq!(Cookie::open(&octets, &keys, at(7300)), Some(cookie()));
    assert_eq!(
        Cookie::open(&octets, &keys, at(3 * 3600 + 3500)),
        Some(cookie()),
        "the key of the hour before is good"
    );
    assert_eq!(Cookie::open(&octets, &keys, at(4 * 3600)), None);
    assert_eq!(
        Cookie::open(&octets, &keys, at(3600)),
        None,
        "of the future"
    );
    for other in [(2, 1), (1, 2)] {
        let keys = CookieKeys::new(Secret::from_seed(other.0), other.1);
        assert_eq!(Cookie::open(&octets, &keys, at(7300)), None);
    }
    for at_octet in 0..octets.len() {
        let mut changed = octets.clone();
        changed[at_octet] ^= 0x10;
        assert_eq!(
            Cookie::open(&changed, &keys, at(7300)),
            None,
            "octet {at_octet}"
        );
    }
    for len in 0..octets.len() {
        assert_eq!(Cookie::open(&octets[..len], &keys, at(7300)), None);
    }
}

#[test]
fn padding_is_a_chunk_that_is_skipped() {
    for len in [4, 8, 152] {
        let mut chunks = Vec::new();
        push_pad(&mut chunks, len);
        assert_eq!(chunks.len(), len);
        let whole = packet(1, &chunks);
        let chunk = Chunks::new(&whole).next().expect("a chunk");
        assert_eq!(chunk.kind, ChunkType::PAD);
        assert!(!chunk.kind.unknown_stops() && !chunk.kind.unknown_is_reported());
        let mut behind = vec![7; 3];
        push_pad(&mut behind, len);
        assert_eq!(behind.len(), 3 + len, "wherever it begins");
    }
}

#[test]
fn random_chunks_lie_within_their_packet() {
    let mut random = SplitMix64::new(7);
    let (mut found, mut broken) = (0, 0);
    for _ in 0..100_000 {
        let mut octets: Vec<u8> = (0..random.below(120))
            .map(|_| random.next_u64() as u8)
            .collect();
        // Lengths that are plausible more often than by chance.
        for at in (14..octets.len().saturating_sub(1)).step_by(8) {
            octets[at] = 0;
            octets[at + 1] = random.below(24) as u8;
        }
        let mut chunks = Chunks::new(&octets);
        for chunk in chunks.by_ref() {
            assert_eq!(chunk.value, &octets[chunk.at.clone()]);
            let _ = Init::parse(chunk.value);
            let _ = Sack::parse(chunk.value).map(|sack| sack.gaps().count());
            let _ = DataHeader::parse(chunk.flags, chunk.value);
            let _ = IDataHeader::parse(chunk.flags, chunk.value);
            for kind in [ChunkType::FORWARD_TSN, ChunkType::I_FORWARD_TSN] {
                let entries = ForwardTsn::parse(kind, chunk.value).map(|it| it.streams().count());
                assert!(entries.unwrap_or(0) <= chunk.value.len() / 4);
            }
            found += 1;
        }
        broken += u32::from(chunks.is_broken());
    }
    assert!(found > 10_000 && broken > 10_000, "{found} {broken}");
}

#[test]
fn requests_to_reset_and_add_streams_have_the_layout_of_the_specification() {
    let streams = [StreamId(3), StreamId(0x1234), StreamId(5)];
    let mut reset = Vec::new();
    let numbers = (RequestNumber(0x0102_0304), RequestNumber(0x0506_0708));
    push_reset_outgoing(&mut reset, numbers, Tsn(0x090a_0b0c), &streams);
    // RFC 6525 sections 3.1 and 4.1; the padding counts in neither length.
    let expected = "8200001a000d00160102030405060708090a0b0c0003123400050000".replace(' ', "");
    assert_eq!(reset, octets(&expected));
    let parameters = ReconfigParameter::parse_all(&reset[4..26]).expect("one");
    let [
        ReconfigParameter::ResetOutgoing {
            number,
            response,
            last_tsn,
            streams: found,
        },
    ] = parameters[..]
    else {
        panic!("{parameters:?}");
    };
    assert_eq!(((number, response), last_tsn), (numbers, Tsn(0x090a_0b0c)));
    assert!(found.iter().eq(streams));
    let mut add = Vec::new();
    push_add_streams(&mut add, RequestNumber(9), 7, true);
    assert_eq!(add, octets("820000100012000c0000000900070000"));
    let mut responses = Vec::new();
    let performed = (RequestNumber(1), ReconfigResult::PERFORMED);
    push_responses(
        &mut responses,
        &[performed, (RequestNumber(2), ReconfigResult::DENIED)],
    );
    let expected = "8200001c0010000c00000001000000010010000c0000000200000002";
    assert_eq!(responses, octets(expected));
    assert_eq!(
        ReconfigParameter::parse_all(&responses[4..]).map(|all| all.len()),
        Some(2)
    );
}
