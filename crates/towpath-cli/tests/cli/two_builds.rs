//! Two builds in one race, and the gate.

use crate::support::{Scratch, assert_has, is_valid_trial, race, towpath, trials_of};
use results::RunData;

const SHORT: [&str; 6] = ["--sizes", "64", "-w", "throughput", "--trial", "20ms"];

/// This build, as the other one of a race.
const OTHER: &str = env!("CARGO_BIN_EXE_towpath");

#[test]
fn other_build_races_and_its_name_is_in_plan_and_report() {
    let scratch = Scratch::new();
    let other = format!("tcp,program={OTHER}");
    let mut words = vec!["tcp", &other, "--no-control"];
    words.extend(&SHORT);
    let run = race(&scratch, "two", &words);
    let trials = trials_of(&run, &other);
    assert!(!trials.is_empty());
    assert!(trials.iter().all(|trial| is_valid_trial(trial)));
    let name = run.plan.options.get(&format!("program.{other}"));
    let name = name.expect("the other build is named");
    assert!(name.starts_with("towpath 0."), "{name}");
    assert_eq!(run.plan.options.get("program"), Some(name));
    let html = report::html(&run);
    assert!(html.contains(name.as_str()), "the report names the build");
}

#[test]
fn program_of_another_protocol_version_is_refused_with_both_numbers() {
    let scratch = Scratch::new();
    let old = scratch.script("old", "echo towpath-worker 4711");
    let said = towpath(&["race", "tcp", &format!("tcp,program={old}")]).exited(1);
    let ours = format!("this program version {}", control::PROTOCOL_VERSION);
    assert_has(&said.err, "speaks version 4711");
    assert_has(&said.err, &ours);
}

/// The example `own_transport`, which cargo builds with the tests of its package.
fn own_transport() -> String {
    let tests = std::env::current_exe().expect("a test has a path");
    let profile = tests.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/own_transport");
    assert!(
        program.exists(),
        "{} is not built; `cargo build -p towpath-cli --example own_transport` does it",
        program.display()
    );
    program.display().to_string()
}

#[test]
fn transport_that_only_another_program_has_races_in_turns_with_one_of_ours() {
    let scratch = Scratch::new();
    let mine = format!("tcp-narrow,program={}", own_transport());
    let mut words = vec!["tcp", &mine, "--no-control"];
    words.extend(&SHORT);
    let run = race(&scratch, "own", &words);
    let trials = trials_of(&run, &mine);
    assert!(!trials.is_empty());
    assert!(trials.iter().all(|trial| is_valid_trial(trial)));
    let class = run.plan.options.get(&format!("class.{mine}"));
    assert!(
        class.is_some_and(|line| line.contains("byte stream")),
        "{class:?}"
    );
    let name = run.plan.options.get(&format!("program.{mine}"));
    assert_eq!(name.map(String::as_str), Some("own_transport 1"));
}

#[test]
fn transport_that_neither_program_has_is_refused_with_what_the_other_one_says() {
    let missing = format!("mine,program={}", own_transport());
    towpath(&["race", "tcp", &missing]).failed(2, "unknown transport 'mine'");
    let option = format!("tcp-narrow,colour=red,program={}", own_transport());
    towpath(&["race", "tcp", &option]).failed(2, "colour");
    let said = towpath(&["race", "tcp", "tcp-narrow"]);
    assert_eq!(said.code, 2, "without its program: {}", said.err);
}

#[test]
fn program_that_exits_in_its_job_fails_its_trials_with_its_name() {
    let scratch = Scratch::new();
    let answer = format!("echo towpath-worker {}", control::PROTOCOL_VERSION);
    let lines = format!("test \"$2\" = --protocol && {answer}; exit 0");
    let broken = scratch.script("broken", &lines);
    let other = format!("tcp,program={broken}");
    let mut words = vec!["tcp", &other, "--no-control"];
    words.extend(&SHORT);
    let run = race(&scratch, "broken-run", &words);
    let reasons: Vec<&str> = run
        .trials
        .iter()
        .filter(|trial| trial.cell.transport() == other)
        .map(|trial| trial.reason.as_str())
        .collect();
    assert!(!reasons.is_empty());
    for reason in reasons {
        assert!(reason.contains(&broken), "{reason}");
        assert!(reason.contains("has exited"), "{reason}");
    }
}

#[test]
fn program_towards_another_host_is_refused() {
    let other = format!("tcp,program={OTHER}");
    towpath(&["race", "tcp", &other, "--to", "127.0.0.1:1"]).failed(2, "on this host only");
}

#[test]
fn gate_of_one_build_against_itself_passes_and_says_what_it_can_see() {
    let scratch = Scratch::new();
    let out = scratch.text("gate");
    let mut words = vec!["gate", "--old", OTHER, "--new", OTHER, "tcp"];
    words.extend(&SHORT);
    words.extend(["--blocks", "3", "--out", &out, "--fail-on", "99%"]);
    let said = towpath(&[&words[..], &["--markdown"]].concat()).exited(0);
    assert!(said.out.starts_with("### tcp"), "{}", said.out);
    assert_has(&said.out, "this machine can see");
    let run = RunData::read(&scratch.path("gate")).expect("a result");
    let names = &run.plan.transports;
    assert_eq!(names[1], format!("{}#2", names[0]));
    assert!(scratch.path("gate/report.html").exists());
}

#[test]
fn gate_of_a_much_slower_contestant_exits_with_3() {
    let scratch = Scratch::new();
    let out = scratch.text("gate");
    let mut words = vec!["gate", "null", "quic", "--no-report"];
    words.extend(&SHORT);
    words.extend(["--blocks", "5", "--out", &out]);
    let said = towpath(&words).exited(3);
    assert_has(&said.out, "quic");
    assert!(!scratch.path("gate/report.html").exists());
}

#[test]
fn gate_without_two_contestants_is_refused() {
    for words in [
        &["gate", "tcp"][..],
        &["gate", "--old", OTHER, "--new", OTHER, "tcp", "udp"],
        &["gate", "tcp", "udp", "--no-control"],
        &["gate", "--old", "/nowhere", "--new", OTHER],
        &["gate", "--old", OTHER],
        &["gate", "tcp", "udp", "--to", "127.0.0.1:1"],
    ] {
        let said = towpath(words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{words:?}: {}", said.err);
    }
}
