//! TCP that sends without a copy or from a file, and rows that only say why they do not run.

use crate::support::{Scratch, assert_has, json, race, towpath, trials_of};

#[test]
fn share_that_the_kernel_copied_is_evidence_and_a_note() {
    let scratch = Scratch::new();
    let words = ["tcp-zerocopy", "tcp-sendfile", "-w", "throughput"];
    let more = ["--sizes", "64KiB", "--no-control", "--trial", "100ms"];
    let run = race(&scratch, "copies", &[&words[..], &more].concat());
    let trials = trials_of(&run, "tcp-zerocopy");
    assert!(!trials.is_empty());
    for trial in trials {
        let evidence = |name: &str| trial.evidence[name];
        assert!(evidence("zerocopy_sends") + evidence("zerocopy_refused") > 0.0);
        let copied = evidence("zerocopy_copied_fraction");
        assert!((0.0..=1.0).contains(&copied), "{copied}");
        assert_eq!(trial.effective["sender.zerocopy"], "on");
    }
    for trial in trials_of(&run, "tcp-sendfile") {
        assert_eq!(trial.effective["sender.sendfile"], "on");
        assert!(!trial.evidence.contains_key("zerocopy_sends"));
    }
    let notes = report::notes(&run);
    let note = notes.iter().find(|line| line.contains("the kernel copied"));
    let note = note.unwrap_or_else(|| panic!("{notes:?}"));
    assert!(
        note.starts_with("zero-copy sends of tcp-zerocopy: "),
        "{note}"
    );
}

/// A mix has two messages in random order, each with its file; the other direction sends from the
/// listening side.
#[test]
fn mixes_and_the_other_direction_arrive_whole() {
    let scratch = Scratch::new();
    for (name, option) in [("mix", ["--mix", "64,1448"]), ("back", ["--reverse", "-6"])] {
        let words = words!("tcp-zerocopy tcp-sendfile -w throughput --no-control");
        let run = race(&scratch, name, &[&words[..], &option].concat());
        for transport in ["tcp-zerocopy", "tcp-sendfile"] {
            for trial in trials_of(&run, transport) {
                let ledger = trial.ledger.expect("a ledger");
                assert_eq!(ledger.delivered, ledger.sent, "{name} {transport}");
                assert!(ledger.sent > 0);
            }
        }
    }
}

#[test]
fn rows_that_the_host_cannot_run_say_what_the_kernel_answered() {
    let all = json(&["transports", "--json"]);
    let rows = all.as_array().expect("a list");
    let answers = [
        ("smc", "SMC socket"),
        ("quic-kernel", "QUIC"),
        ("sctp-kernel", "SCTP socket"),
    ];
    for (name, what) in answers {
        let row = rows.iter().find(|row| row["name"] == name).expect("a row");
        if row["available"] == true {
            eprintln!("SKIPPED: this host has {name}");
            continue;
        }
        let reason = row["reason"].as_str().expect("a reason");
        assert!(reason.contains(what), "{reason}");
        let said = towpath(&["race", "tcp", name]);
        assert_ne!(said.code, 0, "{}", said.out);
        assert_has(&said.err, what);
    }
}
