//! Positions of tags in the send buffer: starts of begin tags, ends of end tags.

use std::collections::VecDeque;

/// Positions of tags not yet acknowledged, ascending. Most associations have none and pay for a
/// pointer only. The host's send buffer bounds their number: each tag has eight bytes.
#[expect(clippy::box_collection, reason = "an empty queue is 32 octets")]
#[derive(Clone, Debug, Default)]
pub(crate) struct TagPositions(Option<Box<VecDeque<u64>>>);

impl TagPositions {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Appends a position; one that is not beyond all others is ignored.
    pub(crate) fn push(&mut self, start: u64) {
        let tags = self.0.get_or_insert_default();
        if tags.back().is_none_or(|&last| last < start) {
            tags.push_back(start);
        }
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.0.as_ref()?.front().copied()
    }

    /// Whether a tag is at `start`, and the position of the next one.
    pub(crate) fn at(&self, start: u64) -> (bool, u64) {
        let Some(tags) = &self.0 else {
            return (false, u64::MAX);
        };
        let at = tags.partition_point(|&tag| tag < start);
        let here = tags.get(at) == Some(&start);
        let next = tags.get(at + usize::from(here));
        (here, next.copied().unwrap_or(u64::MAX))
    }

    /// The first position beyond `position`.
    pub(crate) fn next_after(&self, position: u64) -> Option<u64> {
        let tags = self.0.as_ref()?;
        let at = tags.partition_point(|&tag| tag <= position);
        tags.get(at).copied()
    }

    /// Releases positions below `position`.
    #[inline]
    pub(crate) fn release(&mut self, position: u64) {
        let Some(tags) = &mut self.0 else {
            return;
        };
        while tags.front().is_some_and(|&tag| tag < position) {
            tags.pop_front();
        }
        self.free_if_empty();
    }

    fn free_if_empty(&mut self) {
        if self.0.as_ref().is_some_and(|tags| tags.is_empty()) {
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_positions_found_and_released() {
        let mut tags = TagPositions::default();
        [10, 10, 5, 30]
            .into_iter()
            .for_each(|start| tags.push(start));
        assert_eq!((tags.at(0), tags.at(10)), ((false, 10), (true, 30)));
        assert_eq!(
            (tags.at(30), tags.at(31)),
            ((true, u64::MAX), (false, u64::MAX))
        );
        tags.release(11);
        assert_eq!(tags.first(), Some(30));
        tags.release(31);
        assert!(tags.is_empty());
    }
}
