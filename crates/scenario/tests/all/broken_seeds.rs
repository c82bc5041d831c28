//! Seeds that broke an invariant once, and scenarios made of what broke most of them.

use scenario::parse;
use scenario::swarm::{check, check_scenario, draw};

/// Each seed, and why it broke.
const BROKEN: &[(u64, &str)] = &[];

#[test]
fn seeds_that_broke_an_invariant_hold() {
    for (seed, reason) in BROKEN {
        let held = check(*seed);
        assert!(held.is_ok(), "{held:?}; it broke before: {reason}");
    }
}

/// Scenarios of XTP 3.x whose restarted stations choose a key of their earlier life again.
const REPEATED_KEYS: usize = 300;

#[test]
fn invariants_hold_when_restarted_stations_choose_their_keys_again() {
    let draws = (0..).map(draw);
    let crashing = draws.filter(|text| text.contains("dialect") && text.contains("\"crash\""));
    for text in crashing.take(REPEATED_KEYS) {
        let text = text.replace("kind = \"crash\"", "kind = \"crash\"\nrepeat_keys = true");
        let scenario = parse(&text).expect("a good scenario");
        let held = check_scenario(&scenario, &|engine| engine);
        assert!(held.is_ok(), "{held:?} in {text}");
    }
}
