//! A contestant that is slower by a planted share.

use crate::support::{Scratch, race, towpath, trials_of};

/// This build, as the other one of a race, whose workers are slower by `share`.
fn slower_by(scratch: &Scratch, share: &str) -> String {
    let this = env!("CARGO_BIN_EXE_towpath");
    let lines = format!("exec {this} \"$@\" --slower-by {share}");
    format!("tcp,program={}", scratch.script("slower", &lines))
}

/// `cargo xtask bench verdict` measures by how much the rate falls.
#[test]
fn both_ends_of_a_slower_contestant_pause_and_the_other_never_does() {
    let scratch = Scratch::new();
    let other = slower_by(&scratch, "20%");
    let words = ["tcp", &other, "-w", "throughput", "--sizes", "64"];
    let more = ["--trial", "100ms", "--blocks", "3", "--no-control"];
    let run = race(&scratch, "planted", &[&words[..], &more].concat());
    let ends = ["sender.planted_pause_ms", "receiver.planted_pause_ms"];
    let trials = trials_of(&run, &other);
    assert_eq!(trials.len(), 3);
    for trial in trials {
        let paused = ends.map(|end| trial.evidence.get(end).copied());
        // The first message of an end is always followed by a pause, of 20 % of 2 ms.
        assert!(paused.iter().all(|&ms| ms >= Some(0.4)), "{paused:?}");
    }
    for trial in trials_of(&run, "tcp") {
        assert!(ends.iter().all(|&end| !trial.evidence.contains_key(end)));
    }
}

#[test]
fn planted_share_that_would_slow_nothing_fails_its_trials_and_says_why() {
    let scratch = Scratch::new();
    let other = slower_by(&scratch, "5%");
    let words = words!("tcp", &other, "-w delay --sizes 64 --no-control");
    let run = race(&scratch, "delay", &words);
    let failed = run
        .trials
        .iter()
        .find(|trial| trial.cell.transport() == other);
    let failed = failed.expect("a pilot");
    assert!(
        failed.reason.contains("race it with -w throughput"),
        "{}",
        failed.reason
    );
    towpath(&["worker", "--slower-by", "200%"]).exited(2);
}

#[test]
fn machine_is_calibrated_by_races_of_tcp_against_itself() {
    let scratch = Scratch::new();
    let said = {
        let mut command = crate::support::program();
        let command = command.args(["doctor", "--calibrate", "10s", "--json"]);
        command.current_dir(&scratch.0).output().expect("it runs")
    };
    assert!(said.status.success(), "{said:?}");
    let found: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let contests = found["calibration"]["contests"].as_array().expect("a list");
    assert_eq!(contests.len(), 2, "{found}");
    for contest in contests {
        let (races, wrong) = (&contest["races"], &contest["wrong"]);
        assert!(races.as_u64() >= Some(1) && wrong.as_u64() <= races.as_u64());
        let minute = contest["smallest"][1][1].as_f64().expect("a difference");
        assert!(minute > 0.0, "{contest}");
    }
    let folder = found["calibration"]["folder"].as_str().expect("a folder");
    assert!(scratch.path(folder).join("plan.toml").exists());
    towpath(&["doctor", "--calibrate", "2s"]).exited(2);
}
