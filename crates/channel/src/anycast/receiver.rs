//! An end that reads, one of many.

use super::{
    ANYCAST_RECEIVERS_MAX, ASLEEP, CLAIMED, CLOSED, HEAD, NEVER, NOBODY, NOTHING, SENDER_CLOSED,
    SENDER_WAKES, WAITED_FOR, held_of, holding, is_reached, wakes_of,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::ring::{self, Arrival, NextMessage};
use crate::sync::{AtomicU32, Ordering, fence};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal, USELESS_WAKE, has_hung_up, looked_until};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of the receivers that share the messages of a ring out. Dropping it closes its end.
#[derive(Debug)]
pub struct AnycastReceiver {
    segment: Segment,
    geometry: Geometry,
    socket: UnixStream,
    signal: Signal,
    number: u32,
    /// Claims that another receiver was faster with.
    collisions: u64,
    /// The sender was found gone.
    hung_up: bool,
    system_calls: u64,
}

/// A message that was claimed: its position, and its length, read once and checked.
#[derive(Debug, Clone, Copy)]
struct Claim {
    position: u32,
    len: u32,
}

impl AnycastReceiver {
    /// Joins the ring of the process at the other end of `socket`, which calls
    /// [`AnycastSender::admit`](super::AnycastSender::admit). It waits for the admission as long as the socket's read timeout
    /// lets it. `signal` is how this end waits for messages; with [`Signal::Poll`], which is for rings of one receiver, it
    /// sleeps as with [`Signal::Futex`].
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of another length than announced.
    pub fn join(socket: UnixStream, signal: Signal) -> Result<Self, ChannelError> {
        let (segment, _, geometry, number) =
            opening::accept_member(&socket, Geometry::segment_len)?;
        if number >= ANYCAST_RECEIVERS_MAX {
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
        Self {
            segment,
            geometry,
            socket,
            signal,
            number,
            collisions: 0,
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

    /// Claims that another receiver was faster with.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// System calls of this end since it joined: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Waits until there is a message that nobody has claimed, or the end, for `limit` at most. Another receiver may be faster with the
    /// message.
    ///
    /// # Errors
    /// [`ChannelError::PeerGone`] when the sender was found gone without closing, after all that it committed;
    /// [`ChannelError::Corrupt`] for a position that it cannot have; a wait that the system refuses.
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
    /// and all was claimed.
    ///
    /// # Errors
    /// Those of [`Self::wait_for_message`], and [`ChannelError::Corrupt`] for a length that no message has.
    pub fn receive(&mut self) -> Result<Option<AnycastSlots<'_>>, ChannelError> {
        loop {
            match self.next(SLEEP_MAX)? {
                NextMessage::Message(claim) => return Ok(Some(self.slots(claim))),
                NextMessage::End => return Ok(None),
                NextMessage::Nothing => {}
            }
        }
    }

    /// The next message, in its slots until it is dropped, if this end gets one within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<NextMessage<AnycastSlots<'_>>, ChannelError> {
        Ok(match self.next(limit)? {
            NextMessage::Message(claim) => NextMessage::Message(self.slots(claim)),
            NextMessage::Nothing => NextMessage::Nothing,
            NextMessage::End => NextMessage::End,
        })
    }

    fn slots(&mut self, claim: Claim) -> AnycastSlots<'_> {
        AnycastSlots {
            receiver: self,
            claim,
        }
    }

    fn next(&mut self, limit: Duration) -> Result<NextMessage<Claim>, ChannelError> {
        let mut left = limit;
        loop {
            if let Some(claim) = self.claim()? {
                return Ok(NextMessage::Message(claim));
            }
            match self.look()? {
                Arrival::Message => {}
                Arrival::End => return Ok(NextMessage::End),
                Arrival::Nothing if left.is_zero() => return Ok(NextMessage::Nothing),
                Arrival::Nothing => self.wait(&mut left)?,
            }
        }
    }

