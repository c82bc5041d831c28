//! Builds the fuzz targets and runs each for a given time.

use crate::fail;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Coverage for libFuzzer with flags of stable Rust; see `fuzz/README.md`.
const FLAGS: &str = "-Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Default time of each target in seconds.
const DEFAULT_SECONDS: &str = "60";

/// Runs the named target, or all, for the given time each.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let (wanted, seconds) = match *arguments {
        [] => (None, DEFAULT_SECONDS),
        [name] if name.parse::<u32>().is_ok() => (None, name),
        [name] => (Some(name), DEFAULT_SECONDS),
        [name, seconds] if seconds.parse::<u32>().is_ok() => (Some(name), seconds),
        _ => return fail("usage: cargo xtask fuzz [TARGET] [SECONDS]"),
    };
    let folder = root.join("fuzz");
    let known = match targets(&folder) {
        Ok(known) => known,
        Err(error) => return fail(&error),
    };
    let chosen: Vec<&String> = known
        .iter()
        .filter(|name| wanted.is_none_or(|wanted| wanted == name.as_str()))
        .collect();
    if chosen.is_empty() {
        return fail(&format!("no such target; there are {}", known.join(", ")));
    }
    let built = match build(&folder) {
        Ok(built) => built,
        Err(error) => return fail(&error),
    };
    for name in chosen {
        println!("{name} for {seconds} s");
        if let Err(error) = fuzz(&folder, &built.join(name), name, seconds) {
            return fail(&error);
        }
    }
    ExitCode::SUCCESS
}

/// The targets by name, in order.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let path = folder.join("fuzz_targets");
    let files = std::fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With `--target` the flags do not apply to build scripts.
    let status = Command::new(cargo)
        .current_dir(folder)
        .args(["build", "--release", "--locked", "--target", TARGET])
        .env("RUSTFLAGS", FLAGS)
        .status()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !status.success() {
        let why = "the targets do not build, see above; they need a C++ compiler";
        return Err(why.into());
    }
    Ok(crate::target(folder).join(TARGET).join("release"))
}

fn fuzz(folder: &Path, program: &Path, name: &str, seconds: &str) -> Result<(), String> {
    let corpus = folder.join("corpus").join(name);
    std::fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    let status = Command::new(program)
        .current_dir(folder)
        .arg(format!("-max_total_time={seconds}"))
        .args(["-max_len=4096", "-print_final_stats=1", "-verbosity=0"])
        .arg(&corpus)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!(
            "{name} found a fault; the input is in fuzz/crash-..."
        ));
    }
    Ok(())
}
