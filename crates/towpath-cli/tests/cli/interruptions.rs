//! Interrupted and killed races, and killed workers.

use crate::schema::accepts_folder;
use crate::support::{
    Scratch, assert_has, children, finish, is_running, signal, start, towpath, wait_until,
};
use results::{RunData, RunStatus, Status};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Starts a race far longer than the test, and waits for its first trials.
fn running(out: &str) -> Child {
    let child = start(&[
        "race", "tcp", "udp", "--sizes", "64", "--trial", "200ms", "--blocks", "100", "--out", out,
    ]);
    wait_until("no trial ends", || lines(Path::new(out)) >= 6);
    child
}

fn lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("trials.jsonl")).map_or(0, |text| text.lines().count())
}

/// The workers of a race, during a trial: two, or two for each contestant that takes turns.
fn workers(race: u32) -> Vec<u32> {
    let mut found = Vec::new();
    wait_until("there are no workers", || {
        found = children(race);
        found.len() >= 2
    });
    found
}

#[test]
fn interrupted_race_keeps_finished_trials() {
    for (number, which) in [Signal::INT, Signal::TERM].into_iter().enumerate() {
        let scratch = Scratch::new();
        let name = format!("run{number}");
        let child = running(&scratch.text(&name));
        let workers = workers(child.id());
        signal(child.id(), which);
        let said = finish(child).exited(1);
        let last = said.err.lines().last().unwrap_or_default();
        assert!(last.contains("stopped") && last.contains(&name), "{last}");
        assert!(!workers.into_iter().any(is_running), "a worker was left");
        let folder = scratch.path(&name);
        accepts_folder(&folder);
        let run = RunData::read(&folder).expect("it can be read");
        assert_eq!(
            run.summary.expect("a summary").status,
            RunStatus::Interrupted
        );
        let ok = run.trials.iter().filter(|trial| trial.status == Status::Ok);
        assert!(ok.count() >= 4);
        let shown = towpath(&["show", &scratch.text(&name)]).exited(0);
        assert_has(&shown.out, "The race is incomplete");
    }
}

#[test]
fn killed_race_leaves_no_workers_and_readable_folder() {
    let scratch = Scratch::new();
    let child = running(&scratch.text("run"));
    let workers = workers(child.id());
    signal(child.id(), Signal::KILL);
    finish(child);
    let end = Instant::now() + Duration::from_secs(2);
    while workers.iter().any(|&worker| is_running(worker)) {
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
fn killed_worker_fails_only_its_trial() {
    let scratch = Scratch::new();
    let child = start(&words!(
        "race tcp --sizes 64 -w throughput --trial 150ms --blocks 8 --turns off --out",
        &scratch.text("run")
    ));
    let folder = scratch.path("run");
    wait_until("no trial ends", || lines(&folder) >= 2);
    for worker in 0..2 {
        signal(workers(child.id())[worker], Signal::KILL);
        let so_far = lines(&folder);
        wait_until("the race stands still", || lines(&folder) > so_far + 1);
    }
    let said = finish(child).exited(0);
    accepts_folder(&folder);
    let run = RunData::read(&folder).expect("it can be read");
    let failed: Vec<_> = run
        .trials
        .iter()
        .filter(|trial| trial.status == Status::Failed)
        .collect();
    assert!((1..=2).contains(&failed.len()), "{}", failed.len());
    assert!(failed.iter().all(|trial| !trial.reason.is_empty()));
    assert_eq!(run.trials.len(), 17, "every trial was tried");
    assert_has(&said.err, "a trial of tcp in throughput at 64 B failed: ");
}
