//! The end that reads.

use super::{
    Arrival, HEAD, Incoming, LAST, NextMessage, RECEIVER_CLOSED, RECEIVER_WAITS, SENDER_CLOSED,
    SENDER_WAITS, TAIL, last_len, read_message,
};
use crate::ChannelError;
use crate::geometry::Geometry;
use crate::sync::{Ordering, fence};
use crate::sys::Segment;
use crate::wait::{self, Lifeline, Signal, Waited};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Slots that are released together while more messages are known to be there, and no more than an eighth of the ring: the
/// sender takes the line of [`TAIL`] from this processor each time it looks.
const RELEASED_TOGETHER: u32 = 32;

/// Slots behind the tail whose lines are fetched while the message at the tail is read.
const FETCHED_AHEAD: u32 = 24;

/// The end of a channel that reads.
#[derive(Debug)]
pub struct ChannelReceiver {
    segment: Segment,
    geometry: Geometry,
    lifeline: Lifeline,
    /// Slots released: the true value of [`TAIL`], which the peer cannot change.
    tail: u32,
    /// [`TAIL`] as the sender can see it.
    published: u32,
    /// [`HEAD`] as it was read last, and checked.
    head: u32,
    /// [`LAST`] as it was read after that.
    last: u32,
    /// The sender was asked to make the descriptor readable.
    asked: bool,
    /// It has answered, and its wake was not taken out of the socket.
    answered: bool,
}

impl ChannelReceiver {
    pub(crate) fn new(
        segment: Segment,
        geometry: Geometry,
        socket: Arc<UnixStream>,
        signal: Signal,
    ) -> Self {
        let lifeline = Lifeline::new(socket, signal, segment.word(RECEIVER_WAITS));
        Self {
            segment,
            geometry,
            lifeline,
            tail: 0,
            published: 0,
            head: 0,
            last: 0,
            asked: false,
            answered: false,
        }
    }

    /// The channel's geometry, which its opener chose.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// System calls of this end since it was opened: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.lifeline.system_calls()
    }

    /// What is in the ring now.
    ///
    /// # Errors
    /// [`ChannelError::PeerGone`] when the sender was found gone without closing, after all that it
    /// committed; [`ChannelError::Corrupt`] for a position that it cannot have.
    #[inline]
    pub fn look(&mut self) -> Result<Arrival, ChannelError> {
        self.arrival()
    }

    /// Waits until there is a message or the end, for `limit` at most.
    ///
    /// # Errors
    /// Those of [`Self::look`].
    #[inline]
    pub fn wait_for_message(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        self.arrival_within(limit)
    }

    /// The next message, in its slots until it is dropped. Waits while there is none; `None` when the
    /// sender closed the channel and all was received.
    ///
    /// # Errors
    /// Those of [`Self::look`], and [`ChannelError::Corrupt`] for a length that no message has.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<ReceivedSlots<'_>>, ChannelError> {
        let next = self.next_or_end()?;
        Ok(next.map(|len| self.slots(len)))
    }

    /// The next message, in its slots until it is dropped, if one comes within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<NextMessage<ReceivedSlots<'_>>, ChannelError> {
        let next = self.next_within(limit)?;
        Ok(next.map(|len| self.slots(len)))
    }

    #[inline]
    fn slots(&mut self, len: u32) -> ReceivedSlots<'_> {
        ReceivedSlots {
            receiver: self,
            len,
        }
    }

    /// Asks the sender to make the [`descriptor`](Self::descriptor) readable with its next message; false
    /// when there is one now, or the end. For an end that polls ([`Signal::Poll`]); a message that is received
    /// takes the wish back, so it is asked before each wait.
    ///
    /// # Errors
    /// Those of [`Self::look`].
    pub fn prepare_poll(&mut self) -> Result<bool, ChannelError> {
        if self.look()? != Arrival::Nothing {
            return Ok(false);
        }
        self.asked = true;
        let waited = waited(&self.segment, self.head);
        Ok(self.lifeline.prepare_poll(waited))
    }

    /// The socket of the channel. It is readable after a wake, until [`take_wakes`](Self::take_wakes), and
    /// when the sender is gone.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.lifeline.descriptor()
    }

    /// Takes the wakes that made the descriptor readable, for all channels over its socket; notices when the
    /// sender is gone, as [`Self::look`] says then.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn take_wakes(&mut self) -> Result<(), ChannelError> {
        self.answered = false;
        self.lifeline.take_wakes()
    }

    /// As [`take_wakes`](Self::take_wakes), if the sender answered a wish that a received message took back: else the
    /// descriptor stays readable, and the next poll of it returns for nothing.
    ///
    /// # Errors
    /// What the system refuses.
    #[inline]
    pub fn take_answer(&mut self) -> Result<(), ChannelError> {
        if self.answered {
            self.take_wakes()?;
        }
        Ok(())
    }

    /// The words that this end waits for.
    pub(crate) fn waited(&self) -> Waited<'_> {
        waited(&self.segment, self.head)
    }

    /// Whether this end looks at the ring instead of sleeping.
    pub(crate) fn spins(&self) -> bool {
        self.lifeline.spins()
    }

    /// Looks whether the sender's process is gone; the next look at the ring says so.
    pub(crate) fn look_at_lifeline(&mut self) -> Result<(), ChannelError> {
        self.lifeline.look().map(drop)
    }

    /// Says to the sender that nobody receives any more; what is in the ring can still be taken.
    pub(crate) fn close(&mut self) {
        let closed = self.segment.word(RECEIVER_CLOSED);
        closed.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Gives the slots before the tail to the sender, unless it has use for more of them together.
    #[inline]
    fn release(&mut self) {
        let unpublished = self.tail.wrapping_sub(self.published);
        let together = RELEASED_TOGETHER.min(self.geometry.slots() / 8);
        let waits = self.segment.word(SENDER_WAITS);
        if unpublished < together && self.tail != self.head && !wait::needs_wake(waits) {
            return;
        }
        self.published = self.tail;
        // A wake that fails delays the sender by one sleep, after which it looks itself.
        let position = self.segment.word(TAIL);
        let _ = self.lifeline.notify(position, self.tail, waits);
    }

    /// As if messages of `position` slots had gone through an empty ring.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, position: u32) {
        (self.head, self.tail, self.published) = (position, position, position);
        self.segment.word(HEAD).store(position, Ordering::Release);
        self.segment.word(TAIL).store(position, Ordering::Release);
    }

    #[cfg(test)]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }
}

