//! Races that take on what an older one left open.

use crate::support::{Scratch, assert_has, race, towpath};
use results::metric::MESSAGES_PER_S;
use results::{RunData, Trial, VerdictKind};

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
    let said = towpath(&[&words[..], &["--label", "again=1", "--no-report"]].concat()).exited(0);
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
    assert_has(&said.out, "this race asks what");
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
    towpath(&words).exited(0);
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
    towpath(&["race", "--resume", &scratch.text("older")]).failed(2, "nothing to take on");
}

/// A trial with a rate of its contestant's, which no other work on the machine has changed.
fn with_rate_of_its_own(mut trial: Trial) -> Trial {
    let rate_per_s = match trial.cell.text("transport").as_str() {
        "null" => 1e7,
        _ => 1e5,
    };
    let of_block = rate_per_s * (1.0 + f64::from(trial.block) / 100.0);
    trial.metrics.insert(MESSAGES_PER_S.into(), of_block);
    trial.series.clear();
    trial
}

/// The older race is one of two sizes whose trials of the larger one are missing after the first block. The smaller one is decided.
#[test]
fn contests_that_are_decided_do_not_run_again() {
    let scratch = Scratch::new();
    let words = ["null", "quic", "-w", "throughput", "--sizes", "64,1KiB"];
    let run = race(
        &scratch,
        "older",
        &[&words[..], &["--no-control", "--blocks", "5"]].concat(),
    );
    let is_kept = |trial: &Trial| trial.block < 2 || trial.cell.size() == Some(64);
    let kept = run.trials.into_iter().filter(is_kept);
    let lines: Vec<String> = kept
        .map(|trial| serde_json::to_string(&with_rate_of_its_own(trial)).expect("JSON") + "\n")
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
    towpath(&words).exited(0);
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
        towpath(&[&["race", "--resume", &older][..], words].concat()).failed(2, why);
    }
    let said = towpath(&["race", "--resume", &scratch.text("nowhere")]).exited(1);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    towpath(&["gate", "tcp", "udp", "--resume", &older]).exited(2);
}
