//! Scenario files of strangers: mutated texts are run or refused in one line, never a panic.

#[path = "../../../../fuzz/src/text.rs"]
mod text;

use std::path::Path;
use text::{Draws, mutated};

#[test]
fn mutated_scenarios_parse_or_are_refused_in_one_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/scenarios");
    let entries = std::fs::read_dir(folder).expect("the folder of scenarios");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut texts: Vec<String> = paths
        .map(|path| std::fs::read_to_string(path).expect("a text"))
        .collect();
    texts.sort();
    texts.extend((0..20).map(scenario::swarm::draw));
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..3000 {
        let mut draws = Draws(seed);
        let text = mutated(&texts[draws.below(texts.len())], &mut draws);
        match scenario::parse(&text) {
            Ok(_) => accepted += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.contains('\n'), "seed {seed}: {error}");
                let place = error.split(':').next().unwrap_or_default();
                assert!(place.parse::<usize>().is_ok(), "seed {seed}: {error}");
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted}, {refused}");
}
