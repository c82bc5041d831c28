//! CRC-32c by carry-less multiplications, four an instruction (AVX-512 and VPCLMULQDQ).
//!
//! The remainder of the whole is that of its last 256 octets once all before are folded into them: 128 bits
//! that are moved past n bits are their halves times x^n and x^(n + 64), modulo the polynomial (V. Gopal and
//! others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009).

use super::x86_64::{power, words};
use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64,
    _mm_extract_epi64, _mm_set_epi64x, _mm_xor_si128, _mm512_broadcast_i32x4,
    _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

/// Octets of an instruction's operand.
const BLOCK: usize = 64;

/// Fewer octets are summed as fast by the instruction for it.
pub(super) const LEN_MIN: usize = 4 * BLOCK;

/// Exclusive or of three operands, as a table of its results (VPTERNLOGQ).
const XOR_OF_THREE: i32 = 0x96;

/// Extends `crc` over `bytes`, [`LEN_MIN`] of them at least.
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f,vpclmulqdq")]
pub(super) fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let (quads, singles) = blocks.as_chunks::<4>();
    let Some((first, quads)) = quads.split_first() else {
        return words(crc, bytes);
    };
    let before = _mm512_zextsi128_si512(_mm_cvtsi32_si128(crc as i32));
    // Written out: iterators over such operands are calls where they are not inlined.
    let [a, b, c, d] = first;
    let (mut a, mut b, mut c, mut d) = (load(a), load(b), load(c), load(d));
    a = _mm512_xor_si512(a, before);
    let past_four = broadcast(const { factors(4 * BLOCK) });
    for [at_a, at_b, at_c, at_d] in quads {
        a = fold(a, past_four, load(at_a));
        b = fold(b, past_four, load(at_b));
        c = fold(c, past_four, load(at_c));
        d = fold(d, past_four, load(at_d));
    }
    let past_one = broadcast(const { factors(BLOCK) });
    let mut sum = fold(fold(fold(a, past_one, b), past_one, c), past_one, d);
    for block in singles {
        sum = fold(sum, past_one, load(block));
    }
    words(remainder(sum), rest)
}

/// The remainder of 512 bits times x^32, which is what the instruction for it gives.
#[target_feature(enable = "sse4.2,pclmulqdq,avx512f")]
fn remainder(sum: __m512i) -> u32 {
    let (low, high) = const { factors(size_of::<__m128i>()) };
    let factor = _mm_set_epi64x(i64::from(high), i64::from(low));
    let fold = |sum, next| {
        let low = _mm_clmulepi64_si128::<0x00>(sum, factor);
        let high = _mm_clmulepi64_si128::<0x11>(sum, factor);
        _mm_xor_si128(_mm_xor_si128(low, high), next)
    };
    let lane = _mm512_extracti32x4_epi32::<0>(sum);
    let lane = fold(lane, _mm512_extracti32x4_epi32::<1>(sum));
    let lane = fold(lane, _mm512_extracti32x4_epi32::<2>(sum));
    let lane = fold(lane, _mm512_extracti32x4_epi32::<3>(sum));
    let crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(lane) as u64);
    _mm_crc32_u64(crc, _mm_extract_epi64::<1>(lane) as u64) as u32
}

/// Moves each 128 bits of `sum` as far as `factor` says, and adds `next`, which lies there.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(sum: __m512i, factor: __m512i, next: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, factor);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, factor);
    _mm512_ternarylogic_epi64::<XOR_OF_THREE>(low, high, next)
}

/// The factors of the low and of the high half of 128 bits that are moved past `octets`. Bits are reflected, so
/// the low half has the higher powers, and a factor of 32 bits in the low half of 64 is x^32 times itself. The
/// product comes one power too high besides: hence -33.
const fn factors(octets: usize) -> (u32, u32) {
    (power(8 * octets + 64 - 33), power(8 * octets - 33))
}

#[target_feature(enable = "avx512f")]
fn broadcast((low, high): (u32, u32)) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(i64::from(high), i64::from(low)))
}

#[target_feature(enable = "avx512f")]
fn load(block: &[u8; BLOCK]) -> __m512i {
    // SAFETY: the block is as long as what is read, at any alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}
