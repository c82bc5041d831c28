//! Octets computed apart from this crate.

use crate::{Cell, cells_of, layer, octets, path, receive_cells, start};
use engine::Layer;
use engine_aal34::pdu::cell::{CELL_LEN, HEADER_LEN};
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::procedure::segment::Segmenter;
use engine_aal34::procedure::stream::{StreamedPacket, TooLong};
use engine_aal34::{Aal34Config, Adaptation};

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn payloads(cells: &[u8]) -> Vec<String> {
    let cells = cells.chunks(CELL_LEN);
    cells.map(|cell| hex(&cell[HEADER_LEN..])).collect()
}

/// Tags and sequence numbers begin so that the next tag is `tag` and the next number `sn`.
fn segmenter(format: SarFormat, tag: u8, sn: u8) -> Segmenter {
    let seed = u64::from(tag.wrapping_sub(1)) << 8 | u64::from(sn);
    Segmenter::new(format, CpcsMode::Message, 65_535, [0; 5], seed)
}

const HUNDRED: [&str; 3] = [
    "8155005a0064000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627b0be",
    "055528292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f50515253b230",
    "49555455565758595a5b5c5d5e5f60616263005a00640000000000000000000000000000000000000000000000005356",
];

#[test]
fn packet_of_100_octets_is_three_known_sar_pdus() {
    let packet: Vec<u8> = (0..100).collect();
    let mut cells = Vec::new();
    segmenter(SarFormat::Standard, 0x5a, 0).segment(&packet, || 0x155, &mut cells);
    assert_eq!(payloads(&cells), HUNDRED);
    let mut cells = Vec::new();
    let mut segmenter = segmenter(SarFormat::Standard, 0x5a, 0);
    let mut streamed = StreamedPacket::begin(&mut segmenter, 0x155, 100);
    for part in packet.chunks(7) {
        let pushed = streamed.push(&mut segmenter, part, &mut cells);
        assert_eq!(pushed, Ok(()));
    }
    let more = streamed.push(&mut segmenter, &[0], &mut cells);
    assert_eq!(more, Err(TooLong), "100 were announced");
    streamed.finish(&mut segmenter, &mut cells);
    assert_eq!(payloads(&cells), HUNDRED, "cells leave as octets come");
}

#[test]
fn packet_of_one_cell_is_the_known_ssm() {
    let mut cells = Vec::new();
    segmenter(SarFormat::Standard, 1, 5).segment(b"ping", || 9, &mut cells);
    let known = format!("d4000001000470696e6700010004{}32d4", "00".repeat(32));
    assert_eq!(payloads(&cells), [known]);
}

#[test]
fn aborted_packet_ends_with_the_known_eom() {
    let mut segmenter = segmenter(SarFormat::Standard, 1, 0);
    let mut cells = Vec::new();
    let mut streamed = StreamedPacket::begin(&mut segmenter, 0x155, 2000);
    let pushed = streamed.push(&mut segmenter, &[7; 150], &mut cells);
    assert_eq!(pushed, Ok(()));
    streamed.abort(&mut segmenter, &mut cells);
    let known = format!("4d55{}fd7a", "00".repeat(44));
    assert_eq!(payloads(&cells).last(), Some(&known));
    assert_eq!(cells.len() / CELL_LEN, 4);
    // One that has sent nothing has nothing to abort.
    let streamed = StreamedPacket::begin(&mut segmenter, 1, 2000);
    cells.clear();
    streamed.abort(&mut segmenter, &mut cells);
    assert_eq!(cells, []);
}

#[test]
fn packet_of_89_octets_is_three_known_sar_pdus_of_the_study() {
    let packet: Vec<u8> = (0..89).collect();
    let mut cells = Vec::new();
    segmenter(SarFormat::Study, 0, 9).segment(&packet, || 0xaa, &mut cells);
    let found = payloads(&cells);
    let known = |header: &str, piece: &[u8], tail: &str| {
        let padding = "00".repeat(44 - piece.len());
        format!("{header}{}{padding}{tail}", hex(piece))
    };
    assert_eq!(
        found,
        [
            known("80aa", &packet[..44], "b1ce"),
            known("02aa", &packet[44..88], "b108"),
            known("44aa", &packet[88..], "0685"),
        ]
    );
}

#[test]
fn two_cells_of_the_study_hold_88_octets_and_the_standard_80() {
    for (sar, fits) in [(SarFormat::Study, 88), (SarFormat::Standard, 80)] {
        let mids = sar.mids();
        let usual = Aal34Config::default();
        let adaptation = Adaptation::Aal34(Aal34Config { sar, mids, ..usual });
        let mut sender = layer(adaptation, 1400);
        sender.send(start(), path(), &octets(fits, 1));
        assert_eq!(cells_of(&mut sender).len(), 2);
        sender.send(start(), path(), &octets(fits + 1, 1));
        assert_eq!(cells_of(&mut sender).len(), 3);
    }
}

#[test]
fn known_sar_pdus_are_a_packet_again() {
    let mut receiver = layer(Adaptation::Aal34(Aal34Config::default()), 1000);
    let cell_header = cell_header(&mut receiver);
    let cells: Vec<Cell> = HUNDRED.iter().map(|text| cell(cell_header, text)).collect();
    let packet: Vec<u8> = (0..100).collect();
    assert_eq!(receive_cells(&mut receiver, &cells), [packet]);
}

/// The header of the cells of `layer`.
fn cell_header(layer: &mut engine_aal34::Cells) -> [u8; HEADER_LEN] {
    layer.send(start(), path(), &[1]);
    let cells = cells_of(layer);
    *cells[0].first_chunk().expect("a header")
}

fn cell(header: [u8; HEADER_LEN], text: &str) -> Cell {
    let octet = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16);
    std::array::from_fn(|at| match at.checked_sub(HEADER_LEN) {
        None => header[at],
        Some(at) => octet(at).expect("hex"),
    })
}
