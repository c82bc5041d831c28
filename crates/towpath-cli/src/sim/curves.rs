//! Plots the rows of a sweep.

use crate::CliError;
use report::{Curve, CurveFigure, CurveRow, Curves};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum curves in a figure, limited by distinguishable styles.
const CURVES_MAX: usize = 24;

/// Plotted metrics: JSON pointer into a row, title, and scale.
const MEASURES: [(&str, &str, f64); 6] = [
    ("/total/throughput_bps", "throughput, user B/s", 1.0),
    ("/total/delay/mean_us", "mean delay, ms", 1e-3),
    ("/total/delay/p99_us", "99th percentile of delay, ms", 1e-3),
    (
        "/ether/utilisation",
        "utilisation of the Ethernet, %",
        100.0,
    ),
    ("/ether/collisions", "collisions", 1.0),
    ("/total/settled", "messages settled", 1.0),
];

/// One run of the sweep.
struct RunRow {
    name: String,
    changes: BTreeMap<String, String>,
    value: Value,
}

/// The page of rows, each a line of JSON. Truncated lines are skipped.
///
/// # Errors
///
/// When there are no rows, or no key has several numeric values, so that there is no axis.
pub fn page(lines: &str) -> Result<Curves, CliError> {
    let rows: Vec<RunRow> = lines.lines().filter_map(row).collect();
    if rows.is_empty() {
        return Err(CliError::usage(
            "there are no rows of a sweep; give a file that `towpath sim sweep --out` has written",
        ));
    }
    let axis = axis(&rows).ok_or_else(|| {
        CliError::usage(
            "no key has several numeric values in these rows; sweep one, for example with \
             --points traffic.0.length.fixed=6,128,1024",
        )
    })?;
    let mut groups: BTreeMap<String, Vec<(f64, &RunRow)>> = BTreeMap::new();
    for row in &rows {
        let at = row.changes.get(&axis).and_then(|text| number(text));
        let others = row.changes.iter().filter(|(key, _)| **key != axis);
        let name: Vec<String> = others.map(|(key, text)| format!("{key}={text}")).collect();
        if let Some(at) = at {
            groups.entry(name.join(", ")).or_default().push((at, row));
        }
    }
    let unit = rows.iter().find_map(|row| unit(row.changes.get(&axis)?));
    let called = name_of(&axis);
    let along = match unit {
        Some(unit) if !unit.is_empty() => format!("{called}, {unit}"),
        _ => called.clone(),
    };
    let left_out = groups.len().saturating_sub(CURVES_MAX);
    let groups: Vec<(String, Vec<(f64, &RunRow)>)> = groups.into_iter().take(CURVES_MAX).collect();
    let figures = MEASURES
        .iter()
        .filter_map(|measure| figure(&along, &groups, measure));
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    Ok(Curves {
        kind: "Towpath sweep".to_owned(),
        title: names.join(", "),
        lead: vec![lead(&rows, left_out)],
        names: groups
            .iter()
            .map(|(name, _)| match name.as_str() {
                "" => names.join(", "),
                name => name.to_owned(),
            })
            .collect(),
        rows: vec![CurveRow {
            title: if called == axis {
                format!("Over {axis}")
            } else {
                format!("Over {called} ({axis})")
            },
            note: String::new(),
            figures: figures.collect(),
        }],
    })
}

/// What a key of a scenario means; the key itself where that is said best.
fn name_of(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    let name = match parts[..] {
        ["traffic", _, "length", ..] | ["length"] => "message length",
        ["traffic", _, "interarrival", ..] => "time between messages",
        ["traffic", _, "reply", ..] => "length of replies",
        ["station", _, "count"] => "stations",
        ["faults", "loss"] => "loss",
        ["medium", "rate"] => "rate of the medium",
        ["medium", "delay"] => "delay of the medium",
        _ => key,
    };
    name.to_owned()
}

fn row(line: &str) -> Option<RunRow> {
    let value: Value = serde_json::from_str(line).ok()?;
    let changes = value.get("changes")?.as_array()?.iter();
    let pair = |change: &Value| {
        let (key, text) = change.as_str()?.split_once('=')?;
        Some((key.to_owned(), text.to_owned()))
    };
    Some(RunRow {
        name: value.get("scenario")?.as_str()?.to_owned(),
        changes: changes.filter_map(pair).collect(),
        value,
    })
}

/// The key with the most distinct numeric values.
fn axis(rows: &[RunRow]) -> Option<String> {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (key, text) in rows.iter().flat_map(|row| &row.changes) {
        let seen = values.entry(key).or_default();
        if let Some(number) = number(text) {
            seen.insert(number.to_bits());
        }
    }
    let most = values.into_iter().max_by_key(|(_, seen)| seen.len())?;
    (most.1.len() > 1).then(|| most.0.to_owned())
}

/// A number with a unit, converted to the base unit.
fn number(text: &str) -> Option<f64> {
    Some(based(text)?.0)
}

/// The base unit that [`number`] converts to.
fn unit(text: &str) -> Option<&'static str> {
    Some(based(text)?.1)
}

/// A number in its base unit, and that unit.
fn based(text: &str) -> Option<(f64, &'static str)> {
    let text = text.trim().trim_matches('"');
    let plain = |text: &str| text.trim().replace('_', "").parse::<f64>().ok();
    if let Some(percent) = text.strip_suffix('%') {
        return Some((plain(percent)? / 100.0, ""));
    }
    if let Some(number) = plain(text) {
        return Some((number, ""));
    }
    if let Ok(ps) = scenario::units::parse_time(text) {
        return Some((ps as f64 * 1e-12, "s"));
    }
    match quantity::rate_bps(text) {
        Ok(bps) => Some((bps as f64, "bit/s")),
        Err(_) => Some((quantity::bytes(text).ok()? as f64, "B")),
    }
}

