//! Scenarios drawn from seeds, by number or time; see the example `swarm` of crate `scenario`.

use crate::fail;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Builds the swarm in release mode and runs it with these arguments.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["run", "--quiet", "--release", "--locked"])
        .args(["--package", "scenario", "--example", "swarm", "--"])
        .args(words)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => fail(&format!("cargo does not run: {error}")),
    }
}
