//! The send store: a ring of packet-sized slots, one producer, one consumer.
//!
//! A slot is room for a header and behind it the user bytes of one full packet. Positions count
//! user bytes only. When the consumer sends a full packet, it writes the header into the slot, so
//! header and bytes, and neighbouring packets too, are one contiguous piece: a batch of 45 packets
//! is one address for the kernel to copy from instead of 90, which is worth 10 to 25 % of the
//! whole cost of a segmented send.
//!
//! The producer owns positions in [head, tail + capacity), the consumer those in [tail, head) and
//! the headers of all slots that begin there. `head` is published with release order once a
//! message, `tail` once a batch.

use engine::{Batch, SegmentLayout, record};
use std::cell::UnsafeCell;
use std::io::IoSlice;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter alone on its cache lines (pairs of 64 octets are fetched together).
#[repr(align(128))]
struct Alone<T>(T);

struct Ring {
    layout: SegmentLayout,
    octets: Box<[UnsafeCell<u8>]>,
    /// User bytes the ring holds.
    capacity: u64,
    head: Alone<AtomicU64>,
    tail: Alone<AtomicU64>,
    idle: AtomicBool,
    /// Ends of messages, for engines that carry them: a ring of its own.
    ends: Box<[AtomicU64]>,
    ends_put: Alone<AtomicU64>,
    ends_taken: Alone<AtomicU64>,
}

/// Message ends that may wait for the pump: those of more messages than a batch has packets many
/// times over.
const ENDS_MAX: u64 = 4096;

// SAFETY: the octets are split between producer and consumer by `head` and `tail` as described at
// the top of this file; there is one of each, and both ends take `&mut self`.
unsafe impl Sync for Ring {}
// SAFETY: plain memory.
unsafe impl Send for Ring {}

/// The writing end, held by the user's circuit.
pub struct Producer {
    ring: Arc<Ring>,
    head: u64,
    /// The ring has room for bytes below this position, when the tail was last looked at.
    limit: u64,
    /// Offset in the octets where the next byte goes.
    at: usize,
    /// User bytes left in the slot.
    room: usize,
}

/// The reading end, held by the pump.
pub struct Consumer {
    ring: Arc<Ring>,
}

/// A ring for packets cut as `layout` says that holds at least `bytes` user bytes.
pub fn ring(layout: SegmentLayout, bytes: usize) -> (Producer, Consumer) {
    let slots = bytes.div_ceil(layout.payload).max(2);
    let octets = (0..slots * layout.packet())
        .map(|_| UnsafeCell::new(0))
        .collect();
    let ring = Arc::new(Ring {
        layout,
        octets,
        capacity: (slots * layout.payload) as u64,
        head: Alone(AtomicU64::new(0)),
        tail: Alone(AtomicU64::new(0)),
        idle: AtomicBool::new(true),
        ends: (0..ENDS_MAX).map(|_| AtomicU64::new(0)).collect(),
        ends_put: Alone(AtomicU64::new(0)),
        ends_taken: Alone(AtomicU64::new(0)),
    });
    let producer = Producer {
        ring: Arc::clone(&ring),
        head: 0,
        limit: ring.capacity,
        at: layout.header,
        room: layout.payload,
    };
    (producer, Consumer { ring })
}

impl Ring {
    fn base(&self) -> *mut u8 {
        self.octets.as_ptr().cast_mut().cast()
    }

    /// Offset in the octets of the user byte at `position`.
    fn offset(&self, position: u64) -> usize {
        let payload = self.layout.payload as u64;
        let slot = (position / payload) % (self.capacity / payload);
        slot as usize * self.layout.packet() + self.layout.header + (position % payload) as usize
    }
}

impl Producer {
    /// Appends `message` as a record (see [`engine::record`]); false when there is no room now.
    #[inline]
    pub fn append_record(&mut self, message: &[u8]) -> bool {
        let space = record::space_max(message.len(), self.ring.layout.payload) as u64;
        if !self.has_space(space) {
            return false;
        }
        if message.len() + record::HEAD_LEN <= self.room {
            self.write_fragment(message, true, true);
        } else {
            self.write_fragments(message);
        }
        self.ring.head.0.store(self.head, Ordering::Release);
        true
    }

    /// Appends `bytes` as they are; false when there is no room now.
    #[inline]
    pub fn append_bytes(&mut self, bytes: &[u8]) -> bool {
        if !self.has_space(bytes.len() as u64) {
            return false;
        }
        self.write_bytes(bytes);
        self.ring.head.0.store(self.head, Ordering::Release);
        true
    }

    /// Appends `message` and tells the consumer where it ends; false when there is no room now.
    #[inline]
    pub fn append_message(&mut self, message: &[u8]) -> bool {
        let put = self.ring.ends_put.0.load(Ordering::Relaxed);
        let waiting = put - self.ring.ends_taken.0.load(Ordering::Acquire);
        if waiting >= ENDS_MAX || !self.has_space(message.len() as u64) {
            return false;
        }
        self.write_bytes(message);
        self.ring.ends[(put % ENDS_MAX) as usize].store(self.head, Ordering::Relaxed);
        self.ring.ends_put.0.store(put + 1, Ordering::Release);
        self.ring.head.0.store(self.head, Ordering::Release);
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

    /// The largest message that fits into an empty ring.
    pub fn message_max(&self) -> usize {
        (self.ring.capacity / 2) as usize
    }

    /// Bytes appended so far, fragment heads and filler included.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Whether, when the pump last looked, nothing was left to send and nothing in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ring.idle.load(Ordering::Relaxed)
    }

