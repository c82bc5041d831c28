//! verdict: how sure the verdicts of a race are, and how soon they come.
//!
//! * `planted` - tcp against itself at 64 B, with workers that are slower by a known share: seconds until
//!   that is decided, and how often a race without it decides something.
//! * `default_minute` - what a race without any option decides in its minute.
//! * `against_yardstick` - what a race of tcp against itself scatters here, beside a program that does only that.
//! * `turns` - how much a block's log ratio scatters in turns and back to back, and what turns cost.
//! * `moved` - by how much turns move the ratio of each transport to tcp, against trials back to back.
//!
//! A run without options is bounded, a few races of each kind; `--races 100` is for the record, and takes two hours:
//! with `--record FILE` each race is kept in FILE, and a later run goes on behind those that it finds there. `--all`
//! takes every transport of this host into `verdict-moved`.

mod against_yardstick;
mod default_minute;
mod moved;
mod planted;
mod race_record;
mod race_result;
mod turns;

use super::bar::BenchTarget;
use super::suite::Suite;
use race_record::RaceRecord;
use std::path::Path;
use std::process::ExitCode;

/// Races of each kind where no number is given.
const RACES: usize = 5;

/// What the arguments ask for.
#[derive(Debug, PartialEq)]
struct Options<'a> {
    /// Races of each kind.
    races: usize,
    /// Whether every transport of this host is in `verdict-moved`.
    all: bool,
    /// Where races are recorded.
    record: Option<&'a str>,
    /// Prefixes of bars.
    wanted: Vec<&'a str>,
}

/// Runs the benchmark; `arguments` may select bars by prefix, and give `--races N`, `--record FILE` and `--all`.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(why) => return crate::fail(&why),
    };
    let record = RaceRecord::open(root, options.record);
    match record.and_then(|record| Ok((record, Suite::start(root, &options.wanted)?))) {
        Ok((mut record, suite)) => bars(suite, &options, &mut record),
        Err(error) => crate::fail(&error),
    }
}

fn bars(mut suite: Suite, options: &Options, record: &mut RaceRecord) -> ExitCode {
    let races = options.races;
    for plant in [&planted::ONE_PER_CENT, &planted::FIVE_PER_CENT] {
        suite.bar(plant.name, |ours| {
            planted::seconds_to(ours, plant, races, record)
        });
    }
    suite.bar("verdict-false", |ours| {
        planted::false_verdicts(ours, races, record)
    });
    if suite.wants_any(&["verdict-default", "verdict-aa"]) {
        let minute = default_minute::run(suite.program());
        suite.bar("verdict-default", |_| default_minute::decided(&minute));
        suite.bar("verdict-aa", |_| default_minute::control(&minute));
    }
    for (name, workload, metric) in turns::WORKLOADS {
        suite.bar(name, |ours| turns::scatter(ours, name, workload, metric));
    }
    suite.bar("verdict-yardstick", |ours| against_yardstick::bar(ours));
    suite.bar("verdict-turn-cost", turns::cost);
    suite.bar("verdict-moved", |ours| {
        moved::moved(ours, races, options.all, record)
    });
    suite.finish()
}

fn options<'a>(arguments: &[&'a str]) -> Result<Options<'a>, String> {
    let mut options = Options {
        races: RACES,
        all: false,
        record: None,
        wanted: Vec::new(),
    };
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--races" => options.races = races(words.next())?,
            "--record" => {
                let file = words.next();
                options.record =
                    Some(file.ok_or("--record needs a file, as --record races.jsonl")?);
            }
            "--all" => options.all = true,
            name => options.wanted.push(name),
        }
    }
    Ok(options)
}

fn races(word: Option<&str>) -> Result<usize, String> {
    let number = word.and_then(|word| word.parse().ok());
    let races = number.filter(|races| (1..=1000).contains(races));
    races.ok_or("--races needs a number from 1 to 1000, as --races 100".to_owned())
}

/// At most the floor, if possible at most the goal.
fn at_most(floor: f64, goal: f64) -> BenchTarget {
    BenchTarget::at_most(floor, goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_out_of_the_names() {
        let names = [
            "verdict-1pct",
            "--races",
            "100",
            "--record",
            "r",
            "verdict-aa",
        ];
        let expected = Options {
            races: 100,
            all: false,
            record: Some("r"),
            wanted: vec!["verdict-1pct", "verdict-aa"],
        };
        assert_eq!(options(&names), Ok(expected));
        for wrong in [
            &["--races"][..],
            &["--races", "0"],
            &["--races", "x"],
            &["--record"],
        ] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
    }
}
