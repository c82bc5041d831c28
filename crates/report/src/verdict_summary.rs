//! The leading contestants and the confidence of the verdicts as text: the first section of a page
//! and the last lines in a terminal.

use crate::view::View;
use crate::{phrasing, quantity, turns};
use results::{Cell, Status, Summary, Verdict, VerdictKind};
use serde::Serialize;

/// The transport that only measures the harness; it is never the leader.
const NULL_TRANSPORT: &str = "null";

/// The verdicts of a run as text.
#[derive(Serialize)]
pub(crate) struct VerdictSummary {
    /// One sentence per metric.
    pub headline: Vec<String>,
    /// What was raced, and the baseline.
    pub context: String,
    /// One entry per contest, in the order of the plan.
    pub contests: Vec<Contest>,
    /// Pooled over all cells, one line per contestant and metric.
    pub overall: Vec<VerdictLine>,
    /// Error probability, blocks, control and invalid trials.
    pub confidence: Vec<String>,
    /// Warnings of the summary.
    pub warnings: Vec<String>,
}

/// One contest: the line of its leader, and the others.
#[derive(Serialize)]
pub(crate) struct Contest {
    /// The workload.
    pub workload: String,
    /// Size and other varied factors.
    pub place: String,
    /// The leader's line; it says so if the leader is not faster than the baseline.
    pub leader: VerdictLine,
    /// The others, best first.
    pub others: Vec<VerdictLine>,
    /// Blocks that would decide all of its verdicts, as far as known.
    pub blocks_needed: Option<u32>,
}

/// One verdict.
#[derive(Serialize)]
pub(crate) struct VerdictLine {
    /// `faster`, `slower`, `equal` or `open`.
    pub kind: &'static str,
    /// A sign for `kind` that works without colour.
    pub sign: &'static str,
    /// The sentence.
    pub text: String,
}

/// Summarises the verdicts of a run.
pub(crate) fn summarise(view: &View) -> VerdictSummary {
    let summary = view.run.summary.as_ref();
    VerdictSummary {
        headline: summary.map_or_else(no_summary, |summary| headline(view, summary)),
        context: context(view),
        contests: summary
            .map(|summary| contests(view, summary))
            .unwrap_or_default(),
        overall: summary.map(overall).unwrap_or_default(),
        confidence: summary
            .map(|summary| confidence_lines(view, summary))
            .unwrap_or_default(),
        warnings: warnings(view),
    }
}

/// What is missing in the folder, who was to race and could not, and the warnings of the summary.
fn warnings(view: &View) -> Vec<String> {
    let mut warnings: Vec<String> = view.run.missing_trials().into_iter().collect();
    for (name, why) in &view.run.plan.options {
        if let Some(name) = name.strip_prefix("unavailable.") {
            warnings.push(format!("{name} did not race: {why}"));
        }
    }
    let summary = view.run.summary.iter();
    warnings.extend(summary.flat_map(|summary| summary.warnings.clone()));
    warnings
        .iter()
        .map(|text| quantity::clean(text, 500))
        .collect()
}

/// The pooled verdicts, where they cover several contests.
fn overall(summary: &Summary) -> Vec<VerdictLine> {
    match summary.verdicts.len() > summary.overall.len() {
        true => summary.overall.iter().map(line_without_place).collect(),
        false => Vec::new(),
    }
}

fn no_summary() -> Vec<String> {
    vec!["No verdict: the run did not reach its end.".into()]
}

/// A verdict with its sign.
pub(crate) fn verdict_line(verdict: &Verdict) -> VerdictLine {
    let (kind, sign) = kind(verdict.kind);
    VerdictLine {
        kind,
        sign,
        text: phrasing::sentence(verdict),
    }
}

/// A verdict without its contest, which is named beside it.
fn line_without_place(verdict: &Verdict) -> VerdictLine {
    VerdictLine {
        text: phrasing::sentence_without_place(verdict),
        ..verdict_line(verdict)
    }
}

