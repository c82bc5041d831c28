//! The verdicts of a run as lines: those that are decided one by one, the others of a workload in
//! one line.

use super::{BOLD, GREEN, PLAIN, RED, wrap};
use crate::verdict_summary::{self, Contest, VerdictLine};
use crate::view::View;

/// Undecided contests of a workload from which they are one line.
const FOLDED_FROM: usize = 3;

/// All verdicts, what they rest on, and the warnings.
pub(super) fn text(view: &View, width: usize) -> String {
    let findings = verdict_summary::summarise(view);
    let mut text = String::new();
    for line in &findings.headline {
        text.push_str(&wrap(&format!("{BOLD}{line}{PLAIN}"), width, 0));
    }
    let mut workloads: Vec<&str> = Vec::new();
    for contest in &findings.contests {
        if !workloads.contains(&contest.workload.as_str()) {
            workloads.push(&contest.workload);
        }
    }
    for workload in workloads {
        let all = findings.contests.iter().filter(|c| c.workload == workload);
        for line in workload_lines(workload, &all.collect::<Vec<_>>()) {
            text.push_str(&wrap(&line, width, 2));
        }
    }
    for line in &findings.confidence {
        text.push_str(&wrap(line, width, 0));
    }
    for line in &findings.warnings {
        text.push_str(&wrap(&format!("! {line}"), width, 2));
    }
    text
}

fn workload_lines(workload: &str, contests: &[&Contest]) -> Vec<String> {
    let is_open = |contest: &&&Contest| contest.leader.kind == "open";
    let open: Vec<&Contest> = contests.iter().filter(is_open).copied().collect();
    if open.len() < FOLDED_FROM {
        return contests
            .iter()
            .map(|contest| contest_line(contest))
            .collect();
    }
    let decided = contests.iter().filter(|contest| !is_open(contest));
    let mut lines: Vec<String> = decided.map(|contest| contest_line(contest)).collect();
    lines.push(open_line(workload, &open, contests.len()));
    lines
}

fn contest_line(contest: &Contest) -> String {
    let VerdictLine { kind, sign, text } = &contest.leader;
    let colour = match *kind {
        "faster" => GREEN,
        "slower" => RED,
        _ => PLAIN,
    };
    let place = format!("{} {}", contest.workload, contest.place);
    format!("{colour}{sign}{PLAIN} {}: {text}", place.trim())
}

/// `? throughput: 13 of 15 contests are open; --blocks 30 decides 12 of them`.
fn open_line(workload: &str, open: &[&Contest], all: usize) -> String {
    let mut needed: Vec<u32> = open.iter().filter_map(|one| one.blocks_needed).collect();
    needed.sort_unstable();
    // The last tenth often needs several times as many blocks as the others.
    let last = needed.len().saturating_sub(1) * 9 / 10;
    let enough = match needed.get(last) {
        None => "more data would not decide them in 1000 blocks, or there are fewer than 3".into(),
        Some(&blocks) => {
            let blocks = blocks.next_multiple_of(5);
            let decided = needed.iter().filter(|needed| **needed <= blocks).count();
            format!("--blocks {blocks} decides about {decided} of them")
        }
    };
    format!(
        "? {workload}: {} of {all} contests are open; {enough}",
        open.len()
    )
}