    #[inline]
    fn has_space(&mut self, space: u64) -> bool {
        self.head + space <= self.limit || self.has_space_now(space)
    }

    #[cold]
    fn has_space_now(&mut self, space: u64) -> bool {
        self.limit = self.ring.tail.0.load(Ordering::Acquire) + self.ring.capacity;
        self.head + space <= self.limit
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
        // made sure that the slot is the producer's.
        unsafe {
            let target = self.ring.base().add(self.at);
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
        // made sure that the slot is the producer's.
        unsafe {
            let target = self.ring.base().add(self.at);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.advance(bytes.len());
    }

    #[cold]
    fn next_slot(&mut self) {
        let layout = self.ring.layout;
        self.at += layout.header;
        self.room = layout.payload;
        if self.at >= self.ring.octets.len() {
            self.at = layout.header;
        }
    }
}

impl Consumer {
    /// Bytes below this position are there.
    pub fn head(&self) -> u64 {
        self.ring.head.0.load(Ordering::Acquire)
    }

    /// Takes the ends of messages that the producer told since the last call, oldest first.
    pub fn take_ends(&self, mut each: impl FnMut(u64)) {
        let put = self.ring.ends_put.0.load(Ordering::Acquire);
        let taken = self.ring.ends_taken.0.load(Ordering::Relaxed);
        for index in taken..put {
            each(self.ring.ends[(index % ENDS_MAX) as usize].load(Ordering::Relaxed));
        }
        if put > taken {
            self.ring.ends_taken.0.store(put, Ordering::Release);
        }
    }

    /// The ones' complement sum of the bytes of `payload`, which lie in one slot.
    ///
    /// # Panics
    ///
    /// As [`gather`](Consumer::gather).
    pub fn sum(&self, payload: &Range<u64>) -> u16 {
        if payload.is_empty() {
            return 0;
        }
        let octets = self.place(payload);
        engine::checksum::sum(&self.piece(octets))
    }

    /// Gives the bytes below `position` back to the producer.
    pub fn release(&mut self, position: u64) {
        let head = self.ring.head.0.load(Ordering::Relaxed);
        let tail = self.ring.tail.0.load(Ordering::Relaxed);
        let position = position.clamp(tail, head);
        self.ring.tail.0.store(position, Ordering::Release);
    }

    /// Tells the producer whether anything is left to do for this circuit.
    pub fn set_idle(&self, idle: bool) {
        self.ring.idle.store(idle, Ordering::Relaxed);
    }

    /// Turns a batch into pieces of memory for the wire, headers written in place where a packet
    /// begins at a slot.
    ///
    /// # Panics
    ///
    /// When the engine names bytes the store does not hold, or a packet that crosses a slot.
    pub fn gather<'a>(&'a mut self, batch: &'a Batch, pieces: &mut Vec<IoSlice<'a>>) {
        let mut run: Option<Range<usize>> = None;
        for segment in batch.segments() {
            let header = batch.header(segment);
            let octets = self.locate(&segment.payload, header);
            match octets {
                Placed::Whole(octets) => match run.as_mut() {
                    Some(run) if run.end == octets.start => run.end = octets.end,
                    _ => {
                        pieces.extend(run.replace(octets).map(|done| self.piece(done)));
                    }
                },
                Placed::Apart(octets) => {
                    pieces.extend(run.take().map(|done| self.piece(done)));
                    pieces.push(IoSlice::new(header));
                    if !octets.is_empty() {
                        pieces.push(self.piece(octets));
                    }
                }
            }
        }
        pieces.extend(run.map(|done| self.piece(done)));
    }

    /// Finds the octets of `payload`, which is not empty.
    fn place(&self, payload: &Range<u64>) -> Range<usize> {
        let layout = self.ring.layout;
        let len = (payload.end - payload.start) as usize;
        assert!(
            payload.end <= self.head() && payload.start >= self.ring.tail.0.load(Ordering::Relaxed),
            "the engine names bytes outside the store"
        );
        let within = (payload.start % layout.payload as u64) as usize;
        assert!(within + len <= layout.payload, "a packet crosses a slot");
        let start = self.ring.offset(payload.start);
        start..start + len
    }

    /// Finds the octets of `payload`, and puts `header` in front of them if there is its place.
    fn locate(&self, payload: &Range<u64>, header: &[u8]) -> Placed {
        if payload.is_empty() {
            return Placed::Apart(0..0);
        }
        let layout = self.ring.layout;
        let octets = self.place(payload);
        let at_border = payload.start.is_multiple_of(layout.payload as u64);
        if !at_border || header.len() != layout.header {
            return Placed::Apart(octets);
        }
        let Range { start, end } = octets;
        let front = start - layout.header;
        // SAFETY: the header's place in front of a slot's bytes belongs to the consumer, which is
        // borrowed here and nowhere else.
        unsafe {
            let target = self.ring.base().add(front);
            target.copy_from_nonoverlapping(header.as_ptr(), header.len());
        }
        Placed::Whole(front..end)
    }

    fn piece(&self, octets: Range<usize>) -> IoSlice<'_> {
        assert!(octets.end <= self.ring.octets.len());
        // SAFETY: within the octets, and the consumer's until released, which needs `&mut self`.
        let bytes =
            unsafe { slice::from_raw_parts(self.ring.base().add(octets.start), octets.len()) };
        IoSlice::new(bytes)
    }
}

/// Where a packet's bytes lie.
enum Placed {
    /// Header and bytes in one piece.
    Whole(Range<usize>),
    /// The bytes alone; the header stays in the batch.
    Apart(Range<usize>),
}
