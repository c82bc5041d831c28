//! Commands that read results, complete and damaged.

use crate::support::{Scratch, assert_has, race, towpath};
use serde_json::Value;
use std::fs;
use std::path::Path;

const FILES: [&str; 4] = ["plan.toml", "machine.json", "trials.jsonl", "summary.json"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for name in FILES {
        fs::copy(from.join(name), to.join(name)).expect("a copy");
    }
}

/// Edits the trials of a folder.
fn edit(folder: &Path, change: impl Fn(usize, &mut Value)) {
    let path = folder.join("trials.jsonl");
    let text = fs::read_to_string(&path).expect("trials");
    let edited = text.lines().enumerate().map(|(number, line)| {
        let mut trial: Value = serde_json::from_str(line).expect("JSON");
        change(number, &mut trial);
        format!("{trial}\n")
    });
    let edited: String = edited.collect();
    fs::write(path, edited).expect("the trials are written");
}

/// A result with constant numbers plus a little deterministic noise.
fn steady(scratch: &Scratch) -> String {
    let arguments = words!("tcp unix-stream --sizes 64 -w throughput --blocks 6");
    race(scratch, "a", &arguments);
    edit(&scratch.path("a"), |number, trial| {
        let noise = 1.0 + (number % 3) as f64 * 1e-4;
        trial["status"] = "ok".into();
        trial["reason"] = "".into();
        trial["metrics"]["messages_per_s"] = (1e6 * noise).into();
    });
    scratch.text("a")
}

#[test]
fn compare_fail_on_exits_3_only_when_slower() {
    let scratch = Scratch::new();
    let a = steady(&scratch);
    let (same, slow) = (scratch.text("same"), scratch.text("slow"));
    copy(&scratch.path("a"), &scratch.path("same"));
    copy(&scratch.path("a"), &scratch.path("slow"));
    edit(&scratch.path("slow"), |_, trial| {
        let rate = trial["metrics"]["messages_per_s"].as_f64().expect("a rate");
        trial["metrics"]["messages_per_s"] = (rate * 0.8).into();
    });
    let compare = |a: &str, b: &str| towpath(&["compare", a, b, "--fail-on", "3%"]);
    compare(&a, &same).exited(0);
    let slower = compare(&a, &slow).exited(3);
    assert_has(&slower.out, "0.80");
    compare(&slow, &a).exited(0);
    towpath(&["compare", &a, &slow]).exited(0);
    let json = towpath(&["compare", &a, &slow, "--json", "--fail-on", "3%"]).exited(3);
    let verdicts: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(verdicts[0]["kind"], "slower");
    let page = scratch.text("compare.html");
    let markdown = towpath(&["compare", &a, &slow, "--markdown", "--html", &page]).exited(0);
    assert!(markdown.out.starts_with("### "), "{}", markdown.out);
    assert_has(&markdown.out, "0.800x");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("0.800x") && page.trim_end().ends_with("</html>"));
}

#[test]
fn compare_without_common_cell_fails() {
    let scratch = Scratch::new();
    race(&scratch, "a", &["tcp", "--sizes", "64", "-w", "throughput"]);
    race(
        &scratch,
        "b",
        &["tcp", "--sizes", "128", "-w", "throughput"],
    );
    towpath(&["compare", &scratch.text("a"), &scratch.text("b")]).failed(1, "no cell in common");
}

