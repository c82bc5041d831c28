//! CRC-10, the check of SAR-PDUs and of maintenance cells (ITU-T I.363, I.610).
//!
//! Its polynomial is `P = x^10 + x^9 + x^5 + x^4 + x + 1 = (x + 1) Q` with `Q = x^9 + x^4 + 1`. The check
//! of 48 octets is their polynomial modulo P, which follows from two smaller remainders:
//!
//! - modulo x + 1 it is the parity of all bits;
//! - modulo Q the octets are folded. Squaring in GF(2) keeps three terms three, so a power of two of Q
//!   says `x^288 = x^128 + 1`, `x^144 = x^64 + 1`, `x^72 = x^32 + 1`: what lies above is added twice
//!   below, in words of 64 bits, until 72 bits are left, which nine tables of an octet reduce.
//!
//! So there is no chain of lookups from octet to octet, and the tables take 4.5 KiB.

/// Octets that are checked: all of a cell's payload, the check among them.
const LEN: usize = super::cell::PAYLOAD_LEN;

/// x^9 + x^4 + 1.
const Q: u16 = 0x211;

/// x^10 + x^9 + x^5 + x^4 + x + 1, without its highest term.
const P_LOW: u16 = 0x233;

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

/// 48 octets as six words, the first octet the highest of the first word.
pub type Words = [u64; LEN / 8];

/// The words of a payload.
#[inline]
pub fn words(payload: &[u8; LEN]) -> Words {
    let mut words = [0; LEN / 8];
    let (octets, _) = payload.as_chunks::<8>();
    for (word, octets) in words.iter_mut().zip(octets) {
        *word = u64::from_be_bytes(*octets);
    }
    words
}

/// The remainder of 48 octets: with zeros in the place of the check it is the check; with the check in
/// its place it is zero, or the syndrome of the error.
#[inline]
pub fn remainder(words: &Words) -> u16 {
    let parity = words.iter().fold(0, |sum, word| sum ^ word).count_ones();
    let (high, low) = fold(words);
    let table = |distance: usize| &REMAINDERS[distance];
    let mut below = table(8)[usize::from(high)];
    for (distance, octet) in low.to_le_bytes().iter().enumerate() {
        below ^= table(distance)[usize::from(*octet)];
    }
    // Of the two remainders modulo P that are `below` modulo Q, the one of the right parity: Q has an
    // odd number of terms.
    let differs = (u32::from(below).count_ones() ^ parity) & 1;
    below ^ Q & (differs as u16).wrapping_neg()
}

/// 384 bits to 72 that have the same remainder modulo Q: the high octet, the low eight.
#[inline]
fn fold(words: &Words) -> (u8, u64) {
    let [w5, w4, w3, w2, w1, w0] = *words;
    // x^288 = x^128 + 1: 96 bits down, to 288.
    let (low, high) = (w5 << 32 | w4 >> 32, w5 >> 32);
    let (w0, w1, w2, w3) = (w0 ^ low, w1 ^ high, w2 ^ low, w3 ^ high);
    let w4 = w4 & 0xffff_ffff;
    // x^144 = x^64 + 1: 144 bits down, to 208, and 64 of them again, to 144.
    let (h0, h1, h2) = (w2 >> 16 | w3 << 48, w3 >> 16 | w4 << 48, w4 >> 16);
    let w2 = (w2 & 0xffff) ^ h1 ^ h2;
    let again = w2 >> 16 | h2 << 48;
    let (w0, w1) = (w0 ^ h0 ^ again, w1 ^ h0 ^ h1 ^ again);
    let w2 = w2 & 0xffff;
    // x^72 = x^32 + 1: 72 bits down, to 104, and 32 of them again, to 72.
    let (h0, h1) = (w1 >> 8 | w2 << 56, w2 >> 8);
    let w1 = (w1 & 0xff) ^ h0 >> 32 ^ h1 << 32 ^ h1;
    let again = w1 >> 8;
    let w0 = w0 ^ h0 ^ h0 << 32 ^ again ^ again << 32;
    (w1 as u8, w0)
}

/// The remainder of a payload's octets.
pub fn remainder_of(payload: &[u8; LEN]) -> u16 {
    remainder(&words(payload))
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
        }
        for bit in 0..8 * LEN {
            let mut octets = [0; LEN];
            octets[bit / 8] = 0x80 >> (bit % 8);
            assert_eq!(remainder_of(&octets), textbook(&octets), "bit {bit}");
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
