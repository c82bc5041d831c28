//! Warnings of a summary, one sentence each.

use crate::contests::{self, Contest};
use crate::phrasing;
use crate::race::Judgement;
use results::{Ledger, Status, Trial, VerdictKind};
use std::collections::BTreeMap;

/// Share of disturbed trials from which a warning is given.
const DISTURBED_MIN: f64 = 0.1;

/// All warnings of a run.
pub fn warnings(contests: &[Contest], judgement: &Judgement) -> Vec<String> {
    let trials: Vec<&Trial> = contests
        .iter()
        .flat_map(|contest| contest.trials.iter().copied())
        .collect();
    let mut warnings = excluded_trials(&trials);
    warnings.extend(disturbed_trials(&trials));
    warnings.extend(control_warnings(judgement));
    warnings.extend(open_ledgers(&trials));
    warnings.extend(trials_without_ratio(contests));
    warnings.extend(contests::unsaturated(contests));
    warnings.extend(broken_histograms(&trials));
    warnings
}

/// Invalid and failed trials, one warning a transport.
fn excluded_trials(trials: &[&Trial]) -> Vec<String> {
    let mut by_transport: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
    for trial in trials
        .iter()
        .filter(|trial| trial.status != Status::Interrupted)
    {
        let (all, reasons) = by_transport.entry(trial.cell.transport()).or_default();
        *all += 1;
        if trial.status != Status::Ok {
            reasons.push(trial.reason.as_str());
        }
    }
    let some = by_transport
        .into_iter()
        .filter(|(_, (_, reasons))| !reasons.is_empty());
    let warning = |(transport, (all, reasons)): (String, (usize, Vec<&str>))| {
        let bad = reasons.len();
        let reason = most_common(reasons);
        let often = if bad > 1 { ", most often" } else { "" };
        format!("{bad} of {all} trials of {transport} do not count{often}: {reason}")
    };
    some.map(warning).collect()
}

/// Valid trials that were disturbed.
fn disturbed_trials(trials: &[&Trial]) -> Option<String> {
    let ok: Vec<&&Trial> = trials
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .collect();
    let touched = ok
        .iter()
        .filter(|trial| !trial.disturbed.is_empty())
        .count();
    if touched == 0 || (touched as f64) < DISTURBED_MIN * ok.len() as f64 {
        return None;
    }
    // Figures differ from trial to trial; the other words name the disturbance.
    let causes = ok.iter().flat_map(|trial| &trial.disturbed);
    let causes: Vec<String> = causes.map(|text| without_figures(text)).collect();
    let cause = most_common(causes.iter().map(String::as_str).collect());
    let all = ok.len();
    Some(format!(
        "{touched} of {all} trials were disturbed, most often: {cause}"
    ))
}

/// The A/A control: the baseline against itself must be equal.
fn control_warnings(judgement: &Judgement) -> Vec<String> {
    let differing = judgement
        .control
        .iter()
        .filter(|verdict| matches!(verdict.kind, VerdictKind::Faster | VerdictKind::Slower));
    let differs = |verdict| {
        let sentence = phrasing::sentence(verdict);
        format!("the control differs: {sentence}; distrust differences of that size")
    };
    let mut warnings: Vec<String> = differing.map(differs).collect();
    let open = judgement
        .control
        .iter()
        .filter(|verdict| verdict.kind == VerdictKind::NotEnoughData);
    let width = |verdict: &&results::Verdict| verdict.high / verdict.low;
    if let Some(widest) = open.max_by(|a, b| width(a).total_cmp(&width(b))) {
        let sentence = phrasing::sentence(widest);
        warnings.push(format!(
            "the control is not yet equal to the baseline: {sentence}"
        ));
    }
    warnings
}

/// Ledgers that do not close.
fn open_ledgers(trials: &[&Trial]) -> Option<String> {
    let open = |trial: &&&Trial| trial.ledger.as_ref().is_some_and(|ledger| !closes(ledger));
    let open: Vec<&&Trial> = trials.iter().filter(open).collect();
    let names: Vec<String> = open.iter().map(|trial| trial.cell.transport()).collect();
    let worst = most_common(names.iter().map(String::as_str).collect());
    let count = open.len();
    (count > 0).then(|| {
        format!("the ledger of {count} trials does not close, most often of {worst}: messages are unaccounted for")
    })
}

/// sent = delivered + lost (host) + lost (link) + corrupt + in flight, to the last message.
fn closes(ledger: &Ledger) -> bool {
    let Ledger {
        delivered,
        lost_host,
        lost_link,
        corrupt,
        in_flight,
        ..
    } = *ledger;
    let found = [delivered, lost_host, lost_link, corrupt, in_flight];
    let found: u128 = found.into_iter().map(u128::from).sum();
    ledger.unaccounted == 0 && found == u128::from(ledger.sent)
}

/// Valid trials without a positive value for a ratio.
fn trials_without_ratio(contests: &[Contest]) -> Vec<String> {
    let mut warnings = Vec::new();
    for contest in contests {
        for transport in &contest.transports {
            let counted = contest.valid_trials(transport, false);
            let value = |trial: &&Trial| trial.metrics.get(contest.metric).copied();
            let none = counted
                .values()
                .filter(|trial| !value(trial).is_some_and(|v| v > 0.0))
                .count();
            if none > 0 {
                let cell = phrasing::contest_text(&contest.cell);
                let metric = contest.metric;
                warnings.push(format!("{cell} {transport} has no {metric} above 0 in {none} trials; they are in no ratio"));
            }
        }
    }
    warnings
}

/// Histograms that cannot be merged.
fn broken_histograms(trials: &[&Trial]) -> Option<String> {
    let broken = |histogram: &results::Histogram| {
        let part = histogram.decode().ok();
        part.is_none_or(|part| results::new_histogram().add(&part).is_err())
    };
    let counted = trials.iter().filter(|trial| trial.status == Status::Ok);
    let broken = counted
        .flat_map(|trial| trial.histograms.values())
        .filter(|h| broken(h))
        .count();
    (broken > 0).then(|| format!("{broken} histograms cannot be read or merged and are left out"))
}

/// The text with every figure replaced by `...`.
fn without_figures(text: &str) -> String {
    let open = |word: &str| {
        let figure = word.starts_with(|first: char| first.is_ascii_digit());
        if figure { "..." } else { word }.to_owned()
    };
    text.split(' ').map(open).collect::<Vec<_>>().join(" ")
}

/// The most frequent text; the first in order of equal ones.
fn most_common(texts: Vec<&str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let most = counts.iter().rev().max_by_key(|(_, count)| **count);
    most.map_or_else(String::new, |(text, _)| (*text).to_owned())
}
