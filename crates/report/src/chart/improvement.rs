//! Ratio to a baseline, in per cent, against the message size.

use super::{Axis, Line, Mark, Plot, Whisker, sizes};
use crate::view::{Entry, Setting, View, geometric_mean};
use crate::{phrasing, quantity};
use results::metric;

/// The chart of ratios to `baseline`; None when there is nothing to compare.
pub(crate) fn chart(view: &View, setting: &Setting, baseline: usize) -> Option<Plot> {
    let metric = metric::primary(&setting.workload);
    let ratios = ratios(view, setting, baseline, metric);
    if ratios.is_empty() {
        return None;
    }
    let mut sizes: Vec<u64> = ratios.iter().filter_map(|r| r.entry.cell.size()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let name = view.label(baseline);
    let better = if phrasing::more_is_better(metric) {
        "higher"
    } else {
        "lower"
    };
    let title = format!(
        "{} relative to {name}; {better} is better",
        phrasing::metric_noun(metric)
    );
    let mut plot = Plot::new(
        format!("{title}, in per cent, by message size"),
        Axis::sizes(&sizes),
        y_axis(&title, &ratios),
    );
    plot.left = 64;
    let equal = view.run.plan.equal_within;
    if equal.is_finite() && (0.0..1.0).contains(&equal) {
        plot.bands.push(((1.0 - equal).max(1e-6), 1.0 + equal));
    }
    // Single trials for the plan's baseline only, to limit the size of the page.
    let raw = view.baseline == Some(baseline);
    for ratio in &ratios {
        marks(&mut plot, view, ratio, raw);
    }
    lines(&mut plot, view, &ratios);
    Some(plot)
}

/// One contestant's ratio to the baseline in one cell.
struct Ratio<'s, 'a> {
    entry: &'s Entry<'a>,
    middle: f64,
    range: Option<(f64, f64)>,
    blocks: Vec<(u32, f64)>,
}

fn ratios<'s, 'a>(
    view: &View,
    setting: &'s Setting<'a>,
    baseline: usize,
    metric: &str,
) -> Vec<Ratio<'s, 'a>> {
    let others = setting.entries.iter().filter(|e| e.contestant != baseline);
    let sized = others.filter(|entry| entry.cell.size().is_some());
    let found = sized.filter_map(|entry| {
        let base = setting.entry(baseline, &entry.column())?;
        let blocks = paired(entry, base, metric);
        let values: Vec<f64> = blocks.iter().map(|block| block.1).collect();
        // Verdicts and their intervals exist for the plan's baseline only.
        let verdict = view
            .verdict(entry, metric)
            .filter(|_| view.baseline == Some(baseline));
        let verdict = verdict.filter(|v| v.ratio > 0.0 && v.low > 0.0 && v.high.is_finite());
        Some(Ratio {
            entry,
            middle: verdict
                .map(|v| v.ratio)
                .or_else(|| geometric_mean(&values))?,
            range: verdict.map(|v| (v.low, v.high)),
            blocks,
        })
    });
    found.collect()
}

/// Ratios of the trials that ran in the same block.
fn paired(entry: &Entry, base: &Entry, metric: &str) -> Vec<(u32, f64)> {
    let base = base.points(metric);
    let pairs = entry
        .points(metric)
        .into_iter()
        .filter_map(|(block, value)| {
            let other = base.iter().find(|point| point.0 == block)?.1;
            let ratio = value / other;
            (ratio.is_finite() && ratio > 0.0).then_some((block, ratio))
        });
    pairs.collect()
}

/// Logarithmic, so that half and double are equally far from equal; ticks in per cent.
fn y_axis(title: &str, ratios: &[Ratio]) -> Axis {
    const TICKS: [f64; 21] = [
        0.001, 0.01, 0.03, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0,
        10.0, 30.0, 100.0, 1000.0,
    ];
    let mut values = vec![0.93, 1.07];
    for ratio in ratios {
        values.push(ratio.middle);
        values.extend(ratio.blocks.iter().map(|block| block.1));
        values.extend(ratio.range.iter().flat_map(|range| [range.0, range.1]));
    }
    let low = values.iter().copied().fold(1.0, f64::min) / 1.05;
    let high = values.iter().copied().fold(1.0, f64::max) * 1.05;
    let span = (high / low).ln();
    let mut ticks: Vec<(f64, String)> = Vec::new();
    // Outwards from "equal", which always has a tick.
    let mut order: Vec<f64> = TICKS.to_vec();
    order.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
    for tick in order {
        let near = |other: &(f64, String)| ((other.0 / tick).ln() / span).abs() < 0.075;
        if !ticks.iter().any(near) {
            ticks.push((
                tick,
                if tick == 1.0 {
                    "equal".into()
                } else {
                    quantity::change(tick)
                },
            ));
        }
    }
    Axis::new(title, true, (low, high), ticks)
}

fn marks(plot: &mut Plot, view: &View, ratio: &Ratio, raw: bool) {
    let contestant = ratio.entry.contestant;
    let size = ratio.entry.cell.size().unwrap_or(1);
    let x = sizes::offset_by_contestant(&plot.x, view, contestant, size);
    let place = format!(
        "{} at {}",
        view.label(contestant),
        ratio.entry.column().label
    );
    for (block, value) in ratio.blocks.iter().filter(|_| raw) {
        plot.marks.push(Mark {
            contestant,
            at: (plot.x.offset(x, sizes::RAW_OFFSET), *value),
            raw: true,
            hint: format!("{place}, block {block}: {}", quantity::change(*value)),
        });
    }
    if let Some((low, high)) = ratio.range {
        plot.whiskers.push(Whisker {
            contestant,
            x,
            low,
            high,
        });
    }
    let range = ratio
        .range
        .map(|(low, high)| format!(" ({} to {})", quantity::change(low), quantity::change(high)));
    plot.marks.push(Mark {
        contestant,
        at: (x, ratio.middle),
        raw: false,
        hint: format!(
            "{place}: {}{}",
            quantity::change(ratio.middle),
            range.unwrap_or_default()
        ),
    });
}

fn lines(plot: &mut Plot, view: &View, ratios: &[Ratio]) {
    for contestant in 0..view.contestants.len() {
        let own = ratios.iter().filter(|r| r.entry.contestant == contestant);
        let points: Vec<(f64, f64)> = own
            .map(|r| {
                let size = r.entry.cell.size().unwrap_or(1);
                (
                    sizes::offset_by_contestant(&plot.x, view, contestant, size),
                    r.middle,
                )
            })
            .collect();
        if let Some(last) = points.last() {
            plot.names
                .push((contestant, view.label(contestant).to_owned(), last.1));
            plot.lines.push(Line::measured(contestant, points));
        }
    }
    if plot.names.len() > sizes::NAMES_MAX {
        plot.names.clear();
    }
}
