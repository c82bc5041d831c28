//! Memory that is asked for before it is used.

/// Asks for the cache line in which `place` begins, and does not wait for it. For an entry of a table that is larger than
/// the near caches, some hundred instructions before it is read.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, and the program sees nothing of what it reads.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
