//! study: how many printed figures of the simulated study are met, and how long studies take.
//!
//! Without arguments: the figures of `dcruz-1992`, and all studies with `--quick`. With names, `cabrera` or `taler-1992`: these in full,
//! some ten minutes each. With `all`: both, and all in full. `--out FOLDER` keeps the results of those in full, which
//! `towpath study report FOLDER --table` prints.

use super::bar::{Bar, BenchTarget};
use super::trial_runner::TrialRunner;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The study whose runs repeat digit for digit, so that each figure is judged.
const STUDY: &str = "dcruz-1992";

/// Its printed figures that contradict no other of their row.
const FIGURES: f64 = 349.0;

/// Longest that all of it may take, and how long it should, on two processors.
const SECONDS: (f64, f64) = (60.0, 15.0);

/// Longest that all studies may take with `--quick`, s, on two processors.
const QUICK_S: f64 = 300.0;

/// Longest that a study may take in full, min.
const FULL_MIN: f64 = 30.0;

/// The studies that come with the program.
const STUDIES: [&str; 5] = [
    "cabrera-1984",
    "taler-1992",
    STUDY,
    "influence-1994",
    "bidulock-2007",
];

/// The word for all studies.
const ALL: &str = "all";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// The figures of the simulated study, and the short forms.
    usual: bool,
    /// Those in full.
    full: Vec<&'static str>,
    /// The folder in which results of those in full stay, each in one of its own.
    out: Option<PathBuf>,
}

impl Wanted {
    fn parse(arguments: &[&str]) -> Result<Wanted, String> {
        let (arguments, out) = match arguments {
            [names @ .., "--out", folder] => (names, Some(PathBuf::from(folder))),
            names => (names, None),
        };
        let full = match arguments {
            [ALL] => STUDIES.to_vec(),
            names => names
                .iter()
                .map(|name| named(name))
                .collect::<Result<_, _>>()?,
        };
        let usual = full.is_empty() || arguments == [ALL];
        Ok(Wanted { usual, full, out })
    }

    fn measure(&self, program: &Path) -> Result<bool, String> {
        let mut are_above = true;
        let mut print = |bars: Vec<Bar>| {
            bars.iter().for_each(|bar| println!("{}", bar.line()));
            are_above &= bars.iter().all(Bar::is_above_floor);
        };
        if self.usual {
            print(usual(program)?);
        }
        for study in &self.full {
            print(vec![full(program, study, self.out.as_deref())?]);
        }
        Ok(are_above)
    }
}

/// Runs the benchmark. A bar is printed when its study is over.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let wanted = Wanted::parse(arguments);
    let measured = wanted.and_then(|wanted| {
        let ours = TrialRunner::build(root)?;
        wanted.measure(ours.program())
    });
    match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => crate::fail(&error),
    }
}

/// The study of that name, with its year or without.
fn named(name: &str) -> Result<&'static str, String> {
    let known = STUDIES
        .into_iter()
        .find(|study| *study == name || first_word(study) == name);
    known.ok_or_else(|| format!("no study is called {name}; use {}", STUDIES.join(", ")))
}

fn first_word(study: &'static str) -> &'static str {
    study.split('-').next().unwrap_or(study)
}

/// The figures of the simulated study, and all studies in their short form.
fn usual(program: &Path) -> Result<Vec<Bar>, String> {
    let (report, took) = measure(program, &[STUDY])?;
    let mut bars = Vec::from(figure_bars(&report, took));
    let (report, took) = measure(program, &["all", "--quick"])?;
    bars.push(Bar {
        name: "study-quick-s".to_owned(),
        value: Some(took.as_secs_f64()),
        unit: "s",
        target: BenchTarget::AtMost(QUICK_S),
        note: exhibits_text(report["studies"].as_array().into_iter().flatten()),
    });
    Ok(bars)
}

/// A study in full.
fn full(program: &Path, study: &'static str, out: Option<&Path>) -> Result<Bar, String> {
    let (report, took) = match out {
        Some(folder) => run_study(program, &[study], &folder.join(study))?,
        None => measure(program, &[study])?,
    };
    Ok(Bar {
        name: format!("study-{}-min", first_word(study)),
        value: Some(took.as_secs_f64() / 60.0),
        unit: "min",
        target: BenchTarget::AtMost(FULL_MIN),
        note: exhibits_text([&report]),
    })
}

/// `23 of 24 exhibits; findings: 5 held, 3 not decided`.
fn exhibits_text<'a>(reports: impl IntoIterator<Item = &'a Value>) -> String {
    let (mut run, mut all) = (0, 0);
    let mut words: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for report in reports {
        let exhibits = report["exhibits"].as_array().into_iter().flatten();
        for exhibit in exhibits {
            all += 1;
            run += u32::from(exhibit["absent"].is_null());
        }
        for finding in report["findings"].as_array().into_iter().flatten() {
            let text = finding["word"].as_str().unwrap_or("without a word");
            // Behind it is how many blocks would do, or why it was not checked.
            let word = text.split([';', ':']).next().unwrap_or(text);
            *words.entry(word.to_owned()).or_default() += 1;
        }
    }
    let words: Vec<String> = words
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    format!("{run} of {all} exhibits; findings: {}", words.join(", "))
}

