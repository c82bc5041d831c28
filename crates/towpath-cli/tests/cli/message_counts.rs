//! Trials of a fixed number of messages: `--messages`, `--total`, `--pairs`.

use crate::support::{Scratch, race, towpath};
use results::{Cell, Status, Trial};

/// Messages, size and ledger of the trials that count.
fn counted(trials: &[Trial]) -> Vec<(i64, i64, u64)> {
    let blocks = trials.iter().filter(|trial| trial.block > 0);
    let mut counted: Vec<(i64, i64, u64)> = blocks
        .map(|trial| {
            assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
            let (total_s, rate) = (trial.metrics["total_s"], trial.metrics["messages_per_s"]);
            assert!(total_s > 0.0 && trial.metrics["s_per_message"] <= total_s && rate > 0.0);
            let factor = |name| trial.cell.integer(name).expect("a factor");
            let sent = trial.ledger.expect("a ledger").sent;
            (factor(Cell::MESSAGES), factor(Cell::SIZE), sent)
        })
        .collect();
    counted.sort_unstable();
    counted
}

#[test]
fn trials_send_the_numbers_of_messages_that_are_asked_for() {
    let scratch = Scratch::new();
    let words = ["tcp", "-w", "throughput,delay", "--sizes", "64"];
    let more = ["--messages", "1,500", "--blocks", "1", "--no-control"];
    let run = race(&scratch, "counts", &[&words[..], &more].concat());
    let each = [(1, 64, 1), (1, 64, 1), (500, 64, 500), (500, 64, 500)];
    assert_eq!(counted(&run.trials), each);
    let pilots = run.trials.iter().filter(|trial| trial.block == 0);
    assert_eq!(pilots.count(), 2, "one for both numbers of a workload");
    assert_eq!(run.plan.options["messages"], "1,500");
}

#[test]
fn pairs_of_a_file_and_totals_give_counts_and_sizes() {
    let scratch = Scratch::new();
    let file = scratch.path("pairs.txt");
    std::fs::write(&file, "# count size\n40 1\n9 2032 # long ones\n").expect("a file");
    let file = file.to_string_lossy();
    let always = ["tcp", "-w", "throughput", "--blocks", "1", "--no-control"];
    let run = race(
        &scratch,
        "pairs",
        &[&always[..], &["--pairs", &file]].concat(),
    );
    assert_eq!(counted(&run.trials), [(9, 2032, 9), (40, 1, 40)]);
    let total = ["--sizes", "64,1000", "--total", "6500"];
    let run = race(&scratch, "total", &[&always[..], &total].concat());
    assert_eq!(counted(&run.trials), [(7, 1000, 7), (102, 64, 102)]);
}

#[test]
fn numbers_of_messages_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    let wrong = scratch.path("wrong");
    std::fs::write(&wrong, "40 1\n9\n").expect("a file");
    let wrong = wrong.to_string_lossy();
    for (words, named) in [
        (&["--messages", "0"][..], "'0'"),
        (&["--total", "0"], "0 bytes"),
        (&["--messages", "5", "--total", "5"], "cannot be used with"),
        (
            &["--messages", "5", "-w", "offered"],
            "leave out the others",
        ),
        (&["--messages", "5", "--trial", "1s"], "omit one of them"),
        (&["--messages", "5", "--turns", "on"], "amid its turns"),
        (&["--pairs", &wrong], ":2: '9' is no count and size"),
        (&["--pairs", "/nonexistent"], "/nonexistent"),
    ] {
        towpath(&[&["race", "tcp", "-w", "throughput"], words].concat()).failed(2, named);
    }
    towpath(&["race", "exec:nc", "-w", "throughput", "--messages", "5"]).exited(2);
}
