//! How many retransmissions a member may cause (0018, Repairs).
//!
//! Bytes that one member lacks are sent again to all, and the window waits for them. A member that
//! lies about its losses, or one behind a link that loses a quarter of all packets, would slow the
//! others down without a limit. It is excluded instead.

use core::ops::Range;

/// A member may lack this part more of the bytes sent than the member that lacks the next most:
/// 1/16, so that what one member alone causes costs the others 6 % at most.
const EXCESS_DIVISOR: u64 = 16;

/// Beyond that, it may lack this many windows: an outage loses one.
const OUTAGES: u64 = 4;

/// The same byte may be sent this often to a member before it counts: of packets lost with
/// probability p, p^2 are lost twice.
const REPAIRS_FREE: u32 = 2;

/// Reports that may ask for the same byte more often than that: this many, and one in 16. A link
/// that loses a quarter of all packets comes to one in 16 (1/4 squared).
const STUBBORN_FREE: u64 = 16;
const STUBBORN_DIVISOR: u64 = 16;

/// What a member's reports have asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RepairAccount {
    /// The first byte that it was granted.
    start: u64,
    /// Bytes that it lacked, each again when it still lacked it after a retransmission.
    lacked: u64,
    /// Bytes below were counted, if it lacked them.
    counted_to: u64,
    /// The first byte that it lacked, and how often that was to be sent again.
    first_missing: u64,
    repairs_of_first: u32,
    reports: u64,
    /// Reports that asked for the same byte more than [`REPAIRS_FREE`] times.
    stubborn: u64,
}

impl RepairAccount {
    /// The account of a member that begins at byte `start`.
    pub(super) fn new(start: u64) -> RepairAccount {
        RepairAccount {
            start,
            counted_to: start,
            ..RepairAccount::default()
        }
    }

    /// Bytes that it lacked.
    pub(super) fn lacked(&self) -> u64 {
        self.lacked
    }

    /// A report in which it lacks `missing`, of the bytes below `sent`. Of these `queued` are to be
    /// sent again because of it.
    pub(super) fn record(&mut self, missing: &[Range<u64>], queued: &[Range<u64>], sent: u64) {
        self.reports += 1;
        let counted_to = self.counted_to;
        let end = missing.last().map_or(sent, |range| range.end.max(sent));
        let once: u64 = missing
            .iter()
            .map(|range| range.end.saturating_sub(range.start.max(counted_to)))
            .sum();
        let again: u64 = queued
            .iter()
            .map(|range| range.end.min(counted_to).saturating_sub(range.start))
            .sum();
        self.lacked = self.lacked.saturating_add(once + again);
        self.counted_to = counted_to.max(end);
        if let Some(first) = missing.first()
            && queued
                .first()
                .is_some_and(|range| range.start == first.start)
        {
            if self.first_missing != first.start {
                self.first_missing = first.start;
                self.repairs_of_first = 0;
            }
            self.repairs_of_first += 1;
            self.stubborn += u64::from(self.repairs_of_first > REPAIRS_FREE);
        }
    }

    /// Whether it asked for the same bytes too often.
    pub(super) fn is_stubborn(&self) -> bool {
        self.stubborn > STUBBORN_FREE + self.reports / STUBBORN_DIVISOR
    }

    /// Whether it lacked too much, where another member lacked `next_most`, `sent` bytes of the
    /// stream were sent, and a window has `window` bytes.
    pub(super) fn is_excessive(&self, next_most: u64, sent: u64, window: u64) -> bool {
        let share = sent.saturating_sub(self.start) / EXCESS_DIVISOR;
        let allowed = share.saturating_add(OUTAGES.saturating_mul(window));
        self.lacked > next_most.saturating_add(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::slice::from_ref as one;

    #[test]
    fn loss_counted_once_and_again_after_a_repair() {
        let mut account = RepairAccount::new(0);
        let lost = 100..200;
        account.record(one(&lost), one(&lost), 1000);
        assert_eq!(account.lacked(), 100);
        // The repair is on its way, or another member asked for it first.
        account.record(one(&lost), &[], 1000);
        assert_eq!(account.lacked(), 100);
        account.record(one(&lost), one(&lost), 1000);
        assert_eq!(account.lacked(), 200);
    }

    #[test]
    fn loss_that_another_reported_first_counts() {
        let mut account = RepairAccount::new(0);
        account.record(&[100..200, 300..350], &[], 1000);
        assert_eq!(account.lacked(), 150);
    }

    #[test]
    fn same_byte_asked_for_again_and_again_is_stubborn() {
        let mut account = RepairAccount::new(0);
        let rounds = (1..).take_while(|_| {
            account.record(one(&(0..100)), one(&(0..100)), 1000);
            !account.is_stubborn()
        });
        assert_eq!(rounds.count(), 19);
    }

    #[test]
    fn loss_of_a_fifth_is_not_stubborn() {
        let mut account = RepairAccount::new(0);
        let mut random = engine::SplitMix64::new(5);
        for packet in 0..20_000 {
            let lost = packet * 100..packet * 100 + 100;
            while random.below(5) == 0 {
                account.record(one(&lost), one(&lost), lost.end);
                assert!(!account.is_stubborn(), "packet {packet}");
            }
            account.record(&[], &[], lost.end);
        }
    }

    #[test]
    fn excess_over_next_member_limited_to_a_sixteenth_and_four_windows() {
        let mut account = RepairAccount::new(0);
        account.record(one(&(0..1000)), one(&(0..1000)), 1000);
        assert!(account.is_excessive(0, 1000, 0));
        assert!(!account.is_excessive(0, 16_000, 0) && !account.is_excessive(0, 0, 250));
        assert!(!account.is_excessive(1000, 0, 0));
    }
}
