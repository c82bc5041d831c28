//! Routers and endpoints alone: routing loops, mutated packets, packets without an association.

use crate::drawn::seeds;
use crate::pair::{clean, messages};
use crate::paths::{config, plan, star};
use crate::star::LONG;
use core::time::Duration;
use engine::test_kit::{give_packet, nothing, take_packets};
use engine::{Address, Associations, Batch, Deliveries, Instant, Protocol, Received, SplitMix64};
use engine_xtp::pdu::v3::{BodyV3, HeaderV3, InformationSegment, PacketV3, RTN_V3};
use engine_xtp::pdu::{AddressSegment, DiagCode, Endpoints, Version};
use engine_xtp::{Config, RouterConfig, Xtp, XtpRouter};
use link::LinkConfig;

#[test]
fn routing_loop_ended_by_ttl() {
    let mut routers = [1, 2, 0].map(|other| {
        let host = core::net::IpAddr::V4(core::net::Ipv4Addr::from(9));
        let next = std::collections::BTreeMap::from([(host, Address::Station(other))]);
        XtpRouter::new(RouterConfig {
            next_hops: next,
            ..RouterConfig::default()
        })
    });
    let mut xtp = Xtp::new(Config {
        gateway: Some(Address::Station(0)),
        ..config()
    });
    let now = Instant::ZERO;
    xtp.connect(now, &[Address::Station(9)]).expect("room");
    let (_, first) = take_packets(&mut xtp, now, 1, nothing).remove(0);
    let mut waiting = vec![(0usize, 5u32, first)];
    let mut carried = 0;
    while let Some((to, from, packet)) = waiting.pop() {
        carried += 1;
        assert!(carried < 200, "the packet loops");
        let from = Address::Station(from);
        give_packet(&mut routers[to], now, from, &packet);
        for (next, packet) in take_packets(&mut routers[to], now, 1, nothing) {
            if let Address::Station(next @ 0..3) = next {
                waiting.push((next as usize, to as u32, packet));
            }
        }
    }
    assert!(carried > 16, "{carried}");
}

/// Sends a packet without an association to an idle endpoint and returns the replies.
fn send_to_idle(body: BodyV3<'_>) -> Vec<Vec<u8>> {
    let mut xtp = Xtp::new(config());
    let header = HeaderV3 {
        key: 7,
        ..HeaderV3::plain(body.kind(), 0, 1)
    };
    let packet = PacketV3 { header, body }.emit(Version::V36);
    give_packet(&mut xtp, Instant::ZERO, Address::Station(1), &packet);
    let answers = take_packets(&mut xtp, Instant::ZERO, 1, nothing);
    let answers: Vec<_> = answers.into_iter().map(|(_, octets)| octets).collect();
    assert!(
        answers.iter().all(|answer| answer.len() <= packet.len()),
        "the reply is longer than the request"
    );
    answers
}

#[test]
fn maint_echoed_and_mgmt_refused() {
    let info = |op: u32| InformationSegment {
        op,
        octets: b"are you there? tell me",
    };
    let answers = send_to_idle(BodyV3::Maint(info(1)));
    let answer = PacketV3::parse(Version::V36, &answers[0]).expect("a good packet");
    assert_eq!(
        (answer.body, answer.header.key),
        (BodyV3::Maint(info(2)), 7 | RTN_V3)
    );
    assert_eq!(send_to_idle(BodyV3::Maint(info(2))), Vec::<Vec<u8>>::new());
    let answers = send_to_idle(BodyV3::Mgmt(info(1)));
    let answer = PacketV3::parse(Version::V36, &answers[0]).expect("a good packet");
    let BodyV3::Diag(diag) = answer.body else {
        panic!("{answer:?}");
    };
    assert_eq!(diag.code, DiagCode::REQUEST_REFUSED);
    assert_eq!(
        send_to_idle(BodyV3::Route { op: 1, route: 5 }),
        Vec::<Vec<u8>>::new()
    );
    assert_eq!(
        send_to_idle(BodyV3::Rcntl { rate: 1, burst: 1 }),
        Vec::<Vec<u8>>::new()
    );
    assert_eq!(
        send_to_idle(BodyV3::Route { op: 2, route: 5 }).len(),
        1,
        "an unknown route is released"
    );
}

