//! Each workload with each transport this host has.

use crate::support::{Scratch, assert_has, assert_lacks, is_valid_trial, race, towpath, trials_of};
use results::{RunData, Trial};
use serde_json::Value;

/// The available transports; prints a SKIPPED line for each of the others.
fn available_transports() -> Vec<(String, Value)> {
    let said = towpath(&["transports", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&said.out).expect("JSON");
    let mut here = Vec::new();
    for transport in all {
        let name = transport["name"].as_str().expect("a name").to_owned();
        if transport["available"] == true {
            here.push((name, transport["class"].clone()));
        } else if !name.ends_with("-ether") {
            eprintln!("SKIPPED: {name}: {}", transport["reason"]);
        }
    }
    here
}

/// Races all of `names` and gives the run and the trials of each.
fn race_all(names: &[&str], arguments: &[&str]) -> RunData {
    let scratch = Scratch::new();
    let mut all = names.to_vec();
    all.extend(["--sizes", "64", "--no-control"]);
    all.extend(arguments);
    race(&scratch, "all", &all)
}

#[track_caller]
fn assert_ledger_balances(trial: &Trial, reliable: bool) {
    let Some(ledger) = trial.ledger else {
        assert_eq!(trial.cell.transport(), "null", "only null has no ledger");
        return;
    };
    assert!(ledger.sent > 0, "{:?} sent nothing", trial.cell);
    assert_eq!(ledger.duplicates, 0, "{:?}", trial.cell);
    if reliable {
        assert_eq!(ledger.delivered, ledger.sent, "{:?}", trial.cell);
        assert_eq!(ledger.unaccounted, 0, "{:?}", trial.cell);
    }
}

fn workload(arguments: &[&str], metric: &str, takes_part: impl Fn(&str, &Value) -> bool) {
    let here = available_transports();
    let part: Vec<&(String, Value)> = here
        .iter()
        .filter(|(name, class)| takes_part(name, class))
        .collect();
    let names: Vec<&str> = part.iter().map(|(name, _)| name.as_str()).collect();
    let run = race_all(&names, arguments);
    for (name, class) in part {
        let trials = trials_of(&run, name);
        assert!(
            !trials.is_empty(),
            "{name} did not run: {:?}",
            reasons(&run)
        );
        for trial in trials.into_iter().filter(|trial| is_valid_trial(trial)) {
            assert!(trial.metrics[metric] > 0.0, "{name}: {metric}");
            assert_ledger_balances(trial, class["reliable"] == true);
        }
    }
}

fn reasons(run: &RunData) -> Vec<&str> {
    let reasons = run.trials.iter().map(|trial| trial.reason.as_str());
    reasons.filter(|reason| !reason.is_empty()).collect()
}

fn all_transports(_: &str, _: &Value) -> bool {
    true
}

/// Transports with two directions.
fn bidirectional(_: &str, class: &Value) -> bool {
    class["one_to_many"] != true
}

/// All but the null transport, which moves no messages that could be timed.
fn all_but_null(name: &str, _: &Value) -> bool {
    name != "null"
}

#[test]
fn throughput_on_every_transport() {
    workload(&["-w", "throughput"], "messages_per_s", all_transports);
}

#[test]
fn delay_on_every_transport() {
    workload(&["-w", "delay"], "delay_p50_us", bidirectional);
}

/// Bulk of datagrams without flow control may leave no room for a single short message: see
/// `responsive`.
#[test]
fn round_trips_beside_bulk_on_every_transport_with_flow_control() {
    let takes_part = |name: &str, class: &Value| {
        bidirectional(name, class) && name != "null" && class["flow_control"] == true
    };
    let arguments = ["-w", "responsive", "--trial", "400ms"];
    workload(&arguments, "round_trips_per_min", takes_part);
}

#[test]
fn delay_with_busy_poll_on_every_transport() {
    let arguments = ["-w", "delay", "--busy-poll"];
    workload(&arguments, "delay_p50_us", bidirectional);
}

#[test]
fn throughput_with_busy_poll_of_streams_messages_and_engines() {
    let arguments = ["-w", "throughput", "--busy-poll"];
    workload(&arguments, "messages_per_s", |name, _| {
        ["tcp", "udp-segmented", "unix-seqpacket", "xtp", "xtp-lent"].contains(&name)
    });
}

#[test]
fn offered_load_with_fixed_arrivals() {
    let arguments = ["-w", "offered", "--rate", "500,1k", "--arrivals", "fixed"];
    workload(&arguments, "delivered_per_s", all_but_null);
}

#[test]
fn offered_load_with_exponential_arrivals() {
    let arguments = ["-w", "offered", "--rate", "1000"];
    workload(&arguments, "delivered_per_s", all_but_null);
}

#[test]
fn transactions_on_every_transport_that_answers() {
    let arguments = ["-w", "transactions", "--clients", "3"];
    workload(&arguments, "transactions_per_s", |name, class| {
        bidirectional(name, class) && all_but_null(name, class)
    });
}

#[test]
fn connect_on_every_connecting_transport() {
    workload(&["-w", "connect"], "connections_per_s", |_, class| {
        class["connects"] == true
    });
}

#[test]
fn connect_on_connectionless_transport_is_refused() {
    let run = race_all(&["tcp", "pipe"], &["-w", "connect"]);
    assert!(trials_of(&run, "pipe").is_empty());
    let reasons = reasons(&run);
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("no connections")),
        "{reasons:?}"
    );
}

