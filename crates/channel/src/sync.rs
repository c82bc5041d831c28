//! What both ends share words by: the standard library's atomics, or in the models loom's.
//!
//! A model (`ring::models`) runs the ring in every order of its two ends.

#[cfg(not(all(test, feature = "loom")))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(all(test, feature = "loom"))]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// Stores `value` into a word that the other end swaps, behind all that this thread did before.
#[cfg(not(all(test, feature = "loom")))]
#[inline]
pub(crate) fn store_beside_swaps(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
}

/// The same by a swap: loom would let a store come before another thread's swap that has read what this thread stored
/// earlier, and a word has no place there (C++23, 6.9.2.2: a swap reads the last value before its own).
#[cfg(all(test, feature = "loom"))]
pub(crate) fn store_beside_swaps(word: &AtomicU32, value: u32) {
    word.swap(value, Ordering::AcqRel);
}
