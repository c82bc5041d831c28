//! Associations opened by peers whose address is not validated, the oldest first.
//!
//! When there is no room for another, one gives way: of the same address if that has its share of
//! the room, else the oldest of all (0021).

use crate::group::SourcePrefix;
use engine::{Address, AssociationId};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Opening {
    slot: u32,
    id: AssociationId,
    source: SourcePrefix,
}

/// An address has at most this part of the room when there is none left.
const SHARES: usize = 64;

/// Openings beyond the room that may be in the queue before those that are gone are removed.
const STALE_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct UnvalidatedQueue {
    /// In the order of opening, with some that are validated or gone.
    queue: VecDeque<Opening>,
    live: usize,
}

impl UnvalidatedQueue {
    /// Number of unvalidated associations.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Adds an association; `is_live` says whether one is still unvalidated.
    pub(crate) fn push(
        &mut self,
        slot: usize,
        id: AssociationId,
        from: Address,
        is_live: impl Fn(usize, AssociationId) -> bool,
    ) {
        if self.queue.len() >= 2 * self.live + STALE_MAX {
            self.queue
                .retain(|opening| is_live(opening.slot as usize, opening.id));
        }
        self.live += 1;
        self.queue.push_back(Opening {
            slot: slot as u32,
            id,
            source: from.into(),
        });
    }

    /// One is validated or gone.
    pub(crate) fn forget_one(&mut self) {
        self.live -= 1;
    }

    /// Removes the slot of the association that gives way to an opening from `from`, with room for
    /// `room` of them; the caller closes it.
    pub(crate) fn pop_for(
        &mut self,
        from: Address,
        room: usize,
        is_live: impl Fn(usize, AssociationId) -> bool,
    ) -> Option<usize> {
        if self.queue.len() > self.live {
            self.queue
                .retain(|opening| is_live(opening.slot as usize, opening.id));
        }
        let from = SourcePrefix::from(from);
        let of_same = |opening: &Opening| opening.source == from;
        let share = (room / SHARES).max(1);
        let same = self.queue.iter().filter(|opening| of_same(opening)).count();
        let at = match same >= share {
            true => self.queue.iter().position(of_same)?,
            false => 0,
        };
        self.queue.remove(at).map(|opening| opening.slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(text: &str) -> Address {
        Address::Socket(text.parse().expect("an address"))
    }

    #[test]
    fn address_with_its_share_replaces_its_own_oldest() {
        let mut openings = UnvalidatedQueue::default();
        let [one, other] = [socket("[fd00::1]:1"), socket("[fd01::1]:1")];
        let same_as_one = socket("[fd00::2]:9");
        for (slot, from) in [(0, other), (1, one), (2, same_as_one)] {
            openings.push(slot, AssociationId(slot as u32), from, |_, _| true);
        }
        // 128 / 64 = 2 each.
        assert_eq!(openings.pop_for(same_as_one, 128, |_, _| true), Some(1));
        openings.forget_one();
        assert_eq!(openings.pop_for(same_as_one, 128, |_, _| true), Some(0));
    }

    #[test]
    fn openings_that_are_gone_do_not_fill_the_queue() {
        let mut openings = UnvalidatedQueue::default();
        let from = Address::Station(1);
        for slot in 0..10_000 {
            openings.push(slot, AssociationId(slot as u32), from, |at, _| at == slot);
            if slot > 0 {
                openings.forget_one();
            }
        }
        assert!(openings.len() == 1 && openings.queue.len() <= STALE_MAX + 2);
        let newest = |slot: usize, _| slot == 9_999;
        assert_eq!(openings.pop_for(from, 1, newest), Some(9_999));
    }
}
