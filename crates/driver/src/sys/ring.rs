//! The send store: a ring of packet-sized slots, one producer, one consumer.
//!
//! A slot has room for a header and behind it the user bytes of one full packet. Positions count
//! user bytes only. When the consumer sends a full packet, it writes the header into the slot, so
//! header and bytes, and adjacent packets too, are contiguous: a batch of 45 packets is one address
//! for the kernel to copy from instead of 90, which is worth 10 to 25 % of the whole cost of a
//! segmented send.
//!
//! The producer owns positions in [head, tail + capacity), the consumer those in [tail, head) and
//! the headers of all slots that begin there. `head` is published with release order once a
//! message, `tail` once a batch. While the ring is empty the consumer touches nothing, and the
//! producer may release its memory and acquire other memory later, or leave it to be released ([`super::parking`]).

#[cfg(all(test, feature = "loom"))]
mod models;
#[cfg(test)]
mod tests;

use super::loans::{Loan, Loans};
use super::memory::{MESSAGE_ENDS_MAX, StoreMemory, StorePool};
use super::notes::Notes;
use super::parking::HeldMemory;
use super::producer::Producer;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use crate::wakeup::Permit;
use engine::{AssociationId, Layout, Note, RangeSet};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic;
use std::sync::{Arc, OnceLock};

/// Octets between what the two sides write: processors fetch pairs of cache lines of 64 octets.
/// Padding, not alignment, for which allocators are slow.
const CACHE_LINE_GAP: usize = 128;

/// Written by the producer.
#[derive(Default)]
pub(super) struct ProducerState {
    pub(super) head: AtomicU64,
    pub(super) ends_put: AtomicU64,
}

/// Written by the consumer.
pub(super) struct ConsumerState {
    pub(super) tail: AtomicU64,
    pub(super) ends_taken: AtomicU64,
    pub(super) submitted: AtomicU64,
    pub(super) idle: AtomicBool,
    /// The wire was given the bytes below this position by reference, though perhaps not all of them.
    pub(super) referenced: AtomicU64,
}

impl Default for ConsumerState {
    fn default() -> ConsumerState {
        ConsumerState {
            tail: AtomicU64::new(0),
            ends_taken: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            idle: AtomicBool::new(true),
            referenced: AtomicU64::new(0),
        }
    }
}

#[repr(C)]
pub(super) struct Ring {
    pub(super) id: AssociationId,
    pub(super) memory: HeldMemory,
    /// Where the memory begins, for the consumer.
    pub(super) base: AtomicPtr<u8>,
    /// The number of the first slot in the memory.
    first_slot: AtomicU64,
    pub(super) noted_unsubmitted: AtomicBool,
    /// A [`Permit`].
    permit: AtomicU8,
    /// Present once a buffer was lent.
    pub(super) loans: OnceLock<Box<Loans>>,
    /// Present once a message had a note.
    pub(super) notes: OnceLock<Box<Notes>>,
    pub(super) pool: Arc<StorePool>,
    pub(super) layout: Layout,
    /// Packets it has room for.
    slots: u64,
    pub(super) producer: ProducerState,
    _between: [u8; CACHE_LINE_GAP],
    pub(super) consumer: ConsumerState,
    _behind: [u8; CACHE_LINE_GAP / 2],
}

impl Ring {
    pub(super) fn new(
        id: AssociationId,
        pool: Arc<StorePool>,
        layout: Layout,
        slots: usize,
    ) -> Ring {
        Ring {
            id,
            memory: HeldMemory::default(),
            base: AtomicPtr::new(null_mut()),
            first_slot: AtomicU64::new(0),
            noted_unsubmitted: AtomicBool::new(false),
            permit: AtomicU8::new(Permit::Idle as u8),
            loans: OnceLock::new(),
            notes: OnceLock::new(),
            pool,
            layout,
            slots: slots as u64,
            producer: ProducerState::default(),
            _between: [0; CACHE_LINE_GAP],
            consumer: ConsumerState::default(),
            _behind: [0; CACHE_LINE_GAP / 2],
        }
    }

