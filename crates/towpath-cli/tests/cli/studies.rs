//! Studies as data: run, resumed, refused, left out.

use crate::support::{Scratch, assert_has, finish, json, signal, start, towpath, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A study with a race of its own and a simulation, figures made up.
const STUDY: &str = r#"
title = "Two stream sockets"

[paper]
cites = "Nobody, Nothing, 1999"
year = 1999
tables = 3
figures = 0

[[run]]
id = "race"
race = "tcp unix-stream --sizes 64,1KiB,16KiB -w throughput --blocks 3 --trial 60ms --no-control --no-report"

[[run]]
id = "carried"
sim = "two.toml --points traffic.0.length.fixed=100,200,400 --seeds 1..3"

[[run]]
id = "nowhere"
race = "raw-ether --interface nosuch0 --sizes 64 --blocks 1 --trial 60ms"

[[exhibit]]
shows = "table 1"
title = "Messages a second"
csv = "table-1.csv"
row = { measure = "size" }
judged = "shape"

[[exhibit.column]]
name = "TCP"
csv = "tcp"
run = "race"
contestant = "tcp"
measure = "messages_per_s"
unit = "/s"

[[exhibit]]
shows = "table 2"
title = "Bytes a second"
unprinted = "It is ours alone."
row = { measure = "traffic.0.length.fixed" }
chart = { x = "size, B", y = "throughput, B/s" }

[[exhibit.column]]
name = "carried"
run = "carried"
measure = "circuits.0.user_bps"
unit = "B/s"

[[exhibit]]
shows = "table 3"
title = "Frames"
unprinted = "It is ours alone."
row = { measure = "size" }

[[exhibit.column]]
name = "frames"
run = "nowhere"
measure = "messages_per_s"

[[finding]]
says = "16 KiB go through at less than 0.9 of the rate of 64 bytes."
ratio = { of = { run = "race", contestant = "tcp", measure = "messages_per_s", at = { size = 16384 } }, to = { run = "race", contestant = "tcp", measure = "messages_per_s", at = { size = 64 } }, at_most = 0.9 }

[[finding]]
says = "The rate rises with the size."
order = { falling = [{ run = "race", contestant = "tcp", measure = "messages_per_s", at = { size = 16384 } }, { run = "race", contestant = "tcp", measure = "messages_per_s", at = { size = 64 } }] }

[[finding]]
says = "Most bytes go through with the longest message."
highest = { of = { run = "carried", measure = "circuits.0.user_bps" }, x = "traffic.0.length.fixed", at_x = 400 }

[[finding]]
says = "Bytes grow with the message."
linear = { of = { run = "carried", measure = "circuits.0.user_bps" }, x = "traffic.0.length.fixed", within = "5 %" }

[[finding]]
says = "Short messages of the two cross."
crossover = { of = { run = "race", contestant = "tcp", measure = "messages_per_s" }, to = { run = "race", contestant = "tcp", measure = "messages_per_s" }, x = "size", from = 64, until = 16384 }
"#;

/// A scenario of 2,000 messages and 60 s at most.
pub const SCENARIO: &str = r#"
name = "two"
time_limit = "60 s"
messages = 2000

[medium]
kind = "direct"
rate = "10 Mbit/s"

[[station]]
count = 2
engine = { protocol = "bare" }

[[traffic]]
from = [0]
to = [1]
length = { fixed = 100 }
interarrival = { fixed = "2 ms" }
"#;

/// Writes the study; its folder.
fn write(scratch: &Scratch, text: &str) -> String {
    let folder = scratch.path("mine");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in [
        ("study.toml", text),
        ("two.toml", SCENARIO),
        ("page.md", "# Two\n\n## Asked\n\nWhich is faster?\n"),
        ("table-1.csv", "size,tcp\n64,1000\n1024,900\n16384,100\n"),
    ] {
        fs::write(folder.join(name), text).expect("a file");
    }
    folder.to_str().expect("UTF-8").to_owned()
}

fn state(out: &Path, id: &str) -> String {
    let text = fs::read_to_string(out.join("study.json")).unwrap_or_default();
    let result: Value = serde_json::from_str(&text).unwrap_or_default();
    let runs = result["runs"].as_array().cloned().unwrap_or_default();
    let run = runs.iter().find(|run| run["id"] == id);
    run.map_or(String::new(), |run| {
        run["state"].as_str().unwrap_or_default().to_owned()
    })
}

#[test]
fn own_study_is_judged_and_what_cannot_run_is_left_out_with_reason() {
    let scratch = Scratch::new();
    let (folder, out) = (write(&scratch, STUDY), scratch.text("out"));
    let said = towpath(&["study", "run", &folder, "--out", &out, "--compare"]).exited(0);
    assert_has(&said.out, "2 of 3 exhibits, the others because:");
    assert_eq!(state(Path::new(&out), "race"), "done");
    assert_eq!(state(Path::new(&out), "nowhere"), "left_out");
    // Each run has its usual folder.
    results::RunData::read(&scratch.path("out").join("runs/race")).expect("the folder of a race");
    let page = fs::read_to_string(scratch.path("out").join("report.html")).expect("a page");
    assert!(page.contains("Which is faster?") && page.contains("towpath race tcp unix-stream"));
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 1);
    let report = json(&["study", "report", &out, "--json"]);
    let words = report["findings"].as_array().expect("findings").iter();
    let words: Vec<&str> = words
        .filter_map(|finding| finding["word"].as_str())
        .collect();
    assert_eq!(words[2..4], ["held", "held"], "{report:#}");
    // A curve does not cross itself, in no number of blocks.
    assert_eq!(words[4], "not decided");
    assert!(!words[0].starts_with("did not hold"), "{words:?}");
    assert!(!words[1].starts_with("held"), "{words:?}");
    assert_eq!(report["cells"].as_array().map(Vec::len), Some(3));
}

