//! An end that reads, one of many.

use super::{
    ASLEEP, BROADCAST_RECEIVERS_MAX, CLOSED, HEAD, NEVER, NOBODY, RECEIVER_WAKES, SENDER_CLOSED,
    SENDER_WAKES, WAITED_FOR, Wanted, tail_of,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::ring::{self, Arrival, NextMessage};
use crate::sync::{Ordering, fence};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal, USELESS_WAKE, has_hung_up, looked_until};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of the receivers of a ring. Dropping it closes its end, and holds nobody back any more.
#[derive(Debug)]
pub struct BroadcastReceiver {
    segment: Segment,
    geometry: Geometry,
    socket: UnixStream,
    signal: Signal,
    number: u32,
    /// Slots released: the true value of its own position.
    tail: u32,
    /// [`HEAD`] as it was read last, and checked.
    head: u32,
    /// The sender was found gone.
    hung_up: bool,
    system_calls: u64,
}

impl BroadcastReceiver {
    /// Joins the ring of the process at the other end of `socket`, which calls
    /// [`BroadcastSender::admit`](super::BroadcastSender::admit). It waits for the admission as long as the socket's read timeout
    /// lets it. `signal` is how this end waits for messages; with [`Signal::Poll`], which is for rings of one receiver, it
    /// sleeps as with [`Signal::Futex`].
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of another length than announced.
    pub fn join(socket: UnixStream, signal: Signal) -> Result<Self, ChannelError> {
        let (segment, _, geometry, number) =
            opening::accept_member(&socket, Geometry::segment_len)?;
        if number >= BROADCAST_RECEIVERS_MAX {
            return Err(ChannelError::Corrupt {
                what: "a receiver's number of",
                value: number,
            });
        }
        Ok(Self::new(segment, geometry, socket, signal, number))
    }

    pub(super) fn new(
        segment: Segment,
        geometry: Geometry,
        socket: UnixStream,
        signal: Signal,
        number: u32,
    ) -> Self {
        let tail = segment.word(tail_of(number)).load(Ordering::Acquire);
        Self {
            segment,
            geometry,
            socket,
            signal,
            number,
            tail,
            head: tail,
            hung_up: false,
            system_calls: 0,
        }
    }

    /// The number that the sender gave this receiver, from 0 on.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The ring's geometry, which the sender chose.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// System calls of this end since it joined: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// What is in the ring now.
    ///
    /// # Errors
    /// [`ChannelError::PeerGone`] when the sender was found gone without closing, after all that it committed;
    /// [`ChannelError::Corrupt`] for a position that it cannot have.
    #[inline]
    pub fn look(&mut self) -> Result<Arrival, ChannelError> {
        if self.has_message()? {
            return Ok(Arrival::Message);
        }
        let closed = self.segment.word(SENDER_CLOSED).load(Ordering::Acquire) != 0;
        // What was committed before the close is visible now, so an empty ring stays empty.
        if (closed || self.hung_up) && self.has_message()? {
            return Ok(Arrival::Message);
        }
        match (closed, self.hung_up) {
            (true, _) => Ok(Arrival::End),
            (false, true) => Err(ChannelError::PeerGone),
            (false, false) => Ok(Arrival::Nothing),
        }
    }

    /// Waits until there is a message or the end, for `limit` at most.
    ///
    /// # Errors
    /// Those of [`Self::look`], and a wait that the system refuses.
    #[inline]
    pub fn wait_for_message(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        let mut left = limit;
        loop {
            let found = self.look()?;
            if found != Arrival::Nothing || left.is_zero() {
                return Ok(found);
            }
            self.wait(&mut left)?;
        }
    }

