//! An allocator that counts, for tests.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread has asked for memory.
pub fn allocations() -> u64 {
    COUNT.with(Cell::get)
}

/// The system's allocator, which counts.
pub struct CountingAllocator;

fn count() {
    // A thread that ends has no counter any more.
    let _ = COUNT.try_with(|counter| counter.set(counter.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, octets: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(octets, layout) }
    }

    unsafe fn realloc(&self, octets: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(octets, layout, size) }
    }
}
