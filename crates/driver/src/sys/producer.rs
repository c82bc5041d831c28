//! The writing end of a send store.

use super::loans::Loan;
use super::memory::ENDS_MAX;
use super::ring::{Ring, Waiting};
use crate::lent::{Buffer, LENT_MAX, Returned};
use crate::turns::Turn;
use engine::{AssociationId, record};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that a store takes without a turn: a batch.
const FREE_BYTES: u64 = 60 << 10;

/// The writing end, held by the user's circuit.
pub struct Producer {
    ring: Arc<Ring>,
    /// The store's memory; null while it has none.
    base: *mut u8,
    head: u64,
    /// The ring has room for bytes below this position, when the tail was last looked at.
    limit: u64,
    /// Offset in the octets where the next byte goes.
    at: usize,
    /// User bytes left in the slot.
    room: usize,
    id: AssociationId,
    /// Where its turn began.
    since: u64,
    /// Buffers lent and not reclaimed.
    lent: usize,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.ring.end_turn(Turn::Free);
        if self.is_waiting() {
            self.ring.pool.turns.leave(self.id);
        }
    }
}

// SAFETY: the pointer refers to memory owned by the ring, which moves with the value.
unsafe impl Send for Producer {}

impl Producer {
    pub(super) fn new(id: AssociationId, ring: Arc<Ring>) -> Producer {
        Producer {
            id,
            since: 0,
            lent: 0,
            base: null_mut(),
            head: 0,
            limit: 0,
            at: 0,
            room: 0,
            ring,
        }
    }

