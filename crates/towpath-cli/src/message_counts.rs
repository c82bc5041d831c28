//! `towpath race --messages`, `--total` and `--pairs`: trials of a fixed number of messages.

use crate::CliError;
use crate::args::RaceArgs;
use crate::parse;
use crate::race_checks::foreign_program;
use clap::Args;
use control::Workload;
use measure::spec::MessageCounts;
use measure::turn_plan::TurnChoice;
use std::path::{Path, PathBuf};

/// Messages of a circuit in a trial, at most.
pub const MESSAGES_MAX: u64 = 1_000_000_000_000;

/// Pairs of a file, at most.
const PAIRS_MAX: usize = 1000;

/// Options of a fixed number of messages.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Fixed numbers of messages")]
pub struct MessageCountArgs {
    /// Messages that each circuit sends in a trial - round trips in delay, connections in connect - instead of
    /// as many as its time allows; a list is compared number by number (500,1000,4000). The whole trial counts,
    /// with its start, and its time is a measure too.
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with_all = ["total", "pairs"],
          value_parser = parse::whole::<1, MESSAGES_MAX, u64>)]
    pub messages: Vec<u64>,
    /// The same by bytes: as many messages of each size as have BYTES together.
    #[arg(long, value_name = "BYTES", conflicts_with = "pairs", value_parser = total)]
    pub total: Option<u64>,
    /// Numbers of messages and their sizes from FILE, a line of two numbers each: count, size in bytes. They
    /// stand in the place of --sizes.
    #[arg(long, value_name = "FILE", conflicts_with = "mix")]
    pub pairs: Option<PathBuf>,
}

impl MessageCountArgs {
    /// The numbers asked for, and the sizes of the race, of those that it names.
    ///
    /// # Errors
    ///
    /// Names file and line of a pair that is none.
    pub fn counts(&self, sizes: Vec<u64>) -> Result<(MessageCounts, Vec<u64>), CliError> {
        if let Some(path) = &self.pairs {
            let pairs = read_pairs(path).map_err(CliError::usage)?;
            let mut own: Vec<u64> = pairs.iter().map(|(_, size)| *size).collect();
            own.sort_unstable();
            own.dedup();
            return Ok((MessageCounts::Pairs(pairs), own));
        }
        let counts = match (&self.messages[..], self.total) {
            ([], None) => MessageCounts::ByTime,
            ([], Some(bytes)) => MessageCounts::Total(bytes),
            (some, _) => {
                let mut counts = some.to_vec();
                counts.sort_unstable();
                counts.dedup();
                MessageCounts::Each(counts)
            }
        };
        Ok((counts, sizes))
    }

    /// The option that is given; None where the time decides.
    fn given(&self) -> Option<&'static str> {
        let all = [
            ("--messages", !self.messages.is_empty()),
            ("--total", self.total.is_some()),
            ("--pairs", self.pairs.is_some()),
        ];
        all.into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }
}

/// Refuses a fixed number of messages where something else ends a trial. The error names the option and the remedy.
pub(crate) fn check(args: &RaceArgs) -> Result<(), CliError> {
    let Some(option) = args.messages.given() else {
        return Ok(());
    };
    use Workload::{Connect, Delay, Throughput};
    let counts = |workload: &&Workload| matches!(workload, Throughput | Delay | Connect);
    if !args.workload.iter().all(|workload| counts(&workload)) {
        return Err(CliError::usage(format!(
            "{option} is for workloads throughput, delay and connect, whose trials can end after a number of \
             messages; leave out the others, or {option}"
        )));
    }
    if args.trial.is_some() {
        return Err(CliError::usage(format!(
            "a trial ends after its messages ({option}) or its time (--trial); omit one of them"
        )));
    }
    if args.turns == TurnChoice::On {
        return Err(CliError::usage(format!(
            "a trial of a fixed number of messages ({option}) would end amid its turns; omit --turns on"
        )));
    }
    match foreign_program(args) {
        Some(program) => Err(CliError::usage(format!(
            "{program} sends for as long as its definition says; leave it out, or {option}"
        ))),
        None => Ok(()),
    }
}

/// Bytes of a trial.
fn total(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        0 => Err("a trial of 0 bytes measures nothing; give 1 or more".into()),
        bytes => Ok(bytes),
    }
}

/// The pairs of a file.
fn read_pairs(path: &Path) -> Result<Vec<(u64, u64)>, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("--pairs {}: {error}", path.display()))?;
    let mut pairs = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let place = || format!("{}:{}", path.display(), at + 1);
        pairs.push(pair(line).map_err(|why| format!("{}: {why}", place()))?);
        if pairs.len() > PAIRS_MAX {
            return Err(format!(
                "{}: more than {PAIRS_MAX} pairs; split the file",
                place()
            ));
        }
    }
    match pairs.is_empty() {
        true => Err(format!(
            "--pairs {} has no line with a count and a size; write one, as '4000 1024'",
            path.display()
        )),
        false => Ok(pairs),
    }
}

/// A count and a size.
fn pair(line: &str) -> Result<(u64, u64), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [count, size] = words[..] else {
        return Err(format!(
            "'{line}' is no count and size; write two numbers, as '4000 1024'"
        ));
    };
    let count = parse::whole::<1, MESSAGES_MAX, u64>(count)?;
    let size = match parse::sizes(size)?[..] {
        [size] => size,
        _ => return Err(format!("'{size}' is more than one size; give each a line")),
    };
    Ok((count, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_is_a_count_and_a_size() {
        assert_eq!(pair("4000 1024"), Ok((4000, 1024)));
        assert_eq!(pair("1\t1KiB"), Ok((1, 1024)));
        for wrong in [
            "", "4000", "0 1", "x 1", "1 x", "1 0", "1 1 1", "1 1,2", "1 1..4",
        ] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
