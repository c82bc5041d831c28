//! Which seeds a test tries, and octets drawn from one.
#![allow(dead_code, reason = "each test uses its own part")]

use core::ops::Range;
use engine::SplitMix64;
use engine::test_kit::Reached;

/// The seeds to try: `usual`, as many as TOWPATH_SEEDS says, or only TOWPATH_SEED to repeat a failure.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("TOWPATH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TOWPATH_SEEDS").unwrap_or(usual),
    }
}

/// Fewer than `len_max` octets, drawn from `seed`.
pub fn drawn_octets(seed: u64, len_max: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let len = random.below(len_max);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// Drawn scripts, of as many seeds as [`seeds`] says, reach a request each, and half as many replies.
///
/// # Panics
///
/// When they reach less.
pub fn assert_scripts_reach(usual: u64, script: impl Fn(&[u8]) -> Reached) {
    let mut total = Reached::default();
    let seeds = seeds(usual);
    let enough = seeds.end - seeds.start;
    for seed in seeds {
        total += script(&drawn_octets(seed, 2000));
    }
    println!("{total:?}");
    assert!(
        total.requests > enough && total.replies > enough / 2 && total.packets > 10 * enough,
        "the scripts reach little: {total:?}"
    );
}
