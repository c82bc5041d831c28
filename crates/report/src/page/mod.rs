//! The HTML page: the text of every section, and the template that it fills.

pub(crate) mod charts;
pub(crate) mod comparison;
mod cpu_cost;
pub(crate) mod curves;
mod data;
pub(crate) mod history;
mod loads;
mod machine;
mod model;
mod reproduction;
pub(crate) mod runs;
pub(crate) mod study;
mod table;
mod timeline;
mod trials;
mod workload;

use crate::view::View;
use crate::{quantity, verdict_summary};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment};
use results::{RunData, RunStatus};
use serde::Serialize;

const STYLE: &str = include_str!("../../templates/style.css");
const SCRIPT: &str = include_str!("../../templates/script.js");
const CHART_SCRIPT: &str = include_str!("../../vendor/uPlot.iife.min.js");
const CHART_STYLE: &str = include_str!("../../vendor/uPlot.min.css");

#[derive(Serialize)]
struct Page {
    title: String,
    incomplete: Option<String>,
    verdict: verdict_summary::VerdictSummary,
    legend: Vec<LegendItem>,
    workloads: Vec<workload::Section>,
    /// What stands in no table.
    notes: Vec<String>,
    loads: Vec<loads::Matrix>,
    model: model::Section,
    timeline: Option<timeline::Section>,
    trials: trials::Section,
    machine: machine::Section,
    how: reproduction::Section,
    data: String,
    style: &'static str,
    chart_style: &'static str,
    script: &'static str,
    chart_script: &'static str,
}

/// Maximum sentences beside the tables; a sweep has one a contestant and size.
const NOTES_MAX: usize = 200;

/// The sentences of [`crate::notes()`], each once, cleaned.
fn notes(run: &RunData) -> Vec<String> {
    let mut lines = crate::notes::notes(run);
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines.truncate(NOTES_MAX);
    lines
        .iter()
        .map(|line| quantity::clean(line, 600))
        .collect()
}

/// A contestant in the legend.
#[derive(Serialize)]
struct LegendItem {
    index: usize,
    label: String,
    class: String,
    glyph: String,
    baseline: bool,
}

/// A report as a complete HTML document without external resources.
///
/// It works for incomplete results too; strings from the result are escaped.
pub fn html(run: &RunData) -> String {
    let view = View::new(run);
    let page = Page {
        title: title(&view),
        incomplete: incomplete(&view),
        verdict: verdict_summary::summarise(&view),
        legend: legend(&view),
        workloads: workload::sections(&view),
        notes: notes(run),
        loads: loads::matrices(&view),
        model: model::section(&view),
        timeline: timeline::section(&view),
        trials: trials::section(&view),
        machine: machine::section(run),
        how: reproduction::section(run),
        data: data::embedded(&view),
        style: STYLE,
        chart_style: CHART_STYLE,
        script: SCRIPT,
        chart_script: CHART_SCRIPT,
    };
    render("report.html", &page)
}

/// Every chart of the page as files, in the order of the page.
pub fn charts(run: &RunData) -> Vec<charts::ChartFile> {
    let view = View::new(run);
    let mut files = Vec::new();
    for matrix in loads::matrices(&view) {
        files.extend(
            matrix
                .figures
                .iter()
                .map(|figure| figure.file(&matrix.title)),
        );
    }
    let model = model::section(&view);
    files.extend(model.figures.iter().map(|figure| figure.file("cost model")));
    for section in workload::sections(&view) {
        files.extend(
            section
                .all_figures()
                .map(|figure| figure.file(&section.title)),
        );
    }
    let timeline = timeline::section(&view);
    let connections = timeline.iter().flat_map(|section| &section.connections);
    files.extend(connections.map(|figure| figure.file("connections over time")));
    let trials = trials::section(&view);
    files.extend(trials.order.iter().map(|figure| figure.file("trials")));
    files
}

/// Renders a template. Templates are compiled in, so an error is a bug; it is shown instead of the
/// page.
pub(crate) fn render(name: &str, page: &impl Serialize) -> String {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    let tidy = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    if let Ok(tidy) = tidy {
        templates.set_syntax(tidy);
    }
    let added = [
        ("report.html", include_str!("../../templates/report.html")),
        (
            "workload.html",
            include_str!("../../templates/workload.html"),
        ),
        ("loads.html", include_str!("../../templates/loads.html")),
        ("figure.html", include_str!("../../templates/figure.html")),
        ("legend.html", include_str!("../../templates/legend.html")),
        ("back.html", include_str!("../../templates/back.html")),
        ("compare.html", include_str!("../../templates/compare.html")),
        ("curves.html", include_str!("../../templates/curves.html")),
        ("history.html", include_str!("../../templates/history.html")),
        ("runs.html", include_str!("../../templates/runs.html")),
        ("study.html", include_str!("../../templates/study.html")),
        ("studies.html", include_str!("../../templates/studies.html")),
    ]
    .into_iter()
    .try_for_each(|(name, text)| templates.add_template(name, text));
    let text = added.and_then(|()| {
        templates
            .get_template(name)?
            .render(Value::from(Serde(page)))
    });
    text.unwrap_or_else(|error| {
        format!(
            "<!doctype html><p>{}",
            quantity::clean(&error.to_string(), 300)
        )
    })
}

fn title(view: &View) -> String {
    let names = view
        .contestants
        .iter()
        .map(|contestant| contestant.label.as_str());
    let names: Vec<&str> = names.take(8).collect();
    format!("Race of {}", names.join(", "))
}

/// The banner of an incomplete run.
fn incomplete(view: &View) -> Option<String> {
    let trials = view.counted_trials().count();
    let Some(summary) = &view.run.summary else {
        return Some(format!(
            "This run was cut off before its summary was written: it has {trials} trials and no \
             verdict. The sections below show those trials."
        ));
    };
    let reason = quantity::clean(&summary.reason, 300);
    let because = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    };
    let kept = format!("{} complete blocks and {trials} trials", summary.blocks);
    match summary.status {
        RunStatus::Complete => None,
        RunStatus::Interrupted => Some(format!(
            "This run was stopped before its end{because}. It has {kept}; its verdicts rest on less \
             data than planned."
        )),
        RunStatus::Failed => Some(format!(
            "This run failed{because}. It has {kept}; read its verdicts with care."
        )),
    }
}

fn legend(view: &View) -> Vec<LegendItem> {
    let items = view
        .contestants
        .iter()
        .enumerate()
        .map(|(index, contestant)| LegendItem {
            index,
            label: contestant.label.clone(),
            class: contestant.class.clone(),
            glyph: crate::chart::glyph(index),
            baseline: view.baseline == Some(index),
        });
    items.collect()
}
