//! All checks that must pass before a merge, cheapest first.

mod beside;
mod failures;

use crate::lines::{Line, read_lines};
use crate::skips::Skips;
use crate::{fail, python, swarm, target, tidy};
use beside::BesideTests;
use failures::Failures;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Says to the tests of libtowpath that the library beside them was built from these sources.
const LIBRARY_IS_BUILT: &str = "TOWPATH_LIBRARY_IS_BUILT";

/// Names the program that compiles the workspace's own crates.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Test programs that print nothing for this long hang: a test says after 60 s that it still runs, and none
/// needs much longer.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// The same of the compiler, which prints a line per crate, and of test programs at the lowest priority, which may wait
/// for a processor as long as others run.
const SLOW_SILENCE_MAX: Duration = Duration::from_secs(1200);

/// The workspace of SCTP's other stacks, for cargo.
const INTEROPERATION: &str = "--manifest-path xtask/peers/sctp/Cargo.toml";

/// In which /proc counts processor time: USER_HZ, 100 on all architectures of today.
const TICKS_PER_S: f64 = 100.0;

/// Counts of passed and failed checks and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    fn of(ok: bool) -> Tally {
        Tally {
            passed: u64::from(ok),
            failed: u64::from(!ok),
        }
    }
}

/// What a run says at its end.
#[derive(Debug, Default)]
struct Summary {
    tally: Tally,
    /// Names of the steps that failed.
    failed: Vec<&'static str>,
}

impl Summary {
    /// Runs a step and says how it ended.
    fn step(&mut self, name: &'static str, run: impl FnOnce() -> Tally) {
        println!("\n== {name}");
        let start = Instant::now();
        let start_cpu_s = children_cpu_s();
        let tally = run();
        let verdict = if tally.failed == 0 { "ok" } else { "FAILED" };
        println!(
            "== {name}: {verdict} ({:.1} s, {:.0} s of processors)",
            start.elapsed().as_secs_f64(),
            children_cpu_s() - start_cpu_s
        );
        if tally.failed > 0 {
            self.failed.push(name);
        }
        self.tally.add(tally);
    }

