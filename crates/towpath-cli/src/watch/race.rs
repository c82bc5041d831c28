//! A running race: its trials so far.

use super::{Gauge, View, count};
use crate::progress::duration_text;
use crate::results_commands::overview;
use crate::transports::{wants_colour, width};
use crate::{CliError, print};
use results::{RunData, RunStatus, Status, Trial, TrialTail};
use std::path::Path;

/// A race whose files are read as they grow.
pub struct RaceWatch {
    run: RunData,
    tail: TrialTail,
    /// The verdicts of the last look that was reached: after how many blocks, and their text.
    look: Option<(u32, String)>,
}

/// Disturbed or failed trials that are listed, the last ones.
const LISTED_MAX: usize = 5;

impl RaceWatch {
    /// Opens the folder of a race.
    ///
    /// # Errors
    ///
    /// When it is none, or damaged.
    pub fn open(folder: &Path) -> Result<RaceWatch, CliError> {
        let mut run = RunData::read_head(folder).map_err(CliError::failed)?;
        run.trials.clear();
        Ok(RaceWatch {
            run,
            tail: TrialTail::new(folder),
            look: None,
        })
    }

    /// Reads what is new. Once the race has its summary, this is what `show` prints.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn look(&mut self, now_s: f64) -> Result<View, CliError> {
        let folder = self.run.path.clone();
        let summary = RunData::read_head(&folder)
            .map_err(CliError::failed)?
            .summary;
        self.run
            .trials
            .extend(self.tail.read_more().map_err(CliError::failed)?);
        let state = State::of(&self.run, now_s);
        let gauges = state.gauges(summary.is_some());
        if summary.is_some() {
            let ended = RunData {
                summary,
                ..self.run.clone()
            };
            return Ok(View {
                text: overview(&ended, wants_colour(), width(), &[]),
                gauges,
                ended: true,
            });
        }
        self.judge(state.blocks);
        Ok(View {
            text: self.text(&state),
            gauges,
            ended: false,
        })
    }

    /// Judges the blocks up to the last look that was reached; between looks nothing is judged.
    fn judge(&mut self, blocks: u32) {
        let reached = self
            .run
            .plan
            .blocks
            .looks
            .iter()
            .filter(|look| **look <= blocks);
        let Some(&last) = reached.max() else {
            return;
        };
        if self.look.as_ref().is_some_and(|(look, _)| *look == last) {
            return;
        }
        let trials = self.run.trials.iter().filter(|trial| trial.block <= last);
        let mut judged = RunData {
            trials: trials.cloned().collect(),
            ..self.run.clone()
        };
        let summary = stats::summarise(&judged.plan, &judged.trials, RunStatus::Complete, "", 0.0);
        judged.summary = Some(summary);
        self.look = Some((last, report::verdicts(&judged, wants_colour(), width())));
    }

    fn text(&self, state: &State) -> String {
        let run = &self.run;
        let mut lines = vec![state.headline(run), String::new()];
        lines.push(
            report::medians(run, wants_colour(), width(), &[])
                .trim_end()
                .to_owned(),
        );
        match &self.look {
            Some((blocks, verdicts)) => {
                lines.push(format!(
                    "\nAt the look after {blocks} blocks:\n{}",
                    verdicts.trim_end()
                ));
            }
            None => lines.push("\nNo verdict before the first look.".to_owned()),
        }
        lines.push(state.next_look(run));
        let marked = run.trials.iter().filter(|trial| is_marked(trial));
        let marked: Vec<&Trial> = marked.collect();
        if !marked.is_empty() {
            lines.push(format!(
                "\n{} of {} trials were disturbed or failed; the last:",
                marked.len(),
                state.done
            ));
        }
        for trial in marked.iter().rev().take(LISTED_MAX) {
            lines.push(print::wrap(&marked_line(trial), width(), 0, 4));
        }
        lines.join("\n")
    }
}

/// A line of a trial that is not plainly valid.
fn marked_line(trial: &Trial) -> String {
    let reasons = std::iter::once(&trial.reason).chain(&trial.disturbed);
    let reasons: Vec<&str> = reasons
        .filter(|text| !text.is_empty())
        .map(String::as_str)
        .collect();
    let cell = trial.cell.without(results::Cell::TRANSPORT);
    let place = results::phrasing::contest_text(&cell);
    let line = format!(
        "  {} {} {place}: {}",
        trial.cell.transport(),
        trial.cell.workload(),
        reasons.join("; ")
    );
    // A file of a stranger must not move the cursor.
    line.replace(char::is_control, "\u{fffd}")
}

