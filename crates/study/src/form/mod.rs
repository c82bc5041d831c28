//! The form of a study: `study.toml`, the paper's CSV files and `page.md` in one folder.
//!
//! * [`spec`] - the keys of `study.toml`.
//! * [`shows`] - numbers of tables and figures.
//! * [`csv`] - printed figures.
//! * [`formula`] - measures made from others.
//! * [`words`] - the words of a command.
//! * `columns` - no printed column without a run or a reason.
//! * `check` - what one key alone does not tell: names that mean something, numbers shown once.
//!
//! A study's files may come from a stranger: every one is bounded, and a fault is one line,
//! `file:line:column: what; what would be right`.

mod check;
mod columns;
pub mod csv;
pub mod formula;
pub mod shows;
pub mod spec;
pub mod words;

use csv::Csv;
use spec::StudySpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the file that describes a study.
pub const STUDY_FILE: &str = "study.toml";

/// Name of the text of its page.
pub const PAGE_FILE: &str = "page.md";

/// Most octets of a file of a study; the longest that is shipped has 40 KiB.
pub const FILE_OCTETS_MAX: u64 = 1 << 20;

/// Most files of a study: a paper has some 40 tables and figures, and each may have a scenario.
pub const FILES_MAX: usize = 256;

/// A study with all its files.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its key: the name of its folder.
    pub key: String,
    /// What `study.toml` says.
    pub spec: StudySpec,
    /// The text of `page.md`.
    pub page: String,
    /// The printed figures, by the name of the file.
    pub printed: BTreeMap<String, Csv>,
    /// All files, by name.
    pub files: BTreeMap<String, String>,
}

/// Why a study cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The system refused.
    #[error("cannot read {path}: {source}; a study is a folder with study.toml and page.md")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file says what it cannot: `file:line:column: what; what would be right`.
    #[error("{0}")]
    Fault(String),
}

impl Study {
    /// Reads the study in a folder.
    ///
    /// # Errors
    ///
    /// The first file that cannot be read, or the first fault.
    pub fn read(folder: &Path) -> Result<Study, FormError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| FormError::Io { path, source }
        };
        let mut files = BTreeMap::new();
        // Read first: a folder without it is no study, whatever else is in it.
        let text = results::bounded_file::read_text(&folder.join(STUDY_FILE), FILE_OCTETS_MAX);
        files.insert(
            STUDY_FILE.to_owned(),
            text.map_err(io(&folder.join(STUDY_FILE)))?,
        );
        for entry in std::fs::read_dir(folder).map_err(io(folder))? {
            let path = entry.map_err(io(folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let wanted = [".csv", ".toml", ".md"]
                .iter()
                .any(|end| name.ends_with(end));
            if !wanted || name == STUDY_FILE {
                continue;
            }
            if files.len() == FILES_MAX {
                let more = std::io::Error::other(format!("it has more than {FILES_MAX} files"));
                return Err(io(folder)(more));
            }
            let text = results::bounded_file::read_text(&path, FILE_OCTETS_MAX);
            files.insert(name.to_owned(), text.map_err(io(&path))?);
        }
        let key = folder.canonicalize().ok();
        let key = key.as_deref().and_then(Path::file_name);
        let key = key.map_or("study".to_owned(), |name| {
            name.to_string_lossy().into_owned()
        });
        Study::parse(&key, &folder.display().to_string(), files)
    }

    /// The study of some files; `place` is their folder, for faults.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn parse(
        key: &str,
        place: &str,
        files: BTreeMap<String, String>,
    ) -> Result<Study, FormError> {
        let text = files.get(STUDY_FILE).map_or("", String::as_str);
        let at = |span: &std::ops::Range<usize>, what: &str| {
            FormError::Fault(format!("{place}/{STUDY_FILE}:{}", fault(text, span, what)))
        };
        let spec: StudySpec = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            at(&span, &one_line(error.message()))
        })?;
        let mut printed = BTreeMap::new();
        for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".csv")) {
            let csv = Csv::parse(text)
                .map_err(|fault| FormError::Fault(format!("{place}/{name}:{fault}")))?;
            printed.insert(name.clone(), csv);
        }
        let study = Study {
            key: key.to_owned(),
            spec,
            page: files.get(PAGE_FILE).cloned().unwrap_or_default(),
            printed,
            files: files.clone(),
        };
        check::check(&study).map_err(|(span, what)| at(&span, &what))?;
        Ok(study)
    }

    /// The run of that name.
    pub fn run(&self, id: &str) -> Option<&spec::RunSpec> {
        self.spec.run.iter().find(|run| run.id.get_ref() == id)
    }

    /// The place of a key of `study.toml`: line and column, both from 1.
    pub fn place(&self, span: &std::ops::Range<usize>) -> (usize, usize) {
        place(self.files.get(STUDY_FILE).map_or("", String::as_str), span)
    }
}

fn place(text: &str, span: &std::ops::Range<usize>) -> (usize, usize) {
    let mut end = span.start.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

fn fault(text: &str, span: &std::ops::Range<usize>, what: &str) -> String {
    let (line, column) = place(text, span);
    format!("{line}:{column}: {what}")
}

/// A message of TOML as one line that ends in a remedy.
fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    let line = lines.join(" ");
    match line.contains(';') {
        true => line,
        false => format!("{line}; docs/studies.md lists the keys"),
    }
}
