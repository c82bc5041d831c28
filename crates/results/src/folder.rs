//! The folder of a run.

use crate::bounded_file::{BoundedLines, open_regular, read_text};
use crate::{Machine, Plan, Summary, TURNS_SERIES, Trial};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A run's folder being written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    trials: File,
}

/// Everything in a run's folder.
#[derive(Clone, Debug)]
pub struct RunData {
    /// The folder.
    pub path: PathBuf,
    /// The plan.
    pub plan: Plan,
    /// The hosts.
    pub machine: Machine,
    /// The trials.
    pub trials: Vec<Trial>,
    /// The summary; None when the run was killed before it could write it.
    pub summary: Option<Summary>,
}

/// A folder that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder exists and is not empty.
    #[error("{0} exists and is not empty; give another --out")]
    Exists(PathBuf),
    /// The system refused.
    #[error("cannot write {path}: {source}; check the disk and give another --out if need be")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value that has no JSON or TOML form.
    #[error("cannot write {0}: {1}")]
    Encode(PathBuf, String),
}

/// A folder that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file is missing or unreadable.
    #[error("cannot read {path}: {source}; is {folder} the folder of a run?")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The folder it should be in.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// More trials than are read.
    #[error(
        "{path} holds more than {TRIALS_MAX} trials or {octets_max_mib} MiB of them; \
         if it is your own, set {TRIALS_MIB_VARIABLE}, or split it into folders of fewer trials"
    )]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit on memory, in MiB.
        octets_max_mib: usize,
    },
    /// The content of a file is invalid.
    #[error("{path} is damaged: {what}; restore it from a copy, or race again")]
    Damaged {
        /// Which file, with the line for trials.
        path: String,
        /// What is wrong.
        what: String,
    },
}

// What reading a folder takes at most, whatever is in it. JSON grows at most about tenfold when it is
// parsed (`"a":1,` becomes an entry of a map), so one file at a time takes 160 MiB, and the trials
// that are kept 128 MiB: with them, no parsed file is large.

/// Most octets of `plan.toml`; one with every option set has below 10 KiB.
const PLAN_OCTETS_MAX: u64 = 256 << 10;

/// Most octets of `machine.json`: about 20 KiB a host, 64 hosts at most.
const MACHINE_OCTETS_MAX: u64 = 2 << 20;

/// Most octets of `summary.json`: about 300 an estimate, so 25,000 estimates.
const SUMMARY_OCTETS_MAX: u64 = 8 << 20;

/// Most octets of a trial's line: a full histogram has 600 KiB, a series of 1,000 slices 40 KiB.
const LINE_OCTETS_MAX: usize = 4 << 20;

/// Most trials: 100,000 trials of a second take more than a day.
const TRIALS_MAX: usize = 100_000;

/// Most octets that all trials take in memory.
const TRIALS_OCTETS_MAX: usize = 128 << 20;

/// Environment variable that replaces [`TRIALS_OCTETS_MAX`], in MiB, for a long race of one's own.
const TRIALS_MIB_VARIABLE: &str = "TOWPATH_TRIALS_MIB";

impl RunFolder {
    /// Creates the folder (and its parents) and writes plan and machine.
    ///
    /// # Errors
    ///
    /// When it exists with content, or the system refuses.
    pub fn create(path: &Path, plan: &Plan, machine: &Machine) -> Result<RunFolder, WriteError> {
        fs::create_dir_all(path).map_err(at(path))?;
        if fs::read_dir(path).map_err(at(path))?.next().is_some() {
            return Err(WriteError::Exists(path.to_owned()));
        }
        write_plan(path, plan)?;
        write_json(&path.join("machine.json"), machine)?;
        let trials_path = path.join("trials.jsonl");
        let mut options = OpenOptions::new();
        let trials = options.create_new(true).append(true).open(&trials_path);
        Ok(RunFolder {
            trials: trials.map_err(at(&trials_path))?,
            path: path.to_owned(),
        })
    }

