//! Scenarios drawn from seeds, by number or time; see the example `swarm` of crate `scenario`.

use crate::{fail, target};
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// Scenarios of circuits in `ci`, and of transactions and layers: some ten seconds in a build that is
/// not optimised.
const CI_SCENARIOS: [(u64, u64); 2] = [(2000, 0), (1000, 1 << 32)];

/// The swarm found a violation; see the example.
const VIOLATED: i32 = 1;

/// The run itself failed.
const FAILED: u8 = 2;

/// Builds the swarm in release mode and runs it with these arguments. The word `head` for the first seed
/// means the seed of the commit. All violations go into a file under `target` unless another is named.
///
/// Exit code 1 means a violation, 2 that the run itself failed.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    if let ["shortcut", rest @ ..] = words {
        return run_shortcut(root, rest);
    }
    let mut arguments = Vec::new();
    for word in words {
        match *word {
            "head" => match commit_seed(root) {
                Some(seed) => arguments.push(seed.to_string()),
                None => {
                    fail("git names no commit here; give the first seed as a number");
                    return ExitCode::from(FAILED);
                }
            },
            word => arguments.push(word.to_owned()),
        }
    }
    let many = !words
        .iter()
        .any(|word| matches!(*word, "--seed" | "--canary" | "--violations"));
    if many {
        arguments.extend(["--violations".to_owned(), violations_file(root, "")]);
    }
    match start(root, &arguments) {
        Some(0) => ExitCode::SUCCESS,
        Some(VIOLATED) => ExitCode::from(1),
        _ => ExitCode::from(FAILED),
    }
}

/// Associations over rings of shared memory that die, lie and fill: a test of crate `wire-shortcut`, since rings are the
/// kernel's and have no virtual time. Seeds that fail are kept in `target/shortcut-violations.txt`.
fn run_shortcut(root: &Path, words: &[&str]) -> ExitCode {
    let (count, first) = match words {
        [] => ("1000", "0"),
        [count] => (*count, "0"),
        [count, first] => (*count, *first),
        _ => {
            fail("shortcut takes a number of seeds and the first one");
            return ExitCode::from(FAILED);
        }
    };
    let first = match first {
        "head" => commit_seed(root),
        number => number.parse().ok(),
    };
    let (Some(first), Ok(count)) = (first, count.parse::<u64>()) else {
        fail("shortcut takes a number of seeds and the first one, also head in a commit");
        return ExitCode::from(FAILED);
    };
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args([
            "test",
            "--quiet",
            "--locked",
            "--package",
            "towpath-wire-shortcut",
        ])
        .args(["--lib", "swarm", "--", "--nocapture"])
        .env("TOWPATH_SEEDS", count.to_string())
        .env("TOWPATH_FIRST_SEED", first.to_string())
        .status();
    match exit_code(status) {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}

/// A bounded run of the example that the checks have built, from the seed of the commit, so that each
/// commit looks somewhere new; the tests run the seeds from 0. Returns whether all invariants held.
pub fn check(root: &Path) -> bool {
    let seed = commit_seed(root).unwrap_or_else(|| {
        println!("NOTE: git names no commit here, so the seeds are those of the tests");
        0
    });
    let mut held = true;
    for (count, offset) in CI_SCENARIOS {
        let name = if offset == 0 { "" } else { "-calls" };
        let file = violations_file(root, name);
        let arguments = [count.to_string(), (offset + seed).to_string()];
        let file = ["--violations".to_owned(), file];
        let arguments: Vec<String> = arguments.into_iter().chain(file).collect();
        let program = target(root).join("debug/examples/swarm");
        let swarm = Command::new(program).args(&arguments).status();
        held &= exit_code(swarm) == Some(0);
    }
    held
}

/// Runs the swarm, built for speed; its exit code, or None when it was not run or was killed.
fn start(root: &Path, arguments: &[String]) -> Option<i32> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["run", "--quiet", "--locked", "--release"])
        .args(["--package", "towpath-scenario", "--example", "swarm", "--"])
        .args(arguments)
        .status();
    exit_code(status)
}

fn exit_code(status: io::Result<ExitStatus>) -> Option<i32> {
    match status {
        Ok(status) => status.code(),
        Err(error) => {
            fail(&format!("the swarm does not run: {error}"));
            None
        }
    }
}

fn violations_file(root: &Path, name: &str) -> String {
    let file = target(root).join(format!("swarm-violations{name}.txt"));
    file.display().to_string()
}

/// A seed that follows from the commit that is checked out.
fn commit_seed(root: &Path) -> Option<u64> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["rev-parse", "HEAD"])
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    seed_of_hash(std::str::from_utf8(&output.stdout).ok()?)
}

/// The first 31 bits of a hash in hexadecimal: 2^31 seeds follow it before those of transactions and
/// layers, which begin at 2^32.
fn seed_of_hash(hash: &str) -> Option<u64> {
    let digits = hash.get(..8)?;
    let bits = u32::from_str_radix(digits, 16).ok()?;
    Some(u64::from(bits >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_of_hash_is_its_first_31_bits() {
        let hash = "fffffffe98d402f00000000000000000000000000\n";
        assert_eq!(seed_of_hash(hash), Some((1 << 31) - 1));
        assert_eq!(seed_of_hash("00000002aa"), Some(1));
        assert_eq!(seed_of_hash("1234"), None);
        assert_eq!(seed_of_hash("no commit"), None);
    }
}
