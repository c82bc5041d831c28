//! Helper programs of the benchmarks, built on first use.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An example of a crate of this workspace, which prints one number.
pub struct ExampleProgram(PathBuf);

impl ExampleProgram {
    /// Builds the example `name` of `package` in release mode.
    pub fn build(root: &Path, package: &str, name: &str) -> Result<ExampleProgram, String> {
        let target = build(root, &["--package", package, "--example", name])?;
        Ok(ExampleProgram(target.join("release/examples").join(name)))
    }

    /// Runs it; gives the number it prints.
    pub fn run(&self, words: &[&str]) -> Result<f64, String> {
        number(Command::new(&self.0).args(words))
    }
}

/// The program in `xtask/peers/quinn`.
pub struct Quinn(PathBuf);

impl Quinn {
    /// Builds it in release mode; it is a separate workspace.
    pub fn build(root: &Path) -> Result<Quinn, String> {
        let folder = root.join("xtask/peers/quinn");
        let target = build(&folder, &[])?;
        Ok(Quinn(target.join("release/quinn-peer")))
    }

    /// Received messages of `len` bytes per second.
    pub fn run(&self, kind: &str, len: u64, seconds: f64) -> Result<f64, String> {
        let (len, seconds) = (len.to_string(), seconds.to_string());
        number(Command::new(&self.0).args([kind, &len, &seconds, "0", "1"]))
    }
}

/// The program in `xtask/peers/cells`.
pub struct CellsPeer(PathBuf);

impl CellsPeer {
    /// Builds it in release mode; it is a separate workspace.
    pub fn build(root: &Path) -> Result<CellsPeer, String> {
        let folder = root.join("xtask/peers/cells");
        let target = build(&folder, &[])?;
        Ok(CellsPeer(target.join("release/cells-peer")))
    }

    /// How often a second `side` does `work`.
    pub fn run(&self, work: &str, side: &str, seconds: f64) -> Result<f64, String> {
        number(Command::new(&self.0).args([work, side, &seconds.to_string()]))
    }
}

/// The program in `xtask/peers/iceoryx2`.
pub struct Iceoryx2(PathBuf);

impl Iceoryx2 {
    /// Builds it in release mode; it is a separate workspace. Where it cannot be built, as without
    /// crates.io or libclang, the error says so.
    pub fn build(root: &Path) -> Result<Iceoryx2, String> {
        let folder = root.join("xtask/peers/iceoryx2");
        let target = build(&folder, &[]).map_err(|error| {
            format!("SKIPPED: no iceoryx2 to compare with: {error}; apt-get install libclang-dev")
        })?;
        Ok(Iceoryx2(target.join("release/iceoryx2-peer")))
    }

    /// Median round trip, us (`delay`), or messages per second (`throughput`) of 64 octets, between two
    /// processes on CPUs 0 and 1.
    pub fn run(&self, what: &str, seconds: f64) -> Result<f64, String> {
        number(Command::new(&self.0).args([what, &seconds.to_string()]))
    }
}

/// The program in `xtask/peers/tonic`.
pub struct Tonic(PathBuf);

impl Tonic {
    /// Builds it in release mode; it is a separate workspace. Where it cannot be built, as without
    /// crates.io, the error says so.
    pub fn build(root: &Path) -> Result<Tonic, String> {
        let folder = root.join("xtask/peers/tonic");
        let target = build(&folder, &[])
            .map_err(|error| format!("SKIPPED: no tonic to compare with: {error}"))?;
        Ok(Tonic(target.join("release/tonic-peer")))
    }

    /// Runs it; gives the calls a second that it prints.
    pub fn run(&self, words: &[&str]) -> Result<f64, String> {
        number(Command::new(&self.0).args(words))
    }
}

/// Builds in `folder` and gives the target folder.
pub(super) fn build(folder: &Path, words: &[&str]) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(folder)
        .args(["build", "--release", "--locked", "--quiet"])
        .args(words)
        .status()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !status.success() {
        return Err(format!("{} does not build", folder.display()));
    }
    Ok(crate::target(folder))
}

/// Runs it; the number on its last line.
pub(super) fn number(command: &mut Command) -> Result<f64, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    last.trim().parse().map_err(|_| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("a number was expected: {last} {error}")
    })
}
