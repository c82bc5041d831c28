//! Memory that is asked for before it is used.

/// Asks for the cache line in which `place` begins, and does not wait for it: for memory that a table is so large for
/// that it lies in no near cache, and that is needed some hundred instructions later.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: an instruction of every such processor, which reads nothing that the program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
