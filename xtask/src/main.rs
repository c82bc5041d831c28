//! Development tasks. `cargo xtask` lists them.
//!
//! * `ci` - all checks that must pass before a merge, cheapest first.
//! * `tidy` - project rules that no compiler checks.
//! * `man`, `completions` - generated from the argument definitions of the program.
//! * `profiled` - builds that a profile of the program's own races guides.
//! * `package` - a Debian package, an archive, an OCI image, a wheel for Python.
//! * `python` - the tests of the wheel.
//! * `bench` - benchmarks against other programs.
//! * `swarm` - simulated scenarios drawn from seeds, each checked against invariants.
//! * `sanitize` - tests of the crates that share memory, under the sanitizers of addresses and of threads.
//! * `fuzz` - decoders and engines under libFuzzer, for a given time.
#![forbid(unsafe_code)]

mod bench;
mod ci;
mod fuzz;
mod lines;
mod package;
mod pages;
mod profiled;
mod python;
mod sanitize;
mod skips;
mod swarm;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask CHORE

chores:
  ci            all checks: formatting, tidy, clippy, documentation, tests
  ci --beside-tests         of these, those that ci runs beside the tests
  tidy          project rules that no compiler checks
  tidy --figures            sizes of the code; --map writes ARCHITECTURE.md's dependencies
  man           the man page to target/man
  completions   shell completions to target/completions
  package deb | tar | image [--program FILE] [--out FOLDER]
                            the program with man page and completions; without FILE it is built
                            as a static one; to target/package
  package wheel [--program FILE] [--out FOLDER]
                            the wheel for Python, with the program in it
  profiled [CHORE]          runs a chore, such as bench xtp, with a profile of the program's own
                            races, which it makes first; without one, builds the program to
                            target/profiled/with/release
  python        builds the wheel around target/debug/towpath, and runs its tests; TOWPATH_TEST_RAY=1
                            for those on Ray too
  bench NAME    a benchmark; without a name, lists them
  bench compare OLD NEW     two builds, folders such as target/release
  swarm [N | Ns | --unbounded] [FIRST | head]
                            scenarios of N seeds, or of N seconds, or until it is interrupted; head
                            is a seed from the commit; violations go to target/swarm-violations.txt
                            or --violations FILE; --threads N
  swarm --seed SEED         one scenario again
  swarm --canary            plants a fault for each invariant; all must be found
  swarm shortcut [N] [FIRST | head]
                            associations over rings that die, lie and fill, with N seeds
                            exit code 1: a violation; 2: the run itself failed
  sanitize [address | thread]
                            tests of the crates that share memory, under one sanitizer or both
  fuzz [TARGET] [SECONDS]   all fuzz targets or one; default: 60 s each";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci::run(&root()),
        ["ci", "--beside-tests"] => ci::run_beside_tests(&root()),
        ["tidy"] => tidy::run(&root()),
        ["tidy", "--figures"] => tidy::figures(&root()),
        ["tidy", "--map"] => tidy::write_map(&root()),
        ["man"] => pages::man(&root()),
        ["completions"] => pages::completions(&root()),
        ["package", rest @ ..] => package::run(&root(), rest),
        ["profiled", rest @ ..] => profiled::run(&root(), rest),
        ["python"] => python::run_tests(&root()),
        ["bench", rest @ ..] => bench::run(&root(), rest),
        ["sanitize", rest @ ..] => sanitize::run(&root(), rest),
        ["swarm", rest @ ..] => swarm::run(&root(), rest),
        ["fuzz", rest @ ..] => fuzz::run(&root(), rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("unknown chore '{}'\n\n{USAGE}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Where cargo puts what it builds of the workspace in `folder`.
fn target(folder: &Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    named.map_or(folder.join("target"), PathBuf::from)
}

/// Prints an error line; gives the exit code of a failure.
fn fail(message: &str) -> ExitCode {
    eprintln!("xtask: {message}");
    ExitCode::FAILURE
}
