//! What a message may ask for: conditional and partial delivery, no repair, checks of headers alone,
//! priorities, copies of datagrams, tries; and the timers and gaps that serve it.

use crate::cluster::{Cluster, GROUP, User, entity, wishing};
use crate::network::settled_pair;
use engine::test_kit::ReplyPolicy;
use engine::{
    CallFlags, CallNote, EntityId, Note, Reliability, TransactionEnd, TransactionEvent,
    Transactions,
};
use engine_vmtp::VmtpConfig;
use engine_vmtp::pdu::{Control, Flags, NotifyClient, NotifyServer, ResponseCode, VmtpHeader};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);

fn flags(flags: CallFlags) -> CallNote {
    CallNote {
        flags,
        ..CallNote::default()
    }
}

fn two() -> Cluster {
    let config = VmtpConfig {
        packet_len: 580,
        ..VmtpConfig::default()
    };
    Cluster::new(2, &config)
}

/// The server knows the client's address.
fn acquainted() -> Cluster {
    let mut cluster = two();
    cluster.call(0, entity(1), &[1; 100]);
    cluster.run(LONG);
    cluster.hosts[0].replies.clear();
    cluster.hosts[0].ends.clear();
    cluster.hosts[1].requests.clear();
    cluster.sent.clear();
    cluster
}

fn loses_block(from: usize, block: u32) -> crate::cluster::Loses {
    Box::new(move |sender, _, header| sender == from && header.delivery.0 == 1 << block)
}

#[test]
fn conditional_request_that_finds_nobody_waiting_is_refused_as_such() {
    let mut cluster = two();
    cluster.hosts[1].user = User::Refuse;
    let note = wishing(flags(CallFlags::CONDITIONAL));
    let call = cluster.call_noted(0, entity(1), b"now?", &note);
    cluster.run(LONG);
    let code = TransactionEnd::Code(ResponseCode::NOT_AWAITING_MSG.0);
    assert_eq!(cluster.hosts[0].ends, [(call, code)]);
    let asked = cluster.hosts[1].requests[0].2.call.flags;
    assert!(asked.has(CallFlags::CONDITIONAL), "its user is told");
    cluster.assert_settled();
}

#[test]
fn conditional_response_to_a_caller_that_gave_up_is_discarded() {
    let mut cluster = acquainted();
    cluster.hosts[1].user = User::Silent;
    let call = cluster.call(0, entity(1), b"x");
    cluster.run(Duration::from_millis(5));
    let now = cluster.now;
    cluster.hosts[0].engine.abandon(now, call);
    // The server answers now.
    cluster.hosts[1].reply_note = wishing(flags(CallFlags::CONDITIONAL));
    let transaction = find_processing(&cluster);
    cluster.reply(1, transaction, vec![1; 600]);
    cluster.run(LONG);
    let codes: Vec<ResponseCode> = notifications_of_server(&cluster);
    assert!(
        codes.contains(&ResponseCode::RESPONSE_DISCARDED),
        "{codes:?}"
    );
    assert!(cluster.hosts[0].replies.is_empty());
    cluster.assert_settled();
}

/// The number of the one transaction of station 1.
fn find_processing(cluster: &Cluster) -> engine::TransactionId {
    let ids = cluster.hosts[1].engine.transaction_ids();
    assert_eq!(ids.len(), 1);
    ids[0]
}

fn notifications_of_server(cluster: &Cluster) -> Vec<ResponseCode> {
    let sent = cluster.sent.iter();
    let parsed = sent.filter_map(|(_, header)| NotifyServer::parse(header));
    parsed.map(|notification| notification.code).collect()
}

#[test]
fn request_without_repair_is_not_asked_for_and_comes_again_whole() {
    let mut cluster = two();
    let mut lost = false;
    cluster.loses = Some(Box::new(move |from, _, header| {
        from == 0 && header.delivery.0 == 2 && !std::mem::replace(&mut lost, true)
    }));
    let note = wishing(flags(CallFlags::NO_REPAIR));
    let call = cluster.call_noted(0, entity(1), &[b'a'; 2000], &note);
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["a".repeat(2000)]);
    let asked = cluster.sent.iter().filter(|(_, header)| {
        NotifyClient::parse(header).is_some_and(|said| said.code == ResponseCode::RETRY)
    });
    assert_eq!(asked.count(), 0);
    let data = cluster
        .sent
        .iter()
        .filter(|(from, header)| *from == 0 && header.data_words > 0);
    assert_eq!(data.count(), 8, "all four blocks twice");
}

