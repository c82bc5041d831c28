//! The folder of a race: a point for each cell, a replicate for each block.

use super::{Outcome, Point, Values, plain};
use results::{Cell, RunData, Status, Trial};
use std::path::Path;

pub(super) fn read(folder: &Path) -> Result<Outcome, String> {
    let run = RunData::read(folder).map_err(|error| error.to_string())?;
    let mut points: Vec<(Cell, Point)> = Vec::new();
    let counted = |trial: &&Trial| trial.status == Status::Ok && trial.block > 0 && !trial.control;
    for trial in run.trials.iter().filter(counted) {
        let place = points.iter().position(|(cell, _)| *cell == trial.cell);
        let place = place.unwrap_or_else(|| {
            points.push((
                trial.cell.clone(),
                Point {
                    factors: trial.cell.0.clone(),
                    ..Point::default()
                },
            ));
            points.len() - 1
        });
        let point = &mut points[place].1;
        // The first of a block, as in verdicts.
        let replicates = &mut point.replicates;
        replicates
            .entry(u64::from(trial.block))
            .or_insert_with(|| values(trial));
        point.complete = replicates.len();
    }
    points.sort_by_key(|(cell, _)| {
        let place = run
            .plan
            .transports
            .iter()
            .position(|name| *name == cell.transport());
        (place, cell.size())
    });
    Ok(Outcome {
        points: points.into_iter().map(|(_, point)| point).collect(),
        is_measured: true,
    })
}

fn values(trial: &Trial) -> Values {
    let mut values = trial.evidence.clone();
    values.extend(trial.metrics.clone());
    values.insert("span_s".to_owned(), trial.span_s);
    if let Some(ledger) = &trial.ledger {
        for (name, count) in [
            ("ledger.sent", ledger.sent),
            ("ledger.delivered", ledger.delivered),
            ("ledger.lost_host", ledger.lost_host),
            ("ledger.lost_link", ledger.lost_link),
        ] {
            values.insert(name.to_owned(), count as f64);
        }
    }
    // A component's name has its options: `delay_p50_us.xtp,dialect=3.6`.
    let sayable = values
        .into_iter()
        .map(|(name, value)| (plain(&name), value));
    sayable.collect()
}
