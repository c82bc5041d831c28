//! Sizes that pilots find: `--sizes steps:`.

use crate::support::{Scratch, race, towpath};
use results::{Status, Trial};

/// Trials of a size in a block.
fn count(trials: &[Trial], size: u64, block: u32) -> usize {
    let own = trials.iter().filter(|trial| trial.block == block);
    let own = own.filter(|trial| trial.cell.size() == Some(size));
    own.inspect(|trial| assert_eq!(trial.status, Status::Ok, "{}", trial.reason))
        .count()
}

#[test]
fn race_has_the_sizes_that_its_pilots_found() {
    let scratch = Scratch::new();
    let words = ["tcp", "-w", "throughput", "--sizes", "steps:64..4KiB"];
    let more = ["--trial", "60ms", "--blocks", "1", "--no-control"];
    let run = race(&scratch, "steps", &[&words[..], &more].concat());
    let sizes = &run.plan.sizes;
    assert!((4..=24).contains(&sizes.len()), "{sizes:?}");
    assert!(sizes.is_sorted() && sizes[0] == 64, "{sizes:?}");
    assert!([256, 1024, 4096].iter().all(|size| sizes.contains(size)));
    for size in sizes {
        assert_eq!(count(&run.trials, *size, 0), 2, "pilots of {size} B");
        assert_eq!(count(&run.trials, *size, 1), 1, "{size} B");
    }
    assert_eq!(run.trials.len(), 3 * sizes.len());
    let said = &run.plan.options["steps"];
    assert!(said.starts_with("throughput tcp: "), "{said}");
}

#[test]
fn steps_beside_sizes_of_other_kinds_are_refused() {
    for (words, named) in [
        (&["--sizes", "steps:64"][..], "use steps:1..64KiB"),
        (&["--sizes", "steps:64..64"], "below the second"),
        (&["--sizes", "steps:0..64"], "at least 1"),
        (&["--sizes", "steps:1..64", "--mix", "64,1024"], "--mix"),
        (
            &["--sizes", "steps:1..64", "--pairs", "none.txt"],
            "--pairs",
        ),
    ] {
        towpath(&[&["race", "tcp"], words].concat()).failed(2, named);
    }
    towpath(&["profile", "tcp", "--size", "steps:1..64"]).failed(2, "give a list");
}
