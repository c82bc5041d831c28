//! Races that record what connections say of themselves.

use crate::agents::{Agent, exchange_keys, with_keys};
use crate::support::{Scratch, is_valid_trial, race, towpath};
use crate::testbeds::{can_create_hosts, linked};
use results::{RunData, Trial};

const SHORT: [&str; 9] = [
    "--sizes",
    "1000",
    "--trial",
    "80ms",
    "--blocks",
    "1",
    "--seed",
    "5",
    "--no-control",
];

/// Values that every connection of a reliable transport has, and the goodput.
const OF_EVERY_CONNECTION: [&str; 5] = [
    "goodput",
    "send_window",
    "in_flight",
    "smoothed_rtt",
    "retransmissions",
];

fn trial_of<'a>(run: &'a RunData, workload: &str, transport: &str) -> &'a Trial {
    let is_it = |trial: &&Trial| {
        let cell = &trial.cell;
        trial.block > 0 && cell.workload() == workload && cell.transport() == transport
    };
    run.trials.iter().find(is_it).expect("a trial of it")
}

#[track_caller]
fn has_series(trial: &Trial, names: &[&str]) {
    assert!(is_valid_trial(trial), "{:?}: {}", trial.cell, trial.reason);
    for name in names {
        let series = trial.series.get(*name);
        let series = series.unwrap_or_else(|| panic!("no {name} of {:?}", trial.cell));
        assert!(!series.values.is_empty(), "{name}");
        assert_eq!(series.values.len(), series.at_s.len(), "{name}");
        assert!(series.at_s.is_sorted(), "{name}: {:?}", series.at_s);
        let end_s = series.at_s.last().copied().unwrap_or_default();
        assert!(
            end_s <= trial.span_s * 1.01,
            "{name}: {end_s} of {}",
            trial.span_s
        );
    }
    assert!(!trial.effective.contains_key("sender.no_series"));
}

#[test]
fn series_of_tcp_and_xtp_are_there_and_udp_says_why_not() {
    let scratch = Scratch::new();
    let mut words = vec!["tcp", "xtp", "udp", "--series", "-w", "throughput,delay"];
    words.extend(SHORT);
    let run = race(&scratch, "series", &words);
    assert_eq!(run.plan.options["series"], "on");
    for workload in ["throughput", "delay"] {
        let tcp = trial_of(&run, workload, "tcp");
        has_series(tcp, &OF_EVERY_CONNECTION);
        has_series(tcp, &["congestion_window", "delivery_rate"]);
        let window = tcp.series["congestion_window"].values.iter();
        assert!(window.clone().all(|octets| *octets > 0.0), "{window:?}");
        has_series(trial_of(&run, workload, "xtp"), &OF_EVERY_CONNECTION);
        let udp = trial_of(&run, workload, "udp");
        let names: Vec<&String> = udp.series.keys().collect();
        assert_eq!(names, ["goodput", "messages_per_s"]);
        let why = &udp.effective["sender.no_series"];
        assert!(why.starts_with("has no connection"), "{why}");
        let how = &run.plan.options[&format!("turns.{workload}")];
        assert!(how.starts_with("back to back: series"), "{how}");
    }
    let notes = report::notes(&run);
    let said = |note: &&String| note.starts_with("no series of udp's connection: it has no");
    assert_eq!(notes.iter().filter(said).count(), 1, "{notes:?}");
    let html = report::html(&run);
    for words in [
        "Connections over time",
        "Congestion window (kB)",
        "Smoothed round trip (ms)",
    ] {
        assert!(html.contains(words), "the page has {words}");
    }
    let files = report::charts(&run);
    let of_rtt = |file: &&report::ChartFile| file.name.contains("smoothed-round-trip");
    let csv = &files.iter().find(of_rtt).expect("a chart of it").csv;
    assert!(csv.contains("xtp") && csv.contains("tcp"), "{csv}");
}

#[test]
fn engines_with_a_controller_and_quic_have_a_window() {
    let scratch = Scratch::new();
    let mut words = vec![
        "xtp,congestion=newreno",
        "sctp",
        "quic",
        "--series",
        "-w",
        "throughput",
    ];
    words.extend(SHORT);
    let run = race(&scratch, "windows", &words);
    for transport in ["xtp,congestion=newreno", "sctp", "quic"] {
        let trial = trial_of(&run, "throughput", transport);
        has_series(
            trial,
            &[
                "goodput",
                "congestion_window",
                "smoothed_rtt",
                "retransmissions",
            ],
        );
    }
}

#[test]
fn both_directions_several_circuits_and_offered_loads_have_series_of_the_first_sender() {
    let scratch = Scratch::new();
    for (name, options) in [
        ("reverse", &["--reverse", "-w", "throughput"][..]),
        (
            "both",
            &["--bidir", "-w", "throughput", "--circuits", "2"][..],
        ),
        ("offered", &["-w", "offered", "--rate", "2k"][..]),
    ] {
        let mut words = vec!["tcp", "--series"];
        words.extend(options);
        // A load that is 10 ms late, as beside other tests, is within its hundredth of a second.
        words.extend(SHORT.map(|word| if word == "80ms" { "1s" } else { word }));
        let run = race(&scratch, name, &words);
        let trial = run.trials.iter().find(|trial| trial.block > 0);
        has_series(
            trial.expect("a trial"),
            &["goodput", "congestion_window", "smoothed_rtt"],
        );
    }
}

