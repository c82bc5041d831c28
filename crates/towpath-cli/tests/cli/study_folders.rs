//! Folders of studies: several with an index, read, stopped and resumed; a run of another build, and
//! one that samples the processor.

use crate::studies::SCENARIO;
use crate::support::{Scratch, assert_has, finish, json, signal, start, towpath, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const STUDY: &str = r#"
title = "TITLE"

[paper]
cites = "Nobody, Nothing, 1999"
year = YEAR
tables = 1
figures = 1

[[run]]
id = "carried"
RUN

[[exhibit]]
shows = "table 1, figure 1"
title = "Bytes a second"
csv = "table-1.csv"
row = { measure = "ROW" }
judged = "shape"
chart = { x = "size, B", y = "throughput, B/s" }

[[exhibit.column]]
name = "carried"
csv = "carried"
run = "carried"
measure = "MEASURE"
"#;

const SWEEP: &str = "sim = \"two.toml --points traffic.0.length.fixed=100,200 --seeds 1..3\"";
const LENGTH: &str = "traffic.0.length.fixed";

/// A study of one run.
struct Made<'a> {
    name: &'a str,
    year: u32,
    run: &'a str,
    /// Measures of the rows and of the column.
    measures: [&'a str; 2],
    messages: u32,
}

const SIMULATED: Made<'_> = Made {
    name: "one",
    year: 1999,
    run: SWEEP,
    measures: [LENGTH, "circuits.0.user_bps"],
    messages: 200,
};

impl Made<'_> {
    /// Writes it; its folder.
    fn write(&self, scratch: &Scratch) -> String {
        let folder = scratch.path("made").join(self.name);
        fs::create_dir_all(&folder).expect("a folder");
        let text = STUDY
            .replace("TITLE", &format!("Study {}", self.name))
            .replace("YEAR", &self.year.to_string())
            .replace("RUN", self.run)
            .replace("ROW", self.measures[0])
            .replace("MEASURE", self.measures[1]);
        let messages = format!("messages = {}", self.messages);
        let scenario = SCENARIO.replace("messages = 2000", &messages);
        let scenario = scenario.replace("60 s", "1 h");
        for (name, text) in [
            ("study.toml", text.as_str()),
            ("two.toml", &scenario),
            ("page.md", "# Sizes\n\n## Asked\n\nHow much goes through?\n"),
            ("table-1.csv", "size,carried\n100,400000\n200,800000\n"),
        ] {
            fs::write(folder.join(name), text).expect("a file");
        }
        folder.to_str().expect("UTF-8").to_owned()
    }
}

