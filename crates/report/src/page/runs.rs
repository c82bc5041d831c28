//! The index of results: all runs below a folder.

use crate::view::View;
use crate::{quantity, verdict_summary};
use results::{RunData, RunStatus};
use serde::Serialize;

/// The index of all results below a folder.
#[derive(Debug, Default)]
pub struct RunsPage {
    /// The folder's name.
    pub folder: String,
    /// The runs, newest first.
    pub runs: Vec<ListedRun>,
    /// Folders that could not be read, a sentence each.
    pub unread: Vec<String>,
    /// What was left out because of a limit, a sentence each.
    pub left_out: Vec<String>,
}

/// A row of the index.
#[derive(Clone, Debug, Serialize)]
pub struct ListedRun {
    folder: String,
    href: Option<String>,
    started_s: Option<f64>,
    when: String,
    what: Vec<String>,
    labels: String,
    status: &'static str,
    verdict: Vec<String>,
}

impl ListedRun {
    /// The row of a run, of which at least the first trial is read. `folder` is its folder and `report`
    /// its report, if it has one, both relative to the page.
    pub fn of(run: &RunData, folder: &str, report: Option<&str>) -> ListedRun {
        let view = View::new(run);
        let started_s = run.trials.first().map(|trial| trial.started_s);
        let labels = run.plan.labels();
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, text)| format!("{key}={text}"))
            .collect();
        ListedRun {
            folder: quantity::clean(folder, 160),
            href: report.map(href),
            started_s,
            when: started_s.and_then(quantity::date).unwrap_or_default(),
            what: what(run),
            labels: quantity::clean(&labels.join(", "), 200),
            status: status(run),
            verdict: verdict_summary::summarise(&view).headline,
        }
    }

    /// Start of its first trial, seconds since 1970.
    pub fn started_s(&self) -> Option<f64> {
        self.started_s
    }

    /// Its folder, relative to the page.
    pub fn folder(&self) -> &str {
        &self.folder
    }
}

#[derive(Serialize)]
struct Page<'a> {
    folder: String,
    title: String,
    rows: &'a [ListedRun],
    unread: Vec<String>,
    left_out: Vec<String>,
    style: &'static str,
}

/// The index as a complete HTML document without external resources and scripts.
pub fn runs_html(page: &RunsPage) -> String {
    let clean = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .map(|line| quantity::clean(line, 400))
            .collect()
    };
    let title = match page.runs.len() {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    super::render(
        "runs.html",
        &Page {
            folder: quantity::clean(&page.folder, 120),
            title,
            rows: &page.runs,
            unread: clean(&page.unread),
            left_out: clean(&page.left_out),
            style: super::STYLE,
        },
    )
}

/// Names of a list shown in a row.
const NAMES_MAX: usize = 8;

/// Who raced, at what, and over which path.
fn what(run: &RunData) -> Vec<String> {
    let list = |names: &[String]| {
        let shown = names
            .iter()
            .take(NAMES_MAX)
            .map(|name| quantity::label(name));
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = names.len().checked_sub(NAMES_MAX) {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    let sizes: Vec<String> = run
        .plan
        .sizes
        .iter()
        .map(|size| quantity::bytes(*size))
        .collect();
    let mut lines = vec![
        list(&run.plan.transports),
        format!("{} at {}", list(&run.plan.workloads), list(&sizes)),
    ];
    lines.extend(
        run.plan
            .options
            .get("path")
            .map(|path| quantity::clean(path, 120)),
    );
    lines
}

fn status(run: &RunData) -> &'static str {
    match run.summary.as_ref().map(|summary| summary.status) {
        Some(RunStatus::Complete) => "",
        Some(RunStatus::Interrupted) => "stopped before its end",
        Some(RunStatus::Failed) => "failed",
        None => "running, or cut off",
    }
}

/// A relative path as a reference: what is no plain character of a path is percent-encoded, so that no
/// name of a folder becomes a scheme or a host.
fn href(path: &str) -> String {
    let mut reference = "./".to_owned();
    for octet in path.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                reference.push(char::from(octet));
            }
            other => reference.push_str(&format!("%{other:02X}")),
        }
    }
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_relative_and_encoded() {
        assert_eq!(href("a/report.html"), "./a/report.html");
        assert_eq!(href("javascript:x y"), "./javascript%3Ax%20y");
        assert_eq!(href("\u{e9}\"<"), "./%C3%A9%22%3C");
    }
}
