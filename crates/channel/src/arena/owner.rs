//! The member that makes an arena, admits others, and takes back what they held when they are gone.

use super::{Arena, MEMBERS_MAX, Member};
use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::opening;
use crate::sys::Segment;
use crate::wait;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

/// The owner of an arena. Members go on without it, but what a killed one held stays held.
#[derive(Debug)]
pub struct ArenaOwner {
    arena: Arena,
    pub(super) descriptor: OwnedFd,
    /// The lifeline of each member, by its number. The owner's place is empty.
    members: Vec<Option<UnixStream>>,
}

impl ArenaOwner {
    /// Makes an arena of the slots of `geometry`, and its first member.
    ///
    /// # Errors
    /// Memory that the system refuses.
    pub fn create(geometry: Geometry) -> Result<Self, ChannelError> {
        let (segment, descriptor) = Segment::create(geometry.arena_len())?;
        let identity = opening::identity(&descriptor)?;
        let mut members = Vec::new();
        members.resize_with(MEMBERS_MAX as usize, || None);
        Ok(Self {
            arena: Arena::new(segment, identity, geometry, Member::OWNER, None),
            descriptor,
            members,
        })
    }

    /// The owner's own handle.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Admits the process at the other end of `socket`, which calls [`Arena::join`]. The socket tells
    /// when that member is gone.
    ///
    /// # Errors
    /// A peer of another user, a send that the system refuses, and [`ChannelError::ArenaFull`] when the
    /// arena has [`MEMBERS_MAX`] members that live.
    pub fn admit(&mut self, socket: UnixStream) -> Result<(), ChannelError> {
        if self.free_number().is_none() {
            self.sweep()?;
        }
        let number = self.free_number().ok_or(ChannelError::ArenaFull)?;
        let geometry = self.arena.geometry();
        opening::offer_member(&socket, &self.descriptor, geometry, number)?;
        self.members[number as usize] = Some(socket);
        Ok(())
    }

    /// Takes back the slots of members that are gone, and their numbers; how many slots. A member that
    /// was killed between the mark of a receiver and its reference leaves one slot with that receiver
    /// until it is gone too.
    ///
    /// # Errors
    /// A poll that the system refuses.
    pub fn sweep(&mut self) -> Result<usize, ChannelError> {
        let mut swept = 0;
        for (number, place) in self.members.iter_mut().enumerate() {
            let Some(lifeline) = place else { continue };
            if wait::has_hung_up(lifeline)? {
                swept += self.arena.take_back(Member(number as u32));
                *place = None;
            }
        }
        Ok(swept)
    }

    /// The lowest number that no member has, beside the owner's.
    fn free_number(&self) -> Option<u32> {
        let free = self.members.iter().skip(1).position(Option::is_none)?;
        Some(free as u32 + 1)
    }
}

impl Arena {
    /// Clears the bit of `member` in all slots; in how many it was set.
    fn take_back(&self, member: Member) -> usize {
        let held = |&slot: &u32| {
            let word = self.0.holders(slot);
            word.load(Ordering::Acquire) & member.bit() != 0
        };
        let slots: Vec<u32> = (0..self.0.geometry.slots()).filter(held).collect();
        for &slot in &slots {
            self.0.release(slot, member);
        }
        slots.len()
    }
}
