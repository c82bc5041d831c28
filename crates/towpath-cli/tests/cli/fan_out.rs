//! One sender and several receivers: `race --fan-out`.

use crate::agents::{Agent, with_keys};
use crate::refusals::assert_refused_before_start;
use crate::support::{
    Scratch, children, finish, race, signal, start, towpath, trials_of, wait_until,
};
use crate::testbeds::can_create_hosts;
use results::{RunData, Status, Trial};
use rustix::process::Signal;
use std::fs;

/// The trials of a race of `transports` with `more`, all of which must be fine.
fn fanned(transports: &[&str], more: &[&str]) -> RunData {
    let scratch = Scratch::new();
    let mut all = transports.to_vec();
    all.extend(["-w", "throughput", "--sizes", "1000", "--no-control"]);
    all.extend(more);
    let run = race(&scratch, "fan-out", &all);
    for transport in transports {
        let trials = trials_of(&run, transport);
        assert!(!trials.is_empty(), "{transport}: {:?}", run.trials);
        for trial in trials {
            assert_eq!(trial.status, Status::Ok, "{transport}: {}", trial.reason);
        }
    }
    run
}

/// The rates of single receivers.
fn rates(trial: &Trial) -> Vec<f64> {
    let names = trial.metrics.iter();
    let own = names.filter(|(name, _)| name.starts_with("messages_per_s@"));
    own.map(|(_, rate)| *rate).collect()
}

#[test]
fn each_message_goes_to_all_and_the_slowest_receiver_counts() {
    let transports = [
        "tcp",
        "udp",
        "unix-stream",
        "unix-dgram",
        "unix-seqpacket",
        "xtp",
        "xtp-multicast",
        "shm",
        "shm-spin",
        "shm,ring=each",
    ];
    let run = fanned(&transports, &["--fan-out", "3"]);
    for transport in transports {
        let trial = trials_of(&run, transport)[0];
        let rates = rates(trial);
        assert_eq!(rates.len(), 3, "{transport}: {:?}", trial.metrics);
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let metric = |name: &str| trial.metrics[name];
        assert_eq!(metric("messages_per_s"), slowest, "{transport}");
        assert_eq!(metric("slowest_receiver_per_s"), slowest, "{transport}");
        assert_eq!(metric("fastest_receiver_per_s"), fastest, "{transport}");
        // Copies of all messages are in the ledger.
        let ledger = trial.ledger.expect("a ledger");
        assert_eq!(ledger.sent % 3, 0, "{transport}: {ledger:?}");
        if transport != "udp" {
            assert_eq!(ledger.delivered, ledger.sent, "{transport}: {ledger:?}");
        }
        assert_eq!(trial.cell.0["fan_out"], results::Factor::from(3));
    }
}

/// One ring for all receivers, or one for each.
#[test]
fn ring_of_shared_memory_is_written_once_for_all() {
    for fan_out in ["3", "3@one"] {
        let run = fanned(&["shm", "shm,ring=each"], &["--fan-out", fan_out]);
        let ring_receivers = |transport: &str| {
            let trial = trials_of(&run, transport)[0];
            trial.effective.get("sender.ring_receivers").cloned()
        };
        assert_eq!(ring_receivers("shm").as_deref(), Some("3"));
        assert_eq!(ring_receivers("shm,ring=each"), None);
    }
}

#[test]
fn killed_receiver_of_a_ring_fails_its_trial_with_a_reason() {
    let scratch = Scratch::new();
    let folder = scratch.path("run");
    let mut race = vec!["race", "shm", "-w", "throughput", "--sizes", "64"];
    race.extend(["--fan-out", "3", "--trial", "5s", "--blocks", "1"]);
    let out = scratch.text("run");
    race.extend(["--no-control", "--no-report", "--out", &out]);
    let child = start(&race);
    let trials = || fs::read_to_string(folder.join("trials.jsonl")).unwrap_or_default();
    let failed = || trials().contains("\"failed\"");
    // The sender is started first.
    wait_until("no trial fails", || {
        if let [_, _, _, last] = children(child.id())[..] {
            signal(last, Signal::KILL);
        }
        failed()
    });
    signal(child.id(), Signal::INT);
    finish(child);
    let run = RunData::read(&folder).expect("it can be read");
    let failed = run
        .trials
        .iter()
        .find(|trial| trial.status == Status::Failed);
    let reason = &failed.expect("one failed").reason;
    assert!(!reason.is_empty());
}

#[test]
fn each_message_goes_to_one_that_has_room_and_the_sum_counts() {
    let transports = [
        "tcp",
        "udp",
        "unix-seqpacket",
        "xtp",
        "shm",
        "shm-spin",
        "shm,ring=each",
    ];
    let run = fanned(&transports, &["--fan-out", "3@one"]);
    for transport in transports {
        let trial = trials_of(&run, transport)[0];
        let rates = rates(trial);
        let sum: f64 = rates.iter().sum();
        let total = trial.metrics["messages_per_s"];
        assert!(
            (total - sum).abs() <= sum * 1e-9,
            "{transport}: {total} {sum}"
        );
        let ledger = trial.ledger.expect("a ledger");
        if transport != "udp" {
            assert_eq!(ledger.delivered, ledger.sent, "{transport}: {ledger:?}");
        }
    }
}

