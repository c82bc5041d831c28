//! `towpath study`: published experiments run again, beside the figures of the paper.
//!
//! * `selection` - which study, which of its exhibits and runs.
//! * `jobs` - the studies of one command, and their folders.
//! * `plan` - the words of every run, checked by the commands' own parsers.
//! * `execute` - the runs, one after the other; `drawn_key` - the key of what they seal.
//! * `text` - tables and findings for a terminal; `table` - findings in Markdown; `page` - for a browser; `index` - all studies.

mod drawn_key;
mod execute;
mod index;
mod jobs;
mod page;
mod plan;
mod selection;
mod table;
mod text;

use crate::print::{self, note};
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use clap::{Args, Subcommand};
use jobs::Jobs;
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
  towpath study run cabrera-1984 taler-1992 --out two

Several studies get a folder each and an index.

Exit codes: 0 also when runs are left out, which is said; 1 a run was stopped; 2 an unknown study or ID,
or a fault in a study's files, before anything starts.")]
    Run(Box<StudyRunArgs>),
    /// Write the page of a study that ran, or the pages and the index of several.
    #[command(after_help = "Examples:
  towpath study report results/20260101-120000-study-dcruz-1992
  towpath study report mine --html mine.html --compare
  towpath study report mine --table")]
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
        /// Print the findings alone, as a table in Markdown.
        #[arg(long, conflicts_with_all = ["json", "compare"])]
        table: bool,
    },
}

/// Options of a study's runs.
#[derive(Clone, Debug, Args)]
pub struct StudyRunArgs {
    /// The studies, each with the exhibits or runs wanted after a slash (table-1,figure-8); folders
    /// (./my-study); or all.
    #[arg(value_name = "NAME[/ID,...]", required_unless_present = "resume")]
    pub studies: Vec<String>,
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
    /// Do the runs of sweeps elsewhere, as `sim sweep --on` does; measured runs stay here.
    #[arg(long, value_name = "ray[:ADDRESS] or COMMAND")]
    pub on: Option<String>,
    /// With --on ray: send this wheel to nodes that have none or one of another build.
    #[arg(long, requires = "on")]
    pub send: bool,
    /// Folder of the result; default: a new one in results/.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Do what is missing in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["studies", "out", "to", "quick"])]
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
        StudyCommand::Run(args) => run_studies(args),
        StudyCommand::Report {
            folder,
            html,
            compare,
            json,
            table,
        } => {
            let ran = Ran::read_all(&jobs::study_folders(folder)?)?;
            let has_index = jobs::is_index(folder);
            write_pages(&ran, folder, has_index, html.as_deref())?;
            if *table {
                print::line(table::findings(&ran))?;
                return Ok(EXIT_OK);
            }
            print_all(&ran, folder, *compare, *json)
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

fn run_studies(args: &StudyRunArgs) -> Result<u8, CliError> {
    let mut jobs = Jobs::prepare(args)?;
    let stop = crate::race::stop_flag()?;
    let place = execute::Place {
        on: args.on.as_deref(),
        send: args.send,
    };
    execute::run(&mut jobs.list, place, &stop)?;
    let folders: Vec<PathBuf> = jobs.list.iter().map(|job| job.out.clone()).collect();
    let ran = Ran::read_all(&folders)?;
    let page = write_pages(&ran, &jobs.folder, jobs.has_index, args.html.as_deref())?;
    let code = print_all(&ran, &jobs.folder, args.compare, args.json)?;
    if !args.json {
        let name = if jobs.has_index { "index " } else { "report" };
        print::line(format_args!("\nresult  {}", jobs.folder.display()))?;
        print::line(format_args!("{name}  {}", page.display()))?;
    }
    Ok(code)
}

/// Writes the page of each study into its folder and, for several, the index of all; that of the
/// whole result also to `html`. Returns its place in the folder.
fn write_pages(
    all: &[Ran],
    folder: &Path,
    has_index: bool,
    html: Option<&Path>,
) -> Result<PathBuf, CliError> {
    for ran in all {
        write(&ran.folder.join("report.html"), &page::html(ran))?;
    }
    if !has_index {
        if let (Some(html), [ran]) = (html, all) {
            write(html, &page::html(ran))?;
        }
        return Ok(folder.join("report.html"));
    }
    let place = folder.join("index.html");
    write(&place, &index::html(all, Path::new("")))?;
    if let Some(html) = html {
        let folder = std::fs::canonicalize(folder).map_err(CliError::failed)?;
        write(html, &index::html(all, &folder))?;
    }
    Ok(place)
}

/// Prints each, and says how the runs ended.
fn print_all(all: &[Ran], folder: &Path, compare: bool, json: bool) -> Result<u8, CliError> {
    match (json, all) {
        (true, [ran]) => print::json(&ran.json())?,
        (true, all) => {
            let studies: Vec<serde_json::Value> = all.iter().map(Ran::json).collect();
            print::json(&serde_json::json!({ "studies": studies }))?;
        }
        (false, all) => {
            for (place, ran) in all.iter().enumerate() {
                let gap = if place > 0 { "\n" } else { "" };
                print::line(format_args!("{gap}{}", text::result(ran, compare)))?;
            }
        }
    }
    let mut runs = all.iter().flat_map(|ran| &ran.result.runs);
    if !runs.any(|run| run.state == RunState::Interrupted) {
        return Ok(EXIT_OK);
    }
    note(format_args!(
        "towpath: the study was stopped; what is done is kept: towpath study run --resume {}",
        folder.display()
    ));
    Ok(EXIT_FAILED)
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

    /// Reads and judges those in some folders.
    fn read_all(folders: &[PathBuf]) -> Result<Vec<Ran>, CliError> {
        folders.iter().map(|folder| Ran::read(folder)).collect()
    }

    fn json(&self) -> serde_json::Value {
        let study = &self.selection.study;
        study::json::whole(study, &self.outcomes, &self.judged, &self.findings)
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

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}
