//! Packets as octets: vectors computed from RFC 1045, round trips, and drawn octets.

use engine::{EntityId, SplitMix64};
use engine_vmtp::blocks::BlockMask;
use engine_vmtp::pdu::{
    Control, Flags, HEADER_LEN, NotifyClient, NotifyServer, PacketFault, ProbeAnswer, ProbeEntity,
    ResponseCode, VmtpHeader, packet,
};

pub const CLIENT: EntityId = EntityId(0x0000_63f9_2408_0031);
pub const SERVER: EntityId = EntityId(0x0000_0001_2408_0032);
const MANAGER: EntityId = EntityId(0x0000_0002_2408_0032);

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn request(transaction: u32) -> VmtpHeader {
    VmtpHeader {
        client: CLIENT,
        domain: 1,
        transaction,
        server: SERVER,
        code: 0x1234,
        user_data: *b"userdata0123\0\0\0\0\0\0\0\0",
        ..VmtpHeader::default()
    }
}

/// The packet of a header and data, with its check.
fn whole(header: &VmtpHeader, data: &[u8]) -> Vec<u8> {
    let mut octets = header.emit().to_vec();
    octets.extend(data);
    octets.resize(octets.len().next_multiple_of(8), 0);
    let check = engine::checksum::vmtp(&octets);
    octets.extend(check.to_be_bytes());
    octets
}

#[test]
fn request_without_segment_matches_the_vector() {
    let vector = octets(
        "000063f924080031000100000000000011223344000000000000000124080032000012340000000000000000\
         7573657264617461303132330000000000000000f0d42841",
    );
    let mut header = request(0x1122_3344);
    header.user_data = *b"\0\0\0\0\0\0\0\0userdata0123";
    assert_eq!(packet::emit(&header, true)[..], vector[..]);
    assert_eq!(packet::parse(&vector), Ok(header));
}

#[test]
fn request_with_a_block_matches_the_vector() {
    let head = octets(
        "000063f924080031000100800000000011223345000000010000000124080032100012340000000000000000\
         75736572646174613031323300000000000002 00"
            .replace(' ', "")
            .as_str(),
    );
    let mut header = request(0x1122_3345);
    header.user_data = *b"\0\0\0\0\0\0\0\0userdata0123";
    header.flags = Flags(Flags::SEGMENT);
    header.delivery = BlockMask(1);
    header.segment_size = 512;
    header.data_words = 128;
    let data: Vec<u8> = (0..512).map(|at| at as u8).collect();
    let made = whole(&header, &data);
    assert_eq!(made[..HEADER_LEN], head[..]);
    assert_eq!(made[576..], [0xa9, 0x8e, 0x02, 0x89]);
    assert_eq!(packet::parse(&made), Ok(header));
    // The rule of HCO: the sums of the header alone.
    assert_eq!(engine::checksum::vmtp(&made[..HEADER_LEN]), 0xf156_3a41);
}

#[test]
fn group_in_the_middle_of_a_run_matches_the_vector() {
    let head = octets(
        "000063f9240800310001008020000000112233460000000100000001240800321000123400000000000000\
         007573657264617461303132330000000000004200",
    );
    let mut header = request(0x1122_3346);
    header.user_data = *b"\0\0\0\0\0\0\0\0userdata0123";
    header.flags = Flags(Flags::SEGMENT);
    header.control = Control::request(Control::NOT_START);
    header.delivery = BlockMask(1);
    header.segment_size = 0x4200;
    header.data_words = 128;
    let data: Vec<u8> = (0..512).map(|at| (7 * at + 3) as u8).collect();
    let made = whole(&header, &data);
    assert_eq!(made[..HEADER_LEN], head[..]);
    assert_eq!(made[576..], [0x4f, 0x16, 0xbc, 0x03]);
}

#[test]
fn response_matches_the_vector() {
    let vector = octets(
        "000063f9240800310001000000000001112233440000000000000001240800320000 00007265706c79206f66\
         203230206f637465747321210000000000000000f0d59508"
            .replace(' ', "")
            .as_str(),
    );
    let header = VmtpHeader {
        control: Control::response(0),
        code: 0,
        user_data: *b"reply of 20 octets!!",
        ..request(0x1122_3344)
    };
    assert_eq!(packet::emit(&header, true)[..], vector[..]);
}

#[test]
fn first_retransmission_matches_the_vector() {
    let vector = octets(
        "000063f9240800310001000040100000112233450000000000000001240800321000123400000000000000\
         0075736572646174613031323300000000000002 00 30e63a41"
            .replace(' ', "")
            .as_str(),
    );
    let header = VmtpHeader {
        control: Control::request(Control::ACKNOWLEDGE).with_retransmit_count(1),
        flags: Flags(Flags::SEGMENT),
        user_data: *b"\0\0\0\0\0\0\0\0userdata0123",
        segment_size: 512,
        ..request(0x1122_3345)
    };
    assert_eq!(packet::emit(&header, true)[..], vector[..]);
}

