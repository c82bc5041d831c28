//! `towpath study`: published experiments run again, beside the figures of the paper.
//!
//! * `selection` - which study, which of its exhibits and runs.
//! * `plan` - the words of every run, checked by the commands' own parsers.
//! * `execute` - the runs, one after the other.
//! * `text` - tables and findings for a terminal; `page` - for a browser; `index` - all studies.

mod execute;
mod index;
mod page;
mod plan;
mod selection;
mod text;

use crate::print::{self, note};
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use clap::{Args, Subcommand};
use selection::Selection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use study::Study;
use study::folder::{self, RunState, StudyResult};
use study::judge::exhibit::Judged;
use study::judge::finding::Finding;
use study::judge::{Outcomes, exhibit, finding};
use study::outcome::Outcome;
use study::shipped;

/// Subcommands of `towpath study`.
#[derive(Clone, Debug, Subcommand)]
pub enum StudyCommand {
    /// List the studies.
    List,
    /// Show what a study asked, its exhibits, its findings and the words of its runs.
    #[command(after_help = "Examples:
  towpath study show dcruz-1992
  towpath study show ./my-study")]
    Show {
        /// The study: a name of the list, or a folder (./my-study).
        study: String,
    },
    /// Run a study again, and judge its exhibits and findings.
    #[command(after_help = "Examples:
  towpath study run dcruz-1992 --compare
  towpath study run dcruz-1992/table-1,table-2 --quick
  towpath study run cabrera-1984 --quick --html cabrera.html
  towpath study run ./my-study --out mine
  towpath study run --resume mine
  towpath study run all --quick

Exit codes: 0 also when runs are left out, which is said; 1 a run was stopped; 2 an unknown study or ID,
or a fault in a study's files, before anything starts.")]
    Run(Box<StudyRunArgs>),
    /// Write the page of a study that ran.
    #[command(after_help = "Examples:
  towpath study report results/20260101-120000-study-dcruz-1992
  towpath study report mine --html mine.html --compare")]
    Report {
        /// The folder of a study's result.
        folder: PathBuf,
        /// The file to write; default: report.html in the folder.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Print the paper's values beside ours.
        #[arg(long)]
        compare: bool,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Options of a study's runs.
#[derive(Clone, Debug, Args)]
pub struct StudyRunArgs {
    /// The study and, after a slash, the exhibits or runs wanted (table-1,figure-8); a folder
    /// (./my-study); or all.
    #[arg(value_name = "NAME[/ID,...]", required_unless_present = "resume")]
    pub study: Option<String>,
    /// The short form of each run: the shapes of curves, not figures to cite.
    #[arg(long)]
    pub quick: bool,
    /// Print the paper's values beside ours.
    #[arg(long)]
    pub compare: bool,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the page here too; it is in the folder in any case.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Race against `towpath agent` on this host instead of over an emulated link.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub to: Option<String>,
    /// Folder of the result; default: a new one in results/.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Do what is missing in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["study", "out", "to", "quick"])]
    pub resume: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// When there is no such study, a file of it is wrong, or the system refuses.
pub fn run(command: &StudyCommand) -> Result<u8, CliError> {
    match command {
        StudyCommand::List => list(),
        StudyCommand::Show { study } => {
            let selection = Selection::parse(study)?;
            let plan = plan::runs(&selection, false, None)?;
            print::line(text::shown(&selection, &plan))?;
            Ok(EXIT_OK)
        }
        StudyCommand::Run(args) if args.study.as_deref() == Some("all") => run_all(args),
        StudyCommand::Run(args) => run_one(args),
        StudyCommand::Report {
            folder,
            html,
            compare,
            json,
        } => {
            let ran = Ran::read(folder)?;
            let path = html.clone().unwrap_or_else(|| folder.join("report.html"));
            write_page(&ran, &path)?;
            ran.print(*compare, *json)
        }
    }
}

fn list() -> Result<u8, CliError> {
    for key in shipped::keys() {
        let study = selection::shipped(key)?;
        print::line(format_args!("{key:<16} {}", study.spec.title))?;
    }
    Ok(EXIT_OK)
}

fn run_one(args: &StudyRunArgs) -> Result<u8, CliError> {
    let (selection, result, out) = match &args.resume {
        Some(out) => {
            let (selection, result) = plan::resumed(out)?;
            (selection, result, out.clone())
        }
        None => {
            let selection = Selection::parse(args.study.as_deref().unwrap_or_default())?;
            let result = plan::result(&selection, args.quick, args.to.as_deref())?;
            let name = format!("study-{}", selection.study.key);
            let out = args.out.clone();
            let out = out.unwrap_or_else(|| crate::race::default_folder(&name));
            (selection, result, out)
        }
    };
    let stop = crate::race::stop_flag()?;
    execute::run(&selection, result, &out, &stop)?;
    let ran = Ran::read(&out)?;
    let report = out.join("report.html");
    write_page(&ran, &report)?;
    if let Some(html) = &args.html {
        write_page(&ran, html)?;
    }
    let code = ran.print(args.compare, args.json)?;
    if !args.json {
        print::line(format_args!("\nresult  {}", out.display()))?;
        print::line(format_args!("report  {}", report.display()))?;
    }
    Ok(code)
}

fn run_all(args: &StudyRunArgs) -> Result<u8, CliError> {
    // All are checked before one starts.
    let keys = shipped::keys();
    let selections = keys.iter().map(|key| Selection::parse(key));
    let selections = selections.collect::<Result<Vec<Selection>, CliError>>()?;
    let planned = selections
        .iter()
        .map(|selection| plan::result(selection, args.quick, args.to.as_deref()));
    let planned = planned.collect::<Result<Vec<StudyResult>, CliError>>()?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| crate::race::default_folder("studies"));
    let stop = crate::race::stop_flag()?;
    let mut all = Vec::new();
    for (selection, result) in selections.iter().zip(planned) {
        let own = out.join(&selection.study.key);
        note(format_args!(
            "{}: {}",
            selection.study.key, selection.study.spec.title
        ));
        execute::run(selection, result, &own, &stop)?;
        let ran = Ran::read(&own)?;
        write_page(&ran, &own.join("report.html"))?;
        all.push(ran);
    }
    let page = args.html.clone().unwrap_or_else(|| out.join("index.html"));
    write(&page, &index::html(&all))?;
    let mut code = EXIT_OK;
    for ran in &all {
        code = code.max(ran.print(args.compare, args.json)?);
    }
    if !args.json {
        print::line(format_args!("\nindex   {}", page.display()))?;
    }
    Ok(code)
}

/// A study that ran, judged.
struct Ran {
    folder: PathBuf,
    selection: Selection,
    result: StudyResult,
    outcomes: Outcomes,
    judged: Vec<Judged>,
    findings: Vec<Finding>,
}

impl Ran {
    /// Reads and judges the result in a folder.
    fn read(folder: &Path) -> Result<Ran, CliError> {
        let result = StudyResult::read(folder).map_err(CliError::usage)?;
        let study = folder::read_study(folder, &result);
        let study = study.map_err(|error| CliError::usage(error.to_string()))?;
        let selection = Selection::of(study, &result.only)?;
        let outcomes = outcomes(&selection.study, &result, folder);
        let study = &selection.study;
        let exhibits = study.spec.exhibit.iter();
        let judged = exhibits
            .map(|wanted| exhibit::judge(study, wanted, &outcomes))
            .collect();
        let findings = finding::judge(study, &outcomes);
        Ok(Ran {
            folder: folder.to_owned(),
            judged,
            findings,
            outcomes,
            selection,
            result,
        })
    }

    /// Prints it, and says how the runs ended.
    fn print(&self, compare: bool, json: bool) -> Result<u8, CliError> {
        let study = &self.selection.study;
        if json {
            let whole = study::json::whole(study, &self.outcomes, &self.judged, &self.findings);
            print::json(&whole)?;
        } else {
            print::line(text::result(self, compare))?;
        }
        let mut stopped = self.result.runs.iter();
        let stopped = stopped.any(|run| run.state == RunState::Interrupted);
        if stopped {
            note(format_args!(
                "towpath: the study was stopped; what is done is kept: towpath study run --resume {}",
                self.folder.display()
            ));
        }
        Ok(if stopped { EXIT_FAILED } else { EXIT_OK })
    }
}

/// What each run gave, or why it gave nothing.
fn outcomes(study: &Study, result: &StudyResult, out: &Path) -> Outcomes {
    let runs = result.runs.iter().filter_map(|record| {
        let run = study.run(&record.id)?;
        let outcome = match record.state {
            RunState::Done => Outcome::read(run, &folder::run_folder(out, &record.id)),
            RunState::LeftOut => Err(record.reason.clone()),
            RunState::Waiting | RunState::Interrupted => Err("its run was stopped".to_owned()),
        };
        Some((record.id.clone(), outcome))
    });
    runs.collect::<BTreeMap<_, _>>()
}

fn write_page(ran: &Ran, path: &Path) -> Result<(), CliError> {
    write(path, &page::html(ran))
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}
