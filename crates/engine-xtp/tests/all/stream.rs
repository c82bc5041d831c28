//! Streams over a link without faults: which packets are sent.

use crate::pair::{MS, Outcome, TraceLine, both, clean, joined, messages, packet_log, run};
use crate::user::Plan;
use engine::{CloseReason, SplitMix64};
use engine_xtp::Config;
use engine_xtp::pdu::{Format, HEADER_LEN, Header, Options, RTN};

fn plan(sends: Vec<Vec<u8>>) -> Plan {
    Plan {
        sends,
        answers: false,
        ..Plan::default()
    }
}

fn headers(outcome: &Outcome, from: usize) -> Vec<Header> {
    let sent = outcome.trace.iter().filter(|line| line.from == from);
    sent.map(|line| Header::parse(&line.packet).expect("an engine sends good packets"))
        .collect()
}

fn count(outcome: &Outcome, from: usize, format: Format) -> usize {
    headers(outcome, from)
        .iter()
        .filter(|header| header.format == format)
        .count()
}

#[test]
fn clean_link_delivers_once_without_retransmission() {
    for explicit in [true, false] {
        let sent = messages(&mut SplitMix64::new(11), 2000);
        let config = Config {
            explicit,
            ..Config::default()
        };
        let plans = [plan(sent.clone()), plan(Vec::new())];
        let outcome = run(both(&config, 1), plans, clean(), 11);
        assert!(
            joined(&outcome.received[1]) == joined(&sent),
            "bytes differ"
        );
        assert_eq!(
            outcome.counters.map(|counters| counters.retransmissions),
            [0, 0]
        );
        assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
        assert_eq!(outcome.holdings, [engine_xtp::Holdings::default(); 2]);
        let bytes = joined(&sent).len() as u64;
        assert_eq!(outcome.counters[0].bytes_sent, bytes);
        let control = count(&outcome, 1, Format::Cntl) + count(&outcome, 1, Format::Tcntl);
        let due = bytes / (64 << 10) + 8;
        assert!(
            control as u64 <= due,
            "{control} control packets for {bytes} bytes"
        );
    }
}

#[test]
fn bidirectional_data_and_simultaneous_close() {
    let sent = [21, 22].map(|seed| messages(&mut SplitMix64::new(seed), 500));
    let plans = sent.clone().map(plan);
    let outcome = run(both(&Config::default(), 3), plans, clean(), 5);
    assert!(joined(&outcome.received[1]) == joined(&sent[0]));
    assert!(joined(&outcome.received[0]) == joined(&sent[1]));
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
    assert_eq!(
        outcome.counters.map(|counters| counters.retransmissions),
        [0, 0]
    );
    assert_eq!(outcome.holdings, [engine_xtp::Holdings::default(); 2]);
}

#[test]
fn implicit_open_carries_data_without_extra_rtt() {
    let config = Config {
        explicit: false,
        ..Config::default()
    };
    let plans = [plan(vec![b"hello".to_vec()]), plan(Vec::new())];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    let first = &outcome.trace[0];
    assert_eq!((first.from, first.at_ps), (0, 0));
    let header = Header::parse(&first.packet).expect("a good packet");
    assert_eq!(header.format, Format::First);
    assert_eq!(&first.packet[first.packet.len() - 5..], b"hello");
    assert_eq!(joined(&outcome.received[1]), b"hello");
}

#[test]
fn implicit_open_without_data_leaves_after_the_coalescing_delay() {
    let config = Config {
        explicit: false,
        ..Config::default()
    };
    let answers = Plan {
        answers: true,
        ..plan(Vec::new())
    };
    // The peer's user sends first, once it knows of the association.
    let plans = [answers, plan(vec![b"welcome".to_vec()])];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    let first = &outcome.trace[0];
    let at_ps = config.coalesce_delay.as_nanos() as u64 * 1000;
    assert_eq!((first.from, first.at_ps), (0, at_ps));
    let header = Header::parse(&first.packet).expect("a good packet");
    assert_eq!(header.format, Format::First);
    assert_eq!(joined(&outcome.received[0]), b"welcome");
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
}

