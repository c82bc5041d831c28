//! Calls from one endpoint to another in virtual time.

use engine::test_kit::{CLIENT, SERVER, TransactionPair};
use engine::{
    Batch, EntityId, Note, OutgoingMessage, Protocol, SplitMix64, TransactionEnd, TransactionEvent,
    Transactions,
};
use engine_call::pdu::Header;
use engine_call::{Call, CallConfig};
use std::collections::BTreeMap;
use std::time::Duration;

type Pair = TransactionPair<Call, Header>;

fn pair_of(seed: u64, loss_percent: u64) -> Pair {
    let parse = |octets: &[u8]| Header::parse(octets).expect("its own packets are right");
    let make = |_| {
        Call::new(CallConfig {
            packet_len: 300,
            seed,
            ..CallConfig::default()
        })
    };
    let mut pair = Pair::new(seed, parse, make);
    pair.loss_percent = loss_percent;
    pair.jitter = Duration::from_millis(3);
    pair
}

fn octets(random: &mut SplitMix64) -> Vec<u8> {
    let len = [0, 1, 259, 260, 261, 5000][random.below(6) as usize];
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// Makes 20 calls and runs until nothing is left to do; packets of the whole run.
fn run(seed: u64, loss_percent: u64) -> (usize, u64) {
    let mut pair = pair_of(seed, loss_percent);
    let mut random = SplitMix64::new(!seed);
    let mut wanted = BTreeMap::new();
    for _ in 0..20 {
        wanted.extend([pair.call_to_reverse(octets(&mut random))]);
    }
    pair.finish();
    assert_eq!(pair.refused_replies, 0, "seed {seed}");
    assert_eq!(
        pair.requests(),
        20,
        "seed {seed}: executed at most once, and at least once"
    );
    let mut events = std::mem::take(&mut pair.ends[0].events);
    for event in events.drain(..) {
        match event {
            TransactionEvent::Replied {
                transaction,
                message,
                ..
            } => {
                let got = pair.ends[0].stores.take_incoming(message);
                assert_eq!(Some(got), wanted.remove(&transaction), "seed {seed}");
            }
            TransactionEvent::Ended(_, how) => assert_eq!(how, TransactionEnd::Complete),
            TransactionEvent::Released(_) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(wanted.is_empty(), "seed {seed}");
    for end in &pair.ends {
        assert!(end.stores.is_empty(), "seed {seed}");
        assert_eq!(end.engine.transactions(), 0, "seed {seed}");
    }
    (pair.sent.len(), pair.now.as_nanos())
}

#[test]
fn clean_path_needs_request_reply_and_ack_only() {
    let mut pair = pair_of(1, 0);
    pair.call(b"how do you do".to_vec());
    pair.finish();
    assert_eq!(pair.sent.len(), 3);
    assert_eq!(pair.requests(), 1);
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
fn silent_server_times_out_and_releases_the_request() {
    let mut pair = pair_of(1, 100);
    pair.call(vec![1; 1000]);
    pair.finish();
    let ended = |event: &TransactionEvent| {
        matches!(event, TransactionEvent::Ended(_, TransactionEnd::TimedOut))
    };
    assert!(pair.ends[0].events.iter().any(ended));
    assert!(pair.ends[0].stores.outgoing.is_empty());
}

#[test]
fn call_to_unknown_entity_is_refused_and_long_message_unsupported() {
    let mut pair = pair_of(1, 0);
    pair.ends[1].engine.remove_entity(pair.now, SERVER);
    pair.call(vec![1; 10]);
    pair.finish();
    let refused = |event: &TransactionEvent| {
        matches!(event, TransactionEvent::Ended(_, TransactionEnd::Refused))
    };
    assert!(pair.ends[0].events.iter().any(refused));
    let request = (OutgoingMessage(99), 1 << 30);
    let engine = &mut pair.ends[0].engine;
    assert!(
        engine
            .call(pair.now, CLIENT, SERVER, request, &Note::default())
            .is_err()
    );
    assert!(
        engine
            .call(
                pair.now,
                CLIENT,
                EntityId(5),
                (OutgoingMessage(98), 1),
                &Note::default()
            )
            .is_err()
    );
}

#[test]
fn timer_does_not_run_while_a_message_is_sent_again() {
    let mut pair = pair_of(1, 100);
    pair.call(vec![1; 5000]);
    pair.transmit(0);
    let engine = &mut pair.ends[0].engine;
    let again_at = engine.poll_timeout().expect("it waits for a reply");
    engine.handle_timeout(again_at);
    let mut batch = Batch::new(1);
    engine.poll_transmit(again_at, &mut batch);
    assert_eq!(batch.packets().len(), 1, "it is being sent again");
    // The host is slow: the rest does not leave for an hour.
    let late = again_at + core::time::Duration::from_secs(3600);
    assert_eq!(engine.poll_timeout(), None);
    engine.handle_timeout(late);
    pair.now = late;
    pair.transmit(0);
    let next = pair.ends[0].engine.poll_timeout();
    assert_eq!(next, Some(late + core::time::Duration::from_millis(400)));
}
