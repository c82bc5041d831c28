//! Programs of other projects as contestants, `exec:NAME`, and what is wrong with some.

use crate::support::{Scratch, assert_has, is_running, race, towpath, trials_of, wait_until};
use crate::testbeds::can_create_hosts;
use results::{RunData, Status, Trial};
use std::fs;

/// A server that moves nothing, and is ready when it says so.
const SERVER: &str = r#"server = ["sh", "-c", "echo ready; exec sleep 1000", "{port}"]
ready = { output = "ready" }"#;

/// A file with a contestant `mine`, whose client is a line of shell.
fn file(scratch: &Scratch, client: &str, number: &str) -> String {
    let text = format!(
        "[mine]\n{SERVER}\n[mine.delay]\nclient = [\"sh\", \"-c\", '''{client}''', \"{{port}}\"]\n\
         number = {number}\n"
    );
    write(scratch, &text)
}

fn write(scratch: &Scratch, text: &str) -> String {
    fs::write(scratch.path("mine.toml"), text).expect("a file");
    scratch.text("mine.toml")
}

const MICROSECONDS: &str = "{ regex = '([0-9.]+) us', unit = \"us\" }";

/// The reason of the only trial of a race that fails, which is told with code 1.
fn failure(client: &str, number: &str) -> String {
    let scratch = Scratch::new();
    let file = file(&scratch, client, number);
    let out = scratch.text("run");
    let words = words!("race exec:mine --contestants", &file, "-w delay --sizes 64");
    let more = words!("--trial 1s --blocks 1 --no-control --no-report --out", &out);
    let said = towpath(&[&words[..], &more[..]].concat()).exited(1);
    let run = RunData::read(&scratch.path("run")).expect("the result can be read");
    let trial = run.trials.first().expect("a pilot");
    assert_eq!(trial.status, Status::Failed);
    assert!(said.err.contains(&trial.reason), "{}", said.err);
    trial.reason.clone()
}

#[test]
fn program_of_ones_own_races_beside_a_transport() {
    let scratch = Scratch::new();
    let file = file(&scratch, "echo 1 us; echo 12.5 us", MICROSECONDS);
    let words = words!("exec:mine tcp --contestants", &file, "-w delay --sizes 64");
    let run = race(&scratch, "run", &words);
    let mine = trials_of(&run, "exec:mine");
    assert_eq!(mine.len(), 2, "one and the control");
    for trial in mine {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert_eq!(trial.metrics["delay_p50_us"], 12.5);
        assert!(trial.span_s > 0.0);
    }
    assert_eq!(trials_of(&run, "tcp").len(), 1);
    let class = &run.plan.options["class.exec:mine"];
    assert_eq!(class, "another project's program: sh");
    let turns = &run.plan.options["turns.delay"];
    assert!(turns.starts_with("back to back: a program"), "{turns}");
    assert!(report::html(&run).contains("exec:mine"));
}

#[test]
fn program_that_leaves_children_fails_and_they_are_gone() {
    // One stays in its process group, one leaves it and its session.
    let scratch = Scratch::new();
    let pids = scratch.text("pids");
    let client = format!(
        "sleep 1001 & echo $! >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 1002' & \
         while test $(wc -l < {pids}) -lt 2; do sleep 0.01; done; echo 3 us"
    );
    let why = failure(&client, MICROSECONDS);
    assert!(why.contains("the client left processes running"), "{why}");
    assert!(why.contains("sleep 1001"), "{why}");
    for pid in fs::read_to_string(&pids).expect("it had children").lines() {
        let pid: u32 = pid.parse().expect("a number");
        wait_until("a child is left", || !is_running(pid));
    }
}

#[test]
fn output_without_a_number_is_shown_by_its_last_lines() {
    let why = failure("echo first; echo 'no time today'", MICROSECONDS);
    assert!(why.contains("no match of '([0-9.]+) us'"), "{why}");
    assert!(why.contains("it said \"first\" \"no time today\""), "{why}");
    let json = "{ json = '/end/us', unit = \"us\" }";
    let why = failure("echo '{\"end\": {\"ms\": 3}}'", json);
    assert!(why.contains("no number at /end/us"), "{why}");
}

