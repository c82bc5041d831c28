//! `towpath report --index`: one page that lists all results below a folder.

use crate::{CliError, EXIT_OK, print, results_commands};
use report::{ListedRun, RunsPage};
use results::RunData;
use std::fs;
use std::path::{Path, PathBuf};

/// Most folders that are looked into.
const FOLDERS_MAX: usize = 20_000;

/// Deepest folder below the given one; `results/project/machine/run` are three.
const DEPTH_MAX: usize = 8;

/// Most runs on a page: a row of 1 KiB each, and reading a plan and a summary takes a millisecond.
const RUNS_MAX: usize = 2_000;

/// Writes the index of the results below `folder` to `out`, or to `index.html` in it.
///
/// # Errors
///
/// When the folder cannot be listed, has no result, or the page cannot be written.
pub fn write(folder: &Path, out: Option<&Path>) -> Result<u8, CliError> {
    let out = out.map_or_else(|| folder.join("index.html"), Path::to_owned);
    let mut search = Search::default();
    search.look_into(folder, 0)?;
    let page = search.into_page(folder, &out);
    if page.runs.is_empty() && page.unread.is_empty() {
        return Err(CliError::failed(format!(
            "no result below {}; race with --out, or give another folder",
            folder.display()
        )));
    }
    results_commands::write_page(&out, &report::runs_html(&page))?;
    print::line(format_args!(
        "index   {} of {} runs",
        out.display(),
        page.runs.len()
    ))?;
    for line in page.unread.iter().chain(&page.left_out) {
        print::note(format_args!("warning: {line}"));
    }
    Ok(EXIT_OK)
}

/// Folders with a plan, and what was met on the way.
#[derive(Default)]
struct Search {
    runs: Vec<PathBuf>,
    folders: usize,
    unread: Vec<String>,
    left_out: Vec<String>,
}

impl Search {
    /// Looks for runs in `folder` and below it. Symbolic links are not followed, so that a loop or a
    /// stranger's link leads nowhere.
    fn look_into(&mut self, folder: &Path, depth: usize) -> Result<(), CliError> {
        let failed = |error| {
            CliError::failed(format!(
                "cannot list {}: {error}; give the folder that has the results",
                folder.display()
            ))
        };
        let mut below = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below.push(entry.path());
            }
        }
        self.folders += 1;
        if folder.join("plan.toml").is_file() {
            self.runs.push(folder.to_owned());
        }
        below.sort();
        for path in below {
            if depth == DEPTH_MAX || self.folders == FOLDERS_MAX {
                self.leave_out(format!(
                    "folders deeper than {DEPTH_MAX} or beyond the first {FOLDERS_MAX} were not looked into"
                ));
                return Ok(());
            }
            if let Err(error) = self.look_into(&path, depth + 1) {
                self.unread.push(error.message);
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, sentence: String) {
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
    }

    fn into_page(mut self, folder: &Path, out: &Path) -> RunsPage {
        if self.runs.len() > RUNS_MAX {
            self.leave_out(format!(
                "{} runs beyond the first {RUNS_MAX}",
                self.runs.len() - RUNS_MAX
            ));
        }
        let mut runs = Vec::new();
        for path in self.runs.iter().take(RUNS_MAX) {
            match RunData::read_head(path) {
                Ok(run) => runs.push(listed(&run, path, out)),
                Err(error) => self.unread.push(error.to_string()),
            }
        }
        runs.sort_by(|a, b| {
            let started = |one: &ListedRun| one.started_s().unwrap_or(f64::NEG_INFINITY);
            let newest_first = started(b).total_cmp(&started(a));
            newest_first.then_with(|| a.folder().cmp(b.folder()))
        });
        RunsPage {
            folder: folder.display().to_string(),
            runs,
            unread: self.unread,
            left_out: self.left_out,
        }
    }
}

fn listed(run: &RunData, path: &Path, out: &Path) -> ListedRun {
    let relative = relative_to(path, out.parent().unwrap_or(Path::new("")));
    let report = relative
        .as_ref()
        .filter(|_| path.join("report.html").is_file());
    let report = report.map(|relative| relative.join("report.html").display().to_string());
    let folder = relative.as_deref().unwrap_or(path).display().to_string();
    ListedRun::of(run, &folder, report.as_deref())
}

/// A path as seen from `base`; None where only `..` would lead to it and either does not exist.
fn relative_to(path: &Path, base: &Path) -> Option<PathBuf> {
    let base = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    let (path, base) = (path.canonicalize().ok()?, base.canonicalize().ok()?);
    let common = path.components().zip(base.components());
    let common = common.take_while(|(a, b)| a == b).count();
    let up = base.components().skip(common).map(|_| "..");
    let down = path.components().skip(common);
    Some(
        up.map(PathBuf::from)
            .chain(down.map(|part| PathBuf::from(part.as_os_str())))
            .collect(),
    )
}