    /// The next message, in its slots until it is dropped. Waits while there is none; `None` when the sender closed the ring
    /// and all was received.
    ///
    /// # Errors
    /// Those of [`Self::wait_for_message`], and [`ChannelError::Corrupt`] for a length that no message has.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<BroadcastSlots<'_>>, ChannelError> {
        loop {
            match self.wait_for_message(SLEEP_MAX)? {
                Arrival::Message => return self.take().map(Some),
                Arrival::End => return Ok(None),
                Arrival::Nothing => {}
            }
        }
    }

    /// The next message, in its slots until it is dropped, if one comes within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<NextMessage<BroadcastSlots<'_>>, ChannelError> {
        if !self.has_message()? {
            match self.wait_for_message(limit)? {
                Arrival::Message => {}
                Arrival::Nothing => return Ok(NextMessage::Nothing),
                Arrival::End => return Ok(NextMessage::End),
            }
        }
        self.take().map(NextMessage::Message)
    }

    /// The message at the tail, with its length read once and checked.
    #[inline]
    fn take(&mut self) -> Result<BroadcastSlots<'_>, ChannelError> {
        let at = self.geometry.length_offset(self.tail);
        let len = self.segment.word(at).load(Ordering::Relaxed);
        let committed = self.head.wrapping_sub(self.tail);
        self.geometry.check_len(len, committed)?;
        Ok(BroadcastSlots {
            receiver: self,
            len,
        })
    }

    /// Whether a message is there; the sender's word is read only if none is known to be.
    #[inline]
    fn has_message(&mut self) -> Result<bool, ChannelError> {
        if self.head != self.tail {
            return Ok(true);
        }
        let head = self.segment.word(HEAD).load(Ordering::Acquire);
        self.geometry.check_head(head, self.tail)?;
        self.head = head;
        Ok(head != self.tail)
    }

    /// Waits until the sender may have moved or closed, and takes the time off `left`; after a whole sleep it looks whether the
    /// sender is gone.
    #[cold]
    fn wait(&mut self, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let may_have_changed = match self.signal {
            Signal::Spin => looked_until(|| self.has_moved(), limit),
            Signal::Futex | Signal::Poll => self.slept(limit)?,
        };
        let taken = if may_have_changed {
            USELESS_WAKE
        } else {
            limit
        };
        *left = left.saturating_sub(taken);
        if !may_have_changed {
            self.system_calls += 1;
            self.hung_up |= has_hung_up(&self.socket)?;
        }
        Ok(())
    }

    /// Whether the sender has moved since it was looked at, or closed.
    fn has_moved(&self) -> bool {
        let word = |offset| self.segment.word(offset).load(Ordering::Acquire);
        word(HEAD) != self.head || word(SENDER_CLOSED) != 0
    }

    fn slept(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        let (asleep, own) = (self.segment.word(ASLEEP), 1 << self.number);
        let wakes = self.segment.word(RECEIVER_WAKES);
        // Before the bit: the wake that takes it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between bit and position as the sender's between position and bits: one of both sees the other's.
        asleep.fetch_or(own, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let slept = if self.has_moved() {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(wakes, woken, limit)
        };
        asleep.fetch_and(!own, Ordering::AcqRel);
        slept
    }

    /// Says that all before the tail was read, and wakes the sender if that is what it waits for.
    #[inline]
    fn publish(&mut self) {
        let tail = self.segment.word(tail_of(self.number));
        tail.store(self.tail, Ordering::Release);
        let waited_for = self.segment.word(WAITED_FOR);
        if waited_for.load(Ordering::Relaxed) == NEVER {
            return;
        }
        fence(Ordering::SeqCst);
        let wanted = Wanted(waited_for.load(Ordering::Relaxed));
        let is_all = self.tail == self.head;
        if wanted.is_of(self.number) && (is_all || wanted.is_reached(self.tail)) {
            self.wake_sender(wanted);
        }
    }

    /// Wakes a sender that waits for this end, once.
    #[cold]
    fn wake_sender(&mut self, wanted: Wanted) {
        let waited_for = self.segment.word(WAITED_FOR);
        let taken =
            waited_for.compare_exchange(wanted.word(), NOBODY, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            let wakes = self.segment.word(SENDER_WAKES);
            wakes.fetch_add(1, Ordering::AcqRel);
            self.system_calls += 1;
            // A wake that fails delays the sender by one sleep, after which it looks itself.
            let _ = kernel::wake_one(wakes);
        }
    }
}

impl Drop for BroadcastReceiver {
    fn drop(&mut self) {
        let closed = self.segment.word(CLOSED);
        closed.fetch_or(1 << self.number, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let wanted = Wanted(self.segment.word(WAITED_FOR).load(Ordering::Relaxed));
        if wanted.is_of(self.number) {
            self.wake_sender(wanted);
        }
    }
}

/// A message in its slots. Dropping it releases them for this receiver.
#[derive(Debug)]
pub struct BroadcastSlots<'a> {
    receiver: &'a mut BroadcastReceiver,
    /// Octets of the message: the copy that was checked.
    len: u32,
}

impl BroadcastSlots<'_> {
    /// Octets of the message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the message has no octets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the octets from `offset` on into `target`, as many as both have, and returns how many. A hostile sender or
    /// receiver can change octets between two reads: parse the copy, not the slots.
    #[inline]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> usize {
        let receiver = &*self.receiver;
        let (segment, geometry) = (&receiver.segment, receiver.geometry);
        ring::read_message(segment, geometry, (receiver.tail, self.len), offset, target)
    }

    /// A private copy of the message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.read(0, &mut octets);
        octets
    }
}

impl Drop for BroadcastSlots<'_> {
    #[inline]
    fn drop(&mut self) {
        let receiver = &mut *self.receiver;
        let slots = receiver.geometry.slots_of(self.len);
        receiver.tail = receiver.tail.wrapping_add(slots);
        receiver.publish();
    }
}
