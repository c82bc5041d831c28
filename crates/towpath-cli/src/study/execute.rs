//! The runs of a study, one after the other: each is this program again, with the words of the
//! study, so that what a page offers as "run it again" is what ran.

use super::drawn_key;
use super::jobs::Job;
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

/// Where the runs of sweeps go.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The word of `--on`.
    pub on: Option<&'a str>,
    /// As `--send`.
    pub send: bool,
}

impl Place<'_> {
    /// The words that a run gets for it: none, unless it is a sweep.
    fn words(self, record: &RunRecord) -> Vec<String> {
        let is_sweep =
            matches!(&record.words[..], [sim, sweep, ..] if sim == "sim" && sweep == "sweep");
        let on = self.on.filter(|_| is_sweep);
        let mut words: Vec<String> = on.map(|on| format!("--on={on}")).into_iter().collect();
        if on.is_some() && self.send {
            words.push("--send".to_owned());
        }
        words
    }
}

/// Refuses the folder of a new job that holds something else.
///
/// # Errors
///
/// The folder is not empty and not of the same runs, or cannot be read.
pub fn check_folder(job: &Job) -> Result<(), CliError> {
    let out = &job.out;
    let mut entries = match fs::read_dir(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| refused(out, &error))?,
    };
    let filled = entries.next().is_some();
    if filled && !is_same(out, &job.result) {
        return Err(CliError::usage(format!(
            "{} exists and is not empty; give another --out, or --resume it",
            out.display()
        )));
    }
    Ok(())
}

/// Writes the study and what is known of its runs, so that a stop loses nothing.
///
/// # Errors
///
/// When the system refuses.
pub fn begin(job: &Job) -> Result<(), CliError> {
    let refuse = |error: io::Error| refused(&job.out, &error);
    fs::create_dir_all(&job.out).map_err(refuse)?;
    folder::write_study(&job.out, &job.selection.study).map_err(refuse)?;
    job.result.write(&job.out).map_err(refuse)
}

fn refused(out: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!(
        "cannot write {}: {error}; give another --out",
        out.display()
    ))
}

/// Runs what is not done of the jobs, one run after the other, and keeps each `study.json` up to
/// date.
///
/// # Errors
///
/// When the system refuses.
pub fn run(jobs: &mut [Job], on: Place<'_>, stop: &AtomicBool) -> Result<(), CliError> {
    let mut clock = Clock::new(jobs);
    for job in jobs {
        for place in 0..job.result.runs.len() {
            if !stop.load(Ordering::Relaxed) {
                run_place(job, place, on, &clock, stop)?;
            }
            clock.next();
        }
        let waiting = job.result.runs.iter_mut();
        let waiting = waiting.filter(|run| run.state == RunState::Waiting);
        waiting.for_each(|run| run.state = RunState::Interrupted);
        job.result
            .write(&job.out)
            .map_err(|error| refused(&job.out, &error))?;
    }
    Ok(())
}

/// Runs one run of a job, unless it is done.
fn run_place(
    job: &mut Job,
    place: usize,
    on: Place<'_>,
    clock: &Clock,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let record = &job.result.runs[place];
    if record.state == RunState::Done {
        return Ok(());
    }
    let Some(run) = job.selection.study.run(&record.id) else {
        return Ok(());
    };
    let started = Instant::now();
    let more = on.words(record);
    let (state, reason) = run_one(&job.selection, run, record, &more, &job.out, stop, &|| {
        clock.say(started);
    })?;
    let record = &mut job.result.runs[place];
    (record.state, record.reason) = (state, reason);
    record.took_s = started.elapsed().as_secs_f64();
    job.result
        .write(&job.out)
        .map_err(|error| refused(&job.out, &error))
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
    /// Each run: its name, and the seconds it takes; none for those that are done.
    runs: Vec<(String, f64)>,
    /// The run that goes on.
    place: usize,
    /// When the runs before it had ended.
    before: Duration,
}

/// Seconds that a run takes of which the study says nothing.
const TAKES_S: f64 = 60.0;

impl Clock {
    fn new(jobs: &[Job]) -> Clock {
        let runs = jobs.iter().flat_map(|job| {
            let study = &job.selection.study;
            job.result.runs.iter().map(move |run| {
                let takes_s = match run.state {
                    RunState::Done => 0.0,
                    _ => study.run(&run.id).map_or(TAKES_S, |run| run.takes_s),
                };
                match jobs {
                    [_] => (run.id.clone(), takes_s),
                    _ => (format!("{}/{}", study.key, run.id), takes_s),
                }
            })
        });
        Clock {
            runs: runs.collect(),
            eta: EtaReporter::begin(),
            place: 0,
            before: Duration::ZERO,
        }
    }

    /// The run that goes on has ended.
    fn next(&mut self) {
        self.place += 1;
        self.before = self.eta.elapsed();
    }

    /// Says which run goes on since `started`, and the time left, if it is time for a line.
    fn say(&self, started: Instant) {
        let takes_s: Vec<f64> = self.runs.iter().map(|(_, takes_s)| *takes_s).collect();
        let so_far = [self.before, started.elapsed()].map(|time| time.as_secs_f64());
        let share = share_done(&takes_s, self.place, so_far);
        self.eta.update(share, || {
            let (place, count) = (self.place + 1, self.runs.len());
            format!("run {place} of {count}, {}", self.runs[self.place].0)
        });
    }
}

/// The share of the time that has passed, where runs are said to take `takes_s` seconds each, those
/// before `place` took the first of `so_far` seconds together and that one goes on since the second.
/// What is left is scaled by how right the words were about the runs that ended.
fn share_done(takes_s: &[f64], place: usize, so_far: [f64; 2]) -> f64 {
    let said: f64 = takes_s[..place].iter().sum();
    let [before, own] = so_far;
    let scale = if said > 0.0 { before / said } else { 1.0 };
    let left = (takes_s[place] * scale - own).max(0.0);
    let later: f64 = takes_s[place + 1..].iter().sum();
    let passed = before + own;
    (passed / (passed + left + later * scale).max(1e-9)).clamp(1e-3, 0.999)
}

/// Runs one, and says what became of it.
fn run_one(
    selection: &Selection,
    run: &RunSpec,
    record: &RunRecord,
    more: &[String],
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
    let target: PathBuf = match run.leaves_rows() {
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
    command
        .args(&record.words)
        .args(more)
        .arg("--out")
        .arg(&target);
    let study_folder = folder::study_folder(out, &selection.study.key);
    let _key = drawn_key::draw_for(&record.words, &study_folder).map_err(refuse)?;
    command.current_dir(study_folder);
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

#[cfg(test)]
mod tests {
    use super::share_done;

    #[test]
    fn time_left_is_scaled_by_runs_that_ended() {
        // Nothing ended: the words of the study are taken.
        assert_eq!(share_done(&[10.0, 30.0], 0, [0.0, 4.0]), 0.1);
        // The first took twice as long: so will the second, 60 s after 20 s.
        assert_eq!(share_done(&[10.0, 30.0], 1, [20.0, 0.0]), 0.25);
        // Longer than expected: it may end at any moment, and is not over.
        assert_eq!(share_done(&[10.0], 0, [0.0, 50.0]), 0.999);
    }
}
