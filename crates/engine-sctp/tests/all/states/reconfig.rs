//! Streams that begin anew, and more streams (RFC 6525).

use super::*;
use engine_sctp::pdu::ReconfigParameter;
use engine_sctp::pdu::re_config::{
    ReconfigResult, RequestNumber, push_add_streams, push_reset_incoming, push_reset_outgoing,
    push_responses,
};
use engine_sctp::{Notice, ReconfigOutcome, StreamDirection};

const RE_CONFIG: u8 = 130;
const WHOLE: u8 = 3;

/// Results of the answers in packets.
fn results(packets: &[Packet]) -> Vec<u32> {
    let mut results = Vec::new();
    for chunk in packets.iter().flat_map(|packet| Chunks::new(packet)) {
        if chunk.kind != ChunkType::RE_CONFIG {
            continue;
        }
        for parameter in ReconfigParameter::parse_all(chunk.value).expect("well formed") {
            if let ReconfigParameter::Response { result, .. } = parameter {
                results.push(result.0);
            }
        }
    }
    results
}

/// The stream and SSN of each chunk of DATA.
fn data_of(packets: &[Packet]) -> Vec<(u16, u16)> {
    let chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
    let data = chunks.filter(|chunk| chunk.kind == ChunkType::DATA);
    data.map(|chunk| {
        let header = DataHeader::parse(chunk.flags, chunk.value).expect("DATA");
        (header.stream.0, header.ssn.0)
    })
    .collect()
}

fn notices(end: &mut End) -> Vec<Notice> {
    core::iter::from_fn(|| end.engine.poll_notice()).collect()
}

fn on_stream(stream: u16) -> Note {
    Note {
        stream,
        ..Note::default()
    }
}

impl Pair {
    /// A request of the server, the number `count` behind its first.
    fn reset_incoming_of_client(&self, count: u32, behind: u32, streams: &[u16]) -> Packet {
        let mut chunk = Vec::new();
        let streams: Vec<StreamId> = streams.iter().map(|stream| StreamId(*stream)).collect();
        let last = Tsn(self.server_tsn.0.wrapping_add(behind));
        push_reset_outgoing(
            &mut chunk,
            (self.number(count), RequestNumber(0)),
            last,
            &streams,
        );
        self.packet(self.to_client, &chunk)
    }

    fn number(&self, count: u32) -> RequestNumber {
        RequestNumber(self.server_tsn.0).plus(count)
    }

    /// Hands packets to and fro until nothing is sent.
    fn settle(&mut self, mut packets: Vec<Packet>) {
        for _ in 0..50 {
            let answers: Vec<Packet> = packets
                .iter()
                .flat_map(|packet| self.server.receive(packet))
                .collect();
            packets = answers
                .iter()
                .flat_map(|packet| self.client.receive(packet))
                .collect();
            if packets.is_empty() {
                return;
            }
        }
        panic!("they never end");
    }
}

#[test]
fn reset_of_own_streams_waits_for_acknowledgement_and_then_counts_anew() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    let client = &mut pair.client;
    for (end, stream) in [(5, 1), (6, 2)] {
        submit_message(&mut client.engine, id, end, &on_stream(stream));
    }
    assert_eq!(data_of(&client.packets()), [(1, 0), (2, 0)]);
    let streams = [StreamId(1)];
    let asked = client
        .engine
        .reset_streams(now, id, StreamDirection::Outgoing, &streams);
    assert_eq!(asked, Ok(()));
    for (end, stream) in [(7, 1), (8, 2)] {
        submit_message(&mut client.engine, id, end, &on_stream(stream));
    }
    assert_eq!(
        kinds(&client.packets()),
        [0u8; 0],
        "the peer lacks what is before it"
    );
    let sack = pair.sack(2, 10_000, &[]);
    let packets = pair.client.receive(&sack);
    assert_eq!(kinds(&packets), [RE_CONFIG]);
    let chunk = Chunks::new(&packets[0]).next().expect("a chunk");
    let parameters = ReconfigParameter::parse_all(chunk.value).expect("a request");
    let [
        ReconfigParameter::ResetOutgoing {
            number,
            last_tsn,
            streams,
            ..
        },
    ] = parameters[..]
    else {
        panic!("{parameters:?}");
    };
    assert_eq!(
        number,
        RequestNumber(pair.client_tsn.0),
        "the first has the first TSN's number"
    );
    assert_eq!(last_tsn, Tsn(pair.client_tsn.0.wrapping_add(1)));
    assert!(streams.iter().eq([StreamId(1)]));
    let mut response = Vec::new();
    push_responses(&mut response, &[(number, ReconfigResult::IN_PROGRESS)]);
    let response = pair.packet(pair.to_client, &response);
    let packets = pair.client.receive(&response);
    assert_eq!(kinds(&packets), [0u8; 0], "it goes on");
    let mut response = Vec::new();
    push_responses(&mut response, &[(number, ReconfigResult::PERFORMED)]);
    let response = pair.packet(pair.to_client, &response);
    let packets = pair.client.receive(&response);
    assert_eq!(
        data_of(&packets),
        [(1, 0), (2, 1)],
        "only the stream that was named"
    );
    let expected = Notice::StreamsReset {
        association: id,
        direction: StreamDirection::Outgoing,
        streams: vec![StreamId(1)],
        outcome: ReconfigOutcome::Done,
    };
    assert_eq!(notices(&mut pair.client), [expected]);
    assert_eq!(kinds(&pair.client.receive(&response)), [0u8; 0], "once");
    assert_eq!(notices(&mut pair.client), []);
}

