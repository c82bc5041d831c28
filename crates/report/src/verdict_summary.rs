//! Who wins, in words, and how sure that is: the first section of a page and the last lines in a
//! terminal.

use crate::view::View;
use crate::{phrasing, quantity};
use results::{Cell, Status, Summary, Verdict, VerdictKind, metric};
use serde::Serialize;

/// The transport that only measures the harness: it takes part, but it cannot win.
const NULL_TRANSPORT: &str = "null";

/// What a run says in words.
#[derive(Serialize)]
pub(crate) struct VerdictSummary {
    /// One sentence a workload.
    pub headline: Vec<String>,
    /// What was raced, and against whom.
    pub context: String,
    /// One entry a contest, in the order of the plan.
    pub contests: Vec<Contest>,
    /// Over all cells, one line a contestant and measure.
    pub overall: Vec<VerdictLine>,
    /// How sure all this is.
    pub confidence: Vec<String>,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

/// One contest: the line that matters most, and the others.
#[derive(Serialize)]
pub(crate) struct Contest {
    /// The workload.
    pub workload: String,
    /// Size and what else was varied.
    pub place: String,
    /// The winner's line, or that there is none.
    pub leader: VerdictLine,
    /// The others, best first.
    pub others: Vec<VerdictLine>,
}

/// One verdict.
#[derive(Serialize)]
pub(crate) struct VerdictLine {
    /// `faster`, `slower`, `equal` or `open`.
    pub kind: &'static str,
    /// A sign that says the same without colour.
    pub sign: &'static str,
    /// The sentence.
    pub text: String,
}

/// Puts a run in words.
pub(crate) fn summarise(view: &View) -> VerdictSummary {
    let summary = view.run.summary.as_ref();
    VerdictSummary {
        headline: summary.map_or_else(no_summary, |summary| headline(view, summary)),
        context: context(view),
        contests: summary.map(contests).unwrap_or_default(),
        overall: summary.map(overall).unwrap_or_default(),
        confidence: summary
            .map(|summary| confidence_lines(view, summary))
            .unwrap_or_default(),
        warnings: summary
            .map(|s| {
                s.warnings
                    .iter()
                    .map(|text| quantity::clean(text, 500))
                    .collect()
            })
            .unwrap_or_default(),
    }
}

/// What holds over all contests of a kind, where there are several.
fn overall(summary: &Summary) -> Vec<VerdictLine> {
    match summary.verdicts.len() > summary.overall.len() {
        true => summary.overall.iter().map(line_without_place).collect(),
        false => Vec::new(),
    }
}

fn no_summary() -> Vec<String> {
    vec!["No verdict: the run did not reach its end.".into()]
}

/// A verdict with its sign, for lists.
pub(crate) fn verdict_line(verdict: &Verdict) -> VerdictLine {
    let (kind, sign) = kind(verdict.kind);
    VerdictLine {
        kind,
        sign,
        text: phrasing::sentence(verdict),
    }
}

/// The same for where the contest is named beside it.
fn line_without_place(verdict: &Verdict) -> VerdictLine {
    VerdictLine {
        text: phrasing::sentence_without_place(verdict),
        ..verdict_line(verdict)
    }
}

/// Class and sign of a verdict; the sign says the same without colour.
pub(crate) fn kind(kind: VerdictKind) -> (&'static str, &'static str) {
    match kind {
        VerdictKind::Faster => ("faster", "\u{25b2}"),
        VerdictKind::Slower => ("slower", "\u{25bc}"),
        VerdictKind::Equal => ("equal", "="),
        VerdictKind::NotEnoughData => ("open", "?"),
    }
}

/// One sentence a measure: who beats the baseline by most over all cells.
fn headline(view: &View, summary: &Summary) -> Vec<String> {
    let mut metrics: Vec<&str> = Vec::new();
    for verdict in &summary.overall {
        if !metrics.contains(&verdict.metric.as_str()) {
            metrics.push(&verdict.metric);
        }
    }
    if metrics.is_empty() {
        return vec!["No verdict over all: see the contests one by one.".into()];
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
        let sure = if open { " for certain" } else { "" };
        return format!("{}: nothing beats {baseline}{sure}.", superlative(name));
    };
    let sentence = format!("{}: {}.", superlative(name), advantage(best));
    if view.may_lose(&best.contestant) != Some(true) {
        return sentence;
    }
    let reliable = verdicts.iter().copied();
    let reliable = reliable.filter(|verdict| view.may_lose(&verdict.contestant) == Some(false));
    match winner(&reliable.collect::<Vec<_>>()) {
        Some(other) => format!(
            "{sentence} Of those that lose nothing: {}.",
            advantage(other)
        ),
        None => format!("{sentence} It may lose some."),
    }
}

fn superlative(metric: &str) -> String {
    match metric {
        metric::DELAY_P50_US => "Soonest answer".into(),
        name if phrasing::more_is_better(name) => format!("Most {}", phrasing::metric_noun(name)),
        name => format!("Least {}", phrasing::metric_noun(name)),
    }
}

/// `bare, 5.34 times as many as tcp`.
fn advantage(verdict: &Verdict) -> String {
    let who = quantity::label(&verdict.contestant);
    let baseline = quantity::label(&verdict.baseline);
    match verdict.metric.as_str() {
        name if phrasing::more_is_better(name) => {
            let times = quantity::digits(verdict.ratio);
            format!("{who}, {times} times as many as {baseline}")
        }
        metric::DELAY_P50_US => {
            let share = quantity::digits(verdict.ratio * 100.0);
            format!("{who}, in {share} % of the time of {baseline}")
        }
        _ => format!(
            "{who}, {} % of {baseline}",
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

/// How much better, whichever direction is better.
fn gain(verdict: &Verdict) -> f64 {
    match phrasing::more_is_better(&verdict.metric) {
        true => verdict.ratio,
        false => 1.0 / verdict.ratio,
    }
}

fn contests(summary: &Summary) -> Vec<Contest> {
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
            place: phrasing::place(cell),
            leader: leader_line(first),
            others: others.into_iter().map(line_without_place).collect(),
        })
    });
    contests.collect()
}

