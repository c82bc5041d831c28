//! Routes between neighbours, and forwarding by routers.

use crate::drawn::seeds;
use crate::pair::{MS, both, clean, joined, messages, run};
use crate::star::{LONG, Sent, Star};
use crate::user::Plan;
use engine::{Address, AssociationId, CloseReason, Protocol, SplitMix64};
use engine_xtp::pdu::Version;
use engine_xtp::pdu::v3::{HeaderV3, PacketKind, RTN_V3};
use engine_xtp::{Config, Holdings, RateLimit, RouterConfig, Xtp};
use link::LinkConfig;

const ROUTER: u32 = 0;

pub fn config() -> Config {
    Config {
        version: Version::V36,
        packet_len: 1500,
        routes: true,
        initial_seq: Some(u32::MAX - 30_000),
        ..Config::default()
    }
}

pub fn star(link: LinkConfig, ends: u32, seed: u64) -> Star {
    let mut star = Star::new(&config(), link, seed);
    star.add_router(ROUTER, RouterConfig::default());
    (1..=ends).for_each(|station| star.add_endpoint(station, ROUTER));
    star
}

pub fn plan(sends: Vec<Vec<u8>>) -> Plan {
    Plan {
        sends,
        ..Plan::default()
    }
}

fn header(sent: &Sent) -> HeaderV3 {
    HeaderV3::parse(Version::V36, &sent.packet).expect("a good packet")
}

fn kinds(star: &Star, kind: PacketKind) -> usize {
    star.trace
        .iter()
        .filter(|sent| header(sent).kind == kind)
        .count()
}

/// Checks what every station received, and that no state is left.
fn assert_all_received(star: &mut Star, ends: u32, about: &str) {
    for station in 1..=ends {
        let (xtp, users) = star.station(station);
        assert_eq!(
            xtp.holdings(),
            Holdings::default(),
            "{about}: station {station}"
        );
        for user in users {
            assert_eq!(
                user.closed,
                Some(CloseReason::Graceful),
                "{about}: station {station}"
            );
        }
    }
    assert_eq!(star.router(ROUTER).paths(), 0, "{about}: a path is left");
}

fn received(star: &mut Star, station: u32) -> Vec<Vec<u8>> {
    let (_, users) = star.station(station);
    users.iter().map(|user| joined(&user.received)).collect()
}

#[test]
fn router_forwards_by_route() {
    let mut star = star(clean(), 2, 1);
    let sent = messages(&mut SplitMix64::new(1), 200);
    star.open(1, 2, &plan(sent.clone()));
    star.run(LONG);
    assert_eq!(received(&mut star, 2), [joined(&sent)]);
    assert_all_received(&mut star, 2, "clean");
    let data: Vec<HeaderV3> = star
        .trace
        .iter()
        .map(header)
        .filter(|h| h.kind == PacketKind::Data)
        .collect();
    let exchanged = data
        .iter()
        .filter(|header| header.route & RTN_V3 != 0)
        .count();
    assert!(
        exchanged * 10 > data.len() * 9,
        "{exchanged} of {}",
        data.len()
    );
    assert!(
        data.iter().any(|header| header.ttl == 16) && data.iter().any(|header| header.ttl == 15)
    );
    assert_eq!(kinds(&star, PacketKind::First), 2, "forwarded once");
    assert_eq!(kinds(&star, PacketKind::Path), 0, "nothing was lost");
    let (xtp, _) = star.station(1);
    assert_eq!(xtp.counters().retransmissions, 0);
    // Two assignments, a release and its answer on each of two hops.
    assert_eq!(kinds(&star, PacketKind::Route), 2 + 4);
}

