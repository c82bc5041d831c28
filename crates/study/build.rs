//! Lists the studies of this repository, so that the program has their files with it and no code
//! knows one by name.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut text = String::from("&[\n");
    for study in sorted(&folder) {
        if !study.join("study.toml").is_file() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", study.display());
        let _ = writeln!(text, "({:?}, &[", name(&study));
        for file in sorted(&study) {
            let kind = file.extension().and_then(|end| end.to_str());
            if matches!(kind, Some("toml" | "csv" | "md")) {
                println!("cargo::rerun-if-changed={}", file.display());
                let _ = writeln!(text, "({:?}, include_str!({file:?})),", name(&file));
            }
        }
        text.push_str("]),\n");
    }
    text.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("shipped.rs"), text).expect("the build folder can be written");
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of the studies can be read");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    name.expect("names are text").to_owned()
}
