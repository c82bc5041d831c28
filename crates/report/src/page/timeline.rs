//! Time series: a static chart of one trial; all trials for the script.

use super::charts::Figure;
use crate::chart::timeline::{chart, title};
use crate::quantity;
use crate::view::View;
use results::{Cell, Series, Status, Trial};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    label: String,
    figures: Vec<Figure>,
}

pub(super) fn section(view: &View) -> Option<Section> {
    let (contestant, trial) = first(view)?;
    let figures = trial.series.iter().filter_map(|(name, series)| {
        let caption = super::workload::capital(&title(name, series));
        let series = thinned(series, 400);
        Some(super::workload::figure(
            view,
            &caption,
            &chart(name, &series, contestant)?,
        ))
    });
    Some(Section {
        label: label(trial),
        figures: figures.take(4).collect(),
    })
}

/// The trial shown first: the baseline's first valid one, else the first of any.
fn first<'a>(view: &View<'a>) -> Option<(usize, &'a Trial)> {
    let mut shown = shown(view);
    let own = shown
        .clone()
        .find(|(c, t)| Some(*c) == view.baseline && t.status == Status::Ok);
    own.or_else(|| shown.next())
}

/// Every trial with a time series, and its contestant.
pub(super) fn shown<'v, 'a>(
    view: &'v View<'a>,
) -> impl Iterator<Item = (usize, &'a Trial)> + Clone + use<'v, 'a> {
    let trials = view
        .run
        .trials
        .iter()
        .filter(|trial| !trial.series.is_empty());
    trials.filter_map(|trial| {
        let name = trial.cell.transport();
        let place = view.contestants.iter().position(|c| c.name == name)?;
        Some((place, trial))
    })
}

/// A trial's name in lists.
pub(super) fn label(trial: &Trial) -> String {
    let cell = &trial.cell;
    let name = quantity::label(&cell.transport());
    let workload = quantity::spaced(&cell.workload());
    let place = crate::phrasing::place(&cell.without(Cell::TRANSPORT));
    let control = if trial.control { ", control" } else { "" };
    let status = match trial.status {
        Status::Ok => "",
        Status::Invalid => ", invalid",
        Status::Failed => ", failed",
        Status::Interrupted => ", interrupted",
    };
    let block = match trial.block {
        0 => "pilot".to_owned(),
        block => format!("block {block}"),
    };
    format!("{name}: {workload} {place}, {block}{control}{status}")
}

/// The series reduced to at most `points` points: means of adjacent points, at the time of the
/// last.
pub(super) fn thinned(series: &Series, points: usize) -> Series {
    let both = series.at_s.iter().zip(&series.values);
    let finite = both.filter(|(at, value)| at.is_finite() && value.is_finite());
    let all: Vec<(f64, f64)> = finite.map(|(at, value)| (*at, *value)).collect();
    let group = all.len().div_ceil(points.max(1)).max(1);
    let groups = all.chunks(group).filter_map(|chunk| {
        let sum: f64 = chunk.iter().map(|point| point.1).sum();
        Some((chunk.last()?.0, sum / chunk.len() as f64))
    });
    let (at_s, values) = groups.unzip();
    Series {
        unit: series.unit.clone(),
        at_s,
        values,
    }
}
