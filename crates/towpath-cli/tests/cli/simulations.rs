//! Scenarios, sweeps, traces and studies.

use crate::support::{Scratch, assert_has, towpath};
use serde_json::Value;
use std::fs;

/// A short scenario in a file of `scratch`.
pub fn scenario(scratch: &Scratch) -> String {
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
    let said = towpath(&["sim", "run", &file, "--trace", &trace, "--pcap", &pcap]).exited(0);
    assert_has(&said.out, "40 settled");
    assert!(fs::read(&pcap).expect("a capture").len() > 40 * 2048);
    let said = towpath(&["sim", "run", &file, "--json"]);
    let row: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(row["ending"], "complete");
    assert_eq!(row["circuits"][0]["receivers"][0]["wrong_bytes"], 0);
}

#[test]
fn capture_of_cells_has_pdus_that_tshark_finds_whole() {
    let scratch = Scratch::new();
    let text = r#"
name = "cells"
time_limit = "10 s"

[medium]
kind = "atm"

[faults]
loss = "0.5%"

[[station]]
count = 2
engine = { protocol = "xtp", packet = 1400 }
cells = { aal = "aal5" }

[[traffic]]
from = [0]
to = [1]
length = { fixed = 4000 }
interarrival = { fixed = "1 ms" }
messages = 30
"#;
    fs::write(scratch.path("cells.toml"), text).expect("a file to read");
    let (file, pcap) = (scratch.text("cells.toml"), scratch.text("cells.pcapng"));
    towpath(&["sim", "run", &file, "--pcap", &pcap]).exited(0);
    let mut tshark = std::process::Command::new("tshark");
    let Ok(read) = tshark
        .args(["-n", "-o", "erf.aal5_type:Unspecified", "-V", "-r", &pcap])
        .output()
    else {
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    let read = String::from_utf8_lossy(&read.stdout);
    // Of 90 packets at least. Cells are captured where they leave, before any is lost.
    assert!(read.matches("(correct)").count() >= 90, "{read:.2000}");
    assert_eq!(read.matches("(incorrect").count(), 0);
    assert!(read.matches("Type 3: ATM").count() >= 90 * 29);
    assert!(read.contains("cells of station 1"), "answers are captured");
    assert!(read.contains("Packet comments: lost") || read.contains("lost"));
}

#[test]
fn sim_traces_equal_iff_seeds_equal() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let trace = |name: &str, seed: &str| {
        let path = scratch.text(name);
        towpath(&["sim", "run", &file, "--seed", seed, "--trace", &path]).exited(0);
        path
    };
    let (first, again, other) = (trace("a", "1"), trace("b", "1"), trace("c", "2"));
    assert_eq!(towpath(&["sim", "diff", &first, &again]).code, 0);
    let said = towpath(&["sim", "diff", &first, &other]).exited(1);
    assert_has(&said.out, "differ at line 1");
}

#[test]
fn sim_sweep_resumes_and_shards_cover_all_jobs() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let sweep = |out: &str, more: &[&str]| {
        let out = scratch.text(out);
        let words = words!("sim sweep", &file, "--points messages=10,20 --seeds 1..3");
        towpath(&[&words, ["--out", &out].as_slice(), more].concat()).exited(0);
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
            ":17:32: '5 fortnights' is no time; give a number and one of",
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
    ] {
        let said = towpath(&words).failed(2, expected);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
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
    towpath(&[&words, ["--out", &rows, "--html", &now].as_slice()].concat()).exited(0);
    towpath(&["sim", "report", &rows, "--html", &later]).exited(0);
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
    towpath(&["sim", "report", &rows, "--html", &later]).failed(2, "sweep --out");
}

/// The file with a shard of a sweep of the short scenario over two lengths and three seeds.
fn sweep_part(scratch: &Scratch, file: &str, name: &str, shard: &str) -> String {
    let out = scratch.text(name);
    let points = "traffic.0.length.fixed=64,2048";
    let words = ["sim", "sweep", file, "--points", points, "--seeds", "1..3"];
    towpath(&[&words[..], &["--out", &out, "--shard", shard]].concat()).exited(0);
    out
}

#[test]
fn sim_join_takes_each_run_once_and_names_what_is_missing() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let whole = sweep_part(&scratch, &file, "whole.jsonl", "1/1");
    let (a, b) = (
        sweep_part(&scratch, &file, "a.jsonl", "1/2"),
        sweep_part(&scratch, &file, "b.jsonl", "2/2"),
    );
    let lines = |path: &str| -> Vec<String> {
        let text = fs::read_to_string(path).expect("rows");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let joined = scratch.text("joined.jsonl");
    let said = towpath(&["sim", "join", &a, &b, &a, "--out", &joined, "--runs", "6"]).exited(0);
    assert!(
        said.out.contains("6 rows") && said.out.contains("3 came twice"),
        "{}",
        said.out
    );
    assert_eq!(lines(&joined), lines(&whole));
    assert!(lines(&whole)[0].contains("\"build\":\""));
    // A part that was cut within its last line.
    let text = fs::read_to_string(&b).expect("rows");
    let cut = scratch.text("cut.jsonl");
    fs::write(&cut, &text[..text.len() - 10]).expect("a file");
    let less = scratch.text("less.jsonl");
    let said = towpath(&["sim", "join", &a, &cut, "--out", &less]).exited(1);
    assert!(
        said.err.contains("1 runs are missing") && said.err.contains("seed"),
        "{}",
        said.err
    );
    let again = towpath(&["sim", "join", &a, "--out", &less]);
    assert_eq!(again.code, 2, "a file is not written over");
    towpath(&words!(
        "sim join",
        &a,
        "--out",
        &scratch.text("few.jsonl"),
        "--runs 600"
    ))
    .failed(1, "597 runs are missing");
}