#[test]
fn multicast_rate_is_slowest_receivers_and_has_no_reverse() {
    let run = race_all(&["tcp", "xtp-multicast,receivers=3"], &["-w", "throughput"]);
    let trial = trials_of(&run, "xtp-multicast,receivers=3")[0];
    is_valid_trial(trial);
    assert_ledger_balances(trial, true);
    let effective: Vec<&String> = trial.effective.values().collect();
    let says_spread = effective
        .iter()
        .any(|text| text.contains("the fastest has"));
    assert!(says_spread, "{effective:?}");
    let run = race_all(&["tcp", "xtp-multicast"], &["-w", "delay"]);
    assert!(trials_of(&run, "xtp-multicast").is_empty());
    assert!(
        reasons(&run)[0].contains("one-to-many"),
        "{:?}",
        reasons(&run)
    );
}

#[test]
fn load_sweep_marks_trials_where_generator_fell_behind() {
    // A rate that hardly any machine misses, and one that none keeps; and something that cannot be late, since a
    // race without a valid trial fails.
    let workloads = ["-w", "offered,throughput", "--trial", "500ms"];
    let rates = [&workloads[..], &["--rate", "20,500M"]].concat();
    let run = race_all(&["tcp"], &rates);
    let trials = trials_of(&run, "tcp");
    let at = |rate: &str| {
        let found = trials
            .iter()
            .find(|trial| trial.cell.text("rate_per_s") == rate);
        found.unwrap_or_else(|| panic!("no trial at {rate}"))
    };
    is_valid_trial(at("20"));
    let beyond = at("500000000");
    assert_eq!(beyond.status, results::Status::Invalid);
    assert!(
        beyond.reason.contains("of 500000000 messages/s"),
        "{}",
        beyond.reason
    );
}

#[test]
fn auto_load_sweep_uses_one_capacity() {
    let run = race_all(&["unix-stream"], &["-w", "offered"]);
    let pilots = run.trials.iter().filter(|trial| trial.block == 0).count();
    assert_eq!(pilots, 1);
    let asked = |percent: &str| {
        let trials = trials_of(&run, "unix-stream").into_iter();
        let mut of = trials.filter(|trial| trial.cell.text("load_percent") == percent);
        of.next().expect("a trial").evidence["asked_per_s"]
    };
    assert!((asked("100") / asked("10") - 10.0).abs() < 0.01);
}