#[test]
fn part_of_a_request_is_delivered_if_it_may_be() {
    let mut cluster = two();
    cluster.loses = Some(loses_block(0, 1));
    let note = wishing(flags(CallFlags::NO_REPAIR.with(CallFlags::PARTIAL)));
    let octets: Vec<u8> = (0..1600).map(|at| b'a' + (at / 512) as u8).collect();
    cluster.call_noted(0, entity(1), &octets, &note);
    cluster.run(Duration::from_millis(100));
    let (_, got, note) = cluster.hosts[1].requests[0].clone();
    assert_eq!(note.call.delivered, Some(0b1101));
    assert_eq!(got.len(), 1600);
    assert_eq!((got[0], got[512], got[1024]), (b'a', 0, b'c'));
    assert_eq!(got[1599], b'd');
}

#[test]
fn part_of_a_response_is_delivered_if_it_may_be() {
    let mut cluster = acquainted();
    cluster.loses = Some(loses_block(1, 0));
    cluster.hosts[1].reply_note = wishing(flags(CallFlags::NO_REPAIR.with(CallFlags::PARTIAL)));
    let call = cluster.call(0, entity(1), &[b'b'; 1024]);
    cluster.run(LONG);
    let (of, _, octets, note) = &cluster.hosts[0].replies[0];
    assert_eq!((*of, note.call.delivered), (call, Some(0b10)));
    assert_eq!((octets[0], octets[512]), (0, b'b'));
    cluster.assert_settled();
}

#[test]
fn whole_message_that_may_be_delivered_in_part_says_that_it_is_whole() {
    let mut cluster = acquainted();
    let note = wishing(flags(CallFlags::PARTIAL));
    cluster.hosts[1].reply_note = note;
    let call = cluster.call_noted(0, entity(1), &[b'c'; 1500], &note);
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["c".repeat(1500)]);
    assert_eq!(cluster.hosts[0].replies[0].3.call.delivered, None);
    let with_data = cluster
        .sent
        .iter()
        .find(|(_, header)| header.data_words > 0);
    let header = with_data.expect("a packet with data").1;
    assert!(header.flags.has(Flags::PARTIAL) && header.message_delivery == 0b111);
}

#[test]
fn check_of_the_header_alone_lets_damaged_data_pass() {
    let mut cluster = acquainted();
    let note = wishing(flags(CallFlags::HEADER_CHECK));
    let call = cluster.call_noted(0, entity(1), &[b'd'; 600], &note);
    cluster.run(LONG);
    assert_eq!(cluster.replies_to(0, call), ["d".repeat(600)]);
    let of_client = cluster.sent.iter().filter(|(from, _)| *from == 0);
    let is_marked = |header: &VmtpHeader| header.checks_header_only || header.delivery.is_empty();
    assert!(of_client.clone().all(|(_, header)| is_marked(header)));
    assert!(
        of_client
            .clone()
            .any(|(_, header)| header.checks_header_only)
    );
}

#[test]
fn more_urgent_calls_leave_first() {
    let mut cluster = two();
    for priority in [4, 0, 8, 12] {
        let note = wishing(CallNote {
            priority,
            ..CallNote::default()
        });
        cluster.call_noted(0, entity(1), &[priority], &note);
    }
    cluster.run(Duration::from_millis(1));
    let requests = cluster.sent.iter().filter(|(from, _)| *from == 0);
    let order: Vec<u8> = requests
        .map(|(_, header)| header.control.priority())
        .collect();
    assert_eq!(order, [12, 8, 0, 4]);
}

