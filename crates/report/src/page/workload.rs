//! One section per setting: description, table and charts.

use super::charts::Figure;
use super::table::{Table, table};
use crate::chart::sizes::{self, Shape};
use crate::chart::{Plot, cpu_time, distribution, draw, improvement, offered, percentiles};
use crate::phrasing;
use crate::quantity;
use crate::view::{Setting, View};
use results::metric;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
pub(super) struct Section {
    id: String,
    pub(super) title: String,
    explained: &'static str,
    measure: String,
    table: Table,
    /// Contestants without any result here.
    without: Vec<usize>,
    figures: Vec<Figure>,
    improvements: Vec<Improvement>,
    percentiles: Vec<Figure>,
    cpu: Vec<Figure>,
    costs: Vec<super::cpu_cost::CostTable>,
    packets: Vec<Figure>,
    evidence: Vec<EvidenceTable>,
}

/// The ratios to one baseline; the reader selects one.
#[derive(Serialize)]
struct Improvement {
    label: String,
    chosen: bool,
    svg: String,
}

/// Median evidence at one size.
#[derive(Serialize)]
struct EvidenceTable {
    place: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Section {
    /// Its figures but for ratios, of which there is one a baseline.
    pub(super) fn all_figures(&self) -> impl Iterator<Item = &Figure> {
        let groups = [&self.figures, &self.percentiles, &self.cpu, &self.packets];
        groups.into_iter().flatten()
    }
}

pub(super) fn sections(view: &View) -> Vec<Section> {
    let settings = view.settings.iter().enumerate();
    settings
        .map(|(place, setting)| section(view, setting, place))
        .collect()
}

fn section(view: &View, setting: &Setting, place: usize) -> Section {
    Section {
        id: format!("w{place}"),
        title: capital(&view.title(setting)),
        explained: workload_description(&setting.workload),
        measure: phrasing::metric_noun(metric::primary(&setting.workload)),
        table: table(view, setting),
        without: without(view, setting),
        figures: figures(view, setting),
        improvements: improvements(view, setting),
        percentiles: distributions(view, setting, "ns"),
        cpu: cpu(view, setting),
        costs: super::cpu_cost::tables(view, setting),
        packets: distributions(view, setting, "B"),
        evidence: evidence(view, setting),
    }
}

fn without(view: &View, setting: &Setting) -> Vec<usize> {
    let metric = metric::primary(&setting.workload);
    let has_none = |contestant: &usize| {
        let mut entries = setting.entries_of(*contestant);
        entries.all(|entry| entry.estimate(metric).is_none())
    };
    (0..view.contestants.len()).filter(has_none).collect()
}

fn workload_description(workload: &str) -> &'static str {
    match workload {
        "throughput" => {
            "The sender sends messages of one size as fast as it can. The rate counts received messages. Higher is better."
        }
        "delay" => {
            "One side sends a request, the other replies, one request at a time. The round-trip time is measured. Lower is better."
        }
        "offered" => {
            "Messages are offered at a scheduled rate, whether or not the transport keeps up (open loop). Delay is measured from the scheduled send time. The table shows the highest delivered rate."
        }
        "connect" => {
            "Connect, one request and reply, close, repeatedly. The rate counts connections. Higher is better."
        }
        "transactions" => {
            "Each client sends a request, waits for the reply and calls again; all clients run at once (closed loop). The rate counts replies. Higher is better."
        }
        "responsive" => {
            "One circuit sends short requests and waits for each reply, first alone, then beside bulk on other circuits of the same path. The rate counts round trips a minute beside bulk. Higher is better."
        }
        "send" => {
            "An engine in the process sends into a wire that copies its packets, as an adapter would, and forgets them. The rate counts messages sent; the time of one is split into copies of packets and the rest. Higher is better."
        }
        _ => "Medians over trials.",
    }
}

fn figures(view: &View, setting: &Setting) -> Vec<Figure> {
    if setting.workload == "offered" {
        let columns = setting.columns();
        let plots = columns
            .iter()
            .flat_map(|column| offered::charts(view, setting, column));
        return plots
            .map(|plot| figure(view, &capital(&plot.description), &plot))
            .collect();
    }
    let shapes = [
        (
            metric::MESSAGES_PER_S,
            "messages received per second",
            false,
            false,
            "Messages per second",
        ),
        (
            metric::MBIT_PER_S,
            "bit/s received",
            true,
            false,
            "Throughput, both axes logarithmic",
        ),
        (
            metric::DELAY_P50_US,
            "round trip, median",
            false,
            true,
            "Delay; dotted lines are the cost model's fit",
        ),
        (
            metric::CONNECTIONS_PER_S,
            "connections per second",
            false,
            false,
            "Connections per second",
        ),
        (
            metric::TRANSACTIONS_PER_S,
            "transactions per second",
            false,
            false,
            "Transactions per second",
        ),
        (
            metric::ROUND_TRIPS_PER_MIN,
            "round trips per minute",
            false,
            false,
            "Round trips of short messages per minute, beside bulk",
        ),
    ];
    // The message rate of a delay trial is the inverse of its delay, and not shown.
    let only = (setting.workload == "delay").then_some(metric::DELAY_P50_US);
    let shapes = shapes.into_iter();
    let shapes = shapes.filter(|shape| only.is_none_or(|only| shape.0 == only));
    let figures = shapes.filter_map(|(metric, title, log, fits, caption)| {
        let shape = Shape {
            metric,
            title,
            log,
            fits,
        };
        Some(figure(view, caption, &sizes::chart(view, setting, &shape)?))
    });
    figures.collect()
}

