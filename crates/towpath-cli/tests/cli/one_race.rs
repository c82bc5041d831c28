//! Two races on one machine: the second waits, refuses, or goes on and says so.

use crate::support::{CommandOutput, Scratch, finish, program, signal};
use host::{LockAttempt, RaceLock};
use results::RunData;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

/// The lock of this test's machine, held.
fn held(scratch: &Scratch) -> RaceLock {
    match RaceLock::attempt(&scratch.path("lock")) {
        Ok(LockAttempt::Held(lock)) => lock,
        other => panic!("{other:?}"),
    }
}

/// Starts a short race that uses the lock of this test.
fn start(scratch: &Scratch, more: &[&str]) -> Child {
    let mut command = program();
    command
        .env("TOWPATH_RACE_LOCK", scratch.path("lock"))
        .args(["race", "tcp", "--sizes", "64", "-w", "throughput"])
        .args(["--blocks", "1", "--trial", "20ms", "--no-report", "--out"])
        .arg(scratch.path("run"))
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

fn said(scratch: &Scratch, more: &[&str]) -> CommandOutput {
    finish(start(scratch, more))
}

/// Reads what a race says until it waits; the rest of its output is read on.
fn await_waiting(child: &mut Child) -> String {
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    err.read_line(&mut line).expect("it says something");
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        // Nobody reads the rest; the race must not block on it.
        let _ = err.read_to_end(&mut rest);
    });
    line
}

#[test]
fn contestant_that_is_none_is_refused_without_waiting() {
    let scratch = Scratch::new();
    let _lock = held(&scratch);
    let said = said(&scratch, &["tcq"]).exited(2);
    assert!(
        said.err.starts_with("towpath: unknown transport 'tcq'"),
        "{}",
        said.err
    );
}

#[test]
fn second_race_with_no_wait_is_refused_and_names_the_first() {
    let scratch = Scratch::new();
    let _lock = held(&scratch);
    let said = said(&scratch, &["--no-wait"]).failed(1, "another race runs on this machine");
    let pid = format!("process {}", std::process::id());
    let named = said.err.contains(&pid) || said.err.contains("hidden process");
    assert!(named, "{}", said.err);
    assert!(!scratch.path("run").exists());
}

#[test]
fn second_race_regardless_goes_on_and_is_marked() {
    let scratch = Scratch::new();
    let _lock = held(&scratch);
    said(&scratch, &["--regardless"]).exited(0);
    let run = RunData::read(&scratch.path("run")).expect("a result");
    assert!(run.plan.options.contains_key(results::OTHER_RACE));
    let summary = run.summary.as_ref().expect("a summary");
    let marked = |line: &String| line.contains("another race ran on this machine");
    assert!(
        summary.warnings.iter().any(marked),
        "{:?}",
        summary.warnings
    );
    assert!(report::html(&run).contains("another race ran on this machine"));
}

#[test]
fn second_race_waits_for_the_first() {
    let scratch = Scratch::new();
    let lock = held(&scratch);
    let mut second = start(&scratch, &[]);
    let line = await_waiting(&mut second);
    assert!(line.contains("waiting for another race"), "{line}");
    assert!(!scratch.path("run").exists());
    drop(lock);
    assert_eq!(finish(second).code, 0);
    let run = RunData::read(&scratch.path("run")).expect("a result");
    assert!(!run.plan.options.contains_key(results::OTHER_RACE));
}

#[test]
fn waiting_race_is_stopped_by_a_signal() {
    let scratch = Scratch::new();
    let _lock = held(&scratch);
    let mut second = start(&scratch, &[]);
    await_waiting(&mut second);
    signal(second.id(), rustix::process::Signal::INT);
    assert_eq!(finish(second).code, 1);
    assert!(!scratch.path("run").exists());
}

#[test]
fn races_of_two_programs_hold_the_lock_in_turn() {
    let scratch = Scratch::new();
    said(&scratch, &[]).exited(0);
    std::fs::remove_dir_all(scratch.path("run")).expect("it is ours");
    said(&scratch, &["--no-wait"]).exited(0);
}
