//! The end that writes.

use super::{
    ASLEEP, BROADCAST_RECEIVERS_MAX, CLOSED, HEAD, NEVER, NOBODY, RECEIVER_WAKES, SENDER_CLOSED,
    SENDER_WAKES, WAITED_FOR, Wanted, tail_of,
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

/// The end of a ring of many receivers that writes, and owns it. Dropping it closes the ring after what it sent.
#[derive(Debug)]
pub struct BroadcastSender {
    segment: Segment,
    geometry: Geometry,
    signal: Signal,
    readers: Readers,
    /// Slots committed: the true value of [`HEAD`], which no peer can change.
    head: u32,
    /// The position of the receiver furthest behind, as it was read last, and checked.
    tail: u32,
    system_calls: u64,
}

impl BroadcastSender {
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
        segment
            .word(WAITED_FOR)
            .store(waited_for, Ordering::Release);
        Self {
            segment,
            geometry,
            signal,
            readers: Readers::new(memory, BROADCAST_RECEIVERS_MAX),
            head: 0,
            tail: 0,
            system_calls: 0,
        }
    }

    /// Admits the process at the other end of `socket` as a receiver of all that is sent from now on; it calls
    /// [`BroadcastReceiver::join`](super::BroadcastReceiver::join). Its number.
    ///
    /// # Errors
    /// [`ChannelError::ReceiversFull`]; a peer of another user; what the system refuses.
    pub fn admit(&mut self, socket: UnixStream) -> Result<u32, ChannelError> {
        // Of a receiver beyond the last there is no word.
        if self.readers.count() < BROADCAST_RECEIVERS_MAX {
            let tail = self.segment.word(tail_of(self.readers.count()));
            tail.store(self.head, Ordering::Release);
        }
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

    /// Receivers that were found gone without having closed their end.
    #[must_use]
    pub fn killed(&self) -> u32 {
        self.readers.killed()
    }

    /// System calls of this end since it was made, but for those of admissions: sleeps, wakes, looks at sockets.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Sends a message to all receivers, for whose room it waits for `limit` at most; whether it had room. The receiver that is
    /// furthest behind holds it back; one that closes or is gone does not, within 100 ms.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message that the ring never holds; [`ChannelError::PeerGone`] without a receiver;
    /// [`ChannelError::Corrupt`] when one released messages that it cannot have; a wait or a wake that the system refuses.
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
            let Some(slowest) = self.find_slowest()? else {
                return Err(ChannelError::PeerGone);
            };
            if self.room() >= needed {
                break;
            }
            if left.is_zero() {
                return Ok(false);
            }
            self.wait_for(slowest, needed, &mut left)?;
        }
        Ok(true)
    }

    /// Free slots, as far as is known.
    #[inline]
    fn room(&self) -> u32 {
        self.geometry.slots() - self.head.wrapping_sub(self.tail)
    }

    /// The receiver furthest behind, whose position is noted; None without receivers.
    fn find_slowest(&mut self) -> Result<Option<u32>, ChannelError> {
        self.note_closed();
        let mut found = None;
        for number in self.readers.numbers() {
            let tail = self.segment.word(tail_of(number)).load(Ordering::Acquire);
            let behind = self.geometry.check_tail(self.head, tail)?;
            if found.is_none_or(|(_, most)| behind > most) {
                found = Some((number, behind));
            }
        }
        let most = found.map_or(0, |(_, behind)| behind);
        self.tail = self.head.wrapping_sub(most);
        Ok(found.map(|(number, _)| number))
    }

    /// Receivers that have closed their end read no more.
    fn note_closed(&mut self) {
        let closed = self.segment.word(CLOSED).load(Ordering::Acquire);
        self.readers.note_closed(closed);
    }

    /// Waits until the receiver of `number` may have moved or closed, and takes the time off `left`; after a whole sleep it looks
    /// who is gone.
    #[cold]
    fn wait_for(
        &mut self,
        number: u32,
        needed: u32,
        left: &mut Duration,
    ) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let may_have_changed = match self.signal {
            Signal::Spin => looked_until(|| self.has_moved(number), limit),
            Signal::Futex | Signal::Poll => self.slept_for(number, needed, limit)?,
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

    /// Whether the receiver of `number`, furthest behind when it was looked at, has moved or closed.
    fn has_moved(&self, number: u32) -> bool {
        let word = |offset| self.segment.word(offset).load(Ordering::Acquire);
        word(tail_of(number)) != self.tail || word(CLOSED) & 1 << number != 0
    }

    /// Sleeps until the receiver of `number` has released `needed` slots, and a quarter of the ring, or all there is: a wake
    /// for each message that it releases would cost more than the message.
    fn slept_for(
        &mut self,
        number: u32,
        needed: u32,
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        let slots = self.geometry.slots();
        let position = self.head.wrapping_sub(slots - needed.max(slots / 4));
        let wanted = Wanted::of(number, position);
        let waited_for = self.segment.word(WAITED_FOR);
        let wakes = self.segment.word(SENDER_WAKES);
        // Before the wish: a wake that answers it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between this store and the look at the position as the receiver's between its position and its look
        // at this word: one of both sees the other's.
        store_beside_swaps(waited_for, wanted.word());
        fence(Ordering::SeqCst);
        let seen = self.segment.word(tail_of(number)).load(Ordering::Acquire);
        let is_closed = self.segment.word(CLOSED).load(Ordering::Acquire) & 1 << number != 0;
        let slept = if is_closed || wanted.is_reached(seen) || seen == self.head {
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

    /// Shows what was committed, and wakes who sleeps.
    #[inline]
    fn publish(&mut self) -> Result<(), ChannelError> {
        self.segment.word(HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.segment.word(ASLEEP).load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.wake_receivers(),
        }
    }

    /// Takes all bits, so that receivers that have yet to run again cost the next message no wake.
    #[cold]
    fn wake_receivers(&mut self) -> Result<(), ChannelError> {
        self.segment.word(ASLEEP).swap(0, Ordering::AcqRel);
        let wakes = self.segment.word(RECEIVER_WAKES);
        wakes.fetch_add(1, Ordering::AcqRel);
        self.system_calls += 1;
        kernel::wake_all(wakes)
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

impl Drop for BroadcastSender {
    fn drop(&mut self) {
        self.segment.word(SENDER_CLOSED).store(1, Ordering::Release);
        // A wake that fails costs a receiver one sleep, after which it looks itself.
        let _ = self.publish();
    }
}
