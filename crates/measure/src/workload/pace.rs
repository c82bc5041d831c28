//! A loop that must not send more than so many bytes a second.

use super::Flags;
use crate::clock::now_ns;
use control::Job;
use std::time::Duration;

/// Sleeps are cut into pieces, so that a loop that was stopped notices.
const PIECE: Duration = Duration::from_millis(20);

/// Being ahead by less than this is not worth a sleep, ns.
const AHEAD_NS: u64 = 500_000;

/// The pace of a loop; none costs a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    bytes_per_s: Option<u64>,
    start_ns: u64,
    end_ns: u64,
}

impl Pace {
    /// The pace of `job`, whose loop starts at `start_ns`.
    pub(crate) fn new(job: &Job, start_ns: u64) -> Pace {
        Pace {
            bytes_per_s: job.pace_bytes_per_s,
            start_ns,
            end_ns: start_ns.saturating_add(job.limits.time_ns),
        }
    }

    /// How much too early it is at `now_ns` after `bytes` in all.
    #[inline]
    pub(crate) fn ahead_ns(&self, bytes: u64, now_ns: u64) -> u64 {
        let Some(bytes_per_s) = self.bytes_per_s else {
            return 0;
        };
        let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
        let due_ns = u64::try_from(due_ns).unwrap_or(u64::MAX);
        due_ns.saturating_sub(now_ns - self.start_ns)
    }

    /// Whether more may be sent after `bytes` in all.
    #[inline]
    pub(crate) fn is_free(&self, bytes: u64) -> bool {
        self.bytes_per_s.is_none() || self.ahead_ns(bytes, now_ns()) == 0
    }

    /// Sleeps until more may be sent after `bytes` in all, the loop's time is over or it is stopped.
    #[inline]
    pub(crate) fn hold(&self, bytes: u64, flags: &Flags) {
        if self.bytes_per_s.is_some() {
            self.sleep(bytes, flags);
        }
    }

    #[cold]
    fn sleep(&self, bytes: u64, flags: &Flags) {
        loop {
            let now = now_ns();
            let ahead_ns = self
                .ahead_ns(bytes, now)
                .min(self.end_ns.saturating_sub(now));
            if ahead_ns < AHEAD_NS || flags.is_stopped() {
                return;
            }
            std::thread::sleep(Duration::from_nanos(ahead_ns).min(PIECE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let pace = Pace {
            bytes_per_s: Some(1000),
            start_ns: 5_000,
            end_ns: u64::MAX,
        };
        assert_eq!(pace.ahead_ns(10, 5_000), 10_000_000);
        assert_eq!(pace.ahead_ns(10, 10_005_000), 0);
        assert_eq!(pace.ahead_ns(u64::MAX, 5_000), u64::MAX);
        let free = Pace {
            bytes_per_s: None,
            ..pace
        };
        assert_eq!(free.ahead_ns(u64::MAX, 5_000), 0);
        assert!(free.is_free(u64::MAX));
    }
}
