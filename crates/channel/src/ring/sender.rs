//! The end that writes.

use super::{
    HEAD, LAST, RECEIVER_CLOSED, RECEIVER_WAITS, SENDER_CLOSED, SENDER_WAITS, TAIL, last_word,
    write_message,
};
use crate::ChannelError;
use crate::geometry::Geometry;
use crate::sync::{Ordering, fence};
use crate::sys::Segment;
use crate::wait::{Lifeline, SLEEP_MAX, Signal, Waited};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Slots of a run of messages that are published together: the receiver takes the line of [`HEAD`] from this processor each time
/// it looks.
const COMMITTED_TOGETHER: u32 = 16;

/// The end of a channel that writes. Dropping it closes the channel after what it committed.
#[derive(Debug)]
pub struct ChannelSender {
    segment: Segment,
    geometry: Geometry,
    lifeline: Lifeline,
    /// Slots committed: the true value of [`HEAD`], which the peer cannot change.
    head: u32,
    /// [`HEAD`] as the receiver can see it: behind only within a run.
    published: u32,
    /// The true value of [`LAST`].
    last: u32,
    /// [`TAIL`] as it was read last, and checked.
    tail: u32,
    /// Whether the end of this one is no close.
    aborted: bool,
}

impl ChannelSender {
    pub(crate) fn new(
        segment: Segment,
        geometry: Geometry,
        socket: Arc<UnixStream>,
        signal: Signal,
    ) -> Self {
        let lifeline = Lifeline::new(socket, signal, segment.word(SENDER_WAITS));
        Self {
            segment,
            geometry,
            lifeline,
            head: 0,
            published: 0,
            last: 0,
            tail: 0,
            aborted: false,
        }
    }

