//! The ring of one sender and one receiver.
//!
//! Positions count slots and wrap at 2^32; as the number of slots is a power of two, their difference
//! is always the number of slots in use. A message takes slots in a row, and its length lies with the first. Each word is in a line of its own,
//! and has one writer.

#[cfg(all(test, feature = "loom"))]
mod models;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{Arrival, ChannelReceiver, ReceivedSlots};
pub use sender::{ChannelSender, LentSlots};

/// Slots committed. Written by the sender; the receiver waits on it.
const HEAD: usize = 0;

/// Whether the sender has closed the channel. Written by the sender.
const SENDER_CLOSED: usize = 128;

/// How the sender waits: awake, asleep until [`TAIL`] changes, or never asleep. Written by the sender.
pub(crate) const SENDER_WAITS: usize = 256;

/// Slots released. Written by the receiver; the sender waits on it.
const TAIL: usize = 512;

/// Whether the receiver has closed its end. Written by the receiver.
const RECEIVER_CLOSED: usize = 768;

/// How the receiver waits: awake, asleep until [`HEAD`] changes, or never asleep. Written by the receiver.
pub(crate) const RECEIVER_WAITS: usize = 640;
