//! Warnings of a summary, one sentence each.

use crate::contests::{self, Contest};
use crate::race::Judgement;
use results::phrasing;
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
    let causes: Vec<&String> = ok.iter().flat_map(|trial| &trial.disturbed).collect();
    let kinds: Vec<String> = causes.iter().map(|text| without_figures(text)).collect();
    let kind = most_common(kinds.iter().map(String::as_str).collect());
    let same = causes
        .into_iter()
        .filter(|text| without_figures(text) == kind);
    let cause = with_ranges(&same.map(String::as_str).collect::<Vec<_>>());
    let all = ok.len();
    Some(format!(
        "{touched} of {all} trials were disturbed, most often: {cause}"
    ))
}

/// The A/A control: the baseline against itself must not differ. That it is not shown to be equal
/// either, as is usual after a few blocks, is one of the lines on confidence.
fn control_warnings(judgement: &Judgement) -> Vec<String> {
    let differing = judgement
        .control
        .iter()
        .filter(|verdict| matches!(verdict.kind, VerdictKind::Faster | VerdictKind::Slower));
    let differs = |verdict| {
        let sentence = phrasing::sentence(verdict);
        format!("the control differs: {sentence}; distrust differences of that size")
    };
    differing.map(differs).collect()
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
pub fn without_figures(text: &str) -> String {
    let open = |word: &str| if is_figure(word) { "..." } else { word }.to_owned();
    text.split(' ').map(open).collect::<Vec<_>>().join(" ")
}

fn is_figure(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}

/// Texts that differ in their figures alone, as one with the range of each: `0.2 to 1.1`.
fn with_ranges(texts: &[&str]) -> String {
    let rows: Vec<Vec<&str>> = texts.iter().map(|text| text.split(' ').collect()).collect();
    let value = |word: &str| -> f64 {
        let number = word.trim_end_matches(|last: char| !last.is_ascii_digit());
        number.replace(',', "").parse().unwrap_or(0.0)
    };
    let ranged = |place: usize| {
        let words = || rows.iter().filter_map(move |row| row.get(place).copied());
        let least = words().min_by(|a, b| value(a).total_cmp(&value(b)))?;
        let most = words().max_by(|a, b| value(a).total_cmp(&value(b)))?;
        Some(match is_figure(least) && value(least) < value(most) {
            true => format!("{least} to {most}"),
            false => least.to_owned(),
        })
    };
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .filter_map(ranged)
        .collect::<Vec<_>>()
        .join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_equal_sentences_become_ranges() {
        let busy = |processors: &str| format!("other work kept {processors} of 2 processors busy");
        let texts = [busy("0.9"), busy("0.25"), busy("1.1")];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(
            with_ranges(&texts),
            "other work kept 0.25 to 1.1 of 2 processors busy"
        );
        assert_eq!(with_ranges(&["steal 4 %"]), "steal 4 %");
        assert_eq!(with_ranges(&[]), "");
    }
}
