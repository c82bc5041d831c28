//! Calls from one endpoint to another in virtual time.

use crate::network::{Pair, pair_of, settled_pair};
use engine::test_kit::{CLIENT, ReplyPolicy, SERVER};
use engine::{
    EntityId, Note, OutgoingMessage, Protocol, Reliability, SplitMix64, TransactionEnd,
    TransactionEvent, Transactions,
};
use engine_vmtp::VmtpConfig;
use std::collections::BTreeMap;
use std::time::Duration;

fn octets(random: &mut SplitMix64) -> Vec<u8> {
    let len = [0, 1, 12, 20, 21, 511, 1024, 16_384, 16_385, 70_000][random.below(10) as usize];
    (0..len).map(|_| random.next_u64() as u8).collect()
}

fn ends(pair: &Pair) -> Vec<TransactionEnd> {
    let events = pair.ends[0].events.iter();
    let ends = events.filter_map(|event| match event {
        TransactionEvent::Ended(_, how) => Some(*how),
        _ => None,
    });
    ends.collect()
}

/// Makes 20 calls and runs until nothing is left to do; packets of the whole run, and its time.
fn run(seed: u64, loss_percent: u64) -> (usize, u64) {
    let config = VmtpConfig {
        retries_max: 40,
        ..VmtpConfig::default()
    };
    let mut pair = pair_of(seed, &config);
    pair.loss_percent = loss_percent;
    pair.jitter = Duration::from_millis(3);
    let mut random = SplitMix64::new(!seed);
    let mut wanted = BTreeMap::new();
    for _ in 0..20 {
        wanted.extend([pair.call_to_reverse(octets(&mut random))]);
        if random.below(3) == 0 {
            pair.step();
        }
    }
    pair.finish();
    assert_eq!(pair.requests(), 20, "seed {seed}: each is executed once");
    for (call, reply) in wanted {
        assert!(pair.reply_to(call) == Some(reply), "seed {seed}: {call:?}");
    }
    let complete = |how: &TransactionEnd| *how == TransactionEnd::Complete;
    assert!(ends(&pair).iter().all(complete), "seed {seed}");
    for end in &pair.ends {
        assert!(end.stores.outgoing.is_empty(), "seed {seed}");
        assert!(end.stores.incoming.is_empty(), "seed {seed}");
        assert_eq!(end.engine.transactions(), 0, "seed {seed}");
        assert_eq!(end.engine.records(), 0, "seed {seed}");
    }
    (pair.sent.len(), pair.now.as_nanos())
}

#[test]
fn call_that_fits_headers_costs_two_packets_of_68_octets() {
    let mut pair = settled_pair(1);
    let call = pair.call(b"how do you do, twenty".split_at(20).0.to_vec());
    pair.finish();
    let wanted = b"ytnewt ,od uoy od woh".split_at(1).1.to_vec();
    assert_eq!(pair.reply_to(call), Some(wanted));
    let lengths: Vec<usize> = pair.sent.iter().map(|sent| sent.len).collect();
    assert_eq!(lengths, [68, 68]);
}

#[test]
fn calls_one_after_another_without_loss_cost_no_other_packets() {
    let mut pair = settled_pair(1);
    // A first Response with a segment to a new address needs a probe.
    let call = pair.call(vec![3; 21]);
    pair.finish_call(call);
    assert_eq!(pair.sent.len(), 4);
    for len in [20, 21, 512, 1025, 16_384, 16_384] {
        let before = pair.sent.len();
        let call = pair.call(vec![3; len]);
        pair.finish_call(call);
        let blocks = if len > 20 { len.div_ceil(512) } else { 0 };
        let packets = 2 * blocks.div_ceil(2).max(1);
        assert_eq!(pair.sent.len() - before, packets, "{len} octets");
    }
    // The last Response is acknowledged by nothing: its server asks once.
    let before = pair.sent.len();
    pair.finish();
    assert_eq!(pair.sent.len() - before, 2);
    assert!(pair.ends[1].stores.outgoing.is_empty());
}