#[test]
fn notification_of_a_client_matches_the_vector() {
    let vector = octets(
        "000000022408003200010000000000000000abcd0000000040000001e00001004500010f000063f92408\
         0031401000010000000011223345 00000000 00000001 f10c52bb"
            .replace(' ', "")
            .as_str(),
    );
    let notification = NotifyClient {
        is_remote: false,
        client: CLIENT,
        control: Control::response(Control::ACKNOWLEDGE).with_retransmit_count(1),
        receive_sequence: 0,
        transaction: 0x1122_3345,
        delivery: BlockMask::NONE,
        code: ResponseCode::RETRY,
    };
    let header = notification.header(MANAGER, 1, 0xabcd);
    assert_eq!(packet::emit(&header, true)[..], vector[..]);
    let parsed = packet::parse(&vector).expect("a packet");
    assert_eq!(NotifyClient::parse(&parsed), Some(notification));
    assert_eq!(NotifyServer::parse(&parsed), None);
}

#[test]
fn management_requests_make_the_round_trip() {
    let notification = NotifyServer {
        server: SERVER,
        client: CLIENT,
        transaction: 9,
        delivery: BlockMask(0x74ff),
        code: ResponseCode::OK,
    };
    let header = notification.header(MANAGER, 1, 5);
    assert_eq!(NotifyServer::parse(&header), Some(notification));
    let probe = ProbeEntity {
        co_resident: CLIENT,
        entity: CLIENT,
        authentication_domain: 3,
    };
    let request = probe.header(MANAGER, 1, 7);
    assert_eq!(ProbeEntity::parse(&request), Some(probe));
    assert_eq!(NotifyServer::parse(&request), None);
    let answer = ProbeAnswer {
        code: ResponseCode::NONEXISTENT_ENTITY,
        transaction: 0x1122_3344,
    };
    let response = answer.header(MANAGER, &request);
    assert!(response.control.is_response());
    assert_eq!((response.client, response.transaction), (MANAGER, 7));
    assert_eq!(ProbeAnswer::parse(&response), answer);
}

#[test]
fn fields_of_the_control_word_do_not_touch_each_other() {
    let control = Control::request(Control::ACKNOWLEDGE | Control::SKIP_TRANSACTIONS)
        .with_retransmit_count(13)
        .with_forward_count(9)
        .with_gap_or_group_count(0xa5)
        .with_priority(12);
    assert_eq!(control.0, 0x4159_a5c0);
    assert_eq!(control.retransmit_count(), 5, "modulo 8");
    assert_eq!((control.forward_count(), control.priority()), (9, 12));
    assert_eq!(control.gap_or_group_count(), 0xa5);
    assert!(!control.is_response() && control.has(Control::ACKNOWLEDGE));
    assert_eq!(control.without(Control::ACKNOWLEDGE).0, 0x0159_a5c0);
}

#[test]
fn damaged_short_and_foreign_packets_are_rejected() {
    let mut header = request(3);
    header.flags = Flags(Flags::SEGMENT);
    header.delivery = BlockMask(1);
    header.segment_size = 24;
    header.data_words = 6;
    let good = whole(&header, &[7; 24]);
    assert_eq!(packet::parse(&good), Ok(header));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(packet::parse(&bad).is_err(), "octet {at}");
        assert!(packet::parse(&good[..at]).is_err(), "{at} octets");
    }
    assert_eq!(packet::parse(&good[..67]), Err(PacketFault::Short));
    let longer = whole(&header, &[7; 32]);
    assert_eq!(packet::parse(&longer), Err(PacketFault::Size(header)));
    let mut unchecked = good.clone();
    unchecked[88..].fill(0);
    unchecked[64] ^= 1;
    assert_eq!(packet::parse(&unchecked), Ok(header), "zeros are no check");
    let mut version = good.clone();
    version[8] |= 0x20;
    assert_eq!(packet::parse(&version), Err(PacketFault::Version));
}

#[test]
fn check_of_the_header_alone_does_not_cover_the_data() {
    let mut header = request(3);
    header.checks_header_only = true;
    header.flags = Flags(Flags::SEGMENT);
    header.delivery = BlockMask(1);
    header.segment_size = 8;
    header.data_words = 2;
    let mut made = header.emit().to_vec();
    let check = engine::checksum::vmtp(&made);
    made.extend([1; 8]);
    made.extend(check.to_be_bytes());
    assert_eq!(packet::parse(&made), Ok(header));
    made[70] ^= 1;
    assert_eq!(packet::parse(&made), Ok(header));
    made[5] ^= 1;
    assert_eq!(packet::parse(&made), Err(PacketFault::Check));
}

#[test]
fn drawn_headers_make_the_round_trip() {
    for seed in 0..5000 {
        let mut random = SplitMix64::new(seed);
        let mut octets = [0; HEADER_LEN];
        for octet in &mut octets {
            *octet = random.next_u64() as u8;
        }
        let is_ours = octets[8] >> 5 == 0;
        let header = VmtpHeader::parse(&octets);
        assert_eq!(header.is_some(), is_ours);
        if let Some(header) = header {
            assert_eq!(header.emit(), octets);
            let range = header.message_in_header();
            assert!(range.start >= 36 && range.end <= 56);
        }
    }
}
