//! Calls that another server answers: forwarded, within a host, and to an entity that has moved.

use crate::cluster::{Cluster, User, entity, wishing};
use engine::{Address, CallNote, CommandError, EntityId, Note, TransactionEnd, Transactions};
use engine_vmtp::VmtpConfig;
use engine_vmtp::pdu::{Introduction, NotifyClient, ResponseCode};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);

/// Station 0 calls station 1, which forwards to station 2; that one does not know station 0.
fn chain() -> Cluster {
    let mut cluster = Cluster::strangers(3);
    cluster.locate(0, 1);
    cluster.locate(1, 2);
    cluster.hosts[1].user = User::Forward(entity(2), "via 1: ");
    cluster.hosts[2].user = User::Echo("from 2: ");
    cluster
}

fn numbers(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at % 26) as u8).collect()
}

#[test]
fn forwarded_request_is_answered_by_the_other_server() {
    for len in [0, 10, 600, 16_000, 40_000, 200_000] {
        let mut cluster = chain();
        let octets = numbers(len);
        let call = cluster.call(0, entity(1), &octets);
        cluster.run(LONG);
        let text = String::from_utf8_lossy(&octets);
        let wanted = format!("from 2: via 1: {text}");
        assert_eq!(cluster.replies_to(0, call), [wanted], "{len} octets");
        assert_eq!(cluster.hosts[0].replies[0].1, entity(2), "who answered");
        assert_eq!(cluster.hosts[2].requests.len(), 1);
        cluster.assert_settled();
    }
}

/// A chain that loses the packet of this number.
fn chain_that_loses(lost: usize) -> Cluster {
    let mut cluster = chain();
    let mut number = 0;
    cluster.loses = Some(Box::new(move |_, _, _| {
        number += 1;
        number == lost + 1
    }));
    cluster
}

#[test]
fn any_packet_of_a_forwarded_call_may_be_lost_once() {
    for lost in 0..24 {
        let mut cluster = chain_that_loses(lost);
        let call = cluster.call(0, entity(1), &numbers(2000));
        cluster.run(LONG);
        let replies = cluster.replies_to(0, call);
        assert_eq!(replies.len(), 1, "packet {lost} was lost");
        assert_eq!(cluster.hosts[1].requests.len(), 1, "packet {lost}");
        assert_eq!(cluster.hosts[2].requests.len(), 1, "packet {lost}");
        cluster.assert_settled();
    }
}

#[test]
fn any_packet_of_a_forwarded_call_of_several_groups_may_be_lost_once() {
    for lost in 0..120 {
        let mut cluster = chain_that_loses(lost);
        let octets = numbers(40_000);
        let call = cluster.call(0, entity(1), &octets);
        cluster.run(LONG);
        let text = String::from_utf8_lossy(&octets);
        let wanted = format!("from 2: via 1: {text}");
        assert_eq!(
            cluster.replies_to(0, call),
            [wanted],
            "packet {lost} was lost"
        );
        assert_eq!(cluster.hosts[2].requests.len(), 1, "packet {lost}");
        cluster.assert_settled();
    }
}

#[test]
fn request_that_the_other_server_refuses_ends_as_refused() {
    let mut cluster = chain();
    cluster.hosts[2].user = User::Refuse;
    let call = cluster.call(0, entity(1), b"please");
    cluster.run(LONG);
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::Refused)]);
    cluster.assert_settled();
}

#[test]
fn server_that_is_away_ends_a_forwarded_call_as_timed_out() {
    let mut cluster = chain();
    cluster.loses = Some(Box::new(|from, to, _| from == 2 || to == 2));
    let call = cluster.call(0, entity(1), b"anybody?");
    cluster.run(LONG);
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::TimedOut)]);
    cluster.assert_settled();
}

