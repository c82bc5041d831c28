//! One ring of many receivers: a message is written once, and each of them reads all.
//!
//! The sender makes the memory ([`BroadcastSender::create`]) and admits receivers, each with a socket and a number
//! ([`BroadcastReceiver::join`]); a receiver gets what is sent after its admission. Slots and positions are those of a ring of
//! one receiver ([`crate::ChannelSender`]). Each receiver has a position of its own. The sender waits for the one that is
//! furthest behind, and says for which and for how much, so that only that one wakes it, and once. A receiver that sleeps sets its bit in one word; the
//! sender takes all bits at once, and wakes all by one call.
//!
//! A receiver that closes its end, or whose socket hangs up, is waited for no more. All of them can write all of it: they trust
//! each other with contents, as members of an arena do; positions and lengths are checked.

#[cfg(all(test, feature = "loom"))]
mod models;
mod receiver;
mod sender;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use receiver::{BroadcastReceiver, BroadcastSlots};
pub use sender::BroadcastSender;

/// Most receivers that a ring has in its life: each has a line of 128 octets in the page of the ends' words.
pub const BROADCAST_RECEIVERS_MAX: u32 = 24;

/// Slots committed. Written by the sender.
const HEAD: usize = 0;

/// Whether the sender has closed its end. Written by the sender.
const SENDER_CLOSED: usize = 128;

/// A bit for each receiver that sleeps, or is about to. One that is killed meanwhile leaves its bit, which costs one wake.
const ASLEEP: usize = 256;

/// Whom the sender waits for, and until which position: [`NOBODY`], [`NEVER`], or what [`Wanted`] makes of both.
pub(crate) const WAITED_FOR: usize = 384;

/// A bit for each receiver that has closed its end.
const CLOSED: usize = 512;

/// How often sleeping receivers were woken; they sleep on it. Other than [`HEAD`] it changes with each wake, so that one whose bit was taken
/// before it slept does not sleep on.
const RECEIVER_WAKES: usize = 640;

/// How often the sender was woken, which sleeps on it: as [`RECEIVER_WAKES`].
const SENDER_WAKES: usize = 768;

/// Slots released by the receiver of number 0; those of the others are behind it. The sender waits for the slowest.
const TAILS: usize = 1024;

/// The sender is awake.
const NOBODY: u32 = 0;

/// The sender spins, and no receiver has to look in step with its position.
const NEVER: u32 = u32::MAX;

/// What a sender that sleeps wants: one receiver's position. It fits a word, because positions that are compared are less apart than
/// a ring has slots, 2^22 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted(u32);

impl Wanted {
    const NUMBER_BITS: u32 = 5;

    /// The receiver of `number` at `position` or behind it.
    pub(crate) fn of(number: u32, position: u32) -> Self {
        Self(position << Self::NUMBER_BITS | (number + 1))
    }

    /// Whether it is this receiver's position that is wanted.
    fn is_of(self, number: u32) -> bool {
        self.0 & ((1 << Self::NUMBER_BITS) - 1) == number + 1
    }

    fn is_reached(self, position: u32) -> bool {
        let behind = (position << Self::NUMBER_BITS).wrapping_sub(self.0 & !31);
        behind.cast_signed() >= 0
    }

    pub(crate) fn word(self) -> u32 {
        self.0
    }
}

/// Where the receiver of `number` says what it has released.
fn tail_of(number: u32) -> usize {
    TAILS + 128 * number as usize
}
