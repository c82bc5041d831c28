//! The peak of a sweep of offered loads: the largest rate that was delivered.
//!
//! Loads in per cent of each contestant's own capacity offer every contestant another rate. What
//! they deliver at the same share says how the pilots went; the peak says what they can deliver.

use results::{Trial, metric};
use std::collections::BTreeMap;

/// Share of the offered rate below which the largest load of a sweep exceeds the capacity.
pub const SATURATED_BELOW: f64 = crate::knee::DELIVERED_MIN;

/// The largest delivered rate in each block of the sweep that these valid trials of one contestant
/// are; none for a block whose largest load was delivered whole, since more might have been.
pub(crate) fn by_block<'a>(trials: impl Iterator<Item = &'a Trial>) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for trial in trials {
        let value = |name: &str| trial.metrics.get(name).copied().filter(|v| v.is_finite());
        if let (Some(offered), Some(delivered)) =
            (value(metric::OFFERED_PER_S), value(metric::DELIVERED_PER_S))
        {
            blocks
                .entry(trial.block)
                .or_default()
                .push((offered, delivered));
        }
    }
    let peak = |(block, loads): (u32, Vec<(f64, f64)>)| {
        let (offered, delivered) = loads.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let saturated = *delivered < SATURATED_BELOW * offered;
        let most = loads.iter().map(|load| load.1).fold(0.0, f64::max);
        saturated.then_some((block, most))
    };
    blocks.into_iter().filter_map(peak).collect()
}
