//! Batches of parts against packets in one piece.

use super::*;
use crate::{Address, SplitMix64};

const STORE: Store = Store::Association(AssociationId(3));
const MESSAGE: Store = Store::Message(OutgoingMessage(9));

fn byte_at(store: Store, position: u64) -> u8 {
    let salt = u64::from(store == MESSAGE) * 77;
    (((position + salt) * 31) >> 2) as u8
}

fn copy(store: Store, range: &Range<u64>, out: &mut Vec<u8>) {
    out.extend(range.clone().map(|position| byte_at(store, position)));
}

/// The bytes of a range in two slices.
fn visit(store: Store, range: &Range<u64>, take: &mut dyn FnMut(&[u8])) {
    let mut octets = Vec::new();
    copy(store, range, &mut octets);
    let (front, back) = octets.split_at(octets.len() / 3);
    take(front);
    take(back);
}

fn written(batch: &Batch, packet: &Packet) -> Vec<u8> {
    let mut octets = vec![0xee; 5];
    batch.write(packet, &mut octets, copy);
    octets.split_off(5)
}

/// A packet of random parts, and the same octets put together by hand without a check.
fn draw(random: &mut SplitMix64, batch: &mut Batch, integrity: Integrity) -> Vec<u8> {
    let own = |random: &mut SplitMix64, len: usize| -> Vec<u8> {
        (0..len).map(|_| random.next_u64() as u8).collect()
    };
    let len = 2 * (2 + random.below(20) as usize);
    let header = own(random, len);
    let mut whole = header.clone();
    let mut builder = batch.begin().own(&header);
    for _ in 0..random.below(4) {
        let store = [STORE, MESSAGE][random.below(2) as usize];
        let start = random.below(1 << 20);
        let range = start..start + random.below(90);
        copy(store, &range, &mut whole);
        builder = builder.user(store, range);
        // Behind user bytes an Internet checksum covers no octets of the engine's.
        if !matches!(integrity, Integrity::Internet { .. }) {
            let len = random.below(4) as usize;
            let padding = own(random, len);
            whole.extend(&padding);
            let (front, back) = padding.split_at(len / 2);
            builder = builder.own(front).join_own(back);
        }
    }
    whole.extend([0; 4]);
    match integrity {
        Integrity::Internet { .. } => whole.truncate(whole.len() - 4),
        _ => builder = builder.own(&[0; 4]),
    }
    builder.end(integrity);
    whole
}

#[test]
fn batch_of_parts_equals_packet_in_one_piece() {
    let mut random = SplitMix64::new(11);
    for round in 0..500 {
        let integrity = [
            Integrity::None,
            Integrity::Internet { at: 2 },
            Integrity::Cxor { from: 1 },
            Integrity::Vmtp,
            Integrity::Crc32c { at: 0 },
        ][round % 5];
        let mut batch = Batch::new(1);
        batch.set_path(Address::Station(1), None);
        let mut whole = draw(&mut random, &mut batch, integrity);
        let packet = batch.packets()[0].clone();
        assert_eq!(packet.len(), whole.len());
        let user: usize = batch
            .user(&packet)
            .map(|(_, range)| (range.end - range.start) as usize)
            .sum();
        let from = whole.len() - user;
        complete(&mut whole, integrity, Some(from).filter(|_| user > 0));
        assert_eq!(
            written(&batch, &packet),
            whole,
            "round {round} {integrity:?}"
        );
    }
}

#[test]
fn completed_checksum_is_the_one_of_the_whole_packet() {
    let mut batch = Batch::new(2);
    batch.set_path(Address::Station(1), None);
    let mut header = [0x45, 0, 0, 0, 7, 8, 9, 10];
    let check = checksum::checksum(&header);
    header[2..4].copy_from_slice(&check.to_be_bytes());
    let internet = Integrity::Internet { at: 2 };
    batch.push(&header, STORE, 5..28, internet);
    let builder = batch.begin().own(&header).user(STORE, 28..31);
    builder.user(MESSAGE, 0..20).end(internet);
    batch.complete_checks(visit);
    assert!(!batch.needs_copy());
    for packet in batch.packets() {
        assert_eq!(checksum::sum(&written(&batch, packet)), u16::MAX);
    }
}

#[test]
fn packets_with_a_trailer_are_copied_when_they_are_short() {
    for (len, copied) in [(1400, true), (16 << 10, false)] {
        let mut batch = Batch::new(2);
        batch.set_path(Address::Station(1), None);
        for at in [0, len] {
            let builder = batch.begin().own(&[0; 8]).user(STORE, at..at + len);
            builder.own(&[0; 4]).end(Integrity::None);
        }
        assert_eq!(batch.needs_copy(), copied, "{len}");
    }
}

