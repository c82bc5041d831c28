//! The runs of a study, one after the other: each is this program again, with the words of the
//! study, so that what a page offers as "run it again" is what ran.

use super::selection::Selection;
use crate::CliError;
use crate::sim::eta::EtaReporter;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use study::folder::{self, RunRecord, RunState, StudyResult};
use study::form::spec::RunSpec;
use study::outcome::ROWS_FILE;

/// How often a run is looked at.
const POLL: Duration = Duration::from_millis(20);

/// How long a run may take to end after Ctrl-C before it is killed: a trial and its clean-up.
const ENDING: Duration = Duration::from_secs(20);

/// Most octets of what a run says that are read for its reason.
const REASON_OCTETS_MAX: u64 = 1 << 20;

/// Runs what is not done, and keeps `study.json` up to date.
///
/// # Errors
///
/// When the folder is not empty, or the system refuses.
pub fn run(
    selection: &Selection,
    mut result: StudyResult,
    out: &Path,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let refuse = |error: io::Error| {
        CliError::failed(format!(
            "cannot write {}: {error}; give another --out",
            out.display()
        ))
    };
    let fresh = !out.join(folder::RESULT_FILE).exists();
    fs::create_dir_all(out).map_err(refuse)?;
    let filled = fs::read_dir(out).map_err(refuse)?.next().is_some();
    let resumed = result.runs.iter().any(|run| run.state == RunState::Done);
    if (fresh && filled) || (!fresh && !resumed && !is_same(out, &result)) {
        return Err(CliError::usage(format!(
            "{} exists and is not empty; give another --out, or --resume it",
            out.display()
        )));
    }
    folder::write_study(out, &selection.study).map_err(refuse)?;
    result.write(out).map_err(refuse)?;
    let clock = Clock::new(selection, &result);
    for place in 0..result.runs.len() {
        if result.runs[place].state == RunState::Done || stop.load(Ordering::Relaxed) {
            continue;
        }
        let Some(run) = selection.study.run(&result.runs[place].id) else {
            continue;
        };
        let started = Instant::now();
        clock.say(&result, place);
        let (state, reason) = run_one(selection, run, &result.runs[place], out, stop, &|| {
            clock.say(&result, place);
        })?;
        let record = &mut result.runs[place];
        (record.state, record.reason) = (state, reason);
        record.took_s = started.elapsed().as_secs_f64();
        result.write(out).map_err(refuse)?;
    }
    if stop.load(Ordering::Relaxed) {
        let waiting = result
            .runs
            .iter_mut()
            .filter(|run| run.state == RunState::Waiting);
        waiting.for_each(|run| run.state = RunState::Interrupted);
        result.write(out).map_err(refuse)?;
    }
    Ok(())
}

/// Whether the folder has the same runs: a study of which none was done yet is resumed too.
fn is_same(out: &Path, result: &StudyResult) -> bool {
    StudyResult::read(out).is_ok_and(|before| {
        let hashes = |result: &StudyResult| -> Vec<String> {
            result.runs.iter().map(|run| run.hash.clone()).collect()
        };
        before.runs.iter().all(|run| run.state != RunState::Done)
            && hashes(&before) == hashes(result)
    })
}

/// Time left.
struct Clock {
    eta: EtaReporter,
    /// What each run takes, s.
    takes_s: Vec<f64>,
}

impl Clock {
    fn new(selection: &Selection, result: &StudyResult) -> Clock {
        let takes = |run: &RunRecord| match run.state {
            RunState::Done => 0.0,
            _ => selection.study.run(&run.id).map_or(60.0, |run| run.takes_s),
        };
        Clock {
            eta: EtaReporter::begin(),
            takes_s: result.runs.iter().map(takes).collect(),
        }
    }

    fn say(&self, result: &StudyResult, place: usize) {
        let all: f64 = self.takes_s.iter().sum();
        let before: f64 = self.takes_s[..place].iter().sum();
        // Before the first run has ended, what the study says is all that is known.
        let share =
            (before / all.max(1e-9)).max(self.eta.elapsed().as_secs_f64() / (all * 4.0 + 1.0));
        self.eta.update(share.clamp(1e-3, 0.999), || {
            let count = result.runs.len();
            format!("run {} of {count}, {}", place + 1, result.runs[place].id)
        });
    }
}

/// Runs one, and says what became of it.
fn run_one(
    selection: &Selection,
    run: &RunSpec,
    record: &RunRecord,
    out: &Path,
    stop: &AtomicBool,
    waiting: &dyn Fn(),
) -> Result<(RunState, String), CliError> {
    let own = folder::run_folder(
        &fs::canonicalize(out).map_err(CliError::failed)?,
        &record.id,
    );
    let log = own.with_extension("log");
    let refuse = |error: io::Error| {
        CliError::failed(format!(
            "cannot write {}: {error}; check the disk",
            own.display()
        ))
    };
    // Rows of a sweep that was stopped are kept; a race or a profile begins anew.
    let target: PathBuf = match run.sim.is_some() {
        true => {
            fs::create_dir_all(&own).map_err(refuse)?;
            let rows = own.join(ROWS_FILE);
            // Those of another build would be another simulator's.
            if crate::sim::other_build(&rows).is_some() {
                fs::remove_file(&rows).map_err(refuse)?;
            }
            rows
        }
        false => {
            if own.exists() {
                fs::remove_dir_all(&own).map_err(refuse)?;
            }
            if let Some(parent) = own.parent() {
                fs::create_dir_all(parent).map_err(refuse)?;
            }
            own.clone()
        }
    };
    let said = File::create(&log).map_err(refuse)?;
    let program = std::env::current_exe().map_err(CliError::failed)?;
    let mut command = Command::new(program);
    // Through a hidden command, by which the kernel ends the run when this process is killed.
    let parent = std::process::id().to_string();
    command.args(["study-run", "--parent", &parent, "--"]);
    command.args(&record.words).arg("--out").arg(&target);
    command.current_dir(folder::study_folder(out, &selection.study.key));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said);
    // A Ctrl-C at the terminal reaches this program alone, which asks the run once: a second signal
    // would end it before it has kept its trials.
    command.process_group(0);
    let mut child = command.spawn().map_err(CliError::failed)?;
    let mut asked_at = None;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(CliError::failed)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            let asked = *asked_at.get_or_insert_with(|| {
                let pid = i32::try_from(child.id())
                    .ok()
                    .and_then(rustix::process::Pid::from_raw);
                let signal = rustix::process::Signal::TERM;
                pid.map(|pid| rustix::process::kill_process(pid, signal));
                Instant::now()
            });
            if asked.elapsed() > ENDING {
                child.kill().map_err(CliError::failed)?;
            }
        }
        waiting();
        std::thread::sleep(POLL);
    };
    Ok(ended(status, stop.load(Ordering::Relaxed), &log))
}

fn ended(status: ExitStatus, stopped: bool, log: &Path) -> (RunState, String) {
    if status.success() {
        return (RunState::Done, String::new());
    }
    if stopped {
        return (RunState::Interrupted, "it was stopped".to_owned());
    }
    let said = results::bounded_file::read_text(log, REASON_OCTETS_MAX).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map(|line| line.trim().trim_start_matches("towpath: ").to_owned());
    (
        RunState::LeftOut,
        last.unwrap_or_else(|| format!("it ended with {status}")),
    )
}
