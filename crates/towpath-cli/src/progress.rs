//! What a terminal shows while a race runs.

use crate::print::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Observer, Progress};
use results::{Status, Trial};
use std::collections::BTreeSet;
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
    complaints: BTreeSet<String>,
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
            complaints: BTreeSet::new(),
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
            note(format_args!(
                "{}, about {}",
                count(trials, "trial"),
                span(self.expected)
            ));
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
            note(format_args!(
                "{done}/{trials} {stage}: {what}, about {left} left"
            ));
        }
    }

    /// Says why a trial does not count, once for each cell and reason.
    fn done(&mut self, trial: &Trial) {
        let counts = matches!(trial.status, Status::Ok | Status::Interrupted);
        if counts || self.quiet {
            return;
        }
        let cell = &trial.cell;
        let fate = match (trial.block, trial.status) {
            (0, _) => "left out",
            (_, Status::Invalid) => "does not count",
            _ => "failed",
        };
        let size = size_text(cell.size().unwrap_or(0));
        let (workload, transport) = (cell.workload(), cell.transport());
        let line = format!("{fate}: {workload} {transport} at {size}: {}", trial.reason);
        let kind: String = line.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.complaints.insert(kind) {
            self.bar.suspend(|| note(line));
        }
    }

    fn look(&self, blocks: u32, decided: usize, of: usize) {
        if self.quiet || of == 0 {
            return;
        }
        let blocks = count(u64::from(blocks), "block");
        let verdicts = count(of as u64, "verdict");
        let line = format!("after {blocks} {decided} of {verdicts} stand");
        self.bar.suspend(|| note(line));
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
                self.look(*blocks, *decided, *of);
            }
        }
    }
}

/// `1 trial`, `2 trials`.
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Bytes as `--sizes` takes them.
fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "no size".into(),
        whole if whole.is_multiple_of(1 << 20) => format!("{} MiB", whole >> 20),
        whole if whole.is_multiple_of(1 << 10) => format!("{} KiB", whole >> 10),
        other => format!("{other} B"),
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
