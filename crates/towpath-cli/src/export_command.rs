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
  towpath export results/a --hgrm delays       for the plotters of HdrHistogram
  towpath export results/* --parquet tables    for data frames
  towpath export rows.jsonl --parquet tables   the rows of a sweep")]
pub struct ExportArgs {
    /// The folders of runs: one for CSV and JSON, any number with --hgrm and --parquet, which also takes one
    /// file of a sweep's rows.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Print the trials as JSON instead of CSV.
    #[arg(long)]
    pub json: bool,
    /// Write the histograms of each cell, merged over its valid trials, into DIR as .hgrm.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub hgrm: Option<PathBuf>,
    /// Write trials, series, histograms and verdicts into DIR as Apache Parquet.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "hgrm"])]
    pub parquet: Option<PathBuf>,
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
    if let Some(out) = &args.parquet {
        return write_parquet(&args.runs, out);
    }
    let [folder] = &args.runs[..] else {
        return Err(CliError::usage(
            "CSV and JSON have one run; export each by itself, or several with --hgrm or --parquet",
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

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &[PathBuf], _: &Path) -> Result<u8, CliError> {
    Err(CliError::usage(
        "this program was built without Parquet; take a package, or build with --features parquet",
    ))
}

/// Writes the tables of runs, or those of the rows of a sweep.
#[cfg(feature = "parquet")]
fn write_parquet(runs: &[PathBuf], out: &Path) -> Result<u8, CliError> {
    let files = match runs {
        [rows] if rows.is_file() => {
            let text = crate::sim::read_rows(rows)?;
            let tables = report::sweep_parquet(&text);
            tables.map_err(|error| CliError::failed(format!("{}: {error}", rows.display())))?
        }
        _ => {
            let named = runs.iter().map(|folder| {
                let run = results_commands::read_whole(folder)?;
                Ok((folder.display().to_string(), run))
            });
            let named = named.collect::<Result<Vec<_>, CliError>>()?;
            report::parquet(&named).map_err(CliError::failed)?
        }
    };
    fs::create_dir_all(out).map_err(|error| refused(out, &error))?;
    for file in &files {
        if file.rows == 0 {
            print::line(format_args!("{:<11} no rows, no file", file.name))?;
            continue;
        }
        let path = out.join(format!("{}.parquet", file.name));
        fs::write(&path, &file.octets).map_err(|error| refused(&path, &error))?;
        print::line(format_args!(
            "{:<11} {} rows in {}",
            file.name,
            file.rows,
            path.display()
        ))?;
    }
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
