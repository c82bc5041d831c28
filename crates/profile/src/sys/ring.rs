//! The ring buffer shared with the kernel for perf records.

use super::Event;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Octets of the data area, a power of two: 60 samples with their stacks, 20 ms at 3000 a second.
const RECORDS: usize = 512 << 10;

/// Offsets of `data_head` and `data_tail` in the first page (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A shared ring buffer of records.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut u8,
    page: usize,
}

// SAFETY: the memory belongs to this value alone on our side, and the head and tail that the
// kernel shares are read and written atomically; any thread may do that.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring buffer of `event`.
    pub(crate) fn of(event: &Event) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place that nothing else uses.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                page + RECORDS,
                access,
                MapFlags::SHARED,
                event,
                0,
            )?
        };
        let base = base.cast();
        Ok(Ring { base, page })
    }

    /// Appends all available octets to `into`; records are complete.
    pub(crate) fn drain(&mut self, into: &mut Vec<u8>) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        while tail < head {
            let at = tail as usize % RECORDS;
            let len = (RECORDS - at).min((head - tail) as usize);
            // SAFETY: at + len is within the records' part, which is mapped as long as this value
            // lives, and the kernel leaves what is before the head alone until the tail has moved.
            let part = unsafe { std::slice::from_raw_parts(self.base.add(self.page + at), len) };
            into.extend_from_slice(part);
            tail += len as u64;
        }
        self.word(TAIL).store(tail, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both places are aligned to 8 octets and within the first page, which is mapped
        // as long as this value lives.
        unsafe { &*self.base.add(at).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nothing borrowed from the memory outlives this value.
        // What cannot be unmapped stays until the process ends.
        let _ = unsafe { munmap(self.base.cast(), self.page + RECORDS) };
    }
}
