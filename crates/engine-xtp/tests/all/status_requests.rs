//! When a sender requests acknowledgements, and in which packets.

use crate::engine_pair::EnginePair;
use core::time::Duration;
use engine::{Associations, AssociationsExt, CloseReason, Event, Protocol};
use engine_xtp::pdu::{
    Body, CommonControl, Format, HEADER_LEN, Header, Options, Packet, SyncNumber, Version,
};
use engine_xtp::{Config, StatusRequestKind};

#[test]
fn null_data_carries_status_request() {
    let config = Config {
        null_data: true,
        keepalive: Duration::from_secs(1),
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    ends.engines[0].push(ends.now, ids[0], 100);
    ends.now = ends.now + Duration::from_millis(5);
    let mut kinds = Vec::new();
    for _ in 0..20 {
        let Some(next) = ends.engines[0].poll_timeout() else {
            break;
        };
        ends.now = ends.now.max(next);
        ends.engines[0].handle_timeout(ends.now);
        for packet in ends.take(0, 10) {
            let header = Header::parse(&packet).expect("a good packet");
            kinds.push((
                header.format,
                packet.len(),
                header.options.has(Options::SREQ),
            ));
            ends.arrive(1, &packet);
        }
        for packet in ends.take(1, 10) {
            ends.arrive(0, &packet);
        }
    }
    let null = (Format::Data, HEADER_LEN, true);
    assert!(kinds.contains(&null), "{kinds:?}");
    assert_eq!(
        ends.engines[0].bytes_in_flight(ids[0]),
        0,
        "they were answered"
    );
    let control = kinds.iter().filter(|kind| kind.0 == Format::Cntl);
    assert_eq!(control.count(), 0, "{kinds:?}");
}

#[test]
fn request_ack_sends_one_sreq_until_answered() {
    let (mut ends, ids) = EnginePair::new(&Config::default(), 1);
    ends.engines[0].push(ends.now, ids[0], 100);
    ends.settle();
    assert!(
        ends.engines[0].bytes_in_flight(ids[0]) > 0,
        "no status request was sent yet"
    );
    let request_ack = |ends: &mut EnginePair| {
        ends.engines[0].request_ack(ends.now, ids[0]);
        let packets = ends.take(0, 10);
        let has_sreq = |packet: &Vec<u8>| {
            let header = Header::parse(packet).expect("a good packet");
            assert_eq!(header.format, Format::Cntl);
            header.options.has(Options::SREQ)
        };
        assert!(packets.iter().all(has_sreq));
        packets
    };
    let requests = request_ack(&mut ends);
    assert_eq!(requests.len(), 1);
    assert_eq!(
        request_ack(&mut ends).len(),
        0,
        "the request is outstanding"
    );
    ends.arrive(1, &requests[0]);
    ends.settle();
    assert_eq!(ends.engines[0].bytes_in_flight(ids[0]), 0);
    assert_eq!(request_ack(&mut ends).len(), 0, "nothing is in flight");
}

#[test]
fn acknowledgement_is_asked_for_in_last_packet_not_sent_yet() {
    for version in [Version::V40, Version::V36] {
        let config = Config {
            version,
            ..Config::default()
        };
        let (mut ends, ids) = EnginePair::new(&config, 1);
        ends.settle();
        ends.engines[0].push(ends.now, ids[0], 4000);
        ends.engines[0].request_ack(ends.now, ids[0]);
        let packets = ends.take(0, 10);
        assert_eq!(packets.len(), 3, "4,000 bytes and no packet without data");
        let mut answers = Vec::new();
        for packet in &packets {
            ends.arrive(1, packet);
            answers.push(ends.take(1, 10));
        }
        let counts: Vec<usize> = answers.iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 0, 1], "the last packet is answered");
        ends.arrive(0, &answers[2][0]);
        assert_eq!(ends.engines[0].bytes_in_flight(ids[0]), 0);
    }
}

