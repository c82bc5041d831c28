//! Bytes that came before their turn.

use crate::pdu::Span;
use std::collections::BTreeMap;

/// Copies of what came beyond a gap, disjoint and ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pieces: BTreeMap<u64, Piece>,
    bytes: usize,
}

/// What is said of a run of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// They begin with a tag.
    pub(crate) tag: bool,
    /// They end with a tag.
    pub(crate) end_tag: bool,
    /// A message ends with the last.
    pub(crate) end: bool,
}

/// A run of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Marks,
}

impl Held {
    /// User bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The byte behind the last.
    pub(crate) fn end(&self) -> u64 {
        self.pieces
            .last_key_value()
            .map_or(0, |(at, piece)| at + piece.bytes.len() as u64)
    }

    /// Keeps what of `bytes`, which begin at `seq`, is not there yet: how many bytes that was, or
    /// None when it would be more than `pieces_max` runs.
    pub(crate) fn insert(
        &mut self,
        seq: u64,
        bytes: &[u8],
        marks: Marks,
        pieces_max: usize,
    ) -> Option<usize> {
        let stop = seq + bytes.len() as u64;
        let mut at = seq;
        let mut kept = 0;
        while at < stop {
            if let Some(behind) = self.covered_until(at) {
                at = behind;
                continue;
            }
            if self.pieces.len() >= pieces_max {
                return None;
            }
            let next = self
                .pieces
                .range(at..)
                .next()
                .map_or(stop, |(&next, _)| next.min(stop));
            let run = bytes[(at - seq) as usize..(next - seq) as usize].to_vec();
            kept += run.len();
            self.bytes += run.len();
            let marks = Marks {
                tag: marks.tag && at == seq,
                end_tag: marks.end_tag && next == stop,
                end: marks.end && next == stop,
            };
            let bytes = run;
            self.pieces.insert(at, Piece { bytes, marks });
            at = next;
        }
        Some(kept)
    }

    /// The end of the run that covers `at`.
    fn covered_until(&self, at: u64) -> Option<u64> {
        let (&start, piece) = self.pieces.range(..=at).next_back()?;
        let end = start + piece.bytes.len() as u64;
        (end > at).then_some(end)
    }

    /// Takes the run that continues at `position`, without what lies below it.
    pub(crate) fn take(&mut self, position: u64) -> Option<Piece> {
        loop {
            let (&start, _) = self.pieces.first_key_value()?;
            if start > position {
                return None;
            }
            let mut piece = self.pieces.remove(&start)?;
            self.bytes -= piece.bytes.len();
            let below = position - start;
            if below < piece.bytes.len() as u64 {
                piece.bytes.drain(..below as usize);
                piece.marks.tag &= below == 0;
                return Some(piece);
            }
        }
    }

    /// The first `spans_max` ranges there are, neighbours joined.
    pub(crate) fn spans(&self, spans_max: usize) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (&left, piece) in &self.pieces {
            let right = left + piece.bytes.len() as u64;
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
    fn overlaps_are_kept_once_and_taken_in_order() {
        let mut random = SplitMix64::new(4);
        for _ in 0..500 {
            let all: Vec<u8> = (0..200).map(|_| random.next_u64() as u8).collect();
            let mut held = Held::default();
            for _ in 0..random.below(40) {
                let start = random.below(200) as usize;
                let len = random.below(30) as usize;
                let stop = (start + len).min(200);
                held.insert(start as u64, &all[start..stop], Marks::default(), 100);
            }
            let spans = held.spans(1000);
            assert!(spans.windows(2).all(|pair| pair[0].right < pair[1].left));
            let listed: u64 = spans.iter().map(|span| span.right - span.left).sum();
            assert_eq!(listed as usize, held.bytes());
            for span in spans {
                let mut at = span.left;
                while let Some(piece) = held.take(at) {
                    let from = at as usize;
                    assert_eq!(piece.bytes, all[from..from + piece.bytes.len()]);
                    at += piece.bytes.len() as u64;
                }
                assert_eq!(at, span.right);
            }
            assert!(held.is_empty() && held.bytes() == 0);
        }
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let mut held = Held::default();
        for at in 0..10 {
            held.insert(at * 2, &[1], Marks::default(), 5);
        }
        assert_eq!(held.bytes(), 5);
    }
}
