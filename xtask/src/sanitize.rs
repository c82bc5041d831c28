//! The tests of the crates that share memory with other processes, under a sanitizer of LLVM's.
//!
//! The toolchain has the sanitizers' libraries; the flag that turns one on is none of stable Rust, so the compiler is
//! told to take it (RUSTC_BOOTSTRAP). The standard library is not instrumented.

use crate::{fail, target};
use std::path::Path;
use std::process::{Command, ExitCode};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates whose memory other processes write.
const PACKAGES: [&str; 2] = ["towpath-channel", "towpath-wire-shortcut"];

/// What is not reported: hand-overs of results and closures within the test harness, which is not instrumented
/// either. No test has a frame of these names.
const SUPPRESSIONS: &str = "race:CompletedTest\nrace:Mutex<core::option::Option<test::run_test\n";

/// Runs the tests under the named sanitizer, or under each in turn.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let wanted: &[&str] = match *arguments {
        [] => &["address", "thread"],
        ["address"] => &["address"],
        ["thread"] => &["thread"],
        _ => return fail("usage: cargo xtask sanitize [address | thread]"),
    };
    let failed: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|name| !passes(root, name))
        .collect();
    match failed.as_slice() {
        [] => ExitCode::SUCCESS,
        failed => fail(&format!(
            "the tests do not pass under: {}",
            failed.join(", ")
        )),
    }
}

fn passes(root: &Path, sanitizer: &str) -> bool {
    println!("== {sanitizer}");
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .args(["test", "--locked", "--no-fail-fast", "--target", TARGET]);
    PACKAGES.iter().for_each(|package| {
        command.args(["--package", package]);
    });
    command.args(["--lib", "--test", "all"]);
    // The mappings are made by system calls that the sanitizers do not see: a test that gets the addresses of
    // another one's looks like a race with it, unless it comes after it.
    command.args(["--", "--test-threads", "1"]);
    let flags = format!("-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer");
    command.env("RUSTFLAGS", flags).env("RUSTC_BOOTSTRAP", "1");
    let folder = target(root).join(format!("sanitize-{sanitizer}"));
    let suppressions = folder.join("suppressions.txt");
    let written =
        std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&suppressions, SUPPRESSIONS));
    if let Err(error) = written {
        fail(&format!("{}: {error}", suppressions.display()));
        return false;
    }
    command.env("CARGO_TARGET_DIR", &folder);
    command.env(
        "TSAN_OPTIONS",
        format!("suppressions={}", suppressions.display()),
    );
    // A test leaves slots behind as a killed process does, which is no leak.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            fail(&format!("cargo does not run: {error}"));
            false
        }
    }
}
