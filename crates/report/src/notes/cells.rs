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

/// `cells of aal34: 9310 sent, 9308 received; 2 CRC errors, 1 sequence errors`.
fn line(title: &str, trials: &[&Trial]) -> String {
    // None at all are 0, of which a sum makes -0.
    let sum = |name: &str| evidence(trials, name).fold(0.0, |sum, count| sum + count);
    let names = trials.iter().flat_map(|trial| trial.evidence.keys());
    let faults: BTreeSet<&str> = names
        .map(String::as_str)
        .filter(|name| name.starts_with(PREFIX) && !OF_TRAFFIC.contains(name))
        .collect();
    let faults = faults
        .into_iter()
        .map(|name| format!("{:.0} {}", sum(name), words_of(name)));
    let faults: Vec<String> = faults.collect();
    let found = match faults.is_empty() {
        true => "no fault".to_owned(),
        false => faults.join(", "),
    };
    let [sent, received] = [OF_TRAFFIC[0], OF_TRAFFIC[1]].map(sum);
    format!("cells of {title}: {sent:.0} sent, {received:.0} received; {found}")
}

/// What a counter counts: `cells_crc_errors` is `CRC errors`.
fn words_of(name: &str) -> String {
    let words = name.trim_start_matches(PREFIX).split('_');
    let words = words.map(|word| match word {
        "crc" => "CRC",
        "mri" => "MRI",
        "mids" => "MIDs",
        "ba" => "BA",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::words_of;

    #[test]
    fn counters_are_named_in_the_terms_of_aal34() {
        for (name, words) in [
            ("cells_crc_errors", "CRC errors"),
            ("cells_unexpected_mids", "unexpected MIDs"),
            ("cells_mri_timeouts", "MRI timeouts"),
            ("cells_incorrect_lengths", "incorrect lengths"),
        ] {
            assert_eq!(words_of(name), words);
        }
    }
}