#[test]
fn killed_study_resumed_gives_the_same_exhibits() {
    let scratch = Scratch::new();
    // Two simulations: the second takes seconds, the first does not.
    let long = SCENARIO.replace("messages = 2000", "messages = 300000");
    let long = long.replace("60 s", "1 h");
    let text = STUDY.replace(
        "[[run]]\nid = \"nowhere\"\nrace = \"raw-ether --interface nosuch0 --sizes 64 --blocks 1 --trial 60ms\"",
        "[[run]]\nid = \"nowhere\"\nsim = \"long.toml --points traffic.0.length.fixed=100,200 --seeds 1,2\"",
    );
    let text = text.replace(
        "row = { measure = \"size\" }\n\n[[exhibit.column]]\nname = \"frames\"",
        "row = { measure = \"traffic.0.length.fixed\" }\n\n[[exhibit.column]]\nname = \"frames\"",
    );
    let text = text.replace(
        "run = \"nowhere\"\nmeasure = \"messages_per_s\"",
        "run = \"nowhere\"\nmeasure = \"circuits.0.user_bps\"",
    );
    let text = text.replace("race = \"tcp unix-stream --sizes 64,1KiB,16KiB -w throughput --blocks 3 --trial 60ms --no-control --no-report\"", "sim = \"two.toml --seeds 1..3\"");
    let folder = write(&scratch, &text);
    fs::write(Path::new(&folder).join("long.toml"), long).expect("a file");
    let (out, whole) = (scratch.text("out"), scratch.text("whole"));
    let child = start(&["study", "run", &folder, "--out", &out]);
    wait_until("the first simulation does not end", || {
        state(Path::new(&out), "carried") == "done"
    });
    signal(child.id(), Signal::KILL);
    finish(child);
    assert_eq!(state(Path::new(&out), "nowhere"), "waiting");
    let before = fs::metadata(scratch.path("out").join("runs/carried/rows.jsonl")).expect("rows");
    let resumed = json(&["study", "run", "--resume", &out, "--json"]);
    let after = fs::metadata(scratch.path("out").join("runs/carried/rows.jsonl")).expect("rows");
    let times = (
        before.modified().expect("a time"),
        after.modified().expect("a time"),
    );
    assert_eq!(times.0, times.1, "what is done is not done again");
    let uninterrupted = json(&["study", "run", &folder, "--out", &whole, "--json"]);
    assert_eq!(resumed, uninterrupted);
    assert_eq!(state(Path::new(&out), "nowhere"), "done");
}

#[test]
fn stopped_study_keeps_what_is_done_and_says_so() {
    let scratch = Scratch::new();
    let text = STUDY.replace("--blocks 3 --trial 60ms", "--blocks 500 --trial 60ms");
    let (folder, out) = (write(&scratch, &text), scratch.text("out"));
    let child = start(&["study", "run", &folder, "--out", &out]);
    wait_until("the race does not begin", || {
        scratch.path("out").join("runs/race/trials.jsonl").exists()
    });
    signal(child.id(), Signal::INT);
    finish(child).failed(1, &format!("study run --resume {out}"));
    assert_eq!(state(Path::new(&out), "race"), "interrupted");
    assert_eq!(state(Path::new(&out), "carried"), "interrupted");
    // The race was asked to end, and ended as races do.
    let race = results::RunData::read(&scratch.path("out").join("runs/race")).expect("a race");
    assert!(race.summary.is_some());
}

