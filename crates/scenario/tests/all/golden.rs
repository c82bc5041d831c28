//! Trace hashes recorded once: a change that is meant to leave behaviour alone leaves them alone.
//!
//! `TOWPATH_RECORD=1 cargo test -p towpath-scenario golden` writes them again, after a change that is meant
//! to change behaviour.

use scenario::swarm::{CALLS_AND_LAYERS, draw};
use scenario::{parse, run, trace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Drawn scenarios with a recorded hash. Together they use every dialect, groups and routers.
const DRAWN: u64 = 400;

/// The same of those with transactions and layers.
const DRAWN_CALLS: u64 = 100;

/// Hash and number of the observations of a scenario.
fn trace_hash(text: &str, seed: u64) -> String {
    let scenario = parse(text).expect("a good scenario");
    let seen = Arc::new(Mutex::new((trace::HASH_START, 0_u64)));
    let observer = Arc::clone(&seen);
    run(&scenario, &[], seed, move |network| {
        network.observe(move |observation| {
            let mut seen = observer.lock().expect("nobody panicked");
            seen.0 = trace::hash(seen.0, trace::line(observation).as_bytes());
            seen.1 += 1;
        });
    })
    .expect("it builds");
    let (hash, events) = *seen.lock().expect("nobody panicked");
    format!("{hash:016x} {events}")
}

/// The scenarios that come with the project, by file name.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/scenarios");
    let entries = std::fs::read_dir(folder).expect("the folder of scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (name, std::fs::read_to_string(path).expect("a text"))
    };
    paths.map(read).collect()
}

fn hashes() -> Vec<String> {
    let files = files().into_iter();
    let files = files.map(|(name, text)| format!("{name} {}", trace_hash(&text, 1)));
    let first = CALLS_AND_LAYERS.start;
    let drawn = (0..DRAWN).chain(first..first + DRAWN_CALLS);
    let drawn = drawn.map(|seed| format!("{seed} {}", trace_hash(&draw(seed), seed)));
    files.chain(drawn).collect()
}

#[test]
fn trace_hashes_are_as_recorded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_hashes.txt");
    let hashes = hashes();
    if std::env::var_os("TOWPATH_RECORD").is_some() {
        std::fs::write(path, hashes.join("\n") + "\n").expect("the file is written");
        return;
    }
    let recorded = std::fs::read_to_string(path).expect("the recorded hashes");
    let recorded: Vec<&str> = recorded.lines().collect();
    assert_eq!(recorded.len(), hashes.len());
    for (recorded, now) in recorded.iter().zip(&hashes) {
        assert_eq!(recorded, now, "recorded and now: name, hash, observations");
    }
}
