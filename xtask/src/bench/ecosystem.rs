//! ecosystem: what reading, Python and Ray cost.
//!
//! `python/benches/ecosystem.py` measures with the wheel that is installed for `python3` (or TOWPATH_PYTHON), ratios in one
//! run, in turns. It prints a line `NAME VALUE NOTE` a figure; a figure without a value says why.

use super::bar::{Bar, BenchTarget};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Name, unit and target of each figure of the script.
const FIGURES: [(&str, &str, BenchTarget); 5] = [
    ("python-sim", "x", BenchTarget::AtLeast(0.97)),
    ("ray-sweep", "x", BenchTarget::AtLeast(0.8)),
    ("read-10k", "s", BenchTarget::AtMost(0.5)),
    ("parquet-10k", "s", BenchTarget::AtMost(1.0)),
    ("watch-cost", "x", BenchTarget::AtLeast(0.98)),
];

/// Crates of the default build at most.
const CRATES_MAX: f64 = 170.0;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|start| name.starts_with(start));
    let names: Vec<&str> = FIGURES
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| wanted(name))
        .collect();
    let mut bars = Vec::new();
    if !names.is_empty() {
        match measure(root, &names) {
            Ok(said) => bars.extend(figures(&said, &names)),
            Err(error) => return crate::fail(&error),
        }
    }
    if wanted("default-crates") {
        bars.push(default_crates(root));
    }
    for bar in &bars {
        println!("{}", bar.line());
    }
    match bars.iter().all(Bar::is_met) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn measure(root: &Path, names: &[&str]) -> Result<String, String> {
    let python = std::env::var("TOWPATH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    command
        .arg(root.join("python/benches/ecosystem.py"))
        .args(names);
    command.stderr(std::process::Stdio::inherit());
    let output = command
        .output()
        .map_err(|error| format!("{python}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{python} python/benches/ecosystem.py failed; pip install the wheel, and ray"
        )),
    }
}

/// The bars of the script's lines.
fn figures(said: &str, names: &[&str]) -> Vec<Bar> {
    let wanted = FIGURES.iter().filter(|(name, ..)| names.contains(name));
    let bars = wanted.map(|(name, unit, target)| {
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let (value, note) = line
            .and_then(|rest| rest.split_once(' '))
            .unwrap_or(("", "no line of it"));
        Bar {
            name: (*name).to_owned(),
            value: value.parse().ok(),
            unit,
            target: *target,
            note: note.to_owned(),
        }
    });
    bars.collect()
}

/// Crates that the default build compiles, this workspace's own included.
fn default_crates(root: &Path) -> Bar {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(root);
    tree.args([
        "tree",
        "--locked",
        "--package",
        "towpath-cli",
        "--prefix",
        "none",
        "--edges",
        "normal,build",
    ]);
    let said = tree
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let crates: BTreeSet<String> = said
        .unwrap_or_default()
        .lines()
        .map(|line| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .filter(|name| !name.is_empty())
        .collect();
    Bar {
        name: "default-crates".to_owned(),
        value: (!crates.is_empty()).then_some(crates.len() as f64),
        unit: "crates",
        target: BenchTarget::AtMost(CRATES_MAX),
        note: "cargo tree of the default build, this workspace's own crates included".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn figure_without_a_value_says_why() {
        let bars = figures(
            "read-10k 0.25 three times\nray-sweep none no Ray\n",
            &["ray-sweep", "read-10k"],
        );
        assert_eq!(bars[0].value, None);
        assert_eq!(bars[0].note, "no Ray");
        assert_eq!(bars[1].value, Some(0.25));
    }
}
