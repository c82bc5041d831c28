//! The Internet checksum (RFC 1071): the ones' complement of the ones' complement sum of 16-bit
//! words, an odd last octet padded with zero on the right.
//!
//! An engine never sees the user bytes it sends. One that sums them puts the checksum of its
//! header alone into the packet and asks the host to add the payload
//! ([`crate::batch::Integrity`]), as a driver asks a network card.

use crate::sys;

/// The ones' complement sum of `bytes`, folded to 16 bits, not complemented.
///
/// Words are added as 32-bit integers into 64 bits, which compilers turn into vector code; the
/// ones' complement sum does not depend on the order or the width of the addition.
pub fn sum(bytes: &[u8]) -> u16 {
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut total: u64 = quads
        .iter()
        .map(|quad| u64::from(u32::from_be_bytes(*quad)))
        .sum();
    let mut last = [0u8; 4];
    last[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(last));
    fold(total)
}

/// The checksum of `bytes`, as it is sent in a packet.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Extends the checksum `check` over bytes whose [`sum`] is `more` and which follow at an even
/// offset.
pub fn extend(check: u16, more: u16) -> u16 {
    !fold(u64::from(!check) + u64::from(more))
}

/// The [`sum`] of `first_len` bytes whose sum is `first`, followed by bytes whose sum is `second`.
///
/// After an odd number of bytes each word of the second part straddles two words of the whole, and
/// its sum comes with its octets swapped (RFC 1071 section 2 B).
pub fn combine(first: u16, first_len: usize, second: u16) -> u16 {
    let second = if first_len.is_multiple_of(2) {
        second
    } else {
        second.swap_bytes()
    };
    fold(u64::from(first) + u64::from(second))
}

/// The check function of XTP's third revision, over 16-bit words: their exclusive or in the upper
/// half; in the lower the same, the running value turned left by a bit before each word. An odd
/// last octet is padded with zero on the right.
pub fn cxor(bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let add = |(plain, turned): (u16, u16), word: u16| (plain ^ word, turned.rotate_left(1) ^ word);
    let words = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
    let last = rest.first().map(|&octet| u16::from(octet) << 8);
    let (plain, turned) = words.chain(last).fold((0, 0), add);
    u32::from(plain) << 16 | u32::from(turned)
}

/// The check of VMTP (RFC 1045 section 2.4): two ones' complement sums, of the even and of the odd
/// clusters of 16 words, a sum of zero standing as all ones. The sums are not complemented.
///
/// Words are added in the host's order of octets, and the totals' octets swapped (RFC 1071 section 2 B).
pub fn vmtp(bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<64>();
    let totals = sys::sum_clusters(pairs);
    let (even, odd) = rest.split_at(rest.len().min(32));
    let check = |total: u64, rest: &[u8]| {
        let swapped = u16::from_be(fold(total));
        // Packets of whole blocks have no rest.
        let folded = match rest.is_empty() {
            true => swapped,
            false => fold(u64::from(swapped) + u64::from(sum(rest))),
        };
        match folded {
            0 => u32::from(u16::MAX),
            sum => u32::from(sum),
        }
    };
    check(totals[0], even) << 16 | check(totals[1], odd)
}

/// The sums of the first and of the second halves of `pairs`, as words of 32 bits in the host's order: sixteen totals,
/// which compilers turn into vector code.
pub(crate) fn sum_clusters(pairs: &[[u8; 64]]) -> [u64; 2] {
    let mut totals = [[0_u64; 8]; 2];
    for pair in pairs {
        let (quads, _) = pair.as_chunks::<4>();
        let [even, odd] = &mut totals;
        for at in 0..8 {
            even[at] += u64::from(u32::from_ne_bytes(quads[at]));
            odd[at] += u64::from(u32::from_ne_bytes(quads[8 + at]));
        }
    }
    totals.map(|totals| totals.iter().sum())
}

/// The polynomial of Castagnoli, bits reflected.
pub(crate) const CASTAGNOLI: u32 = 0x82f6_3b78;

/// A CRC-32c in the making (RFC 9260 appendix A: the polynomial of Castagnoli, reflected).
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

/// Remainders of one octet, for each distance 0 to 7 of that octet from the end of a step of eight.
const CRC32C_TABLES: [[u32; 256]; 8] = crc32c_tables();

const fn crc32c_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut octet = 0;
    while octet < 256 {
        let (mut remainder, mut bit) = (octet as u32, 0);
        while bit < 8 {
            let carry = remainder & 1;
            remainder = remainder >> 1 ^ (carry * CASTAGNOLI);
            bit += 1;
        }
        tables[0][octet] = remainder;
        octet += 1;
    }
    let mut distance = 1;
    while distance < 8 {
        let mut octet = 0;
        while octet < 256 {
            let before: u32 = tables[distance - 1][octet];
            tables[distance][octet] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            octet += 1;
        }
        distance += 1;
    }
    tables
}

impl Crc32c {
    /// The CRC of nothing so far.
    pub fn new() -> Crc32c {
        Crc32c(u32::MAX)
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        match sys::extend_crc32c(self.0, bytes) {
            Some(crc) => self.0 = crc,
            None => self.update_by_tables(bytes),
        }
    }

