//! AS: association setup.

use super::*;

#[test]
fn as_v_1_1_1_opener_completes_the_handshake() {
    let (mut pair, answers) = echoed((1, 1), &[]);
    assert_eq!(kinds(&answers), [10]);
    let ack = pair.chunk(ChunkType::COOKIE_ACK, 0, &[]);
    assert!(pair.client.receive(&ack).is_empty());
    assert_eq!(pair.client.events(), [Event::Connected(pair.client.id)]);
}

#[test]
fn as_v_1_1_2_listener_completes_the_handshake() {
    let answerer = Answerer::established();
    assert_eq!(answerer.end.engine.associations_len(), 1);
}

#[test]
fn as_i_1_2_1_init_is_repeated_and_its_late_answer_taken() {
    let mut pair = pair(Reach::CookieWait);
    assert_eq!(kinds(&pair.client.time_out()), [1]);
    let packet = init_ack(&pair, PEER_TAG, (1, 1), &cookie_parameter());
    assert_eq!(kinds(&pair.client.receive(&packet)), [10]);
}

#[test]
fn as_i_1_2_2_cookie_echo_is_repeated_and_its_late_answer_taken() {
    let (mut pair, answers) = echoed((1, 1), &[]);
    let again = pair.client.time_out();
    assert_eq!(again, answers);
    let ack = pair.chunk(ChunkType::COOKIE_ACK, 0, &[]);
    pair.client.receive(&ack);
    assert_eq!(pair.client.events(), [Event::Connected(pair.client.id)]);
}

/// Packets of `kind` that the client repeats before it gives up.
fn repeats(mut client: End, kind: u8) -> usize {
    for count in 0..20 {
        let packets = client.time_out();
        if client.closed() == Some(CloseReason::TimedOut) {
            return count;
        }
        assert_eq!(kinds(&packets), [kind]);
    }
    panic!("it never gives up");
}

#[test]
fn as_i_1_3_1_init_is_given_up_after_max_init_retransmits() {
    assert_eq!(repeats(pair(Reach::CookieWait).client, 1), 8);
}

#[test]
fn as_i_1_3_2_cookie_echo_is_given_up_after_max_init_retransmits() {
    assert_eq!(repeats(echoed((1, 1), &[]).0.client, 10), 8);
}

#[test]
fn as_v_1_5_1_tag_of_an_init_is_random_and_not_zero() {
    let tag = |seed| {
        let mut client = End::new(CLIENT, seed);
        let now = client.now;
        client.engine.connect(now, &[SERVER]).expect("room");
        init_of(&client.packets()[0]).tag
    };
    let tags: std::collections::BTreeSet<Tag> = (0..50).map(tag).collect();
    assert_eq!(tags.len(), 50);
    assert!(!tags.contains(&Tag::NONE));
}

#[test]
fn as_v_1_5_2_tag_of_an_init_ack_is_random_and_not_zero() {
    let mut end = listener();
    let mut tags = std::collections::BTreeSet::new();
    for number in 1..=50 {
        let answers = end.receive(&init(Tag(number), (1, 1), &[]));
        tags.insert(init_of(&answers[0]).tag);
    }
    assert_eq!(tags.len(), 50);
    assert!(!tags.contains(&Tag::NONE));
}

/// Every optional parameter of an INIT.
fn all_parameters() -> Vec<u8> {
    let address = "fe80::250:56ff:fe24:9e6".parse::<std::net::Ipv6Addr>();
    [
        parameter(9, &12_345_u32.to_be_bytes()),
        parameter(12, &[0, 5, 0, 6]),
        parameter(6, &address.expect("an address").octets()),
        parameter(5, &[192, 0, 2, 1]),
    ]
    .concat()
}

#[test]
fn as_v_1_6_1_init_with_every_optional_parameter_is_answered() {
    let answers = listener().receive(&init(PEER_TAG, (1, 1), &all_parameters()));
    assert_eq!(kinds(&answers), [2]);
}

#[test]
fn as_v_1_6_2_init_ack_with_addresses_is_taken() {
    let addresses = all_parameters().split_off(8 + 8);
    assert_eq!(kinds(&echoed((1, 1), &addresses).1), [10]);
}

#[test]
fn as_v_1_7_1_init_that_offers_more_streams_than_are_accepted_is_answered() {
    let answers = listener().receive(&init(PEER_TAG, (u16::MAX, 1), &[]));
    assert_eq!(kinds(&answers), [2]);
    assert!(init_of(&answers[0]).inbound_streams < u16::MAX);
}

#[test]
fn as_i_1_7_2_init_without_streams_is_aborted() {
    for streams in [(0, 1), (1, 0)] {
        let mut end = listener();
        let answers = end.receive(&init(PEER_TAG, streams, &[]));
        assert_eq!(kinds(&answers), [6]);
        assert_eq!(tag_of(&answers[0]), PEER_TAG);
        assert_eq!(end.engine.associations_len(), 0);
    }
}

