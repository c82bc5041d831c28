//! Scenarios from their text to their results.

use crate::texts;
use scenario::sweep::{self, Axis};
use scenario::{RunOutcome, parse, run, trace};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Stations with `engine`, on `medium`, station 0 sending to 1.
fn text(medium: &str, engine: &str, traffic: &str) -> String {
    format!(
        r#"
name = "test"
seed = 7
time_limit = "100 s"

[medium]
{medium}
{}
{traffic}
"#,
        texts::pair(engine)
    )
}

const STEADY: &str = r#"
length = { uniform = ["100 B", "4 KiB"] }
interarrival = { exponential = "10 ms" }
messages = 200
"#;

fn outcome(text: &str) -> RunOutcome {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&scenario, &[], scenario.seed, |_| {}).expect("it builds")
}

#[test]
fn every_engine_delivers_over_every_medium() {
    let media = [
        r#"kind = "ether10""#,
        r#"kind = "ether3""#,
        "kind = \"fddi\"\npositions = [\"0 us\", \"50 us\"]\ndelay = \"50 us\"",
        "kind = \"direct\"\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"",
        "kind = \"switch\"\nrate = \"100 Mbit/s\"\ndelay = \"5 us\"",
        "kind = \"switch\"\nrate = \"100 Mbit/s\"\ncut_through = 22",
    ];
    for medium in media {
        for engine in ["bare", "xtp", "xtp3"] {
            let engine = format!("protocol = {engine:?}");
            let outcome = outcome(&text(medium, &engine, STEADY));
            let receiver = &outcome.circuits[0].receivers[0];
            assert_eq!(outcome.ending, "complete", "{medium} {engine}");
            assert_eq!(receiver.messages, 200, "{medium} {engine}");
            assert_eq!(
                (receiver.gaps, receiver.wrong_bytes),
                (0, 0),
                "{medium} {engine}"
            );
        }
    }
}

#[test]
fn reliable_engines_recover_from_loss_and_reordering() {
    let medium = "kind = \"direct\"\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"";
    let faults = "\n[faults]\nloss = \"3%\"\nduplicate = \"1%\"\nreorder = \"1%\"\n\
                  reorder_by = \"3 ms\"\n";
    for engine in [
        "protocol = \"xtp\"",
        "protocol = \"xtp3\", wtimer = \"50 ms\"",
    ] {
        let text = text(medium, engine, STEADY) + faults;
        let outcome = outcome(&text);
        let receiver = &outcome.circuits[0].receivers[0];
        assert_eq!(receiver.messages, 200, "{engine}: {outcome:?}");
        assert_eq!((receiver.gaps, receiver.wrong_bytes), (0, 0), "{engine}");
        assert!(outcome.stations[0].retransmissions > 0, "{engine}");
    }
}

#[test]
fn switch_cut_through_saves_serialisation_time() {
    let one = "length = { fixed = \"1000 B\" }\ninterarrival = { fixed = \"1 ms\" }\nmessages = 1";
    let delay = |extra: &str| {
        let medium = format!("kind = \"switch\"\nrate = \"10 Mbit/s\"\n{extra}");
        let outcome = outcome(&text(&medium, "protocol = \"xtp3\"", one));
        let delay = outcome.total.delay.expect("a message arrived");
        delay.mean_us
    };
    // 1040 octets of packet, 18 of frame, 20 of preamble and gap, at 0.8 us each.
    let frame = (1040.0 + 18.0 + 20.0) * 0.8;
    assert!((delay("") - 2.0 * frame).abs() < 1e-3);
    assert!((delay("cut_through = 22") - (frame + 22.0 * 0.8)).abs() < 1e-3);
}

#[test]
fn host_cost_limits_throughput() {
    // 1 ms for a message's copy at either end, and the link takes 0.1 ms: 1000 messages a second.
    let medium = "kind = \"direct\"\nrate = \"100 Mbit/s\"";
    let traffic = "length = { fixed = \"1000 B\" }\ninterarrival = { fixed = \"10 us\" }\n\
                   messages = 500";
    let chips = "\n[[station]]\ncount = 2\nengine = { protocol = \"bare\" }\n\
                 chips = { copy_delay = \"1 us\" }\n";
    let text = text(medium, "protocol = \"bare\"", traffic);
    let (before, rest) = text.split_once("[[station]]").expect("it has stations");
    let traffic = rest.split_once("[[traffic]]").expect("it has traffic").1;
    let text = format!("{before}{chips}\n[[traffic]]{traffic}");
    let outcome = outcome(&text);
    let receiver = &outcome.circuits[0].receivers[0];
    let rate = receiver.throughput_bps / 1000.0;
    assert!(
        (rate / 1000.0 - 1.0).abs() < 0.01,
        "{rate} messages a second"
    );
    assert!(outcome.stations[0].busy[0] > 0.98, "{outcome:?}");
}