    /// Claims the next message; None when there is none. What is read before a claim that succeeds was right: nobody had claimed it.
    fn claim(&mut self) -> Result<Option<Claim>, ChannelError> {
        loop {
            let claimed = self.segment.word(CLAIMED);
            let position = claimed.load(Ordering::Acquire);
            let head = self.segment.word(HEAD).load(Ordering::Acquire);
            if head == position {
                self.release_of_collision();
                return Ok(None);
            }
            // Before the claim, with which the sender sees it.
            self.held().store(holding(position), Ordering::Relaxed);
            let at = self.geometry.length_offset(position);
            let len = self.segment.word(at).load(Ordering::Relaxed);
            if let Err(error) = self.check(position, head, len) {
                match claimed.load(Ordering::Acquire) == position {
                    true => return Err(error),
                    false => continue,
                }
            }
            let next = position.wrapping_add(self.geometry.slots_of(len));
            let swapped =
                claimed.compare_exchange(position, next, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_ok() {
                return Ok(Some(Claim { position, len }));
            }
            self.collisions += 1;
        }
    }

    /// Whether there can be a message of `len` octets at `position`.
    fn check(&self, position: u32, head: u32, len: u32) -> Result<(), ChannelError> {
        self.geometry.check_head(head, position)?;
        self.geometry.check_len(len, head.wrapping_sub(position))
    }

    /// Lets go of a position that another receiver claimed.
    fn release_of_collision(&mut self) {
        if self.held().load(Ordering::Relaxed) != NOTHING {
            self.release();
        }
    }

    fn held(&self) -> &AtomicU32 {
        self.segment.word(held_of(self.number))
    }

    /// What is in the ring now that nobody has claimed.
    fn look(&self) -> Result<Arrival, ChannelError> {
        if self.has_message() {
            return Ok(Arrival::Message);
        }
        let closed = self.segment.word(SENDER_CLOSED).load(Ordering::Acquire) != 0;
        // What was committed before the close is visible now, so an empty ring stays empty.
        if (closed || self.hung_up) && self.has_message() {
            return Ok(Arrival::Message);
        }
        match (closed, self.hung_up) {
            (true, _) => Ok(Arrival::End),
            (false, true) => Err(ChannelError::PeerGone),
            (false, false) => Ok(Arrival::Nothing),
        }
    }

    fn has_message(&self) -> bool {
        let word = |offset| self.segment.word(offset).load(Ordering::Acquire);
        word(CLAIMED) != word(HEAD)
    }

    /// Waits until there may be a message or the end, and takes the time off `left`; after a whole sleep it looks whether the
    /// sender is gone.
    #[cold]
    fn wait(&mut self, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let may_have_changed = match self.signal {
            Signal::Spin => looked_until(|| self.has_changed(), limit),
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

    /// Whether there is a message, or the sender has closed.
    fn has_changed(&self) -> bool {
        let closed = self.segment.word(SENDER_CLOSED).load(Ordering::Acquire) != 0;
        closed || self.has_message()
    }

    fn slept(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        let (asleep, own) = (self.segment.word(ASLEEP), 1 << self.number);
        let wakes = self.segment.word(wakes_of(self.number));
        // Before the bit: the wake that takes it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between bit and position as the sender's between position and bits: one of both sees the other's.
        asleep.fetch_or(own, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let slept = if self.has_changed() {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(wakes, woken, limit)
        };
        asleep.fetch_and(!own, Ordering::AcqRel);
        slept
    }

    /// Lets go of what this end holds, and wakes the sender if claims have come to where it waits for them.
    #[inline]
    fn release(&mut self) {
        self.held().store(NOTHING, Ordering::Release);
        let waited_for = self.segment.word(WAITED_FOR);
        if waited_for.load(Ordering::Relaxed) == NEVER {
            return;
        }
        fence(Ordering::SeqCst);
        let wanted = waited_for.load(Ordering::Relaxed);
        let claimed = self.segment.word(CLAIMED).load(Ordering::Relaxed);
        if is_reached(wanted, claimed) {
            self.wake_sender(wanted);
        }
    }

    /// Hangs up without a close, as the kernel does for a process that is gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn forsake(self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        std::mem::forget(self);
    }

    /// Wakes a sender that waits, once.
    #[cold]
    fn wake_sender(&mut self, wanted: u32) {
        let waited_for = self.segment.word(WAITED_FOR);
        let taken =
            waited_for.compare_exchange(wanted, NOBODY, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            let wakes = self.segment.word(SENDER_WAKES);
            wakes.fetch_add(1, Ordering::AcqRel);
            self.system_calls += 1;
            // A wake that fails delays the sender by one sleep, after which it looks itself.
            let _ = kernel::wake_one(wakes);
        }
    }
}

impl Drop for AnycastReceiver {
    fn drop(&mut self) {
        let closed = self.segment.word(CLOSED);
        closed.fetch_or(1 << self.number, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let wanted = self.segment.word(WAITED_FOR).load(Ordering::Relaxed);
        if !matches!(wanted, NOBODY | NEVER) {
            self.wake_sender(wanted);
        }
    }
}

/// A message in its slots, which this receiver alone has. Dropping it releases them.
#[derive(Debug)]
pub struct AnycastSlots<'a> {
    receiver: &'a mut AnycastReceiver,
    claim: Claim,
}

impl AnycastSlots<'_> {
    /// Octets of the message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claim.len as usize
    }

    /// Whether the message has no octets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claim.len == 0
    }

    /// Copies the octets from `offset` on into `target`, as many as both have, and returns how many. A hostile sender or
    /// receiver can change octets between two reads: parse the copy, not the slots.
    #[inline]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> usize {
        let receiver = &*self.receiver;
        let (segment, geometry) = (&receiver.segment, receiver.geometry);
        ring::read_message(
            segment,
            geometry,
            (self.claim.position, self.claim.len),
            offset,
            target,
        )
    }

    /// A private copy of the message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.read(0, &mut octets);
        octets
    }
}

impl Drop for AnycastSlots<'_> {
    #[inline]
    fn drop(&mut self) {
        self.receiver.release();
    }
}
