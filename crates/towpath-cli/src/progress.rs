//! Progress of a running race.

use crate::print::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Observer, Progress};
use results::{Status, Trial};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar on a terminal; elsewhere a line every ten seconds.
pub struct ProgressDisplay {
    bar: ProgressBar,
    quiet: bool,
    without_terminal: bool,
    expected: Duration,
    began: Instant,
    last_line_at: Instant,
    reported_failures: BTreeSet<String>,
}

/// Interval of progress lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl ProgressDisplay {
    /// With `quiet`, only the bar is shown.
    pub fn new(quiet: bool) -> ProgressDisplay {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let now = Instant::now();
        ProgressDisplay {
            bar: ProgressBar::with_draw_target(None, target),
            quiet,
            without_terminal: !is_terminal,
            expected: Duration::ZERO,
            began: now,
            last_line_at: now,
            reported_failures: BTreeSet::new(),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn on_planned(&mut self, trials: u64, expected_s: f64) {
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
                counted(trials, "trial"),
                duration_text(self.expected)
            ));
        }
    }

    fn on_started(&mut self, done: u64, trials: u64, what: &str, block: u32) {
        let left = duration_text(self.expected.saturating_sub(self.began.elapsed()));
        let phase = if block == 0 {
            "pilot".to_owned()
        } else {
            format!("block {block}")
        };
        self.bar.set_position(done);
        self.bar
            .set_message(format!("{phase}: {what}, {left} left"));
        if self.without_terminal && !self.quiet && self.last_line_at.elapsed() > LINE_INTERVAL {
            self.last_line_at = Instant::now();
            note(format_args!(
                "{done}/{trials} {phase}: {what}, about {left} left"
            ));
        }
    }

    /// Notes why a trial is invalid, once per cell and reason.
    fn on_done(&mut self, trial: &Trial) {
        let counts = matches!(trial.status, Status::Ok | Status::Interrupted);
        if counts || self.quiet {
            return;
        }
        let cell = &trial.cell;
        let fate = match (trial.block, trial.status) {
            (0, _) => "excluded",
            (_, Status::Invalid) => "invalid",
            _ => "failed",
        };
        let size = size_text(cell.size().unwrap_or(0));
        let (workload, transport) = (cell.workload(), cell.transport());
        let line = format!("{fate}: {workload} {transport} at {size}: {}", trial.reason);
        let kind: String = line.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.reported_failures.insert(kind) {
            self.bar.suspend(|| note(line));
        }
    }

    fn on_interim_analysis(&self, blocks: u32, decided: usize, of: usize) {
        if self.quiet || of == 0 {
            return;
        }
        let blocks = counted(u64::from(blocks), "block");
        let verdicts = counted(of as u64, "verdict");
        let line = format!("after {blocks}: {decided} of {verdicts} decided");
        self.bar.suspend(|| note(line));
    }
}

impl Observer for ProgressDisplay {
    fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Planned { trials, expected_s } => self.on_planned(*trials, *expected_s),
            Progress::Started {
                done,
                trials,
                what,
                block,
            } => {
                self.on_started(*done, *trials, what, *block);
            }
            Progress::Done(trial) => self.on_done(trial),
            Progress::Look {
                blocks,
                decided,
                of,
            } => {
                self.on_interim_analysis(*blocks, *decided, *of);
            }
        }
    }
}

/// `1 trial`, `2 trials`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Bytes with the unit that `--sizes` takes.
fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "no size".into(),
        whole if whole.is_multiple_of(1 << 20) => format!("{} MiB", whole >> 20),
        whole if whole.is_multiple_of(1 << 10) => format!("{} KiB", whole >> 10),
        other => format!("{other} B"),
    }
}

/// Seconds, or minutes and seconds.
fn duration_text(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    if seconds < 100 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}
