//! Races whose contestants take turns.

use crate::support::{Scratch, is_valid_trial, race, towpath, trials_of};
use loadgen::turn_schedule::{TURN_S, TurnPlan};
use results::{RunData, Status, TURNS_SERIES, Trial};

const SHORT: [&str; 8] = [
    "--sizes", "64", "--trial", "60ms", "--blocks", "2", "--seed", "5",
];

/// The trials of blocks, without pilots.
fn of_blocks(run: &RunData) -> Vec<&Trial> {
    run.trials.iter().filter(|trial| trial.block > 0).collect()
}

#[track_caller]
fn took_turns(trial: &Trial) {
    assert!(is_valid_trial(trial), "{:?}: {}", trial.cell, trial.reason);
    let turns = trial.evidence.get("turns").copied().unwrap_or_default();
    match trial.series.get(TURNS_SERIES) {
        Some(series) => {
            assert_eq!(series.values.len() as f64, turns, "{:?}", trial.cell);
            assert!(series.values.iter().all(|value| value.is_finite()));
        }
        // Another test may have had the processor for a whole turn.
        None => {
            let says_missing = |why: &String| why.contains("turns are missing: ");
            let disturbed = &trial.disturbed;
            let said = disturbed.iter().any(says_missing);
            assert!(
                said,
                "{:?}: {disturbed:?}, {:?}",
                trial.cell, trial.evidence
            );
        }
    }
    assert!(turns >= 3.0);
    let ledger = trial.ledger.expect("a ledger");
    assert_eq!(ledger.unaccounted, 0, "{:?}: {ledger:?}", trial.cell);
    assert!(ledger.sent > 0);
}

/// The trials of a workload ran back to back, since other tests left one contestant too little of the processors in its
/// pilot: the pilot shows it, and the report says it.
#[track_caller]
fn was_too_slow_for_turns(run: &RunData, workload: &str) {
    let pilots = run.trials.iter().filter(|trial| trial.block == 0);
    let own = pilots.filter(|trial| trial.cell.workload() == workload);
    let rates = own.filter_map(|trial| trial.metrics.get(results::metric::MESSAGES_PER_S).copied());
    let slowest = rates.fold(f64::INFINITY, f64::min);
    assert_eq!(
        TurnPlan::of(0.06, TURN_S, slowest),
        None,
        "no turns in {workload}, though the slowest pilot had {slowest} messages/s"
    );
    assert!(report::html(run).contains("trials back to back: too few messages for a turn"));
}

#[test]
fn contestants_take_turns_in_throughput_and_delay() {
    let scratch = Scratch::new();
    let mut words = vec!["tcp", "udp", "xtp", "unix-stream", "-w", "throughput,delay"];
    words.extend(["--turns", "on"]);
    words.extend(&SHORT);
    let run = race(&scratch, "turns", &words);
    let trials = of_blocks(&run);
    // Four contestants and the control, in two workloads and two blocks.
    assert_eq!(trials.len(), 20);
    let has_series = |trial: &&Trial| trial.series.contains_key(TURNS_SERIES);
    assert!(trials.iter().any(has_series), "none has all of its turns");
    for workload in ["throughput", "delay"] {
        let own = trials.iter().copied();
        let own = own.filter(|trial| trial.cell.workload() == workload);
        let own: Vec<&Trial> = own.collect();
        assert_eq!(own.len(), 10, "{workload}");
        // All of a workload's blocks have the same pilots.
        if own.iter().any(|trial| trial.evidence.contains_key("turns")) {
            own.into_iter().for_each(took_turns);
        } else {
            was_too_slow_for_turns(&run, workload);
        }
    }
    let how = &run.plan.options["turns.throughput"];
    assert!(how.starts_with("in turns of about"), "{how}");
    assert_eq!(run.plan.options["turns"], "on");
    let html = report::html(&run);
    assert!(
        html.contains("throughput in turns of about"),
        "the report says so"
    );
    assert!(
        html.contains("between the rounds of a"),
        "and how ratios scatter"
    );
}