#[test]
fn all_result_commands_read_complete_result() {
    let scratch = Scratch::new();
    let arguments = words!("tcp unix-stream --sizes 64,1KiB,8KiB,64KiB -w throughput");
    let run = race(&scratch, "a", &arguments);
    let folder = scratch.text("a");
    let shown = towpath(&["show", &folder]).exited(0);
    assert_has(&shown.out, "unix-stream");
    let csv = towpath(&["export", &folder]);
    assert!(csv.out.lines().count() > run.trials.len());
    let fitted = towpath(&["fit", &folder]).exited(0);
    assert_has(&fitted.out, "x size");
    let elsewhere = scratch.text("elsewhere.html");
    towpath(&["report", &folder, "--out", &elsewhere]).exited(0);
    let page = fs::read_to_string(elsewhere).expect("the report");
    assert!(page.trim_end().ends_with("</html>"));
    let charts = scratch.text("charts");
    towpath(&["report", &folder, "--svg", &charts]).exited(0);
    let files = fs::read_dir(&charts).expect("the charts");
    let names: Vec<String> = files
        .map(|file| {
            file.expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let count = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    assert!(
        count(".svg") > 2 && count(".svg") == count(".csv"),
        "{names:?}"
    );
}

#[test]
fn equal_contestants_race_against_each_other() {
    let scratch = Scratch::new();
    let run = race(
        &scratch,
        "a",
        &["tcp", "tcp", "--sizes", "64", "-w", "throughput"],
    );
    assert_eq!(run.plan.transports, ["tcp", "tcp#2"]);
    for name in ["tcp", "tcp#2"] {
        let own = crate::support::trials_of(&run, name);
        assert!(own.iter().any(|trial| !trial.control), "{name}");
    }
    assert!(run.plan.options.contains_key("class.tcp#2"));
    let verdicts = run.summary.expect("a summary").verdicts;
    assert_eq!(verdicts[0].contestant, "tcp#2");
    let said = towpath(&["show", &scratch.text("a")]);
    assert_has(&said.out, "tcp#2");
}

#[test]
fn cut_off_trials_are_said_by_every_reader() {
    let scratch = Scratch::new();
    race(
        &scratch,
        "a",
        &words!("tcp udp --sizes 64 -w throughput --blocks 4"),
    );
    let path = scratch.path("a").join("trials.jsonl");
    let text = fs::read_to_string(&path).expect("trials");
    let kept: Vec<&str> = text.lines().take(6).collect();
    fs::write(&path, format!("{}\n{}", kept.join("\n"), &kept[0][..40])).expect("it is cut");
    let folder = scratch.text("a");
    let out = scratch.text("report.html");
    let show = towpath(&["show", &folder]);
    assert_has(&show.out, "trials.jsonl is cut off");
    for command in [
        &["export", &folder][..],
        &["report", &folder, "--out", &out],
    ] {
        let said = towpath(command).exited(0);
        assert!(
            said.err.contains("trials.jsonl is cut off"),
            "{command:?}: {}",
            said.err
        );
    }
}

#[test]
fn offered_load_sweep_prints_knee() {
    let scratch = Scratch::new();
    let arguments = words!("unix-stream --sizes 64 -w offered --rate 500,1k,500M");
    race(&scratch, "a", &arguments);
    let said = towpath(&["show", &scratch.text("a")]);
    let knee = said
        .out
        .lines()
        .find(|line| line.contains("unix-stream carries"));
    assert!(knee.is_some(), "{}", said.out);
}

#[test]
fn damaged_result_folder_gives_one_line_error() {
    let scratch = Scratch::new();
    race(
        &scratch,
        "whole",
        &["tcp", "--sizes", "64", "-w", "throughput"],
    );
    for name in FILES {
        for fault in ["cut", "empty", "noise", "gone"] {
            let folder = scratch.path(&format!("{name}-{fault}"));
            copy(&scratch.path("whole"), &folder);
            spoil(&folder.join(name), fault);
            readers_refuse(&scratch, &folder, name, fault);
        }
    }
    let missing = scratch.path("missing");
    readers_refuse(&scratch, &missing, "plan.toml", "gone");
}

fn spoil(path: &Path, fault: &str) {
    let bytes = fs::read(path).expect("the file");
    let done = match fault {
        "cut" => fs::write(path, &bytes[..bytes.len() / 2]),
        "empty" => fs::write(path, ""),
        "noise" => fs::write(path, b"\xff\x00{not anything\n"),
        _ => fs::remove_file(path),
    };
    done.expect("the file is spoilt");
}

/// A run that was killed has no summary, and half a last line or no trials at all.
fn is_of_a_killed_run(name: &str, fault: &str) -> bool {
    matches!(
        (name, fault),
        ("summary.json", "gone") | ("trials.jsonl", "empty" | "cut")
    )
}

fn readers_refuse(scratch: &Scratch, folder: &Path, name: &str, fault: &str) {
    let text = folder.to_str().expect("UTF-8");
    let whole = scratch.text("whole");
    let report = scratch.path("report.html");
    let to = report.to_str().expect("UTF-8");
    for arguments in [
        &["show", text][..],
        &["export", text],
        &["report", text, "--out", to],
        &["compare", &whole, text],
        &["compare", text, &whole],
    ] {
        let said = towpath(arguments);
        let case = format!("{name} {fault} {arguments:?}: {} {}", said.code, said.err);
        assert!(!said.err.contains("panicked"), "{case}");
        assert!(said.err.lines().count() <= 1, "{case}");
        if is_of_a_killed_run(name, fault) {
            assert!(
                said.code == 0 || said.err.contains("no cell in common"),
                "{case}"
            );
            continue;
        }
        assert_eq!(said.code, 1, "{case}");
        assert!(said.err.contains(name), "{case}");
        assert!(!report.exists(), "{case}");
    }
    // A killed run gets a report; remove it before the next fault.
    let _ = fs::remove_file(report);
}

#[test]
fn history_judges_adjacent_runs_and_names_what_changed() {
    let scratch = Scratch::new();
    let a = steady(&scratch);
    for (name, label, factor, started) in [("b", "v10", 0.8, 50.0), ("c", "v9", 1.0, 20.0)] {
        copy(&scratch.path("a"), &scratch.path(name));
        edit(&scratch.path(name), |_, trial| {
            let rate = trial["metrics"]["messages_per_s"].as_f64().expect("a rate");
            trial["metrics"]["messages_per_s"] = (rate * factor).into();
            let before = trial["started_s"].as_f64().expect("a time");
            trial["started_s"] = (before + started).into();
        });
        let plan = fs::read_to_string(scratch.path("a").join("plan.toml")).expect("the plan");
        let plan = plan.replacen(
            "[options]\n",
            &format!("[options]\n\"label.version\" = \"{label}\"\n"),
            1,
        );
        fs::write(scratch.path(name).join("plan.toml"), plan).expect("the plan is written");
    }
    let machine = scratch.path("b").join("machine.json");
    let text = fs::read_to_string(&machine).expect("the machine");
    let text = text.replace(env!("CARGO_PKG_VERSION"), "99.0.0");
    fs::write(&machine, text).expect("the machine is written");
    let (b, c, page) = (
        scratch.text("b"),
        scratch.text("c"),
        scratch.text("history.html"),
    );
    let said = towpath(&["history", &b, &a, &c, "--json", "--html", &page]).exited(0);
    let history: Value = serde_json::from_str(&said.out).expect("JSON");
    let names: Vec<&str> = (0..3)
        .map(|n| history["runs"][n]["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, [&a, &c, &b], "in the order they started");
    assert_eq!(history["runs"][2]["changes"][0]["name"], "towpath");
    assert_eq!(history["runs"][1]["changes"], serde_json::json!([]));
    let steps = &history["cells"][0]["steps"];
    assert_eq!(steps[0]["verdict"]["kind"], "equal");
    assert_eq!(steps[1]["verdict"]["kind"], "slower");
    assert!(
        fs::read_to_string(page)
            .expect("the page")
            .contains("99.0.0")
    );
    let by = towpath(&["history", &b, &c, "--by", "version"]).exited(0);
    let (first, second) = (by.out.find("v9"), by.out.find("v10"));
    assert!(first < second && first.is_some(), "{}", by.out);
    towpath(&["history", &a, &b, "--by", "version"]).failed(1, "has no label version");
}

#[test]
fn index_of_results_lists_runs_and_damaged_folders() {
    let scratch = Scratch::new();
    let arguments = words!("tcp --sizes 64 -w throughput --label rack=7");
    race(&scratch, "all/deep/a", &arguments);
    assert_eq!(towpath(&["report", &scratch.text("all/deep/a")]).code, 0);
    fs::create_dir_all(scratch.path("all/bad")).expect("a folder");
    fs::write(scratch.path("all/bad/plan.toml"), "version =").expect("a damaged plan");
    let said = towpath(&["report", "--index", &scratch.text("all")]).exited(0);
    assert_has(&said.err, "bad/plan.toml is damaged");
    let page = fs::read_to_string(scratch.path("all/index.html")).expect("the page");
    let page = page.replace("&#x2f;", "/");
    assert!(page.contains("href=\"./deep/a/report.html\""), "{page}");
    assert!(page.contains("rack=7") && page.contains("bad/plan.toml is damaged"));
    let empty = towpath(&["report", "--index", &scratch.text("all/deep/a")]);
    assert_eq!(empty.code, 0, "a run is below itself: {}", empty.err);
    fs::create_dir_all(scratch.path("none")).expect("a folder");
    towpath(&["report", "--index", &scratch.text("none")]).failed(1, "no result below");
}

#[test]
fn labels_that_are_no_names_are_refused() {
    for (label, words) in [
        ("commit", "is no KEY=TEXT"),
        ("a b=1", "is no key of a label"),
        ("commit=", "printable characters"),
    ] {
        let said = towpath(&["race", "tcp", "--label", label]);
        assert_eq!(said.code, 2, "{label}");
        assert_has(&said.err, words);
    }
    towpath(&["race", "tcp", "--label", "a=1", "--label", "a=2"]).failed(2, "given twice");
}

#[test]
fn export_hgrm_writes_delays_of_each_cell() {
    let scratch = Scratch::new();
    race(
        &scratch,
        "a",
        &words!("tcp unix-stream --sizes 64 -w delay --blocks 2"),
    );
    towpath(&[
        "export",
        &scratch.text("a"),
        "--hgrm",
        &scratch.text("hgrm"),
    ])
    .exited(0);
    let mut names: Vec<String> = fs::read_dir(scratch.path("hgrm"))
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "delay-at-64-b-tcp-delay.hgrm",
            "delay-at-64-b-unix-stream-delay.hgrm"
        ]
    );
    let text = fs::read_to_string(scratch.path("hgrm").join(&names[0])).expect("a file");
    assert!(
        text.contains("1.000000000000") && text.contains("#[Mean"),
        "{text}"
    );
    towpath(&["export", &scratch.text("a"), &scratch.text("a")]).exited(2);
    race(&scratch, "b", &["tcp", "--sizes", "64", "-w", "throughput"]);
    towpath(&[
        "export",
        &scratch.text("b"),
        "--hgrm",
        &scratch.text("none"),
    ])
    .failed(1, "no histograms");
}