/// Class and sign of a verdict; the sign works without colour.
pub(crate) fn kind(kind: VerdictKind) -> (&'static str, &'static str) {
    match kind {
        VerdictKind::Faster => ("faster", "\u{25b2}"),
        VerdictKind::Slower => ("slower", "\u{25bc}"),
        VerdictKind::Equal => ("equal", "="),
        VerdictKind::NotEnoughData => ("open", "?"),
    }
}

/// One sentence per metric: the contestant with the best pooled ratio to the baseline.
fn headline(view: &View, summary: &Summary) -> Vec<String> {
    let mut metrics: Vec<&str> = Vec::new();
    for verdict in &summary.overall {
        if !metrics.contains(&verdict.metric.as_str()) {
            metrics.push(&verdict.metric);
        }
    }
    if view.contestants.len() == 1 {
        let alone = view.label(0);
        return vec![format!(
            "{alone} raced alone: there is nothing to compare it with."
        )];
    }
    if metrics.is_empty() {
        return vec!["No pooled verdict; see the single contests.".into()];
    }
    let sentences = metrics.iter().map(|metric| {
        let about = summary.overall.iter().filter(|v| v.metric == *metric);
        best_of(view, &about.collect::<Vec<_>>(), metric)
    });
    sentences.collect()
}

fn best_of(view: &View, verdicts: &[&Verdict], name: &str) -> String {
    let Some(best) = winner(verdicts) else {
        let baseline = quantity::label(&verdicts[0].baseline);
        let open = verdicts
            .iter()
            .any(|v| v.kind == VerdictKind::NotEnoughData);
        return format!("{}: {}.", superlative(name), no_faster(&baseline, open));
    };
    let sentence = format!("{}: {}.", superlative(name), advantage(best));
    if view.may_lose(&best.contestant) != Some(true) {
        return sentence;
    }
    let reliable = verdicts.iter().copied();
    let reliable = reliable.filter(|verdict| view.may_lose(&verdict.contestant) == Some(false));
    match winner(&reliable.collect::<Vec<_>>()) {
        Some(other) => format!("{sentence} Best reliable transport: {}.", advantage(other)),
        None => format!("{sentence} It may lose messages."),
    }
}

fn superlative(metric: &str) -> String {
    match metric {
        name if phrasing::more_is_better(name) => {
            format!("Highest {}", phrasing::metric_noun(name))
        }
        name => format!("Lowest {}", phrasing::metric_noun(name)),
    }
}

/// `bare, 5.34 times that of tcp`.
fn advantage(verdict: &Verdict) -> String {
    let who = quantity::label(&verdict.contestant);
    let baseline = quantity::label(&verdict.baseline);
    match verdict.metric.as_str() {
        name if phrasing::more_is_better(name) => {
            let times = quantity::digits(verdict.ratio);
            format!("{who}, {times} times that of {baseline}")
        }
        _ => format!(
            "{who}, {} % of that of {baseline}",
            quantity::digits(verdict.ratio * 100.0)
        ),
    }
}

/// The best of those that are faster than the baseline.
fn winner<'v>(verdicts: &[&'v Verdict]) -> Option<&'v Verdict> {
    let racing = verdicts
        .iter()
        .filter(|verdict| verdict.contestant != NULL_TRANSPORT);
    let faster = racing.filter(|verdict| verdict.kind == VerdictKind::Faster);
    faster.max_by(|a, b| gain(a).total_cmp(&gain(b))).copied()
}

/// The verdict that leads: the winner's, else the best by ratio.
fn leader<'v>(verdicts: &[&'v Verdict]) -> Option<&'v Verdict> {
    let racing = verdicts
        .iter()
        .filter(|verdict| verdict.contestant != NULL_TRANSPORT);
    let best = || {
        racing
            .max_by(|a, b| gain(a).total_cmp(&gain(b)))
            .or(verdicts.first())
    };
    winner(verdicts).or_else(|| best().copied())
}

