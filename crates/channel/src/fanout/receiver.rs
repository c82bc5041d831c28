//! An end that reads, one of many.

use super::{
    ASLEEP, CLOSED, Claim, Fanout, NEVER, NOBODY, RECEIVERS_MAX, SENDER_CLOSED, SENDER_WAKES,
    WAITED_FOR,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::ring::{self, Arrival, Incoming, NextMessage};
use crate::sync::{Ordering, fence};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal, USELESS_WAKE, has_hung_up, looked_until};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of the receivers of a ring: [`BroadcastReceiver`](crate::BroadcastReceiver) or [`AnycastReceiver`](crate::AnycastReceiver). Dropping
/// it closes its end, and holds nobody back any more.
#[derive(Debug)]
pub struct FanoutReceiver<D: Fanout> {
    pub(crate) segment: Segment,
    pub(crate) geometry: Geometry,
    socket: UnixStream,
    signal: Signal,
    pub(crate) number: u32,
    pub(crate) fanout: D,
    /// The sender was found gone.
    hung_up: bool,
    system_calls: u64,
}

impl<D: Fanout> FanoutReceiver<D> {
    /// Joins the ring of the process at the other end of `socket`, which calls
    /// [`FanoutSender::admit`](super::FanoutSender::admit). It waits for the admission as long as the socket's read timeout
    /// lets it. `signal` is how this end waits for messages; with [`Signal::Poll`], which is for rings of one receiver, it
    /// sleeps as with [`Signal::Futex`].
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of another length than announced.
    pub fn join(socket: UnixStream, signal: Signal) -> Result<Self, ChannelError> {
        let (segment, _, geometry, number) =
            opening::accept_member(&socket, Geometry::segment_len)?;
        if number >= RECEIVERS_MAX {
            return Err(ChannelError::Corrupt {
                what: "a receiver's number of",
                value: number,
            });
        }
        Ok(Self::new(segment, geometry, socket, signal, number))
    }

    pub(crate) fn new(
        segment: Segment,
        geometry: Geometry,
        socket: UnixStream,
        signal: Signal,
        number: u32,
    ) -> Self {
        let fanout = D::join(&segment, number);
        Self {
            segment,
            geometry,
            socket,
            signal,
            number,
            fanout,
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

    /// What is in the ring now. With [`Anycast`](crate::Anycast) another receiver may be faster with a message.
    ///
    /// # Errors
    /// [`ChannelError::PeerGone`] when the sender was found gone without closing, after all that it committed;
    /// [`ChannelError::Corrupt`] for a position that it cannot have.
    #[inline]
    pub fn look(&mut self) -> Result<Arrival, ChannelError> {
        self.arrival()
    }

    /// Waits until there is a message or the end, for `limit` at most.
    ///
    /// # Errors
    /// Those of [`Self::look`], and a wait that the system refuses.
    #[inline]
    pub fn wait_for_message(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        self.arrival_within(limit)
    }

    /// The next message, in its slots until it is dropped. Waits while there is none; `None` when the sender closed the ring
    /// and all was received.
    ///
    /// # Errors
    /// Those of [`Self::wait_for_message`], and [`ChannelError::Corrupt`] for a length that no message has.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<FanoutSlots<'_, D>>, ChannelError> {
        let next = self.next_or_end()?;
        Ok(next.map(|claim| self.slots(claim)))
    }

    /// The next message, in its slots until it is dropped, if this end gets one within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<NextMessage<FanoutSlots<'_, D>>, ChannelError> {
        let next = self.next_within(limit)?;
        Ok(next.map(|claim| self.slots(claim)))
    }

    #[inline]
    fn slots(&mut self, claim: Claim) -> FanoutSlots<'_, D> {
        FanoutSlots {
            receiver: self,
            claim,
        }
    }

    /// Whether there may be a message, or the sender has closed.
    fn may_have_changed(&self) -> bool {
        D::may_have_message(self) || self.has_closed()
    }

    fn slept(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        let (asleep, own) = (self.segment.word(ASLEEP), 1 << self.number);
        let wakes = self.segment.word(D::wakes_of(self.number));
        // Before the bit: the wake that takes it makes the word another one.
        let woken = wakes.load(Ordering::Acquire);
        // The fence stands between bit and position as the sender's between position and bits: one of both sees the other's.
        asleep.fetch_or(own, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let slept = if self.may_have_changed() {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(wakes, woken, limit)
        };
        asleep.fetch_and(!own, Ordering::AcqRel);
        slept
    }

    /// Wakes the sender if what this end let go is what it waits for.
    #[inline]
    pub(crate) fn answer(&mut self) {
        let waited_for = self.segment.word(WAITED_FOR);
        if waited_for.load(Ordering::Relaxed) == NEVER {
            return;
        }
        fence(Ordering::SeqCst);
        let wish = waited_for.load(Ordering::Relaxed);
        if D::grants(self, wish) {
            self.wake_sender(wish);
        }
    }

    /// Wakes a sender that waits, once.
    #[cold]
    fn wake_sender(&mut self, wish: u32) {
        let waited_for = self.segment.word(WAITED_FOR);
        let taken = waited_for.compare_exchange(wish, NOBODY, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            let wakes = self.segment.word(SENDER_WAKES);
            wakes.fetch_add(1, Ordering::AcqRel);
            self.system_calls += 1;
            // A wake that fails delays the sender by one sleep, after which it looks itself.
            let _ = kernel::wake_one(wakes);
        }
    }

    /// Hangs up without a close, as the kernel does for a process that is gone.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn forsake(self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        std::mem::forget(self);
    }
}

impl<D: Fanout> Incoming for FanoutReceiver<D> {
    type Claim = Claim;

    #[inline]
    fn has_message(&mut self) -> Result<bool, ChannelError> {
        D::has_message(self)
    }

    #[inline]
    fn claim(&mut self) -> Result<Option<Claim>, ChannelError> {
        D::claim(self)
    }

    fn has_closed(&self) -> bool {
        self.segment.word(SENDER_CLOSED).load(Ordering::Acquire) != 0
    }

    fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    #[cold]
    fn wait(&mut self, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let changed = match self.signal {
            Signal::Spin => looked_until(|| self.may_have_changed(), limit),
            Signal::Futex | Signal::Poll => self.slept(limit)?,
        };
        *left = left.saturating_sub(if changed { USELESS_WAKE } else { limit });
        if !changed {
            self.system_calls += 1;
            self.hung_up |= has_hung_up(&self.socket)?;
        }
        Ok(())
    }
}

impl<D: Fanout> Drop for FanoutReceiver<D> {
    fn drop(&mut self) {
        let closed = self.segment.word(CLOSED);
        closed.fetch_or(1 << self.number, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let wish = self.segment.word(WAITED_FOR).load(Ordering::Relaxed);
        if D::may_await(wish, self.number) {
            self.wake_sender(wish);
        }
    }
}

/// A message in its slots. Dropping it releases them for this receiver.
#[derive(Debug)]
pub struct FanoutSlots<'a, D: Fanout> {
    receiver: &'a mut FanoutReceiver<D>,
    claim: Claim,
}

impl<D: Fanout> FanoutSlots<'_, D> {
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
        let Claim { position, len } = self.claim;
        ring::read_message(segment, geometry, (position, len), offset, target)
    }

    /// A private copy of the message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.read(0, &mut octets);
        octets
    }
}

impl<D: Fanout> Drop for FanoutSlots<'_, D> {
    #[inline]
    fn drop(&mut self) {
        D::release(self.receiver, self.claim);
        self.receiver.answer();
    }
}
