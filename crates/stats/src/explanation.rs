//! Explanations of verdicts: the evidence that agrees with a verdict.
//!
//! Evidence is what was counted during the trials: calls, wake-ups, packets, drops, CPU time. A
//! verdict names the evidence that differs most among that which points the same way. This is a
//! correlation; whether it is the whole cause is for the reader to judge.

use crate::contests::Contest;
use crate::estimate::median;
use results::{Trial, Verdict, VerdictKind, metric};
use std::collections::BTreeMap;

/// One kind of evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Key in a trial's `evidence`, unit last.
    pub key: &'static str,
    /// Its phrase, with `{}` for the value.
    pub phrase: &'static str,
    /// Its label in tables.
    pub label: &'static str,
    /// Values below this do not affect a message's time, whatever their ratio.
    pub negligible: f64,
    /// The most that one of it costs a message, us; infinite where that has no bound.
    pub cost_max_us: f64,
    /// How a difference relates to speed.
    pub role: EvidenceRole,
}

/// How a difference in evidence relates to speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceRole {
    /// Less of it saves time.
    LessIsFaster,
    /// More of it saves time.
    MoreIsFaster,
    /// Less of it accompanies speed but is not a cause: named only when no cause stands out.
    Symptom,
    /// Shown, never an explanation.
    Shown,
}