/// The line of a contest's leader; when even it is not faster, that is the news.
fn leader_line(verdict: &Verdict) -> VerdictLine {
    let mut line = line_without_place(verdict);
    let baseline = quantity::label(&verdict.baseline);
    line.text = match verdict.kind {
        VerdictKind::Faster => line.text,
        VerdictKind::Slower | VerdictKind::Equal => {
            format!("nothing beats {baseline}. {}", line.text)
        }
        VerdictKind::NotEnoughData => {
            format!("nothing beats {baseline} for certain. {}", line.text)
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
    parts.push(plural(view.run.trials.len(), "trial"));
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
    format!(
        "{}. Everything is compared with {baseline}.",
        parts.join(", ")
    )
}

fn confidence_lines(view: &View, summary: &Summary) -> Vec<String> {
    let plan = &view.run.plan;
    let mut lines = vec![format!(
        "The chance of even one false \u{201c}faster\u{201d}, \u{201c}slower\u{201d} or \
         \u{201c}equal\u{201d} in this whole race is at most {} %. \u{201c}Equal\u{201d} means \
         within {} %.",
        quantity::short(plan.alpha * 100.0),
        quantity::short(plan.equal_within * 100.0),
    )];
    lines.push(format!(
        "{}: in each, every transport ran once, in fresh processes, in an order drawn from \
         seed {}. Ratios compare trials of the same block.",
        plural(summary.blocks as usize, "block"),
        plan.seed
    ));
    lines.push(control_line(plan.control, &plan.baseline, &summary.control));
    let marked = view.marked_trials();
    let (disturbed, bad): (Vec<_>, Vec<_>) = marked.partition(|t| t.status == Status::Ok);
    if disturbed.len() + bad.len() > 0 {
        lines.push(format!(
            "{} without a result that counts, {} disturbed; the report lists them.",
            plural(bad.len(), "trial"),
            disturbed.len()
        ));
    }
    lines
}

fn control_line(asked: bool, baseline: &str, control: &[Verdict]) -> String {
    let baseline = quantity::clean(baseline, 40);
    if !asked || control.is_empty() {
        return "No control ran: nothing here shows that the method finds no difference where \
                there is none."
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
            "The control, {baseline} against itself, came out equal in {contests} of {} (at most \
             {worst} % apart), as it should.",
            control.len()
        ),
        (0, _) => format!(
            "The control, {baseline} against itself, showed no sure difference, but in {open} of \
             {contests} it is not shown to be equal either (up to {worst} % apart). Trust no \
             difference smaller than that."
        ),
        _ => format!(
            "Careful: the control, {baseline} against itself, differed in {wrong} of {contests} \
             (by up to {worst} %). Differences of that size mean little here."
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