/// Messages a second of stations with `engine` and `chips` that have 500 short messages waiting.
fn rate_of(engine: &str, chips: &str) -> f64 {
    let medium = "kind = \"direct\"\nrate = \"100 Mbit/s\"";
    let traffic =
        "length = { fixed = \"1000 B\" }\ninterarrival = { fixed = \"10 us\" }\nmessages = 500";
    let text = text(medium, engine, traffic)
        .replace(" }\n\n[[traffic]]", &format!(" }}\n{chips}\n\n[[traffic]]"));
    let outcome = outcome(&text);
    assert_eq!(outcome.ending, "complete", "{engine} {chips}");
    outcome.circuits[0].receivers[0].throughput_bps / 1000.0
}

#[test]
fn separation_of_packets_limits_throughput() {
    let free = rate_of("protocol = \"xtp\"", "");
    assert!(free > 9_000.0, "{free}");
    let rate = rate_of("protocol = \"xtp\"", "chips = { separation = \"1 ms\" }");
    assert!(
        (rate / 1000.0 - 1.0).abs() < 0.01,
        "{rate} messages a second"
    );
}

#[test]
fn credit_of_xtp3_is_spent_once_in_a_sixtieth_of_a_second() {
    let free = rate_of("protocol = \"xtp3\"", "");
    assert!(free > 1_000.0, "{free}");
    // A message begins while there is credit, and may overdraw it.
    for (credit, most) in [("1500 B", 120.0), ("3000 B", 180.0)] {
        let rate = rate_of(&format!("protocol = \"xtp3\", credit = \"{credit}\""), "");
        assert!(
            (rate / most - 1.0).abs() < 0.03,
            "{credit}: {rate} messages a second"
        );
    }
}

#[test]
fn ctimer_of_xtp3_closes_a_circuit_whose_peer_is_silent() {
    let partition = "\n[[disturbance]]\nkind = \"partition\"\nat = \"500 ms\"\nlasts = \"1000 s\"\nstations = [1]\n";
    let given_up = |engine: &str| {
        let medium = "kind = \"direct\"\nrate = \"10 Mbit/s\"";
        let outcome = outcome(&(text(medium, engine, STEADY) + partition));
        assert!(outcome.total.settled < 200);
        outcome.total.given_up
    };
    let silent = "protocol = \"xtp3\", wtimer = \"50 ms\"";
    assert!(given_up(&format!("{silent}, ctimer = \"2 s\"")) > 100);
    // Without it the circuit asks for ever.
    assert_eq!(given_up(silent), 0);
}

/// The study's multicast at the load where its plateau is lowest, with `changes`.
fn multicast_of_the_study(changes: &[&str]) -> RunOutcome {
    let path = "../../studies/dcruz-1992/multicast-35.toml";
    let text = std::fs::read_to_string(path).expect("the study's scenario");
    let scenario = parse(&text).expect("it is valid");
    let load = [
        "messages=3000",
        "traffic.0.interarrival.exponential=8006 TU",
    ];
    let changes: Vec<String> = load.iter().chain(changes).map(|&s| s.to_owned()).collect();
    let seed = scenario.seed;
    let scenario = sweep::apply_changes(&text, &changes).expect("the keys exist");
    run(&scenario, &[], seed, |_| {}).expect("it builds")
}

/// Copies of 2694 TU for 1024 bytes, at all stations.
const STUDY_COPIES: [&str; 6] = [
    "station.0.chips.copy_delay=2694 TU",
    "station.0.chips.copy_bytes=1024",
    "station.1.chips.copy_delay=2694 TU",
    "station.1.chips.copy_bytes=1024",
    "station.2.chips.copy_delay=2694 TU",
    "station.2.chips.copy_bytes=1024",
];

