//! A message in a slot of an arena, and who holds it.

use super::Shared;
use crate::error::ChannelError;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A slot that this member holds. Dropping it lets it go; the last member to do so frees it.
#[derive(Debug)]
pub struct ArenaSlot {
    pub(super) arena: Rc<Shared>,
    pub(super) slot: u32,
    /// Octets of the message: this member's own copy.
    pub(super) len: u32,
}

impl ArenaSlot {
    pub(super) fn new(arena: Rc<Shared>, slot: u32, len: u32) -> Self {
        Self { arena, slot, len }
    }

    /// The slot's number, which stays the same on the message's whole way.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.slot
    }

    /// Octets of the message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the message has no octets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Octets that a message may have: those of a slot.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.arena.geometry.slot_len() as usize
    }

    /// Sets the length of the message. Octets that were not written are what an earlier message left.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] beyond the slot, [`ChannelError::Shared`] while other members hold it.
    pub fn set_len(&mut self, len: usize) -> Result<(), ChannelError> {
        self.check_alone()?;
        self.check_len(len)?;
        self.len = len as u32;
        Ok(())
    }

    /// Writes `octets` at `offset`; the message becomes as long as what was written needs.
    ///
    /// # Errors
    /// Those of [`Self::set_len`].
    pub fn write(&mut self, offset: usize, octets: &[u8]) -> Result<(), ChannelError> {
        self.check_alone()?;
        let end = offset.saturating_add(octets.len());
        self.check_len(end)?;
        self.arena.segment.write(self.start() + offset, octets);
        self.len = self.len.max(end as u32);
        Ok(())
    }

    /// Copies the octets from `offset` on into `target`, as many as both have, and returns how many. A
    /// hostile member can change octets between two reads: parse the copy, not the slot.
    pub fn read(&self, offset: usize, target: &mut [u8]) -> usize {
        let offset = offset.min(self.len());
        let count = target.len().min(self.len() - offset);
        let from = self.start() + offset;
        self.arena.segment.read(from, &mut target[..count]);
        count
    }

    /// A private copy of the message.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.len()];
        self.read(0, &mut octets);
        octets
    }

    fn start(&self) -> usize {
        self.arena.geometry.place(self.slot, 0).0
    }

    fn check_len(&self, len: usize) -> Result<(), ChannelError> {
        let max = self.arena.geometry.slot_len();
        if len <= max as usize {
            return Ok(());
        }
        Err(ChannelError::TooLong { len, max })
    }

    /// What was passed is read by others now.
    fn check_alone(&self) -> Result<(), ChannelError> {
        let holders = self.arena.holders(self.slot).load(Ordering::Acquire);
        if holders == self.arena.member.bit() {
            return Ok(());
        }
        Err(ChannelError::Shared)
    }
}

impl Drop for ArenaSlot {
    fn drop(&mut self) {
        self.arena.release(self.slot, self.arena.member);
    }
}
