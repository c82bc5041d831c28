//! The functions of the fuzz targets on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/vmtp.rs"]
mod targets;

use crate::drawn::{assert_scripts_reach, seeds};
use engine::SplitMix64;

#[test]
fn drawn_scripts_keep_what_a_host_relies_on() {
    assert_scripts_reach(3000, targets::script);
}

#[test]
fn drawn_packets_are_parsed_as_they_are_written_or_not_at_all() {
    for seed in seeds(3000) {
        let mut random = SplitMix64::new(seed);
        let data = 4 * random.below(300);
        let mut octets: Vec<u8> = (0..68 + data).map(|_| random.next_u64() as u8).collect();
        octets[8] &= 0x1f;
        targets::parse(&octets);
        // The right length, and a check of zeros: none.
        let word = (data / 4) as u16 | u16::from(octets[10] & 0xe0) << 8;
        octets[10..12].copy_from_slice(&word.to_be_bytes());
        let end = octets.len() - 4;
        octets[end..].fill(0);
        assert!(engine_vmtp::pdu::packet::parse(&octets).is_ok());
        targets::parse(&octets);
    }
}
