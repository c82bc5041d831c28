//! Cost models of a run, and the sizes at which two contestants cross over.

use crate::contests::cell_key;
use crate::fit::{Model, cost, fit};
use results::{Cell, CellSummary, Crossover, Estimate, Fit, metric};

/// Cost of a contestant's messages at each size, and the model fitted to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The cell without the size.
    pub cell: Cell,
    /// What the cost is: `time_per_message_ns` or `delay_p50_us`.
    pub metric: &'static str,
    /// Sizes, ascending, and the estimated cost at each.
    pub points: Vec<(f64, Estimate)>,
    /// The model.
    pub model: Model,
}

/// The points of a curve: the cell's key, the cell, the metric, the points.
type Group = (String, Cell, &'static str, Vec<(f64, Estimate)>);

/// The curves of all contestants that ran at enough sizes, in the order of the cells.
pub fn curves(cells: &[CellSummary]) -> Vec<Curve> {
    let mut groups: Vec<Group> = Vec::new();
    for summary in cells {
        let (Some((metric, cost)), Some(size)) = (cost_of(summary), summary.cell.size()) else {
            continue;
        };
        let cell = summary.cell.without(Cell::SIZE);
        let name = cell_key(&cell);
        let point = (size as f64, cost);
        match groups.iter_mut().find(|group| group.0 == name) {
            Some(group) => group.3.push(point),
            None => groups.push((name, cell, metric, vec![point])),
        }
    }
    let curve = |(_, cell, metric, mut points): (_, _, _, Vec<(f64, Estimate)>)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let medians: Vec<_> = points
            .iter()
            .map(|(size, cost)| (*size, cost.median))
            .collect();
        let model = fit(&medians)?;
        Some(Curve {
            cell,
            metric,
            points,
            model,
        })
    };
    groups.into_iter().filter_map(curve).collect()
}

/// The curve as entry of a summary.
pub fn fit_of(curve: &Curve) -> Fit {
    Fit {
        cell: curve.cell.clone(),
        metric: curve.metric.to_owned(),
        pieces: curve.model.pieces.clone(),
        deviation_max: curve.model.deviation_max,
    }
}

/// All crossovers of two contestants: sizes at which their models cross, with a measured size on
/// either side at which the intervals of the two do not overlap.
pub fn crossovers(curves: &[Curve]) -> Vec<Crossover> {
    let mut found = Vec::new();
    for (index, ours) in curves.iter().enumerate() {
        for theirs in &curves[index + 1..] {
            let contest = ours.cell.without(Cell::TRANSPORT);
            if ours.metric == theirs.metric && contest == theirs.cell.without(Cell::TRANSPORT) {
                found.extend(between(&contest, ours, theirs));
            }
        }
    }
    found
}

/// The cost behind a workload's primary metric; smaller is better.
fn cost_of(summary: &CellSummary) -> Option<(&'static str, Estimate)> {
    let primary = metric::primary(&summary.cell.workload());
    let estimate = *summary.metrics.get(primary)?;
    match primary {
        metric::DELAY_P50_US => Some((metric::DELAY_P50_US, estimate)),
        metric::MESSAGES_PER_S if estimate.low > 0.0 => {
            let time_ns = |rate: f64| 1e9 / rate;
            let cost = Estimate {
                median: time_ns(estimate.median),
                low: time_ns(estimate.high),
                high: time_ns(estimate.low),
                n: estimate.n,
            };
            Some(("time_per_message_ns", cost))
        }
        _ => None,
    }
}

/// A stretch of sizes over which one model stays below the other.
struct Stretch {
    from: f64,
    to: f64,
    ours_better: bool,
}

fn between(contest: &Cell, ours: &Curve, theirs: &Curve) -> Vec<Crossover> {
    let sure = |stretch: &Stretch| is_sure(stretch, ours, theirs);
    let stretches: Vec<Stretch> = stretches(ours, theirs).into_iter().filter(sure).collect();
    let changes = stretches
        .windows(2)
        .filter(|pair| pair[0].ours_better != pair[1].ours_better);
    let name = |ours_better| if ours_better { ours } else { theirs }.cell.transport();
    changes
        .map(|pair| Crossover {
            contest: contest.clone(),
            metric: ours.metric.to_owned(),
            below: name(pair[0].ours_better),
            above: name(pair[1].ours_better),
            // The same size, unless a stretch in between is undecided.
            size: (pair[0].to * pair[1].from).sqrt(),
        })
        .collect()
}

