//! What the kernel copied of sends that were to be without a copy, a line a transport; all trials
//! together.

use super::{by_transport, counted, evidence};
use results::{RunData, Trial};

/// Sends that the kernel was done with, the share of them that it had copied, and those it refused.
const SENDS: &str = "zerocopy_sends";
const COPIED: &str = "zerocopy_copied_fraction";
const REFUSED: &str = "zerocopy_refused";

/// One line per transport with such sends, and workload where there are several.
pub(super) fn lines(run: &RunData) -> Vec<String> {
    let has_any = |trial: &&Trial| trial.evidence.contains_key(SENDS);
    let trials: Vec<&Trial> = counted(run).filter(has_any).collect();
    let contests = by_transport(&trials);
    let lines = contests.iter().map(|(title, trials)| line(title, trials));
    lines.collect()
}

/// `zero-copy sends of tcp-zerocopy: 1200; the kernel copied 100 % of them`.
fn line(title: &str, trials: &[&Trial]) -> String {
    let sends: f64 = evidence(trials, SENDS).sum();
    let copied: f64 = trials
        .iter()
        .filter_map(|trial| Some(trial.evidence.get(SENDS)? * trial.evidence.get(COPIED)?))
        .sum();
    let share = 100.0 * copied / sends.max(1.0);
    let refused: f64 = evidence(trials, REFUSED).sum();
    let more = match refused > 0.0 {
        true => format!("; {refused:.0} more were refused and copied by the call"),
        false => String::new(),
    };
    format!("zero-copy sends of {title}: {sends:.0}; the kernel copied {share:.0} % of them{more}")
}