/// A figure with its numbers by contestant.
pub(super) fn figure(view: &View, caption: &str, plot: &Plot) -> Figure {
    Figure::with_numbers(caption, plot, |contestant| {
        view.label(contestant).to_owned()
    })
}

/// One chart per possible baseline; the plan's is shown first.
fn improvements(view: &View, setting: &Setting) -> Vec<Improvement> {
    let chosen = view.baseline.unwrap_or(0);
    if setting.workload == "offered" {
        return Vec::new();
    }
    let every = (0..view.contestants.len()).filter_map(|baseline| {
        let plot = improvement::chart(view, setting, baseline)?;
        Some(Improvement {
            label: view.label(baseline).to_owned(),
            chosen: baseline == chosen,
            svg: draw(&plot),
        })
    });
    every.collect()
}

/// Distributions of every histogram with the unit, one figure per name and size.
fn distributions(view: &View, setting: &Setting, unit: &str) -> Vec<Figure> {
    if setting.is_swept() {
        return Vec::new();
    }
    let trials = setting
        .entries
        .iter()
        .flat_map(|entry| entry.valid_trials());
    let named = trials.flat_map(|trial| &trial.histograms);
    let names: BTreeSet<&String> = named
        .filter(|(_, h)| h.unit == unit)
        .map(|(n, _)| n)
        .collect();
    let mut figures = Vec::new();
    for name in names {
        for column in setting.columns() {
            let plot = match unit {
                "ns" => percentiles::chart(view, setting, &column, name),
                _ => distribution::chart(view, setting, &column, name),
            };
            let caption = format!("{} at {}", capital(&quantity::spaced(name)), column.label);
            figures.extend(plot.map(|plot| figure(view, &caption, &plot)));
        }
    }
    figures
}

fn cpu(view: &View, setting: &Setting) -> Vec<Figure> {
    if setting.is_swept() {
        return Vec::new();
    }
    let columns = setting.columns();
    let drawn = columns.iter().filter_map(|column| {
        let caption = format!("At {}", column.label);
        Some(figure(
            view,
            &caption,
            &cpu_time::chart(view, setting, column)?,
        ))
    });
    drawn.collect()
}

/// The most explanatory evidence, in this order; the rest follows by name.
const LEADING_EVIDENCE: [&str; 6] = [
    "calls_per_message",
    "wakeups_per_message",
    "packets_per_message",
    "mean_packet_bytes",
    "retransmissions_per_1000",
    "receive_drops_per_1000",
];

fn evidence(view: &View, setting: &Setting) -> Vec<EvidenceTable> {
    if setting.is_swept() {
        return Vec::new();
    }
    let columns = setting.columns();
    let tables = columns.iter().map(|column| {
        let entries: Vec<_> = (0..view.contestants.len())
            .filter_map(|contestant| setting.entry(contestant, column))
            .collect();
        let keys = entries
            .iter()
            .flat_map(|entry| entry.summary.evidence.keys());
        let keys = keys.filter(|key| metric::find(key).is_none());
        let mut keys: Vec<&String> = keys.collect::<BTreeSet<_>>().into_iter().collect();
        keys.sort_by_key(|key| {
            LEADING_EVIDENCE
                .iter()
                .position(|first| first == key)
                .unwrap_or(LEADING_EVIDENCE.len())
        });
        let rows = entries.iter().map(|entry| {
            let texts = keys
                .iter()
                .map(|key| match entry.summary.evidence.get(*key) {
                    Some(value) => quantity::digits(*value),
                    None => quantity::MISSING.to_owned(),
                });
            (view.label(entry.contestant).to_owned(), texts.collect())
        });
        EvidenceTable {
            place: column.label.clone(),
            rows: rows.collect(),
            columns: keys.iter().map(|key| quantity::spaced(key)).collect(),
        }
    });
    tables.filter(|table| !table.columns.is_empty()).collect()
}

/// The text with its first letter in upper case.
pub(super) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}