#[test]
fn receivers_on_hosts_of_their_own_share_the_link() {
    if !can_create_hosts() {
        return;
    }
    let link = words!("--link rate=200mbit --no-calibration --fan-out 2");
    let transports = ["tcp", "udp", "xtp", "xtp-multicast"];
    let run = fanned(&transports, &link);
    for transport in transports {
        let trial = trials_of(&run, transport)[0];
        assert_eq!(rates(trial).len(), 2, "{transport}: {:?}", trial.metrics);
    }
    // A message for a group crosses the link once.
    let packets = |transport: &str| trials_of(&run, transport)[0].evidence["packets_per_message"];
    assert!(
        packets("xtp-multicast") < packets("xtp"),
        "the group's packets"
    );
}

#[test]
fn report_names_slowest_and_fastest_receiver() {
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let race = words!("race tcp -w throughput --sizes 64 --fan-out 2");
    let short = words!("--trial 20ms --blocks 1 --no-control --out", &out);
    let said = towpath(&[&race[..], &short].concat()).exited(0);
    let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["by receiver receiver1 ", "slowest receiver ", ", fastest "] {
        assert!(text.contains(words), "'{words}' is not in {text}");
    }
    crate::schema::accepts_folder(&scratch.path("run"));
    let plan = &RunData::read(&scratch.path("run")).expect("a result").plan;
    assert_eq!(plan.options["fan_out"], "2");
}

#[test]
fn what_several_receivers_cannot_do_is_refused() {
    let fan_out = |more: &[&'static str]| [&["-w", "throughput", "--fan-out"][..], more].concat();
    for (arguments, words) in [
        (fan_out(&["0", "tcp"]), &["give 1 to 16"][..]),
        (fan_out(&["17", "tcp"]), &["give 1 to 16"]),
        (fan_out(&["2@any", "tcp"]), &["N@one"]),
        (fan_out(&["2", "tcp", "-w", "offered"]), &["-w throughput"]),
        (fan_out(&["2,2@one", "tcp", "-w", "delay"]), &["give N"]),
        (
            fan_out(&["2", "xtp-multicast,error=none", "-w", "delay"]),
            &["error=none", "leave one of them out"],
        ),
        (fan_out(&["2", "tcp", "--reverse"]), &["omit --reverse"]),
        (
            fan_out(&["2", "tcp", "--circuits", "2"]),
            &["omit --circuits"],
        ),
        (fan_out(&["2", "tcp+udp"]), &["tcp+udp", "leave it out"]),
        (
            fan_out(&["2", "xtp-multicast,receivers=3"]),
            &["leave out receivers, group"],
        ),
        (fan_out(&["2@one", "xtp-multicast"]), &["without @one"]),
        (
            fan_out(&["3", "tcp", "--to", "a,b"]),
            &["2 agents", "one for each"],
        ),
    ] {
        assert_refused_before_start(&arguments, 2, words);
    }
}

#[test]
fn receivers_on_agents_get_each_message() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agents = [0; 2].map(|_| Agent::start(&none, &[], 1));
    let all = agents.each_ref().map(Agent::address);
    let (to, out) = (all.join(","), scratch.text("run"));
    let race = ["race", "tcp", "udp", "-w", "throughput", "--sizes", "64"];
    let short = words!("--trial 20ms --blocks 1 --no-control --no-report");
    let place = ["--fan-out", "2", "--to", &to, "--out", &out];
    with_keys(&none, &[&race[..], &short, &place].concat()).exited(0);
    let run = RunData::read(&scratch.path("run")).expect("a result");
    for trial in &run.trials {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        for host in all {
            assert!(trial.metrics[&format!("messages_per_s@{host}")] > 0.0);
        }
    }
}

/// Numbers of receivers are cells of their own, and a delay ends when the last of them has the message.
#[test]
fn delay_until_all_have_a_message_grows_with_the_receivers() {
    let scratch = Scratch::new();
    let transports = ["tcp", "udp", "xtp", "shm", "xtp-multicast"];
    let mut all = transports.to_vec();
    all.extend(["-w", "delay", "--sizes", "1000", "--no-control"]);
    all.extend(["--fan-out", "1,4"]);
    let run = race(&scratch, "fan-out", &all);
    for transport in transports {
        for receivers in [1, 4] {
            let is_meant =
                |trial: &&&Trial| trial.cell.0["fan_out"] == results::Factor::from(receivers);
            let trials = trials_of(&run, transport);
            let trial = *trials.iter().find(is_meant).expect("a cell of its own");
            assert_eq!(trial.status, Status::Ok, "{transport}: {}", trial.reason);
            assert!(trial.metrics["delay_p50_us"] > 0.0, "{transport}");
            let ledger = trial.ledger.expect("a ledger");
            assert_eq!(ledger.sent % receivers, 0, "{transport}: {ledger:?}");
            assert_eq!(ledger.delivered, ledger.sent, "{transport}: {ledger:?}");
            // A message at a time: the rate is that of messages, not of copies.
            let per_s = trial.metrics["messages_per_s"];
            assert!(
                per_s * trial.metrics["delay_mean_us"] < 1.2e6,
                "{transport}"
            );
        }
    }
}

/// On a link the delay until all have it is at least a round trip, also where no circuit answers.
#[test]
fn group_has_a_message_when_its_last_member_has_acknowledged() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let mut all = vec!["xtp-multicast", "tcp", "-w", "delay", "--sizes", "1000"];
    all.extend(["--no-control", "--fan-out", "3", "--no-calibration"]);
    all.extend(["--link", "rate=100mbit,delay=4ms"]);
    let run = race(&scratch, "fan-out", &all);
    for transport in ["xtp-multicast", "tcp"] {
        let trial = trials_of(&run, transport)[0];
        assert_eq!(trial.status, Status::Ok, "{transport}: {}", trial.reason);
        let least_us = trial.metrics["delay_p50_us"];
        assert!(least_us >= 8000.0, "{transport}: {least_us} us");
    }
}
