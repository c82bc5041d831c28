//! Links side by side: who uses them, and what the result says of each.

use crate::support::{Scratch, assert_has, program, race, towpath, trials_of};
use crate::testbeds::{can_create_hosts, evidence, in_testbeds, linked};
use results::{RunData, Status};
use std::fs;
use std::process::Stdio;

const TWO: &str = "rate=20mbit,delay=2ms+rate=20mbit,delay=2ms,loss=0.5%";

fn has_mptcp() -> bool {
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled").unwrap_or_default();
    let has = enabled.trim() == "1";
    if !has {
        eprintln!("SKIPPED: this kernel has no Multipath TCP");
    }
    has
}

/// A race over two links; its terminal text, and its result.
fn raced_over_two(scratch: &Scratch, arguments: &[&str]) -> (String, RunData) {
    let mut command = program();
    command.args(["race", "--link", TWO, "--no-calibration", "--no-control"]);
    command.args(["--blocks", "1", "--sizes", "16KiB", "-w", "throughput"]);
    command.args(["--trial", "800ms", "--out", &scratch.text("run")]);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let said: crate::support::CommandOutput = output.expect("the program starts").into();
    assert_eq!(said.code, 0, "{}", said.err);
    let run = RunData::read(&scratch.path("run")).expect("a result");
    (said.out, run)
}

/// A trial of mptcp has data on both links, where the handshake of a subflow has a few hundred octets. On a busy machine one may be
/// over before its second subflow is there.
#[track_caller]
fn has_sent_over_both_links(run: &RunData) {
    let octets: Vec<[f64; 2]> = trials_of(run, "mptcp")
        .iter()
        .map(|trial| ["link_1_octets", "link_2_octets"].map(|name| evidence(trial, name)))
        .collect();
    let is_over_both = |trial: &[f64; 2]| trial.iter().all(|octets| *octets > 50_000.0);
    assert!(octets.iter().any(is_over_both), "{octets:?}");
    assert!(
        octets.iter().all(|[first, _]| *first > 50_000.0),
        "{octets:?}"
    );
}

#[test]
fn mptcp_sends_over_both_links_and_tcp_over_the_first() {
    if !can_create_hosts() || !has_mptcp() {
        return;
    }
    let scratch = Scratch::new();
    let (said, run) = raced_over_two(&scratch, &["tcp", "mptcp"]);
    for trial in trials_of(&run, "tcp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert!(evidence(trial, "link_1_octets") > 100_000.0);
        assert_eq!(trial.evidence.get("link_2_octets"), Some(&0.0));
        assert_eq!(evidence(trial, "further_links_share"), 0.0);
    }
    has_sent_over_both_links(&run);
    for trial in trials_of(&run, "mptcp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        let ledger = trial.ledger.expect("a ledger");
        assert_eq!(ledger.sent, ledger.delivered);
        assert_eq!(evidence(trial, "link_1_lost"), 0.0);
        assert_eq!(evidence(trial, "link_2_lost"), evidence(trial, "link_lost"));
    }
    let cells = run.trials.iter().map(|trial| trial.cell.text("link"));
    assert!(cells.into_iter().all(|link| link == TWO));
    assert!(
        said.contains("octets of tcp: link 1 100 %, link 2 0 %"),
        "{said}"
    );
    assert!(said.contains("octets of mptcp: link 1 "), "{said}");
    let report = fs::read_to_string(scratch.path("run/report.html")).expect("a report");
    assert!(
        report.contains("link 2 octets"),
        "the report lacks the second link"
    );
    let path = &run.plan.options["path"];
    assert!(path.contains("side by side"), "{path}");
}

#[test]
fn mptcp_over_ipv6_uses_both_links() {
    if !can_create_hosts() || !has_mptcp() {
        return;
    }
    let scratch = Scratch::new();
    let (_, run) = raced_over_two(&scratch, &["mptcp", "-6", "--no-report"]);
    has_sent_over_both_links(&run);
    for trial in trials_of(&run, "mptcp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
    }
}

/// The second link carries HEARTBEATs while the first one answers: four at least, of 74 octets over IPv4.
#[test]
fn sctp_sends_over_the_first_link_and_watches_the_second() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    for family in [
        &["sctp,heartbeat=100ms"][..],
        &["sctp,heartbeat=100ms", "-6"],
    ] {
        let arguments = [family, &["--no-report"]].concat();
        let (_, run) = raced_over_two(&scratch, &arguments);
        for trial in trials_of(&run, "sctp") {
            assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
            let carried = evidence(trial, "link_1_octets");
            assert!(carried > 100_000.0, "{carried} octets");
            // On a busy machine a timeout sends some data over the second.
            let watched = evidence(trial, "link_2_octets");
            assert!((296.0..carried).contains(&watched), "{watched} octets");
            let ledger = trial.ledger.expect("a ledger");
            assert_eq!(ledger.sent, ledger.delivered);
        }
        fs::remove_dir_all(scratch.path("run")).expect("it is there");
    }
}

