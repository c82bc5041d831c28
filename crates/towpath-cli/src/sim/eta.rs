//! How far a run is, and how long it will take: a line after two seconds, then less and less often.

use crate::print;
use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A run that takes less says nothing.
const FIRST_LINE_AFTER: Duration = Duration::from_secs(2);

/// No two lines are further apart.
const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// A clock that says how far one is.
pub struct EtaReporter {
    began: Instant,
    /// When the next line is due, and how long after it the one after that.
    next: Mutex<(Duration, Duration)>,
}

impl EtaReporter {
    /// Begins now.
    pub fn begin() -> EtaReporter {
        EtaReporter {
            began: Instant::now(),
            next: Mutex::new((FIRST_LINE_AFTER, FIRST_LINE_AFTER)),
        }
    }

    /// How long it has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A `share` of all, 0 to 1, is done, which `what` says in words.
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