#[test]
fn faulty_links_lose_no_byte_and_leave_no_path() {
    for seed in seeds(60) {
        let mut random = SplitMix64::new(seed);
        let link = LinkConfig {
            loss_ppm: random.below(50_000) as u32,
            duplicate_ppm: random.below(30_000) as u32,
            reorder_ppm: random.below(50_000) as u32,
            reorder_ps: random.below(10) * MS,
            corrupt_ppm: random.below(10_000) as u32,
            ..clean()
        };
        let mut star = star(link, 4, seed);
        star.cut_through = seed.is_multiple_of(2);
        let mut expected = Vec::new();
        for (from, to) in [(1, 4), (2, 4), (3, 4), (1, 4), (1, 2)] {
            let sent = messages(&mut random, 30);
            star.open(from, to, &plan(sent.clone()));
            expected.push((to, joined(&sent)));
        }
        star.run(LONG);
        for (to, bytes) in expected {
            assert!(
                received(&mut star, to).contains(&bytes),
                "seed {seed}: to {to}"
            );
        }
        assert_all_received(&mut star, 4, &format!("seed {seed}"));
    }
}

#[test]
fn same_seed_gives_same_trace() {
    let trace = |seed: u64| {
        let mut star = star(
            LinkConfig {
                loss_ppm: 30_000,
                ..clean()
            },
            2,
            seed,
        );
        star.open(1, 2, &plan(messages(&mut SplitMix64::new(3), 50)));
        star.run(LONG);
        star.trace
    };
    assert!(trace(5) == trace(5));
    assert!(trace(5) != trace(6));
}

#[test]
fn associations_between_two_hosts_share_route() {
    let mut star = star(clean(), 2, 1);
    for _ in 0..5 {
        star.open(1, 2, &plan(vec![vec![7; 3000]]));
    }
    star.run(1000 * MS);
    assert_eq!(star.router(ROUTER).paths(), 1);
    assert_eq!(star.station(1).0.holdings().routes, 1);
    assert_eq!(star.station(2).0.holdings().routes, 1);
    star.run(LONG);
    assert_all_received(&mut star, 2, "shared");
}

/// Keys collide: both initiators are the first at their endpoints and have equal seeds.
#[test]
fn equal_keys_behind_one_router_stay_separate() {
    let mut star = Star::new(&config(), clean(), 0);
    star.add_router(ROUTER, RouterConfig::default());
    star.add_endpoint(3, ROUTER);
    for station in [1, 2] {
        let same_key_seed = Config {
            gateway: Some(Address::Station(ROUTER)),
            seed: 99,
            ..config()
        };
        let node = crate::star::Node::Endpoint(Box::new(Xtp::new(same_key_seed)), Vec::new());
        star.nodes.insert(station, node);
    }
    let sent = [vec![1; 5000], vec![2; 5000]];
    star.open(1, 3, &plan(vec![sent[0].clone()]));
    star.open(2, 3, &plan(vec![sent[1].clone()]));
    star.run(LONG);
    let firsts: Vec<u32> = star
        .trace
        .iter()
        .map(header)
        .filter(|h| h.kind == PacketKind::First)
        .map(|h| h.key)
        .collect();
    assert!(
        firsts.len() == 4 && firsts.iter().all(|key| *key == firsts[0]),
        "{firsts:?}"
    );
    assert_eq!(received(&mut star, 3), sent);
}

#[test]
fn cut_through_saves_one_packet_time() {
    let slow = LinkConfig {
        rate_bps: Some(10_000_000),
        ..clean()
    };
    let [stored, cut] = [false, true].map(|cut_through| {
        let mut star = star(slow, 2, 1);
        star.cut_through = cut_through;
        star.open(1, 2, &plan(vec![vec![1; 1400]]));
        star.run(1000 * MS);
        let data = star
            .trace
            .iter()
            .filter(|sent| header(sent).kind == PacketKind::Data);
        let times: Vec<u64> = data.map(|sent| sent.at_ps).collect();
        assert_eq!(times.len(), 2);
        times[1] - times[0]
    });
    // 1444 octets in a frame less 86 of its headers: 1.09 ms at 10 Mbit/s.
    let saved_us = (stored - cut) / 1_000_000;
    assert!((1000..1200).contains(&saved_us), "{saved_us} us");
}

