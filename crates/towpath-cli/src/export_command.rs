//! `towpath export`: results for other programs.

use crate::{CliError, EXIT_OK, print, results_commands};
use clap::Args;
use results::RunData;
use std::fs;
use std::path::{Path, PathBuf};

/// Results, and their form.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  towpath export results/a > a.csv
  towpath export results/a --json > a.json
  towpath export results/a --hgrm delays       for the plotters of HdrHistogram")]
pub struct ExportArgs {
    /// The folders of runs: one for CSV and JSON, any number with --hgrm.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Print the trials as JSON instead of CSV.
    #[arg(long)]
    pub json: bool,
    /// Write the histograms of each cell, merged over its valid trials, into DIR as .hgrm.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub hgrm: Option<PathBuf>,
}

/// Exports results.
///
/// # Errors
///
/// When a result cannot be read, or a file not written.
pub fn run(args: &ExportArgs) -> Result<u8, CliError> {
    if let Some(out) = &args.hgrm {
        return write_hgrm(&args.runs, out);
    }
    let [folder] = &args.runs[..] else {
        return Err(CliError::usage(
            "CSV and JSON have one run; export each by itself, or several with --hgrm",
        ));
    };
    let run = results_commands::read_whole(folder)?;
    match args.json {
        true => print::json(&run.trials)?,
        false => print::bytes(report::csv(&run).as_bytes())?,
    }
    Ok(EXIT_OK)
}

/// Writes the histograms of each run; with several runs, each into a folder of its own.
fn write_hgrm(runs: &[PathBuf], out: &Path) -> Result<u8, CliError> {
    let mut count = 0;
    for (number, folder) in runs.iter().enumerate() {
        let run = results_commands::read_whole(folder)?;
        let files = report::hgrm(&run)
            .map_err(|error| CliError::failed(format!("{}: {error}", folder.display())))?;
        let place = match runs.len() {
            1 => out.to_owned(),
            _ => out.join(format!("{}-{}", number + 1, own_name(&run))),
        };
        fs::create_dir_all(&place).map_err(|error| refused(&place, &error))?;
        for file in &files {
            let path = place.join(format!("{}.hgrm", file.name));
            fs::write(&path, &file.text).map_err(|error| refused(&path, &error))?;
        }
        count += files.len();
    }
    if count == 0 {
        return Err(CliError::failed(
            "no histograms in these results; race with --workload delay or offered",
        ));
    }
    print::line(format_args!("hgrm    {count} in {}", out.display()))?;
    Ok(EXIT_OK)
}

/// The name of a run's own folder.
fn own_name(run: &RunData) -> String {
    let name = run.path.file_name();
    name.map_or_else(
        || "run".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn refused(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!(
        "cannot write {}: {error}; give another folder",
        path.display()
    ))
}
