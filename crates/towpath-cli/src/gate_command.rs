//! `towpath gate`: two builds, or two contestants, against each other until every question is
//! decided or the time is up. For pull requests: Markdown, and exit code 3 for a regression.

use crate::args::RaceArgs;
use crate::race::{exit_code, measure_here};
use crate::results_commands::write_report;
use crate::{CliError, EXIT_OK, EXIT_REGRESSION, parse, print};
use clap::Args;
use results::{Summary, Verdict, VerdictKind};
use std::path::{Path, PathBuf};

/// Transport of a gate that names none: its engine is part of the build.
const TRANSPORT: &str = "xtp";

/// Blocks of a gate: looks after 5, 10, 20 and 40. More would make the share that each of them has of the level
/// smaller, and four minutes of trials fit in 40 blocks.
const BLOCKS: (u32, u32) = (5, 40);

/// The name of the program in a folder.
const PROGRAM: &str = "towpath";

/// Options of the gate.
#[derive(Clone, Debug, Args)]
pub struct GateArgs {
    /// The older build: the folder of its program towpath, or the program.
    #[arg(long, value_name = "DIR", requires = "new")]
    pub old: Option<PathBuf>,
    /// The newer build, which must not be slower.
    #[arg(long, value_name = "DIR", requires = "old")]
    pub new: Option<PathBuf>,
    /// Fail only where the newer one is slower by more than this, with confidence. Default: where it
    /// is slower, and not equal within --equal-within.
    #[arg(long, value_name = "SHARE", value_parser = parse::percent)]
    pub fail_on: Option<f64>,
    /// Print Markdown, for a pull request or a summary of CI.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Options of the race.
    #[command(flatten)]
    pub race: RaceArgs,
}

/// The help's last part.
pub const GATE_HELP: &str = "With --old and --new, one TRANSPORT is run by both builds (default: \
xtp); without them two contestants are given, the older first. The race ends at an interim analysis \
(after 5, 10 or 20 blocks) at which every verdict is decided, or when --time is up.

Exit code 3 when the newer one is slower, 0 when it is not or nothing was decided, 1 when it could \
not be measured.

Examples:
  towpath gate --old base/ --new target/release/
  towpath gate --old base/ --new target/release/ tcp --sizes 64 --time 2m --fail-on 2%
  towpath gate tcp tcp,congestion=bbr --link rate=100mbit,delay=5ms
  towpath gate --old base/ --new new/ --markdown >> \"$GITHUB_STEP_SUMMARY\"";

/// Runs the command.
pub fn run(args: &GateArgs) -> Result<u8, CliError> {
    let race = race_args(args)?;
    crate::contestants::learn_transports(&race.transports)?;
    crate::race_checks::check(&race)?;
    if race.remote.is_given() {
        return Err(CliError::usage(
            "a gate runs on this host; for others use `towpath race --to` and `towpath compare`",
        ));
    }
    let (path, summary, capture_line) = measure_here(&race)?;
    if !race.no_report {
        write_report(&path, &path.join("report.html"))?;
    }
    exit_code(&path, &summary)?;
    check_verdicts(&summary, &path)?;
    let regressions = regressions(&summary, args.fail_on);
    print_verdicts(args, &race, &summary, &path)?;
    if let (Some(line), false, false) = (capture_line, race.json, args.markdown) {
        print::line(line)?;
    }
    Ok(match regressions {
        0 => EXIT_OK,
        _ => EXIT_REGRESSION,
    })
}

/// The race of a gate.
fn race_args(args: &GateArgs) -> Result<RaceArgs, CliError> {
    let mut race = args.race.clone();
    if race.all || race.no_control || race.baseline.is_some() {
        return Err(CliError::usage(
            "a gate has two contestants, the older first, and always a control; omit --all, \
             --baseline and --no-control",
        ));
    }
    if race.resume.is_some() {
        return Err(CliError::usage(
            "a gate begins anew; omit --resume, or take the race on with `towpath race --resume`",
        ));
    }
    race.transports = match (&args.old, &args.new) {
        (Some(old), Some(new)) => two_builds(&race.transports, old, new)?,
        _ if race.transports.len() == 2 => race.transports,
        _ => {
            return Err(CliError::usage(
                "a gate needs two builds, --old DIR --new DIR, or two contestants, the older first",
            ));
        }
    };
    race.blocks.get_or_insert(BLOCKS);
    Ok(race)
}

