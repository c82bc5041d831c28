//! An end that writes, one of many.

use super::{CLOSED, LENGTH_LEN, Place, Places, RECEIVER_CLOSED, RECEIVER_WAITS, TAIL, WAITING};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::sync::{Ordering, fence};
use crate::wait::{SLEEP_MAX, SLEEPS, USELESS_WAKE, has_hung_up};
use std::cmp;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of the senders of a ring. Dropping it closes its end after what it sent.
#[derive(Debug)]
pub struct GatherSender {
    pub(super) places: Places,
    socket: UnixStream,
    number: u32,
    /// Where the next claim is tried first.
    next: u32,
    collisions: u64,
}

impl GatherSender {
    /// Joins the ring of the process at the other end of `socket`, which calls
    /// [`GatherReceiver::admit`](super::GatherReceiver::admit).
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of another length than
    /// announced.
    pub fn join(socket: UnixStream) -> Result<Self, ChannelError> {
        let (segment, _, geometry, number) =
            opening::accept_member(&socket, Geometry::segment_len)?;
        if number == 0 || number > super::SENDERS_MAX {
            return Err(ChannelError::Corrupt {
                what: "a sender's number of",
                value: number,
            });
        }
        Ok(Self::new(Places { segment, geometry }, socket, number))
    }

    pub(super) fn new(places: Places, socket: UnixStream, number: u32) -> Self {
        Self {
            places,
            socket,
            number,
            next: 0,
            collisions: 0,
        }
    }

    /// The number that the receiver gave this sender, from 1 on.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Claims that another sender was faster with.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Octets of the longest message: a slot less its length.
    #[must_use]
    pub fn message_max(&self) -> usize {
        self.places.message_max()
    }

    /// Sends a message, for whose room it waits for `limit` at most; whether it had room.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message longer than a slot holds; [`ChannelError::PeerGone`] without room and a
    /// receiver; a wait or a wake that the system refuses.
    pub fn send(&mut self, message: &[u8], limit: Duration) -> Result<bool, ChannelError> {
        let max = self.places.message_max();
        if message.len() > max {
            return Err(ChannelError::TooLong {
                len: message.len(),
                max: max as u32,
            });
        }
        let mut left = limit;
        let position = loop {
            match self.claim() {
                Some(position) => break position,
                None if left.is_zero() => return self.without_room(),
                None => self.wait_for_room(&mut left)?,
            }
        };
        self.write(position, message);
        self.commit(position)?;
        Ok(true)
    }

    /// The next place, claimed; None when the ring is full.
    pub(super) fn claim(&mut self) -> Option<u32> {
        let slots = self.places.geometry.slots();
        // Claims leave no holes, so the place before says that all before are taken; a hint from long ago may be wrong.
        if self.next != self.tail() && !self.is_taken(self.next.wrapping_sub(1)) {
            self.next = self.tail();
        }
        // Twice around: a tail that never rests keeps nobody here.
        for _ in 0..=2 * slots {
            let (position, tail) = (self.next, self.tail());
            match position.wrapping_sub(tail).cmp(&slots) {
                cmp::Ordering::Equal => return None,
                cmp::Ordering::Greater => {
                    self.next = tail;
                    continue;
                }
                cmp::Ordering::Less => {}
            }
            if self.is_taken(position) {
                self.next = position.wrapping_add(1);
                continue;
            }
            let free = self.places.free(position);
            let claimed = self.places.claimed(position, self.number);
            let word = self.places.word(position);
            let swapped = word.compare_exchange(free, claimed, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_ok() {
                self.next = position.wrapping_add(1);
                return Some(position);
            }
            self.collisions += 1;
        }
        None
    }

    fn tail(&self) -> u32 {
        self.places.segment.word(TAIL).load(Ordering::Acquire)
    }

    /// Whether the place was claimed, or read since.
    fn is_taken(&self, position: u32) -> bool {
        let word = self.places.word(position).load(Ordering::Acquire);
        match self.places.place(position, word) {
            Place::Free => false,
            Place::Claimed(_) | Place::Committed(_) => true,
            // Freed for the next lap, when the receiver has read it.
            Place::Other => {
                let next_lap = position.wrapping_add(self.places.geometry.slots());
                self.places.place(next_lap, word) != Place::Other
            }
        }
    }

    fn write(&self, position: u32, message: &[u8]) {
        let slot = self.places.slot(position);
        let len = message.len() as u32;
        self.places.segment.write(slot, &len.to_ne_bytes());
        self.places.segment.write(slot + LENGTH_LEN, message);
    }

    fn commit(&self, position: u32) -> Result<(), ChannelError> {
        let word = self.places.word(position);
        let committed = self.places.claimed(position, self.number) | super::COMMITTED;
        word.store(committed, Ordering::Release);
        fence(Ordering::SeqCst);
        let waits = self.places.segment.word(RECEIVER_WAITS);
        match waits.load(Ordering::Relaxed) {
            SLEEPS => kernel::wake_one(word),
            _ => Ok(()),
        }
    }

    fn without_room(&self) -> Result<bool, ChannelError> {
        let closed = self.places.segment.word(RECEIVER_CLOSED);
        match closed.load(Ordering::Acquire) != 0 || has_hung_up(&self.socket)? {
            true => Err(ChannelError::PeerGone),
            false => Ok(false),
        }
    }

    /// Sleeps until the tail moves, and takes the time off `left`.
    fn wait_for_room(&self, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let waiting = self.places.segment.word(WAITING);
        let tail = self.places.segment.word(TAIL);
        waiting.fetch_add(1, Ordering::Relaxed);
        // The fence stands between count and tail as the receiver's between tail and count: one of both sees the other's.
        fence(Ordering::SeqCst);
        let seen = tail.load(Ordering::Acquire);
        let is_full = self.next.wrapping_sub(seen) == self.places.geometry.slots();
        let slept = match is_full {
            true => kernel::sleep_on(tail, seen, limit),
            false => Ok(true),
        };
        waiting.fetch_sub(1, Ordering::Relaxed);
        let has_changed = slept?;
        *left = left.saturating_sub(if has_changed { USELESS_WAKE } else { limit });
        if !has_changed {
            self.without_room()?;
        }
        Ok(())
    }
}

impl Drop for GatherSender {
    fn drop(&mut self) {
        let closed = self.places.segment.word(CLOSED);
        closed.fetch_or(1 << self.number, Ordering::SeqCst);
    }
}
