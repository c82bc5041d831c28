//! Judges the survey: what matters for the planned measurement, and what to do about it.

mod cpu;
mod load;
mod network;

use crate::survey::Survey;
use results::{Finding, Severity, TestSpec};

/// Findings about this host that matter for `test`, worst first, good ones included. Takes about an
/// eighth of a second.
pub fn doctor(test: &TestSpec) -> Vec<Finding> {
    judge(&Survey::take(), test)
}

pub(crate) fn judge(survey: &Survey, test: &TestSpec) -> Vec<Finding> {
    let checks = [cpu::CHECKS, load::CHECKS, network::CHECKS];
    let checks = checks.into_iter().flatten();
    let mut findings: Vec<Finding> = checks.filter_map(|check| check(survey, test)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A check returns None when the host does not show what it needs, or when it is irrelevant.
type Check = fn(&Survey, &TestSpec) -> Option<Finding>;

fn good(what: impl Into<String>) -> Option<Finding> {
    finding(Severity::Good, what, "", "")
}

fn note(
    what: impl Into<String>,
    effect: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    finding(Severity::Note, what, effect, remedy)
}

fn warning(
    what: impl Into<String>,
    effect: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    finding(Severity::Warning, what, effect, remedy)
}

fn bad(
    what: impl Into<String>,
    effect: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    finding(Severity::Bad, what, effect, remedy)
}

fn finding(
    severity: Severity,
    what: impl Into<String>,
    effect: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    Some(Finding {
        severity,
        what: what.into(),
        effect: effect.into(),
        remedy: remedy.into(),
    })
}

#[cfg(test)]
mod tests;