#[test]
fn program_that_fails_or_says_what_cannot_be_fails_its_trial() {
    let why = failure("echo 'no route' >&2; exit 7", MICROSECONDS);
    assert!(
        why.contains("exited with code 7; it said \"no route\""),
        "{why}"
    );
    let why = failure("kill -9 $$", MICROSECONDS);
    assert!(
        why.contains("was ended by signal 9; it said nothing"),
        "{why}"
    );
    let why = failure("echo 0 us", MICROSECONDS);
    assert!(why.contains("0 us, which cannot be"), "{why}");
}

#[test]
fn program_that_claims_more_than_its_interface_carried_fails_its_trial() {
    let scratch = Scratch::new();
    let text = format!(
        "[mine]\n{SERVER}\n[mine.throughput]\n\
         client = [\"sh\", \"-c\", \"sleep 0.2; echo 900 Gbit/s\", \"{{port}}\"]\n\
         number = {{ regex = '([0-9]+) Gbit', unit = \"Gbit/s\" }}\n"
    );
    let file = write(&scratch, &text);
    let words = words!("race exec:mine --contestants", &file, "-w throughput");
    let out = scratch.text("run");
    let more = words!("--trial 1s --blocks 1 --no-report --out", &out);
    towpath(&[&words[..], &more[..]].concat()).failed(1, "it claims 900000.0 Mbit/s");
}

#[test]
fn program_that_hangs_is_killed_with_its_children() {
    let scratch = Scratch::new();
    let pids = scratch.text("pids");
    let why = failure(
        &format!("sleep 1003 & echo $! > {pids}; wait"),
        MICROSECONDS,
    );
    assert!(why.contains("did not end by itself within 11 s"), "{why}");
    let pid = fs::read_to_string(&pids).expect("it had a child");
    let pid: u32 = pid.trim().parse().expect("a number");
    wait_until("the child is left", || !is_running(pid));
}

#[test]
fn server_that_is_not_ready_fails_its_trial_with_its_words() {
    let scratch = Scratch::new();
    let text = "[mine]\nserver = [\"sh\", \"-c\", \"echo in use; exit 3\", \"{port}\"]\n\
                ready = \"tcp\"\n[mine.delay]\nclient = [\"true\", \"{port}\"]\n\
                number = { regex = '(1)', unit = \"us\" }\n";
    let file = write(&scratch, text);
    let out = scratch.text("run");
    let words = words!(
        "race exec:mine --contestants",
        &file,
        "-w delay --out",
        &out
    );
    let said = towpath(&[&words[..], &["--trial", "1s", "--no-report"][..]].concat()).exited(1);
    let wanted = "the server exited with code 3 before it was ready; it said \"in use\"";
    assert_has(&said.err, wanted);
}

#[test]
fn files_and_races_with_a_fault_are_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let good = file(&scratch, "echo 1 us", MICROSECONDS);
    let refused = |words: &[&str], code: i32, wanted: &str| {
        towpath(&[&["race"][..], words].concat()).failed(code, wanted);
    };
    let known = ["exec:mine", "--contestants", &good];
    let with = |more: &[&'static str]| [&known[..], more].concat();
    refused(
        &with(&["-w", "throughput"]),
        2,
        "does not measure throughput",
    );
    refused(&with(&["--to", "127.0.0.1:1"]), 2, "runs on this host only");
    refused(&with(&["--reverse", "-w", "delay"]), 2, "omit --reverse");
    refused(
        &with(&["-w", "delay", "--circuits", "2"]),
        2,
        "no {circuits}",
    );
    refused(
        &with(&["-w", "delay", "--turns", "on"]),
        2,
        "does not pause",
    );
    refused(
        &["exec:other", "--contestants", &good],
        2,
        "there is no contestant exec:other",
    );
    refused(&["tcp", "--contestants", &good], 2, "none takes part");
    refused(&["exec:nc", "-w", "throughput"], 2, "add --link");
    refused(
        &["exec:mine", "--contestants", "/dev/zero"],
        2,
        "not a regular file",
    );
    let bad = write(
        &scratch,
        "[mine]\nserver = [\"a\", \"{port}\"]\nready = \"never\"\n",
    );
    let words = ["exec:mine", "--contestants", &bad];
    refused(&words, 2, "mine.toml:3:9: ready is \"tcp\"");
    let missing = write(
        &scratch,
        "[mine]\nserver = [\"no-such-program\", \"{port}\"]\nready = \"tcp\"\n[mine.delay]\n\
         client = [\"true\", \"{port}\"]\nnumber = { regex = '(1)', unit = \"us\" }\n",
    );
    let words = ["exec:mine", "-w", "delay", "--contestants", &missing];
    refused(&words, 1, "there is no program no-such-program");
}