#[test]
fn denied_reset_changes_no_number_and_lets_messages_go_on() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    submit_message(&mut pair.client.engine, id, 5, &Note::default());
    pair.client.packets();
    let all = pair
        .client
        .engine
        .reset_streams(now, id, StreamDirection::Outgoing, &[]);
    assert_eq!(all, Ok(()));
    submit_message(&mut pair.client.engine, id, 6, &Note::default());
    let sack = pair.sack(1, 10_000, &[]);
    assert_eq!(kinds(&pair.client.receive(&sack)), [RE_CONFIG]);
    let mut response = Vec::new();
    let number = RequestNumber(pair.client_tsn.0);
    push_responses(&mut response, &[(number, ReconfigResult::DENIED)]);
    let response = pair.packet(pair.to_client, &response);
    assert_eq!(data_of(&pair.client.receive(&response)), [(0, 1)]);
    let notified = notices(&mut pair.client);
    assert!(
        matches!(
            notified[..],
            [Notice::StreamsReset {
                outcome: ReconfigOutcome::Denied,
                ..
            }]
        ),
        "{notified:?}"
    );
}

#[test]
fn reset_of_the_peer_is_done_once_its_data_are_here() {
    let mut pair = pair(Reach::Established);
    let request = pair.reset_incoming_of_client(0, 0, &[3]);
    assert_eq!(
        results(&pair.client.receive(&request)),
        [6],
        "its data are missing"
    );
    let (_, delivered) = pair.client.receive_data(&pair.data(0, 3, 0, WHOLE, 5));
    assert_eq!(delivered.len(), 1);
    assert_eq!(results(&pair.client.receive(&request)), [1]);
    assert_eq!(notices(&mut pair.client).len(), 1);
    let (_, delivered) = pair.client.receive_data(&pair.data(1, 3, 0, WHOLE, 5));
    assert_eq!(delivered.len(), 1, "its first number again");
    // A copy of the request, late or replayed, is answered and does nothing.
    assert_eq!(results(&pair.client.receive(&request)), [1]);
    assert_eq!(notices(&mut pair.client), []);
    let (_, delivered) = pair.client.receive_data(&pair.data(2, 3, 1, WHOLE, 5));
    assert_eq!(delivered.len(), 1);
}

#[test]
fn requests_out_of_turn_are_refused() {
    let mut pair = pair(Reach::Established);
    for count in [u32::MAX, 1, 7, 1 << 31] {
        let request = pair.reset_incoming_of_client(count, u32::MAX, &[]);
        assert_eq!(results(&pair.client.receive(&request)), [5], "{count}");
    }
    assert_eq!(notices(&mut pair.client), []);
}

#[test]
fn reset_in_the_midst_of_a_message_is_denied() {
    let mut pair = pair(Reach::Established);
    pair.client.receive(&pair.data(0, 3, 0, 2, 5));
    let request = pair.reset_incoming_of_client(0, 0, &[3]);
    assert_eq!(results(&pair.client.receive(&request)), [2]);
    let (_, delivered) = pair.client.receive_data(&pair.data(1, 3, 0, 1, 5));
    assert_eq!(delivered.len(), 1, "it goes on");
}

