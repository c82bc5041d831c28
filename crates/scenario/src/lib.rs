//! Simulations described in files: TOML with units in, results out.
//!
//! * [`mod@file`] - the format of scenario files.
//! * [`mod@units`] - values such as `"10 us"`, `"8 KiB"`, `"10 Mbit/s"`, `"1%"`.
//! * [`mod@engines`] - protocols by name.
//! * [`mod@build`] - builds a network from a scenario.
//! * `calls` - what transactions and layers need besides; `callings` - groups, streams, requests passed on.
//! * [`mod@cells`] - ATM: cells, adapters, the medium.
//! * [`mod@disturbance`] - crashes, partitions, flaps, periods of loss.
//! * `hosts` - stations of one host, and the shortcut between them.
//! * [`mod@outcome`] - the result of a run as a row.
//! * [`mod@sweep`] - one scenario with many values and seeds.
//! * [`mod@swarm`] - scenarios drawn from seeds, and invariants that must hold in each.
//! * [`mod@trace`] - a run as lines, and where two runs differ.
//!
//! An invalid value is reported as `line:column: what is wrong; what would be right`.
#![forbid(unsafe_code)]

pub mod build;
mod callings;
mod calls;
pub mod cells;
pub mod disturbance;
pub mod engines;
pub mod file;
mod hosts;
pub mod outcome;
mod patterns;
pub mod swarm;
pub mod sweep;
pub mod trace;
pub mod units;

pub use build::build;
pub use file::Scenario;
pub use outcome::RunOutcome;

use engines::SpecError;

/// Parses a scenario and checks that it can run.
///
/// # Errors
///
/// The first invalid value, as `line:column: message`.
pub fn parse(text: &str) -> Result<Scenario, String> {
    let scenario: Scenario = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        format_error(text, &(span, one_line(error.message())))
    })?;
    build(&scenario, scenario.seed).map_err(|fault| format_error(text, &fault))?;
    Ok(scenario)
}

/// Runs a scenario with `seed`. `prepare` may set an observer first.
///
/// # Errors
///
/// The first invalid value, without its place.
pub fn run(
    scenario: &Scenario,
    changes: &[String],
    seed: u64,
    prepare: impl FnOnce(&mut sim::Network),
) -> Result<RunOutcome, String> {
    let mut network = build(scenario, seed).map_err(|(_, message)| message)?;
    prepare(&mut network);
    let settled = scenario.messages.unwrap_or(u64::MAX);
    let ending = network.run_until(scenario.time_limit.0, settled);
    let report = network.report(ending);
    Ok(RunOutcome::new(&scenario.name, changes, seed, &report))
}

fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    lines.join(" ")
}

/// The error with its line and column, both from 1.
fn format_error(text: &str, (span, message): &SpecError) -> String {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}: {message}")
}