/// Splits the common range of sizes at every crossing of the models.
fn stretches(ours: &Curve, theirs: &Curve) -> Vec<Stretch> {
    let (a, b) = (&ours.model.pieces, &theirs.model.pieces);
    let difference = |size: f64| cost(a, size) - cost(b, size);
    let from = a[0].from.max(b[0].from);
    let to = a[a.len() - 1].to.min(b[b.len() - 1].to);
    let bends = a
        .iter()
        .chain(b)
        .map(|piece| piece.to)
        .filter(|end| *end > from && *end < to);
    let mut sizes: Vec<f64> = [from, to].into_iter().chain(bends).collect();
    sizes.sort_by(f64::total_cmp);
    let mut cuts = vec![from];
    for pair in sizes.windows(2) {
        let (left, right) = (difference(pair[0]), difference(pair[1]));
        // Straight between bends, so it crosses at most once.
        if left * right < 0.0 {
            cuts.push(pair[0] + (pair[1] - pair[0]) * left / (left - right));
        }
    }
    cuts.push(to);
    let stretch = |pair: &[f64]| Stretch {
        from: pair[0],
        to: pair[1],
        ours_better: difference(0.5 * (pair[0] + pair[1])) < 0.0,
    };
    cuts.windows(2).map(stretch).collect()
}

/// Whether the intervals at some size within the stretch are disjoint, in favour of the better one.
fn is_sure(stretch: &Stretch, ours: &Curve, theirs: &Curve) -> bool {
    let within = |size: f64| (stretch.from..=stretch.to).contains(&size);
    ours.points
        .iter()
        .filter(|(size, _)| within(*size))
        .any(|(size, our)| {
            let same = theirs.points.iter().find(|(other, _)| other == size);
            same.is_some_and(|(_, their)| match stretch.ours_better {
                true => our.high < their.low,
                false => their.high < our.low,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn cells(transport: &str, spread: f64, time_ns: impl Fn(f64) -> f64) -> Vec<CellSummary> {
        let summary = |power: u32| {
            let size = 1u64 << power;
            let rate = 1e9 / time_ns(size as f64);
            let estimate = Estimate {
                median: rate,
                low: rate * (1.0 - spread),
                high: rate * (1.0 + spread),
                n: 9,
            };
            CellSummary {
                cell: Cell::default()
                    .with(Cell::TRANSPORT, transport)
                    .with(Cell::WORKLOAD, "throughput")
                    .with(Cell::SIZE, size),
                trials_ok: 9,
                trials_bad: 0,
                metrics: BTreeMap::from([(metric::MESSAGES_PER_S.to_owned(), estimate)]),
                evidence: BTreeMap::new(),
                quantiles: BTreeMap::new(),
                samples: BTreeMap::new(),
            }
        };
        (4..=14).map(summary).collect()
    }

    #[test]
    fn single_crossover_is_found() {
        // 1000 + 0.1 s against 400 + 0.7 s: equal at 1000 B.
        let mut all = cells("tcp", 0.01, |s| 1000.0 + 0.1 * s);
        all.extend(cells("udp", 0.01, |s| 400.0 + 0.7 * s));
        let found = crossovers(&curves(&all));
        let [crossover] = &found[..] else {
            panic!("one crossover: {found:?}")
        };
        assert!(
            (crossover.size / 1000.0 - 1.0).abs() < 0.02,
            "{crossover:?}"
        );
        assert_eq!(
            (crossover.below.as_str(), crossover.above.as_str()),
            ("udp", "tcp")
        );
        assert_eq!(crossover.contest.transport(), "");
    }

    #[test]
    fn crossing_within_noise_is_ignored() {
        let mut all = cells("tcp", 0.05, |s| 1000.0 + 0.1 * s);
        all.extend(cells("udp", 0.05, |s| 1010.0 + 0.099 * s));
        assert_eq!(crossovers(&curves(&all)), []);
    }

    #[test]
    fn throughput_fit_is_time_per_message() {
        let curves = curves(&cells("tcp", 0.01, |s| 500.0 + 2.0 * s));
        let [curve] = &curves[..] else {
            panic!("one curve")
        };
        let fit = fit_of(curve);
        assert_eq!(fit.metric, "time_per_message_ns");
        assert!((fit.pieces[0].fixed - 500.0).abs() < 1.0);
        assert!((fit.pieces[0].per_byte - 2.0).abs() < 0.01);
        assert_eq!(fit.cell.transport(), "tcp");
        assert_eq!(fit.cell.size(), None);
    }
}
