//! When a receiver leaves that hears nothing more.

use super::WorkerFlags;
use control::{CircuitReport, Job};
use std::time::{Duration, Instant};

/// Silence that ends a connectionless circuit after the peer has sent all, besides the path delay.
const IDLE_TIMEOUT: Duration = Duration::from_millis(15);

/// Silence after which a circuit whose end of stream does not come is given up, besides the path delay.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// Name of a measure: the seconds for which a receiver waited for the end of a circuit, which did not come.
pub const END_AWAITED_S: &str = "end_awaited_s";

/// The time since which nothing has arrived, once the peer has sent all.
pub(super) struct Silence {
    limit: Duration,
    connectionless: bool,
    since: Option<Instant>,
}

impl Silence {
    /// Of a receiver that has just begun.
    pub(super) fn new(job: &Job, connectionless: bool) -> Silence {
        let limit = match connectionless {
            true => IDLE_TIMEOUT,
            false => END_TIMEOUT,
        };
        Silence {
            limit: limit + Duration::from_nanos(job.path_delay_ns),
            connectionless,
            since: None,
        }
    }

    /// Something has arrived.
    #[inline]
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// Nothing has arrived; whether it is time to leave. A circuit that has an end, which did not come, says so in its report.
    pub(super) fn is_over(&mut self, flags: &WorkerFlags, report: &mut CircuitReport) -> bool {
        if flags.peer_sent().is_none() {
            return false;
        }
        let silent = self.since.get_or_insert_with(Instant::now).elapsed();
        let is_over = silent >= self.limit;
        if is_over && !self.connectionless {
            let awaited_s = silent.as_secs_f64();
            report.measures.insert(END_AWAITED_S.into(), awaited_s);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Role, Side};

    fn leaves_after(limit: Duration, connectionless: bool) -> CircuitReport {
        let job = Job::one_circuit("tcp", Side::Listen, Role::Sink);
        let mut silence = Silence::new(&job, connectionless);
        let (flags, mut report) = (WorkerFlags::default(), CircuitReport::default());
        assert!(!silence.is_over(&flags, &mut report));
        assert_eq!(silence.since, None, "the peer still sends");
        flags.set_peer_done(3);
        assert!(!silence.is_over(&flags, &mut report), "it begins now");
        silence.since = silence.since.and_then(|since| since.checked_sub(limit));
        assert!(silence.is_over(&flags, &mut report));
        report
    }

    #[test]
    fn circuit_whose_end_does_not_come_is_given_up_and_says_so() {
        let report = leaves_after(END_TIMEOUT, false);
        assert!(report.measures[END_AWAITED_S] >= 8.0);
    }

    #[test]
    fn silence_is_the_end_of_a_connectionless_circuit() {
        assert!(leaves_after(IDLE_TIMEOUT, true).measures.is_empty());
    }
}