/// A result's `study.json`.
fn kept(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("study.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The places that a page leads to.
fn links(page: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(page).expect("a page");
    let parts = text.split("href=\"").skip(1);
    let places = parts.filter_map(|part| part.split('"').next());
    let folder = page.parent().expect("a folder");
    places
        .map(|place| folder.join(place.replace("&#x2f;", "/")))
        .collect()
}

#[test]
fn several_studies_get_folder_each_and_index_by_year() {
    let scratch = Scratch::new();
    let one = SIMULATED.write(&scratch);
    let two = Made {
        name: "two",
        year: 1984,
        ..SIMULATED
    };
    let two = two.write(&scratch);
    let (out, copy) = (scratch.text("out"), scratch.text("copy.html"));
    let run = ["study", "run", &one, &two, "--out", &out, "--html", &copy];
    let report = json(&[&run[..], &["--json"]].concat());
    let keys: Vec<&Value> = report["studies"]
        .as_array()
        .expect("studies")
        .iter()
        .collect();
    assert_eq!([&keys[0]["study"], &keys[1]["study"]], ["one", "two"]);
    for page in [scratch.path("out/index.html"), scratch.path("copy.html")] {
        let places = links(&page);
        let ends: Vec<bool> = ["two/report.html", "one/report.html"]
            .iter()
            .zip(&places)
            .map(|(end, place)| place.ends_with(end) && place.is_file())
            .collect();
        assert_eq!(ends, [true, true], "{places:?}");
    }
    // Read again it says the same, and writes what was lost.
    fs::remove_file(scratch.path("out/index.html")).expect("removed");
    assert_eq!(json(&["study", "report", &out, "--json"]), report);
    assert!(scratch.path("out/index.html").is_file());
    let page = fs::read_to_string(scratch.path("out/one/report.html")).expect("a page");
    // The paper's curve is dashed, ours is not; the legend shows ours too.
    let lines = ["class=\"line c0", "class=\"model c0"].map(|class| page.matches(class).count());
    assert_eq!(lines, [2, 1]);
    // A study alone in the folder is read as one.
    let alone = json(&["study", "report", &scratch.text("out/one"), "--json"]);
    assert_eq!(alone, *keys[0]);
}

#[test]
fn equal_names_and_foreign_folders_are_refused_before_anything_starts() {
    let scratch = Scratch::new();
    let (one, out) = (SIMULATED.write(&scratch), scratch.text("out"));
    let refused = |arguments: &[&str], expected: &str| {
        let said = towpath(&[&["study"], arguments].concat());
        assert_eq!(
            (said.code, said.err.lines().count()),
            (2, 1),
            "{}",
            said.err
        );
        assert_has(&said.err, expected);
    };
    refused(
        &["run", &one, &one, "--out", &out],
        "two studies are called one",
    );
    refused(
        &["run", "dcruz-1992/table-21", "all", "--out", &out],
        "two studies are called dcruz-1992",
    );
    assert!(!scratch.path("out").exists());
    for command in [&["report", &out][..], &["run", "--resume", &out]] {
        refused(command, "give the folder of a study run");
    }
    fs::create_dir_all(scratch.path("out/dcruz-1992/notes")).expect("a folder");
    refused(
        &["run", &one, "dcruz-1992/table-21", "--out", &out],
        "is not empty",
    );
    assert!(!scratch.path("out/one").exists(), "nothing was begun");
    refused(&["report", &out], "give the folder of a study run");
}

#[test]
fn killed_run_of_several_studies_resumes_to_same_results() {
    let scratch = Scratch::new();
    let one = SIMULATED.write(&scratch);
    let long = Made {
        name: "two",
        messages: 300_000,
        ..SIMULATED
    };
    let two = long.write(&scratch);
    let (out, whole) = (scratch.text("out"), scratch.text("whole"));
    let child = start(&["study", "run", &one, &two, "--out", &out]);
    let second = scratch.path("out/two");
    wait_until("the second study does not begin", || {
        second.join("runs/carried").exists()
    });
    signal(child.id(), Signal::KILL);
    finish(child);
    assert_eq!(kept(&second)["runs"][0]["state"], "waiting");
    let written = |name: &str| {
        let rows = scratch
            .path("out")
            .join(name)
            .join("runs/carried/rows.jsonl");
        fs::metadata(rows).and_then(|rows| rows.modified()).ok()
    };
    let before = written("one");
    let resumed = json(&["study", "run", "--resume", &out, "--json"]);
    assert_eq!(before, written("one"), "what is done is not done again");
    let uninterrupted = json(&["study", "run", &one, &two, "--out", &whole, "--json"]);
    assert_eq!(resumed, uninterrupted);
}

#[test]
fn stopped_run_of_several_studies_names_its_folder() {
    let scratch = Scratch::new();
    let race = "race = \"tcp --sizes 100,200 -w throughput --blocks 500 --trial 60ms --no-control --no-report\"";
    let one = Made {
        run: race,
        measures: ["size", "messages_per_s"],
        ..SIMULATED
    };
    let one = one.write(&scratch);
    let two = Made {
        name: "two",
        ..SIMULATED
    };
    let (two, out) = (two.write(&scratch), scratch.text("out"));
    let child = start(&["study", "run", &one, &two, "--out", &out]);
    wait_until("the race does not begin", || {
        scratch.path("out/one/runs/carried/trials.jsonl").exists()
    });
    signal(child.id(), Signal::INT);
    let said = finish(child);
    let hint = format!("study run --resume {out}\n");
    assert_eq!(
        (said.code, said.err.ends_with(&hint)),
        (1, true),
        "{}",
        said.err
    );
    for name in ["one", "two"] {
        let kept = kept(&scratch.path("out").join(name));
        assert_eq!(kept["runs"][0]["state"], "interrupted", "{name}");
    }
    assert!(scratch.path("out/index.html").is_file());
}

#[test]
fn run_of_another_build_is_done_again() {
    let scratch = Scratch::new();
    let race = "race = \"tcp --sizes 100,200 -w throughput --blocks 2 --trial 20ms --no-control --no-report\"";
    let study = Made {
        run: race,
        measures: ["size", "messages_per_s"],
        ..SIMULATED
    };
    let (folder, out) = (study.write(&scratch), scratch.text("out"));
    json(&["study", "run", &folder, "--out", &out, "--json"]);
    let trials = scratch.path("out/runs/carried/trials.jsonl");
    let first = fs::read(&trials).expect("trials");
    json(&["study", "run", "--resume", &out, "--json"]);
    assert_eq!(
        fs::read(&trials).expect("trials"),
        first,
        "this build did it"
    );
    let mut result = kept(&scratch.path("out"));
    result["runs"][0]["hash"] = "0123456789abcdef".into();
    fs::write(scratch.path("out/study.json"), result.to_string()).expect("written");
    json(&["study", "run", "--resume", &out, "--json"]);
    assert_ne!(
        fs::read(&trials).expect("trials"),
        first,
        "another build did it"
    );
}

#[test]
fn profile_is_a_run_of_a_study() {
    let scratch = Scratch::new();
    let study = Made {
        run: "profile = \"tcp --size 100,200 --time 300ms\"",
        measures: ["size", "sender.total"],
        ..SIMULATED
    };
    let (folder, out) = (study.write(&scratch), scratch.text("out"));
    let report = json(&["study", "run", &folder, "--out", &out, "--json"]);
    let run = &kept(&scratch.path("out"))["runs"][0];
    if run["state"] == "left_out" {
        println!("SKIPPED: no profile for this user: {}", run["reason"]);
        assert_eq!(report["exhibits"][0]["absent"], run["reason"]);
        return;
    }
    assert_eq!(run["state"], "done");
    let cells = report["cells"].as_array().expect("cells").iter();
    let ours: Vec<f64> = cells.filter_map(|cell| cell["ours"].as_f64()).collect();
    assert!(
        ours.len() == 2 && ours.iter().all(|ns| *ns > 0.0),
        "{report:#}"
    );
}