#[test]
fn client_that_never_answers_a_probe_gets_no_more_than_was_forwarded_for_it() {
    let mut cluster = chain();
    cluster.hosts[2].user = User::Echo("an answer that is longer than a header takes");
    // The client hears nothing from the server that it did not call.
    cluster.loses = Some(Box::new(|from, to, _| from == 2 && to == 0));
    cluster.call(0, entity(1), b"who am I?");
    cluster.run(LONG);
    let from_2 = cluster.sent.iter().filter(|(from, _)| *from == 2);
    let to_client = from_2.filter(|(_, header)| {
        let is_notification = NotifyClient::parse(header).is_some();
        !is_notification
    });
    let octets: usize = to_client.map(|(_, header)| 68 + header.data_len()).sum();
    let forwarded = cluster.sent.iter().filter(|(from, header)| {
        *from == 1 && header.control.forward_count() > 0 && !header.control.is_response()
    });
    let received: usize = forwarded.map(|(_, header)| 68 + header.data_len()).sum();
    assert!(octets <= received, "{octets} octets for {received}");
}

#[test]
fn request_is_forwarded_within_a_host_without_a_packet() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let second = EntityId(99);
    cluster.hosts[1].engine.create_entity(second).expect("room");
    cluster.hosts[1].user = User::Forward(second, "on: ");
    let call = cluster.call(0, entity(1), b"x");
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["on: x"]);
    assert_eq!(cluster.hosts[0].replies[0].1, second, "who answered");
    assert_eq!(cluster.sent.len(), 2);
    cluster.assert_settled();
}

#[test]
fn call_between_entities_of_a_host_needs_no_packet() {
    let mut cluster = Cluster::new(1, &VmtpConfig::default());
    let server = EntityId(99);
    cluster.hosts[0].engine.create_entity(server).expect("room");
    cluster.hosts[0].user = User::Echo("here: ");
    let octets = numbers(100_000);
    let call = cluster.call(0, server, &octets);
    cluster.run(LONG);
    let wanted = format!("here: {}", String::from_utf8_lossy(&octets));
    assert_eq!(cluster.replies_to(0, call), [wanted]);
    assert!(cluster.sent.is_empty());
    assert_eq!(
        cluster.hosts[0].ends.len(),
        2,
        "of the server and of the caller"
    );
    cluster.assert_settled();
}

#[test]
fn call_within_a_host_is_refused_abandoned_and_forwarded() {
    let server = EntityId(99);
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    cluster.hosts[0].engine.create_entity(server).expect("room");
    cluster.hosts[0].user = User::Refuse;
    let call = cluster.call(0, server, b"1");
    cluster.run(LONG);
    assert!(
        cluster.hosts[0]
            .ends
            .contains(&(call, TransactionEnd::Refused))
    );
    cluster.hosts[0].user = User::Silent;
    let call = cluster.call(0, server, b"2");
    cluster.run(LONG);
    let now = cluster.now;
    cluster.hosts[0].engine.abandon(now, call);
    cluster.run(LONG);
    assert!(
        cluster.hosts[0]
            .ends
            .contains(&(call, TransactionEnd::Abandoned))
    );
    cluster.hosts[0].user = User::Forward(entity(1), "on: ");
    cluster.hosts[1].user = User::Echo("far: ");
    let call = cluster.call(0, server, b"3");
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["far: on: 3"]);
    cluster.assert_settled();
}

#[test]
fn caller_follows_an_entity_that_has_moved() {
    let mut cluster = Cluster::new(3, &VmtpConfig::default());
    // The entity of station 1 is now at station 2.
    let moved = entity(1);
    cluster.hosts[1].engine.migrate(moved, Address::Station(2));
    cluster.hosts[2].engine.create_entity(moved).expect("room");
    cluster.hosts[2].user = User::Echo("moved: ");
    for len in [5, 3000] {
        let octets = numbers(len);
        let call = cluster.call(0, moved, &octets);
        cluster.run(LONG);
        let wanted = format!("moved: {}", String::from_utf8_lossy(&octets));
        assert_eq!(cluster.replies_to(0, call), [wanted]);
    }
    let introductions = cluster.sent.iter();
    let introductions = introductions.filter(|(_, header)| Introduction::parse(header).is_some());
    assert_eq!(
        introductions.count(),
        1,
        "the second call goes there at once"
    );
    cluster.assert_settled();
}

