//! Short messages beside bulk.

use crate::support::{Scratch, is_valid_trial, race, towpath, trials_of};
use results::RunData;

const RESPONSIVE: [&str; 6] = ["-w", "responsive", "--sizes", "1KiB", "--trial", "800ms"];

/// Both phases have round trips, and the bulk moved.
#[track_caller]
pub fn has_both_phases(run: &RunData, transport: &str) {
    let trials = trials_of(run, transport);
    assert!(!trials.is_empty(), "{transport}");
    for trial in trials.into_iter().filter(|trial| is_valid_trial(trial)) {
        for name in ["delay", "delay_idle"] {
            let histogram = trial.histograms.get(name);
            let histogram = histogram.unwrap_or_else(|| panic!("{transport} has no {name}"));
            assert!(!histogram.decode().expect("a histogram").is_empty());
        }
        for name in ["round_trips_per_min", "messages_per_s"] {
            let value = trial.metrics.get(name).copied().unwrap_or_default();
            assert!(value > 0.0, "{transport}: {name} is {value}");
        }
        let ledger = trial.ledger.expect("a ledger");
        assert!(ledger.delivered > 0 && ledger.delivered <= ledger.sent);
    }
}

#[test]
fn short_messages_of_each_kind_of_transport_have_round_trips_alone_and_beside_bulk() {
    let scratch = Scratch::new();
    let transports = ["tcp", "unix-seqpacket", "quic", "xtp", "sctp", "vmtp"];
    let words = [&transports[..], &RESPONSIVE, &["--no-control"]].concat();
    let run = race(&scratch, "each", &words);
    for transport in transports {
        has_both_phases(&run, transport);
    }
    let notes = report::notes(&run);
    let short = notes
        .iter()
        .filter(|line| line.starts_with("short messages of "));
    assert_eq!(short.count(), transports.len(), "{notes:?}");
    assert!(run.plan.options["turns.responsive"].starts_with("back to back: "));
}

/// Datagrams without flow control: bulk fills the receiver's buffer, and short messages may be lost.
#[test]
fn lost_short_messages_of_datagrams_are_counted_and_do_not_end_the_trial() {
    let scratch = Scratch::new();
    let words = [
        &["udp", "udp-segmented"][..],
        &RESPONSIVE,
        &["--no-control"],
    ]
    .concat();
    let run = race(&scratch, "datagrams", &words);
    for transport in ["udp", "udp-segmented"] {
        for trial in trials_of(&run, transport) {
            assert!(is_valid_trial(trial));
            let lost = trial.metrics["loss_fraction"];
            assert!((0.0..=1.0).contains(&lost), "{lost}");
            assert!(trial.metrics["messages_per_s"] > 0.0);
        }
    }
}

#[test]
fn several_circuits_of_bulk_and_several_transports_together() {
    let scratch = Scratch::new();
    let words = [
        &["tcp+xtp", "--circuits", "2", "--no-control"][..],
        &RESPONSIVE,
    ]
    .concat();
    let run = race(&scratch, "together", &words);
    has_both_phases(&run, "tcp+xtp");
}

#[test]
fn transport_that_cannot_answer_and_series_are_refused_with_the_reason() {
    towpath(&["race", "tcp", "-w", "responsive", "--series"]).failed(2, "--series is for");
    towpath(&["race", "tcp", "-w", "responsive", "--turns", "on"]).failed(2, "queues of the bulk");
}
