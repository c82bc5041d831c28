//! The ring of one sender and one receiver.
//!
//! Positions count slots and wrap at 2^32; as the number of slots is a power of two, their difference
//! is always the number of slots in use. A message takes slots in a row, and its length lies with the first. Each word is in a line of its own,
//! and has one writer.

mod incoming;
#[cfg(all(test, feature = "loom"))]
mod models;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use incoming::Incoming;
pub use incoming::{Arrival, NextMessage};
pub use receiver::{ChannelReceiver, ReceivedSlots};
pub use sender::{ChannelSender, LentSlots};

use crate::geometry::Geometry;
use crate::sys::Segment;

/// Slots committed. Written by the sender; the receiver waits on it.
const HEAD: usize = 0;

/// The message committed last, in the line of [`HEAD`], so that a receiver that waited for it need not fetch its length too; see
/// [`last_word`]. Written by the sender, before the position.
const LAST: usize = 4;

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

/// The word of a message of `len` octets at `position`: low bits of both, so that both are read at once. 0, which is what is there
/// before the first message, for one that is too long.
#[inline]
fn last_word(position: u32, len: u32) -> u32 {
    match len < 0xffff {
        true => position << 16 | (len + 1),
        false => 0,
    }
}

/// The length of the message at `position`, if that is the one that `word` is of. In a ring of more than 2^15 slots it could be of
/// one that has the same low bits.
#[inline]
fn last_len(word: u32, position: u32, slots: u32) -> Option<u32> {
    let is_it = word & 0xffff != 0 && word >> 16 == position & 0xffff && slots <= 1 << 15;
    is_it.then(|| (word & 0xffff) - 1)
}

/// Copies `octets` to `offset` of the message at `position`. Behind the last slot it goes on in the first.
#[inline]
pub(crate) fn write_message(
    segment: &Segment,
    geometry: Geometry,
    position: u32,
    offset: usize,
    octets: &[u8],
) {
    let (at, left) = geometry.place(position, offset);
    let (front, rest) = octets.split_at(left.min(octets.len()));
    segment.write(at, front);
    if !rest.is_empty() {
        segment.write(geometry.slots_offset(), rest);
    }
}

/// Copies the octets from `offset` on of the message of `len` octets at `position` to `target`, as many as both have; how many.
#[inline]
pub(crate) fn read_message(
    segment: &Segment,
    geometry: Geometry,
    (position, len): (u32, u32),
    offset: usize,
    target: &mut [u8],
) -> usize {
    let offset = offset.min(len as usize);
    let count = target.len().min(len as usize - offset);
    let (at, left) = geometry.place(position, offset);
    let (front, rest) = target[..count].split_at_mut(left.min(count));
    segment.read(at, front);
    if !rest.is_empty() {
        segment.read(geometry.slots_offset(), rest);
    }
    count
}
