//! tcp at 64 B against itself, slower by a planted share: a worker option that only tests use.
//!
//! Both contestants are programs of their own, scripts that start this build, so that they differ in
//! nothing but that option. A planted 1 % lies within the 3 % that count as equal by default; these
//! races count less as equal, and only "slower" is a decision here.

use super::super::bar::Bar;
use super::super::trial_runner::TrialRunner;
use super::at_most;
use super::race_record::RaceRecord;
use super::race_result::{RaceResult, WorkFolder};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A planted difference, and how it is raced.
pub struct Plant {
    /// Name of the bar.
    pub name: &'static str,
    share: &'static str,
    /// Length of a trial.
    trial: &'static str,
    /// Blocks of a race: as many as fit in the seconds of the floor, for a difference that is small needs them.
    blocks: &'static str,
    /// Largest number of seconds, and what it should be.
    floor_s: f64,
    goal_s: f64,
}

/// 1 %.
pub const ONE_PER_CENT: Plant = Plant {
    name: "verdict-1pct",
    share: "1%",
    trial: "300ms",
    blocks: "5..50",
    floor_s: 60.0,
    goal_s: 10.0,
};

/// 5 %.
pub const FIVE_PER_CENT: Plant = Plant {
    name: "verdict-5pct",
    share: "5%",
    trial: "200ms",
    blocks: "3..18",
    floor_s: 15.0,
    goal_s: 3.0,
};

/// What counts as equal in these races.
const EQUAL_WITHIN: &str = "0.2%";

/// Share of the races that are to be decided in the seconds that are reported.
const DECIDED: f64 = 0.9;

/// Seconds until nine tenths of `races` found the plant.
pub fn seconds_to(ours: &TrialRunner, plant: &Plant, races: usize, record: &mut RaceRecord) -> Bar {
    let mut bar = Bar {
        name: plant.name.into(),
        value: None,
        unit: "s",
        target: at_most(plant.floor_s, plant.goal_s),
        note: String::new(),
    };
    match run_all(ours.program(), plant, Some(plant.share), races, record) {
        Ok(results) => {
            let found: Vec<bool> = results.iter().map(|race| says(race, "slower")).collect();
            bar.value = seconds_of_nine_tenths(&results, &found);
            bar.note = note(plant, &results, &found);
        }
        Err(error) => bar.note = error,
    }
    bar
}

/// Races without a plant that decide something, of a hundred: half of them as those for 1 %, half as those
/// for 5 %. They are longer than those with a plant, as nothing ends them before their last look.
pub fn false_verdicts(ours: &TrialRunner, races: usize, record: &mut RaceRecord) -> Bar {
    let mut bar = Bar {
        name: "verdict-false".into(),
        value: None,
        unit: "of 100",
        target: at_most(9.0, 5.0),
        note: String::new(),
    };
    let halves = [
        (&ONE_PER_CENT, races.div_ceil(2)),
        (&FIVE_PER_CENT, races / 2),
    ];
    let raced = halves.map(|(plant, races)| run_all(ours.program(), plant, None, races, record));
    match raced.into_iter().collect::<Result<Vec<_>, String>>() {
        Ok(results) => {
            let wrong = results
                .iter()
                .flatten()
                .filter(|race| says(race, "slower") || says(race, "faster"))
                .count();
            bar.value = Some(100.0 * wrong as f64 / races as f64);
            bar.note = format!(
                "{wrong} of {races} races of two equal contestants said faster or slower, half of them \
                 with the trials of those for 1 %, half of those for 5 %; simulated ones are in \
                 crates/stats/tests/sequential.rs"
            );
        }
        Err(error) => bar.note = error,
    }
    bar
}

