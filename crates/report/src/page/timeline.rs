//! Time series: a static chart of one trial; all trials for the script.

use super::charts::Figure;
use crate::chart::timeline::{chart, chart_of_several, connection_names, rank, title};
use crate::quantity;
use crate::view::View;
use results::{Cell, Series, Status, Trial};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    label: String,
    figures: Vec<Figure>,
    /// The trials of `connections`.
    beside: Vec<String>,
    /// Series of the connections of all contestants, on one time axis.
    pub(super) connections: Vec<Figure>,
}

pub(super) fn section(view: &View) -> Option<Section> {
    let (contestant, trial) = first(view)?;
    let ordered = in_order(trial);
    // Those of connections stand by themselves, of all contestants.
    let own = ordered.iter().filter(|(name, _)| rank(name) == 0);
    let figures = own.filter_map(|&(name, series)| {
        let caption = super::workload::capital(&title(name, series));
        let series = thinned(series, 400);
        Some(super::workload::figure(
            view,
            &caption,
            &chart(name, &series, contestant)?,
        ))
    });
    let beside = trials_beside(view, trial);
    Some(Section {
        label: label(trial),
        figures: figures.take(4).collect(),
        connections: connections(view, &beside),
        beside: beside.iter().map(|(_, trial)| label(trial)).collect(),
    })
}

/// The series of a trial in the order of a page.
pub(super) fn in_order(trial: &Trial) -> Vec<(&String, &Series)> {
    let mut all: Vec<_> = trial.series.iter().collect();
    all.sort_by_key(|(name, _)| rank(name));
    all
}

/// The first valid trial of each contestant in the cell of `first`, where series of connections were
/// recorded.
fn trials_beside<'a>(view: &View<'a>, first: &Trial) -> Vec<(usize, &'a Trial)> {
    let cell = first.cell.without(Cell::TRANSPORT);
    let is_same = |trial: &Trial| {
        let recorded = trial.series.keys().any(|name| rank(name) > 0);
        let counts = trial.status == Status::Ok && trial.block > 0 && !trial.control;
        recorded && counts && trial.cell.without(Cell::TRANSPORT) == cell
    };
    let same = shown(view).filter(|(_, trial)| is_same(trial));
    let mut found: Vec<(usize, &Trial)> = Vec::new();
    for (contestant, trial) in same {
        if found.iter().all(|(other, _)| *other != contestant) {
            found.push((contestant, trial));
        }
    }
    found.sort_by_key(|(contestant, _)| *contestant);
    found
}

/// A chart for each series of a connection that any of these trials has, all to the same end.
fn connections(view: &View, trials: &[(usize, &Trial)]) -> Vec<Figure> {
    let recorded = |trial: &Trial, name: &str| trial.series.get(name).map(|it| thinned(it, 400));
    let ends = trials.iter().flat_map(|(_, trial)| {
        let own = trial.series.iter().filter(|(name, _)| rank(name) > 0);
        own.filter_map(|(_, series)| series.at_s.last().copied())
    });
    let end_s = ends.filter(|at| at.is_finite()).fold(0.0, f64::max);
    let figure = |name: &str| {
        let found = trials.iter();
        let found = found.filter_map(|(at, trial)| Some((*at, recorded(trial, name)?)));
        let found: Vec<(usize, Series)> = found.collect();
        let all: Vec<(usize, &Series)> = found.iter().map(|(at, it)| (*at, it)).collect();
        let caption = super::workload::capital(&title(name, all.first()?.1));
        let plot = chart_of_several(name, &all, end_s)?;
        Some(super::workload::figure(view, &caption, &plot))
    };
    connection_names().filter_map(figure).collect()
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
