//! One ring of many receivers that share the messages out: each message goes to the one that is free first.
//!
//! The sender makes the memory ([`AnycastSender::create`]) and admits receivers, each with a socket and a number
//! ([`AnycastReceiver::join`]). Slots and positions are those of a ring of one receiver ([`crate::ChannelSender`]). A receiver that is
//! free claims the next message: it says which position it is about to hold, sees that nobody has claimed it since, reads the length, and
//! moves the one position of all claims behind the message by a compare-and-swap. One that fails is a collision, which is
//! counted. It lets go of the position when it has read the message.
//!
//! What lies before the claims and is held by nobody is free. So the sender reads the position of claims first and what each receiver
//! holds after that; a receiver says what it holds before it claims. A position that is held, and before all that the sender knows to be
//! in use, is that of a receiver whose claim will fail.
//!
//! A receiver that closes its end, or whose socket hangs up, holds nothing any more; the message that it had claimed is lost, one at most. All of
//! them can write all of it: they trust each other with contents, as members of an arena do; positions and lengths are checked.

#[cfg(all(test, feature = "loom"))]
mod models;
mod receiver;
mod sender;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use receiver::{AnycastReceiver, AnycastSlots};
pub use sender::AnycastSender;

/// Most receivers that a ring has in its life: each has a line of 128 octets in the page of the ends' words.
pub const ANYCAST_RECEIVERS_MAX: u32 = 24;

/// Slots committed. Written by the sender.
const HEAD: usize = 0;

/// Whether the sender has closed its end. Written by the sender.
const SENDER_CLOSED: usize = 128;

/// A bit for each receiver that sleeps, or is about to. One that is killed meanwhile leaves its bit, which costs one wake.
const ASLEEP: usize = 256;

/// The position of claims at which the sender wants to be woken: [`NOBODY`], [`NEVER`], or what [`wish`] makes of it.
pub(crate) const WAITED_FOR: usize = 384;

/// A bit for each receiver that has closed its end.
const CLOSED: usize = 512;

/// Slots claimed by all receivers together.
pub(crate) const CLAIMED: usize = 640;

/// How often the sender was woken, which sleeps on it.
const SENDER_WAKES: usize = 768;

/// What the receiver of number 0 holds: [`NOTHING`], or what [`holding`] makes of a position. Those of the others are behind it.
const HELD: usize = 1024;

/// How often the receiver of number 0 was woken, which sleeps on it; behind what it holds.
const RECEIVER_WAKES: usize = HELD + 64;

/// The sender is awake.
const NOBODY: u32 = 0;

/// The sender spins.
const NEVER: u32 = u32::MAX - 1;

/// A receiver holds nothing.
const NOTHING: u32 = 0;

/// The word of a receiver that holds the message at `position`. It fits, because positions that are compared are less apart than a
/// ring has slots, 2^22 at most.
fn holding(position: u32) -> u32 {
    position << 1 | 1
}

/// The word of a sender that wants to be woken when claims have come to `position`.
pub(crate) fn wish(position: u32) -> u32 {
    position << 1 | 1
}

/// Whether claims at `position` are what a sender with this word waits for.
fn is_reached(word: u32, position: u32) -> bool {
    let behind = (position << 1).wrapping_sub(word & !1);
    word & 1 == 1 && behind.cast_signed() >= 0
}

/// Where the receiver of `number` says what it holds.
fn held_of(number: u32) -> usize {
    HELD + 128 * number as usize
}

/// On what the receiver of `number` sleeps.
fn wakes_of(number: u32) -> usize {
    RECEIVER_WAKES + 128 * number as usize
}
