//! Random groups drawn from seeds, and the invariants that hold under any faults.

use super::network::{ALL, GroupNetwork};
use super::plan::{MS, Station, clean};
use crate::drawn::seeds;
use core::time::Duration;
use engine::{CloseReason, SplitMix64};
use engine_xtp::ErrorControl;
use engine_xtp::group::{BucketConfig, Config, LateJoin, MemberState, Reliability};
use engine_xtp::pdu::Version;
use link::LinkConfig;

const LONG: u64 = 400_000 * MS;

fn any<T: Clone>(random: &mut SplitMix64, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize].clone()
}

fn faults(random: &mut SplitMix64) -> LinkConfig {
    LinkConfig {
        loss_ppm: any(random, &[0, 0, 1_000, 20_000, 80_000]),
        duplicate_ppm: any(random, &[0, 0, 10_000]),
        reorder_ppm: any(random, &[0, 0, 10_000]),
        reorder_ps: any(random, &[MS / 10, 2 * MS]),
        corrupt_ppm: any(random, &[0, 0, 2_000]),
        ..LinkConfig::default()
    }
}

fn config(random: &mut SplitMix64, receivers: usize, counted: bool) -> Config {
    let buckets = BucketConfig {
        requests: any(random, &[1, 2, 4]),
        tolerated: any(random, &[0, 1, 2, 4]),
    };
    Config {
        packet_len: any(random, &[200, 1000, 1472]),
        window: any(random, &[30_000, 100_000, 1 << 20]),
        reliability: match counted {
            true => Reliability::Counted,
            false => Reliability::Buckets(buckets),
        },
        error: any(random, &[ErrorControl::Selective, ErrorControl::GoBackN]),
        fastnak: random.below(3) == 0,
        members_min: 1 + random.below(receivers as u64) as usize,
        late_join: any(
            random,
            &[LateJoin::Earliest, LateJoin::Earliest, LateJoin::Next],
        ),
        answer_to: any(random, &[None, Some(ALL)]),
        slot: any(random, &[Duration::ZERO, Duration::from_millis(3)]),
        damping: random.below(3) == 0,
        status_interval_bytes: any(random, &[5_000, 240 << 10]),
        ..Config::default()
    }
}

/// Draws the stations of `seed`.
fn draw(seed: u64, counted: bool) -> Vec<Station> {
    let mut random = SplitMix64::new(seed * 2 + u64::from(counted));
    let most = any(&mut random, &[2, 4, 8, 8, 30, 100]);
    let receivers = 1 + random.below(most) as usize;
    let config = config(&mut random, receivers, counted);
    let bytes = random.below(if receivers > 30 { 60_000 } else { 300_000 });
    let mut sender = Station::sender(&config, bytes);
    sender.link = faults(&mut random);
    let shared = random.below(2) == 0;
    let faulty = faults(&mut random);
    if shared {
        sender.out = LinkConfig {
            rate_bps: clean().rate_bps,
            delay_ps: clean().delay_ps,
            ..faulty
        };
    }
    let mut stations = vec![sender];
    for index in 0..receivers {
        let mut station = Station::receiver(&config);
        if !shared && random.below(3) == 0 {
            station.link = faults(&mut random);
        }
        station.pause = Duration::from_micros(any(&mut random, &[0, 0, 100, 5_000]));
        let may_fail = counted && index >= config.members_min;
        match random.below(6) {
            0 if may_fail => station.crash_ps = Some(random.below(80 * MS)),
            1 if may_fail => station.start_ps = random.below(60 * MS),
            2 if may_fail => {
                station.crash_ps = Some(random.below(40 * MS));
                station.restart_ps = Some((40 + random.below(40)) * MS);
            }
            3 => {
                let from = random.below(60 * MS);
                station.cut_ps = from..from + random.below(60 * MS);
            }
            _ => {}
        }
        stations.push(station);
    }
    stations
}

fn run(seed: u64, counted: bool) -> GroupNetwork {
    run_version(seed, counted, Version::V40)
}

fn run_version(seed: u64, counted: bool, version: Version) -> GroupNetwork {
    let mut stations = draw(seed, counted);
    for station in &mut stations {
        station.config.version = version;
    }
    let mut network = GroupNetwork::new(stations, seed);
    network.run(LONG);
    network
}

/// Checks the received bytes of all receivers.
fn assert_bytes(network: &GroupNetwork, about: &str) {
    for (station, host) in network.hosts.iter().enumerate().skip(1) {
        for stream in host.streams.values().chain(&host.earlier_streams) {
            assert_eq!(stream.wrong, 0, "{about}: wrong bytes at {station}");
            assert!(stream.gaps <= 1, "{about}: a second gap at {station}");
        }
    }
}

