//! CRC-32c by the instructions of x86-64.
//!
//! The instruction for it (SSE4.2) takes three cycles and another one may begin in each, so three parts of a
//! block are summed side by side. The remainders of the first two are then moved past what follows them by a
//! carry-less multiplication (V. Gopal and others, "Fast CRC Computation for iSCSI Polynomial Using
//! CRC32 Instruction", Intel 2011). Where four such multiplications are one instruction, long input is
//! folded by them instead: see [`wide`].

#[cfg(target_arch = "x86_64")]
mod wide;

/// The remainder `crc` extended over `bytes`; None if the processor lacks the instructions.
#[cfg(target_arch = "x86_64")]
pub(crate) fn extend(crc: u32, bytes: &[u8]) -> Option<u32> {
    if !is_x86_feature_detected!("sse4.2") || !is_x86_feature_detected!("pclmulqdq") {
        return None;
    }
    let is_long = bytes.len() >= wide::LEN_MIN;
    if is_long && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq") {
        // SAFETY: the processor has the instructions.
        return Some(unsafe { wide::extend(crc, bytes) });
    }
    // SAFETY: the processor has the instructions.
    Some(unsafe { x86_64::extend(crc, bytes) })
}

/// The remainder `crc` extended over `bytes`; None if the processor lacks the instructions.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn extend(_crc: u32, _bytes: &[u8]) -> Option<u32> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi32_si128,
        _mm_cvtsi128_si64, _mm_xor_si128,
    };

    /// Octets of a lane of a long block: three make 1440, nearly all of a packet of Ethernet.
    const LONG: usize = 480;

    /// Octets of a lane of a short block: 192 with three, where moving costs a fifth of the sum.
    const SHORT: usize = 64;

    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) fn extend(crc: u32, bytes: &[u8]) -> u32 {
        let (crc, rest) = blocks::<LONG>(crc, bytes);
        let (crc, rest) = blocks::<SHORT>(crc, rest);
        words(crc, rest)
    }

    /// Extends `crc` over `bytes`, eight at a time.
    #[target_feature(enable = "sse4.2")]
    pub(super) fn words(crc: u32, bytes: &[u8]) -> u32 {
        let (words, octets) = bytes.as_chunks::<8>();
        let crc = words.iter().fold(u64::from(crc), |crc, word| {
            _mm_crc32_u64(crc, u64::from_le_bytes(*word))
        });
        let add = |crc, octet: &u8| _mm_crc32_u8(crc, *octet);
        octets.iter().fold(crc as u32, add)
    }

    /// Extends `crc` over all blocks of three lanes of `LANE` octets; what is left.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn blocks<const LANE: usize>(mut crc: u32, bytes: &[u8]) -> (u32, &[u8]) {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_at_checked(LANE)
            && let Some((second, after)) = after.split_at_checked(LANE)
            && let Some((third, after)) = after.split_at_checked(LANE)
        {
            let (mut a, mut b, mut c) = (u64::from(crc), 0, 0);
            let (first, _) = first.as_chunks::<8>();
            let (second, _) = second.as_chunks::<8>();
            let (third, _) = third.as_chunks::<8>();
            for ((x, y), z) in first.iter().zip(second).zip(third) {
                a = _mm_crc32_u64(a, u64::from_le_bytes(*x));
                b = _mm_crc32_u64(b, u64::from_le_bytes(*y));
                c = _mm_crc32_u64(c, u64::from_le_bytes(*z));
            }
            let a = multiply(a as u32, const { power(8 * 2 * LANE - 33) });
            let b = multiply(b as u32, const { power(8 * LANE - 33) });
            let both = _mm_cvtsi128_si64(_mm_xor_si128(a, b)) as u64;
            crc = (_mm_crc32_u64(0, both) ^ c) as u32;
            rest = after;
        }
        (crc, rest)
    }

    /// The product of two polynomials, bits reflected. It comes one power too high for its 64 bits, and
    /// the instruction that reduces it multiplies by x^32: moving a remainder past n octets takes the
    /// factor x^(8n - 33).
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn multiply(crc: u32, factor: u32) -> __m128i {
        let (crc, factor) = (
            _mm_cvtsi32_si128(crc as i32),
            _mm_cvtsi32_si128(factor as i32),
        );
        _mm_clmulepi64_si128::<0>(crc, factor)
    }

    /// x^`exponent` modulo the polynomial of Castagnoli, bits reflected.
    pub(super) const fn power(exponent: usize) -> u32 {
        let (mut remainder, mut at) = (1 << 31, 0);
        while at < exponent {
            let carry = (remainder & 1) * crate::checksum::CASTAGNOLI;
            remainder = (remainder >> 1) ^ carry;
            at += 1;
        }
        remainder
    }
}