#[test]
fn losses_of_each_link_are_its_own_and_calibrated() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let link = "loss=5%+loss=1%,delay=1ms";
    let run = linked(
        &scratch,
        link,
        &["udp", "-w", "throughput", "--trial", "300ms"],
    );
    for trial in trials_of(&run, "udp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        let ledger = trial.ledger.expect("a ledger");
        assert_eq!(ledger.lost_link as f64, evidence(trial, "link_1_lost"));
        assert_eq!(ledger.unaccounted, 0);
        assert_eq!(trial.evidence.get("link_2_octets"), Some(&0.0));
    }
    let facts = run.machine.facts.iter().filter(|fact| fact.group == "link");
    let names: Vec<&str> = facts.map(|fact| fact.name.as_str()).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    for name in [
        "link 1, round trip",
        "link 2, rate back",
        "link 2, loss there",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn kernel_links_say_what_their_interfaces_sent() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let arguments = ["tcp", "--no-calibration", "-w", "throughput"];
    let run = linked(&scratch, "kernel,rate=100mbit+kernel", &arguments);
    for trial in trials_of(&run, "tcp") {
        assert!(
            evidence(trial, "link_1_octets") > 10_000.0,
            "{:?}",
            trial.evidence
        );
        assert_eq!(trial.evidence.get("link_2_octets"), Some(&0.0));
    }
}

#[test]
fn interface_picks_the_second_link_and_captures_have_both() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let capture = scratch.text("both.pcapng");
    let arguments = words!(
        "raw-ether --link delay=1ms+true --interface eth1 --capture",
        &capture,
        "--no-calibration --no-control -w delay --sizes 100 --trial 100ms"
    );
    let run = race(&scratch, "run", &arguments);
    for trial in trials_of(&run, "raw-ether") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert_eq!(trial.evidence.get("link_1_octets"), Some(&0.0));
        assert!(evidence(trial, "link_2_octets") > 100.0);
    }
    let octets = fs::read(scratch.path("both.pcapng")).expect("a capture");
    for name in ["eth0", "eth1"] {
        let is_there = octets.windows(4).any(|window| window == name.as_bytes());
        assert!(is_there, "{name} is not in the capture");
    }
}

#[test]
fn testbed_with_two_links_describes_each() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| in_testbeds(&scratch, arguments);
    let up = run(&words!(
        "up --name two --link delay=1ms+ether10 --hosts 3 --star"
    ))
    .exited(0);
    for wanted in [
        "c 10.77.0.3 10.78.0.3",
        "link 1, there: 0 frames",
        "link 2, ether: ",
    ] {
        assert_has(&up.out, wanted);
    }
    // Host c is at the other end of a, as in a star, over both links.
    for address in ["10.77.0.1", "10.78.0.1"] {
        let ping = [
            "exec", "--name", "two", "c", "--", "ping", "-c", "1", "-W", "5", address,
        ];
        let said = run(&ping);
        if said.err.contains("cannot start ping") {
            eprintln!("SKIPPED: {}", said.err);
        } else {
            assert_eq!(said.code, 0, "{address}: {}", said.out);
        }
    }
    assert_eq!(run(&["down", "--name", "two"]).code, 0);
}

#[test]
fn links_side_by_side_refused_with_remedy() {
    let five = ["delay=0"; 5].join("+");
    for (link, words) in [
        ("rate=1mbit+", "link 2 is empty"),
        ("+rate=1mbit", "link 1 is empty"),
        ("rate=1mbit+speed=3", "link 2: "),
        (&five, "4 at most"),
    ] {
        for command in ["race", "testbed"] {
            let mut arguments = vec![command];
            arguments.extend(match command {
                "race" => ["tcp", "--link", link],
                _ => ["up", "--link", link],
            });
            towpath(&arguments).failed(2, words);
        }
    }
    towpath(&["race", "tcp", "--to", "lab2", "--link", "delay=0+delay=0"]).failed(2, "--link");
    if !can_create_hosts() {
        return;
    }
    towpath(&["race", "tcp", "--link", "delay=0+super,loss=1%"]).failed(2, "link 2: super-frames");
}
