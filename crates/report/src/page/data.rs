//! The JSON that the script reads: time series of the trials, thinned to a size limit.

use super::timeline::{in_order, label, shown, thinned};
use crate::chart::timeline::title;
use crate::view::View;
use serde::Serialize;

/// Maximum points in a page: at about 12 characters each, 2 MB.
const POINTS_MAX: usize = 160_000;

/// Maximum points of a series; a screen shows no more.
const SERIES_MAX: usize = 400;

#[derive(Serialize)]
struct Data {
    trials: Vec<TrialData>,
}

#[derive(Serialize)]
struct TrialData {
    label: String,
    contestant: usize,
    series: Vec<SeriesData>,
}

#[derive(Serialize)]
struct SeriesData {
    title: String,
    at: Vec<f64>,
    values: Vec<f64>,
}

/// The data as JSON, escaped so that it cannot close its script element.
pub(super) fn embedded(view: &View) -> String {
    let count: usize = shown(view).map(|(_, trial)| trial.series.len()).sum();
    let points = (POINTS_MAX / count.max(1)).clamp(20, SERIES_MAX);
    let trials = shown(view)
        .take(POINTS_MAX / 20)
        .map(|(contestant, trial)| TrialData {
            label: label(trial),
            contestant,
            series: in_order(trial)
                .into_iter()
                .map(|(name, series)| {
                    let thin = thinned(series, points);
                    SeriesData {
                        title: title(name, series),
                        at: thin.at_s.into_iter().map(rounded).collect(),
                        values: thin.values.into_iter().map(rounded).collect(),
                    }
                })
                .collect(),
        });
    let data = Data {
        trials: trials.collect(),
    };
    let json = serde_json::to_string(&data).unwrap_or_else(|_| "{\"trials\":[]}".into());
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// Rounds to five significant digits; no chart shows more.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(0.0)
}