    /// Adds `bytes`, eight at a step.
    fn update_by_tables(&mut self, bytes: &[u8]) {
        let (steps, rest) = bytes.as_chunks::<8>();
        for step in steps {
            let word = u64::from_le_bytes(*step) ^ u64::from(self.0);
            self.0 = word
                .to_le_bytes()
                .iter()
                .enumerate()
                .fold(0, |crc, (at, octet)| {
                    crc ^ CRC32C_TABLES[7 - at][usize::from(*octet)]
                });
        }
        for octet in rest {
            let index = (self.0 ^ u32::from(*octet)) & 0xff;
            self.0 = self.0 >> 8 ^ CRC32C_TABLES[0][index as usize];
        }
    }

    /// The CRC.
    pub fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c::new()
    }
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    /// The textbook loop of RFC 1071 section 4.1.
    fn textbook(bytes: &[u8]) -> u16 {
        let word =
            |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
        let mut total: u32 = bytes.chunks(2).map(word).sum();
        while total >> 16 != 0 {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn sum_matches_rfc_1071_example() {
        // RFC 1071 section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
        assert_eq!(
            sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0xddf2
        );
    }

    #[test]
    fn cxor_matches_known_values() {
        let ramp: Vec<u8> = (0..=255).collect();
        let long: Vec<u8> = (0..300u32).map(|at| at as u8).collect();
        let odd: Vec<u8> = (0..1400u32).map(|at| (7 * at + 3) as u8).collect();
        let known: [(&[u8], u32); 9] = [
            (b"", 0),
            (&[1], 0x0100_0100),
            (&[1, 2], 0x0102_0102),
            (&[1, 2, 3, 4], 0x0206_0100),
            (&ramp[..16], 0x0000_1ee1),
            (&ramp[..32], 0),
            (b"123456789", 0x3908_092a),
            (&long, 0x0202_e5da),
            (&odd, 0x0020_d446),
        ];
        for (bytes, check) in known {
            assert_eq!(cxor(bytes), check, "{bytes:?}");
        }
    }

    #[test]
    fn sum_extend_and_combine_match_rfc_1071_loop() {
        let mut random = SplitMix64::new(3);
        for len in 0..200 {
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            assert_eq!(sum(&bytes), textbook(&bytes));
            let cut = (len / 4) * 2;
            let check = checksum(&bytes[..cut]);
            assert_eq!(extend(check, sum(&bytes[cut..])), checksum(&bytes));
            let (first, second) = bytes.split_at(len / 3);
            assert_eq!(combine(sum(first), first.len(), sum(second)), sum(&bytes));
        }
    }

    #[test]
    fn crc32c_of_known_strings() {
        // RFC 3720 appendix B.4, and the usual check value.
        let crc = |bytes: &[u8]| {
            let mut crc = Crc32c::new();
            let (first, second) = bytes.split_at(bytes.len() / 3);
            crc.update(first);
            crc.update(second);
            crc.finish()
        };
        let ramp: Vec<u8> = (0..32).collect();
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc(&ramp), 0x46dd_794e);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn crc32c_by_instruction_equals_the_one_by_tables() {
        let mut random = SplitMix64::new(7);
        let bytes: Vec<u8> = (0..70_000).map(|_| random.next_u64() as u8).collect();
        let lens = (0..3200).chain([65_507, 69_000]);
        for len in lens {
            let start = random.below(8) as usize;
            let part = &bytes[start..start + len];
            let (mut by_choice, mut by_tables) = (Crc32c::new(), Crc32c::new());
            by_choice.update(part);
            by_tables.update_by_tables(part);
            assert_eq!(by_choice.finish(), by_tables.finish(), "{len} octets");
        }
    }

    #[test]
    fn vmtp_check_equals_the_textbook_sums_of_its_clusters() {
        let mut random = SplitMix64::new(5);
        for len in (0..300).chain([1024, 1088, 65_000]) {
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            let mut sums = [0_u64; 2];
            for (index, cluster) in bytes.chunks(32).enumerate() {
                sums[index % 2] += u64::from(textbook(cluster));
            }
            let [even, odd] = sums.map(|sum| match fold(sum) {
                0 => u32::from(u16::MAX),
                sum => u32::from(sum),
            });
            assert_eq!(vmtp(&bytes), even << 16 | odd, "{len} octets");
        }
        assert_eq!(vmtp(&[0xff; 128]), 0xffff_ffff);
    }

    #[test]
    fn vmtp_check_sums_clusters_of_32_octets_in_turn() {
        let mut bytes = vec![0_u8; 96];
        assert_eq!(
            vmtp(&bytes),
            0xffff_ffff,
            "a sum of zero stands as all ones"
        );
        bytes[0] = 0x12;
        bytes[33] = 0x34;
        bytes[64] = 0x01;
        assert_eq!(vmtp(&bytes), 0x1300_0034);
        bytes.truncate(70);
        assert_eq!(vmtp(&bytes), 0x1300_0034, "the last cluster may be short");
    }
}
