//! Commands that only read results: report, show, fit, compare.

use crate::transports::{wants_colour, width};
use crate::{CliError, EXIT_OK, EXIT_REGRESSION, parse, print};
use clap::Args;
use report::Extra;
use results::{Fit, FitPiece, RunData, RunStatus};
use std::fs;
use std::path::{Path, PathBuf};

/// A result.
#[derive(Clone, Debug, Args)]
pub struct ResultArgs {
    /// The folder of a run.
    pub folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A result to be shown.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The result.
    #[command(flatten)]
    pub result: ResultArgs,
    /// More metrics in each cell: p99 (delay), cpu (per message, both ends), mbit, bytes.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Extra::parse)]
    pub show: Vec<Extra>,
}

/// A result and where its report goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  towpath report results/a
  towpath report results/a --out a.html
  towpath report results/a --svg charts             each chart as SVG and CSV
  towpath report --index results                    one page that lists all results below")]
pub struct ReportArgs {
    /// The folder of a run.
    #[arg(required_unless_present = "index")]
    pub folder: Option<PathBuf>,
    /// List all results below FOLDER on one page, with their verdicts and links to their reports.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["folder", "svg"])]
    pub index: Option<PathBuf>,
    /// File to write; default: report.html in the folder, index.html for --index.
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Also write each chart into DIR: the picture as SVG, its numbers as CSV.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// Two results.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 3 when a cell of B is slower than in A by more than --fail-on, with confidence.

Examples:
  towpath compare before after
  towpath compare before after --fail-on 3% --json
  towpath compare before after --html compare.html --markdown >> \"$GITHUB_STEP_SUMMARY\""
)]
pub struct CompareArgs {
    /// The older result.
    pub a: PathBuf,
    /// The newer one.
    pub b: PathBuf,
    /// Exit with 3 when a cell is slower by more than this, with confidence.
    #[arg(long, value_name = "SHARE", value_parser = parse::percent)]
    pub fail_on: Option<f64>,
    /// Write the comparison as an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print Markdown, for a pull request or a summary of CI.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Writes the report of a result.
///
/// # Errors
///
/// When the result cannot be read or the report not written.
pub fn report(args: &ReportArgs) -> Result<u8, CliError> {
    let folder = match (&args.folder, &args.index) {
        (Some(folder), _) => folder,
        (None, Some(folder)) => return crate::index_command::write(folder, args.out.as_deref()),
        (None, None) => return Err(CliError::usage("give the folder of a run")),
    };
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| folder.join("report.html"));
    write_report(folder, &out)?;
    print::line(format_args!("report  {}", out.display()))?;
    if let Some(charts) = &args.svg {
        let count = write_charts(folder, charts)?;
        print::line(format_args!("charts  {count} in {}", charts.display()))?;
    }
    Ok(EXIT_OK)
}

/// Writes the report of the result in `folder` to `out` atomically.
pub fn write_report(folder: &Path, out: &Path) -> Result<(), CliError> {
    let run = read_whole(folder)?;
    write_page(out, &report::html(&run))
}

/// Writes each chart of the result in `folder` as SVG and CSV; returns their number.
fn write_charts(folder: &Path, out: &Path) -> Result<usize, CliError> {
    let charts = report::charts(&read(folder)?);
    let failed = |error: std::io::Error| {
        CliError::failed(format!(
            "cannot write charts to {}: {error}; give another --svg",
            out.display()
        ))
    };
    fs::create_dir_all(out).map_err(failed)?;
    for (number, chart) in charts.iter().enumerate() {
        let name = format!("{:02}-{}", number + 1, chart.name);
        fs::write(out.join(format!("{name}.svg")), &chart.svg).map_err(failed)?;
        fs::write(out.join(format!("{name}.csv")), &chart.csv).map_err(failed)?;
    }
    Ok(charts.len())
}

/// Writes a page to `out` atomically.
pub(crate) fn write_page(out: &Path, text: &str) -> Result<(), CliError> {
    let partial = out.with_extension("partial");
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, out));
    written.map_err(|error| {
        // A partial file that cannot be removed has another name and does no harm.
        let _ = fs::remove_file(&partial);
        CliError::failed(format!(
            "cannot write {}: {error}; give another file",
            out.display()
        ))
    })
}

/// Prints the table and the verdicts.
///
/// # Errors
///
/// When the result cannot be read.
pub fn show(args: &ShowArgs) -> Result<u8, CliError> {
    let run = read(&args.result.folder)?;
    if args.result.json {
        return print_json(&run.summary);
    }
    print::line(overview(&run, wants_colour(), width(), &args.show))?;
    Ok(EXIT_OK)
}

/// The table and verdicts of a run, and what stands in no table.
pub fn overview(run: &RunData, colour: bool, width: usize, extras: &[Extra]) -> String {
    let mut text = report::table(run, colour, width, extras)
        .trim_end()
        .to_owned();
    let ended = run.summary.iter();
    for summary in ended.filter(|summary| summary.status != RunStatus::Complete) {
        let line = format!("The race is incomplete: {}.", summary.reason);
        text.push_str(&format!("\n{}", print::wrap(&line, width, 0, 0)));
    }
    for line in report::notes(run) {
        text.push_str(&format!("\n{}", print::wrap(&line, width, 0, 2)));
    }
    text
}