#[test]
fn router_rate_limits_whole_route() {
    let limit = RateLimit {
        rate_bytes_per_s: 200_000,
        burst_bytes: 6000,
    };
    let mut star = Star::new(&config(), clean(), 1);
    let imposing = RouterConfig {
        rate: Some(limit),
        ..RouterConfig::default()
    };
    star.add_router(ROUTER, imposing);
    (1..=3).for_each(|station| star.add_endpoint(station, ROUTER));
    for to in [2, 2, 3] {
        star.open(1, to, &plan(vec![vec![to as u8; 100_000]]));
    }
    star.run(LONG);
    assert_all_received(&mut star, 3, "limited");
    let last = |to: u32| {
        let big = |sent: &&Sent| sent.from == ROUTER && sent.to == to && sent.packet.len() > 500;
        star.trace.iter().rfind(big).expect("data were sent").at_ps / MS
    };
    let (shared, alone) = (last(2), last(3));
    assert!(
        (950..1400).contains(&shared),
        "two share a route: {shared} ms"
    );
    assert!(
        (450..800).contains(&alone),
        "alone on its route: {alone} ms"
    );
}

/// When the last byte of each of five circuits of one endpoint left a router that limits their route to 200 kB/s, ms.
/// The third circuit has this priority.
fn last_bytes_ms(sort: Option<u16>) -> Vec<u64> {
    let mut star = Star::new(&config(), clean(), 1);
    let limit = RateLimit {
        rate_bytes_per_s: 200_000,
        burst_bytes: 6000,
    };
    let imposing = RouterConfig {
        rate: Some(limit),
        ..RouterConfig::default()
    };
    star.add_router(ROUTER, imposing);
    (1..=2).for_each(|station| star.add_endpoint(station, ROUTER));
    for circuit in 1..=5 {
        star.open(1, 2, &plan(vec![vec![circuit; 100_000]]));
    }
    let third = AssociationId(3);
    let (xtp, users) = star.station(1);
    assert!(users[2].has(third));
    xtp.set_sort(third, sort);
    star.run(LONG);
    assert_all_received(&mut star, 2, "limited");
    let last = |circuit: u8| {
        let mut sent = star.trace.iter().rev();
        let found = sent.find(|sent| {
            let is_data = sent.from == ROUTER && header(sent).kind == PacketKind::Data;
            is_data && sent.packet[Version::V36.header_len()] == circuit
        });
        found.expect("data were sent").at_ps / MS
    };
    (1..=5).map(last).collect()
}

#[test]
fn urgent_circuit_is_served_first_where_its_endpoint_holds_packets_back() {
    let equal = last_bytes_ms(None);
    assert!(
        equal.iter().all(|ms| *ms > 1_800),
        "all take turns: {equal:?}"
    );
    let sorted = last_bytes_ms(Some(1));
    // A fifth of the bytes at the whole rate.
    assert!((450..700).contains(&sorted[2]), "{sorted:?}");
    let others = [0, 1, 3, 4].map(|at| sorted[at]);
    assert!(others.iter().all(|ms| *ms > 1_800), "{sorted:?}");
}

#[test]
fn router_rate_resent_after_loss_and_on_change() {
    let mut star = star(clean(), 2, 1);
    star.drop_if = Some(|sent| sent.at_ps < 300 * MS && header(sent).kind == PacketKind::Rcntl);
    let delayed_answer = Plan {
        answers: true,
        ..plan(vec![vec![1; 100]])
    };
    // Both users wait for the other to finish, so the association stays.
    star.answer = delayed_answer.clone();
    star.open(1, 2, &delayed_answer);
    star.run(100 * MS);
    let limit = |rate_bytes_per_s: u32| RateLimit {
        rate_bytes_per_s,
        burst_bytes: 3000,
    };
    let now = star.now();
    star.router(ROUTER).set_rate(now, Some(limit(50_000)));
    star.run(200 * MS);
    let id = AssociationId(1);
    assert_eq!(
        star.station(1).0.route_limit(id),
        None,
        "the RCNTL was lost"
    );
    let now = star.now();
    star.station(1).0.impose_rate(now, id, None);
    star.run(200_000 * MS);
    assert_eq!(
        star.station(1).0.route_limit(id),
        Some(limit(50_000)),
        "sent again"
    );
    let now = star.now();
    star.router(ROUTER).set_rate(now, None);
    star.run(200_100 * MS);
    assert_eq!(star.station(1).0.route_limit(id), None);
}

