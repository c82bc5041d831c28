//! One ring of one sender and many receivers: what is one whether each of them reads all ([`crate::broadcast`]) or they share the
//! messages out ([`crate::anycast`]).
//!
//! Slots and positions are those of a ring of one receiver ([`crate::ChannelSender`]). [`Fanout`] is in what both differ: where
//! receivers say how far they are, whom a sender without room waits for, and whom a message wakes.

mod readers;
mod receiver;
mod sender;
#[cfg(test)]
pub(crate) mod test_kit;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use receiver::{FanoutReceiver, FanoutSlots};
pub use sender::FanoutSender;

use crate::error::ChannelError;
use crate::sys::Segment;
use std::fmt::Debug;

/// Most receivers that a ring has in its life: each has a line of 128 octets in the page of the ends' words.
pub(crate) const RECEIVERS_MAX: u32 = 24;

/// Slots committed. Written by the sender.
pub(crate) const HEAD: usize = 0;

/// Whether the sender has closed its end. Written by the sender.
const SENDER_CLOSED: usize = 128;

/// A bit for each receiver that sleeps, or is about to. One that is killed meanwhile leaves its bit, which costs one wake.
pub(crate) const ASLEEP: usize = 256;

/// What the sender waits for: [`NOBODY`], [`NEVER`], or [`Fanout::wish`].
pub(crate) const WAITED_FOR: usize = 384;

/// A bit for each receiver that has closed its end.
pub(crate) const CLOSED: usize = 512;

/// How often the sender was woken, which sleeps on it. Other than what receivers write it changes with each wake, so that one that
/// comes before the sleep ends it.
const SENDER_WAKES: usize = 768;

/// The sender is awake.
pub(crate) const NOBODY: u32 = 0;

/// The sender spins, and no receiver has to look in step with what it writes. No wish.
pub(crate) const NEVER: u32 = u32::MAX - 1;

/// A message that a receiver may read: its position, and its length, read once and checked.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    pub(crate) position: u32,
    pub(crate) len: u32,
}

/// How the messages of one ring come to its receivers: [`Broadcast`](crate::Broadcast) or [`Anycast`](crate::Anycast). A value is what
/// one receiver knows of the ring. There are no others: a claim is made by these two only.
pub trait Fanout: Debug + Send + Sized {
    /// Whom a sender without room waits for.
    type Awaited: Copy;

    /// Makes the words of the receiver of `number`, which is about to be admitted.
    fn prepare(_sender: &FanoutSender<Self>, _number: u32) {}

    /// The first position that is not free, and whom the sender waits for to have it moved. There is a receiver.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for positions that receivers cannot have.
    fn find_tail(sender: &FanoutSender<Self>) -> Result<(u32, Self::Awaited), ChannelError>;

    /// Whether more may be free than was found last.
    fn has_moved(sender: &FanoutSender<Self>, awaited: Self::Awaited) -> bool;

    /// The word of a sender that wants to be woken when all before `position` is free.
    fn wish(awaited: Self::Awaited, position: u32) -> u32;

    /// Whether all before `position` is free, or the sender has to look again for another reason.
    fn is_free_until(sender: &FanoutSender<Self>, awaited: Self::Awaited, position: u32) -> bool;

    /// Wakes those whom a message has to wake, of receivers with these bits, one at least.
    ///
    /// # Errors
    /// A wake that the system refuses.
    fn wake(sender: &mut FanoutSender<Self>, asleep: u32) -> Result<(), ChannelError>;

    /// What the receiver of `number` knows when it joins.
    fn join(segment: &Segment, number: u32) -> Self;

    /// On what the receiver of `number` sleeps: a word that changes with each wake.
    fn wakes_of(number: u32) -> usize;

    /// Whether there is a message for this receiver.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for a position that the sender cannot have.
    fn has_message(receiver: &mut FanoutReceiver<Self>) -> Result<bool, ChannelError>;

    /// Whether a message may have come to a receiver that saw none.
    fn may_have_message(receiver: &FanoutReceiver<Self>) -> bool;

    /// The next message, if there is one, with its length read once and checked.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for a position that the sender cannot have, and a length that no message has.
    fn claim(receiver: &mut FanoutReceiver<Self>) -> Result<Option<Claim>, ChannelError>;

    /// Says that the receiver has read what it claimed.
    fn release(receiver: &mut FanoutReceiver<Self>, claim: Claim);

    /// Whether what the receiver let go last is what a sender with this word waits for.
    fn grants(receiver: &FanoutReceiver<Self>, wish: u32) -> bool;

    /// Whether a sender with this word may wait for the receiver of `number`.
    fn may_await(wish: u32, number: u32) -> bool;
}
