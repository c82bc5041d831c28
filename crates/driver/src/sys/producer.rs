//! The producer's end of a send store.

use super::loans::Loan;
use super::memory::MESSAGE_ENDS_MAX;
use super::ring::Ring;
use super::unsubmitted::UnsubmittedStore;
use crate::lend::{Buffer, LOANS_MAX, ReturnedBuffer};
use crate::wakeup::Permit;
use engine::{Note, record};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that a store takes without a permit: a batch.
const PERMIT_FREE_BYTES: u64 = 60 << 10;

/// Bytes of a turn while other circuits wait: four batches, so that few packets of it are short. Those of all permits
/// together, twice, stay in a second-level cache: the user writes them, and the kernel copies them.
const TURN_BYTES: u64 = 4 * PERMIT_FREE_BYTES;

/// The producer's end, held by the user's circuit.
pub struct Producer {
    pub(super) ring: Arc<Ring>,
    /// The store's memory; null while it has none, or none that is the producer's.
    pub(super) base: *mut u8,
    pub(super) head: u64,
    /// There is room for bytes below this position, as of the last read of the tail.
    pub(super) limit: u64,
    /// Offset in the octets of the next byte.
    pub(super) offset: usize,
    /// User bytes left in the slot.
    pub(super) room: usize,
    /// The position at which its permit was granted.
    permit_start: u64,
    /// Buffers lent and not reclaimed.
    loans: usize,
    /// There was no memory for the last message.
    lacks_memory: bool,
    /// Where room was reserved, and for how many bytes.
    pub(super) reserved: Option<(u64, usize)>,
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Only the producer changes it from this, so it has none to give back.
        if self.ring.permit() == Permit::Idle {
            return;
        }
        for held in [Permit::Held, Permit::Draining] {
            self.ring.release_permit(held, Permit::Idle);
        }
        if self.ring.permit() == Permit::Queued {
            self.ring.pool.permits.cancel(self.ring.id);
        }
    }
}

// SAFETY: the pointer refers to memory owned by the ring, which moves with the value.
unsafe impl Send for Producer {}

impl Producer {
    /// The end of a store without bytes, which may have memory.
    pub(super) fn new(ring: Arc<Ring>) -> Producer {
        let base = ring.base.load(Ordering::Relaxed);
        Producer {
            permit_start: 0,
            loans: 0,
            lacks_memory: false,
            reserved: None,
            base,
            head: 0,
            // With memory it has room for as much as needs no permit.
            limit: match base.is_null() {
                true => 0,
                false => ring.capacity().min(PERMIT_FREE_BYTES),
            },
            offset: ring.layout.header,
            room: ring.layout.payload,
            ring,
        }
    }

