//! A study that comes with the program and measures on this machine, in its short form: killed, resumed, judged.

use crate::support::{Scratch, finish, json, signal, start, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The state of each run of a result, by its ID.
fn states(out: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(out.join("study.json")).unwrap_or_default();
    let result: Value = serde_json::from_str(&text).unwrap_or_default();
    let runs = result["runs"].as_array().cloned().unwrap_or_default();
    let word = |run: &Value, key: &str| run[key].as_str().unwrap_or_default().to_owned();
    runs.iter()
        .map(|run| (word(run, "id"), word(run, "state")))
        .collect()
}

fn state(out: &Path, id: &str) -> String {
    let own = states(out).into_iter().find(|(name, _)| name == id);
    own.map_or(String::new(), |(_, state)| state)
}

/// Table 1 of the study of 2007: three races of four sizes, three blocks each, half a minute together.
#[test]
fn shipped_study_that_was_killed_ends_with_exhibits_and_judged_findings() {
    let scratch = Scratch::new();
    let (out, text) = (scratch.path("out"), scratch.text("out"));
    let words = words!("study run bidulock-2007/table-1 --quick --out", &text);
    let child = start(&words);
    wait_until("the first race does not end", || {
        state(&out, "loopback") == "done"
    });
    signal(child.id(), Signal::KILL);
    finish(child);
    assert_ne!(state(&out, "sctp"), "done", "{:?}", states(&out));
    let trials = out.join("runs/loopback/trials.jsonl");
    let before = fs::read(&trials).expect("trials");
    let report = json(&["study", "run", "--resume", &text, "--json"]);
    assert_eq!(
        fs::read(&trials).expect("trials"),
        before,
        "what is done is not done again"
    );
    assert_eq!(json(&["study", "report", &text, "--json"]), report);
    has_exhibits(&report);
    has_judged_findings(&report);
    let page = fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("Messages in 10 s by size, Fedora Core 6 on Porky"));
}

/// Table 1 has our figures beside the paper's.
#[track_caller]
fn has_exhibits(report: &Value) {
    let exhibits = report["exhibits"].as_array().expect("exhibits");
    let shown = exhibits
        .iter()
        .find(|one| one["shows"] == "table 1, figures 4-7");
    assert!(
        shown.is_some_and(|one| one["absent"].is_null()),
        "{exhibits:?}"
    );
    let cells = report["cells"].as_array().expect("cells").iter();
    for column in ["TCP sockets", "XTI over sockets"] {
        let own = cells
            .clone()
            .filter(|cell| cell["table"] == 1 && cell["figure"] == column);
        let ours: Vec<f64> = own.filter_map(|cell| cell["ours"].as_f64()).collect();
        assert!(
            ours.len() >= 4 && ours.iter().all(|rate| *rate > 0.0),
            "{column}: {ours:?}"
        );
    }
}

/// What was measured is judged, or the number of blocks is said that would do.
#[track_caller]
fn has_judged_findings(report: &Value) {
    let findings = report["findings"].as_array().expect("findings");
    let known = ["held", "held by less", "did not hold", "not decided"];
    let word_of = |part: &str| {
        let own = findings
            .iter()
            .find(|one| one["says"].as_str().is_some_and(|says| says.contains(part)));
        own.expect(part)["word"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for part in [
        "More bytes go through",
        "XTI over sockets sends 1-byte",
        "SCTP over STREAMS carries 1-byte",
    ] {
        // Three blocks may be too few for a word: then it says how many would do.
        let word = word_of(part);
        let is_judged = known.iter().any(|known| word.starts_with(known));
        assert!(is_judged, "{part}: {word:?}");
    }
    // 256 times the length carries ten times the bytes on any machine.
    let bytes = word_of("More bytes go through");
    assert!(!bytes.starts_with("did not hold"), "{bytes}");
}
