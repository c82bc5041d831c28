//! The functions of the fuzz targets on drawn octets: a fixed number of rounds, or as many as
//! TOWPATH_SEEDS says.

#[path = "../../../../fuzz/src/call.rs"]
mod targets;

use crate::drawn::{assert_scripts_reach, seeds};
use engine::{EntityId, SplitMix64};
use engine_call::pdu::{Header, Kind};

#[test]
fn drawn_scripts_keep_what_a_host_relies_on() {
    assert_scripts_reach(5000, targets::script);
}

#[test]
fn changed_packets_are_parsed_as_they_are_written_or_not_at_all() {
    for seed in seeds(5000) {
        let mut random = SplitMix64::new(seed);
        let header = Header {
            kind: [Kind::Request, Kind::Reply, Kind::Ack][random.below(3) as usize],
            refused: random.below(2) == 0,
            message_len: random.next_u64() as u32,
            offset: random.next_u64() as u32,
            transaction: random.next_u64(),
            client: EntityId(random.next_u64()),
            server: EntityId(random.next_u64()),
        };
        let mut packet = header.emit().to_vec();
        targets::packet(&packet);
        packet.truncate(random.below(41) as usize);
        for octet in packet.iter_mut().take(2) {
            *octet = random.below(4) as u8;
        }
        targets::packet(&packet);
    }
}
