//! What a terminal shows while a race runs.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Observer, Progress};
use results::{Status, Trial};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar on a terminal; elsewhere a line every ten seconds.
pub struct Terminal {
    bar: ProgressBar,
    quiet: bool,
    plain: bool,
    expected: Duration,
    began: Instant,
    said: Instant,
}

/// How often progress is said where there is no terminal.
const SAY_EVERY: Duration = Duration::from_secs(10);

impl Terminal {
    /// `quiet` leaves out everything but the bar.
    pub fn new(quiet: bool) -> Terminal {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let now = Instant::now();
        Terminal {
            bar: ProgressBar::with_draw_target(None, target),
            quiet,
            plain: !is_terminal,
            expected: Duration::ZERO,
            began: now,
            said: now,
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn planned(&mut self, trials: u64, expected_s: f64) {
        self.expected = Duration::from_secs_f64(expected_s.max(0.0));
        self.began = Instant::now();
        self.bar.set_length(trials);
        let template = "{bar:24} {pos}/{len}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if !self.quiet {
            anstream::eprintln!("{trials} trials, about {}", span(self.expected));
        }
    }

    fn started(&mut self, done: u64, trials: u64, what: &str, block: u32) {
        let left = span(self.expected.saturating_sub(self.began.elapsed()));
        let stage = if block == 0 {
            "pilot".to_owned()
        } else {
            format!("block {block}")
        };
        self.bar.set_position(done);
        self.bar
            .set_message(format!("{stage}: {what}, {left} left"));
        if self.plain && !self.quiet && self.said.elapsed() > SAY_EVERY {
            self.said = Instant::now();
            anstream::eprintln!("{done}/{trials} {stage}: {what}, about {left} left");
        }
    }

    fn done(&self, trial: &Trial) {
        if trial.block == 0 && trial.status != Status::Ok && !self.quiet {
            let size = trial.cell.text("size");
            self.bar.suspend(|| {
                anstream::eprintln!(
                    "left out: {} {} at {size} B: {}",
                    trial.cell.workload(),
                    trial.cell.transport(),
                    trial.reason
                );
            });
        }
    }
}

impl Observer for Terminal {
    fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Planned { trials, expected_s } => self.planned(*trials, *expected_s),
            Progress::Started {
                done,
                trials,
                what,
                block,
            } => {
                self.started(*done, *trials, what, *block);
            }
            Progress::Done(trial) => self.done(trial),
            Progress::Look {
                blocks,
                decided,
                of,
            } => {
                if !self.quiet {
                    self.bar.suspend(|| {
                        anstream::eprintln!(
                            "after {blocks} blocks {decided} of {of} verdicts stand"
                        );
                    });
                }
            }
        }
    }
}

/// Seconds, or minutes and seconds.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    if seconds < 100 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}
