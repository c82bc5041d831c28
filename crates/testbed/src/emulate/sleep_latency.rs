//! How late the sleeps of a link thread end.

/// A longer sleep may let the CPU enter an idle state with a longer wake-up, ns.
const IDLE_STATE_NS: u64 = 250_000;

/// Sleeps end early by the average lateness of earlier ones, within these bounds, ns; the rest is
/// spent spinning.
pub(crate) const WAKE_EARLY_NS: (u64, u64) = (10_000, 200_000);

/// How late sleeps end, as running means: short sleeps, and those that may reach an idle state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SleepLatency {
    mean_ns: [u64; 2],
}

impl SleepLatency {
    /// How much earlier a sleep of `left_ns` should end.
    pub(crate) fn early_ns(&self, left_ns: u64) -> u64 {
        let mean_ns = self.mean_ns[usize::from(left_ns > IDLE_STATE_NS)];
        (mean_ns * 3 / 2).clamp(WAKE_EARLY_NS.0, WAKE_EARLY_NS.1)
    }

    /// Adds a sleep of `asked_ns` that took `slept_ns` and was not interrupted.
    pub(crate) fn learn(&mut self, asked_ns: u64, slept_ns: u64) {
        let late_ns = slept_ns.saturating_sub(asked_ns);
        let mean_ns = &mut self.mean_ns[usize::from(asked_ns > IDLE_STATE_NS)];
        *mean_ns = (*mean_ns * 7 + late_ns) / 8;
    }
}
