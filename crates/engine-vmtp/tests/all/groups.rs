//! Calls to groups: one reply, several, none; and probes of all hosts.

use crate::cluster::{ALL, Cluster, GROUP, User, entity, wishing};
use engine::{
    CallFlags, CallNote, CommandError, EntityId, Note, OutgoingMessage, TransactionEnd,
    Transactions,
};
use engine_vmtp::VmtpConfig;
use engine_vmtp::pdu::{MANAGER_GROUP, NotifyClient};
use std::collections::BTreeSet;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);

/// Stations of which the last `members` are in the group.
fn group(stations: usize, members: usize) -> Cluster {
    let mut cluster = Cluster::new(stations, &VmtpConfig::default());
    for at in stations - members..stations {
        let engine = &mut cluster.hosts[at].engine;
        let joined = engine.set_member(GROUP, entity(at), true);
        joined.expect("it is its own entity");
        cluster.hosts[at].user = User::Echo(["0", "1", "2", "3", "4", "5"][at]);
    }
    cluster
}

fn many(delayed: bool) -> Note {
    let flags = CallFlags::MANY_REPLIES.with_if(delayed, CallFlags::DELAYED_REPLIES);
    wishing(CallNote {
        flags,
        ..CallNote::default()
    })
}

#[test]
fn call_to_a_group_ends_with_the_first_reply_and_executes_once_a_member() {
    let mut cluster = group(5, 3);
    for len in [4, 3000] {
        let octets = vec![b'x'; len];
        let call = cluster.call(0, GROUP, &octets);
        cluster.run(LONG);
        assert_eq!(cluster.replies_to(0, call).len(), 1);
        assert!(
            cluster.hosts[0]
                .ends
                .contains(&(call, TransactionEnd::Complete))
        );
    }
    let served: Vec<usize> = cluster
        .hosts
        .iter()
        .map(|host| host.requests.len())
        .collect();
    assert_eq!(served, [0, 0, 2, 2, 2]);
    cluster.assert_settled();
}

#[test]
fn request_of_several_packet_groups_to_a_group_is_refused_before_it_is_sent() {
    let mut cluster = group(3, 2);
    for (len, wanted) in [(16_385, Some(CommandError::Unsupported)), (16_384, None)] {
        let now = cluster.now;
        let request = (OutgoingMessage(u64::from(len == 16_385) + 900), len);
        let engine = &mut cluster.hosts[0].engine;
        let called = engine.call(now, entity(0), GROUP, request, &Note::default());
        assert_eq!(called.err(), wanted, "{len} octets");
    }
}

#[test]
fn hosts_without_a_member_are_silent() {
    let mut cluster = group(4, 1);
    cluster.call(0, GROUP, b"x");
    cluster.run(LONG);
    let notified = cluster
        .sent
        .iter()
        .filter(|(_, header)| NotifyClient::parse(header).is_some());
    assert_eq!(notified.count(), 0);
    let multicast = cluster.sent.iter().filter(|(_, header)| header.multicast);
    assert_eq!(multicast.count(), 1, "the request, once");
}

#[test]
fn many_replies_come_until_the_caller_gives_up() {
    for len in [2, 2000] {
        let mut cluster = group(6, 5);
        let octets = vec![b'y'; len];
        let call = cluster.call_noted(0, GROUP, &octets, &many(false));
        cluster.run(Duration::from_secs(3));
        let mut replies = cluster.replies_to(0, call);
        replies.sort();
        let wanted: Vec<String> = (1..6)
            .map(|at| format!("{at}{}", "y".repeat(len)))
            .collect();
        assert_eq!(replies, wanted, "{len} octets");
        assert!(cluster.hosts[0].ends.is_empty(), "the call goes on");
        let now = cluster.now;
        cluster.hosts[0].engine.abandon(now, call);
        cluster.run(LONG);
        assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::Abandoned)]);
        for host in &cluster.hosts[1..] {
            assert_eq!(host.requests.len(), 1);
        }
        cluster.assert_settled();
    }
}