#[test]
fn as_v_1_7_3_opener_uses_no_more_streams_than_the_peer_accepts() {
    let (mut pair, answers) = echoed((1, 1), &[]);
    assert_eq!(kinds(&answers), [10]);
    let ack = pair.chunk(ChunkType::COOKIE_ACK, 0, &[]);
    pair.client.receive(&ack);
    let note = Note {
        stream: 1,
        ..Note::default()
    };
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 10, &note);
    assert!(pair.client.packets().is_empty());
    let given_up = Event::Abandoned(
        id,
        engine::AbandonedMessage {
            range: 0..10,
            note,
            was_sent: false,
            is_whole: true,
        },
    );
    assert!(pair.client.events().contains(&given_up));
}

#[test]
fn as_i_1_7_4_init_ack_without_streams_is_aborted() {
    for streams in [(0, 1), (1, 0)] {
        let (mut pair, answers) = echoed(streams, &[]);
        assert_eq!(kinds(&answers), [6]);
        assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
    }
}

#[test]
fn as_v_1_7_5_init_with_the_streams_that_are_wanted_is_answered() {
    let answers = listener().receive(&init(PEER_TAG, (2, 2), &[]));
    assert_eq!(kinds(&answers), [2]);
}

/// Unknown parameters that an INIT-ACK reports when the second of three has this type.
fn reported(second: u16) -> usize {
    let parameters = [
        parameter(0xc0cc, &[1; 4]),
        parameter(second, &[2; 4]),
        parameter(0xc0cc, &[3; 4]),
    ];
    let answers = listener().receive(&init(PEER_TAG, (1, 1), &parameters.concat()));
    assert_eq!(kinds(&answers), [2]);
    let ack = &answers[0];
    // Each is in a parameter of its own, of type 8.
    let is_report = |at: &usize| ack[*at..*at + 4] == [0, 8, 0, 12];
    (32..ack.len() - 4).step_by(4).filter(is_report).count()
}

#[test]
fn as_i_1_8_1_unknown_parameters_are_skipped_and_reported() {
    assert_eq!(reported(0xc0cc), 3);
}

#[test]
fn as_i_1_8_2_unknown_parameter_stops_without_report() {
    assert_eq!(reported(0x00cc), 1);
}

#[test]
fn as_i_1_8_3_unknown_parameter_stops_with_report() {
    assert_eq!(reported(0x40cc), 2);
}

#[test]
fn as_i_1_8_4_unknown_parameter_is_skipped_without_report() {
    assert_eq!(reported(0x80cc), 2);
}

#[test]
fn as_o_1_9_1_init_to_an_open_association_is_answered_with_another_tag() {
    let mut answerer = Answerer::established();
    let answers = answerer.end.receive(&init(Tag(3), (1, 1), &[]));
    assert_eq!(kinds(&answers), [2]);
    assert_ne!(init_of(&answers[0]).tag, answerer.tag);
    assert_eq!(tag_of(&answers[0]), Tag(3));
}

#[test]
fn as_o_1_9_2_init_with_a_new_address_to_an_open_association_is_aborted() {
    let mut answerer = Answerer::established();
    let address = parameter(5, &[1, 1, 1, 1]);
    let answers = answerer.end.receive(&init(Tag(3), (1, 1), &address));
    assert_eq!(kinds(&answers), [6]);
    assert_eq!(answerer.end.closed(), None);
}

#[test]
fn as_v_1_10_1_init_without_addresses_has_that_of_its_packet() {
    let mut answerer = Answerer::established();
    let packets = submit(&mut answerer.end, 10);
    assert_eq!(kinds(&packets), [0]);
}

#[test]
fn as_v_1_10_2_init_ack_without_addresses_has_that_of_its_packet() {
    assert_eq!(kinds(&echoed((1, 1), &[]).1), [10]);
}

#[test]
fn as_v_1_12_1_init_with_a_host_name_is_aborted() {
    let name = parameter(11, b"a.b\0");
    let answers = listener().receive(&init(PEER_TAG, (1, 1), &name));
    assert_eq!(kinds(&answers), [6]);
}

#[test]
fn as_i_1_12_2_init_ack_with_a_host_name_is_aborted() {
    let (mut pair, answers) = echoed((1, 1), &parameter(11, b"a.b\0"));
    assert_eq!(kinds(&answers), [6]);
    assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
}

#[test]
fn as_v_1_13_1_init_that_supports_both_families_is_answered() {
    let types = parameter(12, &[0, 5, 0, 6]);
    let answers = listener().receive(&init(PEER_TAG, (1, 1), &types));
    assert_eq!(kinds(&answers), [2]);
}

#[test]
fn as_i_1_13_2_init_that_supports_another_family_is_answered_where_it_came_from() {
    let types = parameter(12, &[0, 6]);
    let answers = listener().receive(&init(PEER_TAG, (1, 1), &types));
    assert_eq!(kinds(&answers), [2]);
}

#[test]
fn as_i_1_14_1_init_with_tag_zero_is_dropped_and_the_next_answered() {
    let mut end = listener();
    assert!(end.receive(&init(Tag::NONE, (1, 1), &[])).is_empty());
    assert_eq!(kinds(&end.receive(&init(PEER_TAG, (1, 1), &[]))), [2]);
}

#[test]
fn as_i_1_14_2_init_ack_with_tag_zero_ends_the_attempt() {
    let mut pair = pair(Reach::CookieWait);
    let packet = init_ack(&pair, Tag::NONE, (1, 1), &cookie_parameter());
    assert!(pair.client.receive(&packet).is_empty());
    assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
}