#[test]
fn exchanged_keys_are_used() {
    let sent = messages(&mut SplitMix64::new(7), 300);
    let plans = [plan(sent), plan(Vec::new())];
    let outcome = run(both(&Config::default(), 1), plans, clean(), 1);
    assert!(count(&outcome, 1, Format::Tcntl) > 0, "no key was offered");
    let data = headers(&outcome, 0)
        .into_iter()
        .filter(|header| header.format == Format::Data);
    assert!(data.clone().count() > 100);
    assert!(
        data.clone().all(|header| header.key & RTN != 0),
        "the key offered was not used"
    );
    assert!(
        headers(&outcome, 1)
            .iter()
            .all(|header| header.key & RTN != 0)
    );
}

#[test]
fn full_packets_aligned_to_slots() {
    let config = Config {
        explicit: false,
        ..Config::default()
    };
    let plans = [plan(vec![vec![7; 60_000]]), plan(Vec::new())];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    let payload = 1440;
    for line in outcome.trace.iter().filter(|line| line.from == 0) {
        let header = Header::parse(&line.packet).expect("a good packet");
        if header.format == Format::Data {
            let len = (line.packet.len() - HEADER_LEN) as u64;
            assert!(header.seq / payload == (header.seq + len - 1) / payload);
            assert!(len < payload || header.seq.is_multiple_of(payload));
        }
    }
    assert_eq!(joined(&outcome.received[1]).len(), 60_000);
}

#[test]
fn half_closed_side_keeps_sending() {
    let config = Config::default();
    let answer = messages(&mut SplitMix64::new(8), 200);
    let plans = [
        plan(vec![b"question".to_vec()]),
        Plan {
            sends: answer.clone(),
            answers: true,
            ..Plan::default()
        },
    ];
    let outcome = run(both(&config, 1), plans, clean(), 1);
    assert!(joined(&outcome.received[0]) == joined(&answer));
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
}

#[test]
fn no_listener_refused_at_once() {
    let config = [
        Config::default(),
        Config {
            port: 9,
            ..Config::default()
        },
    ];
    let outcome = run(config, [plan(vec![vec![1]]), plan(Vec::new())], clean(), 1);
    assert_eq!(outcome.closed[0], Some(CloseReason::Refused));
    assert_eq!(count(&outcome, 1, Format::Diag), 1);
    assert_eq!(outcome.trace.len(), 2);
    assert_eq!(outcome.holdings, [engine_xtp::Holdings::default(); 2]);
}

#[test]
fn first_for_other_endpoint_on_same_address_ignored() {
    let config = [
        Config::default(),
        Config {
            port: 9,
            shared_address: true,
            ..Config::default()
        },
    ];
    let outcome = run(config, [plan(vec![vec![1]]), plan(Vec::new())], clean(), 1);
    assert_eq!(outcome.closed[0], Some(CloseReason::TimedOut));
    assert_eq!(count(&outcome, 1, Format::Diag), 0);
}

#[test]
fn last_close_packet_carries_end_unanswered() {
    let plans = [plan(vec![b"bye".to_vec()]), plan(Vec::new())];
    let outcome = run(both(&Config::default(), 1), plans, clean(), 1);
    let has_end = |line: &TraceLine| {
        let header = Header::parse(&line.packet).expect("a good packet");
        header.options.has(Options::END)
    };
    let log = packet_log(&outcome.trace);
    assert!(has_end(outcome.trace.last().expect("packets")), "{log}");
    let end = outcome.trace.iter().find(|line| has_end(line));
    let end = end.expect("at least the last one");
    let answers = |line: &&TraceLine| line.from != end.from && line.at_ps > end.at_ps + MS;
    assert_eq!(outcome.trace.iter().filter(answers).count(), 0, "{log}");
}
