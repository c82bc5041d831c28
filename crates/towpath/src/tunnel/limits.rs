//! What a tunnel's connections may take, and how often it says that they take too much.

use std::io;
use std::time::{Duration, Instant};

/// Shortest time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Receives log lines.
pub(super) type LogSink = Box<dyn FnMut(&str) + Send>;

/// Passes on one line a second, with the number of lines left out.
#[derive(Default)]
pub(super) struct LimitedLog {
    pub(super) sink: Option<LogSink>,
    last_at: Option<Instant>,
    left_out: u64,
}

impl LimitedLog {
    /// Logs `what` at `now`, unless the last line was less than a second before.
    pub(super) fn line(&mut self, now: Instant, what: &str) {
        if self
            .last_at
            .is_some_and(|last| now.duration_since(last) < LOG_INTERVAL)
        {
            self.left_out += 1;
            return;
        }
        self.last_at = Some(now);
        let left_out = std::mem::take(&mut self.left_out);
        if let Some(sink) = &mut self.sink {
            match left_out {
                0 => sink(what),
                more => sink(&format!("{what} (and {more} more failures)")),
            }
        }
    }
}

/// Whether the host lacks descriptors, memory or ports, so that the next attempt would fail as well.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    const EXHAUSTED: [i32; 5] = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::EADDRNOTAVAIL,
    ];
    error
        .raw_os_error()
        .is_some_and(|number| EXHAUSTED.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn limited_log_passes_one_line_a_second() {
        let (say, said) = channel();
        let mut log = LimitedLog {
            sink: Some(Box::new(move |line| {
                say.send(line.to_owned()).expect("kept")
            })),
            ..LimitedLog::default()
        };
        let began = Instant::now();
        for ms in (0..2500).step_by(10) {
            log.line(began + Duration::from_millis(ms), "full");
        }
        let lines: Vec<String> = said.try_iter().collect();
        let more = "full (and 99 more failures)";
        assert_eq!(lines, ["full", more, more]);
    }
}