/// All evidence a trial may carry, in the order it is shown.
pub const EVIDENCE: &[Evidence] = &[
    evidence(
        "calls_per_message",
        "{} calls a message",
        "system calls a message",
        (0.02, 5.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "wakeups_per_message",
        "{} wake-ups a message",
        "wake-ups a message",
        (0.02, 50.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "packets_per_message",
        "{} packets a message",
        "packets a message",
        (0.02, 5.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "mean_packet_bytes",
        "packets of {} B",
        "mean packet, B",
        (1.0, f64::INFINITY),
        EvidenceRole::MoreIsFaster,
    ),
    evidence(
        "further_links_share",
        "{} of the octets over links after the first",
        "octets over links after the first, share",
        (0.01, f64::INFINITY),
        EvidenceRole::MoreIsFaster,
    ),
    evidence(
        "retransmissions_per_1000",
        "{} retransmissions a thousand messages",
        "retransmissions a thousand messages",
        (0.5, f64::INFINITY),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "receive_drops_per_1000",
        "{} drops at the receiver's buffer a thousand messages received",
        "drops at the receiver's buffer a thousand messages received",
        (0.5, f64::INFINITY),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "sender_cpu_ns_per_message",
        "{} of CPU a message at the sender",
        "CPU at the sender, ns a message",
        (5.0, 0.001),
        EvidenceRole::Symptom,
    ),
    evidence(
        "receiver_cpu_ns_per_message",
        "{} of CPU a message at the receiver",
        "CPU at the receiver, ns a message",
        (5.0, 0.001),
        EvidenceRole::Symptom,
    ),
    evidence(
        "involuntary_switches_per_message",
        "{} preemptions a message",
        "preemptions a message",
        (0.02, 20.0),
        EvidenceRole::LessIsFaster,
    ),
    evidence(
        "cpu_user_fraction",
        "{} of the CPU time in user mode",
        "CPU time in user mode, share",
        (0.01, f64::INFINITY),
        EvidenceRole::Shown,
    ),
];

const fn evidence(
    key: &'static str,
    phrase: &'static str,
    label: &'static str,
    (negligible, cost_max_us): (f64, f64),
    role: EvidenceRole,
) -> Evidence {
    Evidence {
        key,
        phrase,
        label,
        negligible,
        cost_max_us,
        role,
    }
}

/// Smallest ratio of evidence that is named.
const RATIO_MIN: f64 = 1.2;

/// Share of a difference in a message's time that evidence must be able to account for, at the most that it costs: 0.01
/// preemptions a message, of 20 us at most, are no reason for 15 us.
const SHARE_MIN: f64 = 0.1;

/// Share of the blocks in which evidence must differ in the direction of its median.
const AGREEING_MIN: f64 = 0.75;

/// The explanation for a contestant that is `faster` (or slower) than the baseline, from the median
/// evidence of both; empty when nothing explains it. `apart_us` is how far apart the times of a message of both are, us;
/// None where the measure is no time. E.g. `0.9 wake-ups a message against 2.1`.
pub fn explain(
    faster: bool,
    apart_us: Option<f64>,
    contestant: &BTreeMap<String, f64>,
    baseline: &BTreeMap<String, f64>,
) -> String {
    let strongest = |wanted: &dyn Fn(EvidenceRole) -> bool| {
        let candidates = EVIDENCE.iter().filter(|evidence| wanted(evidence.role));
        let explained = candidates.filter_map(|evidence| {
            let pair = (*contestant.get(evidence.key)?, *baseline.get(evidence.key)?);
            let strength = evidence.strength(faster, pair.0, pair.1)?;
            let may_be = evidence.accounts_for(pair.0 - pair.1, apart_us.unwrap_or(0.0));
            may_be.then_some((strength, evidence, pair))
        });
        explained.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let cause = strongest(&|role| {
        matches!(
            role,
            EvidenceRole::LessIsFaster | EvidenceRole::MoreIsFaster
        )
    });
    let found = cause.or_else(|| strongest(&|role| role == EvidenceRole::Symptom));
    found.map_or_else(String::new, |(_, evidence, (ours, theirs))| {
        let value = evidence.amount(ours);
        format!(
            "{} against {}",
            evidence.phrase.replace("{}", &value),
            evidence.amount(theirs)
        )
    })
}

impl Evidence {
    /// A value in words: a time with its unit, any other as a number.
    fn amount(&self, value: f64) -> String {
        match value {
            value if !self.key.contains("_ns_") => amount(value),
            ns if ns >= 1e6 => format!("{} ms", amount(ns / 1e6)),
            ns if ns >= 1e3 => format!("{} us", amount(ns / 1e3)),
            ns => format!("{} ns", amount(ns)),
        }
    }

    /// Whether so much more or less of it may be a good part of a difference in a message's time.
    fn accounts_for(&self, difference: f64, apart_us: f64) -> bool {
        difference.abs() * self.cost_max_us >= SHARE_MIN * apart_us
    }

    /// |ln| of the ratio of two values, when it is large enough and agrees with the verdict.
    fn strength(&self, faster: bool, ours: f64, theirs: f64) -> Option<f64> {
        let log = (ours.max(self.negligible) / theirs.max(self.negligible)).ln();
        let towards_faster = match self.role {
            EvidenceRole::LessIsFaster | EvidenceRole::Symptom => log < 0.0,
            EvidenceRole::MoreIsFaster => log > 0.0,
            EvidenceRole::Shown => return None,
        };
        let strong = log.is_finite() && log.abs() >= RATIO_MIN.ln();
        (strong && towards_faster == faster).then_some(log.abs())
    }
}

/// The explanation of a verdict from its trials; empty unless it is faster or slower.
pub(crate) fn explain_verdict(verdict: &Verdict, contests: &[Contest]) -> String {
    let faster = match verdict.kind {
        VerdictKind::Faster => true,
        VerdictKind::Slower => false,
        VerdictKind::Equal | VerdictKind::NotEnoughData => return String::new(),
    };
    let Some(contest) = contests
        .iter()
        .find(|contest| contest.cell == verdict.contest)
    else {
        return String::new();
    };
    let pairs = contest.pairs(&verdict.contestant, false, &verdict.baseline);
    let (ours, theirs) = consistent(&pairs);
    explain(faster, apart_us(&verdict.metric, &pairs), &ours, &theirs)
}

/// How far apart the median times of a message of both sides are, us; None where the metric is no time and no rate of messages.
fn apart_us(name: &str, pairs: &[(u32, &Trial, &Trial)]) -> Option<f64> {
    let time_us = |trial: &Trial| {
        let value = *trial.metrics.get(name)?;
        match name {
            metric::DELAY_P50_US => Some(value),
            metric::MESSAGES_PER_S
            | metric::DELIVERED_PER_S
            | metric::CONNECTIONS_PER_S
            | metric::TRANSACTIONS_PER_S => Some(1e6 / value),
            _ => None,
        }
    };
    let both =
        |&(_, ours, theirs): &(u32, &Trial, &Trial)| Some((time_us(ours)?, time_us(theirs)?));
    let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().filter_map(both).unzip();
    (!ours.is_empty()).then(|| (median(&ours) - median(&theirs)).abs())
}

type Medians = BTreeMap<String, f64>;

/// Median evidence of both sides, limited to kinds that differ in the same direction in most pairs:
/// what changes from block to block explains nothing.
fn consistent(pairs: &[(u32, &Trial, &Trial)]) -> (Medians, Medians) {
    let mut medians = (Medians::new(), Medians::new());
    for evidence in EVIDENCE {
        let value = |trial: &Trial| trial.evidence.get(evidence.key).copied();
        let both =
            |&(_, ours, theirs): &(u32, &Trial, &Trial)| Some((value(ours)?, value(theirs)?));
        let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().filter_map(both).unzip();
        let (our_median, their_median) = (median(&ours), median(&theirs));
        let same_way = |pair: &(&f64, &f64)| (pair.0 < pair.1) == (our_median < their_median);
        let agreeing = ours.iter().zip(&theirs).filter(same_way).count();
        if !ours.is_empty() && agreeing as f64 >= AGREEING_MIN * ours.len() as f64 {
            medians.0.insert(evidence.key.to_owned(), our_median);
            medians.1.insert(evidence.key.to_owned(), their_median);
        }
    }
    medians
}

/// A value with two significant digits, without an exponent: 0.93, 2.1, 64, 14000, 0.
fn amount(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 0.001 {
        // What happened a few times is not nothing.
        return "under 0.001".to_owned();
    }
    let digits = 1 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if digits <= 0 {
        format!("{value:.0}")
    } else {
        let text = format!("{rounded:.*}", digits as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(items: &[(&str, f64)]) -> Medians {
        let own = |&(key, value): &(&str, f64)| (key.to_owned(), value);
        items.iter().map(own).collect()
    }

    #[test]
    fn explanation_names_strongest_consistent_evidence() {
        let ours = map(&[
            ("wakeups_per_message", 0.9),
            ("calls_per_message", 2.0),
            ("packets_per_message", 3.0),
        ]);
        let theirs = map(&[
            ("wakeups_per_message", 2.1),
            ("calls_per_message", 2.0),
            ("packets_per_message", 1.0),
        ]);
        assert_eq!(
            explain(true, None, &ours, &theirs),
            "0.9 wake-ups a message against 2.1"
        );
        assert_eq!(
            explain(false, None, &ours, &theirs),
            "3 packets a message against 1"
        );
    }

    #[test]
    fn no_explanation_without_evidence() {
        let ours = map(&[("wakeups_per_message", 1.0), ("cpu_user_fraction", 0.9)]);
        let theirs = map(&[("wakeups_per_message", 1.1), ("cpu_user_fraction", 0.1)]);
        assert_eq!(explain(true, None, &ours, &theirs), "");
        assert_eq!(explain(true, None, &ours, &Medians::new()), "");
    }

    #[test]
    fn negligible_evidence_is_ignored() {
        let ours = map(&[("wakeups_per_message", 0.000_1)]);
        let theirs = map(&[("wakeups_per_message", 0.01)]);
        assert_eq!(explain(true, None, &ours, &theirs), "");
    }

    #[test]
    fn causes_take_precedence_over_symptoms() {
        let ours = map(&[
            ("sender_cpu_ns_per_message", 100.0),
            ("mean_packet_bytes", 14_480.0),
        ]);
        let theirs = map(&[
            ("sender_cpu_ns_per_message", 2000.0),
            ("mean_packet_bytes", 1448.0),
        ]);
        assert_eq!(
            explain(true, None, &ours, &theirs),
            "packets of 14480 B against 1448"
        );
        let ours = map(&[("sender_cpu_ns_per_message", 100.0)]);
        assert_eq!(
            explain(true, None, &ours, &theirs),
            "100 ns of CPU a message at the sender against 2 us"
        );
    }

    #[test]
    fn what_is_too_cheap_for_the_difference_explains_nothing() {
        let ours = map(&[
            ("involuntary_switches_per_message", 0.02),
            ("sender_cpu_ns_per_message", 3000.0),
        ]);
        let theirs = map(&[
            ("involuntary_switches_per_message", 0.03),
            ("sender_cpu_ns_per_message", 6000.0),
        ]);
        let explained = |apart_us| explain(true, Some(apart_us), &ours, &theirs);
        assert_eq!(explained(1.0), "0.02 preemptions a message against 0.03");
        let cpu = "3 us of CPU a message at the sender against 6 us";
        assert_eq!(explained(15.0), cpu);
        assert_eq!(explained(40.0), "");
    }

    #[test]
    fn amounts_have_two_significant_digits() {
        for (value, text) in [
            (0.934, "0.93"),
            (2.1, "2.1"),
            (64.2, "64"),
            (0.0, "0"),
            (0.0004, "under 0.001"),
            (1.0, "1"),
            (0.098, "0.098"),
            (1448.3, "1448"),
            (9.96, "10"),
        ] {
            assert_eq!(amount(value), text);
        }
    }

    #[test]
    fn evidence_keys_are_unique_with_placeholder() {
        for (index, evidence) in EVIDENCE.iter().enumerate() {
            assert!(evidence.phrase.contains("{}"), "{}", evidence.key);
            assert!(
                EVIDENCE[..index]
                    .iter()
                    .all(|other| other.key != evidence.key)
            );
        }
    }
}