    /// Appends `message` as a record (see [`engine::record`]); false when there is no room now.
    #[inline(always)]
    pub fn append_record(&mut self, message: &[u8]) -> bool {
        let space = record::store_len_max(message.len(), self.ring.layout.payload) as u64;
        if !self.has_space(space) {
            return false;
        }
        if message.len() + record::FRAGMENT_HEADER_LEN <= self.room {
            self.write_fragment(message, true, true);
        } else {
            self.write_fragments(message);
        }
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends `bytes` as they are; false when there is no room now.
    #[inline(always)]
    pub fn append_bytes(&mut self, bytes: &[u8]) -> bool {
        if !self.has_space(bytes.len() as u64) {
            return false;
        }
        self.write_bytes(bytes);
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends `message` and its end; false when there is no room now.
    #[inline(always)]
    pub fn append_message(&mut self, message: &[u8]) -> bool {
        if !self.has_message_room(message.len() as u64) {
            return false;
        }
        self.write_bytes(message);
        self.end_message();
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends a message that lies in three pieces, its end and its note; false when there is no room
    /// now.
    #[cold]
    pub fn append_noted(&mut self, pieces: [&[u8]; 3], note: Note) -> bool {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if !self.has_message_room(len as u64) {
            return false;
        }
        pieces.iter().for_each(|piece| self.write_bytes(piece));
        self.hand_over_note(note);
        self.end_message();
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Hands over the note of the message that ends next.
    pub(super) fn hand_over_note(&self, note: Note) {
        if note.is_plain() {
            return;
        }
        let number = self.ring.producer.ends_put.load(Ordering::Relaxed);
        let notes = self.ring.notes.get_or_init(Box::default);
        notes.hand_over(number, note);
    }

    /// Appends `buffer` without copying it: a message if `ends`, else bytes of a stream.
    ///
    /// # Errors
    ///
    /// The buffer, when there is no room now.
    pub fn append_lent(&mut self, buffer: Buffer, ends: bool) -> Result<(), Buffer> {
        let len = buffer.len() as u64;
        let refused = self.loans >= LOANS_MAX || ends && !self.has_message_end_room();
        if refused || !self.has_space(len) || self.base.is_null() && !self.refresh_limit(len) {
            return Err(buffer);
        }
        self.loans += 1;
        let loan = Loan {
            start: self.head,
            buffer,
        };
        self.ring.loans.get_or_init(Box::default).hand_over(loan);
        self.skip(len);
        if ends {
            self.end_message();
        }
        self.ring.producer.head.store(self.head, Ordering::Release);
        Ok(())
    }

    /// Passes over `len` bytes that lie elsewhere, or that were written already.
    pub(super) fn skip(&mut self, len: u64) {
        self.head += len;
        let payload = self.ring.layout.payload;
        self.offset = self.ring.offset(self.head);
        self.room = payload - (self.head % payload as u64) as usize;
    }

    /// The next returned buffer, oldest first.
    pub fn reclaim(&mut self) -> Option<ReturnedBuffer> {
        let returned = self.ring.loans.get()?.reclaim();
        self.loans -= usize::from(returned.is_some());
        returned
    }

    /// Whether a buffer was returned.
    pub fn has_returned(&self) -> bool {
        self.ring
            .loans
            .get()
            .is_some_and(|loans| loans.has_returned())
    }

    /// Buffers lent and not reclaimed.
    pub fn loans(&self) -> usize {
        self.loans
    }

    /// Whether there is room for a message of `space` bytes and its end.
    #[inline]
    pub(super) fn has_message_room(&mut self, space: u64) -> bool {
        // An empty message takes no bytes, but its end needs memory.
        self.has_message_end_room()
            && self.has_space(space)
            && (!self.base.is_null() || self.refresh_limit(space))
    }

    /// Whether there is room for one more message end.
    #[inline]
    fn has_message_end_room(&self) -> bool {
        let put = self.ring.producer.ends_put.load(Ordering::Relaxed);
        put - self.ring.consumer.ends_taken.load(Ordering::Acquire) < MESSAGE_ENDS_MAX
    }

    /// Adds a message end at the head; there is room for it.
    #[inline]
    pub(super) fn end_message(&mut self) {
        let put = self.ring.producer.ends_put.load(Ordering::Relaxed);
        let end = self.ring.end(self.base, put);
        end.store(self.head, Ordering::Relaxed);
        let ends_put = &self.ring.producer.ends_put;
        ends_put.store(put + 1, Ordering::Release);
    }

    /// The largest message that fits into an empty ring.
    pub fn message_max(&self) -> usize {
        (self.ring.capacity() / 2) as usize
    }

    /// Bytes appended so far, with record headers and padding.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Whether, as of the last publish of the pump, nothing was unsent or in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ring.consumer.idle.load(Ordering::Relaxed)
    }

    /// The position up to which bytes were submitted to the engine: under the lock of the pump.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.ring.consumer.submitted.load(Ordering::Relaxed)
    }

    /// Whether submitted bytes are not released yet.
    pub fn is_in_flight(&self) -> bool {
        self.submitted() > self.ring.consumer.tail.load(Ordering::Acquire)
    }

    /// Notes that this store has bytes to submit, and returns it for the helper if it was not
    /// noted.
    #[inline]
    pub fn note_unsubmitted(&self) -> Option<UnsubmittedStore> {
        self.ring
            .set_noted()
            .then(|| UnsubmittedStore::new(Arc::clone(&self.ring)))
    }

    /// Whether the store waits for a permit, and is to be emptied meanwhile.
    pub fn awaits_permit(&self) -> bool {
        matches!(self.ring.permit(), Permit::Queued | Permit::Draining)
    }

    /// Whether others wait until all that it wrote in its turn is acknowledged.
    pub fn is_draining(&self) -> bool {
        self.ring.permit() == Permit::Draining
    }

    /// Whether there was no memory for the last message.
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// Whether the store has memory.
    #[cfg(test)]
    pub(super) fn has_memory(&self) -> bool {
        !self.base.is_null()
    }

    /// Releases the store's memory if the store is empty.
    pub fn release_memory(&mut self) {
        let empty = self.ring.consumer.tail.load(Ordering::Acquire) == self.head;
        if self.base.is_null() || !empty || !self.ring.ends_are_taken() || self.has_reserved() {
            return;
        }
        self.ring.release_memory();
        self.base = null_mut();
        self.limit = self.head;
    }

    #[inline]
    pub(super) fn has_space(&mut self, space: u64) -> bool {
        self.head + space <= self.limit || self.refresh_limit(space)
    }

    /// Takes what it needs to have room for `space` bytes - a permit, memory - and reads the tail anew;
    /// whether there is room now.
    #[cold]
    fn refresh_limit(&mut self, space: u64) -> bool {
        if !self.advance_permit() || self.base.is_null() && !self.acquire_memory() {
            return false;
        }
        let end = self.head + space;
        let tail = self.ring.consumer.tail.load(Ordering::Acquire);
        if self.ring.permit() == Permit::Idle {
            self.limit = tail + self.ring.capacity().min(PERMIT_FREE_BYTES);
            if end <= self.limit || !self.request_permit() {
                return end <= self.limit;
            }
        }
        self.limit = tail + self.ring.capacity();
        end <= self.limit
    }

    /// Moves its permit on, and returns whether the store may be filled:
    ///
    /// | permit | while | becomes | may fill |
    /// |---|---|---|---|
    /// | idle | - | idle | up to [`PERMIT_FREE_BYTES`] |
    /// | held | no circuit waits, or less than a turn was written under it | held | yes |
    /// | held | else, and bytes are on their way | draining | no |
    /// | held | else | held anew, or queued | if held |
    /// | draining | not all bytes are released; then the consumer queues it | draining | no |
    /// | expired | circuits wait | held or queued | if held |
    /// | expired | no circuit waits | idle | as idle |
    /// | queued | it was granted | held | yes |
    /// | queued | else | queued | no |
    ///
    /// While it is queued, an empty store gives its memory back, which is in the cache, to one that holds a permit.
    fn advance_permit(&mut self) -> bool {
        let permits = &self.ring.pool.permits;
        match self.ring.permit() {
            Permit::Idle => true,
            Permit::Held => {
                let turn = self.ring.capacity().min(TURN_BYTES);
                if !permits.has_waiters() || self.head - self.permit_start < turn {
                    return true;
                }
                self.start_draining()
            }
            Permit::Draining => {
                self.release_or_park();
                false
            }
            Permit::Expired if permits.has_waiters() => self.request_permit(),
            Permit::Expired => {
                self.ring.set_permit(Permit::Idle);
                true
            }
            Permit::Queued => {
                let granted = permits.claim(self.ring.id);
                if granted {
                    self.start_permit();
                } else {
                    self.release_or_park();
                }
                granted
            }
        }
    }

    /// Ends its turn: the permit is held until all bytes are released, so that those on their way are few enough for the
    /// caches. Whether it holds one now.
    fn start_draining(&mut self) -> bool {
        if !self.ring.change_permit(Permit::Held, Permit::Draining) {
            // The consumer has released all bytes, and with them the permit.
            return self.request_permit();
        }
        self.release_or_park();
        false
    }

    /// Requests a permit; whether it holds one now.
    fn request_permit(&mut self) -> bool {
        let acquired = self.ring.pool.permits.acquire_or_queue(self.ring.id);
        if acquired {
            self.start_permit();
        } else {
            self.ring.set_permit(Permit::Queued);
            self.release_or_park();
        }
        acquired
    }

    fn start_permit(&mut self) {
        self.permit_start = self.head;
        self.ring.set_permit(Permit::Held);
    }

    /// Claims the store's memory, or acquires some for the empty store; false when there is none.
    fn acquire_memory(&mut self) -> bool {
        if self.claim_parked() {
            return true;
        }
        let acquired = self.ring.acquire_memory(self.head);
        self.lacks_memory = acquired.is_none();
        let Some(base) = acquired else {
            return false;
        };
        let layout = self.ring.layout;
        let within = (self.head % layout.payload as u64) as usize;
        self.base = base;
        self.offset = layout.header + within;
        self.room = layout.payload - within;
        true
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (front, after) = rest.split_at(rest.len().min(self.room));
            self.write_octets(front);
            if self.room == 0 {
                self.next_slot();
            }
            rest = after;
        }
    }

    fn write_fragments(&mut self, message: &[u8]) {
        let mut rest = message;
        let mut first = true;
        loop {
            let take = rest.len().min(self.room - record::FRAGMENT_HEADER_LEN);
            let (fragment, after) = rest.split_at(take);
            self.write_fragment(fragment, first, after.is_empty());
            if after.is_empty() {
                return;
            }
            rest = after;
            first = false;
        }
    }

    /// Writes one fragment, which fits into the slot, and goes on to the next slot when this one is
    /// full.
    #[inline]
    fn write_fragment(&mut self, fragment: &[u8], first: bool, last: bool) {
        let head = record::fragment_header(fragment.len(), first, last);
        let len = head.len() + fragment.len();
        assert!(len <= self.room, "a fragment stays within its slot");
        // SAFETY: `offset` and `room` describe the rest of a slot within the octets, and has_space
        // made sure that there is memory and that the slot is the producer's.
        unsafe {
            let target = self.base.add(self.offset);
            target.copy_from_nonoverlapping(head.as_ptr(), head.len());
            let target = target.add(head.len());
            target.copy_from_nonoverlapping(fragment.as_ptr(), fragment.len());
        }
        self.advance(len);
        self.pad_slot();
    }

    /// Goes on to the next slot when no fragment fits into the rest of this one.
    #[inline]
    pub(super) fn pad_slot(&mut self) {
        if self.room < record::FRAGMENT_ROOM_MIN {
            self.write_octets(&[0; record::FRAGMENT_ROOM_MIN][..self.room]);
            self.next_slot();
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.offset += len;
        self.room -= len;
        self.head += len as u64;
    }

    #[inline]
    pub(super) fn write_octets(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room, "a fragment stays within its slot");
        // SAFETY: `offset` and `room` describe the rest of a slot within the octets, and has_space
        // made sure that there is memory and that the slot is the producer's.
        unsafe {
            let target = self.base.add(self.offset);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.advance(bytes.len());
    }

    #[cold]
    fn next_slot(&mut self) {
        let layout = self.ring.layout;
        self.offset += layout.trailer + layout.header;
        self.room = layout.payload;
        if self.offset >= self.ring.octets() {
            self.offset = layout.header;
        }
    }
}
