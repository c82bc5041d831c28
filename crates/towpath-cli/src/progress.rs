//! Progress of a running race.

use crate::print::note;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Observer, Progress};
use results::phrasing::contest_text;
use results::{Cell, Status, Trial};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar on a terminal; elsewhere a line every ten seconds.
pub struct ProgressDisplay {
    bar: ProgressBar,
    quiet: bool,
    without_terminal: bool,
    /// The time given, as `--time` wrote it.
    time: Duration,
    last_line_at: Instant,
    reported_failures: BTreeSet<String>,
}

/// Interval of progress lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl ProgressDisplay {
    /// Of a race that was given `time`. With `quiet`, only the bar is shown.
    pub fn new(quiet: bool, time: Duration) -> ProgressDisplay {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        ProgressDisplay {
            bar: ProgressBar::with_draw_target(None, target),
            quiet,
            without_terminal: !is_terminal,
            time,
            last_line_at: Instant::now(),
            reported_failures: BTreeSet::new(),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn on_planned(&mut self, trials: u64, expected_s: f64) {
        self.bar.set_length(trials);
        let template = "{bar:24} {pos}/{len}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if !self.quiet {
            note(format_args!(
                "{}, about {}",
                counted(trials, "trial"),
                duration_text(expected_s)
            ));
        }
    }

    /// Notes that there will be fewer blocks, and how long they take when even these exceed the
    /// time.
    fn on_shortened(&self, blocks: u32, of: u32, trials_per_block: u64, late_s: Option<f64>) {
        if self.quiet {
            return;
        }
        let line = shortened_text(self.time, blocks, of, trials_per_block, late_s);
        self.bar.suspend(|| note(line));
    }

    fn on_started(&mut self, done: u64, trials: u64, what: &str, block: u32, left_s: f64) {
        let left = duration_text(left_s);
        let phase = if block == 0 {
            "pilot".to_owned()
        } else {
            format!("block {block}")
        };
        self.bar.set_length(trials);
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
        let line = failure_text(trial);
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
                left_s,
            } => {
                self.on_started(*done, *trials, what, *block, *left_s);
            }
            Progress::Shortened {
                blocks,
                of,
                trials_per_block,
                late_s,
            } => {
                self.on_shortened(*blocks, *of, *trials_per_block, *late_s);
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

/// What did not work, in which cell, and what it means. A failed pilot leaves out its whole cell.
fn failure_text(trial: &Trial) -> String {
    let cell = trial.cell.without(Cell::TRANSPORT);
    let (cell, all) = match trial.cell.workload() == "offered" {
        true => (
            cell.without(Cell::LOAD_PERCENT).without(Cell::RATE),
            " at any load",
        ),
        false => (cell, ""),
    };
    let transport = trial.cell.transport();
    let place = format!("{} {}", cell.workload(), contest_text(&cell));
    let reason = &trial.reason;
    match (trial.block, trial.status) {
        (0, Status::Invalid) => format!("pilot of {transport} in {place} is invalid: {reason}"),
        (0, _) => format!("{transport} is left out of {place}{all}: its pilot failed: {reason}"),
        (_, Status::Invalid) => format!("a trial of {transport} in {place} is invalid: {reason}"),
        _ => format!("a trial of {transport} in {place} failed: {reason}"),
    }
}

/// Why there are fewer blocks, and when they end if that is too late.
fn shortened_text(
    time: Duration,
    blocks: u32,
    of: u32,
    trials_per_block: u64,
    late_s: Option<f64>,
) -> String {
    let asked = counted(u64::from(of), "block");
    let all = counted(u64::from(of) * trials_per_block, "trial");
    let time = duration_text(time.as_secs_f64());
    let start = format!("--time {time} does not suffice for {all} in {asked}");
    let late = late_s.map(|late_s| format!("they take about {} more", duration_text(late_s)));
    match late {
        None => format!("{start}: reduced to {blocks}"),
        Some(late) if blocks == of => format!("{start}, as asked for; {late}"),
        Some(late) => format!("{start}: reduced to {blocks}, the fewest allowed; {late}"),
    }
}

/// Seconds, or minutes and seconds; never none.
pub(crate) fn duration_text(time_s: f64) -> String {
    let seconds = (time_s.max(0.0).ceil() as u64).max(1);
    if seconds < 100 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_race_names_time_trials_and_blocks() {
        let time = Duration::from_secs(12);
        assert_eq!(
            shortened_text(time, 5, 20, 105, Some(48.2)),
            "--time 12 s does not suffice for 2100 trials in 20 blocks: reduced to 5, the fewest \
             allowed; they take about 49 s more"
        );
        assert_eq!(
            shortened_text(time, 7, 20, 10, None),
            "--time 12 s does not suffice for 200 trials in 20 blocks: reduced to 7"
        );
    }

    #[test]
    fn blocks_asked_for_stay_and_their_time_is_said() {
        assert_eq!(
            shortened_text(Duration::from_secs(1), 4, 4, 10, Some(9.0)),
            "--time 1 s does not suffice for 40 trials in 4 blocks, as asked for; they take about 9 s more"
        );
    }

    #[test]
    fn time_left_is_never_zero() {
        assert_eq!(duration_text(0.0), "1 s");
        assert_eq!(duration_text(-3.0), "1 s");
        assert_eq!(duration_text(111.2), "1 min 52 s");
    }
}
