//! What the spans of a control packet say of what the receiver has, for one receiver and for each
//! member of a group.

use crate::pdu::Span;
use core::ops::Range;

/// Whether spans are ascending, disjoint, beyond `rseq` and within the bytes sent.
pub(crate) fn spans_are_valid(rseq: u64, next_seq: u64, spans: &[Span]) -> bool {
    let mut at = rseq;
    spans.iter().all(|span| {
        let is_valid = span.left >= at && span.right > span.left && span.right <= next_seq;
        at = span.right;
        is_valid
    })
}

/// The ranges from byte `from` up to `sent` that `spans` do not cover, and those between the spans.
pub(crate) fn missing_ranges(
    from: u64,
    sent: u64,
    spans: &[Span],
) -> impl Iterator<Item = Range<u64>> {
    let end = Span {
        left: sent,
        right: sent,
    };
    let mut at = from;
    spans.iter().copied().chain([end]).filter_map(move |span| {
        let gap = at..span.left;
        at = at.max(span.right);
        (!gap.is_empty()).then_some(gap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ranges: &[(u64, u64)]) -> Vec<Span> {
        let span = |&(left, right): &(u64, u64)| Span { left, right };
        ranges.iter().map(span).collect()
    }

    #[test]
    fn spans_beyond_sent_or_out_of_order_are_invalid() {
        assert!(spans_are_valid(5, 20, &spans(&[(6, 8), (8, 9), (12, 20)])));
        let wrong: [&[(u64, u64)]; 5] = [
            &[(4, 8)],
            &[(6, 6)],
            &[(6, 21)],
            &[(9, 10), (6, 8)],
            &[(6, 9), (8, 10)],
        ];
        for wrong in wrong {
            assert!(!spans_are_valid(5, 20, &spans(wrong)), "{wrong:?}");
        }
    }

    #[test]
    fn missing_ranges_are_gaps_and_the_tail() {
        let missing = |from, sent, ranges: &[(u64, u64)]| -> Vec<_> {
            let spans = spans(ranges);
            let missing = missing_ranges(from, sent, &spans);
            missing.map(|range| (range.start, range.end)).collect()
        };
        let reported = [(7, 9), (12, 14)];
        assert_eq!(missing(5, 20, &reported), [(5, 7), (9, 12), (14, 20)]);
        assert_eq!(missing(5, 10, &reported), [(5, 7), (9, 12)]);
        assert_eq!(missing(13, 20, &reported), [(14, 20)]);
        assert_eq!(missing(5, 0, &[]), []);
    }
}