#[test]
fn copies_of_unsent_messages_take_the_answering_processor() {
    // D'Cruz, table 13: 759,570 B/s; with no messages but the sender's it would be 6 % more.
    let loaded = multicast_of_the_study(&STUDY_COPIES);
    let bps = loaded.circuits[0].packet_bps;
    assert!((bps / 759_570.0 - 1.0).abs() < 0.01, "{bps}");
    let writer = loaded.stations[1].busy[0];
    assert!(
        (writer / loaded.stations[0].busy[0] - 0.5).abs() < 0.05,
        "{writer}"
    );
    let mut rare = STUDY_COPIES.to_vec();
    rare.push("traffic.0.unsent.share=0.000001");
    let alone = multicast_of_the_study(&rare);
    let gain = alone.circuits[0].packet_bps / bps;
    assert!((1.04..1.08).contains(&gain), "{gain}");
}

#[test]
fn unsent_messages_without_copy_cost_change_nothing() {
    let mut outcomes = ["0.5", "0.001"].map(|share| {
        let share = format!("traffic.0.unsent.share={share}");
        multicast_of_the_study(&[share.as_str()])
    });
    for outcome in &mut outcomes {
        // Events of the unsent messages themselves.
        outcome.events = 0;
    }
    let [many, few] = outcomes.map(|outcome| serde_json::to_string(&outcome).expect("JSON"));
    assert_eq!(many, few);
}

#[test]
fn multicast_delivers_to_all_receivers() {
    let text = r#"
time_limit = "100 s"
[medium]
kind = "ether10"
[[station]]
engine = { protocol = "xtp3", multicast = true }
[[station]]
count = 4
engine = { protocol = "xtp3", multicast = true, answers = true }
[[traffic]]
from = [0]
to = "all"
length = { fixed = "3000 B" }
interarrival = { fixed = "30 ms" }
messages = 50
"#;
    for answerers in ["1", "4"] {
        let changed = text.replace(
            "multicast = true }",
            &format!("multicast = true, answerers = {answerers} }}"),
        );
        let outcome = outcome(&changed);
        assert_eq!(outcome.ending, "complete");
        assert_eq!(outcome.total.received, 200);
        for receiver in &outcome.circuits[0].receivers {
            assert_eq!((receiver.messages, receiver.wrong_bytes), (50, 0));
        }
    }
}

/// One sender and `count` receivers, each of which loses 2 % on its own, with these options.
fn lossy_group(count: u64, sender: &str, receiver: &str) -> RunOutcome {
    outcome(&format!(
        r#"
time_limit = "100 s"
[medium]
kind = "ether10"
[faults]
loss = "2%"
[[station]]
engine = {{ protocol = "xtp3", multicast = true, wtimer = "40 ms"{sender} }}
[[station]]
count = {count}
engine = {{ protocol = "xtp3", multicast = true, answers = true{receiver} }}
[[traffic]]
from = [0]
to = "all"
length = {{ fixed = "1000 B" }}
interarrival = {{ fixed = "60 ms" }}
messages = 100
"#
    ))
}

#[test]
fn lossy_group_recovers_with_and_without_damping() {
    let all = lossy_group(20, ", answerers = 20", "");
    let slotted = lossy_group(
        20,
        ", hold = \"20 ms\"",
        ", slot = \"10 ms\", damping = true",
    );
    for outcome in [&all, &slotted] {
        assert_eq!(outcome.ending, "complete");
        assert_eq!(outcome.total.settled, 100);
    }
    assert_eq!(all.total.received, 2000, "every receiver gets everything");
    assert!(slotted.total.received >= 1900, "{}", slotted.total.received);
    let answers = |outcome: &RunOutcome| -> u64 {
        let receivers = outcome.stations[1..].iter();
        receivers.map(|station| station.packets_built).sum()
    };
    // Twenty control packets a request without damping, a few with it.
    assert!(answers(&all) > 2000, "{}", answers(&all));
    assert!(answers(&slotted) < 800, "{}", answers(&slotted));
    let collisions = |outcome: &RunOutcome| outcome.ether.as_ref().map_or(0, |e| e.collisions);
    assert!(collisions(&slotted) * 10 < collisions(&all));
}

/// A hash of all packet events.
fn trace_hash(text: &str, seed: u64) -> (u64, usize) {
    let scenario = parse(text).expect("a good scenario");
    let observed = Arc::new(Mutex::new((trace::HASH_START, 0)));
    let watcher = Arc::clone(&observed);
    run(&scenario, &[], seed, move |network| {
        network.observe(move |observation| {
            let mut observed = watcher.lock().expect("nobody panicked");
            observed.0 = trace::hash(observed.0, trace::line(observation).as_bytes());
            observed.1 += 1;
        });
    })
    .expect("it builds");
    let observed = observed.lock().expect("nobody panicked");
    *observed
}

