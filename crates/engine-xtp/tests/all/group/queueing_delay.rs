//! Buckets with long queues: the sender must not fill them faster than answers arrive, nor release
//! bytes that are still queued.

use super::network::GroupNetwork;
use super::plan::{MS, Station, clean};
use engine::CloseReason;
use engine_xtp::group::{BucketConfig, Config, Reliability};
use link::LinkConfig;

const LONG: u64 = 400_000 * MS;
const BYTES: u64 = 2_500_000;

fn config(window: u64, tolerated: u32) -> Config {
    Config {
        packet_len: 1000,
        window,
        reliability: Reliability::Buckets(BucketConfig {
            requests: 2,
            tolerated,
        }),
        ..Config::default()
    }
}

/// A link of `bps` whose queue never overflows.
fn behind_a_queue(bps: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(bps),
        ..clean()
    }
}

/// Four receivers, the last behind a link with a rate of its own.
fn run(config: &Config, shared_bps: u64, last_bps: u64) -> GroupNetwork {
    let mut sender = Station::sender(config, BYTES);
    sender.out = behind_a_queue(shared_bps);
    let mut stations = vec![sender];
    stations.extend((0..4).map(|_| Station::receiver(config)));
    stations[4].link = behind_a_queue(last_bps);
    let mut network = GroupNetwork::new(stations, 11);
    network.run(LONG);
    network
}

#[test]
fn no_receiver_lost_behind_queue_longer_than_rtt() {
    for window in [30_000, 1 << 20] {
        for tolerated in [0, 2] {
            for (shared, last) in [
                (100_000_000, 100_000_000),
                (100_000_000, 10_000_000),
                (5_000_000, 100_000_000),
                (1_000_000_000, 2_000_000),
            ] {
                let network = run(&config(window, tolerated), shared, last);
                let about = format!("window {window}, E {tolerated}, {shared} and {last} bit/s");
                assert_eq!(
                    network.hosts[0].closed,
                    Some(CloseReason::Graceful),
                    "{about}"
                );
                for station in 1..=4 {
                    let stream = network.stream(station).expect("it received FIRST");
                    let got = (stream.bytes, stream.wrong, stream.gaps, stream.finished);
                    assert_eq!(got, (BYTES, 0, 0, true), "{about}: {station}");
                }
                let repeated = network.hosts[0].engine_retransmissions();
                assert_eq!(repeated, 0, "{about}: nothing was lost");
            }
        }
    }
}