#[test]
fn streams_that_do_not_exist_are_refused() {
    let mut pair = pair(Reach::Established);
    let request = pair.reset_incoming_of_client(0, u32::MAX, &[16]);
    assert_eq!(results(&pair.client.receive(&request)), [3]);
    let mut chunk = Vec::new();
    push_reset_incoming(&mut chunk, pair.number(1), &[StreamId(16)]);
    let request = pair.packet(pair.to_client, &chunk);
    assert_eq!(results(&pair.client.receive(&request)), [3]);
    let (id, now) = (pair.client.id, pair.client.now);
    for direction in [StreamDirection::Outgoing, StreamDirection::Incoming] {
        let asked = pair
            .client
            .engine
            .reset_streams(now, id, direction, &[StreamId(16)]);
        assert!(asked.is_err());
    }
}

#[test]
fn more_streams_than_are_accepted_and_new_tsns_are_denied() {
    let mut pair = pair(Reach::Established);
    for (count, more) in [(0, 2033), (1, u16::MAX)] {
        let mut chunk = Vec::new();
        push_add_streams(&mut chunk, pair.number(count), more, false);
        let request = pair.packet(pair.to_client, &chunk);
        assert_eq!(results(&pair.client.receive(&request)), [2], "{more} more");
    }
    let mut value = 15_u16.to_be_bytes().to_vec();
    value.extend(8_u16.to_be_bytes());
    value.extend(pair.number(2).0.to_be_bytes());
    let request = pair.chunk(ChunkType::RE_CONFIG, 0, &value);
    assert_eq!(results(&pair.client.receive(&request)), [2]);
    assert_eq!(notices(&mut pair.client), []);
}