    /// Appends `message` as a record (see [`engine::record`]); false when there is no room now.
    #[inline]
    pub fn append_record(&mut self, message: &[u8]) -> bool {
        let space = record::space_max(message.len(), self.ring.pool.layout.payload) as u64;
        if !self.has_space(space) {
            return false;
        }
        if message.len() + record::HEAD_LEN <= self.room {
            self.write_fragment(message, true, true);
        } else {
            self.write_fragments(message);
        }
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends `bytes` as they are; false when there is no room now.
    #[inline]
    pub fn append_bytes(&mut self, bytes: &[u8]) -> bool {
        if !self.has_space(bytes.len() as u64) {
            return false;
        }
        self.write_bytes(bytes);
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends `message` and tells the consumer where it ends; false when there is no room now.
    #[inline]
    pub fn append_message(&mut self, message: &[u8]) -> bool {
        let space = message.len() as u64;
        if !self.may_end() || !self.has_space(space) {
            return false;
        }
        // A message without bytes takes no room, but its end is noted.
        if self.base.is_null() && !self.has_space_now(space) {
            return false;
        }
        self.write_bytes(message);
        self.end_message();
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends `buffer` without copying it, as a message that ends or as bytes of a stream; gives it
    /// back when there is no room now.
    ///
    /// # Errors
    ///
    /// The buffer.
    pub fn append_lent(&mut self, buffer: Buffer, ends: bool) -> Result<(), Buffer> {
        let len = buffer.len() as u64;
        let refused = self.lent >= LENT_MAX || ends && !self.may_end();
        if refused || !self.has_space(len) || self.base.is_null() && !self.has_space_now(len) {
            return Err(buffer);
        }
        self.lent += 1;
        let loan = Loan {
            start: self.head,
            buffer,
        };
        self.ring.loans.get_or_init(Box::default).put(loan);
        self.head += len;
        let payload = self.ring.pool.layout.payload;
        self.at = self.ring.offset(self.head);
        self.room = payload - (self.head % payload as u64) as usize;
        if ends {
            self.end_message();
        }
        self.ring.producer.head.store(self.head, Ordering::Release);
        Ok(())
    }

    /// The next buffer that came back, oldest first.
    pub fn reclaim(&mut self) -> Option<Returned> {
        let returned = self.ring.loans.get()?.reclaim();
        self.lent -= usize::from(returned.is_some());
        returned
    }

    /// Whether a buffer came back.
    pub fn has_returned(&self) -> bool {
        self.ring.loans.get().is_some_and(|loans| loans.has_back())
    }

    /// Buffers lent and not reclaimed.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Whether there is room for the end of one more message.
    #[inline]
    fn may_end(&self) -> bool {
        let put = self.ring.producer.ends_put.load(Ordering::Relaxed);
        put - self.ring.consumer.ends_taken.load(Ordering::Acquire) < ENDS_MAX
    }

    /// Notes that a message ends here; there is room for it.
    #[inline]
    fn end_message(&mut self) {
        let put = self.ring.producer.ends_put.load(Ordering::Relaxed);
        let end = self.ring.end(self.base, put);
        end.store(self.head, Ordering::Relaxed);
        let ends_put = &self.ring.producer.ends_put;
        ends_put.store(put + 1, Ordering::Release);
    }

    /// The largest message that fits into an empty ring.
    pub fn message_max(&self) -> usize {
        (self.ring.pool.capacity() / 2) as usize
    }

    /// Bytes appended so far, fragment heads and filler included.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Whether, when the pump last looked, nothing was left to send and nothing in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ring.consumer.idle.load(Ordering::Relaxed)
    }

    /// Whether bytes the engine was told of are not released yet.
    pub fn is_in_flight(&self) -> bool {
        let told = self.ring.consumer.told.load(Ordering::Relaxed);
        told > self.ring.consumer.tail.load(Ordering::Acquire)
    }

    /// Marks that somebody is to see to this store, if it is not marked.
    #[inline]
    pub fn announce(&self) -> Option<Waiting> {
        self.ring
            .mark()
            .then(|| Waiting::new(Arc::clone(&self.ring)))
    }

    /// Whether the store is to be emptied and waits for its turn to be filled again.
    pub fn is_waiting(&self) -> bool {
        self.ring.turn() == Turn::Waits
    }

    /// Whether the store has memory; without, there was none for the last message.
    pub fn has_memory(&self) -> bool {
        !self.base.is_null()
    }

    /// Gives the store's memory back if nothing is left in it.
    pub fn rest(&mut self) {
        let empty = self.ring.consumer.tail.load(Ordering::Acquire) == self.head;
        if self.base.is_null() || !empty || !self.ring.ends_are_taken() {
            return;
        }
        self.ring.unmount();
        self.base = null_mut();
        self.limit = self.head;
    }

    #[inline]
    fn has_space(&mut self, space: u64) -> bool {
        self.head + space <= self.limit || self.has_space_now(space)
    }

    #[cold]
    fn has_space_now(&mut self, space: u64) -> bool {
        if !self.may_fill() || self.base.is_null() && !self.mount() {
            return false;
        }
        let end = self.head + space;
        let tail = self.ring.consumer.tail.load(Ordering::Acquire);
        if self.ring.turn() == Turn::Free {
            self.limit = tail + self.ring.pool.capacity().min(FREE_BYTES);
            if end <= self.limit || !self.ask() {
                return end <= self.limit;
            }
        }
        self.limit = tail + self.ring.pool.capacity();
        end <= self.limit
    }

    /// Whether others let it go on filling the store.
    fn may_fill(&mut self) -> bool {
        let turns = &self.ring.pool.turns;
        match self.ring.turn() {
            Turn::Free => true,
            Turn::Has => {
                if !turns.is_wanted() || self.head - self.since < self.ring.pool.capacity() {
                    return true;
                }
                self.ring.end_turn(Turn::Had);
                self.ask()
            }
            Turn::Had if turns.is_wanted() => self.ask(),
            Turn::Had => {
                self.ring.set_turn(Turn::Free);
                true
            }
            Turn::Waits => {
                let called = turns.claim(self.id);
                if called {
                    self.begin();
                } else {
                    // The memory is warm, and the next to be called wants some.
                    self.rest();
                }
                called
            }
        }
    }

    /// Asks for a turn at filling the store; whether it has one.
    fn ask(&mut self) -> bool {
        let has = self.ring.pool.turns.ask(self.id);
        if has {
            self.begin();
        } else {
            self.ring.set_turn(Turn::Waits);
        }
        has
    }

    fn begin(&mut self) {
        self.since = self.head;
        self.ring.set_turn(Turn::Has);
    }

    /// Gets memory for the empty store; false when there is none.
    fn mount(&mut self) -> bool {
        let Some(base) = self.ring.mount(self.head) else {
            return false;
        };
        let layout = self.ring.pool.layout;
        let within = (self.head % layout.payload as u64) as usize;
        self.base = base;
        self.at = layout.header + within;
        self.room = layout.payload - within;
        true
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (front, after) = rest.split_at(rest.len().min(self.room));
            self.put(front);
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
            let take = rest.len().min(self.room - record::HEAD_LEN);
            let (fragment, after) = rest.split_at(take);
            self.write_fragment(fragment, first, after.is_empty());
            if after.is_empty() {
                return;
            }
            rest = after;
            first = false;
        }
    }

    /// Writes one fragment, which fits into the slot, and moves on when the slot is full.
    #[inline]
    fn write_fragment(&mut self, fragment: &[u8], first: bool, last: bool) {
        let head = record::head(fragment.len(), first, last);
        let len = head.len() + fragment.len();
        assert!(len <= self.room, "a fragment stays within its slot");
        // SAFETY: `at` and `room` describe the rest of a slot within the octets, and has_space
        // made sure that there are octets and that the slot is the producer's.
        unsafe {
            let target = self.base.add(self.at);
            target.copy_from_nonoverlapping(head.as_ptr(), head.len());
            let target = target.add(head.len());
            target.copy_from_nonoverlapping(fragment.as_ptr(), fragment.len());
        }
        self.advance(len);
        if self.room < record::ROOM_MIN {
            self.put(&[0; record::ROOM_MIN][..self.room]);
            self.next_slot();
        }
    }

    #[inline]
    fn advance(&mut self, len: usize) {
        self.at += len;
        self.room -= len;
        self.head += len as u64;
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room, "a fragment stays within its slot");
        // SAFETY: `at` and `room` describe the rest of a slot within the octets, and has_space
        // made sure that there are octets and that the slot is the producer's.
        unsafe {
            let target = self.base.add(self.at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.advance(bytes.len());
    }

    #[cold]
    fn next_slot(&mut self) {
        let layout = self.ring.pool.layout;
        self.at += layout.header;
        self.room = layout.payload;
        if self.at >= self.ring.pool.octets() {
            self.at = layout.header;
        }
    }
}