impl Incoming for ChannelReceiver {
    type Claim = u32;

    /// Whether a message is there; the sender's word is read only if none is known to be.
    #[inline]
    fn has_message(&mut self) -> Result<bool, ChannelError> {
        if self.head != self.tail {
            return Ok(true);
        }
        let head = self.segment.word(HEAD).load(Ordering::Acquire);
        self.geometry.check_head(head, self.tail)?;
        self.head = head;
        self.last = self.segment.word(LAST).load(Ordering::Relaxed);
        Ok(self.head != self.tail)
    }

    /// The length of the message at the tail, read once and checked.
    #[inline]
    fn claim(&mut self) -> Result<Option<u32>, ChannelError> {
        if !self.has_message()? {
            return Ok(None);
        }
        if self.asked {
            self.asked = false;
            let waits = self.segment.word(RECEIVER_WAITS);
            self.answered |= self.lifeline.stop_polling(waits);
        }
        let len = last_len(self.last, self.tail, self.geometry.slots()).unwrap_or_else(|| {
            let at = self.geometry.length_offset(self.tail);
            self.segment.word(at).load(Ordering::Relaxed)
        });
        let committed = self.head.wrapping_sub(self.tail);
        if committed > FETCHED_AHEAD {
            let ahead = self.tail.wrapping_add(FETCHED_AHEAD);
            self.segment.fetch(self.geometry.place(ahead, 0).0);
            self.segment.fetch(self.geometry.length_offset(ahead));
        }
        self.geometry.check_len(len, committed)?;
        Ok(Some(len))
    }

    #[inline]
    fn has_closed(&self) -> bool {
        self.segment.word(SENDER_CLOSED).load(Ordering::Acquire) != 0
    }

    #[inline]
    fn has_hung_up(&self) -> bool {
        self.lifeline.has_hung_up()
    }

    fn wait(&mut self, left: &mut Duration) -> Result<(), ChannelError> {
        let waited = waited(&self.segment, self.head);
        self.lifeline.wait(waited, left)
    }
}

/// The words of `segment` that a receiver waits for which has seen `head`.
fn waited(segment: &Segment, head: u32) -> Waited<'_> {
    Waited {
        position: segment.word(HEAD),
        seen: head,
        peer_closed: segment.word(SENDER_CLOSED),
        waits: segment.word(RECEIVER_WAITS),
    }
}

impl Drop for ChannelReceiver {
    fn drop(&mut self) {
        self.close();
        let (word, waiting) = (self.segment.word(TAIL), self.segment.word(SENDER_WAITS));
        // As at the sender's close, a wake that is missed costs one sleep.
        let _ = self.lifeline.notify(word, self.tail, waiting);
    }
}

/// A message in its slots. Dropping it releases them to the sender.
#[derive(Debug)]
pub struct ReceivedSlots<'a> {
    receiver: &'a mut ChannelReceiver,
    /// Octets of the message: the copy that was checked.
    len: u32,
}

impl ReceivedSlots<'_> {
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

    /// Copies the octets from `offset` on into `target`, as many as both have, and returns how many. A
    /// hostile sender can change octets between two reads: parse the copy, not the slots.
    #[inline]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> usize {
        let receiver = &*self.receiver;
        let (segment, geometry) = (&receiver.segment, receiver.geometry);
        read_message(segment, geometry, (receiver.tail, self.len), offset, target)
    }

    /// A private copy of the message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.read(0, &mut octets);
        octets
    }
}

impl Drop for ReceivedSlots<'_> {
    #[inline]
    fn drop(&mut self) {
        let receiver = &mut *self.receiver;
        let slots = receiver.geometry.slots_of(self.len);
        receiver.tail = receiver.tail.wrapping_add(slots);
        receiver.release();
    }
}
