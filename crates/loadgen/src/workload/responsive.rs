//! Short messages beside bulk on the same path: round trips while the path is idle, and under load.
//!
//! The first circuit of each transport carries requests and replies, one at a time; the others carry bulk
//! in the same direction as the requests. Bulk begins after a quarter of the trial, so that the same
//! processes and circuits show both. All loops keep the times of [`Phases`] from their own start.

use super::client::{CallRecorder, ClientControl, call_repeatedly};
use super::slices::SliceRecorder;
use super::{WorkerFlags, source};
use crate::clock::now_ns;
use control::{CircuitReport, Job, Role, Workload};
use hdrhistogram::Histogram as Hdr;
use results::{Histogram, new_histogram};
use std::time::Duration;
use towpath::Circuit;

/// Octets of a short message, both ways.
pub const SHORT_LEN: u64 = 64;

/// Name of the histogram of round trips while the path was idle; those under load are `delay`.
pub const IDLE: &str = "delay_idle";

/// Name of a measure: replies to short messages under load.
pub const LOADED_REPLIES: &str = "loaded_replies";

/// Name of a measure: the seconds in which they came.
pub const LOADED_S: &str = "loaded_s";

/// The parts of a trial that lasts `whole_ns`, as times from its start, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// From here on round trips count as idle: a sixteenth is left for new circuits to settle.
    pub idle_from_ns: u64,
    /// Bulk begins, after a quarter.
    pub bulk_from_ns: u64,
    /// From here on round trips count as under load: an eighth is left for the queues to fill.
    pub loaded_from_ns: u64,
    /// The end of all.
    pub end_ns: u64,
}

impl Phases {
    /// The parts of a trial of this length, ns.
    pub fn of(whole_ns: u64) -> Phases {
        Phases {
            idle_from_ns: whole_ns / 16,
            bulk_from_ns: whole_ns / 4,
            loaded_from_ns: whole_ns / 8 * 3,
            end_ns: whole_ns,
        }
    }
}

/// Makes the job of one circuit from that of its worker: the first of its transport has the short
/// messages, the others carry bulk.
pub(crate) fn divide(job: &mut Job, is_first: bool) {
    if job.workload != Workload::Responsive {
        return;
    }
    if is_first {
        job.message_len = job.reply_len;
        return;
    }
    job.reply_len = 0;
    job.role = match job.role {
        Role::Client => Role::Source,
        _ => Role::Sink,
    };
}

/// Sends bulk from its time on, until the end.
pub(crate) fn bulk(circuit: &mut dyn Circuit, job: &Job, flags: &WorkerFlags) -> CircuitReport {
    let phases = Phases::of(job.limits.time_ns);
    let begin_ns = now_ns() + phases.bulk_from_ns;
    while now_ns() < begin_ns && !flags.is_stopped() {
        let left_ns = begin_ns.saturating_sub(now_ns());
        std::thread::sleep(Duration::from_nanos(left_ns.min(NAP_NS)));
    }
    let mut job = job.clone();
    job.limits.time_ns = phases.end_ns - phases.bulk_from_ns;
    source::run(circuit, &job, flags)
}

/// Longest sleep, so that a stopped loop notices, ns.
const NAP_NS: u64 = 20_000_000;

/// Sends short messages one after the other until the end.
pub(crate) fn short(
    circuit: &mut dyn Circuit,
    job: &Job,
    control: ClientControl<'_>,
) -> CircuitReport {
    let mut buffer = vec![0; super::sink::buffer_len(job)];
    let start_ns = now_ns();
    let mut trips = RoundTrips::new(start_ns, job);
    let place = (start_ns, &mut buffer[..]);
    let mut report = call_repeatedly(circuit, job, control, place, &mut trips);
    trips.finish(&mut report);
    report
}

/// The round trips of a client by the phase they fall into.
struct RoundTrips {
    start_ns: u64,
    phases: Phases,
    /// The round trip that has just ended.
    last_ns: Option<u64>,
    idle: Hdr<u64>,
    loaded: Hdr<u64>,
    /// Begin of the first round trip under load, and end of the last.
    loaded_span_ns: Option<(u64, u64)>,
    slices: SliceRecorder,
}