/// Whether a program is installed; else the test is skipped loudly.
fn has(program: &str) -> bool {
    let here = measure::exec::located(program).is_some();
    if !here {
        eprintln!("SKIPPED: {program} is not installed");
    }
    here
}

fn metric(trial: &Trial, name: &str) -> f64 {
    trial.metrics.get(name).copied().unwrap_or(0.0)
}

#[test]
fn iperf3_races_against_tcp_and_costs_processor_time() {
    if !has("iperf3") {
        return;
    }
    let scratch = Scratch::new();
    let words = words!("tcp exec:iperf3 -w throughput --sizes 16KiB --no-control");
    let run = race(&scratch, "run", &words);
    for trial in trials_of(&run, "exec:iperf3") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert!(metric(trial, "mbit_per_s") > 1.0);
        let messages = metric(trial, "messages_per_s");
        let octets = metric(trial, "mbit_per_s") / 8e-6;
        assert!((messages * 16384.0 / octets - 1.0).abs() < 1e-6);
        assert!(trial.cpu["sender"].task_s > 0.0, "{:?}", trial.cpu);
        assert!(trial.evidence["server_received_octets"] > 0.0);
    }
}

#[test]
fn sockperf_reports_its_percentiles() {
    if !has("sockperf") {
        return;
    }
    let scratch = Scratch::new();
    let words = words!("exec:sockperf exec:sockperf-tcp -w delay --sizes 64");
    let run = race(
        &scratch,
        "run",
        &[&words[..], &["--no-control"][..]].concat(),
    );
    for name in ["exec:sockperf", "exec:sockperf-tcp"] {
        for trial in trials_of(&run, name) {
            assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
            let p50 = metric(trial, "delay_p50_us");
            assert!(p50 > 0.0 && metric(trial, "delay_p99_us") >= p50);
        }
    }
}

#[test]
fn programs_cross_a_link_and_the_ledger_counts_their_packets() {
    if !can_create_hosts() || !has("iperf3") {
        return;
    }
    let scratch = Scratch::new();
    let mut words = vec!["exec:iperf3", "-w", "throughput", "--sizes", "16KiB"];
    if has("nc") {
        words.push("exec:nc");
    }
    words.extend(["--no-control", "--no-calibration", "--link", "rate=50mbit"]);
    let run = race(&scratch, "run", &words);
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        // Without the link's rate these programs carry several times as much.
        let rate = metric(trial, "mbit_per_s");
        assert!(rate > 1.0 && rate < 100.0, "{rate}");
        let ledger = trial.ledger.expect("the link counts");
        assert!(ledger.sent > 100, "{ledger:?}");
        assert!(
            ledger.unaccounted.unsigned_abs() * 20 < ledger.sent,
            "{ledger:?}"
        );
    }
}

/// The server is an agent, which listens and is asked nothing.
#[test]
fn program_in_one_line_races_by_its_name_and_faults_in_it_are_refused() {
    let scratch = Scratch::new();
    let this = env!("CARGO_BIN_EXE_towpath");
    let line = format!(
        "exec:mine={this} agent --listen {{host}}:{{port}} :: sh -c 'echo 12.5 us' {{port}} :: \
         ([0-9.]+) us :: us"
    );
    let words = ["tcp", &line, "-w", "delay", "--sizes", "64", "--no-control"];
    let run = race(&scratch, "line", &words);
    assert_eq!(run.plan.transports, ["tcp", "exec:mine"]);
    for trial in trials_of(&run, "exec:mine") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert_eq!(trial.metrics["delay_p50_us"], 12.5);
    }
    towpath(&["race", "tcp", "exec:mine=./mine -p {port}", "-w", "delay"])
        .failed(2, "write exec:NAME=SERVER");
    towpath(&["race", &line, &line, "-w", "delay"]).failed(2, "defined twice");
}
