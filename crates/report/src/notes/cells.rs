//! Counters of the cells below a transport's packets, a line each; both ends and all trials together.

use super::{by_transport, counted, evidence};
use results::{RunData, Trial};
use std::collections::BTreeSet;

/// Begins the names of these counters in the evidence of a trial.
const PREFIX: &str = "cells_";

/// Counters that tell of no fault.
const OF_TRAFFIC: [&str; 4] = [
    "cells_sent",
    "cells_received",
    "cells_packets_sent",
    "cells_packets_received",
];

/// One line per transport with cells, and workload where there are several.
pub(super) fn lines(run: &RunData) -> Vec<String> {
    let has_cells = |trial: &&Trial| trial.evidence.contains_key(OF_TRAFFIC[0]);
    let trials: Vec<&Trial> = counted(run).filter(has_cells).collect();
    let contests = by_transport(&trials);
    let lines = contests.iter().map(|(title, trials)| line(title, trials));
    lines.collect()
}

/// `cells of aal34: 9310 sent, 9308 received; 1 sequence errors`.
fn line(title: &str, trials: &[&Trial]) -> String {
    let sum = |name: &str| evidence(trials, name).sum::<f64>();
    let names = trials.iter().flat_map(|trial| trial.evidence.keys());
    let faults: BTreeSet<&str> = names
        .map(String::as_str)
        .filter(|name| name.starts_with(PREFIX) && !OF_TRAFFIC.contains(name))
        .collect();
    let faults = faults.into_iter().map(|name| {
        let words = name.trim_start_matches(PREFIX).replace('_', " ");
        format!("{:.0} {words}", sum(name))
    });
    let faults: Vec<String> = faults.collect();
    let found = match faults.is_empty() {
        true => "no fault".to_owned(),
        false => faults.join(", "),
    };
    let [sent, received] = [OF_TRAFFIC[0], OF_TRAFFIC[1]].map(sum);
    format!("cells of {title}: {sent:.0} sent, {received:.0} received; {found}")
}