impl RoundTrips {
    fn new(start_ns: u64, job: &Job) -> RoundTrips {
        RoundTrips {
            start_ns,
            phases: Phases::of(job.limits.time_ns),
            last_ns: None,
            idle: new_histogram(),
            loaded: new_histogram(),
            loaded_span_ns: None,
            slices: SliceRecorder::new(start_ns, job.limits.slice_ns),
        }
    }

    /// Counts a round trip, by its begin and its end since the start.
    fn count(&mut self, begin_ns: u64, end_ns: u64) {
        let Phases {
            idle_from_ns,
            bulk_from_ns,
            loaded_from_ns,
            ..
        } = self.phases;
        if begin_ns >= idle_from_ns && end_ns < bulk_from_ns {
            self.idle.saturating_record(end_ns - begin_ns);
        } else if begin_ns >= loaded_from_ns {
            self.loaded.saturating_record(end_ns - begin_ns);
            let first_ns = self
                .loaded_span_ns
                .map_or(begin_ns, |(first_ns, _)| first_ns);
            self.loaded_span_ns = Some((first_ns, end_ns));
        }
    }

    fn finish(self, report: &mut CircuitReport) {
        let (first_ns, last_ns) = self.loaded_span_ns.unwrap_or_default();
        let measures = [
            (LOADED_REPLIES, self.loaded.len() as f64),
            (LOADED_S, (last_ns - first_ns) as f64 * 1e-9),
        ];
        let measures = measures.map(|(name, value)| (name.to_owned(), value));
        report.measures.extend(measures);
        for (name, histogram) in [(IDLE, &self.idle), ("delay", &self.loaded)] {
            if let (false, Ok(encoded)) = (histogram.is_empty(), Histogram::encode(histogram, "ns"))
            {
                report.histograms.insert(name.into(), encoded.hdr_v2);
            }
        }
        self.slices.finish_into(report);
    }
}

impl CallRecorder for RoundTrips {
    #[inline]
    fn replied(&mut self, delay_ns: u64, _len: usize, _turn: Option<usize>) {
        self.last_ns = Some(delay_ns);
    }

    #[inline]
    fn called(&mut self, report: &CircuitReport) {
        self.slices
            .record(report.last_ns, report.received, report.received_bytes);
        if let Some(delay_ns) = self.last_ns.take() {
            let end_ns = report.last_ns.saturating_sub(self.start_ns);
            self.count(end_ns.saturating_sub(delay_ns), end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trips() -> RoundTrips {
        RoundTrips {
            start_ns: 0,
            phases: Phases::of(1600),
            last_ns: None,
            idle: new_histogram(),
            loaded: new_histogram(),
            loaded_span_ns: None,
            slices: SliceRecorder::new(0, 100),
        }
    }

    #[test]
    fn round_trips_count_in_the_phase_that_they_lie_in() {
        let mut trips = trips();
        for (begin_ns, end_ns) in [
            (0, 90),      // still settling
            (100, 150),   // idle
            (390, 410),   // bulk began meanwhile
            (500, 620),   // queues fill
            (620, 700),   // under load
            (1500, 1700), // ends late, and was under load all the time
        ] {
            trips.count(begin_ns, end_ns);
        }
        let mut report = CircuitReport::default();
        assert_eq!((trips.idle.len(), trips.loaded.len()), (1, 2));
        trips.finish(&mut report);
        assert_eq!(report.measures[LOADED_REPLIES], 2.0);
        assert!((report.measures[LOADED_S] - 1080e-9).abs() < 1e-12);
        assert_eq!(report.histograms.len(), 2);
    }

    #[test]
    fn phases_follow_each_other_in_trials_of_any_length() {
        for whole_ns in [16, 400_000_000, 10_000_000_000] {
            let phases = Phases::of(whole_ns);
            assert!(phases.idle_from_ns < phases.bulk_from_ns);
            assert!(phases.bulk_from_ns < phases.loaded_from_ns);
            assert!(phases.loaded_from_ns < phases.end_ns);
        }
    }
}
