//! verdict: how sure the verdicts of a race are, and how soon they come.
//!
//! * `planted` - tcp against itself at 64 B, with workers that are slower by a known share: seconds until
//!   that is decided, and how often a race without it decides something.
//! * `default_minute` - what a race without any option decides in its minute.
//! * `turns` - how much a block's log ratio scatters in turns and back to back, and what turns cost.
//! * `moved` - by how much turns move the ratio of each transport to tcp, against trials back to back.
//!
//! A run without options is bounded, a few races of each kind; `--races 100` is for the record. `--all` takes every
//! transport of this host into `verdict-moved`.

mod default_minute;
mod moved;
mod planted;
mod race_result;
mod turns;

use super::bar::BenchTarget;
use super::suite::Suite;
use std::path::Path;
use std::process::ExitCode;

/// Races of each kind where no number is given.
const RACES: usize = 5;

/// Runs the benchmark; `arguments` may select bars by prefix, and give `--races N` and `--all`.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let (races, mut wanted) = match races_of(arguments) {
        Ok(parsed) => parsed,
        Err(why) => return crate::fail(&why),
    };
    let all = wanted.contains(&"--all");
    wanted.retain(|word| *word != "--all");
    let mut suite = match Suite::start(root, &wanted) {
        Ok(suite) => suite,
        Err(error) => return crate::fail(&error),
    };
    suite.bar("verdict-1pct", |ours| {
        planted::seconds_to(ours, &planted::ONE_PER_CENT, races)
    });
    suite.bar("verdict-5pct", |ours| {
        planted::seconds_to(ours, &planted::FIVE_PER_CENT, races)
    });
    suite.bar("verdict-false", |ours| planted::false_verdicts(ours, races));
    if suite.wants_any(&["verdict-default", "verdict-aa"]) {
        let minute = default_minute::run(suite.program());
        suite.bar("verdict-default", |_| default_minute::decided(&minute));
        suite.bar("verdict-aa", |_| default_minute::control(&minute));
    }
    for (name, workload, metric) in turns::WORKLOADS {
        suite.bar(name, |ours| turns::scatter(ours, name, workload, metric));
    }
    suite.bar("verdict-turn-cost", turns::cost);
    suite.bar("verdict-moved", |ours| moved::moved(ours, races, all));
    suite.finish()
}

/// The number behind `--races`, and the other arguments.
fn races_of<'a>(arguments: &[&'a str]) -> Result<(usize, Vec<&'a str>), String> {
    let Some(at) = arguments.iter().position(|word| *word == "--races") else {
        return Ok((RACES, arguments.to_vec()));
    };
    let number = arguments.get(at + 1).and_then(|word| word.parse().ok());
    let races = number.filter(|races| (1..=1000).contains(races));
    let races = races.ok_or("--races needs a number from 1 to 1000, as --races 100")?;
    let others = [&arguments[..at], &arguments[at + 2..]].concat();
    Ok((races, others))
}

/// At most the floor, if possible at most the goal.
fn at_most(floor: f64, goal: f64) -> BenchTarget {
    BenchTarget::GoalAtMost { floor, goal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_races_is_taken_out_of_the_names() {
        let names = ["verdict-1pct", "--races", "100", "verdict-aa"];
        let parsed = races_of(&names).expect("a number");
        assert_eq!(parsed, (100, vec!["verdict-1pct", "verdict-aa"]));
        assert_eq!(races_of(&[]), Ok((RACES, Vec::new())));
        for wrong in [&["--races"][..], &["--races", "0"], &["--races", "x"]] {
            assert!(races_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