fn assert_state(network: &GroupNetwork, about: &str) {
    let config = &network.hosts[0].plan.config;
    let most = network.holdings_max;
    let window = config.window.max(config.initial_window);
    assert!(most.unreleased <= window, "{about}: {most:?}");
    assert!(most.entries <= 2 * 256 + 64 + 16, "{about}: {most:?}");
    assert!(most.members < network.hosts.len(), "{about}: {most:?}");
}

#[test]
fn counted_group_loses_no_byte_and_reports_departures() {
    let mut repaired = 0;
    for seed in seeds(60) {
        let network = run(seed, true);
        let about = format!("seed {seed}, {} receivers", network.hosts.len() - 1);
        assert_bytes(&network, &about);
        assert_state(&network, &about);
        let sender = &network.hosts[0];
        let total = sender.plan.sends.unwrap_or(0);
        let ended = sender.closed == Some(CloseReason::Graceful);
        assert!(
            ended,
            "{about}: {:?}\n{}",
            sender.closed,
            network.packet_log(100)
        );
        let id = sender.sending.expect("it sends");
        let members = sender.engine.members(id);
        for (station, host) in network.hosts.iter().enumerate().skip(1) {
            let address = engine::Address::Station(station as u32);
            let of_address = || members.iter().filter(|member| member.address == address);
            let last = of_address().next_back();
            let Some(stream) = host.streams.values().next_back() else {
                continue;
            };
            match last.map(|member| (member.state, member.start)) {
                // Before a crash it had acknowledged everything; the stream ended before it joined again.
                Some((MemberState::Done, from))
                    if host
                        .earlier_streams
                        .iter()
                        .any(|earlier| earlier.finished && from + earlier.bytes == total) => {}
                Some((MemberState::Done, from)) => {
                    assert!(stream.finished, "{about}: {station} {stream:?}");
                    assert_eq!(from + stream.bytes, total, "{about}: {station}");
                    assert!(
                        from == 0 || stream.gaps == 1 || stream.bytes == 0,
                        "{about}"
                    );
                }
                Some((MemberState::Silent, _)) => {
                    let may_fail = host.plan.crash_ps.is_some() || !host.plan.cut_ps.is_empty();
                    assert!(may_fail, "{about}: {station} was dropped");
                }
                other => panic!("{about}: {station} is {other:?}, {stream:?}"),
            }
        }
        repaired += sender.engine_retransmissions();
    }
    assert!(
        repaired > 100 || seeds(60).count() == 1,
        "only {repaired} repairs"
    );
}

#[test]
fn bucket_group_loses_no_byte_within_tolerance() {
    bucket_groups_lose_no_byte(Version::V40, 60);
}

#[test]
fn group_of_3x_loses_no_byte_within_tolerance() {
    bucket_groups_lose_no_byte(Version::V35, 30);
    bucket_groups_lose_no_byte(Version::V36, 30);
}

fn bucket_groups_lose_no_byte(version: Version, count: u64) {
    let (mut repaired, mut lost) = (0, 0);
    for seed in seeds(count) {
        let network = run_version(seed, false, version);
        let receivers = network.hosts.len() - 1;
        let about = format!("seed {seed}, {receivers} receivers, {version:?}");
        assert_bytes(&network, &about);
        assert_state(&network, &about);
        let sender = &network.hosts[0];
        let total = sender.plan.sends.unwrap_or(0);
        let Reliability::Buckets(buckets) = sender.plan.config.reliability else {
            continue;
        };
        for (station, host) in network.hosts.iter().enumerate().skip(1) {
            let silence = network.longest_silence(station);
            let Some(stream) = host.streams.values().next_back() else {
                assert!(
                    silence > buckets.tolerated as usize,
                    "{about}: {station} never joined"
                );
                continue;
            };
            let damped = sender.plan.config.damping && sender.plan.config.answer_to.is_some();
            let excused = damped || silence > buckets.tolerated as usize;
            if stream.finished {
                let from = stream.start.unwrap_or(total);
                assert_eq!(from + stream.bytes, total, "{about}: {station}");
                let next = sender.plan.config.late_join == LateJoin::Next;
                assert!(
                    from == 0 || next || excused,
                    "{about}: {station} began at {from}"
                );
                continue;
            }
            lost += 1;
            assert_eq!(
                stream.closed,
                Some(CloseReason::Aborted),
                "{about}: {station} {stream:?}"
            );
            assert!(
                excused,
                "{about}: {station} lost bytes after {silence} lost answers, {buckets:?}"
            );
        }
        repaired += sender.engine_retransmissions();
    }
    assert!(
        repaired > 50 || seeds(count).count() == 1,
        "only {repaired} repairs"
    );
    println!("{lost} dropped out");
}

#[test]
fn same_seed_gives_same_trace() {
    for counted in [false, true] {
        assert!(run(5, counted).trace == run(5, counted).trace);
        assert!(run(5, counted).trace != run(6, counted).trace);
    }
}