    /// Makes it as new for another circuit, whose store has its memory.
    fn restart(&mut self, id: AssociationId, layout: Layout, slots: usize) {
        (self.id, self.layout, self.slots) = (id, layout, slots as u64);
        self.memory.unpark();
        self.first_slot = AtomicU64::new(0);
        self.noted_unsubmitted = AtomicBool::new(false);
        self.permit = AtomicU8::new(Permit::Idle as u8);
        self.producer = ProducerState::default();
        self.consumer = ConsumerState::default();
    }

    /// Acquires memory for a ring that is empty at position `head`. For the producer.
    pub(super) fn acquire_memory(&self, head: u64) -> Option<*mut u8> {
        let memory = self.pool.acquire()?;
        let base = memory.base();
        self.memory.put(memory);
        let slot = head / self.layout.payload as u64;
        // Published to the consumer by the next release store of `head`.
        self.first_slot.store(slot, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        Some(base)
    }

    /// Releases the memory of an empty ring, for the producer, or of one that both ends have left.
    pub(super) fn release_memory(&self) {
        self.base.store(null_mut(), Ordering::Relaxed);
        if let Some(memory) = self.memory.take() {
            self.release(memory);
        }
    }

    /// Gives memory back to the pool. What the wire may still refer to is used no more: packets on their way would
    /// show what the next circuit writes.
    pub(super) fn release(&self, memory: StoreMemory) {
        match self.is_referenced() {
            true => self.pool.retire(memory),
            false => self.pool.release(memory),
        }
    }

    /// Whether packets on their way may refer to bytes in it.
    fn is_referenced(&self) -> bool {
        let ConsumerState {
            tail, referenced, ..
        } = &self.consumer;
        referenced.load(Ordering::Relaxed) > tail.load(Ordering::Acquire)
    }

    fn has_memory(&self) -> bool {
        !self.base.load(Ordering::Relaxed).is_null()
    }

    /// The end of message number `index`.
    pub(super) fn end(&self, base: *mut u8, index: u64) -> &atomic::AtomicU64 {
        // SAFETY: the ends lie behind the octets in the same memory, which lives until all messages
        // in it are released; all zeros is an AtomicU64.
        unsafe {
            &*self
                .pool
                .ends(base)
                .add((index % MESSAGE_ENDS_MAX) as usize)
        }
    }

    /// Whether the consumer has taken all message ends.
    pub(super) fn ends_are_taken(&self) -> bool {
        self.producer.ends_put.load(Ordering::Relaxed)
            == self.consumer.ends_taken.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_noted(&self) -> bool {
        !self.noted_unsubmitted.load(Ordering::Relaxed)
            && !self.noted_unsubmitted.swap(true, Ordering::AcqRel)
    }

    pub(super) fn permit(&self) -> Permit {
        let permits = [
            Permit::Idle,
            Permit::Queued,
            Permit::Held,
            Permit::Draining,
            Permit::Expired,
        ];
        permits[usize::from(self.permit.load(Ordering::Relaxed))]
    }

    /// For the producer, unless it holds a permit, which the consumer may end.
    pub(super) fn set_permit(&self, permit: Permit) {
        self.permit.store(permit as u8, Ordering::Relaxed);
    }

    /// Ends a permit that is `from`: it becomes `to`. Whether it was.
    pub(super) fn release_permit(&self, from: Permit, to: Permit) -> bool {
        let is_released = self.change_permit(from, to);
        if is_released {
            self.pool.permits.release();
        }
        is_released
    }

    /// Changes a permit if it is `from`; whether it was.
    pub(super) fn change_permit(&self, from: Permit, to: Permit) -> bool {
        let order = Ordering::Relaxed;
        let changed = self
            .permit
            .compare_exchange(from as u8, to as u8, order, order);
        changed.is_ok()
    }

    /// All bytes are released, for the consumer: a permit ends, and a circuit whose turn was over queues again.
    fn end_turn(&self) {
        let was = self.permit();
        let is_over = match was {
            Permit::Idle | Permit::Queued | Permit::Expired => return,
            Permit::Held => !self.release_permit(was, Permit::Expired),
            Permit::Draining => true,
        };
        if is_over {
            self.queue_again();
        }
    }

    #[cold]
    fn queue_again(&self) {
        let become_queued = || self.change_permit(Permit::Draining, Permit::Queued);
        self.pool.permits.queue_again(self.id, become_queued);
    }

    /// User bytes it holds.
    pub(super) fn capacity(&self) -> u64 {
        self.slots * self.layout.payload as u64
    }

    /// Octets of packets in it; the message ends lie behind them.
    pub(super) fn octets(&self) -> usize {
        self.slots as usize * self.layout.packet()
    }

    /// Offset in the octets of the user byte at `position`.
    pub(super) fn offset(&self, position: u64) -> usize {
        let payload = self.layout.payload as u64;
        self.slot_offset(position / payload) + (position % payload) as usize
    }

    /// Where the user bytes of packet slot number `slot` begin.
    #[inline]
    fn slot_offset(&self, slot: u64) -> usize {
        let layout = self.layout;
        let slot = remainder(slot - self.first_slot.load(Ordering::Relaxed), self.slots);
        slot as usize * layout.packet() + layout.header
    }
}

/// `number` modulo `divisor`. It is often less, and found to be without a division.
#[inline]
fn remainder(number: u64, divisor: u64) -> u64 {
    match number < divisor {
        true => number,
        false => number % divisor,
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.release_memory();
    }
}

/// A store to which no more was written has a page of its memory, or two, in the caches.
const SHORT_BYTES: u64 = 4096;

/// The consumer's end, held by the pump.
pub struct Consumer {
    pub(super) ring: Arc<Ring>,
    /// Loans not yet released, in order.
    pub(super) loans: VecDeque<Loan>,
    /// What was released behind bytes that are still needed.
    released: RangeSet,
    /// Ends of messages that were not submitted.
    pub(super) message_ends: VecDeque<u64>,
    /// Notes of messages that were not submitted, with their numbers.
    pub(super) notes: VecDeque<(u64, Note)>,
    /// Positions from the first to the last loan that was returned before its bytes were released.
    pub(super) withdrawn: Range<u64>,
}

impl Consumer {
    pub(super) fn new(ring: Arc<Ring>) -> Consumer {
        Consumer {
            ring,
            loans: VecDeque::new(),
            released: RangeSet::new(),
            message_ends: VecDeque::new(),
            notes: VecDeque::new(),
            withdrawn: 0..0,
        }
    }

    /// Makes it a spare store, which another circuit may have; false while its producer or the helper holds it, something
    /// was lent to it, or packets may refer to its memory. It keeps its memory if stores do, or its circuit wrote little to it:
    /// circuits of a message each write to the same few pages.
    pub fn make_spare(&mut self) -> bool {
        let has_rest = !self.loans.is_empty() || !self.message_ends.is_empty();
        let Some(ring) = Arc::get_mut(&mut self.ring) else {
            return false;
        };
        let is_referenced = ring.is_referenced();
        let has_extras = ring.loans.get().is_some() || ring.notes.get().is_some();
        if has_rest || is_referenced || has_extras {
            return false;
        }
        if ring.has_memory() {
            let is_short = ring.producer.head.load(Ordering::Relaxed) <= SHORT_BYTES;
            match is_short || ring.pool.is_kept_by_stores() {
                true => ring.pool.count_spare(),
                false => ring.release_memory(),
            }
        }
        true
    }

    /// Makes a [spare store](Consumer::make_spare) one of circuit `id`, and returns its other end.
    pub(super) fn restart(
        &mut self,
        id: AssociationId,
        layout: Layout,
        slots: usize,
    ) -> Option<Producer> {
        let ring = Arc::get_mut(&mut self.ring)?;
        if ring.has_memory() {
            ring.pool.count_reused();
        }
        ring.restart(id, layout, slots);
        self.released = RangeSet::new();
        self.withdrawn = 0..0;
        Some(Producer::new(Arc::clone(&self.ring)))
    }

    /// How its packets are cut.
    pub fn layout(&self) -> Layout {
        self.ring.layout
    }

    /// The store holds bytes below this position.
    pub fn head(&self) -> u64 {
        self.ring.producer.head.load(Ordering::Acquire)
    }

    /// Whether everything in the store was released.
    pub fn is_empty(&self) -> bool {
        self.ring.consumer.tail.load(Ordering::Relaxed) == self.head()
    }

    /// Gives the bytes of `payload` to `take`, slice by slice.
    ///
    /// # Panics
    ///
    /// As [`gather`](Consumer::gather).
    pub fn visit(&self, payload: &Range<u64>, take: &mut dyn FnMut(&[u8])) {
        if self.is_lent(payload) {
            return self.visit_lent(payload, take);
        }
        for octets in self.octet_ranges(payload) {
            take(&self.io_slice(octets));
        }
    }

    /// Gives the bytes of `range` back to the producer. Ranges come in any order; the producer gets
    /// the room of all up to the first that is still needed.
    pub fn release(&mut self, range: Range<u64>) {
        let head = self.ring.producer.head.load(Ordering::Relaxed);
        let tail = self.ring.consumer.tail.load(Ordering::Relaxed);
        let end = range.end.min(head);
        if range.start > tail {
            self.released.insert(range.start..end.max(range.start));
            return;
        }
        let position = self.released.advance(end.max(tail));
        self.return_loans(position, true);
        self.ring.consumer.tail.store(position, Ordering::Release);
        if position == head {
            self.ring.release_parked();
            self.ring.end_turn();
        }
    }

    /// Tells the producer whether nothing is unsent or in flight.
    pub fn set_idle(&self, idle: bool) {
        self.ring.consumer.idle.store(idle, Ordering::Relaxed);
    }

    /// The position up to which bytes were submitted to the engine.
    pub fn submitted(&self) -> u64 {
        self.ring.consumer.submitted.load(Ordering::Relaxed)
    }

    /// Sets the position up to which bytes were submitted to the engine.
    pub fn set_submitted(&self, position: u64) {
        self.ring
            .consumer
            .submitted
            .store(position, Ordering::Relaxed);
    }

    /// Appends the bytes of `payload` to `octets`.
    ///
    /// # Panics
    ///
    /// As [`gather`](Consumer::gather).
    pub fn copy(&self, payload: &Range<u64>, octets: &mut Vec<u8>) {
        if self.is_lent(payload) {
            return self.copy_lent(payload, octets);
        }
        for range in self.octet_ranges(payload) {
            octets.extend_from_slice(&self.io_slice(range));
        }
    }

    /// The bytes of `payload`, if they lie in one piece, and none of them is lent.
    ///
    /// # Panics
    ///
    /// As [`gather`](Consumer::gather).
    #[inline]
    pub fn in_one_piece(&self, payload: &Range<u64>) -> Option<IoSlice<'_>> {
        if self.is_lent(payload) {
            return None;
        }
        let piece = self.octet_ranges(payload).next()?;
        let is_whole = piece.len() as u64 == payload.end - payload.start;
        is_whole.then(|| self.io_slice(piece))
    }

    /// Finds the octets of `payload`, slot by slot.
    ///
    /// # Panics
    ///
    /// When the engine names bytes outside the store.
    pub(super) fn octet_ranges(&self, payload: &Range<u64>) -> impl Iterator<Item = Range<usize>> {
        let tail = self.ring.consumer.tail.load(Ordering::Relaxed);
        let inside = payload.end <= self.head() && payload.start >= tail;
        assert!(
            payload.is_empty() || inside,
            "the engine names bytes outside the store"
        );
        self.assert_not_withdrawn(payload);
        let slot_len = self.ring.layout.payload as u64;
        let mut left = payload.end.saturating_sub(payload.start);
        let (mut slot, mut inside) = match payload.start < slot_len {
            true => (0, payload.start),
            false => (payload.start / slot_len, payload.start % slot_len),
        };
        std::iter::from_fn(move || {
            let len = left.min(slot_len - inside);
            let start = (len > 0).then(|| self.ring.slot_offset(slot) + inside as usize)?;
            (left, slot, inside) = (left - len, slot + 1, 0);
            Some(start..start + len as usize)
        })
    }

    pub(super) fn io_slice(&self, octets: Range<usize>) -> IoSlice<'_> {
        if octets.is_empty() {
            return IoSlice::new(&[]);
        }
        assert!(octets.end <= self.ring.octets());
        let base = self.ring.base.load(Ordering::Relaxed);
        // SAFETY: within the octets, which are there while the ring is not empty, and the
        // consumer's until released, which needs `&mut self`.
        let bytes = unsafe { slice::from_raw_parts(base.add(octets.start), octets.len()) };
        IoSlice::new(bytes)
    }
}
