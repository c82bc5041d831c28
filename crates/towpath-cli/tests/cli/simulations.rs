//! Scenarios, sweeps, traces and studies.

use crate::support::{Scratch, towpath};
use serde_json::Value;
use std::fs;

/// A short scenario in a file of `scratch`.
fn scenario(scratch: &Scratch) -> String {
    let text = r#"
name = "short"
time_limit = "10 s"
messages = 40

[medium]
kind = "ether10"

[[station]]
count = 2
engine = { protocol = "xtp" }

[[traffic]]
from = [0]
to = [1]
length = { fixed = "2 KiB" }
interarrival = { exponential = "5 ms" }
"#;
    fs::write(scratch.path("short.toml"), text).expect("a file to read");
    scratch.text("short.toml")
}

#[test]
fn sim_run_prints_figures_and_writes_trace_and_pcap() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let (trace, pcap) = (scratch.text("a.trace"), scratch.text("a.pcapng"));
    let said = towpath(&["sim", "run", &file, "--trace", &trace, "--pcap", &pcap]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("40 settled"), "{}", said.out);
    assert!(fs::read(&pcap).expect("a capture").len() > 40 * 2048);
    let said = towpath(&["sim", "run", &file, "--json"]);
    let row: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(row["ending"], "complete");
    assert_eq!(row["circuits"][0]["receivers"][0]["wrong_bytes"], 0);
}

#[test]
fn sim_traces_equal_iff_seeds_equal() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let trace = |name: &str, seed: &str| {
        let path = scratch.text(name);
        let said = towpath(&["sim", "run", &file, "--seed", seed, "--trace", &path]);
        assert_eq!(said.code, 0, "{}", said.err);
        path
    };
    let (first, again, other) = (trace("a", "1"), trace("b", "1"), trace("c", "2"));
    assert_eq!(towpath(&["sim", "diff", &first, &again]).code, 0);
    let said = towpath(&["sim", "diff", &first, &other]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("differ at line 1"), "{}", said.out);
}

#[test]
fn sim_sweep_resumes_and_shards_cover_all_jobs() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let sweep = |out: &str, more: &[&str]| {
        let out = scratch.text(out);
        let words = [
            "sim",
            "sweep",
            &file,
            "--points",
            "messages=10,20",
            "--seeds",
            "1..3",
        ];
        let said = towpath(&[&words, ["--out", &out].as_slice(), more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let text = fs::read_to_string(&out).expect("rows");
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    let whole = sweep("whole", &["--jobs", "1"]);
    assert_eq!(whole.len(), 6);
    // An interruption left two rows and part of a third.
    let broken = format!("{}\n{}\n{}", whole[0], whole[1], &whole[2][..50]);
    fs::write(scratch.path("broken"), broken).expect("a file");
    let mended = sweep("broken", &["--jobs", "3", "--resume"]);
    assert!(whole.iter().all(|row| mended.contains(row)));
    let mut shards = sweep("one", &["--shard", "1/2"]);
    shards.extend(sweep("two", &["--shard", "2/2"]));
    shards.sort();
    assert_eq!(shards, whole);
}

#[test]
fn scenario_errors_are_one_line() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let text = fs::read_to_string(&file).expect("it was written");
    fs::write(&file, text.replace("5 ms", "5 fortnights")).expect("a file");
    for (words, expected) in [
        (
            vec!["sim", "run", &file],
            ":17:32: \"5 fortnights\" has no known unit",
        ),
        (
            vec!["sim", "run", "nowhere.toml"],
            "cannot read nowhere.toml",
        ),
        (
            vec!["sim", "sweep", &file, "--shard", "3/2"],
            "short.toml:17",
        ),
        (vec!["sim", "sweep", "nowhere.toml", "--resume"], "--out"),
        (vec!["study", "run", "unknown"], "see towpath study list"),
    ] {
        let said = towpath(&words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(said.err.contains(expected), "{words:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn study_compare_prints_paper_beside_ours() {
    assert!(towpath(&["study", "list"]).out.contains("dcruz-1992"));
    let words = [
        "study",
        "run",
        "dcruz-1992",
        "--messages",
        "20",
        "--seeds",
        "1",
    ];
    let said = towpath(&[&words, ["--json"].as_slice()].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(336));
    assert_eq!(report["cells"].as_array().map(Vec::len), Some(396));
    let said = towpath(&[&words, ["--compare"].as_slice()].concat());
    assert!(said.out.contains("Table 21,"), "{}", said.out);
}

#[test]
fn study_html_has_sixteen_figures() {
    let scratch = Scratch::new();
    let html = scratch.text("study.html");
    let words = ["study", "run", "dcruz-1992", "--messages", "20"];
    let said = towpath(&[&words, ["--seeds", "1", "--html", &html].as_slice()].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let page = fs::read_to_string(&html).expect("a page");
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 16);
    for number in 1..=16 {
        assert!(page.contains(&format!("Figure {number}: ")), "{number}");
    }
    // Each printed point is a mark: 56 loads with and without host delays, in two figures, in both
    // halves; and the marks of the legend.
    let marks = page.matches("<path class=\"mark").count();
    assert_eq!(marks, 56 * 2 * 2 * 2 + 6);
}

#[test]
fn sweep_html_equals_report_from_rows() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let (rows, now, later) = (
        scratch.text("rows.jsonl"),
        scratch.text("now.html"),
        scratch.text("later.html"),
    );
    let points = "traffic.0.length.fixed=100,1000,2000";
    let words = ["sim", "sweep", &file, "--points", points, "--seeds", "1..2"];
    let said = towpath(&[&words, ["--out", &rows, "--html", &now].as_slice()].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let said = towpath(&["sim", "report", &rows, "--html", &later]);
    assert_eq!(said.code, 0, "{}", said.err);
    let page = fs::read_to_string(&now).expect("a page");
    assert_eq!(page, fs::read_to_string(&later).expect("a page"));
    assert!(page.contains("throughput, user B/s"), "{page}");
    // Three sizes and two seeds in each figure, and one mark in the legend.
    let figures = page.matches("<svg class=\"chart\"").count();
    let marks = page.matches("<path class=\"mark").count();
    assert!(
        figures >= 4 && marks == 3 * 2 * figures + 1,
        "{figures} {marks}"
    );
    fs::write(&rows, "no rows\n").expect("a file");
    let said = towpath(&["sim", "report", &rows, "--html", &later]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("sweep --out"), "{}", said.err);
}