fn run_all(
    program: &Path,
    plant: &Plant,
    share: Option<&str>,
    races: usize,
    record: &mut RaceRecord,
) -> Result<Vec<RaceResult>, String> {
    let folder = WorkFolder::new()?;
    let whole = contestant(&folder, program, "whole", "")?;
    let options = share.map_or_else(String::new, |share| format!(" --slower-by {share}"));
    let other = contestant(&folder, program, "other", &options)?;
    let plan = share.map_or_else(
        || format!("verdict-false {} {}", plant.trial, plant.blocks),
        |_| format!("{} {} {}", plant.name, plant.trial, plant.blocks),
    );
    let race = |seed: usize| {
        let seed = seed.to_string();
        let words = [
            &whole,
            &other,
            "-w",
            "throughput",
            "--sizes",
            "64",
            "--blocks",
            plant.blocks,
            "--trial",
            plant.trial,
            "--equal-within",
            EQUAL_WITHIN,
            "--seed",
            &seed,
        ];
        RaceResult::of(program, &words)
    };
    (1..=races)
        .map(|seed| {
            let name = format!("{plan} {seed}");
            let value = record.value(&name, || race(seed).map(|race| race.to_value()))?;
            RaceResult::of_value(&value).ok_or(format!("the record of {name} is no race"))
        })
        .collect()
}

/// tcp whose workers a script starts, with more options.
fn contestant(
    folder: &WorkFolder,
    program: &Path,
    name: &str,
    options: &str,
) -> Result<String, String> {
    let path = folder.path(name);
    let lines = format!("#!/bin/sh\nexec {} \"$@\"{options}\n", program.display());
    let written = std::fs::write(&path, lines).and_then(|()| {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode)
    });
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("tcp,program={}", path.display()))
}

/// Whether the race decided so on the contestant.
fn says(race: &RaceResult, kind: &str) -> bool {
    let all = race.verdicts("verdicts").iter();
    let mut all = all.chain(race.verdicts("overall"));
    all.any(|verdict| verdict["kind"] == kind)
}

/// The seconds within which nine tenths of the races found it; None when more did not.
fn seconds_of_nine_tenths(results: &[RaceResult], found: &[bool]) -> Option<f64> {
    let times = results.iter().zip(found);
    let mut times: Vec<f64> = times
        .map(|(race, found)| if *found { race.took_s } else { f64::INFINITY })
        .collect();
    times.sort_by(f64::total_cmp);
    let rank = (DECIDED * times.len() as f64).ceil() as usize;
    let time = times.get(rank.saturating_sub(1))?;
    time.is_finite().then_some(*time)
}

/// How many found it, in which time, and by how much they found the contestant slower.
fn note(plant: &Plant, results: &[RaceResult], found: &[bool]) -> String {
    let median = |values: Vec<f64>| stats::estimate::median(&values);
    let took = median(results.iter().map(|race| race.took_s).collect());
    let slower: Vec<f64> = results
        .iter()
        .filter_map(|race| race.verdicts("verdicts").first())
        .filter_map(|verdict| verdict["ratio"].as_f64())
        .map(|ratio| 100.0 * (1.0 - ratio))
        .collect();
    format!(
        "{} of {} races say slower; median {took:.1} s a race; planted {}, measured {:.2} % in the \
         median; trials of {}",
        found.iter().filter(|found| **found).count(),
        results.len(),
        plant.share,
        median(slower),
        plant.trial,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn race(took_s: f64, kind: &str) -> RaceResult {
        RaceResult {
            summary: json!({ "verdicts": [{ "kind": kind, "ratio": 0.99 }], "overall": [] }),
            trials: Vec::<Value>::new(),
            took_s,
        }
    }

    fn seconds(races: &[RaceResult]) -> Option<f64> {
        let found: Vec<bool> = races.iter().map(|race| says(race, "slower")).collect();
        seconds_of_nine_tenths(races, &found)
    }

    #[test]
    fn nine_tenths_of_the_races_must_find_it() {
        let mut races: Vec<RaceResult> = (1..=10)
            .map(|second| race(f64::from(second), "slower"))
            .collect();
        assert_eq!(seconds(&races), Some(9.0));
        races[0] = race(1.0, "not-enough-data");
        assert_eq!(seconds(&races), Some(10.0), "the fastest one found nothing");
        races[1] = race(1.0, "equal");
        assert_eq!(seconds(&races), None);
        assert_eq!(seconds(&[]), None);
    }
}
