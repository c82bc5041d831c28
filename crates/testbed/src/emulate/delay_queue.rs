//! Frames in flight, ordered by arrival time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Octets of all frames in flight at most: 10 Gbit/s for 200 ms.
const BYTES_MAX: usize = 256 << 20;

/// Capacity of a small buffer: a full frame of the usual MTU.
const SMALL_BUFFER: usize = 2048;

/// Free buffers kept, small and large: 8 and 16 MiB. The kernel would have to zero returned memory
/// again.
const SPARE_MAX: usize = 4096;
const SPARE_LARGE_MAX: usize = 256;

/// Capacity of a large buffer, the largest frame; frames below a quarter of it get a buffer of
/// their own size.
const LARGE_BUFFER: usize = super::link_thread::FRAME_MAX;
const LARGE_MIN: usize = 16 << 10;

/// The frames in flight.
#[derive(Debug, Default)]
pub struct DelayQueue {
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    frames: Vec<DelayedFrame>,
    free: Vec<usize>,
    spare: Vec<Vec<u8>>,
    spare_large: Vec<Vec<u8>>,
    bytes: usize,
    sequence: u64,
}

#[derive(Debug, Default)]
struct DelayedFrame {
    octets: Vec<u8>,
    to: Option<usize>,
}

impl DelayQueue {
    /// Queues a frame until `due_ps`; false if there is no room.
    pub(crate) fn push(&mut self, due_ps: u64, to: Option<usize>, octets: &[u8]) -> bool {
        if self.bytes + octets.len() > BYTES_MAX {
            return false;
        }
        let mut kept = self.buffer(octets.len());
        self.bytes += kept.capacity();
        kept.extend_from_slice(octets);
        let frame = DelayedFrame { octets: kept, to };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.frames[slot] = frame;
                slot
            }
            None => {
                self.frames.push(frame);
                self.frames.len() - 1
            }
        };
        self.order.push(Reverse((due_ps, self.sequence, slot)));
        self.sequence += 1;
        true
    }

    /// When the next frame is due.
    pub(crate) fn due_ps(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((due_ps, ..))| *due_ps)
    }

    /// Passes the next frame due by `now_ps`, with its time, to `take`; false if there is none.
    pub(crate) fn pop(
        &mut self,
        now_ps: u64,
        take: impl FnOnce(u64, Option<usize>, &[u8]),
    ) -> bool {
        if self.due_ps().is_none_or(|due_ps| due_ps > now_ps) {
            return false;
        }
        let Some(Reverse((due_ps, _, slot))) = self.order.pop() else {
            return false;
        };
        let DelayedFrame { mut octets, to } = std::mem::take(&mut self.frames[slot]);
        take(due_ps, to, &octets);
        self.bytes -= octets.capacity();
        self.free.push(slot);
        let (spare, most) = match octets.capacity() {
            ..=SMALL_BUFFER => (&mut self.spare, SPARE_MAX),
            LARGE_BUFFER.. => (&mut self.spare_large, SPARE_LARGE_MAX),
            _ => return true,
        };
        if spare.len() < most {
            octets.clear();
            spare.push(octets);
        }
        true
    }

    /// Number of frames.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let spare = match len {
            0..=SMALL_BUFFER => &mut self.spare,
            LARGE_MIN.. => &mut self.spare_large,
            _ => return Vec::with_capacity(len),
        };
        let room = if len <= SMALL_BUFFER {
            SMALL_BUFFER
        } else {
            LARGE_BUFFER.max(len)
        };
        spare.pop().unwrap_or_else(|| Vec::with_capacity(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_queue_orders_by_time_then_fifo() {
        let mut store = DelayQueue::default();
        for (due, octet) in [(5, 1), (3, 2), (5, 3), (9, 4)] {
            assert!(store.push(due, Some(1), &[octet]));
        }
        let mut seen = Vec::new();
        while store.pop(5, |due, _, octets| seen.push((due, octets[0]))) {}
        assert_eq!(seen, [(3, 2), (5, 1), (5, 3)]);
        assert_eq!((store.len(), store.due_ps()), (1, Some(9)));
    }

    #[test]
    fn delay_queue_memory_bounded() {
        let mut store = DelayQueue::default();
        let large = vec![0; 1 << 20];
        let kept = (0..1000).filter(|_| store.push(1, None, &large)).count();
        assert_eq!(kept, 256);
        while store.pop(1, |_, _, _| ()) {}
        assert!(store.is_empty() && store.push(1, None, &large));
    }
}
