//! `towpath history`: each cell over many runs.

use crate::{CliError, EXIT_OK, parse, print, results_commands};
use clap::Args;
use report::HistoryRun;
use results::{Machine, Plan, RunData};
use serde_json::json;
use stats::{CellHistory, RunCells};
use std::cmp::Ordering;
use std::path::PathBuf;

/// Runs to be followed.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Runs are in the order they started, or by a label of theirs (race --label). Each cell is compared with \
the run before it that has it; all verdicts together have one error probability (Holm).

Examples:
  towpath history results/*
  towpath history results/* --by commit --html history.html
  towpath race tcp udp --label commit=$(git rev-parse --short HEAD) --out results/a"
)]
pub struct HistoryArgs {
    /// The folders of the runs, at least two.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Name and sort the runs by this label; numbers in it count as numbers.
    #[arg(long, value_name = "LABEL", value_parser = parse::label_key)]
    pub by: Option<String>,
    /// Write the history as an HTML page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A run as far as its history needs it; its trials are dropped once they are reduced.
struct Run {
    shown: HistoryRun,
    plan: Plan,
    machine: Machine,
    cells: RunCells,
}

/// Prints the history of runs, and writes its page.
///
/// # Errors
///
/// When a run cannot be read, lacks the label, or no cell is in two of them.
pub fn run(args: &HistoryArgs) -> Result<u8, CliError> {
    let read = args.runs.iter().map(|folder| {
        let run = results_commands::read_whole(folder)?;
        reduced(args, &run)
    });
    let mut runs = read.collect::<Result<Vec<Run>, CliError>>()?;
    sort(&mut runs, args.by.is_some());
    note_changes(&mut runs);
    let Some(last) = runs.last() else {
        return Err(CliError::usage("give at least two runs"));
    };
    let (alpha, equal_within) = (last.plan.alpha, last.plan.equal_within);
    let (shown, cells): (Vec<HistoryRun>, Vec<RunCells>) =
        runs.into_iter().map(|run| (run.shown, run.cells)).unzip();
    let cells = stats::history(&cells, alpha, equal_within);
    if cells.iter().all(|one| one.steps.is_empty()) {
        return Err(CliError::failed("no cell is in two of these runs"));
    }
    if let Some(out) = &args.html {
        results_commands::write_page(out, &report::history_html(&shown, &cells))?;
    }
    match args.json {
        true => print::json(&as_json(&shown, &cells))?,
        false => print::line(report::history_text(&shown, &cells).trim_end())?,
    }
    Ok(EXIT_OK)
}

fn reduced(args: &HistoryArgs, run: &RunData) -> Result<Run, CliError> {
    let labels = run.plan.labels();
    let name = match &args.by {
        None => run.path.display().to_string(),
        Some(key) => {
            let found = labels.iter().find(|(known, _)| known == key);
            let missing = || {
                CliError::failed(format!(
                    "{} has no label {key}; race with --label {key}=TEXT, or omit --by",
                    run.path.display()
                ))
            };
            found.ok_or_else(missing)?.1.to_owned()
        }
    };
    let shown = HistoryRun {
        name,
        started_s: run.trials.first().map_or(f64::NAN, |trial| trial.started_s),
        labels: labels
            .iter()
            .map(|(key, text)| format!("{key}={text}"))
            .collect(),
        changes: Vec::new(),
    };
    Ok(Run {
        shown,
        cells: RunCells::of(&run.plan, &run.trials),
        plan: run.plan.clone(),
        machine: run.machine.clone(),
    })
}

/// By start, or by label and then by start.
fn sort(runs: &mut [Run], by_label: bool) {
    runs.sort_by(|a, b| {
        let by_name = match by_label {
            true => natural_order(&a.shown.name, &b.shown.name),
            false => Ordering::Equal,
        };
        by_name.then(a.shown.started_s.total_cmp(&b.shown.started_s))
    });
}

fn note_changes(runs: &mut [Run]) {
    for run in 1..runs.len() {
        runs[run].shown.changes = runs[run - 1].machine.changes(&runs[run].machine);
    }
}

/// Text order in which digits count as a number: `v9` is before `v10`.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (parts(a), parts(b));
    a.cmp(&b)
}

/// A text cut where digits begin or end. Numbers are before words, and longer ones than 38 digits are
/// words.
fn parts(text: &str) -> Vec<(Option<u128>, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| c.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push((part.parse().ok(), part));
        rest = after;
    }
    parts
}

fn as_json(runs: &[HistoryRun], cells: &[CellHistory]) -> serde_json::Value {
    let runs = runs.iter().map(|run| {
        json!({
            "name": run.name,
            "started_s": run.started_s,
            "labels": run.labels,
            "changes": run.changes,
        })
    });
    let cells = cells.iter().map(|one| {
        let steps = one
            .steps
            .iter()
            .map(|step| json!({ "from": step.from, "to": step.to, "verdict": step.verdict }));
        json!({
            "cell": one.cell,
            "metric": one.metric,
            "values": one.values,
            "steps": steps.collect::<Vec<_>>(),
        })
    });
    json!({ "runs": runs.collect::<Vec<_>>(), "cells": cells.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_sort_numbers_by_value() {
        let mut names = ["v10", "v9", "v9.2", "main", "v9.10"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["main", "v9", "v9.2", "v9.10", "v10"]);
    }
}
