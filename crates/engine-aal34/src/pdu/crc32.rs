//! CRC-32 of AAL5: the polynomial 04C11DB7, the highest bit first, not reflected (ITU-T I.363.5).

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Octets of a step.
const STEP: usize = 16;

/// What [`Crc32::residue`] is when the check is among the octets.
pub const RESIDUE: u32 = 0xc704_dd7b;

/// Remainders of each octet, for each distance of it from the end of a step; 16 KiB.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut octet = 0;
    while octet < 256 {
        let mut remainder = (octet as u32) << 24;
        let mut distance = 0;
        while distance < STEP {
            let mut bit = 0;
            while bit < 8 {
                let carry = remainder >> 31;
                remainder = remainder << 1 ^ (carry * POLYNOMIAL);
                bit += 1;
            }
            tables[distance][octet] = remainder;
            distance += 1;
        }
        octet += 1;
    }
    tables
}

/// A CRC-32 in the making.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// That of nothing so far.
    pub fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// Adds `octets`, sixteen at a step.
    pub fn update(&mut self, octets: &[u8]) {
        let (steps, rest) = octets.as_chunks::<STEP>();
        for step in steps {
            let word = u128::from_be_bytes(*step) ^ u128::from(self.0) << 96;
            let octets = word.to_le_bytes();
            self.0 = octets
                .iter()
                .zip(&TABLES)
                .fold(0, |crc, (octet, table)| crc ^ table[usize::from(*octet)]);
        }
        for octet in rest {
            let index = (self.0 >> 24) as u8 ^ octet;
            self.0 = self.0 << 8 ^ TABLES[0][usize::from(index)];
        }
    }

    /// The check of the octets so far.
    pub fn finish(self) -> u32 {
        !self.0
    }

    /// What the octets leave, their check among them: [`RESIDUE`] when it is right.
    pub fn residue(self) -> u32 {
        self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Crc32::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    fn crc(octets: &[u8]) -> u32 {
        let mut crc = Crc32::new();
        crc.update(octets);
        crc.finish()
    }

    #[test]
    fn crc_of_the_catalogue_string_is_fc891918() {
        assert_eq!(crc(b"123456789"), 0xfc89_1918);
    }

    #[test]
    fn crc_in_parts_equals_that_of_the_whole_and_leaves_the_residue() {
        let mut random = SplitMix64::new(1);
        for len in 0..200_usize {
            let octets: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
            let whole = crc(&octets);
            let textbook = octets.iter().fold(u32::MAX, |crc, octet| {
                (0..8).fold(crc ^ u32::from(*octet) << 24, |crc, _| {
                    (crc << 1) ^ ((crc >> 31) * POLYNOMIAL)
                })
            });
            assert_eq!(whole, !textbook);
            let mut parts = Crc32::new();
            let (first, second) = octets.split_at(random.below(len as u64 + 1) as usize);
            parts.update(first);
            parts.update(second);
            assert_eq!(parts.finish(), whole);
            parts.update(&whole.to_be_bytes());
            assert_eq!(parts.residue(), RESIDUE);
        }
    }
}
