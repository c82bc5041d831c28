//! `towpath race --resume FOLDER`: asks the questions again that a race left open, in a new folder.
//!
//! What comes is new evidence: the new race is judged on its own trials alone, since blocks of two days
//! are not blocks of one race. Verdicts of the old race stand. The level is the part of the old plan's
//! that its looks have not spent; where they have spent it all, the new race has the level again, and
//! says so (decision 0083).

use crate::args::{Cli, Command, RaceArgs};
use crate::{CliError, print};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use measure::RaceSpec;
use results::{Machine, RunData};
use stats::UnspentLevel;
use std::path::Path;

/// Options that a resumed race may have of its own; all else is the old race's.
const OWN: [&str; 11] = [
    "resume",
    "time",
    "blocks",
    "trial",
    "out",
    "seed",
    "label",
    "json",
    "no_report",
    "no_wait",
    "regardless",
];

/// Races that take on one another, at most: a folder that names itself would have no end.
const CHAIN_MAX: u32 = 64;

/// The arguments of the race: of one that takes another on, those of the other with its own options.
/// Programs that are defined in the place of their name are called by it.
/// Fails when the folder has no race that can be taken on, or other options are given.
pub(crate) fn resolved(args: &RaceArgs) -> Result<RaceArgs, CliError> {
    let resolved = match &args.resume {
        None => Ok(args.clone()),
        Some(_) => {
            let words = crate::own_words(std::env::args().collect());
            of_words(&words, CHAIN_MAX)
        }
    };
    crate::exec_contestants::with_inline(resolved?)
}

/// The arguments of a race that these words began.
fn of_words(words: &[String], chain: u32) -> Result<RaceArgs, CliError> {
    let matches = Cli::command()
        .try_get_matches_from(words)
        .map_err(|error| CliError::usage(crate::one_line(&error.to_string())))?;
    let no_race = || CliError::usage(format!("`{}` is no race", words.join(" ")));
    let own = matches
        .subcommand_matches("race")
        .ok_or_else(no_race)?
        .clone();
    let cli =
        Cli::from_arg_matches(&matches).map_err(|error| CliError::usage(error.to_string()))?;
    let Command::Race(args) = cli.command else {
        return Err(no_race());
    };
    let Some(folder) = &args.resume else {
        return Ok(*args);
    };
    if chain == 0 {
        return Err(CliError::usage(format!(
            "{}: more than {CHAIN_MAX} races take on one another; begin anew",
            folder.display()
        )));
    }
    check_own(&own)?;
    let plan = RunData::read_head(folder).map_err(CliError::failed)?.plan;
    let older = of_words(&plan.command, chain - 1).map_err(|error| CliError {
        message: format!(
            "{}: its race cannot be taken on: {}",
            folder.display(),
            error.message
        ),
        ..error
    })?;
    Ok(taken_on(older, &args, &own))
}

/// Refuses options that would make it another race.
fn check_own(own: &ArgMatches) -> Result<(), CliError> {
    let given = |id: &str| own.value_source(id) == Some(ValueSource::CommandLine);
    let mut command = Cli::command();
    let race = command.find_subcommand_mut("race");
    let arguments = race.into_iter().flat_map(|race| race.get_arguments());
    for argument in arguments {
        let id = argument.get_id().as_str();
        if given(id) && !OWN.contains(&id) {
            let name = match (argument.get_long(), argument.get_short()) {
                (Some(long), _) => format!("--{long}"),
                (None, Some(short)) => format!("-{short}"),
                (None, None) => "the contestants".to_owned(),
            };
            return Err(CliError::usage(format!(
                "--resume takes a race on as it was planned; omit {name}, or begin a new race"
            )));
        }
    }
    Ok(())
}

/// The older race with the options of the newer one.
fn taken_on(mut older: RaceArgs, newer: &RaceArgs, own: &ArgMatches) -> RaceArgs {
    let given = |id: &str| own.value_source(id) == Some(ValueSource::CommandLine);
    if given("time") {
        older.time = newer.time;
    }
    older.blocks = newer.blocks.or(older.blocks);
    older.trial = newer.trial.or(older.trial);
    older.label.extend(newer.label.iter().cloned());
    older.resume.clone_from(&newer.resume);
    older.out.clone_from(&newer.out);
    // The same seed would repeat the order of the older race.
    older.seed = newer.seed;
    (older.json, older.no_report) = (newer.json, newer.no_report);
    older.alone = newer.alone;
    older
}

/// Leaves the questions that are open in the older race, at the level that is left.
/// Fails when there are none, or the folder cannot be read.
pub(crate) fn restrict(args: &RaceArgs, spec: &mut RaceSpec) -> Result<(), CliError> {
    let Some(folder) = &args.resume else {
        return Ok(());
    };
    let run = RunData::read(folder).map_err(CliError::failed)?;
    let judgement = stats::judge_race(&run.plan, &run.trials);
    let verdicts = judgement.verdicts.len() + judgement.overall.len();
    if verdicts > 0 && judgement.decided() {
        return Err(CliError::usage(format!(
            "every verdict of {} is decided, so there is nothing to take on; see `towpath show {}`",
            folder.display(),
            folder.display()
        )));
    }
    let level = stats::unspent_level(&run.plan, &run.trials);
    let contests = stats::contests::contests(&run.plan, &run.trials);
    let cells = contests.into_iter().map(|contest| contest.cell);
    if spec.size_steps.take().is_some() {
        spec.sizes.clone_from(&run.plan.sizes);
    }
    spec.settled = cells.filter(|cell| judgement.is_settled(cell)).collect();
    spec.alpha = match level {
        UnspentLevel::Part(alpha) => alpha,
        UnspentLevel::Nothing => spec.alpha,
    };
    spec.notes.insert(results::RESUMES.into(), name(folder));
    spec.notes.insert(
        results::RESUMED_LEVEL.into(),
        level_text(level, spec.alpha, &run),
    );
    Ok(())
}

/// The folder, absolute, so that the result names it wherever it is read.
fn name(folder: &Path) -> String {
    let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    path.display().to_string()
}

/// `new evidence at 1.25 %, which that race had left of its 5 %`.
fn level_text(level: UnspentLevel, alpha: f64, run: &RunData) -> String {
    let percent = |share: f64| format!("{:.3}", 100.0 * share);
    let percent = |share: f64| {
        let text = percent(share);
        format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match level {
        UnspentLevel::Part(alpha) => format!(
            "new evidence, judged by itself at {}, which the older race had left of its {}: the \
             chance of any false verdict in both is at most that",
            percent(alpha),
            percent(run.plan.alpha)
        ),
        UnspentLevel::Nothing => format!(
            "new evidence, judged by itself at {}: the older race had spent its {}, so that the \
             chance of any false verdict in both is at most {}",
            percent(alpha),
            percent(run.plan.alpha),
            percent(alpha + run.plan.alpha)
        ),
    }
}

/// Says what of the machine has changed since the older race.
pub(crate) fn note_changes(args: &RaceArgs, machine: &Machine) -> Result<(), CliError> {
    let Some(folder) = &args.resume else {
        return Ok(());
    };
    let before = RunData::read_head(folder)
        .map_err(CliError::failed)?
        .machine;
    for change in before.changes(machine) {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        print::note(format_args!(
            "since {}: {} {} was {}, and is {}",
            folder.display(),
            change.group,
            change.name,
            text(&change.before),
            text(&change.after)
        ));
    }
    Ok(())
}
