//! What an agent does only where its operator allows it: raw sockets, loads.

use crate::agents::{Agent, status, with_keys};
use crate::support::{Scratch, children, is_running, towpath, trials_of, wait_until};
use results::{RunData, Status};

/// CAP_NET_RAW alone, as a process's status shows it.
const NET_RAW_ALONE: &str = "0000000000002000";

#[track_caller]
fn race(scratch: &Scratch, agent: &Agent, words: &[&str]) -> RunData {
    let (none, out) = (scratch.text("none"), scratch.text("run"));
    let start = ["race", "--to", agent.address(), "--sizes", "64"];
    let rest = ["--trial", "50ms", "--blocks", "1", "--no-control"];
    let rest = [&rest[..], &["--out", &out, "--no-report"]].concat();
    with_keys(&none, &[&start[..], words, &rest].concat()).exited(0);
    crate::schema::accepts_folder(&scratch.path("run"));
    RunData::read(&scratch.path("run")).expect("a result")
}

#[test]
fn one_process_keeps_the_right_to_raw_sockets_and_nothing_else() {
    towpath(&["agent", "--raw", "lo,nowhere0", "--listen", "127.0.0.1:0"]).failed(2, "nowhere0");
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: raw sockets need root");
        return;
    }
    let scratch = Scratch::new();
    let agent = Agent::start(&scratch.text("none"), &["--raw", "lo"], 1);
    let [process] = children(agent.process())[..] else {
        panic!("one process beside the agent");
    };
    assert_eq!(status(process, "CapPrm"), NET_RAW_ALONE);
    assert_eq!(status(process, "CapEff"), NET_RAW_ALONE);
    assert_eq!(status(process, "CapInh").trim_start_matches('0'), "");
    assert_eq!(status(process, "CapBnd").trim_start_matches('0'), "");
    assert_eq!(status(process, "NoNewPrivs"), "1");
    assert_eq!(
        status(process, "Uid").replace('\t', " "),
        ["65534"; 4].join(" ")
    );
    assert_eq!(agent.status("CapPrm").trim_start_matches('0'), "");
    let out = scratch.text("refused");
    let rawip = words!("race tcp xtp-rawip --to", agent.address(), "--out", &out);
    let said = with_keys(
        &scratch.text("none"),
        &[&rawip[..], &["--trial", "20ms"]].concat(),
    );
    assert!(said.err.contains("without --to") || said.out.contains("without --to"));
    frames_cross_by_the_command_line(&scratch, &agent);
    drop(agent);
    wait_until("it does not end with its agent", || !is_running(process));
}

/// The interface is that of the route to the agent: none is named.
#[track_caller]
fn frames_cross_by_the_command_line(scratch: &Scratch, agent: &Agent) {
    let contestants = [
        "xtp-ether",
        "raw-ether",
        "raw-ether,frames=32",
        "vmtp-ether",
    ];
    let run = race(
        scratch,
        agent,
        &[&contestants[..], &["-w", "throughput"]].concat(),
    );
    for transport in contestants {
        let trials = trials_of(&run, transport);
        let mut measured = trials.iter().filter(|trial| trial.block > 0);
        let arrived = measured.any(|trial| trial.metrics.get("messages_per_s") > Some(&0.0));
        assert!(arrived, "{transport}: {trials:?}");
    }
    let calls = ["raw-ether", "raw-ether,frames=32"].map(|transport| {
        let trials = trials_of(&run, transport);
        trials[0].evidence["calls_per_message"]
    });
    // One frame a call takes two calls, of the sender and of the receiver. Of 32 a call the sender's part is 1/32;
    // the receiver's may still be one, where it wakes for each frame.
    assert!(calls[1] * 1.5 < calls[0], "{calls:?} calls a message");
    let out = scratch.text("named");
    let named = ["race", "xtp-ether", "--to", agent.address(), "--out", &out];
    let named = [&named[..], &["--interface", "lo"]].concat();
    with_keys(&scratch.text("none"), &named).exited(2);
}

#[test]
fn loads_run_on_both_hosts_as_far_as_the_agent_allows() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agent = Agent::start(&none, &["--max-load", "1"], 1);
    let words = ["tcp", "-w", "throughput", "--host-load", "0,1@both"];
    let run = race(&scratch, &agent, &words);
    let mut loaded = 0;
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        let copies = trial.cell.integer("sender_load");
        assert_eq!(copies, trial.cell.integer("receiver_load"));
        let rounds = ["load_cpu_per_s", "load_memory_per_s"].map(|name| trial.evidence.get(name));
        if copies == Some(1) {
            loaded += 1;
            assert!(
                rounds
                    .iter()
                    .all(|rounds| rounds.is_some_and(|rounds| *rounds > 0.0))
            );
            assert!(trial.cpu["load"].task_s > 0.0);
        } else {
            assert_eq!(rounds, [None, None]);
        }
    }
    assert_eq!(loaded, 1);
    let form = run
        .machine
        .facts
        .iter()
        .find(|fact| fact.name == "host load");
    assert!(form.expect("it is said").value.contains("copies of memory"));
    let refused = |agent: &Agent, words: &[&str]| {
        let out = scratch.text("refused");
        let start = ["race", "tcp", "--out", &out, "--to", agent.address()];
        with_keys(&none, &[&start[..], words].concat())
    };
    refused(&agent, &["--host-load", "2@receiver"]).failed(1, "--max-load 2");
    let strict = Agent::start(&none, &[], 1);
    refused(&strict, &["--host-load", "1@receiver"]).failed(1, "allows no load");
    for (words, part) in [
        (
            &["--host-load", "1", "--load-parts", "cpu"][..],
            "--load-parts",
        ),
        (&["--host-load", "1", "--together"], "omit --together"),
    ] {
        refused(&agent, words).failed(2, part);
    }
}
