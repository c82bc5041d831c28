//! The end that writes.

use super::{
    ANYCAST_RECEIVERS_MAX, ASLEEP, CLAIMED, CLOSED, HEAD, NEVER, NOBODY, NOTHING, SENDER_CLOSED,
    SENDER_WAKES, WAITED_FOR, held_of, wakes_of, wish,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::readers::Readers;
use crate::ring;
use crate::sync::{Ordering, fence, store_beside_swaps};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal, USELESS_WAKE, looked_until};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The end of a ring whose receivers share the messages out; it writes, and owns the ring. Dropping it closes the ring after what it
/// sent.
#[derive(Debug)]
pub struct AnycastSender {
    segment: Segment,
    geometry: Geometry,
    signal: Signal,
    readers: Readers,
    /// Slots committed: the true value of [`HEAD`], which no peer can change.
    head: u32,
    /// Slots that are free again, as it was found last, and checked.
    tail: u32,
    system_calls: u64,
}

impl AnycastSender {
    /// Makes the memory of a ring without receivers. `signal` is how this end waits for room; with [`Signal::Poll`], which is
    /// for rings of one receiver, it sleeps as with [`Signal::Futex`].
    ///
    /// # Errors
    /// Memory that the system refuses.
    pub fn create(geometry: Geometry, signal: Signal) -> Result<Self, ChannelError> {
        let (segment, memory) = Segment::create(geometry.segment_len())?;
        Ok(Self::new(segment, geometry, Some(memory), signal))
    }

    pub(super) fn new(
        segment: Segment,
        geometry: Geometry,
        memory: Option<OwnedFd>,
        signal: Signal,
    ) -> Self {
        let waited_for = match signal {
            Signal::Spin => NEVER,
            Signal::Futex | Signal::Poll => NOBODY,
        };
        let word = segment.word(WAITED_FOR);
        word.store(waited_for, Ordering::Release);
        Self {
            segment,
            geometry,
            signal,
            readers: Readers::new(memory, ANYCAST_RECEIVERS_MAX),
            head: 0,
            tail: 0,
            system_calls: 0,
        }
    }

    /// Admits the process at the other end of `socket` as a receiver of what nobody has claimed; it calls
    /// [`AnycastReceiver::join`](super::AnycastReceiver::join). Its number.
    ///
    /// # Errors
    /// [`ChannelError::ReceiversFull`]; a peer of another user; what the system refuses.
    pub fn admit(&mut self, socket: UnixStream) -> Result<u32, ChannelError> {
        self.readers.admit(socket, self.geometry)
    }

    #[cfg(all(test, feature = "loom"))]
    pub(super) fn add(&mut self, socket: UnixStream) {
        self.readers.add(socket);
    }

    /// The ring's geometry.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Receivers that were admitted and neither have closed their end nor were found gone.
    #[must_use]
    pub fn receivers(&self) -> u32 {
        self.readers.reading()
    }

    /// Receivers that were found gone without having closed their end: each may have taken one message with it.
    #[must_use]
    pub fn killed(&self) -> u32 {
        self.readers.killed()
    }