/// The improvement as a factor, whichever direction is better.
fn gain(verdict: &Verdict) -> f64 {
    match phrasing::more_is_better(&verdict.metric) {
        true => verdict.ratio,
        false => 1.0 / verdict.ratio,
    }
}

fn contests(view: &View, summary: &Summary) -> Vec<Contest> {
    let mut places: Vec<(&Cell, &str)> = Vec::new();
    for verdict in &summary.verdicts {
        if !places.contains(&(&verdict.contest, verdict.metric.as_str())) {
            places.push((&verdict.contest, &verdict.metric));
        }
    }
    let contests = places.into_iter().filter_map(|(cell, metric)| {
        let here = |verdict: &&Verdict| verdict.contest == *cell && verdict.metric == metric;
        let verdicts: Vec<&Verdict> = summary.verdicts.iter().filter(here).collect();
        let first = leader(&verdicts)?;
        let mut others: Vec<&Verdict> = verdicts
            .into_iter()
            .filter(|verdict| !std::ptr::eq(*verdict, first))
            .collect();
        others.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        Some(Contest {
            workload: quantity::spaced(&cell.workload()),
            place: phrasing::place(&view.varied(cell)),
            leader: leader_line(first),
            blocks_needed: all_needed(first, &others),
            others: others.into_iter().map(line_without_place).collect(),
        })
    });
    contests.collect()
}

/// The blocks that decide the leader's verdict and the others; None when one of the undecided is
/// out of reach.
fn all_needed(leader: &Verdict, others: &[&Verdict]) -> Option<u32> {
    let all = std::iter::once(leader).chain(others.iter().copied());
    let open = all.filter(|verdict| verdict.kind == VerdictKind::NotEnoughData);
    let needed: Option<Vec<u32>> = open.map(|verdict| verdict.blocks_needed).collect();
    needed?.into_iter().max()
}

/// `no contestant is faster than tcp`; with an undecided verdict only `with confidence`.
fn no_faster(baseline: &str, undecided: bool) -> String {
    let confidence = if undecided { " with confidence" } else { "" };
    format!("no contestant is faster than {baseline}{confidence}")
}

/// The line of a contest's leader; it says so if the leader is not faster than the baseline.
fn leader_line(verdict: &Verdict) -> VerdictLine {
    let mut line = line_without_place(verdict);
    let baseline = quantity::label(&verdict.baseline);
    line.text = match verdict.kind {
        VerdictKind::Faster => line.text,
        VerdictKind::Slower | VerdictKind::Equal => {
            format!("{}. {}", no_faster(&baseline, false), line.text)
        }
        VerdictKind::NotEnoughData => {
            format!("{}. {}", no_faster(&baseline, true), line.text)
        }
    };
    line
}

fn context(view: &View) -> String {
    let plan = &view.run.plan;
    let started = view.run.trials.first().map(|trial| trial.started_s);
    let mut parts = vec![plural(view.contestants.len(), "transport")];
    if !plan.sizes.is_empty() {
        parts.push(plural(plan.sizes.len(), "message size"));
    }
    parts.push(plural(view.counted_trials().count(), "trial"));
    if let Some(summary) = &view.run.summary {
        parts.push(quantity::span_s(summary.elapsed_s));
    }
    if let Some(date) = started.and_then(quantity::date) {
        parts.push(date);
    }
    if let Some(path) = plan.options.get("path") {
        parts.push(quantity::clean(path, 120));
    }
    let baseline = quantity::label(&plan.baseline);
    let shared = view.shared_factors();
    let shared = shared.map_or(String::new(), |shared| format!(" All with {shared}."));
    format!("{}.{shared} The baseline is {baseline}.", parts.join(", "))
}