    /// The channel's geometry.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// System calls of this end since it was opened: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.lifeline.system_calls()
    }

    /// Whether a message of `len` octets has room now.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message that the ring never holds, [`ChannelError::PeerGone`] when
    /// there is no room and the receiver has closed its end or was found gone, [`ChannelError::Corrupt`] when it released
    /// messages that it cannot have.
    pub fn has_room(&mut self, len: usize) -> Result<bool, ChannelError> {
        let needed = self.geometry.slots_of_message(len)?;
        let slots = self.geometry.slots();
        if slots - self.head.wrapping_sub(self.tail) >= needed {
            return Ok(true);
        }
        // The receiver's word is read only here: it lies in a line that the receiver writes.
        let tail = self.segment.word(TAIL).load(Ordering::Acquire);
        let behind = self.geometry.check_tail(self.head, tail)?;
        self.tail = tail;
        let has_room = slots - behind >= needed;
        let closed = || self.segment.word(RECEIVER_CLOSED).load(Ordering::Acquire) != 0;
        if !has_room && (self.lifeline.has_hung_up() || closed()) {
            return Err(ChannelError::PeerGone);
        }
        Ok(has_room)
    }

    /// Waits until a message of `len` octets has room; whether it has within `limit`.
    ///
    /// # Errors
    /// Those of [`Self::has_room`].
    #[inline]
    pub fn wait_for_room(&mut self, len: usize, limit: Duration) -> Result<bool, ChannelError> {
        if self.is_known_to_fit(len) {
            return Ok(true);
        }
        self.sleep_for_room(len, limit)
    }

    /// Whether a message of `len` octets has room in slots that are known to be free.
    #[inline]
    fn is_known_to_fit(&self, len: usize) -> bool {
        let free = self.geometry.slots() - self.head.wrapping_sub(self.tail);
        len <= self.geometry.capacity() as usize && self.geometry.slots_of(len as u32) <= free
    }

    #[cold]
    fn sleep_for_room(&mut self, len: usize, limit: Duration) -> Result<bool, ChannelError> {
        let mut left = limit;
        while !self.has_room(len)? {
            if left.is_zero() {
                return Ok(false);
            }
            let waited = waited(&self.segment, self.tail);
            self.lifeline.wait(waited, &mut left)?;
        }
        Ok(true)
    }

    /// Asks the receiver to make the channel's socket readable with the next message that it releases;
    /// false when `len` octets have room now. For an end that polls ([`Signal::Poll`]): it polls the socket,
    /// takes the wakes out of it, and asks again before each wait.
    ///
    /// # Errors
    /// Those of [`Self::has_room`].
    pub fn prepare_poll(&mut self, len: usize) -> Result<bool, ChannelError> {
        if self.has_room(len)? {
            return Ok(false);
        }
        let waited = waited(&self.segment, self.tail);
        Ok(self.lifeline.prepare_poll(waited))
    }

    /// Free slots for a message of `len` octets, to be written and committed. Waits until there are
    /// as many.
    ///
    /// # Errors
    /// Those of [`Self::has_room`].
    pub fn lend(&mut self, len: usize) -> Result<LentSlots<'_>, ChannelError> {
        while !self.wait_for_room(len, SLEEP_MAX)? {}
        Ok(LentSlots {
            sender: self,
            len: len as u32,
        })
    }

    /// Copies `message` into slots and commits it. Waits until there is room.
    ///
    /// # Errors
    /// Those of [`Self::has_room`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let mut lent = self.lend(message.len())?;
        lent.write(0, message)?;
        lent.commit(message.len())
    }

    /// The same, if the message has room within `limit`; whether it had.
    ///
    /// # Errors
    /// Those of [`Self::has_room`].
    #[inline]
    pub fn send_within(&mut self, message: &[u8], limit: Duration) -> Result<bool, ChannelError> {
        if !self.wait_for_room(message.len(), limit)? {
            return Ok(false);
        }
        write_message(&self.segment, self.geometry, self.head, 0, message);
        self.commit(message.len() as u32)?;
        Ok(true)
    }

    /// Copies `message` into slots up to `count` times and commits each; waits for room for `limit` each time. Returns how many
    /// had room. The receiver is signalled for several together, for all before a wait.
    ///
    /// # Errors
    /// Those of [`Self::has_room`], if no message was committed before.
    #[inline]
    pub fn send_run_within(
        &mut self,
        message: &[u8],
        count: usize,
        limit: Duration,
    ) -> Result<usize, ChannelError> {
        for done in 0..count {
            if !self.is_known_to_fit(message.len()) {
                self.publish_after(1)?;
                match self.sleep_for_room(message.len(), limit) {
                    Ok(true) => {}
                    Err(error) if done == 0 => return Err(error),
                    Ok(false) | Err(_) => return Ok(done),
                }
            }
            write_message(&self.segment, self.geometry, self.head, 0, message);
            self.place(message.len() as u32);
            self.publish_after(COMMITTED_TOGETHER)?;
        }
        self.publish_after(1)?;
        Ok(count)
    }

    /// Makes the slots behind the head a message of `len` octets, and signals the receiver.
    #[inline]
    fn commit(&mut self, len: u32) -> Result<(), ChannelError> {
        self.place(len);
        self.publish()
    }

    /// Makes the slots behind the head a message of `len` octets, which the receiver does not see yet.
    #[inline]
    fn place(&mut self, len: u32) {
        let at = self.geometry.length_offset(self.head);
        self.segment.word(at).store(len, Ordering::Relaxed);
        self.last = last_word(self.head, len);
        self.head = self.head.wrapping_add(self.geometry.slots_of(len));
        // Before the notice, whose result is returned where it is made: to keep it would have its copy wait for all stores so far.
        self.fetch_next();
    }

    /// [`publish`](Self::publish), if `slots` or more are not published.
    #[inline]
    fn publish_after(&mut self, slots: u32) -> Result<(), ChannelError> {
        if self.head.wrapping_sub(self.published) < slots {
            return Ok(());
        }
        self.publish()
    }

    /// Shows the receiver all messages up to the head, and signals it.
    #[inline]
    fn publish(&mut self) -> Result<(), ChannelError> {
        self.published = self.head;
        self.segment.word(LAST).store(self.last, Ordering::Relaxed);
        self.lifeline.notify(
            self.segment.word(HEAD),
            self.head,
            self.segment.word(RECEIVER_WAITS),
        )
    }

    /// Takes the line of the next message from the receiver's processor, which read it a lap ago, while this end has
    /// something else to do.
    #[inline]
    fn fetch_next(&self) {
        let at = self.geometry.place(self.head, 0).0;
        self.segment.fetch_to_write(at);
    }

    /// The socket of the channel. It is readable after a wake, until [`take_wakes`](Self::take_wakes), and
    /// when the receiver is gone.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.lifeline.descriptor()
    }

    /// Takes the wakes that made the descriptor readable, for all channels over its socket.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn take_wakes(&mut self) -> Result<(), ChannelError> {
        self.lifeline.take_wakes()
    }

    /// Whether the receiver's process, or its end, is gone. Costs a system call.
    ///
    /// # Errors
    /// A poll that the system refuses.
    pub fn peer_gone(&mut self) -> Result<bool, ChannelError> {
        self.lifeline.look()
    }

    /// Ends the channel as if this process were gone: the receiver gets what was committed, then an error.
    /// A channel the other way over the same socket ends with it.
    pub fn abort(mut self) {
        self.aborted = true;
        self.lifeline.cut();
    }

    /// Whether the receiver closed its end, perhaps before it could see what was committed last. Costs
    /// a fence.
    #[must_use]
    pub fn peer_has_closed(&self) -> bool {
        fence(Ordering::SeqCst);
        self.segment.word(RECEIVER_CLOSED).load(Ordering::Acquire) != 0
    }

    /// Whether the receiver is seen to have closed its end, which may be some time after it has. Costs no fence.
    #[must_use]
    pub fn peer_is_seen_closed(&self) -> bool {
        self.segment.word(RECEIVER_CLOSED).load(Ordering::Acquire) != 0
    }

    /// As if messages of `position` slots had gone through an empty ring.
    #[cfg(test)]
    pub(super) fn start_at(&mut self, position: u32) {
        (self.head, self.published, self.tail) = (position, position, position);
        self.segment.word(HEAD).store(position, Ordering::Release);
        self.segment.word(TAIL).store(position, Ordering::Release);
    }

    #[cfg(test)]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// The words of `segment` that a sender waits for which has seen `tail`.
