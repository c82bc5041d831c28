//! Sums of the clusters of VMTP's check, in vectors of 512 or 256 bits where the processor has them.

use crate::checksum;

/// As [`checksum::sum_clusters`] of one pair, two words a step.
#[cfg(target_arch = "x86_64")]
fn sum_pair(pair: &[u8; 64]) -> [u64; 2] {
    let (words, _) = pair.as_chunks::<8>();
    let total = |words: &[[u8; 8]]| {
        words.iter().fold(0, |total, word| {
            let both = u64::from_ne_bytes(*word);
            total + (both >> 32) + (both & 0xffff_ffff)
        })
    };
    [total(&words[..4]), total(&words[4..])]
}

/// As [`checksum::sum_clusters`].
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn sum(pairs: &[[u8; 64]]) -> [u64; 2] {
    // A header alone is summed before the question for the instructions is answered.
    if let [pair] = pairs {
        return sum_pair(pair);
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions.
        unsafe { avx512::sum(pairs) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        unsafe { avx2::sum(pairs) }
    } else {
        checksum::sum_clusters(pairs)
    }
}

/// As [`checksum::sum_clusters`].
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn sum(pairs: &[[u8; 64]]) -> [u64; 2] {
    checksum::sum_clusters(pairs)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::{
        _mm512_add_epi64, _mm512_loadu_si512, _mm512_setzero_si512, _mm512_slli_epi64,
        _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    };

    /// A vector is two clusters. Words of 64 bits are added as they are, and their upper halves apart: what is too much, and
    /// may have wrapped around, are the upper halves.
    #[target_feature(enable = "avx512f")]
    pub(super) fn sum(pairs: &[[u8; 64]]) -> [u64; 2] {
        let (mut whole, mut upper) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for pair in pairs {
            // SAFETY: two clusters have as many octets as the vector, which need not be aligned.
            let words = unsafe { _mm512_loadu_si512(pair.as_ptr().cast()) };
            whole = _mm512_add_epi64(whole, words);
            upper = _mm512_add_epi64(upper, _mm512_srli_epi64::<32>(words));
        }
        let lower = _mm512_sub_epi64(whole, _mm512_slli_epi64::<32>(upper));
        let mut totals = [[0_u64; 4]; 2];
        // SAFETY: eight words have as many octets as the vector.
        unsafe {
            _mm512_storeu_si512(totals.as_mut_ptr().cast(), _mm512_add_epi64(lower, upper));
        }
        totals.map(|[a, b, c, d]| a + b + c + d)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_loadu_si256, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_srli_epi64, _mm256_storeu_si256,
    };

    /// Both halves of each word of 64 bits are added apart.
    #[target_feature(enable = "avx2")]
    pub(super) fn sum(pairs: &[[u8; 64]]) -> [u64; 2] {
        let mut totals = [_mm256_setzero_si256(); 2];
        for pair in pairs {
            let (clusters, _) = pair.as_chunks::<32>();
            totals[0] = add(totals[0], &clusters[0]);
            totals[1] = add(totals[1], &clusters[1]);
        }
        [total(totals[0]), total(totals[1])]
    }

    #[target_feature(enable = "avx2")]
    fn add(total: __m256i, cluster: &[u8; 32]) -> __m256i {
        // SAFETY: a cluster has as many octets as the vector, which need not be aligned.
        let words = unsafe { _mm256_loadu_si256(cluster.as_ptr().cast()) };
        let low = _mm256_and_si256(words, _mm256_set1_epi64x(0xffff_ffff));
        let both = _mm256_add_epi64(low, _mm256_srli_epi64::<32>(words));
        _mm256_add_epi64(total, both)
    }

    #[target_feature(enable = "avx2")]
    fn total(vector: __m256i) -> u64 {
        let mut words = [0_u64; 4];
        // SAFETY: four words have as many octets as the vector.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
        words.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn sums_equal_those_by_single_words() {
        let mut random = SplitMix64::new(4);
        for pairs in [0, 1, 2, 17, 1024] {
            let mut octets = vec![[0xff_u8; 64]; pairs];
            assert_eq!(sum(&octets), checksum::sum_clusters(&octets));
            octets
                .as_flattened_mut()
                .fill_with(|| random.next_u64() as u8);
            let expected = checksum::sum_clusters(&octets);
            assert_eq!(sum(&octets), expected, "{pairs}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has the instructions.
                assert_eq!(unsafe { avx2::sum(&octets) }, expected, "{pairs}");
            }
        }
    }
}