fn is_marked(trial: &Trial) -> bool {
    trial.status != Status::Ok || !trial.disturbed.is_empty()
}

/// How far a race is.
struct State {
    done: usize,
    /// Complete blocks.
    blocks: u32,
    elapsed_s: f64,
    /// Seconds since the last trial began; a race that was killed shows no other sign.
    silent_s: f64,
    left_s: Option<f64>,
    disturbed: usize,
    bad: usize,
}

impl State {
    fn of(run: &RunData, now_s: f64) -> State {
        let trials = &run.trials;
        let of_block = |block: u32| trials.iter().filter(|trial| trial.block == block).count();
        let last = trials.iter().map(|trial| trial.block).max().unwrap_or(0);
        let per_block = (last > 1).then(|| of_block(1));
        let blocks = match per_block {
            Some(count) if of_block(last) >= count => last,
            _ => last.saturating_sub(1),
        };
        let first_s = trials.first().map_or(now_s, |trial| trial.started_s);
        let latest_s = trials
            .last()
            .map_or(now_s, |trial| trial.started_s + trial.span_s);
        let elapsed_s = (now_s - first_s).max(0.0);
        State {
            done: trials.len(),
            blocks,
            elapsed_s,
            silent_s: (now_s - latest_s).max(0.0),
            left_s: left_s(run, per_block, elapsed_s),
            disturbed: trials
                .iter()
                .filter(|t| t.status == Status::Ok && is_marked(t))
                .count(),
            bad: trials.iter().filter(|t| t.status != Status::Ok).count(),
        }
    }

    fn headline(&self, run: &RunData) -> String {
        let left = match self.left_s {
            Some(left_s) => format!("at most about {} left", duration_text(left_s)),
            None => "time left unknown yet".to_owned(),
        };
        let silent = match self.silent_s {
            silent if silent > 10.0 + 3.0 * run.plan.trial_s => {
                format!("; nothing new for {}", duration_text(silent))
            }
            _ => String::new(),
        };
        format!(
            "{}: {} trials, {} of {} blocks, {left}{silent}",
            run.path.display(),
            self.done,
            self.blocks,
            run.plan.blocks.max
        )
    }

    fn next_look(&self, run: &RunData) -> String {
        let looks = run.plan.blocks.looks.iter();
        let next = looks.filter(|look| **look > self.blocks).min();
        match next {
            Some(next) => format!("The next look is after block {next}."),
            None => "There is no further look.".to_owned(),
        }
    }

    fn gauges(&self, ended: bool) -> Vec<Gauge> {
        let seconds = |name, help, value| Gauge {
            name,
            unit: "seconds",
            help,
            value,
        };
        vec![
            count("trials", "trials so far, pilots included", self.done),
            count("blocks", "complete blocks", self.blocks as usize),
            count(
                "disturbed_trials",
                "valid trials that were disturbed",
                self.disturbed,
            ),
            count("bad_trials", "trials that are invalid or failed", self.bad),
            count("ended", "1 once the summary is written", usize::from(ended)),
            seconds(
                "elapsed_seconds",
                "time since the first trial",
                self.elapsed_s,
            ),
            seconds("silent_seconds", "time since the last trial", self.silent_s),
            seconds(
                "left_seconds",
                "time left at most, if the race has all its blocks",
                match ended {
                    true => 0.0,
                    false => self.left_s.unwrap_or(f64::NAN),
                },
            ),
        ]
    }
}

/// Seconds until the last block is done: the trials that are left at the pace so far, and no more than
/// the time given unless the length of a trial was given instead.
fn left_s(run: &RunData, per_block: Option<usize>, elapsed_s: f64) -> Option<f64> {
    let timed = run.plan.trial_s == 0.0;
    let by_time = timed.then(|| (run.plan.time_s - elapsed_s).max(0.0));
    let counted = run.trials.iter().filter(|trial| trial.block > 0);
    let starts: Vec<f64> = counted.map(|trial| trial.started_s).collect();
    let pace = match (&starts[..], per_block) {
        ([first, .., last], Some(per_block)) => {
            let each_s = (last - first).max(0.0) / (starts.len() - 1) as f64;
            let all = per_block * run.plan.blocks.max as usize;
            Some(each_s * all.saturating_sub(starts.len()) as f64)
        }
        _ => None,
    };
    match (pace, by_time) {
        (Some(pace), Some(time)) => Some(pace.min(time)),
        (pace, time) => pace.or(time),
    }
}
