//! What the line does to cells: wrong bits, bursts, losses.

use crate::{Cell, adaptations, cells_of, layer, octets, path, receive_cells, start};
use engine::{Layer, SplitMix64};
use engine_aal34::pdu::cell::HEADER_LEN;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, CellCounters};
use std::collections::BTreeMap;

fn flip(cell: &mut Cell, bit: usize) {
    cell[bit / 8] ^= 0x80 >> (bit % 8);
}

/// The cells of packets of `lens` octets.
fn sent(adaptation: Adaptation, lens: &[usize]) -> Vec<Cell> {
    let mut sender = layer(adaptation, 4000);
    for len in lens {
        sender.send(start(), path(), &octets(*len, *len as u64));
    }
    cells_of(&mut sender)
}

/// The packets that `cells` are, and what was counted.
fn received(adaptation: Adaptation, cells: &[Cell]) -> (Vec<Vec<u8>>, CellCounters) {
    let mut receiver = layer(adaptation, 4000);
    let packets = receive_cells(&mut receiver, cells);
    (packets, receiver.cell_counters())
}

const USUAL: Adaptation = Adaptation::Aal34(Aal34Config {
    sar: SarFormat::Standard,
    mode: engine_aal34::pdu::cpcs::CpcsMode::Message,
    repair: engine_aal34::Repair::Discard,
    correct_bits: false,
    mids: 1024,
    interleave: 1,
});

#[test]
fn one_wrong_bit_of_any_header_is_corrected() {
    let cells = sent(USUAL, &[200]);
    for at in 0..cells.len() {
        for bit in 0..8 * HEADER_LEN {
            let mut damaged = cells.clone();
            flip(&mut damaged[at], bit);
            let (packets, counters) = received(USUAL, &damaged);
            assert_eq!(packets, [octets(200, 200)], "cell {at}, bit {bit}");
            assert_eq!(counters.headers_corrected, 1);
        }
    }
}

#[test]
fn second_header_error_in_a_row_loses_its_cell_and_packet() {
    let mut cells = sent(USUAL, &[200, 100]);
    flip(&mut cells[1], 3);
    flip(&mut cells[2], 9);
    let (packets, counters) = received(USUAL, &cells);
    assert_eq!(packets, [octets(100, 100)]);
    assert_eq!(
        (counters.headers_corrected, counters.headers_discarded),
        (1, 1)
    );
    assert_eq!(counters.sequence_errors, 1);
}

#[test]
fn bursts_of_up_to_ten_bits_in_a_sar_pdu_never_reach_the_user() {
    let cells = sent(USUAL, &[120]);
    let mut random = SplitMix64::new(1);
    for round in 0..3000 {
        let mut damaged = cells.clone();
        let cell = &mut damaged[random.below(3) as usize];
        let width = 1 + random.below(10) as usize;
        let at = 8 * HEADER_LEN + random.below(385 - width as u64) as usize;
        flip(cell, at);
        for bit in at + 1..at + width {
            if random.below(2) == 1 {
                flip(cell, bit);
            }
        }
        let (packets, counters) = received(USUAL, &damaged);
        assert!(packets.is_empty(), "round {round}");
        assert_eq!(counters.crc_errors, 1);
    }
}

#[test]
fn one_wrong_bit_of_a_sar_pdu_is_corrected_where_that_is_asked_for() {
    let corrects = Adaptation::Aal34(Aal34Config {
        correct_bits: true,
        ..Aal34Config::default()
    });
    let cells = sent(USUAL, &[120]);
    for bit in 8 * HEADER_LEN..8 * 53 {
        let mut damaged = cells.clone();
        flip(&mut damaged[bit % 3], bit);
        let (packets, counters) = received(corrects, &damaged);
        assert_eq!(packets, [octets(120, 120)], "bit {bit}");
        assert_eq!((counters.crc_corrected, counters.crc_errors), (1, 0));
        assert!(
            received(USUAL, &damaged).0.is_empty(),
            "off unless asked for"
        );
    }
}

