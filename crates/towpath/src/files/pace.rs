//! The least pace of a transfer.

use super::PEER_TIMEOUT;
use std::time::Instant;

/// Least bytes a second, over [`PEER_TIMEOUT`]: below it a transfer holds its place for nobody's use.
/// A pause as long as the timeout is tolerated once the bytes before it were in time.
const LEAST_BYTES_PER_S: u64 = 1 << 10;

/// Bytes each period of [`PEER_TIMEOUT`] must have.
const PERIOD_BYTES: u64 = LEAST_BYTES_PER_S * PEER_TIMEOUT.as_secs();

/// Judges a transfer's pace in successive periods.
#[derive(Debug)]
pub(super) struct PaceLimit {
    period_began_at: Instant,
    period_bytes: u64,
}

impl PaceLimit {
    pub(super) fn new(now: Instant) -> PaceLimit {
        PaceLimit {
            period_began_at: now,
            period_bytes: 0,
        }
    }

    /// Notes that `len` bytes came.
    pub(super) fn add(&mut self, len: usize) {
        self.period_bytes += len as u64;
    }

    /// Notes that `len` bytes came; false when the period is over with too few.
    pub(super) fn is_kept(&mut self, now: Instant, len: usize) -> bool {
        self.add(len);
        if now.duration_since(self.period_began_at) < PEER_TIMEOUT {
            return true;
        }
        let kept = self.period_bytes >= PERIOD_BYTES;
        *self = PaceLimit::new(now);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn pace_of_one_byte_a_second_is_not_kept() {
        let began = Instant::now();
        let mut pace = PaceLimit::new(began);
        let ends = (1..).find(|&s| !pace.is_kept(began + Duration::from_secs(s), 1));
        assert_eq!(ends, Some(PEER_TIMEOUT.as_secs()));
    }

    #[test]
    fn pace_of_a_kibibyte_a_second_is_kept() {
        let began = Instant::now();
        let mut pace = PaceLimit::new(began);
        let second = |s| began + Duration::from_secs(s);
        assert!((1..=300).all(|s| pace.is_kept(second(s), 1024)));
        assert!(!(301..=330).all(|s| pace.is_kept(second(s), 1000)));
    }
}