    /// System calls of this end since it was made, but for those of admissions: sleeps, wakes, looks at sockets.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Sends a message to whichever receiver claims it first; waits for room for `limit` at most; whether there was room.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message that the ring never holds; [`ChannelError::PeerGone`] without a receiver;
    /// [`ChannelError::Corrupt`] when claims are where they cannot be; a wait or a wake that the system refuses.
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Duration) -> Result<bool, ChannelError> {
        if !self.wait_for_room(message.len(), limit)? {
            return Ok(false);
        }
        let (len, position) = (message.len() as u32, self.head);
        ring::write_message(&self.segment, self.geometry, position, 0, message);
        let length = self.segment.word(self.geometry.length_offset(position));
        length.store(len, Ordering::Relaxed);
        self.head = position.wrapping_add(self.geometry.slots_of(len));
        self.publish()?;
        Ok(true)
    }

    /// Waits until a message of `len` octets has room; whether it has within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    #[inline]
    pub fn wait_for_room(&mut self, len: usize, limit: Duration) -> Result<bool, ChannelError> {
        let needed = self.geometry.slots_of_message(len)?;
        if self.readers.reading() == 0 {
            return Err(ChannelError::PeerGone);
        }
        let mut left = limit;
        while self.room() < needed {
            self.note_closed();
            if self.readers.reading() == 0 {
                return Err(ChannelError::PeerGone);
            }
            self.find_tail()?;
            if self.room() >= needed {
                break;
            }
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(needed, &mut left)?;
        }
        Ok(true)
    }

    /// Free slots, as far as is known.
    #[inline]
    fn room(&self) -> u32 {
        self.geometry.slots() - self.head.wrapping_sub(self.tail)
    }

    /// Finds what is free: all before the claims and before what is held.
    fn find_tail(&mut self) -> Result<(), ChannelError> {
        self.tail = self.free_until()?;
        Ok(())
    }

    /// The first position that is not free. Claims are read first: a claim that is seen has its position held, or let go.
    fn free_until(&self) -> Result<u32, ChannelError> {
        let known = self.head.wrapping_sub(self.tail);
        let claimed = self.segment.word(CLAIMED).load(Ordering::Acquire);
        let mut most = self.head.wrapping_sub(claimed);
        if most > known {
            return Err(ChannelError::Corrupt {
                what: "a position of claims of",
                value: claimed,
            });
        }
        for number in self.readers.numbers() {
            let held = self.segment.word(held_of(number)).load(Ordering::Acquire);
            if held == NOTHING {
                continue;
            }
            // Of half a word's range, as the word has no room for the highest bit. Beyond what is in use, it is one whose claim fails.
            let behind = (self.head << 1).wrapping_sub(held & !1) >> 1;
            if behind <= known {
                most = most.max(behind);
            }
        }
        Ok(self.head.wrapping_sub(most))
    }

    /// Receivers that have closed their end hold nothing.
    fn note_closed(&mut self) {
        let closed = self.segment.word(CLOSED).load(Ordering::Acquire);
        self.readers.note_closed(closed);
    }

    /// Waits until there may be room for `needed` slots, and takes the time off `left`; after a whole sleep it looks who is gone.
    #[cold]
    fn wait(&mut self, needed: u32, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let may_have_changed = match self.signal {
            Signal::Spin => looked_until(|| self.has_moved(), limit),
            Signal::Futex | Signal::Poll => self.slept_for(needed, limit)?,
        };
        let taken = if may_have_changed {
            USELESS_WAKE
        } else {
            limit
        };
        *left = left.saturating_sub(taken);
        if !may_have_changed {
            self.look_at_receivers()?;
        }
        Ok(())
    }

    /// Whether more is free than was found last, or claims are wrong, or a receiver has closed.
    fn has_moved(&self) -> bool {
        self.has_closed() || self.free_until().ok() != Some(self.tail)
    }

    /// Whether a receiver has closed its end since that was looked at.
    fn has_closed(&self) -> bool {
        let closed = self.segment.word(CLOSED).load(Ordering::Acquire);
        let mut numbers = self.readers.numbers();
        numbers.any(|number| closed & 1 << number != 0)
    }

    /// Whether all before `position` is free, or claims are wrong.
    fn is_free_until(&self, position: u32) -> bool {
        let behind = |free: u32| free.wrapping_sub(position).cast_signed();
        self.free_until().map_or(true, |free| behind(free) >= 0)
    }

    /// Sleeps until claims have freed `needed` slots, and a quarter of the ring: a wake for each message that is read would
    /// cost more than the message.
    fn slept_for(&mut self, needed: u32, limit: Duration) -> Result<bool, ChannelError> {
        let slots = self.geometry.slots();
        let position = self.head.wrapping_sub(slots - needed.max(slots / 4));
        let waited_for = self.segment.word(WAITED_FOR);
        let wakes = self.segment.word(SENDER_WAKES);
        // Before the wish: a wake that answers it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between this store and the look at what is held as a receiver's between what it lets go and its look
        // at this word: one of both sees the other's.
        store_beside_swaps(waited_for, wish(position));
        fence(Ordering::SeqCst);
        let slept = if self.has_closed() || self.is_free_until(position) {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(wakes, woken, limit)
        };
        store_beside_swaps(waited_for, NOBODY);
        slept
    }

    /// Notes whose socket has hung up.
    fn look_at_receivers(&mut self) -> Result<(), ChannelError> {
        self.system_calls += u64::from(self.readers.reading());
        let closed = self.segment.word(CLOSED);
        self.readers.look(|| closed.load(Ordering::Acquire))
    }

    /// Shows what was committed, and wakes one who sleeps.
    #[inline]
    fn publish(&mut self) -> Result<(), ChannelError> {
        self.segment.word(HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        let admitted = (1 << self.readers.count()) - 1;
        match self.segment.word(ASLEEP).load(Ordering::Relaxed) & admitted {
            0 => Ok(()),
            asleep => self.wake_receiver(asleep.trailing_zeros()),
        }
    }

    /// Takes the bit of the receiver of `number`, so that the next message wakes another, and wakes it.
    #[cold]
    fn wake_receiver(&mut self, number: u32) -> Result<(), ChannelError> {
        let asleep = self.segment.word(ASLEEP);
        asleep.fetch_and(!(1 << number), Ordering::AcqRel);
        let wakes = self.segment.word(wakes_of(number));
        wakes.fetch_add(1, Ordering::AcqRel);
        self.system_calls += 1;
        kernel::wake_one(wakes)
    }

    /// Hangs up without a close, as the kernel does for a process that is gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn forsake(self) {
        self.readers.hang_up();
        std::mem::forget(self);
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }
}

impl Drop for AnycastSender {
    fn drop(&mut self) {
        self.segment.word(SENDER_CLOSED).store(1, Ordering::Release);
        // All of them have to see the end. A wake that fails costs a receiver one sleep, after which it looks itself.
        for _ in 0..self.readers.count().max(1) {
            let _ = self.publish();
        }
    }
}
