//! The studies of one command: prepared before the first starts, in a folder each.

use super::selection::Selection;
use super::{StudyRunArgs, execute, plan};
use crate::CliError;
use std::path::{Path, PathBuf};
use study::folder::{RESULT_FILE, StudyResult};
use study::shipped;

/// The word that means every study of the list.
const ALL: &str = "all";

/// Most studies in a folder.
const STUDIES_MAX: usize = 256;

/// A study to run.
pub struct Job {
    /// What is wanted of it.
    pub selection: Selection,
    /// What became of its runs so far.
    pub result: StudyResult,
    /// Its folder.
    pub out: PathBuf,
}

/// The folder of a result: of one study, or with a folder for each of several and their index.
pub struct Jobs {
    /// The folder.
    pub folder: PathBuf,
    /// It has an index.
    pub has_index: bool,
    /// The studies.
    pub list: Vec<Job>,
}

impl Jobs {
    /// The studies that a command names, checked, and their folders made.
    ///
    /// # Errors
    ///
    /// The first fault in a name, a file or the words of a run; a folder that is not empty.
    pub fn prepare(args: &StudyRunArgs) -> Result<Jobs, CliError> {
        let jobs = match &args.resume {
            Some(folder) => Jobs::resumed(folder)?,
            None => Jobs::named(args)?,
        };
        if args.resume.is_none() {
            jobs.list.iter().try_for_each(execute::check_folder)?;
        }
        jobs.list.iter().try_for_each(execute::begin)?;
        Ok(jobs)
    }

    fn named(args: &StudyRunArgs) -> Result<Jobs, CliError> {
        let has_index = args.studies.len() > 1 || args.studies.iter().any(|name| name == ALL);
        let mut list: Vec<Job> = Vec::new();
        for name in args.studies.iter().flat_map(|name| expanded(name)) {
            let selection = Selection::parse(name)?;
            let key = &selection.study.key;
            if list.iter().any(|job| job.selection.study.key == *key) {
                return Err(CliError::usage(format!(
                    "two studies are called {key}; name it once with all its IDs ({key}/ID,ID), or \
                     run them apart"
                )));
            }
            let result = plan::result(&selection, args.quick, args.to.as_deref())?;
            let out = PathBuf::new();
            list.push(Job {
                selection,
                result,
                out,
            });
        }
        let name = match (has_index, list.first()) {
            (false, Some(job)) => format!("study-{}", job.selection.study.key),
            _ => "studies".to_owned(),
        };
        let folder = args.out.clone();
        let folder = folder.unwrap_or_else(|| crate::race::default_folder(&name));
        for job in &mut list {
            job.out = match has_index {
                true => folder.join(&job.selection.study.key),
                false => folder.clone(),
            };
        }
        Ok(Jobs {
            folder,
            has_index,
            list,
        })
    }

    fn resumed(folder: &Path) -> Result<Jobs, CliError> {
        let folders = study_folders(folder)?;
        let has_index = is_index(folder);
        let list = folders.into_iter().map(|out| {
            let (selection, result) = plan::resumed(&out)?;
            Ok(Job {
                selection,
                result,
                out,
            })
        });
        Ok(Jobs {
            folder: folder.to_owned(),
            has_index,
            list: list.collect::<Result<_, CliError>>()?,
        })
    }
}

/// The studies that a word names.
fn expanded(name: &str) -> Vec<&str> {
    match name {
        ALL => shipped::keys(),
        name => vec![name],
    }
}

/// Whether a result's folder holds one folder for each study.
pub fn is_index(folder: &Path) -> bool {
    !folder.join(RESULT_FILE).exists()
}

/// The folders of the studies in the folder of a result, in the order of their names.
///
/// # Errors
///
/// The folder cannot be read, or holds no study.
pub fn study_folders(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    if !is_index(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = std::fs::read_dir(folder).map_err(|error| {
        CliError::usage(format!(
            "cannot read {}: {error}; give the folder of a study run",
            folder.display()
        ))
    })?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = paths
        .filter(|path| path.join(RESULT_FILE).exists())
        .take(STUDIES_MAX)
        .collect();
    folders.sort();
    match folders.is_empty() {
        true => Err(CliError::usage(format!(
            "{} has no {RESULT_FILE}, nor has a folder in it; give the folder of a study run",
            folder.display()
        ))),
        false => Ok(folders),
    }
}
