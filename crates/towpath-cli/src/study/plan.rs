//! The words of every run, checked by the commands' own parsers before one starts.

use super::drawn_key;
use super::selection::Selection;
use crate::args::{Cli, Command, RaceArgs};
use crate::sim::SimCommand;
use crate::{CliError, one_line};
use clap::Parser;
use std::path::Path;
use study::Study;
use study::folder::{self, RESULT_VERSION, RunRecord, RunState, StudyResult, run_hash};
use study::form::STUDY_FILE;
use study::form::spec::RunSpec;

/// Options that a study sets itself.
const OWN_OPTIONS: [&str; 7] = [
    "--out", "-o", "--json", "--resume", "--html", "--to", "--from",
];

/// Options of an emulated link and its loads, which a race between machines has not. Each takes one
/// word.
const LINK_OPTIONS: [&str; 3] = ["--link", "--link-load", "--host-load"];

/// The runs of a selection with their words, in the order of the study.
///
/// # Errors
///
/// The first words that their command refuses: `file:line:column: what; what would be right`.
pub fn runs(
    selection: &Selection,
    quick: bool,
    to: Option<&str>,
) -> Result<Vec<RunRecord>, CliError> {
    let study = &selection.study;
    let wanted = study.spec.run.iter();
    let wanted = wanted.filter(|run| selection.runs.contains(run.id.get_ref()));
    let records = wanted.map(|run| {
        // The full words are read too: a fault in them is a fault of the file.
        check(study, run, &folder::command(run, false))?;
        let mut words = folder::command(run, quick);
        check(study, run, &words)?;
        if let (Some(host), true) = (to, run.race.is_some()) {
            words = between_machines(words, host);
        }
        Ok(RunRecord {
            id: run.id.get_ref().clone(),
            words,
            ..RunRecord::default()
        })
    });
    records.collect()
}

/// A race's words without an emulated link, against an agent.
fn between_machines(words: Vec<String>, host: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if LINK_OPTIONS.contains(&word.as_str()) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.extend(["--to".to_owned(), host.to_owned()]);
    kept
}

fn check(study: &Study, run: &RunSpec, words: &[String]) -> Result<(), CliError> {
    let fault = |what: &str| {
        let (line, column) = study.place(&run.id.span());
        CliError::usage(format!(
            "{}/{STUDY_FILE}:{line}:{column}: run {}: {what}",
            study.key,
            run.id.get_ref()
        ))
    };
    let own = |word: &&String| {
        let name = word.split('=').next().unwrap_or(word);
        OWN_OPTIONS.contains(&name)
    };
    if let Some(option) = words.iter().find(own) {
        return Err(fault(&format!(
            "{option} is set by the study; leave it out"
        )));
    }
    let readable = drawn_key::readable(words);
    let (words, _key) =
        readable.map_err(|error| fault(&format!("no key can be drawn: {error}")))?;
    let program = std::iter::once("towpath").chain(words.iter().map(String::as_str));
    let parsed =
        Cli::try_parse_from(program).map_err(|error| fault(&one_line(&error.to_string())))?;
    match parsed.command {
        Command::Sim(SimCommand::Sweep(args)) => {
            let name = args.file.to_string_lossy();
            let Some(text) = study.files.get(name.as_ref()) else {
                return Err(fault(&format!(
                    "no file {name:?} in the study; add the scenario to it"
                )));
            };
            let checked = crate::sim::check_sweep(text, &args);
            checked.map_err(|error| fault(&format!("{name}: {}", error.message)))
        }
        Command::Race(args) => check_race(&args).map_err(|what| fault(&what)),
        _ => Ok(()),
    }
}

/// What a race would refuse before it starts, whatever the machine.
fn check_race(args: &RaceArgs) -> Result<(), String> {
    crate::race_checks::check(args).map_err(|error| error.message)?;
    crate::parse::race_sizes(&args.sizes)?;
    crate::parse::rates(&args.rate)?;
    // Programs of other projects were checked with the rest of the race.
    let transports = args.transports.iter();
    let mut labels = transports.filter(|label| measure::exec::name_of(label).is_none());
    labels.try_for_each(|label| loadgen::contestant::parse(label).map(|_| ()))
}

/// A new result: nothing of it has run. Errors are those of [`runs`].
pub fn result(
    selection: &Selection,
    quick: bool,
    to: Option<&str>,
) -> Result<StudyResult, CliError> {
    let (build, machine) = (build()?, machine());
    let mut runs = runs(selection, quick, to)?;
    for record in &mut runs {
        record.hash = run_hash(&record.words, &build, &machine);
    }
    Ok(StudyResult {
        version: RESULT_VERSION,
        study: selection.study.key.clone(),
        quick,
        to: to.map(str::to_owned),
        only: selection.only.clone(),
        build,
        machine,
        facts: facts(),
        runs,
    })
}

/// The result of a folder, with what is done and what is not.
///
/// # Errors
///
/// When it is no result, or of another machine.
pub fn resumed(out: &Path) -> Result<(Selection, StudyResult), CliError> {
    let before = StudyResult::read(out).map_err(CliError::usage)?;
    if before.machine != machine() {
        return Err(CliError::usage(format!(
            "{} is of machine {:?}, this is {:?}; resume it there, or begin a new one with --out",
            out.display(),
            before.machine,
            machine()
        )));
    }
    let study = folder::read_study(out, &before);
    let study = study.map_err(|error| CliError::usage(error.to_string()))?;
    let selection = Selection::of(study, &before.only)?;
    let mut now = result(&selection, before.quick, before.to.as_deref())?;
    for record in &mut now.runs {
        // Another program, or other words: it is run again.
        let same = before
            .record(&record.id)
            .filter(|old| old.hash == record.hash);
        if let Some(old) = same.filter(|old| old.state == RunState::Done) {
            *record = old.clone();
        }
    }
    Ok((selection, now))
}

/// The program: its version, and a hash of the file it is, which changes with its sources.
fn build() -> Result<String, CliError> {
    let path = std::env::current_exe().map_err(CliError::failed)?;
    let octets = std::fs::read(&path)
        .map_err(|error| CliError::failed(format!("cannot read {}: {error}", path.display())))?;
    let hash = octets.chunks(8).fold(octets.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95)
    });
    Ok(format!("{} {hash:016x}", env!("CARGO_PKG_VERSION")))
}

/// The machine: its name, its processors and its kernel.
fn machine() -> String {
    let system = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} {} {} {processors} CPUs",
        system.nodename().to_string_lossy(),
        system.machine().to_string_lossy(),
        system.release().to_string_lossy()
    )
}

/// Facts about the machine for the page.
fn facts() -> Vec<(String, String)> {
    let machine = host::machine(&results::TestSpec::default());
    let facts = machine.facts.into_iter();
    let shown = facts.filter(|fact| ["cpu", "kernel", "build"].contains(&fact.group.as_str()));
    shown
        .map(|fact| (format!("{} {}", fact.group, fact.name), fact.value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn race_between_machines_has_no_link_and_names_the_host() {
        let words = "race tcp --link ether10 --sizes 64 --host-load 0,2@sender -w delay";
        let words = words.split(' ').map(str::to_owned).collect();
        let there = between_machines(words, "lab2");
        assert_eq!(there.join(" "), "race tcp --sizes 64 -w delay --to lab2");
        assert!(Cli::try_parse_from(std::iter::once("towpath".to_owned()).chain(there)).is_ok());
    }
}