fn lead(rows: &[RunRow], left_out: usize) -> String {
    let complete = |row: &&RunRow| row.value.get("ending").and_then(Value::as_str) != Some("stuck");
    let mut text = format!(
        "{} runs, a mark each; lines join the means over seeds, and bars span from the lowest seed to the highest.",
        rows.len()
    );
    let stuck = rows.len() - rows.iter().filter(complete).count();
    if stuck > 0 {
        text.push_str(&format!(" {stuck} runs deadlocked."));
    }
    if left_out > 0 {
        text.push_str(&format!(
            " {left_out} curves are omitted: the limit is {CURVES_MAX}."
        ));
    }
    text
}

/// None when no row has the metric.
fn figure(
    axis: &str,
    groups: &[(String, Vec<(f64, &RunRow)>)],
    &(path, title, factor): &(&str, &str, f64),
) -> Option<CurveFigure> {
    let mut curves = Vec::new();
    for (name, (_, rows)) in groups.iter().enumerate() {
        let values = rows.iter().filter_map(|(at, row)| {
            let value = row.value.pointer(path)?.as_f64()?;
            Some((*at, value * factor))
        });
        let mut runs: Vec<(f64, f64)> = values.collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (means, spread) = (means(&runs), spread(&runs));
        for (line, points, spread) in [(true, means, spread), (false, runs, Vec::new())] {
            curves.push(Curve {
                name,
                line,
                marks: !line,
                points,
                spread,
            });
        }
    }
    let drawn = curves.iter().any(|curve| !curve.points.is_empty());
    drawn.then(|| CurveFigure {
        caption: String::new(),
        linear: false,
        x: axis.to_owned(),
        y: title.to_owned(),
        curves,
    })
}

/// The mean at each x of points in ascending order.
fn means(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let groups = points.chunk_by(|a, b| a.0 == b.0);
    let mean = |group: &[(f64, f64)]| {
        let sum: f64 = group.iter().map(|value| value.1).sum();
        (group[0].0, sum / group.len() as f64)
    };
    groups.map(mean).collect()
}

/// The lowest and the highest of the seeds at each x of points in ascending order; a single seed has
/// no spread.
fn spread(points: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let groups = points.chunk_by(|a, b| a.0 == b.0);
    let ends = |group: &[(f64, f64)]| {
        let values = || group.iter().map(|point| point.1);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        (group[0].0, low, high)
    };
    let several = groups.filter(|group| group.len() > 1);
    several.map(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(loss: &str, size: u64, seed: u64, throughput: f64) -> String {
        serde_json::json!({
            "scenario": "two",
            "changes": [format!("faults.loss={loss}"), format!("length={size}")],
            "seed": seed,
            "ending": "complete",
            "total": { "throughput_bps": throughput },
        })
        .to_string()
    }

    #[test]
    fn points_are_seed_means_and_most_varied_key_is_axis() {
        let lines = [
            line("1%", 6, 1, 10.0),
            line("1%", 6, 2, 20.0),
            line("1%", 128, 1, 40.0),
            line("2%", 6, 1, 5.0),
            line("2%", 1024, 1, 7.0),
            "{\"cut".to_owned(),
        ];
        let page = page(&lines.join("\n")).expect("two sizes");
        assert_eq!(page.names, ["faults.loss=1%", "faults.loss=2%"]);
        let figure = &page.rows[0].figures[0];
        assert_eq!(figure.x, "message length");
        let [mean, runs, other_mean, _] = &figure.curves[..] else {
            panic!("a line and its marks for each loss");
        };
        assert!(mean.line && !mean.marks && !runs.line && runs.marks);
        assert_eq!(mean.points, [(6.0, 15.0), (128.0, 40.0)]);
        assert_eq!(mean.spread, [(6.0, 10.0, 20.0)], "one seed has no spread");
        assert_eq!(runs.spread, []);
        assert_eq!(runs.points, [(6.0, 10.0), (6.0, 20.0), (128.0, 40.0)]);
        assert_eq!(other_mean.points, [(6.0, 5.0), (1024.0, 7.0)]);
    }

    #[test]
    fn axis_is_named_by_what_the_key_means_and_one_curve_by_its_scenario() {
        let rows = [("2", 1), ("4", 1), ("4", 2)].map(|(count, seed)| {
            serde_json::json!({
                "scenario": "crowd",
                "changes": [format!("station.0.count={count}")],
                "seed": seed,
                "total": { "throughput_bps": 5.0 },
            })
            .to_string()
        });
        let page = page(&rows.join("\n")).expect("two counts");
        assert_eq!(page.names, ["crowd"]);
        assert_eq!(page.rows[0].title, "Over stations (station.0.count)");
        assert_eq!(page.rows[0].figures[0].x, "stations");
        assert_eq!(name_of("messages"), "messages");
    }

    #[test]
    fn text_without_rows_is_refused_with_remedy() {
        let refusal = page("root:x:0:0::/root:/bin/sh").expect_err("no rows");
        assert!(refusal.message.contains("--out"), "{}", refusal.message);
    }

    #[test]
    fn rows_without_varied_key_are_refused_with_remedy() {
        let refusal = page(&line("1%", 6, 1, 1.0)).expect_err("one point");
        assert!(refusal.message.contains("--points"), "{}", refusal.message);
    }
}
