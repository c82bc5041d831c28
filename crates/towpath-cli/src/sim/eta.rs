//! Progress and remaining time of a run: a line after two seconds, then at growing intervals.

use crate::print;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Runs shorter than this print nothing.
const FIRST_LINE_AFTER: Duration = Duration::from_secs(2);

/// Maximum interval between lines.
const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// Prints the progress and remaining time of a run.
pub struct EtaReporter {
    began: Instant,
    /// Time of the next line, and the interval to the one after it.
    next: Mutex<(Duration, Duration)>,
}

impl EtaReporter {
    /// Starts the clock.
    pub fn begin() -> EtaReporter {
        EtaReporter {
            began: Instant::now(),
            next: Mutex::new((FIRST_LINE_AFTER, FIRST_LINE_AFTER)),
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Reports that `share` of the work (0 to 1) is done; `what` describes it. Prints a line if one
    /// is due.
    pub fn update(&self, share: f64, what: impl FnOnce() -> String) {
        let elapsed = self.began.elapsed();
        let Ok(mut next) = self.next.lock() else {
            return;
        };
        if elapsed < next.0 || share >= 1.0 {
            return;
        }
        next.1 = (next.1 * 3 / 2).min(INTERVAL_MAX);
        next.0 = elapsed + next.1;
        let left = elapsed.as_secs_f64() / share.max(1e-6) * (1.0 - share);
        print::note(line(&what(), left));
    }
}

fn line(what: &str, left_s: f64) -> impl Display {
    match left_s {
        s if s < 120.0 => format!("{what}, about {s:.0} s left"),
        s if s < 7200.0 => format!("{what}, about {:.0} min left", s / 60.0),
        s => format!("{what}, about {:.0} h left", s / 3600.0),
    }
}