#[test]
fn each_lost_packet_of_a_group_call_is_made_good() {
    for lost in 0..30 {
        let mut cluster = group(4, 3);
        let mut number = 0;
        cluster.loses = Some(Box::new(move |from, _, _| {
            // What comes from members; the request is lost for one of them by the first numbers.
            number += u64::from(from > 0 || number < 3);
            number == lost + 1 && lost >= 3
        }));
        let call = cluster.call_noted(0, GROUP, &[b'z'; 1500], &many(false));
        cluster.run(Duration::from_secs(20));
        assert_eq!(
            cluster.replies_to(0, call).len(),
            3,
            "packet {lost} was lost"
        );
        let now = cluster.now;
        cluster.hosts[0].engine.abandon(now, call);
        cluster.run(LONG);
        cluster.assert_settled();
    }
}

#[test]
fn delayed_replies_do_not_come_together() {
    let mut cluster = group(6, 5);
    cluster.call_noted(0, GROUP, b"q", &many(true));
    let mut times = Vec::new();
    let until = cluster.now + Duration::from_millis(200);
    while cluster.step(until) {
        times.resize(cluster.hosts[0].replies.len(), cluster.now);
    }
    assert_eq!(times.len(), 5);
    times.dedup();
    assert!(times.len() >= 4, "they came at {times:?}");
}

#[test]
fn group_that_nobody_is_in_does_not_answer() {
    let mut cluster = group(3, 0);
    let note = wishing(CallNote {
        tries: 3,
        spacing_us: 100_000,
        ..CallNote::default()
    });
    let call = cluster.call_noted(0, GROUP, b"anybody", &note);
    cluster.run(Duration::from_millis(301));
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::TimedOut)]);
}

#[test]
fn membership_is_of_own_entities_and_ends() {
    let mut cluster = group(2, 1);
    let engine = &mut cluster.hosts[1].engine;
    assert!(
        engine.set_member(GROUP, EntityId(77), true).is_err(),
        "not its own"
    );
    assert!(
        engine.set_member(EntityId(77), entity(1), true).is_err(),
        "no group"
    );
    assert!(engine.set_member(GROUP, entity(1), false).is_ok());
    let note = wishing(CallNote {
        tries: 1,
        spacing_us: 1000,
        ..CallNote::default()
    });
    let call = cluster.call_noted(0, GROUP, b"x", &note);
    cluster.run(LONG);
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::TimedOut)]);
}

#[test]
fn probe_of_all_hosts_finds_the_one_that_has_the_entity_or_nobody() {
    let mut cluster = Cluster::new(4, &VmtpConfig::default());
    let managers = EntityId(MANAGER_GROUP.0.wrapping_sub(0x0000_0001_f000_0000));
    cluster.hosts[0].engine.locate(managers, ALL);
    let probe = |entity: EntityId| Note {
        tag: Some(0x101),
        call: CallNote {
            flags: CallFlags::PUBLIC_CODE,
            tries: 3,
            spacing_us: 50_000,
            co_resident: Some(entity),
            ..CallNote::default()
        },
        ..Note::default()
    };
    let octets = (0x0000_0001_f000_0000 + entity(2).0).to_be_bytes();
    let call = cluster.call_noted(0, managers, &octets, &probe(entity(2)));
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.replies_to(0, call).len(), 1);
    assert_eq!(cluster.sent.len(), 2, "one question, one answer");
    let nobody = (0x0000_0001_f000_0000u64 + 500).to_be_bytes();
    let call = cluster.call_noted(0, managers, &nobody, &probe(EntityId(500)));
    cluster.run(Duration::from_secs(1));
    assert!(
        cluster.hosts[0]
            .ends
            .contains(&(call, TransactionEnd::TimedOut))
    );
    assert_eq!(cluster.sent.len(), 5, "three more questions");
}

