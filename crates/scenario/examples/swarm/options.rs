//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Check many seeds.
    Many(Run),
    /// Check one, and show its scenario.
    One(u64),
    /// Plant faults, all of which must be found.
    Canaries,
}

/// Many seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first seed.
    pub first: u64,
    /// How many; `u64::MAX` for no limit.
    pub count: u64,
    /// When to stop, whatever the count.
    pub time_limit: Option<Duration>,
    /// Threads; None for one a processor.
    pub threads: Option<usize>,
    /// The file for all violations; None for none.
    pub violations: Option<PathBuf>,
}

pub const USAGE: &str = "usage: swarm [COUNT | SECONDSs | --unbounded] [FIRST] [--threads N] \
                         [--violations FILE] | --seed SEED | --canary";

/// Scenarios of a run that names no number.
const COUNT: u64 = 2000;

/// Parses the arguments.
///
/// # Errors
///
/// The argument that is wrong.
pub fn parse(args: &[&str]) -> Result<Task, String> {
    match args {
        ["--canary"] => return Ok(Task::Canaries),
        ["--seed", seed] => return number(seed).map(Task::One),
        _ => {}
    }
    let mut run = Run {
        first: 0,
        count: COUNT,
        time_limit: None,
        threads: None,
        violations: None,
    };
    let mut words = Vec::new();
    let mut unbounded = false;
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg {
            "--unbounded" => unbounded = true,
            "--threads" => run.threads = Some(number(value()?)?.max(1) as usize),
            "--violations" => run.violations = Some(PathBuf::from(value()?)),
            option if option.starts_with('-') => return Err(format!("no option {option}")),
            word => words.push(word),
        }
    }
    if unbounded {
        run.count = u64::MAX;
    } else if !words.is_empty() {
        set_amount(&mut run, words.remove(0))?;
    }
    match words.as_slice() {
        [] => {}
        [first] => run.first = number(first)?,
        [_, more, ..] => return Err(format!("{more} is too much")),
    }
    Ok(Task::Many(run))
}

fn set_amount(run: &mut Run, amount: &str) -> Result<(), String> {
    match amount.strip_suffix('s') {
        Some(seconds) => {
            run.count = u64::MAX;
            run.time_limit = Some(Duration::from_secs(number(seconds)?));
        }
        None => run.count = number(amount)?,
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
