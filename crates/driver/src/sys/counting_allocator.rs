//! An allocator for tests that counts what each thread has allocated and not freed, and how often.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static OCTETS: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread has allocated, or made an allocation larger.
pub(crate) fn allocations() -> u64 {
    CALLS.with(Cell::get)
}

/// Octets that the calling thread has allocated, less those that it has freed.
pub(crate) fn allocated() -> isize {
    OCTETS.with(Cell::get)
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(octets: isize) {
    // A thread that ends has no counter any more.
    let _ = OCTETS.try_with(|counter| counter.set(counter.get() + octets));
    if octets > 0 {
        let _ = CALLS.try_with(|counter| counter.set(counter.get() + 1));
    }
}

// SAFETY: every call is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, octets: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(octets, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, octets: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(octets, layout, size) }
    }
}
