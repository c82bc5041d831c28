//! `towpath study`: published experiments reproduced, beside the figures of the paper.

mod charts;

use crate::print;
use crate::sim::eta::EtaReporter;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::path::PathBuf;
use study::dcruz::{self, Cell, PointRow, Report, Standing};

/// Subcommands of `towpath study`.
#[derive(Clone, Debug, Subcommand)]
pub enum StudyCommand {
    /// List the studies.
    List,
    /// Run a study.
    #[command(after_help = "Examples:
  towpath study run dcruz-1992 --compare
  towpath study run dcruz-1992 --compare --html dcruz.html
  towpath study run dcruz-1992 --json > dcruz.json
  towpath study run dcruz-1992 --messages 1000 --seeds 7,8")]
    Run(StudyArgs),
}

/// Options of a study.
#[derive(Clone, Debug, Args)]
pub struct StudyArgs {
    /// The key of the study, see `towpath study list`.
    pub name: String,
    /// Show the paper's values beside ours.
    #[arg(long)]
    pub compare: bool,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// Plot the figures of the study, ours and the printed values, as an HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Messages per run; default: 10,000 as in the study.
    #[arg(long, value_parser = crate::parse::whole::<10, 1_000_000, u64>)]
    pub messages: Option<u64>,
    /// Seeds of each point; default: 1, 2 and 3.
    #[arg(long, value_delimiter = ',')]
    pub seeds: Option<Vec<u64>>,
    /// Concurrent runs; default: the number of CPUs.
    #[arg(long, value_parser = crate::parse::whole::<1, 1024, u16>)]
    pub jobs: Option<u16>,
}

/// Key and title of each study.
const STUDIES: [(&str, &str); 1] = [(
    "dcruz-1992",
    "D'Cruz, multicasting in an XTP simulator: XTP 3.3 and 3.5 over a simulated Ethernet",
)];

/// Runs the command.
///
/// # Errors
///
/// When there is no such study, or standard output cannot be written.
pub fn run(command: &StudyCommand) -> Result<u8, CliError> {
    match command {
        StudyCommand::List => {
            for (key, title) in STUDIES {
                print::line(format_args!("{key:<12} {title}"))?;
            }
            Ok(EXIT_OK)
        }
        StudyCommand::Run(args) => run_study(args),
    }
}

