//! A running study: its runs. A running sweep: its rows.

use super::{Gauge, View, count};
use crate::CliError;
use crate::progress::duration_text;
use results::bounded_file::{BoundedLines, open_regular};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;
use study::folder::{RunState, StudyResult};

/// A study whose record is read again at each look.
pub struct StudyWatch(PathBuf);

impl StudyWatch {
    /// The study in a folder.
    pub fn new(folder: &Path) -> StudyWatch {
        StudyWatch(folder.to_owned())
    }

    /// Its runs and what became of them.
    ///
    /// # Errors
    ///
    /// When its record is damaged.
    pub fn look(&self) -> Result<View, CliError> {
        let result = StudyResult::read(&self.0).map_err(CliError::failed)?;
        let in_state = |state: RunState| result.runs.iter().filter(move |run| run.state == state);
        let waiting = in_state(RunState::Waiting).count();
        let done = in_state(RunState::Done).count();
        let left_out = in_state(RunState::LeftOut).count();
        let took_s: f64 = in_state(RunState::Done).map(|run| run.took_s).sum();
        let left_s = took_s / done as f64 * waiting as f64;
        let left = match left_s.is_finite() {
            true => format!(", about {} left", duration_text(left_s)),
            false => String::new(),
        };
        let mut lines = vec![format!(
            "{}: {done} of {} runs done, {left_out} left out{left}",
            self.0.display(),
            result.runs.len()
        )];
        lines.extend(result.runs.iter().map(|run| {
            let (state, rest) = match run.state {
                RunState::Done => ("done", format!("in {}", duration_text(run.took_s))),
                RunState::Waiting => ("waiting", String::new()),
                RunState::LeftOut => ("left out", run.reason.clone()),
                RunState::Interrupted => ("stopped", run.reason.clone()),
            };
            let line = format!("  {:<24} {state:<9} {rest}", run.id);
            // A file of a stranger must not move the cursor.
            line.trim_end().replace(char::is_control, "\u{fffd}")
        }));
        Ok(View {
            text: lines.join("\n"),
            gauges: vec![
                count("runs", "runs of the study", result.runs.len()),
                count("runs_done", "runs that are whole", done),
                count("runs_left_out", "runs that cannot run here", left_out),
                count("runs_waiting", "runs that did not end yet", waiting),
                count("ended", "1 once no run waits", usize::from(waiting == 0)),
            ],
            ended: waiting == 0,
        })
    }
}

/// Most octets of a row.
const ROW_OCTETS_MAX: usize = 1 << 20;

/// The rows of a sweep, counted as they come. How many there will be is not in the file.
pub struct SweepWatch {
    path: PathBuf,
    offset: u64,
    rows: usize,
    unended: usize,
    /// Rows at the first look, and when that was.
    first: Option<(usize, Instant)>,
}

impl SweepWatch {
    /// The rows in a file.
    pub fn new(path: &Path) -> SweepWatch {
        SweepWatch {
            path: path.to_owned(),
            offset: 0,
            rows: 0,
            unended: 0,
            first: None,
        }
    }

    /// Counts the new rows.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn look(&mut self) -> Result<View, CliError> {
        self.count_rows().map_err(|error| {
            CliError::failed(format!("cannot read {}: {error}", self.path.display()))
        })?;
        let (before, since) = *self.first.get_or_insert((self.rows, Instant::now()));
        let per_s = (self.rows - before) as f64 / since.elapsed().as_secs_f64();
        let rate = match self.rows > before {
            true => format!(", {per_s:.1} a second since this watch began"),
            false => String::new(),
        };
        Ok(View {
            text: format!(
                "{}: {} rows{rate}; {} runs did not complete",
                self.path.display(),
                self.rows,
                self.unended
            ),
            gauges: vec![
                count("rows", "rows of the sweep", self.rows),
                count(
                    "unended_runs",
                    "runs that reached their time limit, or were stuck or exhausted",
                    self.unended,
                ),
                Gauge {
                    name: "rows_per_second",
                    unit: "",
                    help: "rows a second since this watch began",
                    value: per_s,
                },
            ],
            ended: false,
        })
    }

    fn count_rows(&mut self) -> std::io::Result<()> {
        let mut file = open_regular(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = BoundedLines::new(file, ROW_OCTETS_MAX);
        while let Some(line) = lines.next_line()? {
            if !line.ends_with(b"\n") {
                break;
            }
            self.offset += line.len() as u64;
            let row: Option<serde_json::Value> = serde_json::from_slice(line).ok();
            let Some(row) = row.filter(|row| row.get("key").is_some()) else {
                continue;
            };
            self.rows += 1;
            let ending = row.get("ending").and_then(serde_json::Value::as_str);
            self.unended += usize::from(ending.is_some_and(|ending| ending != "complete"));
        }
        Ok(())
    }
}
