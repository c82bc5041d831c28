//! The function of the fuzz target on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/cells.rs"]
mod targets;

use engine::SplitMix64;

#[test]
fn drawn_scripts_yield_packets_and_bounded_memory() {
    let wanted = std::env::var("TOWPATH_SEEDS").ok();
    let rounds = wanted.and_then(|text| text.parse().ok()).unwrap_or(3000);
    let mut delivered = 0;
    for round in 0..rounds {
        let mut random = SplitMix64::new(round);
        let len = random.below(2000);
        let octets: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        delivered += targets::frames(&octets);
    }
    assert!(
        delivered > rounds,
        "{delivered} packets of {rounds} scripts"
    );
}
