//! What stands in no table, a sentence each: a race that is taken on, packet sizes, shares of concurrent circuits, what a round
//! trip to several receivers is, round trips beside bulk, cells, copies of zero-copy sends, what links and loads did, what has
//! no series of its connection, and knees of load sweeps.

mod cells;
mod fairness;
mod links;
mod receivers;
mod responsive;
mod send;
mod series;
mod zerocopy;

use results::{Cell, RunData, Status, Trial};
use std::collections::BTreeMap;

/// The sentences, as they were measured; names of the run are not cleaned.
pub fn notes(run: &RunData) -> Vec<String> {
    let mut lines: Vec<String> = resumed_line(run).into_iter().collect();
    lines.extend(run.trials.iter().filter_map(packet_line));
    lines.extend(run.summary.iter().flat_map(fairness::lines));
    lines.extend(
        run.summary
            .iter()
            .filter_map(|summary| receivers::line(&summary.cells)),
    );
    lines.extend(run.summary.iter().flat_map(responsive::lines));
    lines.extend(run.summary.iter().flat_map(send::lines));
    lines.extend(cells::lines(run));
    lines.extend(zerocopy::lines(run));
    lines.extend(links::lines(run));
    lines.extend(series::lines(run));
    let knees = stats::knees(&run.plan, &run.trials);
    lines.extend(knees.iter().map(stats::knee::sentence));
    lines
}

/// Which race this one takes on, and what its verdicts rest on.
fn resumed_line(run: &RunData) -> Option<String> {
    let older = run.plan.options.get(results::RESUMES)?;
    let level = run.plan.options.get(results::RESUMED_LEVEL)?;
    Some(format!("this race asks what {older} left open: {level}"))
}

/// Number of most frequent packet sizes shown.
const SIZES_SHOWN: usize = 5;

/// Packet sizes of a pilot: `packets of throughput tcp at 64 B: 61 % of 116 B, ...`.
fn packet_line(trial: &Trial) -> Option<String> {
    let sizes = trial.histograms.get("packet_size")?.decode().ok()?;
    let counts = sizes.iter_recorded();
    let mut counts: Vec<(u64, u64)> = counts
        .map(|step| (step.count_at_value(), step.value_iterated_to()))
        .collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let percent = |count: u64| count as f64 * 100.0 / sizes.len() as f64;
    counts.retain(|&(count, _)| percent(count) >= 0.5);
    let shown = counts.iter().take(SIZES_SHOWN);
    let shown = shown.map(|&(count, size)| format!("{:.0} % of {size} B", percent(count)));
    let place = results::phrasing::contest_text(&trial.cell.without(Cell::TRANSPORT));
    Some(format!(
        "packets of {} {} {place}: {}; mean {:.0} B",
        trial.cell.workload(),
        trial.cell.transport(),
        shown.collect::<Vec<_>>().join(", "),
        sizes.mean()
    ))
}

/// The valid trials of a run's blocks.
fn counted(run: &RunData) -> impl Iterator<Item = &Trial> {
    run.trials
        .iter()
        .filter(|trial| trial.status == Status::Ok && trial.block > 0)
}

/// Trials by transport, and by workload where there are several: `tcp, delay`.
fn by_transport<'a>(trials: &[&'a Trial]) -> BTreeMap<String, Vec<&'a Trial>> {
    let workload = |trial: &Trial| trial.cell.text("workload");
    let one_workload = trials
        .windows(2)
        .all(|pair| workload(pair[0]) == workload(pair[1]));
    let mut contests: BTreeMap<String, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        let transport = trial.cell.transport();
        let title = match one_workload {
            true => transport,
            false => format!("{transport}, {}", workload(trial)),
        };
        contests.entry(title).or_default().push(trial);
    }
    contests
}

/// The evidence of that name, of the trials that have it.
fn evidence<'a>(trials: &'a [&Trial], name: &'a str) -> impl Iterator<Item = f64> + 'a {
    trials
        .iter()
        .filter_map(move |trial| trial.evidence.get(name).copied())
}
