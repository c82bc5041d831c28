//! What has packets to send, in the order of its priority (RFC 1045 section 2.12).

use crate::endpoint::Key;
use engine::CallNote;
use std::collections::VecDeque;

/// Queues of what has packets to send: urgent, important, normal, background.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    queues: [VecDeque<Key>; 4],
}

impl Ready {
    /// Puts it behind what has the same priority.
    pub(crate) fn push(&mut self, asked: &CallNote, key: Key) {
        self.queues[usize::from(asked.rank() >> 2)].push_back(key);
    }

    /// The first of the most urgent.
    pub(crate) fn pop(&mut self) -> Option<Key> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_urgent_keys_come_first_and_equal_ones_in_turn() {
        let mut ready = Ready::default();
        for (priority, slot) in [(4, 0), (0, 1), (8, 2), (12, 3), (3, 4), (0, 5)] {
            let asked = CallNote {
                priority,
                ..CallNote::default()
            };
            ready.push(&asked, Key::Probe(slot));
        }
        let order: Vec<Key> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [3, 2, 1, 4, 5, 0].map(Key::Probe));
    }
}