/// Prints the cost models.
///
/// # Errors
///
/// When the result cannot be read, or has too few sizes.
pub fn fit(args: &ResultArgs) -> Result<u8, CliError> {
    let run = read(&args.folder)?;
    let Some(summary) = &run.summary else {
        return Err(CliError::failed("the result has no trials to fit"));
    };
    if args.json {
        return print_json(&(&summary.fits, &summary.crossovers));
    }
    if summary.fits.is_empty() {
        return Err(CliError::failed(
            "too few sizes for a cost model; race with --sizes 1..64KiB, at least 4 sizes",
        ));
    }
    for fit in &summary.fits {
        print::line(fit_text(fit))?;
    }
    for crossover in &summary.crossovers {
        print::line(format_args!(
            "{} {}: {} below {:.0} B, {} above",
            crossover.contest.workload(),
            crossover.metric,
            crossover.below,
            crossover.size,
            crossover.above
        ))?;
    }
    Ok(EXIT_OK)
}

fn fit_text(fit: &Fit) -> String {
    let mut text = format!(
        "{} {} ({}), largest deviation {:.1} %",
        fit.cell.workload(),
        fit.cell.transport(),
        fit.metric,
        fit.deviation_max * 100.0
    );
    for piece in &fit.pieces {
        text.push_str(&format!("\n  {}", piece_text(piece, unit(&fit.metric))));
    }
    text
}

/// The unit of a metric in words of a terminal.
fn unit(metric: &str) -> &'static str {
    match metric {
        name if name.ends_with("_ns") => "ns",
        name if name.ends_with("_us") => "us",
        _ => "",
    }
}

/// `1 to 512 B: 740.2 ns + 0.2700 ns/B x size`.
fn piece_text(piece: &FitPiece, unit: &str) -> String {
    let sizes = format!("{:>8.0} to {:>8.0} B", piece.from, piece.to);
    match piece.per_byte {
        0.0 => format!("{sizes}: {:.1} {unit}, whatever the size", piece.fixed),
        per_byte => format!(
            "{sizes}: {:.1} {unit} + {per_byte:.4} {unit}/B x size",
            piece.fixed
        ),
    }
}

/// Compares two results.
///
/// # Errors
///
/// When one cannot be read, or they have no cell in common.
pub fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let margin = args.fail_on.unwrap_or(a.plan.equal_within);
    let verdicts = stats::compare(&b.plan, &a.trials, &b.trials, a.plan.alpha, margin);
    if verdicts.is_empty() {
        return Err(CliError::failed("the two results have no cell in common"));
    }
    [&a, &b].into_iter().for_each(warn_of_missing_trials);
    print_comparison(args, (&a, &b), &verdicts)?;
    let worse = args
        .fail_on
        .is_some_and(|margin| !stats::worse_than(&verdicts, margin).is_empty());
    Ok(if worse { EXIT_REGRESSION } else { EXIT_OK })
}

/// Prints a comparison as asked, and writes its page.
fn print_comparison(
    args: &CompareArgs,
    (a, b): (&RunData, &RunData),
    verdicts: &[results::Verdict],
) -> Result<(), CliError> {
    let only_a = stats::only_in(&a.plan, &a.trials, &b.trials);
    let only_b = stats::only_in(&b.plan, &b.trials, &a.trials);
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    let one_sided = [(&names[0], &only_a), (&names[1], &only_b)]
        .map(|(run, cells)| report::OneSided { run, cells });
    if let Some(out) = &args.html {
        let page = report::compare_html(verdicts, &one_sided, &names[0], &names[1]);
        write_page(out, &page)?;
    }
    match (args.json, args.markdown) {
        (true, _) => print_json(&verdicts).map(|_| ()),
        (_, true) => print::line(report::compare_markdown(
            verdicts, &one_sided, &names[0], &names[1],
        )),
        _ => print::line(report::compare_text(verdicts, &one_sided)),
    }
}

/// Reads a result; computes the summary of a race that was killed.
fn read(folder: &Path) -> Result<RunData, CliError> {
    report::read(folder).map_err(CliError::failed)
}

/// Reads a result for a command that shows nothing of the summary, where a cut-off file would go
/// unnoticed.
pub(crate) fn read_whole(folder: &Path) -> Result<RunData, CliError> {
    let run = read(folder)?;
    warn_of_missing_trials(&run);
    Ok(run)
}

fn warn_of_missing_trials(run: &RunData) {
    if let Some(warning) = run.missing_trials() {
        print::note(format_args!("warning: {}: {warning}", run.path.display()));
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<u8, CliError> {
    print::json(value)?;
    Ok(EXIT_OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_fit_have_units() {
        let mut piece = FitPiece {
            from: 1.0,
            to: 512.0,
            fixed: 740.25,
            per_byte: 0.27,
        };
        let text = piece_text(&piece, unit("time_per_message_ns"));
        assert!(
            text.ends_with("512 B: 740.2 ns + 0.2700 ns/B x size"),
            "{text}"
        );
        piece.per_byte = 0.0;
        let text = piece_text(&piece, unit("delay_p50_us"));
        assert!(text.ends_with("740.2 us, whatever the size"), "{text}");
    }
}