#[test]
fn datagram_is_sent_as_often_as_asked_and_delivered_once() {
    for (copies, tries) in [(4, 0), (1, 4)] {
        let config = VmtpConfig {
            datagram_copies: copies,
            ..VmtpConfig::default()
        };
        let mut cluster = Cluster::new(2, &config);
        let mut number = 0;
        cluster.loses = Some(Box::new(move |_, _, _| {
            number += 1;
            number <= 2
        }));
        let note = Note {
            reliability: Reliability::Retransmissions(0),
            call: CallNote {
                tries,
                ..CallNote::default()
            },
            ..Note::default()
        };
        let call = cluster.call_noted(0, entity(1), b"one way", &note);
        cluster.run(LONG);
        assert_eq!(cluster.sent.len(), 4);
        assert_eq!(cluster.hosts[1].requests.len(), 1);
        assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::Complete)]);
        cluster.assert_settled();
    }
}

#[test]
fn call_with_tries_of_its_own_is_repeated_evenly_and_no_oftener() {
    let mut cluster = two();
    cluster.loses = Some(Box::new(|_, _, _| true));
    let note = wishing(CallNote {
        tries: 5,
        spacing_us: 200_000,
        ..CallNote::default()
    });
    let call = cluster.call_noted(0, entity(1), b"?", &note);
    cluster.run(Duration::from_millis(999));
    assert_eq!(cluster.sent.len(), 5);
    assert!(cluster.hosts[0].ends.is_empty());
    cluster.run(Duration::from_millis(2));
    assert_eq!(cluster.hosts[0].ends, [(call, TransactionEnd::TimedOut)]);
}

#[test]
fn request_whose_client_is_gone_is_not_worked_on_for_ever() {
    let mut pair = settled_pair(1);
    pair.answer = ReplyPolicy::Never;
    pair.call(vec![1; 20]);
    while pair.requests() == 0 {
        pair.step();
    }
    // The client is heard of no more.
    pair.drops = Some(Box::new(|_| true));
    for _ in 0..200 {
        pair.step();
    }
    let is_end = |event: &TransactionEvent| {
        matches!(event, TransactionEvent::Ended(_, TransactionEnd::TimedOut))
    };
    assert!(pair.ends[1].events.iter().any(is_end), "TS2");
}

#[test]
fn client_that_lost_several_blocks_asks_for_a_gap_and_gets_it() {
    let mut cluster = acquainted();
    let mut lost = 0;
    cluster.loses = Some(Box::new(move |from, _, header| {
        let is_lost = from == 1 && header.data_words > 0 && lost < 4;
        lost += u32::from(is_lost);
        is_lost
    }));
    cluster.call(0, entity(1), &[1; 16_384]);
    cluster.run(LONG);
    cluster.sent.clear();
    cluster.loses = None;
    cluster.call(0, entity(1), &[1; 20]);
    cluster.run(LONG);
    let asked = cluster.sent[0].1.control.gap_or_group_count();
    assert!(asked >= 1, "InterpacketGap is {asked}");
}

#[test]
fn manager_answers_every_procedure_of_the_rfc() {
    let mut cluster = two();
    let ask = |cluster: &mut Cluster, code: u64, octets: &[u8]| {
        let note = Note {
            tag: Some(code),
            call: flags(CallFlags::TO_MANAGER.with(CallFlags::PUBLIC_CODE)),
            ..Note::default()
        };
        let call = cluster.call_noted(0, entity(1), octets, &note);
        cluster.run(Duration::from_secs(2));
        let host = &cluster.hosts[0];
        let reply = host.replies.iter().find(|reply| reply.0 == call);
        let end = host.ends.iter().find(|end| end.0 == call).map(|end| end.1);
        (reply.map(|reply| reply.2.clone()), end)
    };
    let refused = Some(TransactionEnd::Refused);
    let code = |code: ResponseCode| Some(TransactionEnd::Code(code.0));
    let own = 0x0000_0001_f000_000bu64.to_be_bytes();
    let (node, _) = ask(&mut cluster, 0x104, &[]);
    let node = node.expect("an answer");
    assert_eq!(node[..4], 580u32.to_be_bytes());
    assert!(ask(&mut cluster, 0x101, &own).0.is_some(), "a probe");
    assert_eq!(ask(&mut cluster, 0x101, &[9; 8]).1, refused);
    assert!(
        ask(&mut cluster, 0x103, &[]).0.is_some(),
        "its block is in use"
    );
    assert!(ask(&mut cluster, 0x108, &[]).0.is_some());
    assert_eq!(
        ask(&mut cluster, 0x105, &own).1,
        refused,
        "it has not moved"
    );
    for change in [0x106, 0x107, 0x109, 0x10a, 0x10b, 0x10c, 0x10e] {
        assert_eq!(ask(&mut cluster, change, &[]).1, refused, "{change:#x}");
    }
    let security = code(ResponseCode::SECURITY_NOT_SUPPORTED);
    assert_eq!(ask(&mut cluster, 0x102, &[]).1, security);
    assert_eq!(ask(&mut cluster, 0x10d, &[]).1, refused, "no group");
    assert_eq!(
        ask(&mut cluster, 0x200, &[]).1,
        code(ResponseCode::VMTP_ERROR)
    );
    cluster.assert_settled();
    let _ = Control::default();
}