fn waited(segment: &Segment, tail: u32) -> Waited<'_> {
    Waited {
        position: segment.word(TAIL),
        seen: tail,
        peer_closed: segment.word(RECEIVER_CLOSED),
        waits: segment.word(SENDER_WAITS),
    }
}

impl Drop for ChannelSender {
    fn drop(&mut self) {
        if self.aborted {
            return;
        }
        self.segment.word(SENDER_CLOSED).store(1, Ordering::Release);
        // The position is the same, so a receiver that is about to sleep on it may miss this wake;
        // it looks again after its sleep.
        let _ = self.lifeline.notify(
            self.segment.word(HEAD),
            self.head,
            self.segment.word(RECEIVER_WAITS),
        );
    }
}

/// Slots lent to the user for one message. Dropped without a commit they stay free, and nothing is sent.
#[derive(Debug)]
pub struct LentSlots<'a> {
    sender: &'a mut ChannelSender,
    /// Octets that were asked for.
    len: u32,
}

impl LentSlots<'_> {
    /// The number of the first slot: what an earlier message wrote into the same ones is there still.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.sender.head & (self.sender.geometry.slots() - 1)
    }

    /// Writes `octets` at `offset` of the message.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] beyond what was asked for.
    #[inline]
    pub fn write(&mut self, offset: usize, octets: &[u8]) -> Result<(), ChannelError> {
        self.check_len(offset.saturating_add(octets.len()))?;
        let sender = &*self.sender;
        write_message(
            &sender.segment,
            sender.geometry,
            sender.head,
            offset,
            octets,
        );
        Ok(())
    }

    /// Sends the first `len` octets of the slots and signals the receiver. Octets that were not written
    /// are what an earlier message left there.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`], and a signal that the system refuses.
    #[inline]
    pub fn commit(self, len: usize) -> Result<(), ChannelError> {
        self.check_len(len)?;
        self.sender.commit(len as u32)
    }

    fn check_len(&self, len: usize) -> Result<(), ChannelError> {
        if len <= self.len as usize {
            return Ok(());
        }
        Err(ChannelError::TooLong { len, max: self.len })
    }
}
