//! The functions of the fuzz targets on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/vmtp.rs"]
mod targets;

use engine::SplitMix64;
use engine::test_kit::Reached;

fn rounds() -> u64 {
    let wanted = std::env::var("TOWPATH_SEEDS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(3000)
}

fn drawn(random: &mut SplitMix64, len: u64) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn drawn_scripts_keep_what_a_host_relies_on() {
    let mut total = Reached::default();
    for round in 0..rounds() {
        let mut random = SplitMix64::new(round);
        let len = random.below(2000);
        let octets = drawn(&mut random, len);
        total += targets::script(&octets);
    }
    println!("{total:?}");
    let enough = rounds();
    assert!(
        total.requests > enough && total.replies > enough / 2 && total.packets > 10 * enough,
        "the scripts reach little: {total:?}"
    );
}

#[test]
fn drawn_packets_are_parsed_as_they_are_written_or_not_at_all() {
    for round in 0..rounds() {
        let mut random = SplitMix64::new(round);
        let data = 4 * random.below(300);
        let mut octets = drawn(&mut random, 68 + data);
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