/// The JSON of a run of studies that leaves nothing, and the time of the process.
fn measure(program: &Path, words: &[&str]) -> Result<(Value, Duration), String> {
    let folder = std::env::temp_dir().join(format!("towpath-study-{}", std::process::id()));
    let measured = run_study(program, words, &folder);
    // A folder that stays does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

/// The same, with its result in `folder`.
fn run_study(program: &Path, words: &[&str], folder: &Path) -> Result<(Value, Duration), String> {
    let started = Instant::now();
    let output = Command::new(program)
        .args(["study", "run"])
        .args(words)
        .args(["--json", "--out"])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output();
    let took = started.elapsed();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("the study ended with {}", output.status));
    }
    let report = serde_json::from_slice(&output.stdout);
    report
        .map(|report| (report, took))
        .map_err(|error| error.to_string())
}

fn figure_bars(report: &Value, took: Duration) -> [Bar; 2] {
    let count = |list: &str, standing: &str| {
        let cells = report[list].as_array().into_iter().flatten();
        cells.filter(|cell| cell["standing"] == standing).count()
    };
    let note = format!(
        "of {FIGURES}; {} misprints; counted apart {} within, {} beyond",
        count("cells", "misprint"),
        count("cells_apart", "within"),
        count("cells_apart", "beyond")
    );
    [
        Bar {
            name: "study-dcruz-within".to_owned(),
            value: Some(count("cells", "within") as f64),
            unit: "figures",
            target: BenchTarget::AtLeast(FIGURES),
            note,
        },
        Bar {
            name: "study-dcruz-s".to_owned(),
            value: Some(took.as_secs_f64()),
            unit: "s",
            target: BenchTarget::at_most(SECONDS.0, SECONDS.1),
            note: "one run of all of it".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn studies_are_named_with_their_year_or_without() {
        assert_eq!(named("taler"), Ok("taler-1992"));
        assert_eq!(named("bidulock-2007"), Ok("bidulock-2007"));
        assert!(named("tale").is_err_and(|error| error.contains("influence-1994")));
        let root = crate::root().join("studies");
        for study in STUDIES {
            assert!(root.join(study).join("study.toml").is_file(), "{study}");
        }
    }

    #[test]
    fn words_say_which_studies_run_in_which_form() {
        let wanted = |words: &[&str]| Wanted::parse(words).expect("they are known");
        let usual = wanted(&[]);
        assert!(usual.usual && usual.full.is_empty() && usual.out.is_none());
        let all = wanted(&["all", "--out", "kept"]);
        assert!(all.usual && all.out == Some("kept".into()));
        assert_eq!(all.full, STUDIES);
        let two = wanted(&["taler", "cabrera-1984"]);
        assert!(!two.usual && two.full == ["taler-1992", "cabrera-1984"]);
        assert!(Wanted::parse(&["all", "tale"]).is_err() && Wanted::parse(&["--out"]).is_err());
    }

    #[test]
    fn bars_say_what_ran_and_what_held() {
        let report = json!({
            "exhibits": [{ "absent": null }, { "absent": "no root" }, {}],
            "findings": [
                { "word": "held" },
                { "word": "not decided; 4 blocks would do" },
                { "word": "held" },
                { "word": "not decided; 78 blocks would do" },
                { "word": "not checked: run loss was not asked for" },
            ],
            "cells": [{ "standing": "within" }, { "standing": "misprint" }],
            "cells_apart": [{ "standing": "beyond" }],
        });
        let text = exhibits_text([&report]);
        assert_eq!(
            text,
            "2 of 3 exhibits; findings: 2 held, 1 not checked, 2 not decided"
        );
        let [within, seconds] = figure_bars(&report, Duration::from_secs(20));
        let line = within.line();
        assert!(
            line.starts_with("BAR study-dcruz-within 1.000 figures >=349 short"),
            "{line}"
        );
        assert!(seconds.is_above_floor() && !seconds.is_met());
    }
}