#[test]
fn mebibyte_messages_work_or_fail_with_reason() {
    let scratch = Scratch::new();
    let arguments = words!("tcp udp -w throughput --sizes 1MiB --no-control");
    let run = race(&scratch, "large", &arguments);
    let trial = trials_of(&run, "tcp")[0];
    assert_ledger_balances(trial, true);
    assert!(trial.metrics["mbit_per_s"] > 0.0);
    assert!(trials_of(&run, "udp").is_empty());
    assert!(reasons(&run)[0].contains("1048576"), "{:?}", reasons(&run));
    let shown = towpath(&["show", &scratch.text("large")]);
    let words = "udp has no result: its pilot failed: a message of 1048576 bytes";
    let shown = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(words), "{shown}");
    let out = scratch.text("lost");
    let tcp_and_udp = words!("race udp tcp -w throughput --sizes 1MiB --blocks 1");
    towpath(&[&tcp_and_udp[..], &["--trial", "20ms", "--out", &out]].concat())
        .failed(1, "the baseline udp has no result");
}

#[test]
fn cells_are_counted_in_the_result_of_a_race() {
    let scratch = Scratch::new();
    let names = ["tcp", "aal34", "xtp,cells=aal5", "vmtp-aal34"];
    let mut words = names.to_vec();
    words.extend(["--sizes", "64", "--no-control", "-w", "delay"]);
    let run = race(&scratch, "run", &words);
    for name in names {
        for trial in trials_of(&run, name) {
            assert!(is_valid_trial(trial), "{name}");
            let count = |key: &str| trial.evidence.get(key).copied().unwrap_or_default();
            for key in ["cells_sent", "cells_received", "cells_packets_received"] {
                assert_eq!(count(key) > 0.0, name != "tcp", "{name}: {key}");
            }
            let packets = count("cells_packets_sent");
            assert!(count("cells_sent") >= packets, "{name}");
            assert_eq!(count("cells_crc_errors"), 0.0, "{name}");
        }
    }
    let shown = towpath(&["show", &scratch.text("run")]);
    assert_has(&shown.out, "cells of aal34: ");
    assert_lacks(&shown.out, "cells of tcp");
}

#[test]
fn modules_on_a_contestant_are_counted_in_the_result_of_a_race() {
    let scratch = Scratch::new();
    let names = [
        "tcp",
        "tcp,push=meter/buffer",
        "xtp-message,push=pass/meter",
    ];
    let mut words = names.to_vec();
    words.extend(["--sizes", "64", "--no-control", "-w", "throughput,delay"]);
    let run = race(&scratch, "run", &words);
    for name in names {
        for trial in trials_of(&run, name) {
            assert!(is_valid_trial(trial), "{name}");
            let count = |key: &str| trial.evidence.get(key).copied().unwrap_or_default();
            let passed = count("meter_messages_sent");
            assert_eq!(passed > 0.0, name != "tcp", "{name}: {passed}");
        }
    }
}

/// A buffer of two datagrams: what comes before the receiver has read is dropped there, and counted.
#[test]
fn udp_loses_what_the_buffer_of_its_receiver_has_no_room_for() {
    let scratch = Scratch::new();
    let loads = words!("-w throughput,offered --rate 100 --arrivals fixed");
    let buffer = ["udp", "--buffers", "4096", "--sizes", "1400"];
    let length = ["--trial", "300ms", "--no-control"];
    let run = race(&scratch, "run", &[&buffer[..], &loads, &length].concat());
    let trials = trials_of(&run, "udp");
    let lost = |workload: &str| {
        let mut all = trials.iter();
        let trial = all.find(|trial| trial.cell.workload() == workload);
        let trial = trial.expect("a load of its own");
        let ledger = trial.ledger.expect("a ledger");
        assert_eq!(ledger.lost_link, 0, "{ledger:?}");
        assert_eq!(
            ledger.delivered + ledger.lost_host,
            ledger.sent,
            "{ledger:?}"
        );
        let lost = ledger.lost_host as f64 / ledger.sent as f64;
        assert!((trial.metrics["loss_fraction"] - lost).abs() < 1e-9);
        ledger.lost_host
    };
    assert!(lost("offered") < lost("throughput"));
}
