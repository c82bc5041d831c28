//! The fuzz target's check, with files mutated here; `TOWPATH_SEEDS` sets the number.

use crate::fuzzed;
use crate::support::{CSV, PAGE, TEXT};
use crate::text::{Draws, mutated};

#[test]
fn mutated_files_give_a_study_or_one_line_and_no_panic() {
    let seeds = std::env::var("TOWPATH_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let good = format!("{TEXT}\0{CSV}\0{PAGE}");
    fuzzed::study(good.as_bytes());
    for seed in 0..seeds.unwrap_or(3000) {
        let mut draws = Draws(seed);
        fuzzed::study(mutated(&good, &mut draws).as_bytes());
    }
}
