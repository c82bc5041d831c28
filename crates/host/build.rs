//! Records the compiler version, which every run stores.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&text);
    let version = version.trim();
    let version = if version.is_empty() {
        "unknown"
    } else {
        version
    };
    println!("cargo::rustc-env=HOST_RUSTC_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
