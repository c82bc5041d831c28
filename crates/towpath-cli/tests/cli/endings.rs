//! Races that do not run to their end.

use crate::schema::accepts_folder;
use crate::support::{Scratch, await_that, children, finish, runs, signal, start, towpath};
use results::{RunData, RunStatus, Status};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A race far longer than the test, once it has measured something.
fn running(out: &str) -> Child {
    let child = start(&[
        "race", "tcp", "udp", "--sizes", "64", "--trial", "200ms", "--blocks", "100", "--out", out,
    ]);
    await_that("no trial ends", || lines(Path::new(out)) >= 6);
    child
}

fn lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("trials.jsonl")).map_or(0, |text| text.lines().count())
}

/// Workers of a race, in the middle of a trial.
fn workers(race: u32) -> Vec<u32> {
    let mut found = Vec::new();
    await_that("there are no workers", || {
        found = children(race);
        found.len() == 2
    });
    found
}

#[test]
fn a_race_that_is_stopped_keeps_what_it_has() {
    for (number, which) in [Signal::INT, Signal::TERM].into_iter().enumerate() {
        let scratch = Scratch::new();
        let name = format!("run{number}");
        let child = running(&scratch.text(&name));
        let workers = workers(child.id());
        signal(child.id(), which);
        let said = finish(child);
        assert_eq!(said.code, 1, "{}", said.err);
        let last = said.err.lines().last().unwrap_or_default();
        assert!(last.contains("stopped") && last.contains(&name), "{last}");
        assert!(!workers.into_iter().any(runs), "a worker was left");
        let folder = scratch.path(&name);
        accepts_folder(&folder);
        let run = RunData::read(&folder).expect("it can be read");
        assert_eq!(
            run.summary.expect("a summary").status,
            RunStatus::Interrupted
        );
        let ok = run.trials.iter().filter(|trial| trial.status == Status::Ok);
        assert!(ok.count() >= 4);
        let shown = towpath(&["show", &scratch.text(&name)]);
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(
            shown.out.contains("did not run to its end"),
            "{}",
            shown.out
        );
    }
}

#[test]
fn a_race_that_is_killed_leaves_no_workers_and_a_folder_that_can_be_read() {
    let scratch = Scratch::new();
    let child = running(&scratch.text("run"));
    let workers = workers(child.id());
    signal(child.id(), Signal::KILL);
    finish(child);
    let end = Instant::now() + Duration::from_secs(2);
    while workers.iter().any(|&worker| runs(worker)) {
        assert!(Instant::now() < end, "workers outlive their race");
        std::thread::sleep(Duration::from_millis(5));
    }
    let folder = scratch.path("run");
    assert!(!folder.join("summary.json").exists());
    accepts_folder(&folder);
    for command in ["show", "report", "export"] {
        let said = towpath(&[command, &scratch.text("run")]);
        assert_eq!(said.code, 0, "{command}: {}", said.err);
    }
}

#[test]
fn a_worker_that_is_killed_costs_its_trial_only() {
    let scratch = Scratch::new();
    let child = start(&[
        "race",
        "tcp",
        "--sizes",
        "64",
        "-w",
        "throughput",
        "--trial",
        "150ms",
        "--blocks",
        "6",
        "--out",
        &scratch.text("run"),
    ]);
    let folder = scratch.path("run");
    await_that("no trial ends", || lines(&folder) >= 2);
    for worker in 0..2 {
        signal(workers(child.id())[worker], Signal::KILL);
        let so_far = lines(&folder);
        await_that("the race stands still", || lines(&folder) > so_far + 1);
    }
    let said = finish(child);
    assert_eq!(said.code, 0, "{}", said.err);
    accepts_folder(&folder);
    let run = RunData::read(&folder).expect("it can be read");
    let failed: Vec<_> = run
        .trials
        .iter()
        .filter(|trial| trial.status == Status::Failed)
        .collect();
    assert!((1..=2).contains(&failed.len()), "{}", failed.len());
    assert!(failed.iter().all(|trial| !trial.reason.is_empty()));
    assert_eq!(run.trials.len(), 13, "every trial was tried");
    assert!(
        said.err.contains("failed: throughput tcp at 64 B"),
        "{}",
        said.err
    );
}