    /// Writes the plan again: pilots have decided what was open in it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn replan(&self, plan: &Plan) -> Result<(), WriteError> {
        write_plan(&self.path, plan)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a trial, in one write, so that a killed run leaves whole lines.
    ///
    /// # Errors
    ///
    /// When the system refuses, a full disk for example.
    pub fn append(&mut self, trial: &Trial) -> Result<(), WriteError> {
        let path = self.path.join("trials.jsonl");
        let mut line = serde_json::to_vec(trial)
            .map_err(|error| WriteError::Encode(path.clone(), error.to_string()))?;
        line.push(b'\n');
        self.trials.write_all(&line).map_err(at(&path))
    }

    /// Writes the summary and syncs everything to disk. The folder is never changed again.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn finish(self, summary: &Summary) -> Result<PathBuf, WriteError> {
        let trials_path = self.path.join("trials.jsonl");
        self.trials.sync_all().map_err(at(&trials_path))?;
        write_json(&self.path.join("summary.json"), summary)?;
        Ok(self.path)
    }
}

impl RunData {
    /// Reads a folder. Its files are untrusted.
    ///
    /// # Errors
    ///
    /// When a file but `summary.json` is missing, or any is damaged. The last line of the trials
    /// may be truncated when a run was killed; it is ignored.
    pub fn read(folder: &Path) -> Result<RunData, ReadError> {
        RunData::read_trials_up_to(folder, usize::MAX)
    }

    /// Reads a folder with its first trial alone, for lists of many folders.
    /// Errors are those of [`RunData::read`], as far as it reads.
    pub fn read_head(folder: &Path) -> Result<RunData, ReadError> {
        RunData::read_trials_up_to(folder, 1)
    }

    fn read_trials_up_to(folder: &Path, count: usize) -> Result<RunData, ReadError> {
        let plan_text = read_file(folder, "plan.toml", PLAN_OCTETS_MAX)?;
        let plan: Plan = toml::from_str(&plan_text).map_err(|error| {
            damaged(
                folder.join("plan.toml").display(),
                toml_error(&plan_text, &error),
            )
        })?;
        plan.check()
            .map_err(|error| damaged(folder.join("plan.toml").display(), error))?;
        let machine_text = read_file(folder, "machine.json", MACHINE_OCTETS_MAX)?;
        let machine = serde_json::from_str(&machine_text)
            .map_err(|error| damaged(folder.join("machine.json").display(), error))?;
        let summary_path = folder.join("summary.json");
        let summary = match read_text(&summary_path, SUMMARY_OCTETS_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(folder, "summary.json", error)),
            Ok(text) => Some(
                serde_json::from_str(&text)
                    .map_err(|error| damaged(summary_path.display(), error))?,
            ),
        };
        Ok(RunData {
            path: folder.to_owned(),
            plan,
            machine,
            trials: read_trials(folder, count)?,
            summary,
        })
    }

    /// A sentence when the file of the trials has fewer than the summary counted, because it was
    /// cut off. A run without a summary was killed, and counted none.
    pub fn missing_trials(&self) -> Option<String> {
        let cells = self.summary.iter().flat_map(|summary| &summary.cells);
        let counted: u64 = cells
            .map(|cell| u64::from(cell.trials_ok) + u64::from(cell.trials_bad))
            .sum();
        let is_counted = |trial: &&Trial| trial.block > 0 && !trial.control;
        let here = self.trials.iter().filter(is_counted).count() as u64;
        (here < counted).then(|| {
            format!(
                "trials.jsonl is cut off: it has {here} of the {counted} trials that the summary \
                 counts (controls apart); restore it from a copy"
            )
        })
    }
}

/// The trials of a folder that is still written, read as they come.
#[derive(Debug)]
pub struct TrialTail {
    path: PathBuf,
    folder: PathBuf,
    /// Octets read so far, whole lines.
    offset: u64,
    count: usize,
    held_octets: usize,
}

impl TrialTail {
    /// Before the first trial of `folder`.
    pub fn new(folder: &Path) -> TrialTail {
        TrialTail {
            path: folder.join("trials.jsonl"),
            folder: folder.to_owned(),
            offset: 0,
            count: 0,
            held_octets: 0,
        }
    }