fn confidence_lines(view: &View, summary: &Summary) -> Vec<String> {
    let plan = &view.run.plan;
    let blocks = plural(summary.blocks as usize, "block");
    if view.contestants.len() == 1 && summary.control.is_empty() {
        // Nothing was judged, so there is no level and no ratio.
        let mut lines = vec![format!(
            "{blocks}: each runs in new processes (seed {}).",
            plan.seed
        )];
        lines.extend(marked_line(view));
        return lines;
    }
    let mut lines = vec![format!(
        "The probability of any false \u{201c}faster\u{201d}, \u{201c}slower\u{201d} or \
         \u{201c}equal\u{201d} in this whole race is at most {} %. \u{201c}Equal\u{201d} means \
         within {} %.",
        quantity::short(plan.alpha * 100.0),
        quantity::short(plan.equal_within * 100.0),
    )];
    lines.push(format!(
        "{blocks}: each runs every transport once, in new processes, in random order (seed {}). \
         Ratios compare trials of the same block{}.",
        plan.seed,
        if summary.control.is_empty() {
            ""
        } else {
            ", with the mean of both trials of the baseline"
        }
    ));
    lines.extend(settled_line(view, summary));
    lines.extend(turns::lines(view.run));
    lines.push(control_line(plan.control, &plan.baseline, &summary.control));
    lines.extend(marked_line(view));
    lines
}

/// That some contests ended before the race did; None where all ran in every block.
fn settled_line(view: &View, summary: &Summary) -> Option<String> {
    let ran = |cell: &results::CellSummary| cell.trials_ok + cell.trials_bad;
    let fewest = summary.cells.iter().map(ran).filter(|&ran| ran > 0).min()?;
    let looks = &view.run.plan.blocks.looks;
    let ended = fewest < summary.blocks && looks.iter().any(|&look| look < summary.blocks);
    ended.then(|| {
        "Contests whose verdicts stood at a look ran no more, and the others had their time."
            .to_owned()
    })
}

/// How many trials were left out or disturbed; None for none.
fn marked_line(view: &View) -> Option<String> {
    let marked = view.marked_trials();
    let marked = marked.filter(|trial| trial.status != Status::Interrupted);
    let (disturbed, bad): (Vec<_>, Vec<_>) = marked.partition(|t| t.status == Status::Ok);
    let parts = [(bad.len(), "excluded"), (disturbed.len(), "disturbed")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let all = plural(view.counted_trials().count(), "trial");
    let line = format!(
        "{all}, of which {}; the report's table of trials lists them.",
        parts.join(", ")
    );
    (!parts.is_empty()).then_some(line)
}

fn control_line(asked: bool, baseline: &str, control: &[Verdict]) -> String {
    let baseline = quantity::clean(baseline, 40);
    if !asked || control.is_empty() {
        return "No control ran, so this race does not show that identical contestants come out \
                equal."
            .into();
    }
    let count = |kinds: &[VerdictKind]| control.iter().filter(|v| kinds.contains(&v.kind)).count();
    let wrong = count(&[VerdictKind::Faster, VerdictKind::Slower]);
    let open = count(&[VerdictKind::NotEnoughData]);
    let worst = control
        .iter()
        .map(|v| (v.ratio - 1.0).abs())
        .fold(0.0, f64::max);
    let worst = quantity::short(worst * 100.0);
    let contests = plural(control.len(), "contest");
    match (wrong, open) {
        (0, 0) => format!(
            "The control, {baseline} against itself, was equal in {} of {contests} (at most \
             {worst} % apart), as expected.",
            control.len()
        ),
        (0, _) => format!(
            "The control, {baseline} against itself, showed no significant difference, but is not \
             confirmed equal in {open} of {contests} (up to {worst} % apart). Do not trust smaller \
             differences."
        ),
        _ => format!(
            "Warning: the control, {baseline} against itself, differed in {wrong} of {contests} \
             (by up to {worst} %). Differences of that size are not meaningful here."
        ),
    }
}

/// `1 block`, `5 blocks`.
fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
