//! The end that writes.

use super::readers::Readers;
use super::{
    ASLEEP, CLOSED, Fanout, HEAD, NEVER, NOBODY, RECEIVERS_MAX, SENDER_CLOSED, SENDER_WAKES,
    WAITED_FOR,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::ring;
use crate::sync::{Ordering, fence, store_beside_swaps};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal, USELESS_WAKE, looked_until};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The end of a ring of many receivers that writes, and owns it: [`BroadcastSender`](crate::BroadcastSender) or
/// [`AnycastSender`](crate::AnycastSender). Dropping it closes the ring after what it sent.
#[derive(Debug)]
pub struct FanoutSender<D: Fanout> {
    pub(crate) segment: Segment,
    pub(crate) geometry: Geometry,
    signal: Signal,
    pub(crate) readers: Readers,
    /// Slots committed: the true value of [`HEAD`], which no peer can change.
    pub(crate) head: u32,
    /// Slots that are free again, as it was found last, and checked.
    pub(crate) tail: u32,
    pub(crate) system_calls: u64,
    fanout: PhantomData<D>,
}

impl<D: Fanout> FanoutSender<D> {
    /// Makes the memory of a ring without receivers. `signal` is how this end waits for room; with [`Signal::Poll`], which is
    /// for rings of one receiver, it sleeps as with [`Signal::Futex`].
    ///
    /// # Errors
    /// Memory that the system refuses.
    pub fn create(geometry: Geometry, signal: Signal) -> Result<Self, ChannelError> {
        let (segment, memory) = Segment::create(geometry.segment_len())?;
        Ok(Self::new(segment, geometry, Some(memory), signal))
    }

    pub(crate) fn new(
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
            readers: Readers::new(memory),
            head: 0,
            tail: 0,
            system_calls: 0,
            fanout: PhantomData,
        }
    }

    /// Admits the process at the other end of `socket` as a receiver; it calls [`FanoutReceiver::join`](super::FanoutReceiver::join).
    /// Its number. With [`Broadcast`](crate::Broadcast) it gets all that is sent from now on, with [`Anycast`](crate::Anycast) also what
    /// nobody has claimed yet.
    ///
    /// # Errors
    /// [`ChannelError::ReceiversFull`]; a peer of another user; what the system refuses.
    pub fn admit(&mut self, socket: UnixStream) -> Result<u32, ChannelError> {
        let number = self.readers.count();
        // Of a receiver beyond the last there is no word.
        if number < RECEIVERS_MAX {
            D::prepare(self, number);
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

    /// Receivers that were found gone without having closed their end. With [`Anycast`](crate::Anycast) each may have taken one
    /// message with it.
    #[must_use]
    pub fn killed(&self) -> u32 {
        self.readers.killed()
    }

    /// System calls of this end since it was made, but for those of admissions: sleeps, wakes, looks at sockets.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Sends a message to all receivers, or to whichever claims it first, and waits for its room for `limit` at most; whether it had
    /// room. A receiver that others wait for holds it back; one that closes or is gone does not, within 100 ms.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message that the ring never holds; [`ChannelError::PeerGone`] without a receiver;
    /// [`ChannelError::Corrupt`] when receivers are where they cannot be; a wait or a wake that the system refuses.
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
            self.readers.note_closed(self.closed());
            if self.readers.reading() == 0 {
                return Err(ChannelError::PeerGone);
            }
            let (tail, awaited) = D::find_tail(self)?;
            self.tail = tail;
            if self.room() >= needed {
                break;
            }
            if left.is_zero() {
                return Ok(false);
            }
            self.wait(awaited, needed, &mut left)?;
        }
        Ok(true)
    }

    /// Free slots, as far as is known.
    #[inline]
    fn room(&self) -> u32 {
        self.geometry.slots() - self.head.wrapping_sub(self.tail)
    }

    /// Waits until there may be room for `needed` slots, and takes the time off `left`; after a whole sleep it looks who is gone.
    #[cold]
    fn wait(
        &mut self,
        awaited: D::Awaited,
        needed: u32,
        left: &mut Duration,
    ) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let changed = match self.signal {
            Signal::Spin => looked_until(|| D::has_moved(self, awaited), limit),
            Signal::Futex | Signal::Poll => self.slept_for(awaited, needed, limit)?,
        };
        *left = left.saturating_sub(if changed { USELESS_WAKE } else { limit });
        if !changed {
            self.system_calls += u64::from(self.readers.reading());
            let closed = self.segment.word(CLOSED);
            self.readers.look(|| closed.load(Ordering::Acquire))?;
        }
        Ok(())
    }

    /// Sleeps until `needed` slots are free, and a quarter of the ring: a wake for each message that is read would cost more than
    /// the message.
    fn slept_for(
        &mut self,
        awaited: D::Awaited,
        needed: u32,
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        let slots = self.geometry.slots();
        let position = self.head.wrapping_sub(slots - needed.max(slots / 4));
        let waited_for = self.segment.word(WAITED_FOR);
        let wakes = self.segment.word(SENDER_WAKES);
        // Before the wish: a wake that answers it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between this store and the look at what is free as a receiver's between what it lets go and its look
        // at this word: one of both sees the other's.
        store_beside_swaps(waited_for, D::wish(awaited, position));
        fence(Ordering::SeqCst);
        let slept = if D::is_free_until(self, awaited, position) {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(wakes, woken, limit)
        };
        store_beside_swaps(waited_for, NOBODY);
        slept
    }

    /// Shows what was committed, and wakes who sleeps.
    #[inline]
    fn publish(&mut self) -> Result<(), ChannelError> {
        self.segment.word(HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.segment.word(ASLEEP).load(Ordering::Relaxed) {
            0 => Ok(()),
            asleep => D::wake(self, asleep),
        }
    }

    /// The bits of receivers that have closed their end.
    pub(crate) fn closed(&self) -> u32 {
        self.segment.word(CLOSED).load(Ordering::Acquire)
    }

    /// Hangs up without a close, as the kernel does for a process that is gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn forsake(self) {
        self.readers.hang_up();
        std::mem::forget(self);
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }
}

impl<D: Fanout> Drop for FanoutSender<D> {
    fn drop(&mut self) {
        self.segment.word(SENDER_CLOSED).store(1, Ordering::Release);
        // All of them have to see the end. A wake that fails costs a receiver one sleep, after which it looks itself.
        for _ in 0..self.readers.count().max(1) {
            let _ = self.publish();
        }
    }
}
