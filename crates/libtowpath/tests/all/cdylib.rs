//! Libraries that a test loads or links; cargo does not build a cdylib for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where the libraries were built from these sources already.
const LIBRARY_IS_BUILT: &str = "TOWPATH_LIBRARY_IS_BUILT";

/// Variables of cargo for the test; with them build scripts, and all that depends on them, would run again.
const OF_THE_TEST: [&str; 5] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_",
    "CARGO_BIN_",
    "CARGO_PRIMARY_",
];

/// The folder with the libraries of `packages`, which are built if they may be older than their sources.
pub fn build_libraries(packages: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("a test binary");
    // TARGET/PROFILE/deps/TEST
    let profile = test.ancestors().nth(2).expect("cargo put it there");
    if std::env::var_os(LIBRARY_IS_BUILT).is_none() {
        run_cargo_build(profile, packages);
    }
    assert!(profile.join("libtowpath.so").exists());
    profile.to_owned()
}

fn run_cargo_build(profile: &Path, packages: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--offline"]);
    for package in packages {
        command.args(["-p", package]);
    }
    command.arg("--manifest-path");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let target = profile.parent().expect("a folder");
    command.arg("--target-dir").arg(target);
    for (name, _) in std::env::vars_os() {
        let is_of_test = |name: &str| OF_THE_TEST.iter().any(|start| name.starts_with(start));
        if name.to_str().is_some_and(is_of_test) {
            command.env_remove(name);
        }
    }
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().expect("cargo runs this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
