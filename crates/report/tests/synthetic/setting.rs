//! The plan and the machine of the synthetic run.

use super::{CONTESTANTS, WORKLOADS, plain};
use results::{Fact, Finding, Machine, Plan, SCHEMA_VERSION, Severity};
use std::collections::BTreeMap;

pub(super) fn plan() -> Plan {
    let words = [
        "towpath",
        "race",
        "--sizes",
        "64,1KiB,16KiB",
        "--out",
        "it's here",
    ];
    Plan {
        command: words.map(String::from).to_vec(),
        seed: 7,
        workloads: WORKLOADS.map(String::from).to_vec(),
        trial_s: 0.25,
        options: BTreeMap::from([
            (
                "class.tcp".into(),
                "reliable, ordered, stream, kernel, congestion control".into(),
            ),
            (
                "class.tcp-batched".into(),
                "reliable, ordered, stream, kernel".into(),
            ),
            (
                "class.bare".into(),
                "unreliable, ordered, messages, user space; the limit row".into(),
            ),
            (
                "class.udp".into(),
                "unreliable, unordered, messages, kernel".into(),
            ),
            (
                "class.quic".into(),
                "reliable, ordered, stream, encrypted, user space".into(),
            ),
            ("read_size".into(), "64 KiB".into()),
        ]),
        ..plain::plan(&CONTESTANTS.map(|contestant| contestant.0))
    }
}

pub(super) fn machine() -> Machine {
    let fact = |group: &str, name: &str, value: &str| Fact {
        group: group.into(),
        name: name.into(),
        value: value.into(),
    };
    let finding = |severity, what: &str, effect: &str, remedy: &str| Finding {
        severity,
        what: what.into(),
        effect: effect.into(),
        remedy: remedy.into(),
    };
    Machine {
        version: SCHEMA_VERSION,
        facts: vec![
            fact("cpu", "model", "AMD EPYC, 2 processors"),
            fact("cpu", "frequency", "2.6 GHz, governor unknown"),
            fact("kernel", "release", "6.18.44 SMP PREEMPT_DYNAMIC"),
            fact("kernel", "congestion control", "bbr"),
            fact("clock", "source", "tsc, 23 ns a read"),
            fact("load", "average", "0.4 over a minute"),
        ],
        findings: vec![
            finding(
                Severity::Good,
                "clock source is tsc",
                "reading it takes 23 ns",
                "",
            ),
            finding(
                Severity::Warning,
                "this is a virtual machine",
                "the host may take the processors away; delays get long tails",
                "run on bare metal, or trust ratios more than figures.",
            ),
            finding(
                Severity::Note,
                "2 processors",
                "sender and receiver fill both",
                "",
            ),
        ],
    }
}

/// Makes the summary anew from the run's trials.
#[allow(dead_code, reason = "some test binaries use it")]
pub fn resummarise(run: &mut results::RunData) {
    let complete = results::RunStatus::Complete;
    run.summary = Some(stats::summarise(&run.plan, &run.trials, complete, "", 1.0));
}
