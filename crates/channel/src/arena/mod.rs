//! Slots that several channels share: a message is written once and passed on by its number.
//!
//! An arena is a sealed segment with up to [`MEMBERS_MAX`] members: its owner, and each handle that the
//! owner admitted. A slot has a word with a bit for each member that holds it. It is free while no bit is
//! set; taking it sets the bit of the taker, passing it sets the bit of the receiver, dropping it clears
//! the own bit. So the last of several receivers frees a message, and nobody keeps a list of free slots.
//!
//! Members trust each other with the contents: each may write any slot at any time. What one of them
//! writes into words and references is checked, so it cannot make another read outside the arena.

mod ends;
mod owner;
mod slot;
#[cfg(test)]
mod tests;

pub use ends::{ArenaReceiver, ArenaSender};
pub use owner::ArenaOwner;
pub use slot::ArenaSlot;

use crate::error::ChannelError;
use crate::geometry::Geometry;
use crate::kernel;
use crate::opening;
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, USELESS_WAKE};
use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Most members of an arena: the bits of a slot's word.
pub const MEMBERS_MAX: u32 = 32;

/// How many slots became free while a member waited. Members wait on it.
const RELEASES: usize = 0;

/// Members that wait for a free slot. One that is killed while it waits leaves its count, which costs a
/// wake for each release.
const TAKERS_WAITING: usize = 128;

/// A member's handle of an arena. It belongs to one thread; another thread joins on its own.
#[derive(Debug, Clone)]
pub struct Arena(Rc<Shared>);

/// What the handles, ends and slots of one member share.
#[derive(Debug)]
struct Shared {
    segment: Segment,
    geometry: Geometry,
    /// Inode of the memory, which names the arena among those of a host.
    identity: u64,
    member: Member,
    /// Where the next search for a free slot begins.
    cursor: Cell<u32>,
    /// Hangs up when this member is gone. The owner has none.
    _lifeline: Option<UnixStream>,
}

/// The number of a member, below [`MEMBERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member(u32);

impl Member {
    const OWNER: Self = Self(0);

    fn new(number: u32) -> Result<Self, ChannelError> {
        if number < MEMBERS_MAX {
            return Ok(Self(number));
        }
        Err(ChannelError::Corrupt {
            what: "a member's number of",
            value: number,
        })
    }

    /// Its bit in the word of a slot.
    fn bit(self) -> u32 {
        1 << self.0
    }
}

impl Arena {
    /// Joins the arena that the process at the other end of `socket` owns, by [`ArenaOwner::admit`].
    ///
    /// # Errors
    /// A peer of another user, an opening that is none, and a segment that is not sealed or of another
    /// length than announced.
    pub fn join(socket: UnixStream) -> Result<Self, ChannelError> {
        let (segment, identity, geometry, number) =
            opening::accept_member(&socket, Geometry::arena_len)?;
        let member = Member::new(number)?;
        let lifeline = Some(socket);
        Ok(Self::new(segment, identity, geometry, member, lifeline))
    }

    fn new(
        segment: Segment,
        identity: u64,
        geometry: Geometry,
        member: Member,
        lifeline: Option<UnixStream>,
    ) -> Self {
        Self(Rc::new(Shared {
            segment,
            geometry,
            identity,
            member,
            cursor: Cell::new(0),
            _lifeline: lifeline,
        }))
    }

    /// Length and number of the slots.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// A free slot, or `None` when members hold all of them. Its octets are what an earlier message left
    /// there, and its length is 0.
    #[must_use]
    pub fn take(&self) -> Option<ArenaSlot> {
        let slots = self.0.geometry.slots();
        let start = self.0.cursor.get();
        let found = (0..slots).find_map(|offset| {
            let slot = start.wrapping_add(offset) & (slots - 1);
            let free = self.0.holders(slot).compare_exchange(
                0,
                self.0.member.bit(),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            free.is_ok().then_some(slot)
        })?;
        self.0.cursor.set(found.wrapping_add(1));
        Some(ArenaSlot::new(Rc::clone(&self.0), found, 0))
    }

    /// A free slot; waits for `limit` at most while members hold all of them.
    ///
    /// # Errors
    /// A wait that the system refuses.
    pub fn take_within(&self, limit: Duration) -> Result<Option<ArenaSlot>, ChannelError> {
        let mut left = limit;
        loop {
            let taken = self.take();
            if taken.is_some() || left.is_zero() {
                return Ok(taken);
            }
            let sleep = left.min(SLEEP_MAX);
            let slept_whole = self.sleep_until_release(sleep)?;
            left = left.saturating_sub(if slept_whole { sleep } else { USELESS_WAKE });
        }
    }

    /// Sleeps until a slot becomes free, for `limit` at most; whether the limit ended it.
    fn sleep_until_release(&self, limit: Duration) -> Result<bool, ChannelError> {
        let releases = self.0.segment.word(RELEASES);
        let waiting = self.0.segment.word(TAKERS_WAITING);
        let seen = releases.load(Ordering::SeqCst);
        waiting.fetch_add(1, Ordering::SeqCst);
        // A slot that was freed before its holder saw the count above is found here.
        let slept = if self.0.has_free_slot() {
            Ok(true)
        } else {
            kernel::sleep_on(releases, seen, limit)
        };
        waiting.fetch_sub(1, Ordering::SeqCst);
        slept.map(|may_be_free| !may_be_free)
    }
}

impl Shared {
    /// The word of `slot` with a bit for each member that holds it.
    fn holders(&self, slot: u32) -> &crate::sync::AtomicU32 {
        self.segment.word(self.geometry.arena_word_offset(slot))
    }

    fn has_free_slot(&self) -> bool {
        (0..self.geometry.slots()).any(|slot| self.holders(slot).load(Ordering::SeqCst) == 0)
    }

    /// Clears the bit of `member` in the word of `slot`, and wakes members that wait for a free one.
    fn release(&self, slot: u32, member: Member) {
        let before = self
            .holders(slot)
            .fetch_and(!member.bit(), Ordering::SeqCst);
        let is_free = before == member.bit();
        if is_free && self.segment.word(TAKERS_WAITING).load(Ordering::SeqCst) != 0 {
            let releases = self.segment.word(RELEASES);
            releases.fetch_add(1, Ordering::SeqCst);
            // A wake that fails delays the other member by one sleep, after which it looks itself.
            let _ = kernel::wake_one(releases);
        }
    }
}
