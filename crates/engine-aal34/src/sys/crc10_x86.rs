//! CRC-10 with the vectors of AVX-512: no table, no chain, and cells overlap in the processor.
//!
//! Each bit of the check is the parity of certain bits of the payload, since division by a polynomial
//! over GF(2) is linear. So each of ten lanes of 64 bits selects, of each of the payload's six words, the
//! bits that count for it (six instructions for eight lanes), and the parity of what it collected is its
//! bit of the check.

use crate::pdu::cell::{CELL_LEN, PAYLOAD_LEN};
use crate::pdu::crc10::{P_LOW, add_check, payload_of};
use core::arch::x86_64::{
    __m128i, __m512i, _mm_loadu_si128, _mm_popcnt_epi64, _mm_set1_epi64x, _mm_setzero_si128,
    _mm_ternarylogic_epi64, _mm_test_epi64_mask, _mm512_loadu_si512, _mm512_popcnt_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask,
};

/// Words of a payload.
const WORDS: usize = PAYLOAD_LEN / 8;

/// Which bits of each word count for each bit of the check. Words are as they lie in memory, the first
/// octet the lowest.
static SELECTED: [[u64; 10]; WORDS] = selected();

const fn selected() -> [[u64; 10]; WORDS] {
    let mut all = [[0; 10]; WORDS];
    // The remainder of one bit, from the last sent to the first.
    let mut remainder: u16 = 1;
    let mut sent = 8 * PAYLOAD_LEN;
    while sent > 0 {
        sent -= 1;
        let (word, bit) = (sent / 64, sent % 64 / 8 * 8 + (7 - sent % 8));
        let mut lane = 0;
        while lane < 10 {
            let counts = (remainder >> lane & 1) as u64;
            all[word][lane] |= counts << bit;
            lane += 1;
        }
        let carry = remainder >> 9 & 1;
        remainder = (remainder << 1 & 0x3ff) ^ (carry * P_LOW);
    }
    all
}

/// A processor that has the instructions; there is no other way to this value than to look.
#[derive(Clone, Copy)]
pub(crate) struct ParityLanes(());

impl ParityLanes {
    /// Those of this processor, if it has them.
    #[inline]
    pub(crate) fn of_this_processor() -> Option<ParityLanes> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq");
        has_all.then_some(ParityLanes(()))
    }

    /// The remainder of a payload.
    #[inline]
    pub(crate) fn remainder_of(self, payload: &[u8; PAYLOAD_LEN]) -> u16 {
        // SAFETY: `self` exists only where the processor has all three features.
        unsafe { remainder_of(payload) }
    }

    /// Adds the check to each of `cells`, whose last ten bits are zero.
    pub(crate) fn seal(self, cells: &mut [[u8; CELL_LEN]]) {
        // SAFETY: `self` exists only where the processor has all three features.
        unsafe { seal(cells) }
    }

    /// The first of `cells` whose check is wrong.
    pub(crate) fn first_wrong(self, cells: &[[u8; CELL_LEN]]) -> Option<usize> {
        // SAFETY: `self` exists only where the processor has all three features.
        unsafe { first_wrong(cells) }
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn seal(cells: &mut [[u8; CELL_LEN]]) {
    for cell in cells {
        let check = remainder_of(payload_of(cell));
        add_check(cell, check);
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn first_wrong(cells: &[[u8; CELL_LEN]]) -> Option<usize> {
    for (index, cell) in cells.iter().enumerate() {
        if remainder_of(payload_of(cell)) != 0 {
            return Some(index);
        }
    }
    None
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
fn remainder_of(payload: &[u8; PAYLOAD_LEN]) -> u16 {
    /// `first ^ (second & third)`, as a table of truth.
    const ADD_SELECTED: i32 = 0x78;
    let (words, _) = payload.as_chunks::<8>();
    let (mut low, mut high) = (_mm512_setzero_si512(), _mm_setzero_si128());
    for (word, selected) in words.iter().zip(&SELECTED) {
        let word = i64::from_le_bytes(*word);
        let [lower @ .., i, j] = selected;
        let upper = &[*i, *j];
        low = _mm512_ternarylogic_epi64::<ADD_SELECTED>(low, _mm512_set1_epi64(word), eight(lower));
        high = _mm_ternarylogic_epi64::<ADD_SELECTED>(high, _mm_set1_epi64x(word), two(upper));
    }
    let low = _mm512_test_epi64_mask(_mm512_popcnt_epi64(low), _mm512_set1_epi64(1));
    let high = _mm_test_epi64_mask(_mm_popcnt_epi64(high), _mm_set1_epi64x(1));
    u16::from(high) << 8 | u16::from(low)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn eight(lanes: &[u64; 8]) -> __m512i {
    // SAFETY: it reads 64 octets, which `lanes` has, from any address.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn two(lanes: &[u64; 2]) -> __m128i {
    // SAFETY: it reads 16 octets, which `lanes` has, from any address.
    unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) }
}
