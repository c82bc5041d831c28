//! Associations that may have packets to send, each once, served in turn.

use engine::AssociationId;
use std::collections::{BTreeSet, VecDeque};

/// So many are looked for in the queue itself.
const FEW: usize = 8;

/// A queue without duplicates.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    queue: VecDeque<AssociationId>,
    /// All of the queue while it has [`FEW`] and more, else nothing.
    set: BTreeSet<AssociationId>,
}

impl ReadyQueue {
    /// Appends `id` unless it waits already.
    pub(crate) fn push(&mut self, id: AssociationId) {
        // The usual case: many messages, or packets, of one association.
        if self.queue.back() == Some(&id) {
            return;
        }
        let is_new = match self.queue.len() < FEW {
            true => !self.queue.contains(&id),
            false => self.set.insert(id),
        };
        if is_new {
            self.queue.push_back(id);
            if self.queue.len() == FEW {
                self.set.extend(&self.queue);
            }
        }
    }

    /// Removes the first.
    pub(crate) fn pop(&mut self) -> Option<AssociationId> {
        let id = self.queue.pop_front()?;
        match self.queue.len() < FEW {
            true if self.set.is_empty() => {}
            true => self.set.clear(),
            false => {
                self.set.remove(&id);
            }
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn each_waits_once_in_the_order_of_arrival() {
        let (mut ready, mut model) = (ReadyQueue::default(), Vec::new());
        let mut random = SplitMix64::new(3);
        for step in 0..20_000 {
            // The queue grows and shrinks around the number that is looked for in itself.
            if random.below(8) < 3 + step / 100 % 2 * 2 {
                assert_eq!(ready.pop(), model.first().copied());
                model.drain(..model.len().min(1));
            } else {
                let id = AssociationId(random.below(4 * FEW as u64) as u32);
                ready.push(id);
                if !model.contains(&id) {
                    model.push(id);
                }
            }
        }
        assert_eq!(
            std::iter::from_fn(|| ready.pop()).collect::<Vec<_>>(),
            model
        );
    }
}