#[test]
fn long_packet_has_the_same_crc_gathered_as_in_one_piece() {
    let mut batch = Batch::new(2);
    batch.set_path(Address::Station(1), None);
    for at in [0, 1 << 20] {
        let builder = batch.begin().own(&[1, 2, 3, 4, 9, 9, 9, 9, 5, 6]);
        let builder = builder.user(STORE, at..at + 5001).own(&[0; 3]);
        let builder = builder.user(MESSAGE, 0..4000);
        builder.own(&[7; 16]).end(Integrity::Crc32c { at: 4 });
    }
    assert!(!batch.needs_copy());
    let whole: Vec<Vec<u8>> = (batch.packets().iter())
        .map(|packet| written(&batch, packet))
        .collect();
    batch.complete_checks(visit);
    let gathered = batch.packets().iter().map(|packet| written(&batch, packet));
    assert_eq!(gathered.collect::<Vec<_>>(), whole);
    assert_ne!(whole[0][4..8], [9; 4]);
}

#[test]
fn packet_of_many_short_parts_or_a_short_one_with_a_crc_is_copied() {
    let none = Integrity::None;
    let crc = Integrity::Crc32c { at: 4 };
    for (count, len, integrity, copied) in [
        (60, 1000, none, true),
        (15, 4000, none, false),
        (15, 4000, crc, false),
        (1, 60_000, crc, false),
        (1, 1400, crc, true),
        (1, 1400, none, false),
    ] {
        let mut batch = Batch::new(1);
        batch.set_path(Address::Station(1), None);
        let mut builder = batch.begin().own(&[0; 12]);
        for at in 0..count {
            builder = builder.join_own(&[0; 16]);
            builder = builder.user(STORE, at * len..(at + 1) * len);
        }
        builder.end(integrity);
        assert_eq!(batch.needs_copy(), copied, "{count} {len} {integrity:?}");
    }
}

#[test]
fn octets_limit_holds_from_first_packet_on() {
    let mut batch = Batch::limited(8, 100);
    batch.set_path(Address::Station(1), Some(AssociationId(1)));
    batch.push_own(&[0; 30]);
    assert_eq!(batch.room(), 2);
    batch.clear();
    batch.push_own(&[0; 300]);
    assert_eq!(
        (batch.room(), batch.packet_len(), batch.sender()),
        (0, 300, None)
    );
}

/// The XOR of all octets but the last, which it is written to.
#[derive(Debug)]
struct XorSeal;

impl Seal for XorSeal {
    fn seal(&self, packet: &mut [u8]) {
        if let Some((last, rest)) = packet.split_last_mut() {
            *last = rest.iter().fold(0, |sum, octet| sum ^ octet);
        }
    }
}

#[test]
fn seal_covers_user_bytes_and_the_checksum_covers_the_seal() {
    let mut batch = Batch::new(2);
    batch.set_path(Address::Station(1), None);
    batch.set_seal(Arc::new(XorSeal));
    for crc_at in [None, Some(4)] {
        let builder = batch.begin().own(&[1, 2, 3, 4, 0, 0, 0, 0]);
        let builder = builder.user(STORE, 100..123).own(&[0]);
        builder.end(Integrity::Sealed { crc_at });
    }
    assert!(batch.needs_copy());
    let [plain, summed] = [0, 1].map(|index| written(&batch, &batch.packets()[index]));
    let code = plain[..plain.len() - 1]
        .iter()
        .fold(0, |sum, octet| sum ^ octet);
    assert_eq!(plain.last(), Some(&code));
    assert_eq!(
        summed.last(),
        Some(&code),
        "the code is of a checksum of zeros"
    );
    let mut crc = Crc32c::new();
    crc.update(&plain);
    assert_eq!(summed[4..8], crc.finish().to_le_bytes());
}

#[test]
fn plain_packets_are_written_as_others_are() {
    let mut random = SplitMix64::new(5);
    let (mut plain, mut others) = (0, 0);
    for _ in 0..2000 {
        let integrity = match random.below(3) {
            0 => Integrity::None,
            1 => Integrity::Internet { at: 2 },
            _ => Integrity::Crc32c { at: 0 },
        };
        let mut batch = Batch::new(1);
        draw(&mut random, &mut batch, integrity);
        let expected = written(&batch, &batch.packets()[0]);
        let Some(packet) = batch.plain_packet() else {
            others += 1;
            continue;
        };
        plain += 1;
        let mut bytes = Vec::new();
        copy(STORE, &packet.user, &mut bytes);
        let mut octets = vec![0xee; 5];
        packet.write(&bytes, &mut octets);
        assert_eq!(octets.split_off(5), expected, "{batch:?}");
    }
    assert!(plain > 50 && others > 50, "{plain} and {others}");
}
