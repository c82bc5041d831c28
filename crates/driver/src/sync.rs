//! What threads share state by: the standard library's, or in the models loom's.
//!
//! A model (`models`) runs the code that uses these in every order of two threads.

#[cfg(not(all(test, feature = "loom")))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(all(test, feature = "loom"))]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