#[test]
fn manager_lists_domains_groups_and_members_as_far_as_a_packet_holds_them() {
    let mut cluster = acquainted();
    let engine = &mut cluster.hosts[1].engine;
    for member in [40, 41].map(EntityId) {
        engine.create_entity(member).expect("room");
        engine.set_member(GROUP, member, true).expect("room");
    }
    let ask = |cluster: &mut Cluster, code: u64, about: EntityId| {
        let note = Note {
            tag: Some(code),
            call: CallNote {
                co_resident: Some(about),
                ..flags(CallFlags::TO_MANAGER.with(CallFlags::PUBLIC_CODE))
            },
            ..Note::default()
        };
        let call = cluster.call_noted(0, entity(1), &[], &note);
        cluster.run(Duration::from_secs(2));
        let mut replies = cluster.hosts[0].replies.iter();
        let reply = replies.find(|reply| reply.0 == call);
        reply.expect("an answer").2.clone()
    };
    let identifier = |entity: EntityId| (entity.0 + 0x0000_0001_f000_0000).to_be_bytes();
    let word = |number: u32| number.to_be_bytes();
    let members = ask(&mut cluster, 0x10d, GROUP);
    assert_eq!(members[..4], word(2));
    let listed = [40, 41].map(EntityId).map(identifier);
    assert_eq!(members[20..], listed.concat());
    let node = ask(&mut cluster, 0x104, entity(1));
    assert_eq!(node[12..20], [word(1), word(0)].concat(), "one domain");
    assert_eq!(node[20..], word(1), "which is 1");
    let described = ask(&mut cluster, 0x108, EntityId(41));
    assert_eq!(described[..8], identifier(EntityId(41)));
    assert_eq!(described[8..16], [word(0), word(1)].concat());
    assert_eq!(described[20..], identifier(GROUP));
    let none = ask(&mut cluster, 0x108, entity(1));
    assert_eq!(none.len(), 20, "it is in no group");
    let engine = &mut cluster.hosts[1].engine;
    for group in 100..200 {
        let group = EntityId(GROUP.0 + group);
        engine.set_member(group, entity(1), true).expect("room");
    }
    let many = ask(&mut cluster, 0x108, entity(1));
    assert_eq!(many[12..16], word(100));
    assert_eq!(many.len(), 20 + 512, "packets of 580 octets hold 64");
    cluster.assert_settled();
}

#[test]
fn manager_lists_nothing_to_an_address_that_may_be_forged() {
    let mut cluster = two();
    let note = Note {
        tag: Some(0x104),
        call: flags(CallFlags::TO_MANAGER.with(CallFlags::PUBLIC_CODE)),
        ..Note::default()
    };
    let call = cluster.call_noted(0, entity(1), &[], &note);
    cluster.run(Duration::from_secs(2));
    let replies = cluster.replies_to(0, call);
    assert_eq!(replies.len(), 1);
    assert_eq!(cluster.hosts[0].replies[0].2.len(), 20, "as much as came");
}
