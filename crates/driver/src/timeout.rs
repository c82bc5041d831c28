//! Timeouts that a clock can be advanced by.

use std::time::{Duration, Instant};

/// The longest wait, a hundred years: more than anybody waits, and in range of every clock and system
/// call, which count 292 years of nanoseconds or more.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `limit` as a time that may be added to the present. [`Duration::MAX`] means for ever.
pub fn finite(limit: Duration) -> Duration {
    limit.min(LONGEST)
}

/// When a wait of `limit` from now on ends.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + finite(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_of_for_ever_can_be_added_to_the_present() {
        assert!(Instant::now().checked_add(Duration::MAX).is_none());
        assert!(Instant::now().checked_add(finite(Duration::MAX)).is_some());
        assert_eq!(finite(Duration::from_secs(9)), Duration::from_secs(9));
    }
}
