//! Messages of 0 B: raced where all contestants keep messages apart, refused elsewhere.

use crate::support::{Scratch, is_valid_trial, race, towpath, trials_of};

#[test]
fn empty_messages_race_beside_short_ones_where_all_contestants_carry_them() {
    let scratch = Scratch::new();
    let transports = ["udp", "udp-segmented", "unix-dgram", "shm", "bare", "vmtp"];
    let options = words!("--sizes 0,64 --trial 80ms --blocks 1 --no-control");
    let run = race(&scratch, "empty", &[&transports[..], &options].concat());
    for transport in transports {
        for (workload, measure) in [("throughput", "messages_per_s"), ("delay", "delay_p50_us")] {
            for size in [0, 64] {
                let trials = trials_of(&run, transport).into_iter();
                let own = trials.filter(|trial| {
                    trial.cell.workload() == workload && trial.cell.size() == Some(size)
                });
                let own: Vec<_> = own.filter(|trial| is_valid_trial(trial)).collect();
                assert!(!own.is_empty(), "{transport}, {workload}, {size}");
                for trial in own {
                    let value = trial.metrics[measure];
                    assert!(value > 0.0, "{transport}, {workload}, {size}: {value}");
                    let ledger = trial.ledger.expect("a ledger");
                    assert!(ledger.delivered > 0 && ledger.duplicates == 0, "{ledger:?}");
                }
            }
        }
    }
}

#[test]
fn contestant_that_carries_no_empty_message_is_named() {
    for (words, expected) in [
        (&["udp", "tcp"][..], "tcp is a stream of bytes"),
        (
            &["udp", "unix-seqpacket"],
            "unix-seqpacket carries no message of 0 B",
        ),
        (&["sctp"], "sctp carries no message of 0 B"),
        (&["xtp-message"], "xtp-message carries no message of 0 B"),
        (&["udp+tcp"], "tcp is a stream of bytes"),
        (
            &["udp", "exec:iperf3"],
            "exec:iperf3 may take a size of 0 as its own default",
        ),
        (
            &["udp", "-w", "connect"],
            "size 0 is for the workloads throughput, delay and send",
        ),
        (
            &["udp", "--to", "nowhere"],
            "agents take no messages of 0 B",
        ),
    ] {
        let said = towpath(&[&["race"], words, &["--sizes", "0,64"]].concat());
        assert_eq!(
            (said.code, said.err.lines().count()),
            (2, 1),
            "{}",
            said.err
        );
        assert!(said.err.contains(expected), "{words:?}: {}", said.err);
    }
    for words in [
        &["profile", "udp", "--size", "0"][..],
        &["race", "udp", "--buffers", "0"],
    ] {
        towpath(words).failed(2, "begin at 1");
    }
}
