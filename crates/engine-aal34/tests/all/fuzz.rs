//! The function of the fuzz target on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/cells.rs"]
mod targets;

use crate::drawn::{drawn_octets, seeds};

#[test]
fn drawn_scripts_yield_packets_and_bounded_memory() {
    let seeds = seeds(3000);
    let rounds = seeds.end - seeds.start;
    let octets = seeds.map(|seed| drawn_octets(seed, 2000));
    let delivered: u64 = octets.map(|octets| targets::frames(&octets)).sum();
    assert!(
        delivered > rounds,
        "{delivered} packets of {rounds} scripts"
    );
}