/// Sends a packet of a path to a router; what it sends then, with the destinations.
fn send_to_router(
    router: &mut XtpRouter,
    from: u32,
    body: BodyV3<'_>,
    (route, ttl): (u32, u8),
) -> Vec<(Address, Vec<u8>)> {
    let header = HeaderV3 {
        key: 7,
        ..HeaderV3::plain(body.kind(), route, ttl)
    };
    let packet = PacketV3 { header, body }.emit(Version::V36);
    give_packet(router, Instant::ZERO, Address::Station(from), &packet);
    take_packets(router, Instant::ZERO, 1, nothing)
}

#[test]
fn maint_that_may_pass_no_router_is_answered_by_it() {
    let mut router = XtpRouter::new(RouterConfig::default());
    let ask = BodyV3::Maint(InformationSegment {
        op: 1,
        octets: b"who is here",
    });
    // Without a path nobody is told anything.
    assert!(send_to_router(&mut router, 5, ask, (33, 0)).is_empty());
    let host = |number: u32| core::net::Ipv4Addr::from(number);
    let path = AddressSegment::V4(Endpoints {
        dst_host: host(9),
        src_host: host(5),
        dst_port: 1,
        src_port: 2,
    });
    let opened = send_to_router(&mut router, 5, BodyV3::Path(path), (33, 255));
    assert!(opened.iter().any(|(to, _)| *to == Address::Station(9)));
    let answers = send_to_router(&mut router, 5, ask, (33, 0));
    let [(Address::Station(5), octets)] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    let answer = PacketV3::parse(Version::V36, octets).expect("a good packet");
    let BodyV3::Maint(InformationSegment {
        op: 3,
        octets: echoed,
    }) = answer.body
    else {
        panic!("{answer:?}");
    };
    assert!(echoed.starts_with(b"who is here"));
    assert_eq!(
        (answer.header.key, answer.header.route),
        (7 | RTN_V3, 33 | RTN_V3)
    );
    // With a longer time to live it goes on; an answer that may not pass is dropped.
    let on = send_to_router(&mut router, 5, ask, (33, 1));
    assert!(
        matches!(on.as_slice(), [(Address::Station(9), _)]),
        "{on:?}"
    );
    let response = BodyV3::Maint(InformationSegment {
        op: 2,
        octets: b"who is here",
    });
    assert!(send_to_router(&mut router, 5, response, (33, 0)).is_empty());
}

/// Mutated packets of valid sessions with correct checks, sent to a router.
#[test]
fn router_survives_mutated_packets() {
    let mut star = star(
        LinkConfig {
            loss_ppm: 50_000,
            ..clean()
        },
        3,
        1,
    );
    star.open(1, 2, &plan(messages(&mut SplitMix64::new(1), 30)));
    star.open(3, 2, &plan(messages(&mut SplitMix64::new(2), 30)));
    star.run(LONG);
    for seed in seeds(60) {
        let mut random = SplitMix64::new(seed);
        let small = RouterConfig {
            paths_max: 8,
            queue_max: 8000,
            ..RouterConfig::default()
        };
        let mut victim = XtpRouter::new(small);
        let mut now = Instant::from_nanos(5);
        for _ in 0..120 {
            let sent = &star.trace[random.below(star.trace.len() as u64) as usize];
            let mut packet = sent.packet.clone();
            for _ in 0..random.below(4) {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] ^= random.next_u64() as u8;
            }
            packet.truncate(packet.len() - 4);
            if !crate::fuzz::targets::fix_checksums(Version::V36, &mut packet) {
                continue;
            }
            let from = Address::Station(random.below(4) as u32);
            victim.handle_packet(
                now,
                Received::new(from, &packet),
                &mut Deliveries::default(),
            );
            now = now + Duration::from_micros(random.below(1 << 20));
            victim.handle_timeout(now);
            assert!(
                victim.poll_timeout().is_none_or(|at| at > now),
                "an expired timer stays armed"
            );
            assert!(victim.paths() <= 9, "{} paths", victim.paths());
            let mut out = Batch::new(1);
            for _ in 0..random.below(4) {
                out.clear();
                victim.poll_transmit(now, &mut out);
            }
        }
        while let Some(at) = victim.poll_timeout() {
            victim.handle_timeout(at);
        }
        assert_eq!(victim.paths(), 0, "seed {seed}");
    }
}
