//! The end that reads what many senders write.

use super::{
    CLOSED, LENGTH_LEN, Place, Places, RECEIVER_CLOSED, RECEIVER_WAITS, SENDERS_MAX, TAIL, WAITING,
};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::sync::{AtomicU32, Ordering, fence};
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, SLEEPS, USELESS_WAKE, has_hung_up};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The end of a ring of many senders that reads, and owns it. Dropping it closes the ring.
#[derive(Debug)]
pub struct GatherReceiver {
    places: Places,
    /// None in models.
    memory: Option<OwnedFd>,
    /// The sockets of senders, by number less one.
    senders: Vec<UnixStream>,
    /// A bit for each sender that was found gone.
    gone: u32,
    tail: u32,
    passed_over: u64,
}

/// What a receive brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathered {
    /// A message: the number of its sender, and its octets.
    Message {
        /// Number of the sender, from 1 on.
        sender: u32,
        /// Octets of the message; what exceeds the buffer is dropped.
        len: usize,
    },
    /// No message came in time.
    Nothing,
    /// All senders that were admitted are gone, and all was received.
    End,
}

impl GatherReceiver {
    /// Makes the memory of a ring. A slot holds a message and its length of four octets.
    ///
    /// # Errors
    /// Memory that the system refuses.
    pub fn create(geometry: Geometry) -> Result<Self, ChannelError> {
        let (segment, memory) = Segment::create(geometry.segment_len())?;
        Ok(Self::new(segment, geometry, Some(memory)))
    }

    pub(super) fn new(segment: Segment, geometry: Geometry, memory: Option<OwnedFd>) -> Self {
        Self {
            places: Places { segment, geometry },
            memory,
            senders: Vec::new(),
            gone: 0,
            tail: 0,
            passed_over: 0,
        }
    }

    /// Admits the process at the other end of `socket` as a sender, which calls [`GatherSender::join`](super::GatherSender::join);
    /// its number.
    ///
    /// # Errors
    /// [`ChannelError::SendersFull`]; a peer of another user; what the system refuses.
    pub fn admit(&mut self, socket: UnixStream) -> Result<u32, ChannelError> {
        let number = self.senders.len() as u32 + 1;
        let memory = match &self.memory {
            Some(memory) if number <= SENDERS_MAX => memory,
            _ => return Err(ChannelError::SendersFull),
        };
        opening::offer_member(&socket, memory, self.places.geometry, number)?;
        self.senders.push(socket);
        Ok(number)
    }

    /// Places of senders that were gone before they committed, so far.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Senders that were found gone without having closed their end, so far.
    #[must_use]
    pub fn killed(&self) -> u32 {
        let closed = self.places.segment.word(CLOSED).load(Ordering::Acquire);
        (self.gone & !closed).count_ones()
    }

    /// Copies the next message into `buffer`; waits for it for `limit` at most.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for a word or a length that no correct sender writes; a wait that the system refuses.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> Result<Gathered, ChannelError> {
        let mut left = limit;
        loop {
            let position = self.tail;
            let seen = self.places.word(position).load(Ordering::Acquire);
            match self.places.place(position, seen) {
                Place::Committed(sender) => return self.take(sender, buffer),
                Place::Claimed(sender) if self.is_gone(sender) => self.pass_over(seen)?,
                Place::Free if self.has_ended() => return Ok(Gathered::End),
                Place::Free | Place::Claimed(_) if left.is_zero() => return Ok(Gathered::Nothing),
                Place::Free | Place::Claimed(_) => self.sleep(seen, &mut left)?,
                Place::Other => return Err(corrupt("a claim of", seen)),
            }
        }
    }

    fn is_gone(&self, sender: u32) -> bool {
        self.gone & 1 << sender != 0
    }

    /// Whether all senders are gone; whatever they sent is visible then, and was not at the tail.
    fn has_ended(&self) -> bool {
        let admitted = self.senders.len() as u32;
        admitted > 0 && self.gone.count_ones() == admitted && {
            let word = self.places.word(self.tail).load(Ordering::Acquire);
            self.places.place(self.tail, word) == Place::Free
        }
    }

    /// The message at the tail, with its length read once and checked.
    fn take(&mut self, sender: u32, buffer: &mut [u8]) -> Result<Gathered, ChannelError> {
        let slot = self.places.slot(self.tail);
        let mut len = [0; LENGTH_LEN];
        self.places.segment.read(slot, &mut len);
        let len = u32::from_ne_bytes(len);
        if len as usize > self.places.message_max() {
            return Err(corrupt("a message's length of", len));
        }
        let count = buffer.len().min(len as usize);
        self.places
            .segment
            .read(slot + LENGTH_LEN, &mut buffer[..count]);
        self.release()?;
        Ok(Gathered::Message {
            sender,
            len: len as usize,
        })
    }

    /// Frees the place of a sender that is gone, unless it has committed it.
    fn pass_over(&mut self, claimed: u32) -> Result<(), ChannelError> {
        let word = self.places.word(self.tail);
        if word.load(Ordering::Acquire) == claimed {
            self.passed_over += 1;
            self.release()?;
        }
        Ok(())
    }

    /// Frees the place at the tail for the next lap, and wakes a sender that waits for room.
    fn release(&mut self) -> Result<(), ChannelError> {
        let next_lap = self.tail.wrapping_add(self.places.geometry.slots());
        let word = self.places.word(self.tail);
        word.store(self.places.free(next_lap), Ordering::Release);
        self.tail = self.tail.wrapping_add(1);
        let tail = self.places.segment.word(TAIL);
        tail.store(self.tail, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.places.segment.word(WAITING).load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => kernel::wake_one(tail),
        }
    }

    /// Sleeps until the word of the place at the tail is no more what it was, and looks at the sockets after a whole sleep.
    fn sleep(&mut self, seen: u32, left: &mut Duration) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let has_changed = self.slept_on(self.places.word(self.tail), seen, limit)?;
        *left = left.saturating_sub(if has_changed { USELESS_WAKE } else { limit });
        if !has_changed {
            self.look_at_senders()?;
        }
        Ok(())
    }

    fn slept_on(&self, word: &AtomicU32, seen: u32, limit: Duration) -> Result<bool, ChannelError> {
        let waits = self.places.segment.word(RECEIVER_WAITS);
        waits.store(SLEEPS, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = match word.load(Ordering::Acquire) == seen {
            true => kernel::sleep_on(word, seen, limit),
            false => Ok(true),
        };
        waits.store(0, Ordering::Relaxed);
        slept
    }

    fn look_at_senders(&mut self) -> Result<(), ChannelError> {
        for (index, socket) in self.senders.iter().enumerate() {
            let bit = 2 << index;
            if self.gone & bit == 0 && has_hung_up(socket)? {
                self.gone |= bit;
            }
        }
        Ok(())
    }
}

impl Drop for GatherReceiver {
    fn drop(&mut self) {
        let closed = self.places.segment.word(RECEIVER_CLOSED);
        closed.store(1, Ordering::SeqCst);
    }
}

fn corrupt(what: &'static str, value: u32) -> ChannelError {
    ChannelError::Corrupt { what, value }
}
