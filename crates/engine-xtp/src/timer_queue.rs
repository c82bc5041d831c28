//! The timers of an endpoint's associations, the earliest first.
//!
//! An association that opens and closes enters some and takes them out again. As long as they are few, they are
//! found faster in a list than in a tree.

use engine::{AssociationId, Instant};
use std::collections::BTreeSet;

/// Entries that are kept in a list.
const FEW: usize = 16;

/// When each association is to be looked at; at most one entry for each.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    entries: Entries,
    /// It is asked for several times a packet.
    earliest: Option<(Instant, AssociationId)>,
}

#[derive(Debug)]
enum Entries {
    /// [`FEW`] at most, in no order.
    Few(Vec<(Instant, AssociationId)>),
    /// As soon as they were more, until none is left.
    Many(BTreeSet<(Instant, AssociationId)>),
}

impl Default for Entries {
    fn default() -> Entries {
        Entries::Few(Vec::new())
    }
}

impl TimerQueue {
    /// The earliest entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Instant, AssociationId)> {
        self.earliest
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, at: Instant, id: AssociationId) {
        let entry = (at, id);
        match &mut self.entries {
            Entries::Few(few) if few.len() < FEW => few.push(entry),
            Entries::Few(few) => {
                let all = few.drain(..).chain([entry]).collect();
                self.entries = Entries::Many(all);
            }
            Entries::Many(many) => {
                many.insert(entry);
            }
        }
        if self.earliest.is_none_or(|earliest| entry < earliest) {
            self.earliest = Some(entry);
        }
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&mut self, at: Instant, id: AssociationId) {
        let entry = (at, id);
        match &mut self.entries {
            Entries::Few(few) => {
                if let Some(index) = few.iter().position(|one| *one == entry) {
                    few.swap_remove(index);
                }
            }
            Entries::Many(many) => {
                many.remove(&entry);
                if many.is_empty() {
                    self.entries = Entries::default();
                }
            }
        }
        if self.earliest == Some(entry) {
            self.earliest = match &self.entries {
                Entries::Few(few) => few.iter().min().copied(),
                Entries::Many(many) => many.first().copied(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    /// As few and as many, they come in the order of a tree.
    #[test]
    fn entries_come_in_order_however_many_there_are() {
        let (mut queue, mut model) = (TimerQueue::default(), BTreeSet::new());
        let mut random = SplitMix64::new(3);
        for step in 0..20_000 {
            let room = if step / 500 % 2 == 0 {
                4 * FEW
            } else {
                FEW / 2
            };
            let entry = (
                Instant::from_nanos(random.below(50)),
                AssociationId(random.below(room as u64) as u32),
            );
            if random.below(2) == 0 && model.len() < room && !model.contains(&entry) {
                queue.insert(entry.0, entry.1);
                model.insert(entry);
            } else {
                let named = if random.below(2) == 0 {
                    model.first().copied()
                } else {
                    Some(entry)
                };
                if let Some((at, id)) = named {
                    queue.remove(at, id);
                    model.remove(&(at, id));
                }
            }
            assert_eq!(queue.first(), model.first().copied());
        }
    }
}