    /// The last line is `N passed, N failed`; before it, what failed.
    fn close(self, output: &TestOutput) -> ExitCode {
        if !self.failed.is_empty() {
            println!("\nFAILED: {}", self.failed.join(", "));
            print!("{}", output.failures.text());
        }
        println!("{} passed, {} failed", self.tally.passed, self.tally.failed);
        match self.tally.failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}

/// What is read of all that tests print.
#[derive(Debug, Default)]
struct TestOutput {
    skips: Skips,
    failures: Failures,
}

impl TestOutput {
    /// Takes a line; whether it is to be shown.
    fn take(&mut self, line: &str) -> bool {
        self.failures.take(line);
        self.skips.take(line)
    }
}

/// Runs all checks, even after a failure. The last line is `N passed, N failed`: the tests, and one
/// for each other check.
pub fn run(root: &Path) -> ExitCode {
    let start = Instant::now();
    let mut summary = Summary::default();
    let mut output = TestOutput::default();
    let mut beside = BesideTests::new(root);
    compile(root, &mut summary);
    let tests = "test --locked --workspace --no-fail-fast -- --show-output";
    summary.step("tests", || {
        let mut tests = command(root, tests);
        tests.env("RUST_TEST_THREADS", test_threads().to_string());
        test(tests, SILENCE_MAX, &mut output, || beside.start())
    });
    summary.step("Python's wheel", || wheel(root));
    summary.step("SCTP against other stacks", || {
        interoperation(root, &mut output)
    });
    // From seeds of the commit, so that each run looks somewhere new.
    summary.step("swarm", || Tally::of(swarm::check(root)));
    summary.step("what ran beside the tests", || beside.finish(&mut output));
    summary.step("tests that skip something", || {
        Tally::of(output.skips.judge())
    });
    println!("\nall checks took {:.0} s", start.elapsed().as_secs_f64());
    summary.close(&output)
}

/// The checks that compile, or need nothing that is compiled.
fn compile(root: &Path, summary: &mut Summary) {
    summary.step("formatting", || cargo(root, "fmt --all --check"));
    summary.step("tidy", || Tally::of(tidy::check(root)));
    // Compiles what the next steps run; the libraries in tests have the features of the whole workspace.
    let compile = "test --locked --workspace --no-run --message-format json";
    summary.step("clippy", || lint(command(root, compile)));
    // The fuzz targets are a separate workspace; no other step checks its lock file.
    let fuzz = "fetch --locked --manifest-path fuzz/Cargo.toml";
    summary.step("lock file of the fuzz targets", || cargo(root, fuzz));
    summary.step("advisories", || advisories(root));
    // Tests of C programs link a library, and the swarm is an example; both were compiled with the tests.
    // Python's extension has no tests that Rust runs.
    let libraries = "build --locked --workspace --lib --examples --message-format json";
    summary.step("libraries and examples", || lint(command(root, libraries)));
}

/// The checks that need nothing but the processor. They run beside the tests, which wait for most of their time, and
/// at the lowest priority, so that no test waits for them. The last line is `N passed, N failed`.
pub fn run_beside_tests(root: &Path) -> ExitCode {
    // A process may always become nicer.
    let _ = rustix::process::nice(19);
    let mut summary = Summary::default();
    let mut output = TestOutput::default();
    let doc = "doc --locked --workspace --no-deps --document-private-items";
    summary.step("documentation", || {
        Tally::of(succeeds(command(root, doc).env_remove(WRAPPER)))
    });
    for (name, package) in [
        ("models of the wake-ups", "towpath-driver"),
        ("models of the rings", "towpath-channel"),
    ] {
        summary.step(name, || models(root, package, &mut output));
    }
    // The check comes after the tests, and says itself if they do not compile.
    let _ = compile_interoperation(root);
    // Its output is read by who runs it.
    summary.close(&TestOutput::default());
    ExitCode::SUCCESS
}

/// The models of a package, for which loom takes the place of threads and locks.
fn models(root: &Path, package: &str, output: &mut TestOutput) -> Tally {
    let tests = format!("test --locked -p {package} --lib --features loom");
    if !succeeds(&mut command(root, &format!("{tests} --no-run"))) {
        return Tally::of(false);
    }
    let models = command(root, &format!("{tests} models"));
    test(models, SLOW_SILENCE_MAX, output, || ())
}

/// Seconds of processors of the children that have ended, and of theirs.
fn children_cpu_s() -> f64 {
    // proc(5): cutime and cstime are the 16th and 17th field, the first after the name in brackets is the third.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<u64> = fields
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    ticks.iter().skip(13).take(2).sum::<u64>() as f64 / TICKS_PER_S
}

/// Tests at a time: those of the program, which take longest, wait for half of their time.
fn test_threads() -> usize {
    1 + std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cargo with these arguments; rustdoc warnings are errors. Clippy compiles the workspace's crates, so that
/// they are read and compiled once for lints and tests.
fn command(root: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(arguments.split_whitespace())
        .env("RUSTDOCFLAGS", "-D warnings")
        .env(LIBRARY_IS_BUILT, "1");
    if let Some(clippy) = clippy() {
        command.env(WRAPPER, clippy);
    }
    command
}

/// The compiler with clippy's lints, which is installed beside cargo.
fn clippy() -> Option<PathBuf> {
    let clippy = Path::new(env!("CARGO")).with_file_name("clippy-driver");
    clippy.exists().then_some(clippy)
}

/// Compiles, and fails if there is a warning. The messages are printed.
fn lint(mut command: Command) -> Tally {
    if clippy().is_none() {
        fail("clippy is not installed; rustup component add clippy");
        return Tally::of(false);
    }
    let mut is_clean = true;
    let ended_well = read_lines(&mut command, SLOW_SILENCE_MAX, |line| match line {
        Line::Printed(line) => {
            if let Some(message) = parse_message(line) {
                eprint!("{message}");
                is_clean = false;
            }
        }
        Line::Silence => {
            fail("the compiler printed nothing for long and is ended");
        }
    });
    Tally::of(ran_well(ended_well) && is_clean)
}

/// The text of a compiler's message in a line of cargo's `--message-format json`.
fn parse_message(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = line.pointer("/message/rendered")?.as_str()?;
    (line["reason"] == "compiler-message").then(|| text.to_owned())
}

fn cargo(root: &Path, arguments: &str) -> Tally {
    Tally::of(succeeds(&mut command(root, arguments)))
}

fn succeeds(command: &mut Command) -> bool {
    ran_well(command.status().map(|status| status.success()))
}

/// Whether cargo ended well; says why it did not run.
fn ran_well(ended_well: io::Result<bool>) -> bool {
    ended_well.unwrap_or_else(|error| {
        fail(&format!("cannot run cargo: {error}"));
        false
    })
}

/// Known vulnerabilities of the dependencies, where cargo-audit and its database are at hand.
fn advisories(root: &Path) -> Tally {
    let is_here = command(root, "audit --version").output();
    if !is_here.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: cargo-audit is not installed; cargo install cargo-audit --locked");
        return Tally::default();
    }
    let mut tally = cargo(root, "audit --deny warnings");
    tally.add(cargo(root, "audit --deny warnings --file fuzz/Cargo.lock"));
    tally
}

/// The wheel of `python/`, installed into a fresh environment.
fn wheel(root: &Path) -> Tally {
    let (passed, failed) = python::check(root, clippy().as_deref());
    Tally { passed, failed }
}

/// SCTP against other stacks, in a workspace of its own, whose packages may be out of reach.
fn interoperation(root: &Path, output: &mut TestOutput) -> Tally {
    match compile_interoperation(root) {
        None => {
            println!(
                "SKIPPED: sctp-proto and dcsctp could not be fetched from their registry; SCTP was not \
                 tested against other stacks"
            );
            Tally::default()
        }
        Some(false) => Tally::of(false),
        Some(true) => {
            let tests = interoperation_tests(root, "-- --show-output");
            test(tests, SILENCE_MAX, output, || ())
        }
    }
}

/// Whether the tests of [`interoperation`] compile; None when their packages cannot be had.
fn compile_interoperation(root: &Path) -> Option<bool> {
    let fetch = command(root, &format!("fetch --locked {INTEROPERATION}")).output();
    let is_fetched = fetch.is_ok_and(|output| output.status.success());
    is_fetched.then(|| succeeds(&mut interoperation_tests(root, "--no-run")))
}

/// Cargo with the tests of [`interoperation`] and these arguments.
fn interoperation_tests(root: &Path, arguments: &str) -> Command {
    let tests = format!("test --locked --no-fail-fast {INTEROPERATION} {arguments}");
    let mut command = command(root, &tests);
    // What both workspaces take from the registry is compiled once.
    command.env("CARGO_TARGET_DIR", target(root));
    command
}

/// Runs tests that are compiled, and counts them and what they skip. A test program that prints nothing for `silence_max`
/// hangs: it is ended and has failed. `is_compiled` is called with each line: cargo is no longer in the way of another
/// one.
fn test(
    mut command: Command,
    silence_max: Duration,
    output: &mut TestOutput,
    mut is_compiled: impl FnMut(),
) -> Tally {
    let mut tally = Tally::default();
    let ended_well = read_lines(&mut command, silence_max, |line| match line {
        Line::Printed(line) => {
            is_compiled();
            if output.take(line) {
                println!("{line}");
            }
            tally.add(parse_test_result(line).unwrap_or_default());
        }
        Line::Silence => {
            let minutes = silence_max.as_secs() / 60;
            fail(&format!(
                "no test ended for {minutes} minutes; the test program is ended"
            ));
            tally.failed += 1;
        }
    });
    if !ran_well(ended_well) && tally.failed == 0 {
        // No counted failure: a test did not compile, or its process died.
        tally.failed = 1;
    }
    tally
}

/// The counts in `test result: ok. 3 passed; 0 failed; ...`.
fn parse_test_result(line: &str) -> Option<Tally> {
    parse_counts(line.strip_prefix("test result: ")?)
}

/// The numbers before ` passed` and ` failed`.
fn parse_counts(rest: &str) -> Option<Tally> {
    let count = |name: &str| {
        let (before, _) = rest.split_once(name)?;
        before.split_whitespace().last()?.parse().ok()
    };
    Some(Tally {
        passed: count(" passed")?,
        failed: count(" failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_compiler_are_found_among_those_of_cargo() {
        let warning = r#"{"reason":"compiler-message","message":{"rendered":"warning: unused\n"}}"#;
        assert_eq!(parse_message(warning).as_deref(), Some("warning: unused\n"));
        assert_eq!(parse_message(r#"{"reason":"compiler-artifact"}"#), None);
        assert_eq!(parse_message("   Compiling"), None);
    }

    #[test]
    fn test_counts_parse_from_result_line() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered \
                    out; finished in 0.13s";
        let tally = parse_test_result(line).expect("a closing line");
        assert_eq!((tally.passed, tally.failed), (12, 3));
        assert_eq!(parse_test_result("test one ... ok"), None);
        assert_eq!(parse_test_result("test result: odd"), None);
    }
}
