//! The time series of a loop, in preallocated memory.

use super::WorkerFlags;
use super::turns::TurnSlices;
use control::{CircuitReport, Slice};

/// Most slices kept, many more than a chart can show.
const SLICES_MAX: usize = 4096;

/// Cumulative counts over time.
#[derive(Debug)]
pub(crate) enum SliceRecorder {
    /// Taken at most once every so often.
    Timed(TimedSlices),
    /// One a turn.
    ByTurn(TurnSlices),
}

impl SliceRecorder {
    /// A slice every `every_ns` from `start_ns` on.
    pub(crate) fn new(start_ns: u64, every_ns: u64) -> SliceRecorder {
        SliceRecorder::Timed(TimedSlices::new(start_ns, every_ns))
    }

    /// A slice for each turn of a loop that has turns, or else every `every_ns` from `start_ns` on.
    pub(crate) fn of(flags: &WorkerFlags, start_ns: u64, every_ns: u64) -> SliceRecorder {
        match flags.turns() {
            Some(turns) => SliceRecorder::ByTurn(TurnSlices::new(turns)),
            None => SliceRecorder::new(start_ns, every_ns),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, at_ns: u64, messages: u64, bytes: u64) {
        let now = Slice {
            at_ns,
            messages,
            bytes,
        };
        match self {
            SliceRecorder::Timed(slices) if at_ns >= slices.next_ns => slices.take(now),
            SliceRecorder::Timed(_) => {}
            SliceRecorder::ByTurn(slices) => slices.record(now),
        }
    }

    /// How many calls a receiver may make before it reads the clock again, of `calls` at most. Near the
    /// end of a turn a single one: of several, the last would wait for the next turn.
    #[inline]
    pub(crate) fn calls_allowed(&self, at_ns: u64, calls: usize) -> usize {
        match self {
            SliceRecorder::ByTurn(slices) if !slices.is_amid_turn(at_ns) => 1,
            _ => calls,
        }
    }

    /// The series, with the counts at the end as its last slice.
    pub(crate) fn finish(self, at_ns: u64, messages: u64, bytes: u64) -> Vec<Slice> {
        match self {
            SliceRecorder::Timed(mut timed) => {
                timed.slices.push(Slice {
                    at_ns,
                    messages,
                    bytes,
                });
                timed.slices
            }
            SliceRecorder::ByTurn(slices) => slices.finish(),
        }
    }

    /// Puts the series of what was received into its report, and how much of it came late.
    pub(crate) fn finish_into(self, report: &mut CircuitReport) {
        if let SliceRecorder::ByTurn(slices) = &self {
            let late = slices.late_fraction();
            report.measures.insert(TURN_LATE_FRACTION.into(), late);
        }
        report.slices = self.finish(report.last_ns, report.received, report.received_bytes);
    }
}

/// Name of a measure: share of the octets received that came after a turn, in that of another.
pub const TURN_LATE_FRACTION: &str = "turn_late_fraction";

/// Cumulative counts, taken at most once every `every_ns`.
#[derive(Debug)]
pub(crate) struct TimedSlices {
    every_ns: u64,
    next_ns: u64,
    slices: Vec<Slice>,
}

impl TimedSlices {
    fn new(start_ns: u64, every_ns: u64) -> TimedSlices {
        TimedSlices {
            every_ns: every_ns.max(1),
            next_ns: start_ns,
            slices: Vec::with_capacity(SLICES_MAX),
        }
    }

    #[cold]
    fn take(&mut self, now: Slice) {
        self.next_ns = now.at_ns + self.every_ns;
        if self.slices.len() < SLICES_MAX {
            self.slices.push(now);
        }
    }
}