#[test]
fn tls_and_mptcp_have_the_series_of_their_tcp() {
    let mut words = vec!["tls", "--series", "-w", "throughput"];
    let switch = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    if switch.is_ok_and(|switch| switch.trim() == "1") {
        words.insert(1, "mptcp");
    } else {
        eprintln!("SKIPPED: this kernel has no MPTCP, or net.mptcp.enabled is 0");
    }
    let transports: Vec<&str> = words[..words.len() - 3].to_vec();
    words.extend(SHORT);
    let scratch = Scratch::new();
    let run = race(&scratch, "over-tcp", &words);
    for transport in transports {
        let trial = trial_of(&run, "throughput", transport);
        has_series(trial, &OF_EVERY_CONNECTION);
        has_series(trial, &["congestion_window", "delivery_rate"]);
    }
}

/// The sending worker runs at an agent, and then here.
#[test]
fn senders_of_another_host_give_their_series() {
    let scratch = Scratch::new();
    let (near, far) = (scratch.text("near"), scratch.text("far"));
    exchange_keys(&near, &far);
    let agent = Agent::start(&far, &[], 2);
    for (name, direction) in [("to", &[][..]), ("back", &["--reverse"])] {
        let out = scratch.text(name);
        let mut words = vec!["race", "tcp", "xtp", "--to", agent.address(), "--series"];
        words.extend(["-w", "throughput", "--out", &out]);
        words.extend(direction);
        words.extend(SHORT);
        with_keys(&near, &words).exited(0);
        let run = RunData::read(&scratch.path(name)).expect("a result");
        for transport in ["tcp", "xtp"] {
            has_series(
                trial_of(&run, "throughput", transport),
                &OF_EVERY_CONNECTION,
            );
        }
    }
}

/// Neither end is here.
#[test]
fn senders_between_two_agents_give_their_series() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let [from, to] = [0; 2].map(|_| Agent::start(&none, &[], 1));
    let out = scratch.text("between");
    let mut words = vec!["race", "tcp", "xtp", "--series", "-w", "throughput"];
    words.extend([
        "--from",
        from.address(),
        "--to",
        to.address(),
        "--out",
        &out,
    ]);
    words.extend(SHORT);
    with_keys(&none, &words).exited(0);
    let run = RunData::read(&scratch.path("between")).expect("a result");
    for transport in ["tcp", "xtp"] {
        has_series(
            trial_of(&run, "throughput", transport),
            &OF_EVERY_CONNECTION,
        );
    }
}

#[test]
fn queues_of_links_are_there_or_the_reason() {
    if !can_create_hosts() {
        return;
    }
    let words = words!("tcp --series -w throughput --no-calibration --seed 5");
    for link in [
        "rate=10mbit,queue=60kB",
        "kernel,rate=10mbit,queue=60kB",
        "ether10",
        "ether3",
    ] {
        for reverse in [false, true] {
            let scratch = Scratch::new();
            let mut words = words.to_vec();
            words.extend(["--trial", "200ms", "--blocks", "1"]);
            words.extend(reverse.then_some("--reverse"));
            let run = linked(&scratch, link, &words);
            let trial = trial_of(&run, "throughput", "tcp");
            let queue = trial.series.get("link_queue");
            let queue = queue.unwrap_or_else(|| panic!("no queue of {link}: {}", trial.reason));
            let most_kb = queue.values.iter().copied().fold(0.0, f64::max);
            // Data wait in the direction of the data. The Ethernets hold 50 full frames.
            assert!((3.0..=76.0).contains(&most_kb), "{link}: {most_kb}");
            assert!(!trial.effective.contains_key("link.no_series"), "{link}");
        }
    }
    for link in ["delay=1ms", "kernel"] {
        let scratch = Scratch::new();
        let run = linked(&scratch, link, &words);
        let trial = trial_of(&run, "throughput", "tcp");
        assert!(!trial.series.contains_key("link_queue"), "{link}");
        let why = &trial.effective["link.no_series"];
        assert!(why.contains("no rate"), "{link}: {why}");
        let notes = report::notes(&run);
        let said = |note: &&String| note.starts_with("no series of the link's queue: it is empty");
        assert_eq!(notes.iter().filter(said).count(), 1, "{notes:?}");
    }
}

#[test]
fn race_without_series_records_none() {
    let scratch = Scratch::new();
    let mut words = vec!["tcp", "udp", "-w", "throughput", "--turns", "off"];
    words.extend(SHORT);
    let run = race(&scratch, "plain", &words);
    assert!(!run.plan.options.contains_key("series"));
    for trial in &run.trials {
        let names: Vec<&String> = trial.series.keys().collect();
        assert_eq!(names, ["messages_per_s"], "{:?}", trial.cell);
        assert!(!trial.effective.contains_key("sender.no_series"));
    }
    assert!(!report::html(&run).contains("Connections over time"));
}

#[test]
fn series_that_cannot_be_are_refused_with_the_remedy() {
    for (words, wanted) in [
        (
            &["tcp", "--series", "-w", "connect"][..],
            "add -w throughput",
        ),
        (
            &["tcp", "udp", "--series", "--turns", "on", "-w", "delay"][..],
            "(--series)",
        ),
    ] {
        let scratch = Scratch::new();
        let out = scratch.text("none");
        let said = towpath(&[&["race"], words, &["--out", &out]].concat()).exited(2);
        assert!(
            said.err.contains(wanted) && said.err.lines().count() <= 2,
            "{}",
            said.err
        );
    }
}