#[test]
fn folder_of_another_machine_is_not_resumed() {
    let scratch = Scratch::new();
    let (folder, out) = (write(&scratch, STUDY), scratch.text("out"));
    towpath(&["study", "run", &folder, "--out", &out]).exited(0);
    let said = towpath(&["study", "run", &folder, "--out", &out]);
    assert_eq!(
        (said.code, said.err.contains("--resume it")),
        (2, true),
        "{}",
        said.err
    );
    let path = scratch.path("out").join("study.json");
    let mut result: Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
    result["machine"] = "lab2 x86_64 6.1 4 CPUs".into();
    fs::write(&path, result.to_string()).expect("written");
    let said = towpath(&["study", "run", "--resume", &out]).failed(2, "resume it there");
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

#[test]
fn unknown_study_id_or_fault_is_refused_before_anything_starts() {
    let scratch = Scratch::new();
    let out = scratch.text("out");
    let folder = write(&scratch, STUDY);
    let refused = |study: &str, expected: &str| {
        let said = towpath(&["study", "run", study, "--out", &out]);
        assert_eq!(said.code, 2, "{study}: {}", said.err);
        assert!(said.err.contains(expected), "{study}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        assert!(!Path::new(&out).exists(), "{study}");
    };
    refused("unknown", "see towpath study list");
    refused("dcruz-1992/table-99", "see towpath study show dcruz-1992");
    for (from, to, expected) in [
        ("--blocks 3", "--blokcs 3", "/study.toml:"),
        (
            "-w throughput --",
            "-w throughput --out x --",
            "is set by the study",
        ),
        (
            "tcp unix-stream --sizes 64",
            "tcp unix-stream --sizes x",
            "'x'",
        ),
        (
            "sim = \"two.toml",
            "sim = \"three.toml",
            "no file \"three.toml\" in the study",
        ),
        ("traffic.0.length", "traffic.7.length", "names no value"),
        (
            "judged = \"shape\"",
            "judgde = \"shape\"",
            "unknown field `judgde`",
        ),
    ] {
        write(&scratch, &STUDY.replacen(from, to, 1));
        refused(&folder, expected);
    }
}

#[test]
fn list_and_show_name_studies_exhibits_and_words() {
    assert!(towpath(&["study", "list"]).out.contains("dcruz-1992"));
    let said = towpath(&["study", "show", "dcruz-1992"]).exited(0);
    for expected in [
        "## Asked",
        "table 1, figure 1: ",
        "expected-33: towpath sim sweep unicast-33.toml",
    ] {
        assert!(said.out.contains(expected), "{expected}: {}", said.out);
    }
}

#[test]
fn simulated_study_keeps_rows_cells_and_figures() {
    let scratch = Scratch::new();
    let (out, html) = (scratch.text("out"), scratch.text("study.html"));
    let report = json(&words!(
        "study run dcruz-1992 --quick --json --out",
        &out,
        "--html",
        &html
    ));
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(336));
    let cells = report["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 396);
    let misprints = cells.iter().filter(|cell| cell["standing"] == "misprint");
    assert_eq!(misprints.count(), 47);
    // Tables 17 to 21 need one message: they are right to the last digit in the short form too.
    let expected = cells
        .iter()
        .filter(|cell| cell["table"].as_u64() >= Some(17));
    let mut standings = expected.map(|cell| cell["standing"].as_str().unwrap_or_default());
    assert!(standings.all(|standing| standing != "beyond"));
    for key in [
        "figure",
        "size_bytes",
        "interarrival_tu",
        "host_delays",
        "limit",
        "note",
    ] {
        assert!(cells[0].get(key).is_some(), "{key}: {}", cells[0]);
    }
    for key in [
        "revision",
        "mode",
        "offered_bps",
        "generated_bps",
        "sender_busy",
        "complete",
        "runs",
    ] {
        assert!(
            report["rows"][0].get(key).is_some(),
            "{key}: {}",
            report["rows"][0]
        );
    }
    let page = fs::read_to_string(&html).expect("a page");
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 20);
    for number in 1..=16 {
        assert!(page.contains(&format!("figure {number}<")), "{number}");
    }
}

#[test]
fn one_exhibit_of_a_study_runs_its_own_runs_alone() {
    let scratch = Scratch::new();
    let out = scratch.text("out");
    let words = words!("study run dcruz-1992/table-21 --compare --out", &out);
    let said = towpath(&words).exited(0);
    assert!(
        said.out.contains("Table 21: ") && !said.out.contains("Table 1,"),
        "{}",
        said.out
    );
    assert_has(&said.out, "1 of 1 exhibits.");
    let runs = fs::read_dir(scratch.path("out").join("runs"))
        .expect("runs")
        .flatten();
    let folders = runs.filter(|entry| entry.path().is_dir());
    assert_eq!(folders.count(), 2);
}
