//! `towpath doctor --calibrate TIME`: races of tcp against itself, here and now.

use crate::CliError;
use crate::args::RaceArgs;
use crate::print::{note, wrap};
use crate::race::{default_folder, measure_here};
use results::RunData;
use serde::Serialize;
use stats::calibration::{BLOCKS, Calibration, TIMES_S, calibrate};
use std::path::PathBuf;
use std::time::Duration;

/// Least time: twelve blocks, and a race has ten.
pub(crate) const TIME_MIN: Duration = Duration::from_secs(10);

/// Time of a block: two contests of two trials of 0.1 s each, and the start of their processes.
const BLOCK: Duration = Duration::from_millis(700);

/// What the machine was found to be.
#[derive(Debug, Serialize)]
pub(crate) struct CalibrationReport {
    /// The folder of the race, which is a result like any other.
    folder: PathBuf,
    /// Blocks of each short race.
    blocks_per_race: u32,
    /// Its contests.
    contests: Vec<ContestReport>,
}

/// One contest.
#[derive(Debug, Serialize)]
struct ContestReport {
    contest: String,
    races: u32,
    wrong: u32,
    /// Share of races that say something false, as an interval of 95 %.
    rate_low: f64,
    rate_high: f64,
    /// Seconds, and the smallest difference that shows in them.
    smallest: Vec<(f64, Option<f64>)>,
}

/// Races for `time`. Fails when the race fails.
pub(crate) fn run(time: Duration, json: bool) -> Result<CalibrationReport, CliError> {
    let args = race_args(time, json)?;
    if !json {
        note(format_args!(
            "races of tcp against itself, one after the other, for {:.0} s",
            time.as_secs_f64()
        ));
    }
    let (folder, _, _) = measure_here(&args)?;
    let run = RunData::read(&folder).map_err(CliError::failed)?;
    let contests: Vec<ContestReport> = calibrate(&run).iter().map(report).collect();
    match contests.is_empty() {
        true => Err(CliError::failed(format!(
            "there was no time for a race of {BLOCKS} blocks; give more than {:.0} s",
            time.as_secs_f64()
        ))),
        false => Ok(CalibrationReport {
            folder,
            blocks_per_race: BLOCKS,
            contests,
        }),
    }
}

/// The long race: two equal contestants, in turns where they can be.
fn race_args(time: Duration, json: bool) -> Result<RaceArgs, CliError> {
    let blocks = (time.as_secs_f64() / BLOCK.as_secs_f64()) as u32;
    let (time, blocks) = (
        format!("{}ms", time.as_millis()),
        format!("{BLOCKS}..{}", blocks.max(BLOCKS + 1)),
    );
    let words = [
        "tcp",
        "tcp",
        "-w",
        "throughput,delay",
        "--sizes",
        "64",
        "--no-control",
        "--no-report",
        "--time",
        &time,
        "--blocks",
        &blocks,
    ];
    Ok(RaceArgs {
        json,
        out: Some(default_folder("calibration")),
        ..RaceArgs::of_words(words)?
    })
}

fn report(found: &Calibration) -> ContestReport {
    ContestReport {
        contest: format!(
            "{} {}",
            found.contest.workload(),
            results::phrasing::contest_text(&found.contest)
        ),
        races: found.races,
        wrong: found.wrong,
        rate_low: found.rate.0,
        rate_high: found.rate.1,
        smallest: TIMES_S.into_iter().zip(found.smallest).collect(),
    }
}

/// A paragraph for each contest.
pub(crate) fn text(report: &CalibrationReport, width: usize) -> String {
    let mut lines = vec![format!(
        "Races of tcp against itself, {} blocks each, which may differ in at most 5 % of them:",
        report.blocks_per_race
    )];
    for one in &report.contests {
        let rate = format!(
            "{}: {} of {} races said faster or slower, a rate of {} to {} (95 %)",
            one.contest,
            one.wrong,
            one.races,
            percent(one.rate_low),
            percent(one.rate_high)
        );
        lines.push(format!("  {}", wrap(&rate, width, 2, 4)));
        let shows = one.smallest.iter().filter_map(|(time_s, share)| {
            let share = (*share)?;
            Some(format!("{} in {}", percent(share), time_text(*time_s)))
        });
        let shows = format!(
            "a difference shows from {}",
            shows.collect::<Vec<_>>().join(", ")
        );
        lines.push(format!("    {}", wrap(&shows, width, 4, 6)));
    }
    lines.push(format!("  result  {}", report.folder.display()));
    lines.join("\n")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn time_text(time_s: f64) -> String {
    match time_s {
        short if short < 60.0 => format!("{short:.0} s"),
        long => format!("{:.0} min", long / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_rate_and_what_shows_in_which_time() {
        let report = CalibrationReport {
            folder: "results/x".into(),
            blocks_per_race: 10,
            contests: vec![ContestReport {
                contest: "delay at 64 B".into(),
                races: 40,
                wrong: 1,
                rate_low: 0.004,
                rate_high: 0.129,
                smallest: vec![(10.0, None), (60.0, Some(0.012)), (600.0, Some(0.004))],
            }],
        };
        let text = text(&report, 100);
        assert!(
            text.contains("1 of 40 races said faster or slower, a rate of 0.4 % to 12.9 %"),
            "{text}"
        );
        assert!(
            text.contains("from 1.2 % in 1 min, 0.4 % in 10 min"),
            "{text}"
        );
    }

    #[test]
    fn race_has_time_for_at_least_one_race_of_ten_blocks() {
        let args = race_args(TIME_MIN, true).expect("a race");
        assert_eq!(args.blocks, Some((BLOCKS, 14)));
        assert_eq!(args.transports, ["tcp", "tcp"]);
    }
}
