//! Judges the survey: what matters for the planned measurement, and what to do about it.

mod cpu;
mod load;
mod network;

use crate::survey::Survey;
use results::{Finding, Severity};

/// The planned measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct TestSpec {
    /// Workloads: `throughput`, `delay`, `offered`, `connect`.
    pub workloads: Vec<String>,
    /// Transports, by name.
    pub transports: Vec<String>,
    /// Sender and receiver are each bound to a processor.
    pub pinned: bool,
    /// Both ends busy-poll instead of sleeping.
    pub busy_poll: bool,
    /// Circuits at a time.
    pub circuits: usize,
    /// Requested socket buffers, bytes.
    pub buffers: Option<usize>,
    /// Congestion control that will be set on TCP; empty for the system's.
    pub congestion: String,
}

/// The transports of a race without further arguments.
const USUAL: &[&str] = &[
    "tcp",
    "tcp-batched",
    "udp",
    "udp-segmented",
    "unix-stream",
    "quic",
    "bare",
];

impl Default for TestSpec {
    /// Throughput and delay of the usual transports, as in `towpath race` without arguments.
    fn default() -> TestSpec {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TestSpec {
            workloads: names(&["throughput", "delay"]),
            transports: names(USUAL),
            pinned: false,
            busy_poll: false,
            circuits: 1,
            buffers: None,
            congestion: "cubic".into(),
        }
    }
}

impl TestSpec {
    /// Whether a workload is among those measured.
    fn has(&self, workload: &str) -> bool {
        self.workloads.iter().any(|name| name == workload)
    }

    /// Whether a delay decides a verdict.
    fn has_delay(&self) -> bool {
        self.has("delay") || self.has("offered")
    }

    /// Whether a transport whose name starts with `kind` takes part.
    fn uses(&self, kind: &str) -> bool {
        self.transports.iter().any(|name| name.starts_with(kind))
    }

    /// Whether datagrams may be sent faster than they are received.
    fn floods_udp(&self) -> bool {
        let datagrams = self.uses("udp") || self.uses("bare") || self.uses("quic");
        datagrams && (self.has("throughput") || self.has("offered"))
    }
}

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