    /// The trials written since the last call; a line that is not whole yet waits for the next. Time
    /// series are dropped but for those of turns, so that a long race takes little memory.
    /// Errors are those of [`RunData::read`].
    pub fn read_more(&mut self) -> Result<Vec<Trial>, ReadError> {
        let refused = |error| unreadable(&self.folder, "trials.jsonl", error);
        let mut file = open_regular(&self.path).map_err(refused)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(refused)?;
        let mut lines = BoundedLines::new(file, LINE_OCTETS_MAX);
        let (mut trials, octets_max) = (Vec::new(), trials_octets_max());
        while let Some(line) = lines.next_line().map_err(refused)? {
            if !line.ends_with(b"\n") {
                break;
            }
            let place = || format!("{}:{}", self.path.display(), self.count + 1);
            let mut trial: Trial =
                serde_json::from_slice(line).map_err(|error| damaged(place(), error))?;
            trial.series.retain(|name, _| name == TURNS_SERIES);
            self.offset += line.len() as u64;
            self.count += 1;
            self.held_octets += trial.held_octets();
            if self.count > TRIALS_MAX || self.held_octets > octets_max {
                return Err(ReadError::TooLarge {
                    path: self.path.clone(),
                    octets_max_mib: octets_max >> 20,
                });
            }
            trials.push(trial);
        }
        Ok(trials)
    }
}

fn read_trials(folder: &Path, count: usize) -> Result<Vec<Trial>, ReadError> {
    let path = folder.join("trials.jsonl");
    let refused = |error| unreadable(folder, "trials.jsonl", error);
    let file = open_regular(&path).map_err(refused)?;
    let mut lines = BoundedLines::new(file, LINE_OCTETS_MAX);
    let mut trials = Vec::new();
    let (mut held_octets, octets_max) = (0, trials_octets_max());
    while trials.len() < count
        && let Some(line) = lines.next_line().map_err(refused)?
    {
        if !line.ends_with(b"\n") {
            break;
        }
        let place = || format!("{}:{}", path.display(), trials.len() + 1);
        let trial: Trial = serde_json::from_slice(line).map_err(|error| damaged(place(), error))?;
        held_octets += trial.held_octets();
        if trials.len() == TRIALS_MAX || held_octets > octets_max {
            return Err(ReadError::TooLarge {
                path,
                octets_max_mib: octets_max >> 20,
            });
        }
        trials.push(trial);
    }
    Ok(trials)
}

/// Octets that trials may take in memory.
fn trials_octets_max() -> usize {
    let set = std::env::var(TRIALS_MIB_VARIABLE).ok();
    let mib = set.and_then(|text| text.parse::<usize>().ok());
    mib.map_or(TRIALS_OCTETS_MAX, |mib| mib.saturating_mul(1 << 20))
}

fn read_file(folder: &Path, name: &str, octets_max: u64) -> Result<String, ReadError> {
    read_text(&folder.join(name), octets_max).map_err(|error| unreadable(folder, name, error))
}

fn unreadable(folder: &Path, name: &str, source: io::Error) -> ReadError {
    ReadError::Io {
        path: folder.join(name),
        folder: folder.to_owned(),
        source,
    }
}

/// A TOML error in one line; its own message spans several.
fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

fn damaged(path: impl ToString, what: impl ToString) -> ReadError {
    ReadError::Damaged {
        path: path.to_string(),
        what: what.to_string(),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), WriteError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| WriteError::Encode(path.to_owned(), error.to_string()))?;
    text.push(b'\n');
    write_whole(path, &text)
}

fn write_plan(folder: &Path, plan: &Plan) -> Result<(), WriteError> {
    let path = folder.join("plan.toml");
    let text = toml::to_string_pretty(plan);
    let text = text.map_err(|error| WriteError::Encode(path.clone(), error.to_string()))?;
    write_whole(&path, text.as_bytes())
}

/// Writes a file atomically, by renaming a temporary one.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let partial = path.with_extension("partial");
    let write = || -> io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|source| {
        // A partial file that cannot be removed does no harm.
        let _ = fs::remove_file(&partial);
        WriteError::Io {
            path: path.to_owned(),
            source,
        }
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
    move |source| WriteError::Io {
        path: path.to_owned(),
        source,
    }
}
