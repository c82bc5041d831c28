//! The time series of a loop, in preallocated memory.

use control::Slice;

/// Most slices kept, many more than a chart can show.
const SLICES_MAX: usize = 4096;

/// Cumulative counts, taken at most once every `every_ns`.
#[derive(Debug)]
pub(crate) struct SliceRecorder {
    every_ns: u64,
    next_ns: u64,
    slices: Vec<Slice>,
}

impl SliceRecorder {
    pub(crate) fn new(start_ns: u64, every_ns: u64) -> SliceRecorder {
        SliceRecorder {
            every_ns: every_ns.max(1),
            next_ns: start_ns,
            slices: Vec::with_capacity(SLICES_MAX),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, at_ns: u64, messages: u64, bytes: u64) {
        if at_ns >= self.next_ns {
            self.take(at_ns, messages, bytes);
        }
    }

    #[cold]
    fn take(&mut self, at_ns: u64, messages: u64, bytes: u64) {
        self.next_ns = at_ns + self.every_ns;
        if self.slices.len() < SLICES_MAX {
            self.slices.push(Slice {
                at_ns,
                messages,
                bytes,
            });
        }
    }

    /// The series, with the counts at the end as its last slice.
    pub(crate) fn finish(mut self, at_ns: u64, messages: u64, bytes: u64) -> Vec<Slice> {
        self.slices.push(Slice {
            at_ns,
            messages,
            bytes,
        });
        self.slices
    }
}