#[test]
fn every_call_is_executed_once_under_loss_duplication_and_reordering() {
    for seed in 0..60 {
        run(seed, seed % 25);
    }
}

#[test]
fn same_seed_gives_same_run() {
    assert_eq!(run(7, 20), run(7, 20));
    assert_ne!(run(7, 20), run(8, 20));
}

#[test]
fn server_that_has_just_started_probes_each_client_before_it_serves_it() {
    let mut pair = pair_of(1, &VmtpConfig::default());
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    assert_eq!(pair.sent.len(), 4, "request, probe, its answer, response");
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    assert_eq!(pair.sent.len(), 6, "it has a record of the client now");
    assert_eq!(pair.requests(), 2);
}

#[test]
fn server_that_has_just_started_probes_a_thousand_clients_once_each() {
    let mut pair = pair_of(1, &VmtpConfig::default());
    for _ in 0..1000 {
        pair.call(vec![1; 20]);
    }
    pair.finish();
    assert_eq!(pair.requests(), 1000);
    assert_eq!(pair.sent.len(), 4000, "nobody was told that it is busy");
}

#[test]
fn repeated_request_of_a_client_that_is_further_is_not_executed_after_a_restart() {
    let mut pair = pair_of(1, &VmtpConfig::default());
    let call = pair.call(vec![1; 20]);
    pair.transmit(0);
    let old = packet_of(&pair, 0);
    pair.finish_call(call);
    let call = pair.call(vec![2; 20]);
    pair.finish_call(call);
    // The server forgets everything; the first request comes once more.
    let client = std::mem::replace(&mut pair, pair_of(1, &VmtpConfig::default()));
    pair.ends.swap(0, 1);
    let [_, restarted] = {
        let fresh = pair_of(2, &VmtpConfig::default());
        fresh.ends
    };
    let [ended, _] = client.ends;
    pair.ends = [ended, restarted];
    pair.now = client.now;
    pair.fly(1, old);
    pair.finish();
    assert_eq!(pair.requests(), 0, "the probe says that it is old");
}

/// The first packet that an end sent, without user data of its own.
fn packet_of(pair: &Pair, number: usize) -> Vec<u8> {
    engine_vmtp::pdu::packet::emit(&pair.sent[number].header, true).to_vec()
}

#[test]
fn silent_server_times_out_and_releases_the_request() {
    let mut pair = settled_pair(1);
    pair.loss_percent = 100;
    pair.call(vec![1; 1000]);
    pair.finish();
    assert_eq!(ends(&pair), [TransactionEnd::TimedOut]);
    assert!(pair.ends[0].stores.outgoing.is_empty());
    let bare = pair.sent.iter().skip(1);
    assert!(
        bare.clone().all(|sent| sent.len == 68),
        "retransmissions carry no data"
    );
    assert_eq!(bare.count(), 5);
}

#[test]
fn unanswered_call_is_given_up_two_seconds_after_its_last_retransmission() {
    let mut pair = settled_pair(1);
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    pair.loss_percent = 100;
    let began = pair.now;
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    let waited = pair.now.since(began);
    let limits = Duration::from_millis(2300)..Duration::from_millis(2600);
    assert!(limits.contains(&waited), "{waited:?}");
    assert_eq!(ends(&pair).last(), Some(&TransactionEnd::TimedOut));
}

#[test]
fn calls_whose_responses_come_late_for_all_are_not_asked_about() {
    let mut pair = settled_pair(1);
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    // A queue that takes longer than a server usually may.
    pair.delay = Duration::from_millis(300);
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    pair.finish();
    for _ in 0..10 {
        let before = pair.sent.len();
        let call = pair.call(vec![1; 20]);
        pair.finish_call(call);
        assert_eq!(pair.sent.len() - before, 2, "a Request and its Response");
    }
}