#[test]
fn introduction_by_somebody_else_is_not_believed() {
    let mut cluster = Cluster::new(3, &VmtpConfig::default());
    cluster.hosts[2]
        .engine
        .migrate(entity(1), Address::Station(2));
    // Station 2 claims it when station 0 calls it there; station 0 was told another place.
    let call = cluster.call(0, entity(1), b"x");
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["x"]);
    assert_eq!(cluster.hosts[1].requests.len(), 1);
}

#[test]
fn call_of_a_co_resident_entity_is_served_only_beside_it() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    let near = |entity| {
        wishing(CallNote {
            co_resident: Some(entity),
            ..CallNote::default()
        })
    };
    let second = EntityId(99);
    cluster.hosts[1].engine.create_entity(second).expect("room");
    for len in [0, 12, 13, 20, 600] {
        let octets = numbers(len);
        let call = cluster.call_noted(0, entity(1), &octets, &near(second));
        cluster.run(LONG);
        let wanted = String::from_utf8_lossy(&octets).into_owned();
        assert_eq!(cluster.replies_to(0, call), [wanted], "{len} octets");
    }
    let (_, _, note) = &cluster.hosts[1].requests[0];
    let with = note.call.co_resident.map(|entity| entity.0 & 0xffff);
    assert_eq!(with, Some(99));
    let call = cluster.call_noted(0, entity(1), b"x", &near(EntityId(98)));
    cluster.run(LONG);
    assert!(
        cluster.hosts[0]
            .ends
            .contains(&(call, TransactionEnd::Refused))
    );
    cluster.assert_settled();
}

#[test]
fn wrong_forwards_are_refused_and_change_nothing() {
    let mut cluster = Cluster::new(2, &VmtpConfig::default());
    cluster.hosts[1].user = User::Silent;
    cluster.call(0, entity(1), &numbers(20_000));
    cluster.run(Duration::from_millis(500));
    let unknown = engine::TransactionId(12345);
    let now = cluster.now;
    let message = cluster.message(1, vec![1]);
    let engine = &mut cluster.hosts[1].engine;
    let refused = engine.forward(now, unknown, entity(0), message);
    assert_eq!(refused, Err(CommandError::UnknownAssociation));
    let _ = (ResponseCode::OK, Note::default());
}

#[test]
fn server_that_restarts_amid_a_forwarded_request_gets_all_of_it_again() {
    for lost_from in 1..40 {
        let mut cluster = chain();
        let octets = numbers(40_000);
        // The other server restarts once it has a part.
        let mut number = 0;
        cluster.loses = Some(Box::new(move |from, to, header| {
            let is_forwarded = (from, to) == (1, 2) && header.control.forward_count() > 0;
            number += u64::from(is_forwarded);
            is_forwarded && number > lost_from && !header.delivery.is_empty()
        }));
        let call = cluster.call(0, entity(1), &octets);
        cluster.run(Duration::from_millis(60));
        let config = VmtpConfig {
            packet_lifetime: Duration::ZERO,
            ..VmtpConfig::default()
        };
        cluster.restart(2, &config);
        cluster.hosts[2].user = User::Echo("again: ");
        cluster.loses = None;
        cluster.run(LONG);
        let wanted = format!("again: via 1: {}", String::from_utf8_lossy(&octets));
        let replies = cluster.replies_to(0, call);
        assert!(replies == [wanted], "{lost_from} packets came before");
        assert_eq!(cluster.hosts[2].requests.len(), 1);
        cluster.assert_settled();
    }
}