#[test]
fn each_cell_lost_or_doubled_loses_its_packet_alone() {
    for (adaptation, _) in adaptations() {
        let Adaptation::Aal34(own) = adaptation else {
            continue;
        };
        // One packet after the other: each loss is that of one packet.
        let adaptation = Adaptation::Aal34(Aal34Config {
            interleave: 1,
            ..own
        });
        let lens = [300, 301, 302];
        let mut sender = layer(adaptation, 1400);
        for len in lens {
            sender.send(start(), path(), &octets(len, len as u64));
        }
        let cells = cells_of(&mut sender);
        let each = cells.len() / 3;
        for lost in each..2 * each {
            for doubled in [false, true] {
                let mut line = cells.clone();
                match doubled {
                    true => line.insert(lost, cells[lost]),
                    false => drop(line.remove(lost)),
                }
                let mut receiver = layer(adaptation, 1400);
                let packets = receive_cells(&mut receiver, &line);
                let expected = [octets(300, 300), octets(302, 302)];
                // A BOM that comes twice begins the packet twice, and an EOM ends nothing the second time.
                let harmless = doubled && (lost == each || lost == 2 * each - 1);
                let whole = packets.len() == 3 && harmless;
                assert!(
                    whole || packets == expected,
                    "cell {lost}, {doubled}, {own:?}"
                );
                // Without its EOM a packet waits for its timer.
                assert!(receiver.cell_counters().discarded() > 0 || receiver.under_way() == 1);
            }
        }
    }
}

#[test]
fn sixteen_cells_lost_in_a_row_are_caught_by_the_length() {
    let cells = sent(USUAL, &[3000, 100]);
    // The numbers of 4 bits go on as if nothing were missing.
    for first in 1..cells.len() - 3 - 16 {
        for count in [16, 32] {
            let mut line = cells.clone();
            if first + count >= cells.len() - 3 {
                continue;
            }
            line.drain(first..first + count);
            let (packets, counters) = received(USUAL, &line);
            assert_eq!(packets, [octets(100, 100)]);
            assert_eq!(
                (counters.sequence_errors, counters.incorrect_lengths),
                (0, 1)
            );
        }
    }
}

#[test]
fn joined_halves_of_two_packets_are_caught_by_the_tag() {
    // The EOM of a second packet of the same length and identifier, sixteen numbers later.
    let one = Adaptation::Aal34(Aal34Config {
        mids: 1,
        ..Aal34Config::default()
    });
    let cells = sent(one, &[340, 340]);
    assert_eq!(
        cells.len(),
        16,
        "so both packets have the same numbers in turn"
    );
    let line: Vec<Cell> = [&cells[..4], &cells[12..]].concat();
    let (packets, counters) = received(one, &line);
    assert!(packets.is_empty());
    assert_eq!(counters.sequence_errors + counters.tag_mismatches, 1);
}

#[test]
fn lost_cell_of_aal5_loses_its_packet_and_a_lost_last_one_the_next_too() {
    let lens = [300, 300, 300];
    let cells = sent(Adaptation::Aal5, &lens);
    let each = cells.len() / 3;
    for lost in 0..each {
        let mut line = cells.clone();
        line.remove(lost);
        let (packets, counters) = received(Adaptation::Aal5, &line);
        let left = if lost == each - 1 { 1 } else { 2 };
        assert_eq!(packets, vec![octets(300, 300); left], "cell {lost}");
        assert_eq!(counters.crc_errors, 1);
    }
}

#[test]
fn packets_longer_than_announced_or_allowed_are_given_up() {
    let mut sender = layer(USUAL, 4000);
    sender.send(start(), path(), &octets(3000, 1));
    let cells = cells_of(&mut sender);
    let mut receiver = layer(USUAL, 1000);
    assert!(receive_cells(&mut receiver, &cells).is_empty());
    let counters = receiver.cell_counters();
    assert_eq!(
        counters.bad_headers, 1,
        "more is announced than a packet has"
    );
    assert_eq!(counters.unexpected_mids as usize, cells.len() - 1);
    let cells = sent(Adaptation::Aal5, &[3000, 100]);
    let mut receiver = layer(Adaptation::Aal5, 1000);
    assert_eq!(receive_cells(&mut receiver, &cells), [octets(100, 100)]);
    assert_eq!(receiver.cell_counters().incorrect_lengths, 1);
}

#[test]
fn every_counter_has_a_name_of_its_own() {
    let mut cells = sent(USUAL, &[200]);
    flip(&mut cells[1], 8 * HEADER_LEN + 100);
    let mut receiver = layer(USUAL, 4000);
    assert!(receive_cells(&mut receiver, &cells).is_empty());
    let named: BTreeMap<&str, u64> = receiver.named_counts().into_iter().collect();
    let counters = receiver.cell_counters();
    let fields = format!("{counters:?}").matches(": ").count();
    assert_eq!(named.len(), fields, "{named:?}");
    assert_eq!(named["cells_received"], cells.len() as u64);
    assert_eq!(named["cells_crc_errors"], 1);
    assert_eq!(named["cells_sequence_errors"], counters.sequence_errors);
}