#[test]
fn slow_server_is_asked_less_and_less_often() {
    let mut pair = settled_pair(1);
    pair.answer = ReplyPolicy::Never;
    pair.call(vec![1; 20]);
    let limit = Duration::from_secs(60);
    while pair.step() && pair.now.since(engine::Instant::from_nanos(0)) < limit {}
    let asked = pair.sent.iter().filter(|sent| sent.from == 0).count();
    // 0.2 s, doubled up to 8 s: 6 in the first 12 s, then one in 8 s.
    assert!((8..=16).contains(&asked), "{asked} times in a minute");
    assert!(ends(&pair).is_empty(), "the caller waits on");
}

#[test]
fn call_to_unknown_entity_is_refused_and_wrong_calls_are_not_begun() {
    let mut pair = settled_pair(1);
    pair.ends[1].engine.remove_entity(pair.now, SERVER);
    pair.call(vec![1; 10]);
    pair.finish();
    assert_eq!(ends(&pair), [TransactionEnd::Refused]);
    let now = pair.now;
    let engine = &mut pair.ends[0].engine;
    let plain = Note::default();
    let mut begin = |from, to, len, note: &Note| {
        let request = (OutgoingMessage(99), len);
        engine.call(now, from, to, request, note).is_err()
    };
    assert!(begin(CLIENT, SERVER, 5 << 20, &plain), "too long");
    assert!(begin(CLIENT, EntityId(5), 1, &plain), "not located");
    assert!(begin(EntityId(5), SERVER, 1, &plain), "not created");
    let long_code = Note {
        tag: Some(1 << 24),
        ..plain
    };
    assert!(begin(CLIENT, SERVER, 1, &long_code), "codes have 24 bits");
    let once_in_stream = Note {
        stream: 1,
        reliability: Reliability::Retransmissions(0),
        ..plain
    };
    assert!(
        begin(CLIENT, SERVER, 1, &once_in_stream),
        "no datagrams in streams"
    );
}

#[test]
fn codes_travel_both_ways_as_tags() {
    let mut pair = settled_pair(1);
    let tag = |code| Note {
        tag: Some(code),
        ..Note::default()
    };
    pair.reply_note = tag(0x0080_0007);
    pair.call_noted(vec![1; 3], &tag(0x1234));
    pair.finish();
    let requested = pair.ends[1].events.iter().find_map(|event| match event {
        TransactionEvent::Requested { note, from, .. } => Some((note.tag, *from)),
        _ => None,
    });
    assert_eq!(requested, Some((Some(0x1234), CLIENT)));
    let replied = pair.ends[0].events.iter().find_map(|event| match event {
        TransactionEvent::Replied { note, from, .. } => Some((note.tag, *from)),
        _ => None,
    });
    assert_eq!(replied, Some((Some(0x0080_0007), SERVER)));
}

#[test]
fn code_of_a_refusal_ends_the_call_with_it() {
    let mut pair = settled_pair(1);
    pair.reply_note.tag = Some(21);
    pair.call(vec![1; 3]);
    pair.finish();
    assert_eq!(ends(&pair), [TransactionEnd::Code(21)]);
    assert!(pair.ends[0].stores.incoming.is_empty());
}

#[test]
fn datagram_is_one_burst_without_an_answer() {
    let once = Note {
        reliability: Reliability::Retransmissions(0),
        ..Note::default()
    };
    for (len, packets) in [(20, 1), (3000, 3)] {
        let mut pair = settled_pair(1);
        pair.call_noted(vec![1; len], &once);
        pair.finish();
        assert_eq!((pair.sent.len(), pair.requests()), (packets, 1));
        assert_eq!(ends(&pair), [TransactionEnd::Complete]);
        assert!(pair.ends[1].stores.outgoing.is_empty(), "no reply is kept");
    }
}

#[test]
fn idempotent_transaction_keeps_no_response_and_is_executed_again() {
    let mut pair = settled_pair(1);
    pair.reply_note.reliability = Reliability::Retransmissions(0);
    // The first Response is lost.
    let mut lost = false;
    pair.drops = Some(Box::new(move |sent| {
        sent.from == 1 && sent.header.control.is_response() && !std::mem::replace(&mut lost, true)
    }));
    let call = pair.call(vec![1, 2, 3]);
    pair.finish_call(call);
    assert_eq!(pair.reply_to(call), Some(vec![3, 2, 1]));
    assert_eq!(pair.requests(), 2);
    assert!(pair.ends[1].stores.outgoing.is_empty());
}

