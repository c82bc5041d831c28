//! Who is served next: associations with something to send, by priority.

use std::collections::{BTreeMap, VecDeque};

/// Slots in the order they are served. Those with a sort value come first, the lowest before the
/// others; equals take turns, and so do those without one, who come last.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    plain: VecDeque<u32>,
    /// By sort value and by when they came.
    sorted: BTreeMap<(u16, u64), u32>,
    arrivals: u64,
}

impl Ready {
    /// Puts `slot` behind all of its priority.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, sort: Option<u16>) {
        let Some(sort) = sort else {
            return self.plain.push_back(slot);
        };
        self.arrivals += 1;
        self.sorted.insert((sort, self.arrivals), slot);
    }

    /// The next one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.sorted.is_empty() {
            return self.plain.pop_front();
        }
        self.sorted.pop_first().map(|(_, slot)| slot)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.sorted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_sort_value_is_served_first_and_none_last() {
        let mut ready = Ready::default();
        ready.push(1, None);
        ready.push(2, Some(7));
        ready.push(3, Some(3));
        ready.push(4, Some(7));
        ready.push(5, None);
        assert_eq!(ready.len(), 5);
        let order: Vec<u32> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [3, 2, 4, 1, 5]);
    }
}
