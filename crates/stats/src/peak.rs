//! The peak of a sweep of offered loads: the largest rate that was delivered.
//!
//! Loads in per cent of each contestant's own capacity offer every contestant another rate. What
//! they deliver at the same share says how the pilots went; the peak says what they can deliver.

use results::{Cell, Status, Trial, metric};
use std::collections::BTreeMap;

/// Share of the offered rate below which the largest load of a sweep exceeds the capacity.
pub const SATURATED_BELOW: f64 = crate::knee::DELIVERED_MIN;

/// Whether a trial counts for the peak: a valid one, and one whose load was more than the sender
/// could offer, which still delivered what it delivered.
pub(crate) fn counts(trial: &Trial) -> bool {
    trial.status == Status::Ok || trial.is_generator_late()
}

/// The largest delivered rate in each block of the sweep that these trials of one contestant are;
/// none for a block whose largest load was delivered whole, since more might have been.
pub(crate) fn by_block<'a>(trials: impl Iterator<Item = &'a Trial>) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<(i64, bool, f64)>> = BTreeMap::new();
    for trial in trials.filter(|trial| counts(trial)) {
        let value = |name: &str| trial.metrics.get(name).copied().filter(|v| v.is_finite());
        if let (Some(offered), Some(delivered)) =
            (value(metric::OFFERED_PER_S), value(metric::DELIVERED_PER_S))
        {
            let percent = trial.cell.integer(Cell::LOAD_PERCENT).unwrap_or(0);
            let short = trial.is_generator_late() || delivered < SATURATED_BELOW * offered;
            let block = blocks.entry(trial.block).or_default();
            block.push((percent, short, delivered));
        }
    }
    let peak = |(block, loads): (u32, Vec<(i64, bool, f64)>)| {
        let (_, saturated, _) = *loads.iter().max_by_key(|load| load.0)?;
        let most = loads.iter().map(|load| load.2).fold(0.0, f64::max);
        saturated.then_some((block, most))
    };
    blocks.into_iter().filter_map(peak).collect()
}
