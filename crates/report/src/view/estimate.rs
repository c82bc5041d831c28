//! Medians of trials, for runs without a summary.

use results::{Cell, CellSummary, Estimate, Status, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// The median; None without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The geometric mean of positive values; None without any.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let usable = |value: &&f64| value.is_finite() && **value > 0.0;
    let logs: Vec<f64> = values.iter().filter(usable).map(|v| v.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// The estimates of a cell from its trials: medians, with the range of all values as interval.
pub(super) fn of_trials(cell: &Cell, trials: &[&Trial]) -> CellSummary {
    let good: Vec<&&Trial> = trials.iter().filter(|t| t.status == Status::Ok).collect();
    let metrics = names(good.iter().map(|trial| &trial.metrics));
    let evidence = names(good.iter().map(|trial| &trial.evidence));
    CellSummary {
        cell: cell.clone(),
        trials_ok: good.len() as u32,
        trials_bad: (trials.len() - good.len()) as u32,
        metrics: metrics
            .iter()
            .filter_map(|name| Some(((*name).clone(), spread(&good, name)?)))
            .collect(),
        evidence: evidence
            .iter()
            .filter_map(|name| {
                let values: Vec<f64> = good
                    .iter()
                    .filter_map(|trial| trial.evidence.get(*name).copied())
                    .collect();
                Some(((*name).clone(), median(&values)?))
            })
            .collect(),
        quantiles: BTreeMap::new(),
        samples: BTreeMap::new(),
    }
}

fn names<'t>(maps: impl Iterator<Item = &'t BTreeMap<String, f64>>) -> BTreeSet<&'t String> {
    maps.flat_map(BTreeMap::keys).collect()
}

fn spread(trials: &[&&Trial], name: &str) -> Option<Estimate> {
    let values = trials.iter().filter_map(|t| t.metrics.get(name).copied());
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    Some(Estimate {
        median: median(&values)?,
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        n: values.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_geometric_mean_skip_invalid_values() {
        assert_eq!(median(&[3.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(geometric_mean(&[-1.0, 0.0]), None);
        assert!((geometric_mean(&[1.0, 4.0]).expect("two values") - 2.0).abs() < 1e-12);
    }
}
