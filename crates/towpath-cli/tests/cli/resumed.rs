//! Races that take on what an older one left open.

use crate::support::{Scratch, race, towpath};
use results::{RunData, VerdictKind};

/// A race that decides nothing: two blocks are never enough.
fn undecided(scratch: &Scratch, name: &str, more: &[&str]) -> RunData {
    let words = ["tcp", "unix-stream", "-w", "throughput", "--no-control"];
    let run = race(scratch, name, &[&words[..], more].concat());
    let open = run.summary.as_ref().expect("a summary").verdicts.iter();
    assert!(open.clone().count() > 0);
    assert!(
        open.into_iter()
            .all(|one| one.kind == VerdictKind::NotEnoughData)
    );
    run
}

#[test]
fn open_questions_are_asked_again_in_a_new_folder_with_new_evidence() {
    let scratch = Scratch::new();
    let more = ["--sizes", "64,1KiB", "--blocks", "2", "--label", "rack=7"];
    let older = undecided(&scratch, "older", &more);
    let older_path = scratch.text("older");
    let out = scratch.text("newer");
    let words = words!("race --resume", &older_path, "--blocks 3 --out", &out);
    let said = towpath(&[&words[..], &["--label", "again=1", "--no-report"]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let newer = RunData::read(&scratch.path("newer")).expect("a result");
    assert_eq!(newer.plan.transports, older.plan.transports);
    assert_eq!(newer.plan.sizes, older.plan.sizes);
    assert_eq!(newer.plan.blocks.max, 3);
    assert_ne!(newer.plan.seed, older.plan.seed);
    assert!(newer.trials.iter().all(|trial| trial.block <= 3));
    assert_eq!(newer.plan.labels(), [("again", "1"), ("rack", "7")]);
    assert!(newer.plan.options[results::RESUMES].ends_with("older"));
    // The only look of the older one spent all its level.
    assert_eq!(newer.plan.alpha, 0.05);
    let level = &newer.plan.options[results::RESUMED_LEVEL];
    assert!(
        level.contains("new evidence") && level.contains("at most 10 %"),
        "{level}"
    );
    assert!(said.out.contains("this race asks what"), "{}", said.out);
    let again = RunData::read(&scratch.path("older")).expect("a result");
    assert_eq!(again.trials, older.trials, "the older one is as it was");
}

#[test]
fn race_that_stopped_early_leaves_the_level_of_the_looks_it_did_not_take() {
    let scratch = Scratch::new();
    let older = ended_after_one_of_two_looks(&scratch);
    let out = scratch.text("newer");
    let words = words!(
        "race --resume",
        &older,
        "--blocks 1 --out",
        &out,
        "--no-report"
    );
    let said = towpath(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    let newer = RunData::read(&scratch.path("newer")).expect("a result");
    assert!(
        (newer.plan.alpha - 0.025).abs() < 1e-9,
        "{}",
        newer.plan.alpha
    );
    let level = &newer.plan.options[results::RESUMED_LEVEL];
    assert!(
        level.contains("at 2.5 %, which the older race had left of its 5 %"),
        "{level}"
    );
}

/// A race with looks after one block and after six that ended after the first one, as if it had been
/// stopped.
fn ended_after_one_of_two_looks(scratch: &Scratch) -> String {
    undecided(scratch, "older", &["--sizes", "64", "--blocks", "1"]);
    let path = scratch.path("older").join("plan.toml");
    let plan = std::fs::read_to_string(&path).expect("a plan");
    let plan = plan
        .replace("max = 1", "max = 6")
        .replace("looks = [1]", "looks = [1, 6]");
    assert!(
        plan.contains("max = 6") && plan.contains("looks = [1, 6]"),
        "{plan}"
    );
    std::fs::write(&path, plan).expect("it is ours");
    scratch.text("older")
}

#[test]
fn race_with_every_verdict_decided_has_nothing_to_take_on() {
    let scratch = Scratch::new();
    // null is faster than quic by orders of magnitude.
    let words = words!("null quic -w throughput --sizes 64 --blocks 5");
    let run = race(&scratch, "older", &[&words[..], &["--no-control"]].concat());
    let summary = run.summary.as_ref().expect("a summary");
    let open = |one: &results::Verdict| one.kind == VerdictKind::NotEnoughData;
    assert!(!summary.verdicts.iter().any(open), "{:?}", summary.verdicts);
    let said = towpath(&["race", "--resume", &scratch.text("older")]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("nothing to take on"), "{}", said.err);
}

/// The older race is one of two sizes whose trials of the larger one are missing after the first block.
#[test]
fn contests_that_are_decided_do_not_run_again() {
    let scratch = Scratch::new();
    let words = ["null", "quic", "-w", "throughput", "--sizes", "64,1KiB"];
    let run = race(
        &scratch,
        "older",
        &[&words[..], &["--no-control", "--blocks", "5"]].concat(),
    );
    let is_kept = |trial: &&results::Trial| trial.block < 2 || trial.cell.size() == Some(64);
    let kept = run.trials.iter().filter(is_kept);
    let lines: Vec<String> = kept
        .map(|trial| serde_json::to_string(trial).expect("JSON") + "\n")
        .collect();
    std::fs::write(scratch.path("older/trials.jsonl"), lines.concat()).expect("it is ours");
    let out = scratch.text("newer");
    let older = scratch.text("older");
    let words = words!(
        "race --resume",
        &older,
        "--blocks 2 --out",
        &out,
        "--no-report"
    );
    let said = towpath(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    let newer = RunData::read(&scratch.path("newer")).expect("a result");
    assert!(newer.trials.iter().any(|trial| trial.block == 2));
    let sizes: Vec<_> = newer.trials.iter().map(|trial| trial.cell.size()).collect();
    assert!(sizes.iter().all(|size| *size == Some(1024)), "{sizes:?}");
}

#[test]
fn another_race_and_folders_without_one_are_refused_by_name() {
    let scratch = Scratch::new();
    undecided(&scratch, "older", &["--sizes", "64", "--blocks", "2"]);
    let older = scratch.text("older");
    for (words, why) in [
        (&["--sizes", "1KiB"][..], "omit --sizes"),
        (&["udp"], "omit the contestants"),
        (&["-6"], "omit -6"),
    ] {
        let said = towpath(&[&["race", "--resume", &older][..], words].concat());
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(said.err.contains(why), "{}", said.err);
    }
    let said = towpath(&["race", "--resume", &scratch.text("nowhere")]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    let said = towpath(&["gate", "tcp", "udp", "--resume", &older]);
    assert_eq!(said.code, 2, "{}", said.err);
}
