//! A study of a reader's own: a race on the loopback beside made-up figures.
//!
//! Its measures are the rate over itself times a factor, so that every block of a valid race has the
//! same value whatever the machine does: each word of a finding is certain.

use crate::agents::{Agent, with_keys};
use crate::support::{Scratch, children, finish, is_running, json, signal, start, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;

const HEAD: &str = r#"
title = "Sizes"

[paper]
cites = "Nobody, Nothing, 1999"
year = 1999
tables = 1
figures = 0

[measure]
octets = "messages_per_s / messages_per_s * size"
thousand = "messages_per_s / messages_per_s * 1000"
square = "octets * octets"

[[run]]
id = "race"
race = "tcp --link ether10 --sizes 64,1KiB,16KiB -w throughput --blocks 8 --trial 60ms --no-control --no-report"

[[exhibit]]
shows = "table 1"
title = "Octets of a message"
csv = "table-1.csv"
row = { measure = "size" }
judged = "10 %"
misprint = [{ row = 16384, column = "octets", because = "it is below its neighbours" }]

[[exhibit.column]]
name = "octets"
csv = "octets"
run = "race"
contestant = "tcp"
measure = "octets"
"#;

/// A figure of the race: at a size, or the curve over all.
fn figure(measure: &str, size: Option<u64>) -> String {
    let at = size.map_or(String::new(), |size| format!(", at = {{ size = {size} }}"));
    format!("{{ run = \"race\", contestant = \"tcp\", measure = \"{measure}\"{at} }}")
}

/// Checks of every kind, and the word of each.
fn checks() -> Vec<(String, &'static str)> {
    let at = |size| figure("octets", Some(size));
    let all = |measure| figure(measure, None);
    let ratio = |of, to, bound: &str| format!("ratio = {{ of = {of}, to = {to}, {bound} }}");
    let order = |sizes: [u64; 2]| {
        let [first, second] = sizes.map(at);
        format!("order = {{ falling = [{first}, {second}] }}")
    };
    let crossover = |of, to| {
        let (of, to) = (all(of), all(to));
        format!("crossover = {{ of = {of}, to = {to}, x = \"size\", from = 64, until = 16384 }}")
    };
    let highest = |of, x: u64| {
        let of = all(of);
        format!("highest = {{ of = {of}, x = \"size\", at_x = {x} }}")
    };
    let linear = |of| {
        let of = all(of);
        format!("linear = {{ of = {of}, x = \"size\", within = \"5 %\" }}")
    };
    vec![
        (ratio(at(16_384), at(64), "at_least = 2"), "held"),
        (ratio(at(16_384), at(64), "at_least = 1000"), "held by less"),
        (ratio(at(16_384), at(64), "at_most = 2"), "did not hold"),
        (ratio(at(64), at(64), "at_least = 1"), "not decided"),
        (order([16_384, 64]), "held"),
        (order([64, 16_384]), "did not hold"),
        (order([64, 64]), "not decided"),
        (crossover("octets", "thousand"), "held"),
        (crossover("thousand", "octets"), "did not hold"),
        (crossover("octets", "octets"), "not decided"),
        (highest("octets", 16_384), "held"),
        (highest("octets", 64), "did not hold"),
        (highest("thousand", 64), "not decided"),
        (linear("octets"), "held"),
        (linear("square"), "did not hold"),
    ]
}

/// Writes the study with one finding for each check; its folder.
fn write(scratch: &Scratch) -> String {
    let mut text = HEAD.to_owned();
    for (number, (check, _)) in checks().iter().enumerate() {
        text += &format!("\n[[finding]]\nsays = \"Sentence {number}.\"\n{check}\n");
    }
    let folder = scratch.path("mine");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in [
        ("study.toml", text.as_str()),
        ("page.md", "# Sizes\n\n## Asked\n\nHow long is a message?\n"),
        ("table-1.csv", "size,octets\n64,65\n1024,2000\n16384,1\n"),
    ] {
        fs::write(folder.join(name), text).expect("a file");
    }
    folder.to_str().expect("UTF-8").to_owned()
}

/// The study with its race on the loopback, for tests without rights.
fn write_loopback(scratch: &Scratch) -> String {
    let folder = write(scratch);
    let path = Path::new(&folder).join("study.toml");
    let text = fs::read_to_string(&path).expect("a study");
    fs::write(&path, text.replace("--link ether10 ", "")).expect("written");
    folder
}

fn words(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let words = findings.iter().map(|finding| finding["word"].as_str());
    words.flatten().collect()
}

#[test]
fn own_study_of_loopback_race_gets_every_word_and_standing() {
    let scratch = Scratch::new();
    let (folder, out) = (write_loopback(&scratch), scratch.text("out"));
    let report = json(&["study", "run", &folder, "--out", &out, "--json"]);
    let expected: Vec<&str> = checks().iter().map(|(_, word)| *word).collect();
    assert_eq!(words(&report), expected, "{report:#}");
    let cells = report["cells"].as_array().expect("cells").iter();
    let standings: Vec<&str> = cells.filter_map(|cell| cell["standing"].as_str()).collect();
    assert_eq!(standings, ["within", "beyond", "misprint"]);
    // What the race kept of its words is what a reader would give.
    let race = results::RunData::read(&scratch.path("out/runs/race")).expect("a race");
    let command = &race.plan.command[1..3];
    assert_eq!(command, ["race", "tcp"]);
}

#[test]
fn study_killed_in_its_race_leaves_no_process_and_resumes_to_same_exhibits() {
    let scratch = Scratch::new();
    let (folder, out) = (write_loopback(&scratch), scratch.text("out"));
    let study = start(&["study", "run", &folder, "--out", &out, "--json"]);
    let mut processes = Vec::new();
    wait_until("the race has no workers", || {
        let races = children(study.id());
        let workers: Vec<u32> = races.iter().copied().flat_map(children).collect();
        processes = [races, workers].concat();
        processes.len() > 2
    });
    signal(study.id(), Signal::KILL);
    finish(study);
    wait_until("a process outlives its study", || {
        !processes.iter().copied().any(is_running)
    });
    let resumed = json(&["study", "run", "--resume", &out, "--json"]);
    let whole = scratch.text("whole");
    let whole = json(&["study", "run", &folder, "--out", &whole, "--json"]);
    for list in ["cells", "exhibits"] {
        assert_eq!(resumed[list], whole[list], "{list}");
    }
    assert_eq!(words(&resumed), words(&whole));
}

#[test]
fn study_to_an_agent_races_there_without_its_link() {
    let scratch = Scratch::new();
    let (folder, out, none) = (write(&scratch), scratch.text("out"), scratch.text("none"));
    let agent = Agent::start(&none, &[], 1);
    let start = ["study", "run", &folder, "--to", agent.address()];
    let said = with_keys(&none, &[&start[..], &["--out", &out, "--json"]].concat()).exited(0);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let expected: Vec<&str> = checks().iter().map(|(_, word)| *word).collect();
    assert_eq!(words(&report), expected, "{report:#}");
    let kept = fs::read_to_string(scratch.path("out/study.json")).expect("a result");
    assert!(!kept.contains("--link") && kept.contains(agent.address()));
    let page = fs::read_to_string(scratch.path("out/report.html")).expect("a page");
    let race = fs::read_to_string(scratch.path("out/runs/race/report.html"));
    assert!(race.is_err(), "--no-report is a word of the run");
    assert!(page.contains("raced against") && page.contains(agent.address()));
}
