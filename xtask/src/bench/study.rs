//! study: how many printed figures of the simulated study are met, and how long all of it takes.

use super::bar::{Bar, BenchTarget};
use super::trial_runner::TrialRunner;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The study whose runs repeat digit for digit, so that each figure is judged.
const STUDY: &str = "dcruz-1992";

/// Its printed figures that contradict no other of their row.
const FIGURES: f64 = 349.0;

/// Longest that all of it may take, and how long it should, on two processors.
const SECONDS: (f64, f64) = (60.0, 15.0);

/// Runs the benchmark.
pub fn run(root: &Path, _arguments: &[&str]) -> ExitCode {
    let measured = TrialRunner::build(root).and_then(|ours| measure(ours.program()));
    let (report, took) = match measured {
        Ok(measured) => measured,
        Err(error) => return crate::fail(&error),
    };
    let bars = bars(&report, took);
    bars.iter().for_each(|bar| println!("{}", bar.line()));
    match bars.iter().all(Bar::is_above_floor) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// The JSON of the whole study, and the time of the process.
fn measure(program: &Path) -> Result<(Value, Duration), String> {
    let folder = std::env::temp_dir().join(format!("towpath-study-{}", std::process::id()));
    let started = Instant::now();
    let output = Command::new(program)
        .args(["study", "run", STUDY, "--json", "--out"])
        .arg(&folder)
        .stderr(Stdio::inherit())
        .output();
    let took = started.elapsed();
    // A folder that stays does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("the study ended with {}", output.status));
    }
    let report = serde_json::from_slice(&output.stdout);
    report
        .map(|report| (report, took))
        .map_err(|error| error.to_string())
}

fn bars(report: &Value, took: Duration) -> [Bar; 2] {
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
            target: BenchTarget::GoalAtMost {
                floor: SECONDS.0,
                goal: SECONDS.1,
            },
            note: "one run of all of it".to_owned(),
        },
    ]
}
