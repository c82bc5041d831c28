//! The clock: its source, cost of a read, and step.

use crate::kernel_files::KernelFiles;
use std::time::Instant;

/// Readings of the clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// Current clock source.
    pub(crate) source: Option<String>,
    /// Available clock sources.
    pub(crate) available: Option<String>,
    /// Median nanoseconds of a read.
    pub(crate) read_ns: Option<f64>,
    /// Smallest nanoseconds two reads differ by, if they differ.
    pub(crate) step_ns: Option<u64>,
}

const SOURCES: &str = "sys/devices/system/clocksource/clocksource0";

impl Clock {
    pub(crate) fn of(files: &KernelFiles) -> Clock {
        Clock {
            source: files.line(&format!("{SOURCES}/current_clocksource")),
            available: files.line(&format!("{SOURCES}/available_clocksource")),
            read_ns: files.is_system().then(read_ns),
            step_ns: files.is_system().then(step_ns).flatten(),
        }
    }
}

/// Batches timed. With reads of 25 ns all of them take 0.2 ms.
const BATCHES: usize = 63;

/// Reads in a batch: enough that the two reads around it do not matter.
const READS: u32 = 128;

/// Median over batches, so that a preemption does not show.
fn read_ns() -> f64 {
    let mut costs = [0.0; BATCHES];
    for cost in &mut costs {
        let start = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(Instant::now());
        }
        *cost = start.elapsed().as_nanos() as f64 / f64::from(READS + 1);
    }
    costs.sort_by(f64::total_cmp);
    costs[BATCHES / 2]
}

fn step_ns() -> Option<u64> {
    let reads: Vec<Instant> = (0..1024).map(|_| Instant::now()).collect();
    let steps = reads.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos());
    let smallest = steps.filter(|step| *step > 0).min()?;
    u64::try_from(smallest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_read_cost_and_step_are_positive() {
        assert!(read_ns() > 0.0);
        assert!(step_ns().is_some());
    }
}
