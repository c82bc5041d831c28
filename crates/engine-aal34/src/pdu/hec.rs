//! The header error check (HEC): CRC-8 over four octets, by which a receiver corrects one wrong bit
//! (ITU-T I.432).

use super::cell::HEADER_LEN;

/// x^8 + x^2 + x + 1, without its highest term.
const POLYNOMIAL: u8 = 0x07;

/// Added to the remainder, so that a header of zeros has a check that is not zero.
const COSET: u8 = 0x55;

/// Remainder of each octet.
const REMAINDERS: [u8; 256] = remainders();

/// For each syndrome the wrong bit of a header, 0 the first sent; [`NONE`] where more are wrong.
const WRONG_BITS: [u8; 256] = wrong_bits();

const NONE: u8 = u8::MAX;

const fn remainders() -> [u8; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let (mut remainder, mut bit) = (octet as u8, 0);
        while bit < 8 {
            let carry = remainder >> 7;
            remainder = remainder << 1 ^ (carry * POLYNOMIAL);
            bit += 1;
        }
        table[octet] = remainder;
        octet += 1;
    }
    table
}

const fn wrong_bits() -> [u8; 256] {
    let mut table = [NONE; 256];
    let mut bit = 0;
    while bit < 8 * HEADER_LEN as u8 {
        let syndrome = if bit < 32 {
            remainder(0x8000_0000 >> bit)
        } else {
            0x80 >> (bit - 32)
        };
        table[syndrome as usize] = bit;
        bit += 1;
    }
    table
}

const fn remainder(bits: u32) -> u8 {
    let [a, b, c, d] = bits.to_be_bytes();
    let mut crc = REMAINDERS[a as usize];
    crc = REMAINDERS[(crc ^ b) as usize];
    crc = REMAINDERS[(crc ^ c) as usize];
    REMAINDERS[(crc ^ d) as usize]
}

/// The check of the four octets `bits`.
pub fn hec(bits: u32) -> u8 {
    remainder(bits) ^ COSET
}

/// What a receiver does about an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderMode {
    /// One wrong bit is corrected: the mode after a good header.
    #[default]
    Correction,
    /// Every error discards the cell: the mode after an error, since they come in bursts.
    Detection,
}

/// What came of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderOutcome {
    /// It is right.
    Good,
    /// One bit was wrong; this is the header without the error.
    Corrected([u8; HEADER_LEN]),
    /// The cell is discarded.
    Discarded,
}

/// The receiver's state machine for the headers of one line.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderReceiver {
    mode: HeaderMode,
}

impl HeaderReceiver {
    /// What it does about the next error.
    pub fn mode(&self) -> HeaderMode {
        self.mode
    }

    /// Notes that headers since the last one were right, which the caller saw by comparison.
    #[inline]
    pub fn note_good(&mut self) {
        self.mode = HeaderMode::Correction;
    }

    /// Takes the next header.
    pub fn check(&mut self, header: &[u8; HEADER_LEN]) -> HeaderOutcome {
        let [a, b, c, d, check] = *header;
        let syndrome = hec(u32::from_be_bytes([a, b, c, d])) ^ check;
        if syndrome == 0 {
            self.mode = HeaderMode::Correction;
            return HeaderOutcome::Good;
        }
        let mode = std::mem::replace(&mut self.mode, HeaderMode::Detection);
        let bit = WRONG_BITS[usize::from(syndrome)];
        if mode == HeaderMode::Detection || bit == NONE {
            return HeaderOutcome::Discarded;
        }
        let mut corrected = *header;
        corrected[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
        HeaderOutcome::Corrected(corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hec_of_known_headers() {
        let known: [(u32, u8); 7] = [
            (0, 0x55),
            (1, 0x52),
            (0x10, 0x25),
            (0x0010_0052, 0x4e),
            (0x0a1b_2c3d, 0x66),
            (0xffff_ffff, 0x8b),
            (0x0100_0640, 0xfa),
        ];
        for (bits, check) in known {
            assert_eq!(hec(bits), check, "{bits:08x}");
        }
    }

    #[test]
    fn crc_8_of_the_catalogue_string_is_a1() {
        let crc = b"123456789"
            .iter()
            .fold(0_u8, |crc, octet| REMAINDERS[usize::from(crc ^ octet)]);
        assert_eq!((crc, crc ^ COSET), (0xf4, 0xa1));
    }

    #[test]
    fn syndromes_of_single_bits_are_the_published_ones() {
        const SYNDROMES: [u8; 40] = [
            0x31, 0x9b, 0xce, 0x67, 0xb0, 0x58, 0x2c, 0x16, 0x0b, 0x86, 0x43, 0xa2, 0x51, 0xab,
            0xd6, 0x6b, 0xb6, 0x5b, 0xae, 0x57, 0xa8, 0x54, 0x2a, 0x15, 0x89, 0xc7, 0xe0, 0x70,
            0x38, 0x1c, 0x0e, 0x07, 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01,
        ];
        for (bit, syndrome) in SYNDROMES.iter().enumerate() {
            assert_eq!(usize::from(WRONG_BITS[usize::from(*syndrome)]), bit);
        }
        let known = WRONG_BITS.iter().filter(|bit| **bit != NONE);
        assert_eq!(known.count(), 40, "they are distinct, and none is zero");
    }

    fn header(bits: u32) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = bits.to_be_bytes();
        [a, b, c, d, hec(bits)]
    }

    #[test]
    fn single_wrong_bit_is_corrected_and_the_next_error_discards() {
        let good = header(0x0010_0640);
        for bit in 0..40 {
            let mut wrong = good;
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            let mut receiver = HeaderReceiver::default();
            assert_eq!(receiver.check(&wrong), HeaderOutcome::Corrected(good));
            assert_eq!(receiver.mode(), HeaderMode::Detection);
            assert_eq!(receiver.check(&wrong), HeaderOutcome::Discarded);
            assert_eq!(receiver.check(&good), HeaderOutcome::Good);
            assert_eq!(receiver.check(&wrong), HeaderOutcome::Corrected(good));
        }
    }

    #[test]
    fn two_wrong_bits_always_discard() {
        let good = header(0x0010_0640);
        for first in 0..40 {
            for second in 0..first {
                let mut wrong = good;
                wrong[first / 8] ^= 0x80 >> (first % 8);
                wrong[second / 8] ^= 0x80 >> (second % 8);
                let outcome = HeaderReceiver::default().check(&wrong);
                assert_eq!(outcome, HeaderOutcome::Discarded, "{first} and {second}");
            }
        }
    }
}
