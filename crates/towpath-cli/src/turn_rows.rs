//! Commands that measure in turns of their own, `towpath cells segment` and `towpath channel`: how they are measured, and rows
//! of turns in a file.

use crate::parse::{time, whole};
use crate::print::{json, line};
use crate::{CliError, EXIT_OK};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest turn.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Turns, and where their rows go.
#[derive(Clone, Debug, Args)]
pub struct TurnArgs {
    /// Times that each is measured, in random order.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = whole::<1, 1000, u32>)]
    pub blocks: u32,
    /// How long each time.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_turn)]
    pub turn: Duration,
    /// The order follows from it.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write a row for each turn to a file, as `sim sweep` does for each run.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl TurnArgs {
    /// Writes rows to a file if wanted, and prints the turns, or the table of them.
    ///
    /// # Errors
    ///
    /// When a file or standard output cannot be written.
    pub fn finish<T: Serialize>(
        &self,
        rows: impl Iterator<Item = Value>,
        turns: &[T],
        table: impl FnOnce() -> String,
    ) -> Result<u8, CliError> {
        if let Some(path) = &self.out {
            write_rows(path, rows)?;
        }
        match self.json {
            true => json(&turns)?,
            false => line(table())?,
        }
        Ok(EXIT_OK)
    }
}

fn parse_turn(text: &str) -> Result<Duration, String> {
    let turn = time(text)?;
    match turn <= TURN_MAX {
        true => Ok(turn),
        false => Err(format!("'{text}' is too long a turn; give 10s or less")),
    }
}

/// Writes a line for each row.
fn write_rows(path: &Path, rows: impl Iterator<Item = Value>) -> Result<(), CliError> {
    let rows: String = rows.map(|row| format!("{row}\n")).collect();
    fs::write(path, rows)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}
