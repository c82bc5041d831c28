//! Workload `send`: engines in the process send into a wire that discards.

use crate::support::{Scratch, is_valid_trial, race, towpath, trials_of};

#[test]
fn time_of_a_send_is_split_into_copies_and_the_rest() {
    let scratch = Scratch::new();
    let transports = ["vmtp,repeat=1", "vmtp-aal34,repeat=1", "xtp-datagram"];
    let options = ["-w", "send", "--sizes", "64,8KiB", "--trial", "100ms"];
    let words = [&transports[..], &options, &["--no-control"]].concat();
    let run = race(&scratch, "sends", &words);
    for transport in transports {
        let trials = trials_of(&run, transport);
        assert!(!trials.is_empty(), "{transport}");
        for trial in trials.into_iter().filter(|trial| is_valid_trial(trial)) {
            let [all, copies, rest, share] = [
                "send_ns_per_message",
                "copy_ns_per_message",
                "rest_ns_per_message",
                "copy_fraction",
            ]
            .map(|name| trial.metrics[name]);
            assert!(
                (copies + rest - all).abs() < 1e-6 * all,
                "{copies} + {rest} of {all}"
            );
            assert!(
                copies > 0.0 && (0.0..1.0).contains(&share),
                "{copies}, {share}"
            );
            assert!(trial.metrics["sent_per_s"] > 0.0);
            assert_eq!(trial.ledger, None, "nothing arrives anywhere");
            let octets = trial.evidence["discarded_octets_per_message"];
            assert!(octets >= 64.0, "{octets}");
            assert_eq!(trial.evidence.get("receive_drops_per_1000"), Some(&0.0));
        }
    }
    let notes = report::notes(&run);
    let of_sends = notes.iter().filter(|line| line.starts_with("a send of "));
    assert_eq!(of_sends.count(), 2 * transports.len(), "{notes:?}");
    assert!(run.plan.options["turns.send"].starts_with("back to back: "));
}

#[test]
fn long_messages_take_longer_to_copy_than_short_ones() {
    let scratch = Scratch::new();
    let words = words!("vmtp,repeat=1 -w send --sizes 64,16KiB --trial 100ms --no-control");
    let run = race(&scratch, "sizes", &words);
    let copy_ns = |size: u64| {
        let trials = trials_of(&run, "vmtp,repeat=1");
        let own = trials
            .into_iter()
            .find(|trial| trial.cell.size() == Some(size));
        own.expect("a trial").metrics["copy_ns_per_message"]
    };
    assert!(copy_ns(16 << 10) > copy_ns(64), "256 times as many octets");
}

#[test]
fn what_waits_for_answers_or_is_the_kernels_is_refused_with_what_would_be_right() {
    let refused = |words: &[&str], expected: &[&str]| {
        let said = towpath(&[&["race"], words, &["-w", "send"]].concat());
        assert_eq!(
            (said.code, said.err.lines().count()),
            (2, 1),
            "{}",
            said.err
        );
        for text in expected {
            assert!(said.err.contains(text), "{text}: {}", said.err);
        }
    };
    refused(&["tcp"], &["tcp is the kernel's", "vmtp,repeat=1"]);
    refused(
        &["vmtp,repeat=1", "udp-batched"],
        &["udp-batched is the kernel's"],
    );
    for label in [
        "xtp",
        "vmtp",
        "sctp",
        "bare",
        "xtp-datagram,acknowledged=on",
    ] {
        refused(&[label], &["waits for what comes back", "xtp-datagram"]);
    }
    refused(
        &["vmtp-aal34,repair=cells,repeat=1"],
        &["waits for what comes back"],
    );
    refused(&["exec:iperf3"], &["leave it out of -w send"]);
    refused(
        &["vmtp,repeat=1", "--link", "rate=10mbit"],
        &["--link would do nothing"],
    );
    refused(
        &["vmtp,repeat=1", "--reverse"],
        &["--reverse would do nothing"],
    );
    refused(&[], &["tcp is the kernel's"]);
}