#[test]
fn same_seed_gives_same_trace_in_parallel_runs() {
    let text = text(r#"kind = "ether10""#, r#"protocol = "xtp""#, STEADY)
        .replace("from = [0]\nto = [1]", "from = [0, 1]\nto = [0, 1]");
    let alone = trace_hash(&text, 3);
    assert!(alone.1 > 1000, "{alone:?}");
    let beside: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| trace_hash(&text, 3)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|hash| hash.expect("it ran")).collect()
    });
    assert_eq!(beside, [alone; 4]);
    assert_ne!(trace_hash(&text, 4).0, alone.0);
}

#[test]
fn sweep_rows_independent_of_threads_and_resumable() {
    let text = text(r#"kind = "ether10""#, r#"protocol = "xtp3""#, STEADY);
    let axes = [Axis {
        key: "traffic.0.messages".to_owned(),
        values: vec!["20".to_owned(), "40".to_owned()],
    }];
    let jobs = sweep::jobs(&text, &axes, &[1, 2, 3]).expect("a good sweep");
    let rows = |threads, known: &BTreeSet<String>| {
        let mut rows = Vec::new();
        sweep::run_all(&jobs, known, threads, |row| {
            rows.push(serde_json::to_string(&row).expect("a row is JSON"));
            Ok(())
        })
        .expect("it runs");
        rows.sort();
        rows
    };
    let all = rows(1, &BTreeSet::new());
    assert_eq!(all.len(), 6);
    assert_eq!(rows(4, &BTreeSet::new()), all);
    let known: BTreeSet<String> = jobs[..4].iter().map(|job| job.key.clone()).collect();
    let rest = rows(2, &known);
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|row| all.contains(row)));
}

#[test]
fn scenario_error_names_line_and_column() {
    let good = text(r#"kind = "ether10""#, r#"protocol = "xtp3""#, STEADY);
    for (old, new, expected_error) in [
        ("\"ether10\"", "\"ether100\"", "7:8: no medium"),
        (
            "\"ether10\"",
            "\"fddi\"\npositions = [\"2 us\", \"1 us\"]",
            "7:8: medium.positions of a ring ascend",
        ),
        (
            "\"ether10\"",
            "\"fddi\"\nttrt = \"1 us\"",
            "7:8: medium.ttrt is no longer than one rotation",
        ),
        (
            "\"100 s\"",
            "\"100 parsecs\"",
            "4:14: '100 parsecs' is no time; give a number and one of ps, ns, us,",
        ),
        (
            "time_limit",
            "time_limits",
            "4:1: unknown field `time_limits`",
        ),
        (
            "to = [1]",
            "to = [9]",
            "15:6: no station 9; there are 0 to 1",
        ),
        (
            "from = [0]",
            "from = \"all\"",
            "14:8: \"all\" is no sender; use \"others\"",
        ),
        ("to = [1]", "to = \"some\"", "15:6: \"some\" is no receiver"),
        (
            "to = [1]",
            "to = [1]\nunsent = { from = [1], share = 0.0 }",
            "16:10: unsent.share is 0; use a number above 0, at most 1000",
        ),
        (
            "to = [1]",
            "to = [1]\nunsent = { from = [7], share = 1.0 }",
            "16:10: no station 7; there are 0 to 1",
        ),
        (
            "to = [1]",
            "to = [0]",
            "15:6: a sender has no receiver but itself",
        ),
        (
            "\"xtp3\"",
            "\"tp4\"",
            "11:23: no protocol \"tp4\"; use bare, call, sctp, udp, vmtp, xtp, xtp-forwarder, xtp-group or xtp3",
        ),
        (
            "count = 2",
            "count = 1",
            "1:1: 1 stations; a network has 2 to",
        ),
        ("[medium]", "[medium", "6:8: "),
    ] {
        let refusal = parse(&good.replace(old, new)).expect_err(new);
        assert!(refusal.starts_with(expected_error), "{new}: {refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
    let error = sweep::apply_changes(&good, &["traffic.3.length=1".to_owned()]).expect_err("no 3");
    assert!(error.contains("names no value"), "{error}");
}

#[test]
fn repository_scenarios_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("a readable entry").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{path:?}:{error}"));
        // The first 30 messages; the whole run is for the command line.
        let mut short = scenario;
        short.messages = Some(30);
        let outcome = run(&short, &[], 1, |_| {}).expect("it builds");
        assert!(outcome.total.settled >= 30, "{path:?}: {outcome:?}");
        count += 1;
    }
    assert!(count >= 3, "{count} scenarios");
}