/// Two routers in a row; the lower of their rates applies.
#[test]
fn path_over_several_routers() {
    let mut star = Star::new(&config(), clean(), 1);
    let next = |destination: u32, by: u32| {
        let host = core::net::IpAddr::V4(core::net::Ipv4Addr::from(destination));
        std::collections::BTreeMap::from([(host, Address::Station(by))])
    };
    let rate = |rate_bytes_per_s: u32| {
        Some(RateLimit {
            rate_bytes_per_s,
            burst_bytes: 3000,
        })
    };
    let here = RouterConfig {
        next_hops: next(2, 10),
        rate: rate(900_000),
        ..RouterConfig::default()
    };
    let there = RouterConfig {
        rate: rate(100_000),
        ..RouterConfig::default()
    };
    star.add_router(ROUTER, here);
    star.add_router(10, there);
    star.add_endpoint(1, ROUTER);
    star.add_endpoint(2, 10);
    star.open(1, 2, &plan(vec![vec![5; 100_000]]));
    star.run(LONG);
    assert_eq!(received(&mut star, 2), [vec![5; 100_000]]);
    assert_all_received(&mut star, 2, "two routers");
    assert_eq!(star.router(10).paths(), 0);
    let big = |sent: &&Sent| sent.to == 2 && sent.packet.len() > 500;
    let last = star.trace.iter().rfind(big).expect("data").at_ps / MS;
    assert!((900..1400).contains(&last), "{last} ms");
}

#[test]
fn path_restored_after_router_forgot_it() {
    let mut star = star(clean(), 2, 1);
    let sent = messages(&mut SplitMix64::new(9), 2000);
    star.open(1, 2, &plan(sent.clone()));
    star.run(60 * MS);
    star.add_router(ROUTER, RouterConfig::default());
    star.run(LONG);
    assert_eq!(received(&mut star, 2), [joined(&sent)]);
    assert!(kinds(&star, PacketKind::Path) >= 2, "sent and forwarded");
    assert_all_received(&mut star, 2, "found again");
}

#[test]
fn unreachable_host_refused() {
    // The router has no link to station 2, so packets to it are lost; a full route table refuses
    // at once.
    let full = RouterConfig {
        paths_max: 0,
        ..RouterConfig::default()
    };
    let mut star = Star::new(&config(), clean(), 1);
    star.add_router(ROUTER, full);
    (1..=2).for_each(|station| star.add_endpoint(station, ROUTER));
    star.open(1, 2, &plan(vec![vec![1; 10]]));
    star.run(LONG);
    let (xtp, users) = star.station(1);
    assert_eq!(users[0].closed, Some(CloseReason::Refused));
    assert_eq!(xtp.holdings(), Holdings::default());
}

#[test]
fn direct_endpoints_exchange_and_release_routes() {
    for seed in seeds(40) {
        let link = LinkConfig {
            loss_ppm: 40_000,
            duplicate_ppm: 20_000,
            ..clean()
        };
        let sent = messages(&mut SplitMix64::new(seed), 40);
        let plans = [sent.clone(), sent.clone()].map(plan);
        let outcome = run(both(&config(), seed), plans, link, seed);
        for side in [0, 1] {
            assert!(
                joined(&outcome.received[side]) == joined(&sent),
                "seed {seed}"
            );
        }
        assert_eq!(outcome.holdings, [Holdings::default(); 2], "seed {seed}");
    }
}
