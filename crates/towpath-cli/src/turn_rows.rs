//! Commands that measure in turns of their own, `towpath cells segment` and `towpath channel`: the length of a turn, and rows
//! of turns in a file.

use crate::CliError;
use crate::parse::time;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The longest turn.
const TURN_MAX: Duration = Duration::from_secs(10);

pub fn parse_turn(text: &str) -> Result<Duration, String> {
    let turn = time(text)?;
    match turn <= TURN_MAX {
        true => Ok(turn),
        false => Err(format!("'{text}' is too long a turn; give 10s or less")),
    }
}

/// Writes a line for each row.
pub fn write_rows(path: &Path, rows: impl Iterator<Item = Value>) -> Result<(), CliError> {
    let rows: String = rows.map(|row| format!("{row}\n")).collect();
    fs::write(path, rows)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}
