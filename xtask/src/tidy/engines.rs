//! Engines, layers and congestion controllers are functions of their inputs: they have no clock,
//! socket, thread or randomness.

use super::words::has_word;
use super::{Fault, File};

/// What differs from run to run: clocks, threads, chance, and an order that depends on it.
const CHANCE: &[&str] = &[
    "std::time",
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "std::thread",
    "thread_local!",
    "rand",
];

/// What reaches beyond the process.
const WORLD: &[&str] = &[
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "UnixStream",
    "std::env",
    "std::fs",
    "std::io",
    "std::process",
    "println!",
    "eprintln!",
];

/// The crates that a pure crate may depend on: numbers drawn from a seed, the contract, engines and their layers, and
/// congestion controllers are pure. None for other crates.
fn allowed_dependencies(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "random" => Some(&[]),
        "engine" => Some(&["random"]),
        "congestion" => Some(&["engine"]),
        // HMACs, which are functions of their inputs.
        "engine-sctp" => Some(&["engine", "congestion", "ring"]),
        _ if name.starts_with("layer-") => Some(&["engine"]),
        _ if name.starts_with("engine-") => Some(&["engine", "congestion"]),
        _ => None,
    }
}

/// What the source of a crate may not say. `link` and `sim` run in virtual time.
fn banned(name: &str) -> Vec<&'static str> {
    match name {
        "link" | "sim" => CHANCE.to_vec(),
        _ if allowed_dependencies(name).is_some() => [CHANCE, WORLD].concat(),
        _ => Vec::new(),
    }
}

pub(super) fn check(file: &File) -> Vec<Fault> {
    let manifest = file.path.strip_prefix("crates/");
    let manifest = manifest.and_then(|path| path.strip_suffix("/Cargo.toml"));
    if let Some(name) = manifest
        && let Some(allowed) = allowed_dependencies(name)
    {
        return check_manifest(file, name, allowed);
    }
    match (file.crate_of_source().map(banned), &file.rust) {
        (Some(banned), Some(source)) => check_source(file, &source.code, &banned),
        _ => Vec::new(),
    }
}

fn check_manifest(file: &File, name: &str, allowed: &[&str]) -> Vec<Fault> {
    let found = dependencies(&file.text).into_iter();
    let found = found.filter(|(_, dependency)| !allowed.contains(dependency));
    let faults = found.map(|(line, dependency)| {
        let allowed = match allowed {
            [] => "no crate".to_owned(),
            _ => allowed.join(" and "),
        };
        let what = format!("{name} may depend on {allowed}, not on {dependency}");
        file.fault(line, what)
    });
    faults.collect()
}

/// Line and name of each dependency that is not for tests only.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if let Some(section) = line.trim().strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies" || section.ends_with(".dependencies");
            if let Some(name) = section.strip_prefix("dependencies.") {
                found.push((index + 1, name));
            }
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside) {
            let name = name.split('.').next().unwrap_or(name);
            found.push((index + 1, name.trim()));
        }
    }
    found
}

fn check_source(file: &File, code: &str, banned: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let found = banned.iter().filter(|word| has_word(line, word));
        // A length of time is no clock.
        let found = found.filter(|word| **word != "std::time" || !only_duration(line));
        faults.extend(found.map(|word| {
            let what = format!("'{word}' in a crate that must be a function of its inputs");
            file.fault(index + 1, what)
        }));
    }
    faults
}

fn only_duration(line: &str) -> bool {
    let clocks = ["Instant", "SystemTime", "*"];
    line.contains("Duration") && !clocks.iter().any(|clock| line.contains(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<Fault> {
        check(&File::new("crates/engine-bare/src/a.rs", text))
    }

    #[test]
    fn a_clock_in_an_engine_is_a_fault() {
        assert_eq!(source("use std::time::Instant;\n").len(), 1);
        assert_eq!(source("use std::time::{Duration, Instant};\n").len(), 1);
        assert_eq!(source("use std::collections::HashMap;\n").len(), 1);
        assert_eq!(
            source("use std::time::Duration;\nuse std::net::SocketAddr;\n"),
            []
        );
        assert_eq!(source("use engine::Instant;\n"), []);
        let simulator = |text: &str| check(&File::new("crates/sim/src/a.rs", text)).len();
        assert_eq!(simulator("use std::thread;\n"), 1);
        assert_eq!(simulator("use std::io;\n"), 0);
        let elsewhere = File::new("crates/driver/src/a.rs", "use std::time::Instant;\n");
        assert_eq!(check(&elsewhere), []);
    }

    #[test]
    fn a_clock_in_a_layer_or_a_congestion_controller_is_a_fault() {
        for name in ["congestion", "layer-halves"] {
            let path = format!("crates/{name}/src/a.rs");
            let source = |text: &str| check(&File::new(path.as_str(), text));
            assert_eq!(source("use std::time::Instant;\n").len(), 1, "{name}");
            assert_eq!(source("use std::fs;\n").len(), 1, "{name}");
            assert_eq!(source("use core::time::Duration;\n"), []);
        }
    }

    #[test]
    fn pure_crates_depend_on_the_contract_and_engines_on_congestion_too() {
        let faults = |name: &str, dependency: &str| {
            let text = format!("[dependencies]\n{dependency}.workspace = true\n");
            check(&File::new(
                format!("crates/{name}/Cargo.toml"),
                text.as_str(),
            ))
            .len()
        };
        assert_eq!(faults("engine-bare", "congestion"), 0);
        assert_eq!(faults("congestion", "engine"), 0);
        assert_eq!(faults("layer-halves", "engine"), 0);
        assert_eq!(faults("driver", "libc"), 0);
        assert_eq!(faults("congestion", "engine-bare"), 1);
        assert_eq!(faults("layer-halves", "congestion"), 1);
        assert_eq!(faults("engine", "random"), 0);
        assert_eq!(faults("engine", "congestion"), 1);
        assert_eq!(faults("random", "engine"), 1);
        assert_eq!(faults("engine-bare", "engine-xtp"), 1);
    }

    #[test]
    fn an_engine_depends_on_no_other_crate() {
        let manifest = |text: &str| check(&File::new("crates/engine-bare/Cargo.toml", text));
        let fine = "[dependencies]\nengine.workspace = true\n[dev-dependencies]\nsim.workspace = 1";
        assert_eq!(manifest(fine), []);
        assert_eq!(manifest("[dependencies]\nrand = \"0.10\"\n").len(), 1);
        assert_eq!(manifest("[dependencies.wire]\npath = \"x\"\n").len(), 1);
        let libc = "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n";
        assert_eq!(manifest(libc).len(), 1);
    }
}
