//! FH and E: fault handling and errors; M: unknown chunks.

use super::*;

#[test]
fn fh_i_5_1_1_data_are_given_up_after_association_max_retrans() {
    let mut answerer = Answerer::established();
    assert_eq!(kinds(&submit(&mut answerer.end, 1000)), [0]);
    let mut repeats = 0;
    let reason = loop {
        let packets = answerer.end.time_out();
        if let Some(reason) = answerer.end.closed() {
            assert_eq!(kinds(&packets), [6], "the peer is told");
            break reason;
        }
        assert_eq!(kinds(&packets), [0]);
        repeats += 1;
    };
    assert_eq!((repeats, reason), (10, CloseReason::TimedOut));
}

#[test]
fn fh_v_5_2_heartbeat_is_answered_with_its_contents() {
    let mut answerer = Answerer::established();
    let info = [0, 1, 0, 8, 1, 2, 3, 4];
    let answers = answerer.receive_chunk(ChunkType::HEARTBEAT, 0, &info);
    assert_eq!(kinds(&answers), [5]);
    assert_eq!(answers[0][16..], info);
}

#[test]
fn fh_o_5_3_1_data_out_of_the_blue_are_aborted() {
    let packet = to_listener(Tag(1), &data_chunk(0, 0, 1, WHOLE, 1000));
    let answers = listener().receive(&packet);
    assert_eq!((kinds(&answers), answers[0][13]), (vec![6], 1));
}

#[test]
fn fh_o_5_3_2_abort_out_of_the_blue_is_dropped() {
    let packet = to_listener(Tag(1), &chunk_of(ChunkType::ABORT, 0, &[]));
    assert!(listener().receive(&packet).is_empty());
}

#[test]
fn fh_o_5_3_3_shutdown_ack_out_of_the_blue_is_completed_with_flag_t() {
    let packet = to_listener(Tag(1), &chunk_of(ChunkType::SHUTDOWN_ACK, 0, &[]));
    let answers = listener().receive(&packet);
    assert_eq!((kinds(&answers), answers[0][13]), (vec![14], 1));
    assert_eq!(tag_of(&answers[0]), Tag(1));
}

#[test]
fn fh_o_5_3_4_shutdown_complete_out_of_the_blue_is_dropped() {
    let packet = to_listener(Tag(1), &chunk_of(ChunkType::SHUTDOWN_COMPLETE, 0, &[]));
    assert!(listener().receive(&packet).is_empty());
}

#[test]
fn fh_o_5_3_5_cookie_ack_and_stale_cookie_out_of_the_blue_are_dropped() {
    let stale = [0, 3, 0, 8, 0, 0, 0, 1];
    for chunk in [
        chunk_of(ChunkType::COOKIE_ACK, 0, &[]),
        chunk_of(ChunkType::ERROR, 0, &stale),
    ] {
        assert!(listener().receive(&to_listener(Tag(1), &chunk)).is_empty());
    }
}

#[test]
fn e_o_6_1_stale_cookie_asks_for_another_with_a_longer_life() {
    let (mut pair, _) = echoed((1, 1), &[]);
    let stale = [0, 3, 0, 8, 0, 15, 66, 64];
    let error = pair.chunk(ChunkType::ERROR, 0, &stale);
    let again = pair.client.receive(&error);
    assert_eq!(kinds(&again), [1]);
    assert!(init_of(&again[0]).parameters.preservative_ms >= 1000);
}

#[test]
fn e_o_6_2_stale_cookie_to_an_open_association_changes_nothing() {
    let mut answerer = Answerer::established();
    let stale = [0, 3, 0, 8, 0, 15, 66, 64];
    assert!(
        answerer
            .receive_chunk(ChunkType::ERROR, 0, &stale)
            .is_empty()
    );
    let answers = answerer.receive(&data_chunk(0, 0, 0, WHOLE, 1000));
    assert_eq!(kinds(&answers), [3]);
}

#[test]
fn e_i_6_3_data_on_a_stream_that_does_not_exist_are_reported_and_acknowledged() {
    let mut answerer = Answerer::established();
    let answers = answerer.receive(&data_chunk(0, 60_000, 0, WHOLE, 1000));
    assert_eq!(kinds(&answers), [3, 9]);
    let chunks: Vec<_> = Chunks::new(&answers[0]).collect();
    let cause = causes(chunks[1].value).next().expect("a cause");
    assert_eq!(cause.code, CauseCode::INVALID_STREAM);
    assert_eq!(cause.value[..2], 60_000_u16.to_be_bytes());
}

#[test]
fn e_i_6_4_init_ack_without_a_cookie_is_aborted() {
    let mut pair = pair(Reach::CookieWait);
    let packet = init_ack(&pair, PEER_TAG, (1, 1), &[]);
    let answers = pair.client.receive(&packet);
    assert_eq!(kinds(&answers), [6]);
    let abort = Chunks::new(&answers[0]).next().expect("a chunk");
    let cause = causes(abort.value).next().expect("a cause");
    assert_eq!(cause.code, CauseCode::MISSING_PARAMETER);
}

#[test]
fn e_i_6_5_unknown_parameter_of_an_init_ack_is_reported_with_the_cookie() {
    let (_, answers) = echoed((1, 1), &parameter(0xc00c, &[1]));
    assert_eq!(kinds(&answers), [10, 9]);
}

#[test]
fn e_i_6_6_report_of_unknown_parameters_with_the_cookie_is_taken() {
    let mut end = listener();
    let answers = end.receive(&init(PEER_TAG, (1, 1), &[]));
    let tag = init_of(&answers[0]).tag;
    let report = chunk_of(ChunkType::ERROR, 0, &[0, 8, 0, 8, 0xc0, 0, 0, 4]);
    let chunks = [cookie_echo(&answers[0]), report].concat();
    assert_eq!(kinds(&end.receive(&to_listener(tag, &chunks))), [11]);
    assert_eq!(end.engine.associations_len(), 1);
}

/// What a chunk of this type in front of DATA is answered with.
fn unknown_chunk(kind: u8) -> Vec<u8> {
    let mut answerer = Answerer::established();
    let unknown = chunk_of(ChunkType(kind), 0, &[1]);
    let chunks = [unknown, data_chunk(0, 0, 0, WHOLE, 1000)].concat();
    kinds(&answerer.receive(&chunks))
}

#[test]
fn m_i_10_1_unknown_chunk_is_skipped_and_reported() {
    assert_eq!(unknown_chunk(0xef), [3, 9]);
}

#[test]
fn m_i_10_2_unknown_chunk_stops_without_report() {
    assert_eq!(unknown_chunk(0x2f), [0u8; 0]);
}

#[test]
fn m_i_10_3_unknown_chunk_stops_with_report() {
    assert_eq!(unknown_chunk(0x6f), [9]);
}

#[test]
fn m_i_10_4_unknown_chunk_is_skipped_without_report() {
    assert_eq!(unknown_chunk(0xaf), [3]);
}