fn run_study(args: &StudyArgs) -> Result<u8, CliError> {
    if !STUDIES.iter().any(|(key, _)| *key == args.name) {
        return Err(CliError::usage(format!(
            "no study {:?}; see towpath study list",
            args.name
        )));
    }
    let seeds = args.seeds.clone();
    let seeds = seeds.unwrap_or_else(|| dcruz::plan::SEEDS.to_vec());
    if seeds.is_empty() || seeds.len() > 1000 {
        return Err(CliError::usage("--seeds takes 1 to 1000 numbers"));
    }
    let messages = args.messages.unwrap_or(dcruz::plan::MESSAGES);
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let eta = EtaReporter::begin();
    let report = dcruz::study(messages, &seeds, jobs, |done, total| {
        let share = done as f64 / total.max(1) as f64;
        eta.update(share, || format!("{done} of {total} runs"));
    });
    if let Some(path) = &args.html {
        let page = report::curves_html(&charts::page(&report));
        std::fs::write(path, page).map_err(|error| {
            CliError::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if args.json {
        print::json(&report)?;
    } else {
        print::line(text(&report, args.compare))?;
        print::note(format_args!(
            "{} runs, {} million events, {:.1} s",
            report.rows.len() * report.seeds.len(),
            report.events / 1_000_000,
            eta.elapsed().as_secs_f64()
        ));
    }
    Ok(EXIT_OK)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn text(report: &Report, compare: bool) -> String {
    let mut out = format!(
        "D'Cruz 1992: {} messages per run, seeds {:?}. 1 TU = 100 ns. Throughput counts packet \
         octets, as the study does.\n",
        report.messages, report.seeds
    );
    if compare {
        compared(&mut out, &report.cells);
    } else {
        expected(&mut out, report);
    }
    let predicted = |row: &&PointRow| !compare || row.mode == "multicast" || row.revision == "3.3";
    if compare {
        out.push_str("\nNot compared here with printed tables: results of the model alone\n");
    }
    simulated(&mut out, report.rows.iter().filter(predicted));
    out.trim_end().to_owned()
}

fn expected(out: &mut String, report: &Report) {
    out.push_str("\nExpected maximum throughput (tables 17 to 21)\n");
    out.push_str("revision mode       resend pairs     size  frames  octets         B/s\n");
    for row in &report.expected {
        let mode = if row.multicast {
            "multicast"
        } else {
            "unicast"
        };
        let pairs = if row.resend_pairs { "128 B" } else { "none" };
        let _ = writeln!(
            out,
            "{:<8} {mode:<10} {pairs:<12} {:>8} {:>7} {:>7} {:>11.0}",
            row.revision, row.size_bytes, row.frames, row.frame_octets, row.throughput_bps
        );
    }
}

fn simulated<'a>(out: &mut String, rows: impl Iterator<Item = &'a PointRow>) {
    let mut part = None;
    for row in rows {
        let this = (row.revision, row.mode, row.size_bytes, row.host_delays);
        if part != Some((row.revision, row.mode, row.size_bytes)) {
            let _ = writeln!(
                out,
                "\n{} {}, {} B, {}\n{:>9} {:>11} {:>6} {:>12} {:>10} {:>12} {:>12} {:>6}",
                row.revision,
                row.mode,
                row.size_bytes,
                if row.resend_pairs {
                    "with resend pairs"
                } else {
                    "no resend pairs"
                },
                "every TU",
                "offered B/s",
                "host",
                "B/s",
                "min TU",
                "message TU",
                "to user TU",
                "ether"
            );
        }
        part = Some((this.0, this.1, this.2));
        let _ = writeln!(
            out,
            "{:>9} {:>11.0} {:>6} {:>12.0} {:>10.0} {:>12.0} {:>12.0} {:>5.0}%{}",
            row.interarrival_tu,
            row.offered_bps,
            host_column(row.host_delays),
            row.throughput_bps,
            row.min_delay_tu,
            row.message_delay_tu,
            row.user_delay_tu,
            row.utilisation * 100.0,
            if row.complete < row.runs {
                "  incomplete"
            } else {
                ""
            }
        );
    }
}

fn host_column(delays: bool) -> &'static str {
    if delays { "delay" } else { "free" }
}

fn compared(out: &mut String, cells: &[Cell]) {
    let mut table = 0;
    for cell in cells {
        if cell.table != table {
            table = cell.table;
            let _ = writeln!(
                out,
                "\nTable {table}, {}\n{:>9} {:>6} {:<22} {:>12} {:>12} {:>8}",
                if table < 17 {
                    format!("{} B, 3.5 unicast, no resend pairs", cell.size_bytes)
                } else {
                    "expected maximum throughput".to_owned()
                },
                if table < 17 { "every TU" } else { "size B" },
                "host",
                "figure",
                "ours",
                "paper",
                "differs"
            );
        }
        let _ = writeln!(out, "{}", cell_line(cell));
    }
    let count = |standing| cells.iter().filter(|c| c.standing == standing).count();
    let _ = writeln!(
        out,
        "\n{} values: {} within their limit, {} beyond it, {} not judged because the printed \
         value contradicts its own row.",
        cells.len(),
        count(Standing::Within),
        count(Standing::Beyond),
        count(Standing::Misprint)
    );
}

fn cell_line(cell: &Cell) -> String {
    let first = if cell.table < 17 {
        cell.interarrival_tu
    } else {
        cell.size_bytes
    };
    let digits = if cell.figure.contains("percent") {
        2
    } else {
        0
    };
    let mut line = format!(
        "{first:>9} {:>6} {:<22} {:>12.digits$} {:>12.digits$} {:>+7.2}%",
        host_column(cell.host_delays),
        cell.figure,
        cell.ours,
        cell.paper,
        cell.difference * 100.0
    );
    if cell.standing == Standing::Beyond {
        let _ = write!(line, "  beyond {:.1} %", cell.limit * 100.0);
    }
    if let Some(note) = cell.note {
        let _ = write!(line, "  misprint: {note}");
    }
    line
}