/// Direction, number of streams and outcome of a notice; 0 streams for a reset.
fn direction(notice: &Notice) -> (StreamDirection, u16, ReconfigOutcome) {
    match notice {
        Notice::StreamsReset {
            direction, outcome, ..
        } => (*direction, 0, *outcome),
        Notice::StreamsAdded {
            direction,
            streams,
            outcome,
            ..
        } => (*direction, *streams, *outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_ends_reset_and_add_streams_in_both_directions() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    for (end, stream) in [(5, 1), (6, 1)] {
        submit_message(&mut pair.client.engine, id, end, &on_stream(stream));
        let packets = pair.client.packets();
        pair.settle(packets);
    }
    let server = pair.server.id;
    submit_message(&mut pair.server.engine, server, 4, &on_stream(2));
    let engine = &mut pair.client.engine;
    let asked = engine.reset_streams(now, id, StreamDirection::Outgoing, &[]);
    assert_eq!(asked, Ok(()));
    let asked = engine.reset_streams(now, id, StreamDirection::Incoming, &[StreamId(2)]);
    assert_eq!(asked, Ok(()));
    assert_eq!(
        engine.add_streams(now, id, StreamDirection::Outgoing, 4),
        Ok(())
    );
    assert_eq!(
        engine.add_streams(now, id, StreamDirection::Incoming, 2),
        Ok(())
    );
    let packets = pair.client.packets();
    pair.settle(packets);
    let packets = pair.server.packets();
    let packets = packets
        .iter()
        .flat_map(|packet| pair.client.receive(packet))
        .collect();
    pair.settle(packets);
    let (out, inwards, done) = (
        StreamDirection::Outgoing,
        StreamDirection::Incoming,
        ReconfigOutcome::Done,
    );
    let notified: Vec<_> = notices(&mut pair.client).iter().map(direction).collect();
    assert_eq!(
        notified,
        [
            (out, 0, done),
            (inwards, 0, done),
            (out, 20, done),
            (inwards, 18, done)
        ]
    );
    let notified: Vec<_> = notices(&mut pair.server).iter().map(direction).collect();
    assert_eq!(
        notified,
        [
            (inwards, 0, done),
            (out, 0, done),
            (inwards, 20, done),
            (out, 18, done)
        ]
    );
    assert_eq!(pair.client.engine.outbound_streams(id), Some(20));
    submit_message(&mut pair.client.engine, id, 7, &on_stream(19));
    submit_message(&mut pair.client.engine, id, 8, &on_stream(1));
    let packets = pair.client.packets();
    assert_eq!(data_of(&packets), [(19, 0), (1, 0)]);
    let (_, delivered) = pair.server.receive_data(&packets[0]);
    assert_eq!(delivered.len(), 2);
}

#[test]
fn request_without_an_answer_is_repeated_and_ends_the_association() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    let asked = pair
        .client
        .engine
        .reset_streams(now, id, StreamDirection::Outgoing, &[]);
    assert_eq!(asked, Ok(()));
    let first = pair.client.packets();
    assert_eq!(kinds(&first), [RE_CONFIG]);
    for _ in 0..10 {
        assert_eq!(pair.client.time_out(), first, "the same number each time");
    }
    pair.client.time_out();
    assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
}

#[test]
fn ends_that_do_not_both_list_re_config_skip_it() {
    let mut pair = pair_with(Reach::Established, |config| SctpConfig {
        reconfigure: config.seed == 1,
        ..config
    });
    let (id, now) = (pair.client.id, pair.client.now);
    let asked = pair
        .client
        .engine
        .reset_streams(now, id, StreamDirection::Outgoing, &[]);
    assert!(asked.is_err());
    let request = pair.reset_incoming_of_client(0, u32::MAX, &[]);
    assert_eq!(kinds(&pair.client.receive(&request)), [0u8; 0]);
    assert_eq!(notices(&mut pair.client), []);
}

#[test]
fn broken_requests_are_dropped() {
    let mut pair = pair(Reach::Established);
    let number = pair.number(0).0.to_be_bytes();
    let parameter = |kind: u16, value: &[u8]| {
        let mut octets = kind.to_be_bytes().to_vec();
        octets.extend((4 + value.len() as u16).to_be_bytes());
        octets.extend_from_slice(value);
        octets
    };
    let add = parameter(17, &[&number[..], &[0, 1, 0, 0]].concat());
    let broken = [
        vec![],
        parameter(13, &number),
        parameter(13, &[&number[..], &[0; 8], &[1]].concat()),
        parameter(17, &number),
        parameter(99, &number),
        [&add[..], &add, &add].concat(),
    ];
    let discarded = pair
        .client
        .engine
        .discards()
        .count(DiscardReason::Malformed);
    for (index, value) in broken.iter().enumerate() {
        let packet = pair.chunk(ChunkType::RE_CONFIG, 0, value);
        assert_eq!(kinds(&pair.client.receive(&packet)), [0u8; 0], "{index}");
    }
    let more = pair
        .client
        .engine
        .discards()
        .count(DiscardReason::Malformed)
        - discarded;
    assert_eq!(more, broken.len() as u64);
    assert_eq!(notices(&mut pair.client), []);
}

#[test]
fn request_waits_for_peer_whose_cookie_ack_was_lost() {
    let mut pair = pair_with(Reach::CookieEchoed, |config| SctpConfig {
        heartbeat_interval: core::time::Duration::from_secs(1),
        ..config
    });
    let cookie = pair.waiting[0].clone();
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11], "and it is lost");
    let accepted = pair
        .server
        .events()
        .into_iter()
        .find_map(|event| match event {
            Event::Accepted(id, _) => Some(id),
            _ => None,
        });
    let (id, now) = (accepted.expect("it was accepted"), pair.server.now);
    let server = &mut pair.server.engine;
    let asked = server.reset_streams(now, id, StreamDirection::Outgoing, &[]);
    assert_eq!(asked, Ok(()));
    // The client answers heartbeats only: to it the association is not open.
    let mut requests = 0;
    let mut sent = pair.server.packets();
    for _ in 0..2000 {
        requests += kinds(&sent)
            .iter()
            .filter(|kind| **kind == RE_CONFIG)
            .count();
        pair.client.now = pair.server.now;
        for packet in &sent {
            for answer in pair.client.receive(packet) {
                assert_eq!(kinds(std::slice::from_ref(&answer)), [5]);
                pair.server.receive(&answer);
            }
        }
        sent = pair.server.time_out();
    }
    // More often than an association may be silent (RFC 9260 section 16: 10).
    assert!(requests > 12, "{requests}");
    assert_eq!(pair.server.closed(), None);
    let answers = pair.server.receive(&cookie);
    assert_eq!(kinds(&answers), [11]);
    pair.client.now = pair.server.now;
    pair.client.receive(&answers[0]);
    // A heartbeat may be due before the request is.
    for _ in 0..4 {
        let again = pair.server.time_out();
        pair.client.now = pair.server.now;
        let answers = again.iter().flat_map(|packet| pair.client.receive(packet));
        let answers: Vec<Packet> = answers.collect();
        pair.settle(answers);
    }
    let is_done = |notice: &Notice| {
        matches!(
            notice,
            Notice::StreamsReset {
                outcome: ReconfigOutcome::Done,
                ..
            }
        )
    };
    assert!(notices(&mut pair.server).iter().any(is_done));
}
