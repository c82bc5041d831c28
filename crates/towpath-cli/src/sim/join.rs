//! `towpath sim join`: parts of a sweep as one file.

use super::{LINE_OCTETS_MAX, unreadable};
use crate::print;
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use clap::Args;
use results::bounded_file::{BoundedLines, open_regular};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Parts of a sweep.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Exit code 1 when runs are missing; the file is written nevertheless. Missing runs are those combinations of \
the values and seeds in the rows that have no row, and what --runs says beyond that.

Examples:
  towpath sim join part-*.jsonl --out rows.jsonl
  towpath sim join part-*.jsonl --out rows.jsonl --runs 400"
)]
pub struct JoinArgs {
    /// Files of rows, as sweep --out --shard writes them.
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// The file to write; it must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Runs that the whole sweep has.
    #[arg(long, value_name = "N")]
    pub runs: Option<usize>,
}

/// Rows of a sweep at most, as in `scenario::sweep`; about 1 KiB each.
const ROWS_MAX: usize = 1_000_000;

/// Combinations whose absence is looked for, at most.
const COMBINATIONS_MAX: usize = 4 * ROWS_MAX;

/// Missing runs that are listed.
const LISTED_MAX: usize = 10;

/// Rows by key, with what they ran.
#[derive(Default)]
struct Joined {
    rows: BTreeMap<String, Row>,
    build: Option<String>,
    twice: usize,
    cut: usize,
}

struct Row {
    text: String,
    changes: Vec<String>,
    seed: u64,
}

/// Joins parts: each key once, in the order of keys.
///
/// # Errors
///
/// When a part cannot be read, is of another build, or has another row for a key; when the file exists.
pub fn run(args: &JoinArgs) -> Result<u8, CliError> {
    let mut joined = Joined::default();
    for part in &args.parts {
        joined.add(part)?;
    }
    if joined.rows.is_empty() {
        return Err(CliError::usage("no part has a row of a sweep"));
    }
    write(&args.out, &joined)?;
    let (twice, cut) = (joined.twice, joined.cut);
    let count = joined.rows.len();
    print::line(format_args!(
        "{count} rows in {}; {twice} came twice, {cut} lines were no rows",
        args.out.display()
    ))?;
    let missing = missing(&joined);
    let unknown = args
        .runs
        .map_or(0, |runs| runs.saturating_sub(count + missing.len()));
    if missing.is_empty() && unknown == 0 {
        return Ok(EXIT_OK);
    }
    print::note(format_args!("{} runs are missing", missing.len() + unknown));
    for line in missing.iter().take(LISTED_MAX) {
        print::note(format_args!("  {line}"));
    }
    let more = missing.len().saturating_sub(LISTED_MAX) + unknown;
    if more > 0 {
        print::note(format_args!("  and {more} more"));
    }
    print::note("run the sweep again with this file as --out, which does the missing ones");
    Ok(EXIT_FAILED)
}

impl Joined {
    fn add(&mut self, part: &Path) -> Result<(), CliError> {
        let refuse = |error: std::io::Error| unreadable(part, &error);
        let mut lines = BoundedLines::new(open_regular(part).map_err(refuse)?, LINE_OCTETS_MAX);
        while let Some(line) = lines.next_line().map_err(refuse)? {
            match row_of(line) {
                Some((key, build, row)) => self.insert(part, key, build, row)?,
                None => self.cut += usize::from(!line.trim_ascii().is_empty()),
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        part: &Path,
        key: String,
        build: String,
        row: Row,
    ) -> Result<(), CliError> {
        let known = self.build.get_or_insert_with(|| build.clone());
        if *known != build {
            return Err(CliError::usage(format!(
                "{} has rows of build {build}, others are of {known}; run it again with one build",
                part.display()
            )));
        }
        match self.rows.get(&key) {
            Some(other) if other.text == row.text => self.twice += 1,
            Some(_) => {
                return Err(CliError::usage(format!(
                    "{} has another row for key {key} than a part before; equal runs give equal rows, so one is damaged",
                    part.display()
                )));
            }
            None if self.rows.len() == ROWS_MAX => {
                return Err(CliError::usage(format!("more than {ROWS_MAX} rows")));
            }
            None => {
                self.rows.insert(key, row);
            }
        }
        Ok(())
    }
}

/// A row with its key and build; None for a line that was cut off or is none.
fn row_of(line: &[u8]) -> Option<(String, String, Row)> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
    let changes = value.get("changes")?.as_array()?.iter();
    let row = Row {
        text: String::from_utf8(line.trim_ascii().to_vec()).ok()?,
        changes: changes
            .map(|one| Some(one.as_str()?.to_owned()))
            .collect::<Option<_>>()?,
        seed: value.get("seed")?.as_u64()?,
    };
    let build = text("build").unwrap_or_else(|| "unknown".to_owned());
    Some((text("key")?, build, row))
}

/// Combinations of the values and seeds in the rows that have no row.
fn missing(joined: &Joined) -> Vec<String> {
    let seeds: BTreeSet<u64> = joined.rows.values().map(|row| row.seed).collect();
    let mut axes: Vec<Vec<&str>> = Vec::new();
    for row in joined.rows.values() {
        for (place, change) in row.changes.iter().enumerate() {
            if axes.len() == place {
                axes.push(Vec::new());
            }
            if !axes[place].contains(&change.as_str()) {
                axes[place].push(change);
            }
        }
    }
    let sizes = axes.iter().map(Vec::len).chain([seeds.len()]);
    let count = sizes.fold(1usize, |product, n| product.saturating_mul(n));
    if count > COMBINATIONS_MAX {
        return Vec::new();
    }
    let rows = joined.rows.values();
    let present: BTreeSet<(Vec<&str>, u64)> = rows
        .map(|row| (row.changes.iter().map(String::as_str).collect(), row.seed))
        .collect();
    let mut points: Vec<Vec<&str>> = vec![Vec::new()];
    for axis in &axes {
        let longer = points.iter().flat_map(|point| {
            axis.iter()
                .map(|change| point.iter().chain([change]).copied().collect())
        });
        points = longer.collect();
    }
    let all = points
        .iter()
        .flat_map(|point| seeds.iter().map(|seed| (point.clone(), *seed)));
    all.filter(|run| !present.contains(run))
        .map(|(changes, seed)| {
            format!("{} seed {seed}", changes.join(" "))
                .trim_start()
                .to_owned()
        })
        .collect()
}

fn write(out: &Path, joined: &Joined) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        CliError::usage(format!(
            "cannot write {}: {error}; give a new file",
            out.display()
        ))
    };
    let mut file = BufWriter::new(File::create_new(out).map_err(failed)?);
    for row in joined.rows.values() {
        writeln!(file, "{}", row.text).map_err(failed)?;
    }
    file.flush().map_err(failed)
}
