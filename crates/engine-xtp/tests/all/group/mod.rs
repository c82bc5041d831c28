//! Groups in virtual time: one or many senders and up to a hundred receivers, with faults of the
//! medium and the hosts.

mod control_traffic;
mod dishonest;
mod hostile;
mod member_keys;
mod members;
mod network;
mod plan;
mod queueing_delay;
mod reading;
mod relay;
mod strangers;
mod swarm;
mod v3;

use engine_xtp::group::{BucketConfig, Config, Reliability};
use engine_xtp::pdu::{Body, Header, Options, Packet, SyncNumber};
use network::GroupNetwork;
use plan::{MS, Station};

/// A packet to a group, with its sync and its sequence number.
fn multicast_packet(
    key: u64,
    options: Options,
    (sync, seq): (u32, u64),
    body: Body<'_>,
) -> Vec<u8> {
    let header = Header {
        key,
        options: Options::MULTI | options,
        format: body.format(),
        dlen: 0,
        check: 0,
        sort: 0,
        sync: SyncNumber(sync),
        seq,
    };
    let mut octets = Vec::new();
    Packet { header, body }.emit_with_checksum(&mut octets);
    octets
}

/// Packets of groups of each reliability, with loss.
pub fn recorded() -> Vec<Vec<u8>> {
    let kinds = [
        Reliability::Counted,
        Reliability::Buckets(BucketConfig::default()),
        Reliability::None,
    ];
    let of_kind = |reliability| {
        let config = Config {
            packet_len: 256,
            reliability,
            ..Config::default()
        };
        let mut stations = vec![Station::sender(&config, 6000)];
        stations.extend((0..2).map(|_| Station::receiver(&config)));
        stations[1].link.loss_ppm = 50_000;
        let mut network = GroupNetwork::new(stations, 3);
        network.run(10_000 * MS);
        network.trace.into_iter().map(|(_, _, packet)| packet)
    };
    kinds.into_iter().flat_map(of_kind).collect()
}
