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

pub use receiver::{Arrival, ChannelReceiver, NextMessage, ReceivedSlots};
pub use sender::{ChannelSender, LentSlots};

use crate::geometry::Geometry;
use crate::sys::Segment;

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

/// Copies the octets at `offset` of the message at `position` to `target`.
#[inline]
pub(crate) fn read_message(
    segment: &Segment,
    geometry: Geometry,
    position: u32,
    offset: usize,
    target: &mut [u8],
) {
    let (at, left) = geometry.place(position, offset);
    let (front, rest) = target.split_at_mut(left.min(target.len()));
    segment.read(at, front);
    if !rest.is_empty() {
        segment.read(geometry.slots_offset(), rest);
    }
}
