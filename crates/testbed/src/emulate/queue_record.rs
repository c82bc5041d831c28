//! The queue of a link over time.

/// Points kept, many more than a chart can show.
const POINTS_MAX: usize = 4096;

/// Octets that waited, at most one point each so often.
#[derive(Debug)]
pub(crate) struct QueueRecord {
    every_ps: u64,
    next_ps: u64,
    points: Vec<(u64, u64)>,
}

impl QueueRecord {
    /// A point at most every `every_ns`, from `now_ps` on.
    pub(crate) fn new(every_ns: u64, now_ps: u64) -> QueueRecord {
        QueueRecord {
            every_ps: every_ns.max(1).saturating_mul(1000),
            next_ps: now_ps,
            points: Vec::with_capacity(POINTS_MAX),
        }
    }

    /// Whether a point is due.
    #[inline]
    pub(crate) fn is_due(&self, now_ps: u64) -> bool {
        now_ps >= self.next_ps && self.points.len() < POINTS_MAX
    }

    /// Adds a point.
    pub(crate) fn push(&mut self, now_ps: u64, octets: u64) {
        self.next_ps = now_ps.saturating_add(self.every_ps);
        self.points.push((now_ps, octets));
    }

    /// The points as (CLOCK_MONOTONIC in ns, octets). `now_ps` and `now_ns` are the same moment on the
    /// links' clock, which overflows after 200 days, and on the kernel's.
    pub(crate) fn finish(self, now_ps: u64, now_ns: u64) -> Vec<(u64, u64)> {
        let at_ns = |at_ps: u64| now_ns.saturating_sub(now_ps.wrapping_sub(at_ps) / 1000);
        let points = self.points.into_iter();
        points
            .map(|(at_ps, octets)| (at_ns(at_ps), octets))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_a_point_an_interval_on_the_clock_of_the_kernel() {
        let mut record = QueueRecord::new(2, 1_000);
        for (now_ps, octets) in [(1_000, 5), (2_000, 6), (3_000, 7), (9_000, 8)] {
            if record.is_due(now_ps) {
                record.push(now_ps, octets);
            }
        }
        assert_eq!(record.finish(10_000, 510), [(501, 5), (503, 7), (509, 8)]);
    }

    #[test]
    fn record_has_a_limit() {
        let mut record = QueueRecord::new(1, 0);
        let due = (0..5000u64).filter(|at| {
            let is_due = record.is_due(at * 1000);
            if is_due {
                record.push(at * 1000, 0);
            }
            is_due
        });
        assert_eq!(due.count(), POINTS_MAX);
    }
}