/// Two stations; the second has three members of the group.
fn three_at_one_endpoint() -> Cluster {
    let mut cluster = group(2, 1);
    for member in [EntityId(700), EntityId(701)] {
        let engine = &mut cluster.hosts[1].engine;
        engine.create_entity(member).expect("room");
        engine.set_member(GROUP, member, true).expect("room");
    }
    cluster
}

#[test]
fn each_member_at_an_endpoint_gets_a_copy_and_answers_once() {
    for len in [2, 2000, 16_384] {
        let mut cluster = three_at_one_endpoint();
        let octets = vec![b'y'; len];
        for calls in 1..=3 {
            let call = cluster.call_noted(0, GROUP, &octets, &many(false));
            cluster.run(Duration::from_secs(3));
            let wanted = format!("1{}", "y".repeat(len));
            assert_eq!(cluster.replies_to(0, call), vec![wanted; 3], "{len} octets");
            let replies = cluster.hosts[0].replies.iter();
            let replies = replies.filter(|reply| reply.0 == call);
            let from: BTreeSet<EntityId> = replies.map(|reply| reply.1).collect();
            let base = 0x0000_0001_f000_0000;
            let members = [entity(1), EntityId(700), EntityId(701)];
            let identifiers = members.map(|member| EntityId(member.0 + base));
            assert!(
                from == members.into() || from == identifiers.into(),
                "{from:?}"
            );
            let (now, caller) = (cluster.now, &mut cluster.hosts[0].engine);
            caller.abandon(now, call);
            cluster.run(Duration::from_millis(1));
            assert_eq!(cluster.hosts[1].requests.len(), 3 * calls);
            assert!(
                cluster.hosts[1]
                    .requests
                    .iter()
                    .all(|request| request.1 == octets)
            );
        }
        cluster.run(LONG);
        cluster.assert_settled();
        assert_eq!(cluster.hosts[1].engine.records(), 0);
    }
}

#[test]
fn replies_of_members_at_an_endpoint_are_repaired_one_by_one() {
    for seed in 0..20u64 {
        let mut cluster = three_at_one_endpoint();
        let mut number = seed;
        cluster.loses = Some(Box::new(move |_, _, _| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            number >> 60 < 3
        }));
        let octets = vec![b'z'; 5000];
        let call = cluster.call_noted(0, GROUP, &octets, &many(false));
        cluster.run(Duration::from_secs(8));
        let served = cluster.hosts[1].requests.len();
        assert_eq!(served, 3, "seed {seed}");
        let replies = cluster.replies_to(0, call);
        // Once it has one reply the caller asks for no other whose every packet was lost.
        assert!((1..=3).contains(&replies.len()), "seed {seed}");
        let wanted = format!("1{}", "z".repeat(5000));
        assert!(replies.iter().all(|reply| *reply == wanted), "seed {seed}");
        let (now, caller) = (cluster.now, &mut cluster.hosts[0].engine);
        caller.abandon(now, call);
        cluster.run(LONG);
        cluster.assert_settled();
    }
}

#[test]
fn member_that_left_gets_no_copy_and_members_are_bounded() {
    let mut cluster = three_at_one_endpoint();
    let engine = &mut cluster.hosts[1].engine;
    let left = engine.set_member(GROUP, EntityId(700), false);
    left.expect("it was a member");
    let now = cluster.now;
    let engine = &mut cluster.hosts[1].engine;
    engine.remove_entity(now, EntityId(701));
    let call = cluster.call_noted(0, GROUP, b"x", &many(false));
    cluster.run(Duration::from_secs(3));
    assert_eq!(cluster.replies_to(0, call), ["1x"]);
    let engine = &mut cluster.hosts[1].engine;
    for member in 1000..1063 {
        engine.create_entity(EntityId(member)).expect("room");
        let joined = engine.set_member(GROUP, EntityId(member), true);
        joined.expect("64 fit");
    }
    engine.create_entity(EntityId(1063)).expect("room");
    let refused = engine.set_member(GROUP, EntityId(1063), true);
    assert_eq!(refused, Err(CommandError::TooManyAssociations));
}
