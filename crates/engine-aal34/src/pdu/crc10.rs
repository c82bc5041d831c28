//! CRC-10, the check of SAR-PDUs and of maintenance cells (ITU-T I.363, I.610).
//!
//! Its polynomial is `P = x^10 + x^9 + x^5 + x^4 + x + 1 = (x + 1) Q` with `Q = x^9 + x^4 + 1`. The check
//! of 48 octets is their polynomial modulo P, which follows from two smaller remainders:
//!
//! - modulo x + 1 it is the parity of all bits;
//! - modulo Q the octets are folded. Squaring in GF(2) keeps three terms three, so powers of two of Q
//!   say `x^288 = x^128 + 1`, `x^144 = x^64 + 1`, `x^72 = x^32 + 1`: what lies above is added twice
//!   below, whole octets each time, until nine octets are left, which nine tables reduce.
//!
//! So there is no chain of lookups from octet to octet, and the tables take 4.5 KiB. Each word of eight
//! octets that is added is loaded from where it begins; shifting it together from two costs more.
//!
//! Processors with AVX-512 need neither (`sys::crc10`).

use super::cell::CELL_LEN;
use crate::sys::crc10::ParityLanes;

/// Octets that are checked: all of a cell's payload, the check among them.
const LEN: usize = super::cell::PAYLOAD_LEN;

/// x^9 + x^4 + 1.
const Q: u16 = 0x211;

/// x^10 + x^9 + x^5 + x^4 + x + 1, without its highest term.
pub(crate) const P_LOW: u16 = 0x233;

/// Remainders modulo Q of each octet, for each of nine distances from the end.
const REMAINDERS: [[u16; 256]; 9] = remainders();

/// For each syndrome the wrong bit of 384, 0 the first sent; [`NONE`] where it is not one bit.
const WRONG_BITS: [u16; 1024] = wrong_bits();

const NONE: u16 = u16::MAX;

const fn remainders() -> [[u16; 256]; 9] {
    let mut tables = [[0; 256]; 9];
    let mut octet = 0;
    while octet < 256 {
        let mut remainder = octet as u16;
        let mut distance = 0;
        while distance < 9 {
            tables[distance][octet] = remainder;
            let mut bit = 0;
            while bit < 8 {
                remainder <<= 1;
                if remainder & 0x200 != 0 {
                    remainder ^= Q;
                }
                bit += 1;
            }
            distance += 1;
        }
        octet += 1;
    }
    tables
}

const fn wrong_bits() -> [u16; 1024] {
    let mut table = [NONE; 1024];
    let mut syndrome: u16 = 1;
    let mut bit = 8 * LEN as u16;
    while bit > 0 {
        bit -= 1;
        table[syndrome as usize] = bit;
        let carry = syndrome >> 9 & 1;
        syndrome = (syndrome << 1 & 0x3ff) ^ (carry * P_LOW);
    }
    table
}

/// The remainder of a payload: with zeros in the place of the check it is the check; with the check in
/// its place it is zero, or the syndrome of the error.
#[inline]
pub fn remainder_of(payload: &[u8; LEN]) -> u16 {
    match ParityLanes::of_this_processor() {
        Some(lanes) => lanes.remainder_of(payload),
        None => by_tables(payload),
    }
}

/// Writes the check into each of `cells`, whose last ten bits are zero.
pub fn seal(cells: &mut [[u8; CELL_LEN]]) {
    match ParityLanes::of_this_processor() {
        Some(lanes) => lanes.seal(cells),
        None => cells.iter_mut().for_each(|cell| {
            let check = by_tables(payload_of(cell));
            add_check(cell, check);
        }),
    }
}

/// How many of the first of `cells` have the right check.
pub fn count_right(cells: &[[u8; CELL_LEN]]) -> usize {
    let wrong = match ParityLanes::of_this_processor() {
        Some(lanes) => lanes.first_wrong(cells),
        None => cells
            .iter()
            .position(|cell| by_tables(payload_of(cell)) != 0),
    };
    wrong.unwrap_or(cells.len())
}

