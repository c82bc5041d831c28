//! The reassembly queue: out-of-order bytes until the gap before them is filled.

use crate::pdu::Span;
use std::collections::BTreeMap;

/// Copies of the fragments beyond a gap, disjoint and ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReassemblyQueue {
    fragments: BTreeMap<u64, Fragment>,
    bytes: usize,
}

/// Flags of a fragment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FragmentFlags {
    /// The fragment begins with a tag (BTAG).
    pub(crate) begin_tag: bool,
    /// The fragment ends with a tag (ETAG).
    pub(crate) end_tag: bool,
    /// A message ends with the fragment (EOM).
    pub(crate) end_of_message: bool,
}

/// A contiguous range of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) bytes: Vec<u8>,
    pub(crate) flags: FragmentFlags,
}

impl ReassemblyQueue {
    /// User bytes in the queue.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Position after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.fragments
            .last_key_value()
            .map_or(0, |(at, fragment)| at + fragment.bytes.len() as u64)
    }

    /// Inserts those of `bytes`, which begin at `seq`, that are not there yet, and returns their
    /// number; None when there would be more than `fragments_max` fragments.
    pub(crate) fn insert(
        &mut self,
        seq: u64,
        bytes: &[u8],
        flags: FragmentFlags,
        fragments_max: usize,
    ) -> Option<usize> {
        let stop = seq + bytes.len() as u64;
        let mut at = seq;
        let mut kept = 0;
        while at < stop {
            if let Some(behind) = self.covered_until(at) {
                at = behind;
                continue;
            }
            if self.fragments.len() >= fragments_max {
                return None;
            }
            let next = self
                .fragments
                .range(at..)
                .next()
                .map_or(stop, |(&next, _)| next.min(stop));
            let run = bytes[(at - seq) as usize..(next - seq) as usize].to_vec();
            kept += run.len();
            self.bytes += run.len();
            let flags = FragmentFlags {
                begin_tag: flags.begin_tag && at == seq,
                end_tag: flags.end_tag && next == stop,
                end_of_message: flags.end_of_message && next == stop,
            };
            let bytes = run;
            self.fragments.insert(at, Fragment { bytes, flags });
            at = next;
        }
        Some(kept)
    }

    /// End of the fragment that covers `at`.
    fn covered_until(&self, at: u64) -> Option<u64> {
        let (&start, fragment) = self.fragments.range(..=at).next_back()?;
        let end = start + fragment.bytes.len() as u64;
        (end > at).then_some(end)
    }

    /// Removes the fragment that continues at `position`, without bytes below it.
    pub(crate) fn pop_at(&mut self, position: u64) -> Option<Fragment> {
        loop {
            let (&start, _) = self.fragments.first_key_value()?;
            if start > position {
                return None;
            }
            let mut fragment = self.fragments.remove(&start)?;
            self.bytes -= fragment.bytes.len();
            let below = position - start;
            if below < fragment.bytes.len() as u64 {
                fragment.bytes.drain(..below as usize);
                fragment.flags.begin_tag &= below == 0;
                return Some(fragment);
            }
        }
    }

    /// The first `spans_max` ranges, adjacent fragments merged.
    pub(crate) fn spans(&self, spans_max: usize) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (&left, fragment) in &self.fragments {
            let right = left + fragment.bytes.len() as u64;
            if let Some(last) = spans.last_mut().filter(|last| last.right == left) {
                last.right = right;
            } else if spans.len() < spans_max {
                spans.push(Span { left, right });
            } else {
                break;
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn overlapping_fragments_reassembled_once_in_order() {
        let mut random = SplitMix64::new(4);
        for _ in 0..500 {
            let all: Vec<u8> = (0..200).map(|_| random.next_u64() as u8).collect();
            let mut queue = ReassemblyQueue::default();
            for _ in 0..random.below(40) {
                let start = random.below(200) as usize;
                let len = random.below(30) as usize;
                let stop = (start + len).min(200);
                queue.insert(
                    start as u64,
                    &all[start..stop],
                    FragmentFlags::default(),
                    100,
                );
            }
            let spans = queue.spans(1000);
            assert!(spans.windows(2).all(|pair| pair[0].right < pair[1].left));
            let listed: u64 = spans.iter().map(|span| span.right - span.left).sum();
            assert_eq!(listed as usize, queue.bytes());
            for span in spans {
                let mut at = span.left;
                while let Some(fragment) = queue.pop_at(at) {
                    let from = at as usize;
                    assert_eq!(fragment.bytes, all[from..from + fragment.bytes.len()]);
                    at += fragment.bytes.len() as u64;
                }
                assert_eq!(at, span.right);
            }
            assert!(queue.is_empty() && queue.bytes() == 0);
        }
    }

    #[test]
    fn fragment_count_bounded() {
        let mut queue = ReassemblyQueue::default();
        for at in 0..10 {
            queue.insert(at * 2, &[1], FragmentFlags::default(), 5);
        }
        assert_eq!(queue.bytes(), 5);
    }
}