#[test]
fn request_that_the_user_refuses_ends_as_refused() {
    let mut pair = settled_pair(1);
    pair.answer = ReplyPolicy::Never;
    pair.call(vec![1; 600]);
    while pair.requests() == 0 {
        pair.step();
    }
    let transaction = pair.ends[1].events.iter().find_map(|event| match event {
        TransactionEvent::Requested { transaction, .. } => Some(*transaction),
        _ => None,
    });
    let now = pair.now;
    pair.ends[1]
        .engine
        .abandon(now, transaction.expect("a request"));
    pair.finish();
    assert_eq!(ends(&pair), [TransactionEnd::Refused]);
}

#[test]
fn entity_that_is_removed_amid_a_request_is_not_called() {
    let mut pair = settled_pair(5);
    pair.jitter = Duration::from_millis(3);
    pair.call(vec![1; 16_384]);
    while pair.ends[1].engine.counters().packets_parsed < 8 {
        pair.step();
    }
    let now = pair.now;
    pair.ends[1].engine.remove_entity(now, SERVER);
    pair.finish();
    assert_eq!(pair.requests(), 0);
    assert_eq!(ends(&pair), [TransactionEnd::Refused]);
}

#[test]
fn address_that_never_answered_a_probe_gets_no_more_than_it_sent() {
    let config = VmtpConfig {
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    let mut pair = pair_of(1, &config);
    pair.answer = ReplyPolicy::Octets(16_384);
    pair.call(vec![1; 20]);
    pair.transmit(0);
    let request = packet_of(&pair, 0);
    // The caller does not exist: nothing it is sent arrives.
    pair.sent.clear();
    pair.drops = Some(Box::new(|_| true));
    let mut received = request.len();
    for _ in 0..40 {
        pair.fly(1, request.clone());
        received += request.len();
        for _ in 0..20 {
            pair.step();
        }
        let sent = pair.sent.iter().filter(|sent| sent.from == 1);
        let octets: usize = sent.map(|sent| sent.len).sum();
        assert!(octets <= received, "{octets} for {received}");
    }
}

#[test]
fn large_response_to_a_new_address_comes_after_a_probe() {
    let mut pair = settled_pair(1);
    pair.answer = ReplyPolicy::Octets(16_384);
    let call = pair.call(vec![1; 20]);
    pair.finish_call(call);
    assert_eq!(pair.reply_to(call), Some(vec![7; 16_384]));
    // The request, a probe and its answer, and the Response.
    assert_eq!(pair.sent.len(), 3 + 16);
}

#[test]
fn full_table_of_records_forgets_the_oldest_that_is_over() {
    let config = VmtpConfig {
        records_max: 2,
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    let mut pair = pair_of(1, &config);
    let calls: Vec<_> = (0..8).map(|_| pair.call(vec![1; 20])).collect();
    pair.finish();
    for call in calls {
        assert!(pair.reply_to(call).is_some(), "{call:?}");
    }
}

#[test]
fn full_table_of_requests_in_service_answers_busy_and_serves_later() {
    let config = VmtpConfig {
        records_max: 1,
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    let mut pair = pair_of(1, &config);
    pair.answer = ReplyPolicy::Never;
    pair.call(vec![1; 20]);
    pair.call(vec![2; 20]);
    for _ in 0..6 {
        pair.step();
    }
    let busy = pair.sent.iter().filter(|sent| {
        let notification = engine_vmtp::pdu::NotifyClient::parse(&sent.header);
        notification.is_some_and(|said| said.code == engine_vmtp::pdu::ResponseCode::BUSY)
    });
    assert!(busy.count() > 0);
    assert_eq!(pair.requests(), 1);
}