#[test]
fn rows_of_several_builds_are_refused() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let a = sweep_part(&scratch, &file, "a.jsonl", "1/2");
    let text = fs::read_to_string(&a).expect("rows");
    let row: Value = serde_json::from_str(text.lines().next().expect("a row")).expect("JSON");
    let build = row["build"].as_str().expect("a build");
    let other = scratch.text("other.jsonl");
    let changed = text
        .replace(build, "0.0.1-0000000000000000")
        .replace("\"key\":\"", "\"key\":\"f");
    fs::write(&other, changed).expect("rows");
    towpath(&[
        "sim",
        "join",
        &a,
        &other,
        "--out",
        &scratch.text("joined.jsonl"),
    ])
    .failed(2, "rows of build 0.0.1-0000000000000000");
    towpath(&["sim", "sweep", &file, "--seeds", "1..2", "--out", &other])
        .failed(2, "give another --out");
}

#[test]
fn slurm_array_runs_every_shard_once() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/slurm/sweep.sbatch"
    );
    let parts = scratch.text("parts");
    for task in ["1", "2", "3"] {
        let mut command = std::process::Command::new("bash");
        command.args([script, &file, &parts, "--seeds", "1..4"]);
        command.env("TOWPATH", env!("CARGO_BIN_EXE_towpath"));
        command
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_ARRAY_TASK_COUNT", "3");
        command
            .env("SLURM_ARRAY_TASK_MIN", "1")
            .env("SLURM_CPUS_PER_TASK", "1");
        let said = command.output().expect("bash");
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
    let part = |n: u32| format!("{parts}/part-{n}-of-3.jsonl");
    let joined = scratch.text("joined.jsonl");
    let said = towpath(&[
        "sim",
        "join",
        &part(1),
        &part(2),
        &part(3),
        "--out",
        &joined,
        "--runs",
        "4",
    ])
    .exited(0);
    assert!(
        said.out.contains("4 rows") && said.out.contains("0 came twice"),
        "{}",
        said.out
    );
}

/// A command for `--on` that says these lines and waits for the end of its input.
fn command_of(scratch: &Scratch, lines: &[String]) -> String {
    fs::write(scratch.path("said"), lines.join("\n") + "\n").expect("a file to read");
    format!("cat '{}'; cat > /dev/null", scratch.text("said"))
}

fn answer(row: &str) -> String {
    serde_json::json!({ "row": { "node": "there", "text": row } }).to_string()
}

#[test]
fn sweep_on_a_command_writes_its_rows_once_and_refuses_wrong_ones() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let sweep =
        |more: &[&str]| towpath(&[&["sim", "sweep", &file, "--seeds", "1..2"], more].concat());
    let here = sweep(&[]).out;
    let mut rows: Vec<&str> = here.lines().collect();
    rows.sort_unstable();
    let build: Value = serde_json::from_str(rows[0]).expect("JSON");
    let build = build["build"].as_str().expect("its build").to_owned();
    let ready = format!("{{\"ready\":\"{build}\"}}");

    let twice = [&ready, &answer(rows[0]), &answer(rows[0]), &answer(rows[1])].map(String::clone);
    let there = sweep(&["--on", &command_of(&scratch, &twice)]).exited(0);
    let mut lines: Vec<&str> = there.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, rows);

    let refused = |said: &[String], words: &str, code: i32| {
        sweep(&["--on", &command_of(&scratch, said)]).failed(code, words);
    };
    let one = |row: String| [ready.clone(), answer(&row)];
    refused(
        &one(rows[0].replace("complete", "stuck")),
        "not the row of this machine",
        1,
    );
    refused(
        &one(rows[0].replace(&build, "0.0.0-old")),
        "is of build 0.0.0-old",
        1,
    );
    refused(
        &one(rows[0].replace("\"key\":\"", "\"key\":\"f")),
        "nobody asked for",
        1,
    );
    refused(
        &["{\"ready\":\"0.0.0-old\"}".to_owned()],
        "install one wheel",
        2,
    );
    refused(&["no JSON".to_owned()], "no answer", 1);
    sweep(&["--on", "true"]).exited(2);
    sweep(&["--on", &format!("cat '{}'", scratch.text("none"))]).exited(2);
    fs::write(
        scratch.path("one"),
        one(rows[0].to_owned()).join("\n") + "\n",
    )
    .expect("a file to read");
    sweep(&["--on", &format!("cat '{}'", scratch.text("one"))]).failed(1, "1 of 2 rows missing");
}

#[test]
fn export_parquet_of_a_sweep_writes_tables_or_says_what_is_missing() {
    let scratch = Scratch::new();
    let file = scenario(&scratch);
    let rows = scratch.text("rows.jsonl");
    assert_eq!(towpath(&["sim", "sweep", &file, "--out", &rows]).code, 0);
    let said = towpath(&["export", &rows, "--parquet", &scratch.text("tables")]);
    if cfg!(feature = "parquet") {
        assert_eq!(said.code, 0, "{}", said.err);
        for name in ["rows", "stations", "circuits"] {
            let octets = fs::read(scratch.path("tables").join(format!("{name}.parquet")));
            let octets = octets.expect("a table");
            assert!(octets.starts_with(b"PAR1") && octets.ends_with(b"PAR1"));
        }
    } else {
        assert_eq!(said.code, 2);
        assert_has(&said.err, "--features parquet");
    }
}
