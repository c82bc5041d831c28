//! What an engine knows and a peer must not guess.

use crate::SplitMix64;
use core::fmt;

/// 32 octets that the host gives an engine when it makes it: from the operating system's random
/// source on a real host, from the seed in the simulator. Keys, cookies and the order of hash tables
/// follow from it, by keyed functions only.
#[derive(Clone, Copy)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret from the operating system.
    pub fn new(octets: [u8; 32]) -> Secret {
        Secret(octets)
    }

    /// The secret of a simulated host. Anybody who knows the seed knows it.
    pub fn from_seed(seed: u64) -> Secret {
        let mut octets = [0; 32];
        for (index, word) in octets.chunks_exact_mut(8).enumerate() {
            let value = SplitMix64::at(seed ^ SIMULATED, index as u64);
            word.copy_from_slice(&value.to_le_bytes());
        }
        Secret(octets)
    }

    /// The octets, for a keyed function.
    pub fn octets(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Keeps the secret of a seed apart from the other numbers that follow from it: "secret" in ASCII.
const SIMULATED: u64 = 0x7365_6372_6574;

impl Default for Secret {
    /// That of seed 0, for tests.
    fn default() -> Secret {
        Secret::from_seed(0)
    }
}

impl fmt::Debug for Secret {
    /// Not the octets: configurations are printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_seeds_repeat_and_differ() {
        let of = |seed| *Secret::from_seed(seed).octets();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn debug_output_does_not_contain_the_octets() {
        assert_eq!(format!("{:?}", Secret::new([0xab; 32])), "Secret");
    }
}
