//! Explanations of verdicts: the evidence that agrees with a verdict.
//!
//! Evidence is what was counted during the trials: calls, wake-ups, packets, drops, CPU time. A
//! verdict names the evidence that differs most among that which points the same way. This is a
//! correlation; whether it is the whole cause is for the reader to judge.

use crate::contests::Contest;
use crate::estimate::median;
use results::evidence::{EVIDENCE, Evidence, EvidenceRole};
use results::{Trial, Verdict, VerdictKind, metric};
use std::collections::BTreeMap;

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
            let strength = strength(evidence, faster, pair.0, pair.1)?;
            let may_be = accounts_for(evidence, pair.0 - pair.1, apart_us.unwrap_or(0.0));
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
        evidence.contrast(ours, theirs)
    })
}

/// Whether so much more or less of it may be a good part of a difference in a message's time.
fn accounts_for(evidence: &Evidence, difference: f64, apart_us: f64) -> bool {
    difference.abs() * evidence.cost_max_us >= SHARE_MIN * apart_us
}

/// |ln| of the ratio of two values, when it is large enough and agrees with the verdict.
fn strength(evidence: &Evidence, faster: bool, ours: f64, theirs: f64) -> Option<f64> {
    let log = (ours.max(evidence.negligible) / theirs.max(evidence.negligible)).ln();
    let towards_faster = match evidence.role {
        EvidenceRole::LessIsFaster | EvidenceRole::Symptom => log < 0.0,
        EvidenceRole::MoreIsFaster => log > 0.0,
        EvidenceRole::Shown => return None,
    };
    let strong = log.is_finite() && log.abs() >= RATIO_MIN.ln();
    (strong && towards_faster == faster).then_some(log.abs())
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
}
