//! The folder of a study's result: `study.json`, a copy of the study in `study/`, and each run in
//! `runs/ID/`.

use crate::form::spec::RunSpec;
use crate::form::{FormError, Study};
use results::bounded_file::read_text;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that says what ran.
pub const RESULT_FILE: &str = "study.json";

/// Most octets of it: 256 runs of about 2 KiB.
const RESULT_OCTETS_MAX: u64 = 1 << 20;

/// What ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyResult {
    /// Version of this file's form.
    pub version: u32,
    /// Key of the study.
    pub study: String,
    /// The quick words ran.
    pub quick: bool,
    /// The other machine, with `--to`.
    pub to: Option<String>,
    /// IDs asked for; all if empty.
    pub only: Vec<String>,
    /// The program: version and sources.
    pub build: String,
    /// The machine.
    pub machine: String,
    /// Facts about the machine, name and value.
    pub facts: Vec<(String, String)>,
    /// The runs, in order.
    pub runs: Vec<RunRecord>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its name.
    pub id: String,
    /// Its words, `towpath` left out.
    pub words: Vec<String>,
    /// [`run_hash`] of words, build and machine.
    pub hash: String,
    /// What became of it.
    pub state: RunState,
    /// Why it is left out or failed.
    pub reason: String,
    /// Seconds it took.
    pub took_s: f64,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It did not start.
    #[default]
    Waiting,
    /// It is whole.
    Done,
    /// It cannot run here.
    LeftOut,
    /// It was stopped.
    Interrupted,
}

/// Version of the form of `study.json`.
pub const RESULT_VERSION: u32 = 1;

/// What a run is known by: a hash of its words, the program and the machine (FNV-1a, 64 bits).
pub fn run_hash(words: &[String], build: &str, machine: &str) -> String {
    let parts = words.iter().map(String::as_str).chain([build, machine]);
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for octet in parts.flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

impl StudyResult {
    /// Reads the result in a folder.
    ///
    /// # Errors
    ///
    /// One line: it is missing or damaged.
    pub fn read(folder: &Path) -> Result<StudyResult, String> {
        let path = folder.join(RESULT_FILE);
        let refuse = |error: &dyn std::fmt::Display| {
            format!(
                "cannot read {}: {error}; is {} the folder of a study run?",
                path.display(),
                folder.display()
            )
        };
        let text = read_text(&path, RESULT_OCTETS_MAX).map_err(|error| refuse(&error))?;
        let result: StudyResult = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
        if result.version != RESULT_VERSION {
            return Err(refuse(&format!(
                "version {} is not {RESULT_VERSION}",
                result.version
            )));
        }
        Ok(result)
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        let partial = folder.join("study.partial");
        std::fs::write(&partial, text)?;
        std::fs::rename(&partial, folder.join(RESULT_FILE))
    }

    /// What is recorded of a run.
    pub fn record(&self, id: &str) -> Option<&RunRecord> {
        self.runs.iter().find(|record| record.id == id)
    }
}

/// The folder of a run in the folder of a study.
pub fn run_folder(folder: &Path, id: &str) -> PathBuf {
    folder.join("runs").join(id)
}

/// The copy of the study: its scenarios are run there.
pub fn study_folder(folder: &Path, key: &str) -> PathBuf {
    folder.join("study").join(key)
}

/// Writes the study's files into the folder of a result.
///
/// # Errors
///
/// When the system refuses.
pub fn write_study(folder: &Path, study: &Study) -> io::Result<()> {
    let own = study_folder(folder, &study.key);
    std::fs::create_dir_all(&own)?;
    for (name, text) in &study.files {
        std::fs::write(own.join(name), text)?;
    }
    Ok(())
}

/// Reads the study that a result is of, as it was when it ran.
/// Errors are those of [`Study::read`]; also when the result names no plain folder.
pub fn read_study(folder: &Path, result: &StudyResult) -> Result<Study, FormError> {
    let key = &result.study;
    if key.is_empty() || key.contains('/') || key.starts_with('.') {
        return Err(FormError::Fault(format!(
            "{}: {key:?} is no name of a study; restore the file from a copy",
            folder.join(RESULT_FILE).display()
        )));
    }
    Study::read(&study_folder(folder, key))
}

/// The command of a run: `race`, `sim sweep`, `profile`, `cells` or `channel`, and its words.
pub fn command(run: &RunSpec, quick: bool) -> Vec<String> {
    let given: [(&[&str], _); 5] = [
        (&["race"], &run.race),
        (&["sim", "sweep"], &run.sim),
        (&["profile"], &run.profile),
        (&["cells"], &run.cells),
        (&["channel"], &run.channel),
    ];
    let given = given
        .into_iter()
        .find_map(|(command, words)| Some((command, words.as_ref()?)));
    let Some((command, words)) = given else {
        return Vec::new();
    };
    let words = run.quick.as_ref().filter(|_| quick).unwrap_or(words);
    // The form was checked when it was read.
    let words = crate::form::words::split(words.get_ref()).unwrap_or_default();
    command
        .iter()
        .map(|word| (*word).to_owned())
        .chain(words)
        .collect()
}
