//! The wheel of `python/`: built, installed into a fresh environment, and tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

/// What the tests use besides the wheel.
const TOOLS: [&str; 6] = [
    "maturin>=1.8,<2",
    "pytest",
    "pyarrow",
    "polars",
    "pandas",
    "prometheus_client",
];

/// Whether Ray is installed too: 79 MB, and a minute or two of tests.
const WITH_RAY: &str = "TOWPATH_TEST_RAY";

/// Octets of a test's output that are shown at most.
const SHOWN_MAX: usize = 20_000;

/// What became of the wheel.
enum Tested {
    /// It was not tested, and why.
    Skipped(String),
    /// Tests that passed and failed.
    Counted { passed: u64, failed: u64 },
}

/// Builds a quick wheel around the program of the last debug build, and runs its tests. The last line is
/// `N passed, N failed`.
pub fn run_tests(root: &Path) -> ExitCode {
    let (passed, failed) = check(root, None);
    println!("{passed} passed, {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Tests the wheel around the program of the last debug build; how many tests passed and failed. `wrapper` compiled
/// the workspace's crates (RUSTC_WORKSPACE_WRAPPER).
pub fn check(root: &Path, wrapper: Option<&Path>) -> (u64, u64) {
    match test(root, wrapper) {
        Tested::Skipped(why) => {
            println!("SKIPPED: {why}; the wheel was not tested");
            (0, 0)
        }
        Tested::Counted { passed, failed } => (passed, failed),
    }
}

/// Builds the wheel quickly around the program of the last debug build, and runs its tests.
fn test(root: &Path, wrapper: Option<&Path>) -> Tested {
    let place = crate::target(root).join("python");
    // What an earlier run left is of no use: the environment must be fresh.
    let _ = fs::remove_dir_all(&place);
    let python = place.join("bin/python");
    if let Err(why) = run(Command::new("python3").args(["-m", "venv"]).arg(&place)) {
        return Tested::Skipped(format!(
            "no Python with venv ({why}); apt-get install python3-venv"
        ));
    }
    let is_new = "import sys; sys.exit(sys.version_info < (3, 10))";
    if run(Command::new(&python).args(["-c", is_new])).is_err() {
        return Tested::Skipped("this Python is older than 3.10".to_owned());
    }
    let ray = std::env::var_os(WITH_RAY).map(|_| "ray>=2.9");
    if ray.is_none() {
        println!("SKIPPED: Ray is not installed, so no sweep or race runs on it; set {WITH_RAY}=1");
    }
    let tools: Vec<&str> = TOOLS.into_iter().chain(ray).collect();
    if let Err(why) = install(&python, &tools) {
        println!("NOTE: not everything could be installed, so some tests are skipped: {why}");
        if let Err(why) = install(&python, &TOOLS[..2]) {
            return Tested::Skipped(format!("maturin and pytest could not be installed: {why}"));
        }
    }
    let program = crate::target(root).join("debug/towpath");
    let mut build = pip_wheel(root, &python, &place.join("wheel"), &program);
    build.env(
        "MATURIN_PEP517_ARGS",
        "--profile dev --features as-workspace",
    );
    build.envs(wrapper.map(|wrapper| ("RUSTC_WORKSPACE_WRAPPER", wrapper)));
    match run(&mut build).and_then(|()| wheel_in(&place.join("wheel"))) {
        Ok(wheel) => match install(&python, &[&wheel.to_string_lossy()]) {
            Ok(()) => tests(root, &python),
            Err(why) => failed(&why),
        },
        Err(why) => failed(&why),
    }
}

/// The program of a wheel that is distributed.
pub fn program(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = crate::package::release_build(root);
    run(&mut cargo)?;
    Ok(crate::target(root).join("release/towpath"))
}

/// Builds the wheel that is distributed, around `program`, into `out`.
pub fn wheel(root: &Path, python: &Path, out: &Path, program: &Path) -> Result<PathBuf, String> {
    let mut build = pip_wheel(root, python, out, program);
    // The interpreter needs no names but those that the extension exports.
    build.env("MATURIN_PEP517_ARGS", "--strip");
    run(&mut build)?;
    wheel_in(out)
}

/// The command that builds a wheel around `program` into `out`.
fn pip_wheel(root: &Path, python: &Path, out: &Path, program: &Path) -> Command {
    let mut pip = Command::new(python);
    let words = "-m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir";
    pip.args(words.split(' ')).arg(out).arg(root.join("python"));
    // maturin, and the cargo of this build, are found beside their interpreters.
    let own = [python.parent(), Path::new(env!("CARGO")).parent()];
    let own = own
        .into_iter()
        .flatten()
        .map(|path| format!("{}:", path.display()));
    let path = std::env::var("PATH").unwrap_or_default();
    pip.env("PATH", format!("{}{path}", own.collect::<String>()));
    pip.env("CARGO_TARGET_DIR", crate::target(root));
    pip.env("TOWPATH_PROGRAM", program);
    pip
}

/// The wheel in a folder.
fn wheel_in(folder: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.extension().is_some_and(|end| end == "whl"));
    found.ok_or_else(|| format!("no wheel in {}", folder.display()))
}

fn install(python: &Path, what: &[&str]) -> Result<(), String> {
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    run(pip.args(what))
}

fn tests(root: &Path, python: &Path) -> Tested {
    let mut pytest = Command::new(python);
    // Not beside the package's sources, which would be imported instead of the wheel.
    pytest.current_dir(root.join("python/tests"));
    pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
    let Ok(output) = pytest.output() else {
        return failed("pytest does not run");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let from = said.len().saturating_sub(SHOWN_MAX);
    let from = (from..said.len()).find(|place| said.is_char_boundary(*place));
    println!("{}", &said[from.unwrap_or(0)..]);
    let (passed, failures) = said.lines().rev().find_map(counts).unwrap_or_default();
    // A failure that pytest did not count is one all the same.
    let failures = failures.max(u64::from(!output.status.success()));
    Tested::Counted {
        passed,
        failed: failures,
    }
}

/// The counts of pytest's last line: `1 failed, 20 passed, 2 skipped in 3.1s`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let (counted, _) = line.rsplit_once(" in ")?;
    let count = |names: &[&str]| -> u64 {
        let parts = counted.trim_matches(['=', ' ']).split(", ");
        let named = parts.filter_map(|part| part.split_once(' '));
        let wanted = named.filter(|(_, name)| names.contains(name));
        wanted
            .filter_map(|(count, _)| count.parse::<u64>().ok())
            .sum()
    };
    let (passed, failed) = (count(&["passed"]), count(&["failed", "error", "errors"]));
    (passed + failed > 0).then_some((passed, failed))
}

fn failed(why: &str) -> Tested {
    println!("{why}");
    Tested::Counted {
        passed: 0,
        failed: 1,
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(last_words(&output)),
    }
}

/// The end of what a command said.
fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn counts_parse_from_the_last_line_of_pytest() {
        assert_eq!(counts("20 passed in 3.10s"), Some((20, 0)));
        let line = "=== 1 failed, 20 passed, 2 skipped, 1 error in 63.10s (0:01:03) ===";
        assert_eq!(counts(line), Some((20, 2)));
        assert_eq!(counts("no tests ran in 0.01s"), None);
    }
}