#[test]
fn dreq_answered_after_user_consumed() {
    let config = Config {
        status_request_kind: StatusRequestKind::Delivered,
        status_interval_bytes: 4000,
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    ends.engines[0].push(ends.now, ids[0], 4500);
    ends.settle();
    assert!(
        ends.engines[0].bytes_in_flight(ids[0]) > 0,
        "the user has not consumed it"
    );
    let taken = ends.engines[0].counters().bytes_sent;
    let peer = ends.pairs[&ids[0]];
    ends.engines[1].consume(ends.now, peer, taken);
    ends.settle();
    assert_eq!(ends.engines[0].bytes_in_flight(ids[0]), 0);
}

/// A CNTL with `options` of the sender of `data`, behind its bytes.
fn control(data: &Header, options: Options) -> Vec<u8> {
    let header = Header {
        options,
        format: Format::Cntl,
        seq: data.seq + u64::from(data.dlen),
        ..*data
    };
    let body = Body::Cntl(CommonControl {
        rseq: 0,
        alloc: 0,
        echo: SyncNumber(0),
    });
    let mut octets = Vec::new();
    Packet { header, body }.emit_with_checksum(&mut octets);
    octets
}

/// XTP 4.0 s. 5 and 6.6: with EDGE, SREQ is answered when the previous packet had none.
#[test]
fn requests_answered_row_by_row() {
    let (mut ends, ids) = EnginePair::new(&Config::default(), 1);
    ends.engines[0].push(ends.now, ids[0], 100);
    ends.settle();
    ends.engines[0].push(ends.now, ids[0], 200);
    let packet = ends.take(0, 1).pop().expect("data");
    ends.arrive(1, &packet);
    ends.take(1, 10);
    let data = Header::parse(&packet).expect("a good packet");
    let (sreq, dreq) = (Options::SREQ, Options::DREQ);
    let edge = sreq | Options::EDGE;
    let answers = |ends: &mut EnginePair, options: Options| {
        ends.arrive(1, &control(&data, options));
        ends.take(1, 10).len()
    };
    let rows = [
        (sreq, 1),
        (sreq, 1),
        (edge, 0),
        (edge, 0),
        (Options::NONE, 0),
        (edge, 1),
        (dreq, 0),
        (edge, 1),
    ];
    for (row, (options, count)) in rows.into_iter().enumerate() {
        assert_eq!(answers(&mut ends, options), count, "row {row}");
    }
    let peer = ends.pairs[&ids[0]];
    ends.engines[1].consume(ends.now, peer, 200);
    assert_eq!(ends.take(1, 10).len(), 1, "the user consumed all");
    assert_eq!(answers(&mut ends, dreq), 1);
    assert_eq!(answers(&mut ends, sreq | Options::END), 0);
}

/// How long an association lasts whose peer hears nothing more.
fn silence(handshake_max: Duration, retries_max: u32, wtimer_max: Duration) -> Duration {
    let config = Config {
        handshake_max,
        retries_max,
        wtimer_max,
        ..Config::default()
    };
    let (mut ends, ids) = EnginePair::new(&config, 1);
    let begun = ends.now;
    ends.engines[0].push(ends.now, ids[0], 1000);
    loop {
        ends.take(0, 100);
        while let Some(event) = ends.engines[0].poll_event() {
            if event == Event::Closed(ids[0], CloseReason::TimedOut) {
                return ends.now.since(begun);
            }
        }
        let next = ends.engines[0].poll_timeout().expect("it waits");
        assert!(
            next.since(begun) < Duration::from_secs(60),
            "it waits for ever"
        );
        ends.now = next;
        ends.engines[0].handle_timeout(next);
    }
}

/// CTIMEOUT alone: the number of retries would allow 1000 requests. It also ends a wait that backed off beyond it.
#[test]
fn ctimeout_ends_a_handshake_whatever_the_retries() {
    for wtimer_max in [200, 10_000].map(Duration::from_millis) {
        let ended = silence(Duration::from_secs(2), 1000, wtimer_max);
        assert!((2000..2600).contains(&ended.as_millis()), "{ended:?}");
        let ended = silence(Duration::from_secs(4), 1000, wtimer_max);
        assert!((4000..4600).contains(&ended.as_millis()), "{ended:?}");
    }
    let ended = silence(Duration::from_secs(1000), 3, Duration::from_millis(200));
    assert!(ended.as_millis() < 1000, "{ended:?}");
}

#[test]
fn gap_is_reported_at_once_with_fastnak_and_not_without() {
    for fastnak in [true, false] {
        let config = Config {
            fastnak,
            ..Config::default()
        };
        let (mut ends, ids) = EnginePair::new(&config, 1);
        ends.engines[0].push(ends.now, ids[0], 9000);
        let sent = ends.take(0, 100);
        let asks = |packet: &Vec<u8>| {
            let header = Header::parse(packet).expect("a good packet");
            header.options.has(Options::SREQ)
        };
        assert!(sent.len() > 4 && !sent[..4].iter().any(asks));
        ends.arrive(1, &sent[0]);
        assert!(ends.take(1, 10).is_empty(), "nothing is missing");
        // The second is lost.
        ends.arrive(1, &sent[2]);
        let reports = ends.take(1, 10);
        assert_eq!(reports.len(), usize::from(fastnak), "no time has passed");
        for report in reports {
            let header = Header::parse(&report).expect("a good packet");
            assert_eq!(header.format, Format::Ecntl);
        }
        // The same gap is not reported again.
        ends.arrive(1, &sent[3]);
        assert!(ends.take(1, 10).is_empty());
    }
}
