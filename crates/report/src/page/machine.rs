//! The host: facts by group, and the findings of doctor.

use super::workload::capital;
use crate::quantity;
use results::{RunData, Severity};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    findings: Vec<FindingText>,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct FindingText {
    severity: &'static str,
    what: String,
    effect: String,
    remedy: String,
}

#[derive(Serialize)]
struct Group {
    name: String,
    facts: Vec<(String, String)>,
}

/// Maximum facts and findings shown.
const ROWS_MAX: usize = 300;

pub(super) fn section(run: &RunData) -> Section {
    let mut groups: Vec<Group> = Vec::new();
    for fact in run.machine.facts.iter().take(ROWS_MAX) {
        let name = heading(&fact.group);
        let pair = (
            quantity::spaced(&fact.name),
            quantity::clean(&fact.value, 300),
        );
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.facts.push(pair),
            None => groups.push(Group {
                name,
                facts: vec![pair],
            }),
        }
    }
    let mut findings: Vec<_> = run.machine.findings.iter().take(ROWS_MAX).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let findings = findings.into_iter().map(|finding| FindingText {
        severity: severity(finding.severity),
        what: quantity::clean(&finding.what, 300),
        effect: quantity::clean(&finding.effect, 400),
        remedy: quantity::clean(&finding.remedy, 400),
    });
    Section {
        findings: findings.collect(),
        groups,
    }
}

/// A group's name as a heading.
fn heading(group: &str) -> String {
    match group {
        "cpu" => "CPU".into(),
        other => capital(&quantity::spaced(other)),
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Bad => "bad",
    }
}