/// What follows the header of a cell.
#[inline(always)]
pub(crate) fn payload_of(cell: &[u8; CELL_LEN]) -> &[u8; LEN] {
    let [_, _, _, _, _, payload @ ..] = cell;
    payload
}

/// Adds `check` to the last ten bits of a cell.
#[inline(always)]
pub(crate) fn add_check(cell: &mut [u8; CELL_LEN], check: u16) {
    let [.., high, low] = cell;
    let [first, second] = check.to_be_bytes();
    *high |= first;
    *low |= second;
}

fn by_tables(payload: &[u8; LEN]) -> u16 {
    let word = |at: usize| load(payload, at);
    let sum = word(0) ^ word(8) ^ word(16) ^ word(24) ^ word(32) ^ word(40);
    let (low, high) = fold(word, |at| payload[at]);
    join(reduce(low, high), sum.count_ones())
}

/// Eight octets, the first the lowest.
#[inline(always)]
fn load<const N: usize>(octets: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&octets[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Nine octets that have the same remainder modulo Q as a payload whose octets are `octet`, and whose
/// words of eight `word`: the first eight, and the last.
#[inline(always)]
fn fold(word: impl Fn(usize) -> u64, octet: impl Fn(usize) -> u8) -> (u64, u8) {
    // 48 octets to 36, and 36 to 18 (x^288 and x^144): the first eight of 18, the ninth, the next eight,
    // the last. What is folded twice comes from octets 12 to 19.
    let first = word(30) ^ word(12) ^ word(12) << 16 ^ word(20) ^ word(0);
    let first = first ^ word(0) << 48 ^ word(10) & 0xffff;
    let ninth = octet(38) ^ octet(28) ^ octet(20) ^ octet(18) ^ octet(8) ^ octet(2) ^ octet(0);
    let twice = octet(29) ^ octet(19) ^ octet(9);
    let next = word(39) ^ word(21) ^ word(12) << 8 ^ word(3) ^ word(1) ^ u64::from(twice);
    let last = octet(47) ^ octet(11) ^ twice;
    // 18 octets to nine (x^72): the first nine onto the others, five of them and again.
    let ninth = ninth ^ (first >> 24) as u8;
    let first = first ^ first << 40;
    let low = next ^ first ^ first >> 32 ^ u64::from(ninth) << 32;
    (low, last ^ ninth)
}

/// The remainder modulo Q of nine octets.
#[inline(always)]
fn reduce(low: u64, last: u8) -> u32 {
    let octets = low.to_le_bytes();
    let of = |at: usize| u32::from(REMAINDERS[8 - at][usize::from(octets[at])]);
    let halves = [of(0) ^ of(1) ^ of(2) ^ of(3), of(4) ^ of(5) ^ of(6) ^ of(7)];
    halves[0] ^ halves[1] ^ u32::from(REMAINDERS[0][usize::from(last)])
}

/// Of the two remainders modulo P that are `below` modulo Q, the one with the parity of `ones`: Q has an
/// odd number of terms.
#[inline(always)]
fn join(below: u32, ones: u32) -> u16 {
    let differs = (below.count_ones() ^ ones) & 1;
    below as u16 ^ Q & (differs as u16).wrapping_neg()
}

/// The one wrong bit that leaves `syndrome`, 0 the first sent. The 384 single bits have different
/// syndromes, and no two bits together have one of those; of three wrong bits three quarters do.
pub fn wrong_bit(syndrome: u16) -> Option<usize> {
    let bit = WRONG_BITS.get(usize::from(syndrome)).copied();
    bit.filter(|bit| *bit != NONE).map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    /// Division bit by bit.
    fn textbook(octets: &[u8]) -> u16 {
        let bits = octets
            .iter()
            .flat_map(|octet| (0..8).rev().map(move |bit| u16::from(*octet >> bit & 1)));
        bits.fold(0, |remainder, bit| {
            let carry = remainder >> 9 & 1;
            ((remainder << 1 | bit) & 0x3ff) ^ (carry * P_LOW)
        })
    }

    fn payload(random: &mut SplitMix64) -> [u8; LEN] {
        std::array::from_fn(|_| random.next_u64() as u8)
    }

    #[test]
    fn remainder_of_the_catalogue_string_is_199() {
        // The catalogue's CRC is the remainder of the string times x^10.
        let string = b"123456789".iter();
        let string = string.fold(0, |all, octet| all << 8 | u128::from(*octet));
        let mut octets = [0; LEN];
        octets[LEN - 16..].copy_from_slice(&(string << 10).to_be_bytes());
        assert_eq!(remainder_of(&octets), 0x199);
    }

    #[test]
    fn remainder_equals_the_division_bit_by_bit() {
        let mut random = SplitMix64::new(1);
        for _ in 0..20_000 {
            let octets = payload(&mut random);
            assert_eq!(remainder_of(&octets), textbook(&octets));
            assert_eq!(by_tables(&octets), textbook(&octets));
        }
        for bit in 0..8 * LEN {
            let mut octets = [0; LEN];
            octets[bit / 8] = 0x80 >> (bit % 8);
            assert_eq!(remainder_of(&octets), textbook(&octets), "bit {bit}");
            assert_eq!(by_tables(&octets), textbook(&octets), "bit {bit}");
        }
    }

    #[test]
    fn sealed_cells_are_right_up_to_the_first_that_was_changed() {
        let mut random = SplitMix64::new(2);
        let mut cells: Vec<[u8; CELL_LEN]> = (0..40)
            .map(|_| std::array::from_fn(|_| random.next_u64() as u8))
            .collect();
        for cell in &mut cells {
            cell[CELL_LEN - 2] &= 0xfc;
            cell[CELL_LEN - 1] = 0;
        }
        seal(&mut cells);
        assert_eq!(count_right(&cells), 40);
        assert!(cells.iter().all(|cell| textbook(payload_of(cell)) == 0));
        for at in (0..40).rev() {
            cells[at][5 + at] ^= 0x10;
            assert_eq!(count_right(&cells), at);
        }
    }

    #[test]
    fn syndromes_of_single_bits_are_the_published_ones() {
        let known = [
            (0, 0x1f3),
            (1, 0x3e0),
            (2, 0x1f0),
            (7, 0x316),
            (8, 0x18b),
            (15, 0x2f9),
            (16, 0x265),
            (367, 0x0c4),
            (368, 0x062),
            (373, 0x233),
            (374, 0x200),
            (382, 0x002),
            (383, 0x001),
        ];
        for (bit, syndrome) in known {
            assert_eq!(wrong_bit(syndrome), Some(bit));
        }
        let distinct = WRONG_BITS.iter().filter(|bit| **bit != NONE).count();
        assert_eq!((distinct, wrong_bit(0)), (384, None));
    }

    #[test]
    fn two_wrong_bits_are_never_taken_for_one() {
        let mut syndromes = [0; 8 * LEN];
        for (bit, syndrome) in syndromes.iter_mut().enumerate() {
            let mut octets = [0; LEN];
            octets[bit / 8] = 0x80 >> (bit % 8);
            *syndrome = remainder_of(&octets);
        }
        let mut pairs = 0;
        for (at, first) in syndromes.iter().enumerate() {
            for second in &syndromes[..at] {
                assert!(first != second && wrong_bit(first ^ second).is_none());
                pairs += 1;
            }
        }
        assert_eq!(pairs, 73_536);
    }

    #[test]
    fn bursts_of_up_to_ten_bits_are_detected() {
        for width in 1..=10_usize {
            for pattern in 0..1_u32 << width {
                // A burst begins and ends with a wrong bit.
                let ends = pattern & 1 != 0 && pattern >> (width - 1) & 1 != 0;
                for at in (0..=8 * LEN - width).filter(|_| ends) {
                    let mut octets = [0; LEN];
                    for bit in (0..width).filter(|bit| pattern >> bit & 1 != 0) {
                        octets[(at + bit) / 8] ^= 0x80 >> ((at + bit) % 8);
                    }
                    assert_ne!(remainder_of(&octets), 0);
                }
            }
        }
    }
}