#[test]
fn turns_last_as_long_as_asked_for() {
    let scratch = Scratch::new();
    let words = words!("tcp udp -w throughput --no-control --sizes 64");
    let more = ["--trial", "300ms", "--turns", "on", "--turn-time", "50ms"];
    let run = race(&scratch, "long", &[&words[..], &more].concat());
    for trial in of_blocks(&run) {
        took_turns(trial);
        assert_eq!(trial.evidence["turns"], 6.0, "{:?}", trial.cell);
    }
    let how = &run.plan.options["turns.throughput"];
    assert!(how.starts_with("in turns of about 50 ms"), "{how}");
    for (words, why) in [
        (["--turn-time", "9ms"], "10ms to 50ms"),
        (["--turn-time", "51ms"], "10ms to 50ms"),
    ] {
        towpath(&[&["race", "tcp", "udp"][..], &words].concat()).failed(2, why);
    }
    towpath(&["race", "tcp", "--turns", "off", "--turn-time", "20ms"])
        .failed(2, "omit one of them");
}

#[test]
fn both_directions_and_several_circuits_take_turns() {
    let scratch = Scratch::new();
    for (name, option) in [("both", "--bidir"), ("reverse", "--reverse")] {
        let mut words = vec![
            "tcp",
            "tcp+udp",
            "-w",
            "throughput",
            "--circuits",
            "2",
            option,
        ];
        words.extend(["--turns", "on", "--no-control"]);
        words.extend(&SHORT);
        let run = race(&scratch, name, &words);
        assert_eq!(of_blocks(&run).len(), 4);
        of_blocks(&run).into_iter().for_each(took_turns);
    }
}

#[test]
fn turns_off_and_workloads_that_cannot_run_back_to_back_and_say_so() {
    let scratch = Scratch::new();
    let mut words = vec!["tcp", "udp", "--no-control", "-w", "throughput,connect"];
    words.extend(&SHORT);
    let run = race(&scratch, "auto", &words);
    for trial in of_blocks(&run) {
        let in_turns = trial.series.contains_key(TURNS_SERIES);
        assert_eq!(in_turns, trial.cell.workload() == "throughput");
    }
    assert!(run.plan.options["turns.connect"].starts_with("back to back: "));
    let mut words = vec![
        "tcp",
        "udp",
        "--no-control",
        "-w",
        "throughput",
        "--turns",
        "off",
    ];
    words.extend(&SHORT);
    let run = race(&scratch, "off", &words);
    let in_turns = |trial: &&Trial| trial.series.contains_key(TURNS_SERIES);
    assert_eq!(
        of_blocks(&run)
            .into_iter()
            .filter(|trial| in_turns(trial))
            .count(),
        0
    );
    assert_eq!(
        run.plan.options["turns.throughput"],
        "back to back: asked for"
    );
}

#[test]
fn turns_where_they_cannot_be_are_refused_with_the_reason() {
    for (words, why) in [
        (&["tcp", "-w", "offered"][..], "offered"),
        (&["tcp", "--no-control"], "one contestant alone"),
        (&["tcp", "--busy-poll", "-w", "delay"], "busy-poll"),
        (&["tcp", "--busy-poll", "-w", "throughput"], "busy-poll"),
    ] {
        let words = [&["race", "--turns", "on"], words].concat();
        let said = towpath(&words).failed(2, why);
        let last = said.err.lines().last().unwrap_or_default();
        assert!(last.contains("omit --turns on"), "{words:?}: {last}");
    }
    towpath(&["race", "tcp", "--turns", "maybe"]).exited(2);
}

/// Half a second after its start a worker has turns to come, or is not even set up: its trial takes a
/// second at least.
#[test]
fn killed_worker_fails_its_own_trial_and_the_others_go_on() {
    let scratch = Scratch::new();
    let this = env!("CARGO_BIN_EXE_towpath");
    let count = scratch.text("count");
    // Asked for its protocol once, then two workers of the pilot; those of the block are killed.
    let lines = format!(
        "echo x >> {count}\nif [ $(wc -l < {count}) -gt 3 ]; then (sleep 0.5; kill -9 $$) & fi\n\
         exec {this} \"$@\""
    );
    let other = format!("tcp,program={}", scratch.script("killed", &lines));
    let words = words!("tcp", &other, "-w throughput --sizes 64 --trial 1s");
    let words = [&words[..], &["--blocks", "1", "--turns", "on"]].concat();
    let run = race(&scratch, "run", &words);
    let ended = trials_of(&run, &other);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].status, Status::Failed, "{:?}", ended[0].evidence);
    let others = trials_of(&run, "tcp");
    assert_eq!(others.len(), 2, "the baseline and the control");
    others.into_iter().for_each(took_turns);
}