/// One transport, run by each of two builds.
fn two_builds(transports: &[String], old: &Path, new: &Path) -> Result<Vec<String>, CliError> {
    let transport = match transports {
        [] => TRANSPORT,
        [only] => only,
        _ => {
            return Err(CliError::usage(
                "--old and --new run one transport in both builds; give one, and another gate for \
                 the next",
            ));
        }
    };
    let label = |build: &Path| {
        let program = program_of(build)?;
        let parts = transport.split('+');
        let parts: Vec<String> = parts
            .map(|part| format!("{part},program={program}"))
            .collect();
        Ok(parts.join("+"))
    };
    Ok(vec![label(old)?, label(new)?])
}

/// The program of a build, as the text of an option.
fn program_of(build: &Path) -> Result<String, CliError> {
    let program = match build.is_dir() {
        true => build.join(PROGRAM),
        false => build.to_owned(),
    };
    let shown = program.display();
    if !program.is_file() {
        return Err(CliError::usage(format!(
            "there is no program {shown}; give the folder of a build, as target/release"
        )));
    }
    match program.to_str() {
        Some(text) if !text.contains([',', '+', '#']) => Ok(text.to_owned()),
        _ => Err(CliError::usage(format!(
            "{shown} cannot be named in a contestant; give a path without ',', '+' and '#'"
        ))),
    }
}

/// Refuses to pass a contestant without any result.
fn check_verdicts(summary: &Summary, path: &Path) -> Result<(), CliError> {
    match summary.verdicts.iter().any(|verdict| verdict.pairs > 0) {
        true => Ok(()),
        false => Err(CliError::failed(format!(
            "the newer contestant has no result, so nothing was judged; what happened is in {}",
            path.display()
        ))),
    }
}

/// The verdicts of a gate: those of the cells, and those over all cells where there are several.
fn verdicts(summary: &Summary) -> Vec<Verdict> {
    let overall = match summary.verdicts.len() > summary.overall.len() {
        true => &summary.overall[..],
        false => &[],
    };
    summary.verdicts.iter().chain(overall).cloned().collect()
}

/// How many verdicts are regressions.
fn regressions(summary: &Summary, fail_on: Option<f64>) -> usize {
    let all = verdicts(summary);
    match fail_on {
        Some(margin) => stats::worse_than(&all, margin).len(),
        None => all
            .iter()
            .filter(|verdict| verdict.kind == VerdictKind::Slower)
            .count(),
    }
}

fn print_verdicts(
    args: &GateArgs,
    race: &RaceArgs,
    summary: &Summary,
    path: &Path,
) -> Result<(), CliError> {
    if race.json {
        return print::json(summary);
    }
    let all = verdicts(summary);
    let (older, newer) = (&race.transports[0], &race.transports[1]);
    let text = match args.markdown {
        true => report::compare_markdown(&all, &[], older, newer),
        false => report::compare_text(&all, &[]),
    };
    print::line(text.trim_end())?;
    let bullet = if args.markdown { "- " } else { "" };
    let lead = if args.markdown { "\n" } else { "" };
    print::line(format_args!("{lead}{bullet}{}", resolution_line(summary)))?;
    for warning in &summary.warnings {
        print::line(format_args!(
            "{bullet}{}",
            report::plain(warning, args.markdown)
        ))?;
    }
    match args.markdown {
        true => Ok(()),
        false => print::line(format_args!("\nresult  {}", path.display())),
    }
}

/// What this machine could see, from the race's own control.
fn resolution_line(summary: &Summary) -> String {
    let Some(seen) = stats::resolution(summary) else {
        return "the control has no interval: what this machine can see is unknown".into();
    };
    let sentence = seen.sentence(summary.elapsed_s);
    match seen.differs {
        0 => format!("{sentence} (from the control, {})", baseline(summary)),
        count => format!(
            "{sentence}, but {} differs from itself in {count} contests: do not trust this machine \
             now",
            baseline(summary)
        ),
    }
}

/// `tcp against itself`.
fn baseline(summary: &Summary) -> String {
    let first = summary.control.first();
    first.map_or_else(String::new, |one| {
        format!("{} against itself", report::plain(&one.baseline, false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_become_contestants_of_one_transport() {
        let here = std::env::current_exe().expect("a program");
        let made = two_builds(&["tcp+udp".into()], &here, &here).expect("two builds");
        let shown = here.display();
        let wanted = format!("tcp,program={shown}+udp,program={shown}");
        assert_eq!(made, [wanted.clone(), wanted]);
        let usual = two_builds(&[], &here, &here).expect("two builds");
        assert!(usual[0].starts_with("xtp,program="), "{usual:?}");
    }

    #[test]
    fn folder_without_program_is_refused_by_name() {
        let folder = std::env::temp_dir();
        let why = two_builds(&[], &folder, &folder).expect_err("no program");
        assert!(
            why.message.contains("there is no program"),
            "{}",
            why.message
        );
        assert_eq!(why.code, crate::EXIT_USAGE);
    }
}
