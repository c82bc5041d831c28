//! Which study, and which of its exhibits and runs.

use crate::CliError;
use std::collections::BTreeSet;
use std::path::Path;
use study::form::shows;
use study::form::spec::{ExhibitSpec, FindingSpec};
use study::{Study, shipped};

/// A study and what is wanted of it.
pub struct Selection {
    /// The study.
    pub study: Study,
    /// The IDs given; all if empty.
    pub only: Vec<String>,
    /// Whether each exhibit is wanted.
    pub exhibits: Vec<bool>,
    /// The runs they need.
    pub runs: BTreeSet<String>,
}

/// A study of the list.
pub fn shipped(key: &str) -> Result<Study, CliError> {
    let study = shipped::study(key).map_err(|error| CliError::usage(error.to_string()))?;
    study.ok_or_else(|| {
        CliError::usage(format!(
            "no study {key:?}; see towpath study list, or give a folder as ./{key}"
        ))
    })
}

impl Selection {
    /// Reads `NAME`, `NAME/ID,ID`, or a folder: `./mine`, `/tmp/mine`, `./mine/ID,ID`.
    ///
    /// # Errors
    ///
    /// No such study or ID, or a fault in its files.
    pub fn parse(text: &str) -> Result<Selection, CliError> {
        if text.starts_with('.') || text.starts_with('/') {
            let (folder, ids) = folder_and_ids(text);
            let study = Study::read(Path::new(folder));
            let study = study.map_err(|error| CliError::usage(error.to_string()))?;
            return Selection::of(study, &split_ids(ids));
        }
        let (key, ids) = text.split_once('/').unwrap_or((text, ""));
        Selection::of(shipped(key)?, &split_ids(ids))
    }

    /// What some IDs mean in a study; all of it if there are none.
    ///
    /// # Errors
    ///
    /// An ID that is neither a run nor an exhibit.
    pub fn of(study: Study, only: &[String]) -> Result<Selection, CliError> {
        let spec = &study.spec;
        let mut exhibits = vec![only.is_empty(); spec.exhibit.len()];
        let mut runs: BTreeSet<String> = BTreeSet::new();
        for id in only {
            let mut found = study.run(id).is_some();
            if found {
                runs.insert(id.clone());
            }
            for (wanted, exhibit) in exhibits.iter_mut().zip(&spec.exhibit) {
                let own = is_called(exhibit, id) || uses(exhibit, id);
                *wanted |= own;
                found |= own;
            }
            if !found {
                return Err(CliError::usage(format!(
                    "no run or exhibit {id:?} in {0}; see towpath study show {0}",
                    study.key
                )));
            }
        }
        let wanted = spec.exhibit.iter().zip(&exhibits);
        for (exhibit, _) in wanted.filter(|(exhibit, wanted)| **wanted && exhibit.absent.is_none())
        {
            let columns = exhibit
                .column
                .iter()
                .filter_map(|column| column.run.as_ref());
            runs.extend(columns.map(|run| run.get_ref().clone()));
        }
        if only.is_empty() {
            runs.extend(spec.finding.iter().flat_map(runs_of));
        }
        Ok(Selection {
            only: only.to_vec(),
            exhibits,
            runs,
            study,
        })
    }
}

/// A folder, and the IDs behind it: where what is named is no folder, its last part are IDs of the study that
/// contains it.
fn folder_and_ids(text: &str) -> (&str, &str) {
    match text.rsplit_once('/') {
        Some((folder, ids))
            if !Path::new(text).exists() && Path::new(folder).join("study.toml").is_file() =>
        {
            (folder, ids)
        }
        _ => (text, ""),
    }
}

fn split_ids(ids: &str) -> Vec<String> {
    let ids = ids.split(',').map(str::trim).filter(|id| !id.is_empty());
    ids.map(str::to_owned).collect()
}

/// `table-2` is an exhibit that shows table 2.
fn is_called(exhibit: &ExhibitSpec, id: &str) -> bool {
    let numbers = shows::numbers(exhibit.shows.get_ref()).unwrap_or_default();
    let mut names = numbers
        .iter()
        .map(|number| number.to_string().replace(' ', "-"));
    names.any(|name| name == id)
}

fn uses(exhibit: &ExhibitSpec, run: &str) -> bool {
    let mut runs = exhibit
        .column
        .iter()
        .filter_map(|column| column.run.as_ref());
    runs.any(|own| own.get_ref() == run)
}

/// The runs a finding needs.
fn runs_of(finding: &FindingSpec) -> Vec<String> {
    let mut figures = Vec::new();
    figures.extend(
        finding
            .ratio
            .iter()
            .flat_map(|check| [&check.of, &check.to]),
    );
    figures.extend(
        finding
            .order
            .iter()
            .flat_map(|check| check.falling.get_ref()),
    );
    figures.extend(
        finding
            .crossover
            .iter()
            .flat_map(|check| [&check.of, &check.to]),
    );
    figures.extend(finding.highest.iter().map(|check| &check.of));
    figures.extend(finding.linear.iter().map(|check| &check.of));
    figures
        .iter()
        .map(|figure| figure.run.get_ref().clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_may_be_followed_by_exhibits_and_runs() {
        let studies = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let own = format!("{studies}/cabrera-1984");
        let some = format!("{own}/table-7,udp-profile");
        assert_eq!(folder_and_ids(&own), (own.as_str(), ""));
        assert_eq!(folder_and_ids(&some), (own.as_str(), "table-7,udp-profile"));
        let wanted = Selection::parse(&some).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(wanted.only, ["table-7", "udp-profile"]);
        let runs: Vec<&String> = wanted.runs.iter().collect();
        assert_eq!(runs, ["tcp-profile", "udp-profile"]);
        assert!(Selection::parse(&format!("{own}/table-99")).is_err());
        assert!(Selection::parse("./no-such-folder/table-7").is_err());
    }
}
