//! Numbers that nobody predicts who does not know the secret: SipHash-2-4 of a counter.
//!
//! [`crate::SplitMix64`] is a bijection of its state: who sees one of its numbers knows all of them.
//! What a peer must not guess - keys, tokens, syncs, the secret of a hash table - comes from here
//! (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012).

use crate::Secret;
use std::collections::VecDeque;

/// What numbers are for. Streams of different purposes say nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Keys of associations, tokens of openings.
    Keys = 1,
    /// Initial syncs, slots of control packets: numbers that peers see.
    Visible = 2,
    /// The order of hash tables.
    Tables = 3,
    /// Cookies: what a host gives to an address instead of remembering it.
    Cookies = 4,
}

/// Numbers made ahead at most.
const PREPARED_MAX: usize = 16;

/// A stream of 64-bit numbers for one purpose of one secret.
#[derive(Clone, Debug)]
pub struct KeyedStream {
    key: [u64; 2],
    next: u64,
    /// The next numbers, as far as they were made ahead.
    prepared: VecDeque<u64>,
}

impl KeyedStream {
    /// The stream of `purpose`. Its key is a hash of the purpose and the seed, which keeps endpoints
    /// of one secret apart, under all 256 bits of the secret.
    pub fn new(secret: &Secret, purpose: Purpose, seed: u64) -> KeyedStream {
        let word = |index: usize| {
            let octets = secret.octets()[8 * index..].first_chunk().copied();
            u64::from_le_bytes(octets.unwrap_or_default())
        };
        let half = |first: usize, salt: u64| {
            let key = [word(first), word(first + 1)];
            let input = [purpose as u64 ^ (salt << 32), seed].map(u64::to_le_bytes);
            siphash(key, input.as_flattened())
        };
        KeyedStream {
            key: [half(0, 0) ^ half(2, 1), half(0, 2) ^ half(2, 3)],
            next: 0,
            prepared: VecDeque::new(),
        }
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let prepared = self.prepared.pop_front();
        prepared.unwrap_or_else(|| self.make_next())
    }

    /// Makes one more number ahead, while nobody waits for it, unless there are enough.
    #[inline]
    pub fn prepare(&mut self) {
        if self.prepared.len() < PREPARED_MAX {
            let number = self.make_next();
            self.prepared.push_back(number);
        }
    }

    #[inline(never)]
    fn make_next(&mut self) -> u64 {
        self.next += 1;
        // The hash of eight octets.
        let mut state = SipState::new(self.key);
        state.absorb(self.next);
        state.absorb(8 << 56);
        state.finish()
    }

    /// A number below `bound`, 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// SipHash-2-4 of `octets` under a key of 128 bits.
pub fn siphash(key: [u64; 2], octets: &[u8]) -> u64 {
    let mut state = SipState::new(key);
    let (words, rest) = octets.as_chunks::<8>();
    for word in words {
        state.absorb(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = octets.len() as u8;
    state.absorb(u64::from_le_bytes(last));
    state.finish()
}

/// What SipHash keeps between words.
struct SipState([u64; 4]);

impl SipState {
    fn new(key: [u64; 2]) -> SipState {
        SipState([
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    #[inline]
    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        self.0.into_iter().fold(0, |hash, word| hash ^ word)
    }

    #[inline]
    fn round(&mut self) {
        let v = &mut self.0;
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn siphash_matches_published_vectors() {
        // Appendix A of the paper, and the first vectors of its reference implementation: the key is
        // 00 01 .. 0f, the input 00 01 .. of each length.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &input), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &input[..1]), 0x74f8_39c5_93dc_67fd);
    }

    #[test]
    fn streams_of_purposes_and_secrets_share_no_number() {
        let mut seen = BTreeSet::new();
        for seed in 0..4 {
            let secret = Secret::from_seed(seed);
            for purpose in [
                Purpose::Keys,
                Purpose::Visible,
                Purpose::Tables,
                Purpose::Cookies,
            ] {
                let mut stream = KeyedStream::new(&secret, purpose, 0);
                assert!((0..1000).all(|_| seen.insert(stream.next_u64())));
            }
        }
    }

    #[test]
    fn every_octet_of_the_secret_matters() {
        let first = |octets| KeyedStream::new(&Secret::new(octets), Purpose::Keys, 0).next_u64();
        let plain = first([0; 32]);
        for at in 0..32 {
            let mut octets = [0; 32];
            octets[at] = 1;
            assert_ne!(first(octets), plain, "octet {at}");
        }
    }

    #[test]
    fn same_secret_gives_same_numbers() {
        let stream = || KeyedStream::new(&Secret::from_seed(5), Purpose::Keys, 7);
        let (mut one, mut other) = (stream(), stream());
        for step in 0..100 {
            if step % 3 == 0 {
                (0..step).for_each(|_| one.prepare());
                assert!(one.prepared.len() <= PREPARED_MAX);
            }
            assert_eq!(one.next_u64(), other.next_u64());
        }
    }
}
