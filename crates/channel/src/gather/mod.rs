//! One ring of many senders: each claims a place, and finds out when another was faster.
//!
//! The receiver makes the memory ([`GatherReceiver::create`]) and admits senders, each with a socket and a number
//! ([`GatherSender::join`]). A message has one slot. A slot has a word: the lap of the ring for which it is free, claimed or
//! committed, and the number of the sender that claimed it. A claim is a compare-and-swap from free to claimed; one that
//! fails is a collision, which is counted, and the sender goes on to the next place. A place is claimed only if the one
//! before it is, so that claims leave no holes and the receiver reads in the order of claims.
//!
//! The receiver waits for the place at its tail, claimed or not. A sender that is gone between claim and commit has
//! its number in the word: the receiver passes over the place. All of them can write all of it: they trust each other with
//! contents, as members of an arena do; lengths and words are checked.

#[cfg(all(test, feature = "loom"))]
mod models;
mod receiver;
mod sender;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use receiver::{GatherReceiver, Gathered};
pub use sender::GatherSender;

use crate::geometry::Geometry;
use crate::sync::AtomicU32;
use crate::sys::Segment;

/// Most senders of a ring: their numbers fit a word beside a lap, and one wait looks at all sockets.
pub const SENDERS_MAX: u32 = 31;

/// Messages taken or passed over. Written by the receiver; senders wait on it.
const TAIL: usize = 0;

/// Senders that wait for room. One that is killed meanwhile leaves its count, which costs a wake a message.
const WAITING: usize = 128;

/// A bit for each sender that has closed its end.
const CLOSED: usize = 256;

/// How the receiver waits: awake, or asleep until the word of its place changes.
const RECEIVER_WAITS: usize = 512;

/// Whether the receiver has closed its end.
const RECEIVER_CLOSED: usize = 640;

/// Octets in front of a message in its slot: its length.
const LENGTH_LEN: usize = 4;

/// Bits of a word below the lap: whether it is committed, and the sender's number.
const LAP_SHIFT: u32 = 6;
const COMMITTED: u32 = 1 << 5;
const NUMBER: u32 = COMMITTED - 1;

/// What the word of a place says, of the lap in which it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nobody has it.
    Free,
    /// A sender writes it.
    Claimed(u32),
    /// A sender's message is there.
    Committed(u32),
    /// It is another lap's.
    Other,
}

/// The words of the places of a ring.
#[derive(Debug)]
struct Places {
    segment: Segment,
    geometry: Geometry,
}

impl Places {
    fn word(&self, position: u32) -> &AtomicU32 {
        self.segment.word(self.geometry.length_offset(position))
    }

    /// The word of a free place. Positions wrap at 2^32 and laps with them.
    fn free(&self, position: u32) -> u32 {
        (position >> self.geometry.slots().trailing_zeros()) << LAP_SHIFT
    }

    fn claimed(&self, position: u32, number: u32) -> u32 {
        self.free(position) | number
    }

    fn place(&self, position: u32, word: u32) -> Place {
        if word & !(NUMBER | COMMITTED) != self.free(position) {
            return Place::Other;
        }
        match (word & NUMBER, word & COMMITTED != 0) {
            (0, false) => Place::Free,
            (0, true) => Place::Other,
            (number, false) => Place::Claimed(number),
            (number, true) => Place::Committed(number),
        }
    }

    /// Where the slot of a position begins.
    fn slot(&self, position: u32) -> usize {
        self.geometry.place(position, 0).0
    }

    /// Octets of the longest message.
    fn message_max(&self) -> usize {
        self.geometry.slot_len() as usize - LENGTH_LEN
    }
}
