//! A table of things that are never freed, read without a lock.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for each number below `LEN`.
pub(crate) struct StaticTable<T: 'static, const LEN: usize>([AtomicPtr<T>; LEN]);

impl<T, const LEN: usize> StaticTable<T, LEN> {
    pub(crate) const fn new() -> StaticTable<T, LEN> {
        StaticTable([const { AtomicPtr::new(null_mut()) }; LEN])
    }

    /// What a place has.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&'static T> {
        let place = self.0.get(at)?.load(Ordering::Acquire);
        // SAFETY: `set` alone stores pointers other than null, of what lives as long as the program.
        unsafe { place.as_ref() }
    }

    /// Puts something into a place; false where there is none.
    pub(crate) fn set(&self, at: usize, value: Option<&'static T>) -> bool {
        let value = value.map_or(null_mut(), |value| std::ptr::from_ref(value).cast_mut());
        let place = self.0.get(at);
        place.is_some_and(|place| {
            place.store(value, Ordering::Release);
            true
        })
    }
}
