//! What a link did in a measurement.

use link::LinkCounters;

/// How late frames were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Frames that were delayed.
    pub frames: u64,
    /// Sum of their lags, ns.
    pub sum_ns: u64,
    /// Largest lag, ns.
    pub max_ns: u64,
    /// Frames with a lag above 50 us.
    pub late: u64,
}

/// A lag that affects measured delays, ns.
const LATE_NS: u64 = 50_000;

impl Lag {
    /// Counts a frame due at `due_ps` and written at `now_ps`.
    pub(crate) fn record(&mut self, due_ps: u64, now_ps: u64) {
        let ns = now_ps.saturating_sub(due_ps) / 1000;
        self.frames += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.late += u64::from(ns > LATE_NS);
    }

    /// Mean lag, us; 0 without frames.
    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / 1000.0 / self.frames.max(1) as f64
    }
}

/// What a link thread did since the measurement began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// The model's counters: super-frames count as one frame, octets as on the wire.
    pub link: LinkCounters,
    /// Frames written to hosts; super-frames count as one.
    pub written: u64,
    /// Frames that a host's interface refused.
    pub refused: u64,
    /// Frames dropped because the delay queue was full.
    pub overflowed: u64,
    /// Frames in flight now.
    pub in_flight: u64,
    /// Collisions; shared Ethernet only.
    pub collisions: u64,
    /// How late frames were written.
    pub lag: Lag,
    /// CPU time of the thread, ns: reading, the model, and the hosts' receive processing, which the
    /// kernel does within write(2).
    pub cpu_ns: u64,
    /// Time since the measurement began, ns.
    pub elapsed_ns: u64,
}
