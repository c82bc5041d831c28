//! Gives the hash of the simulator's sources to the crate, as `SIMULATOR_SOURCES`.
//!
//! Those are the files below `src/` of this crate and of every crate of the workspace that it depends on, found
//! in the manifests. Only what can change a run is in it, so that a change to a report keeps the rows of a sweep.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut crates = BTreeSet::new();
    collect_crates(&own, &mut crates)?;
    let mut files = Vec::new();
    for folder in &crates {
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        println!(
            "cargo::rerun-if-changed={}",
            folder.join("Cargo.toml").display()
        );
        collect_files(&folder.join("src"), &mut files)?;
    }
    files.sort();
    let mut hash = FNV_START;
    for file in &files {
        let place = file
            .strip_prefix(own.parent().unwrap_or(&own))
            .unwrap_or(file);
        hash = fnv(hash, place.as_os_str().as_encoded_bytes());
        hash = fnv(hash, &fs::read(file)?);
    }
    println!("cargo::rustc-env=SIMULATOR_SOURCES={hash:016x}");
    Ok(())
}

/// The crate in `folder` and those beside it that its manifest names as dependencies, and theirs.
fn collect_crates(folder: &Path, crates: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !crates.insert(folder.to_owned()) {
        return Ok(());
    }
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let mut is_dependency = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency = line == "[dependencies]";
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        let beside = folder.parent().unwrap_or(folder).join(name);
        if is_dependency && !name.is_empty() && beside.join("Cargo.toml").is_file() {
            collect_crates(&beside, crates)?;
        }
    }
    Ok(())
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect_files(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

/// Offset basis of FNV-1a with 64 bit.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over the length and the octets, so that files cannot run into one another.
fn fnv(hash: u64, octets: &[u8]) -> u64 {
    let len = (octets.len() as u64).to_be_bytes();
    let all = len.iter().chain(octets);
    all.fold(hash, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
