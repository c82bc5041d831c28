//! IMH and DM: invalid messages, and messages that come twice or in the wrong state.

use super::*;

#[test]
fn imh_i_3_1_init_that_is_too_short_is_dropped() {
    let packet = to_listener(Tag::NONE, &chunk_of(ChunkType::INIT, 0, &[1, 2, 3, 4]));
    assert!(listener().receive(&packet).is_empty());
}

#[test]
fn imh_i_3_2_init_with_a_tag_in_its_header_is_dropped() {
    let value = init_value(PEER_TAG, (1, 1), &[]);
    let packet = to_listener(Tag(7), &chunk_of(ChunkType::INIT, 0, &value));
    assert!(listener().receive(&packet).is_empty());
}

#[test]
fn imh_i_3_3_init_ack_with_a_wrong_tag_changes_nothing() {
    let mut pair = pair(Reach::CookieWait);
    let value = init_value(PEER_TAG, (1, 1), &cookie_parameter());
    let chunk = chunk_of(ChunkType::INIT_ACK, 0, &value);
    let forged = pair.packet(Tag(pair.to_client.0 ^ 1), &chunk);
    assert!(pair.client.receive(&forged).is_empty());
    let right = pair.packet(pair.to_client, &chunk);
    assert_eq!(kinds(&pair.client.receive(&right)), [10]);
}

#[test]
fn imh_i_3_4_cookie_echo_with_a_wrong_tag_opens_nothing() {
    let mut end = listener();
    let answers = end.receive(&init(PEER_TAG, (1, 1), &[]));
    let forged = to_listener(Tag(7), &cookie_echo(&answers[0]));
    assert!(end.receive(&forged).is_empty());
    assert_eq!(end.engine.associations_len(), 0);
}

#[test]
fn imh_i_3_5_cookie_ack_with_a_wrong_tag_changes_nothing() {
    let (mut pair, _) = echoed((1, 1), &[]);
    let chunk = chunk_of(ChunkType::COOKIE_ACK, 0, &[]);
    let forged = pair.packet(Tag(pair.to_client.0 ^ 1), &chunk);
    pair.client.receive(&forged);
    assert!(pair.client.events().is_empty());
    assert_eq!(kinds(&pair.client.time_out()), [10]);
}

#[test]
fn imh_i_3_6_cookie_that_was_changed_opens_nothing() {
    let mut end = listener();
    let answers = end.receive(&init(PEER_TAG, (1, 1), &[]));
    let tag = init_of(&answers[0]).tag;
    let mut echo = cookie_echo(&answers[0]);
    echo[10] ^= 1;
    assert!(end.receive(&to_listener(tag, &echo)).is_empty());
    assert_eq!(end.engine.associations_len(), 0);
}

#[test]
fn imh_i_3_7_abort_with_a_wrong_tag_changes_nothing() {
    let mut answerer = Answerer::established();
    let forged = to_listener(Tag(3), &chunk_of(ChunkType::ABORT, 0, &[]));
    assert!(answerer.end.receive(&forged).is_empty());
    assert_eq!(answerer.end.closed(), None);
}

#[test]
fn imh_i_3_8_chunk_longer_than_its_packet_is_dropped() {
    let mut end = listener();
    let packet = to_listener(Tag::NONE, &[1, 0, 0, 0x60]);
    assert!(end.receive(&packet).is_empty());
}

#[test]
fn imh_i_3_9_shutdown_ack_with_a_wrong_tag_changes_nothing() {
    let mut pair = pair(Reach::ShutdownSent);
    let chunk = chunk_of(ChunkType::SHUTDOWN_ACK, 0, &[]);
    let forged = pair.packet(Tag(pair.to_client.0 ^ 1), &chunk);
    pair.client.receive(&forged);
    assert_eq!(pair.client.closed(), None);
    assert_eq!(kinds(&pair.client.time_out()), [7]);
}

#[test]
fn imh_i_3_10_shutdown_complete_with_a_wrong_tag_changes_nothing() {
    let mut pair = pair(Reach::ShutdownAckSent);
    let chunk = chunk_of(ChunkType::SHUTDOWN_COMPLETE, 0, &[]);
    let forged = pair.packet(Tag(pair.to_client.0 ^ 1), &chunk);
    assert!(pair.client.receive(&forged).is_empty());
    assert_eq!(pair.client.closed(), None);
    assert_eq!(kinds(&pair.client.time_out()), [8]);
}

#[test]
fn dm_o_4_1_init_in_cookie_echoed_is_answered() {
    let (mut pair, _) = echoed((1, 1), &[]);
    let value = init_value(PEER_TAG, (1, 1), &[]);
    let packet = pair.packet(Tag::NONE, &chunk_of(ChunkType::INIT, 0, &value));
    assert_eq!(kinds(&pair.client.receive(&packet)), [2]);
}

#[test]
fn dm_o_4_2_1_init_again_leaves_an_open_association_open() {
    let mut answerer = Answerer::established();
    let again = answerer.end.receive(&init(PEER_TAG, (10, 10), &[]));
    assert_eq!(kinds(&again), [2]);
    let answers = answerer.receive_chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_eq!(kinds(&answers), [5]);
}

#[test]
fn dm_o_4_2_2_init_in_shutdown_ack_sent_is_answered_with_shutdown_ack() {
    let mut answerer = Answerer::established();
    assert_eq!(kinds(&answerer.shutdown(0)), [8]);
    let answers = answerer.end.receive(&init(Tag(2), (1, 1), &[]));
    assert_eq!(kinds(&answers), [8]);
}

#[test]
fn dm_o_4_3_init_ack_again_is_dropped() {
    let (mut pair, _) = echoed((1, 1), &[]);
    let again = init_ack(&pair, PEER_TAG, (1, 1), &cookie_parameter());
    assert!(pair.client.receive(&again).is_empty());
}

#[test]
fn dm_o_4_4_cookie_ack_again_is_dropped() {
    let mut pair = pair(Reach::Established);
    let again = pair.chunk(ChunkType::COOKIE_ACK, 0, &[]);
    assert!(pair.client.receive(&again).is_empty());
    assert_eq!(kinds(&submit(&mut pair.client, 1000)), [0]);
}

#[test]
fn dm_o_4_5_shutdown_that_crosses_ours_is_answered_with_shutdown_ack() {
    let mut pair = pair(Reach::ShutdownSent);
    let cumulative = pair.client_tsn.0.wrapping_sub(1).to_be_bytes();
    let shutdown = pair.chunk(ChunkType::SHUTDOWN, 0, &cumulative);
    assert_eq!(kinds(&pair.client.receive(&shutdown)), [8]);
}

#[test]
fn dm_o_4_6_1_shutdown_before_the_association_is_open_is_dropped() {
    for state in [Reach::CookieWait, Reach::CookieEchoed] {
        let mut pair = pair(state);
        let shutdown = pair.chunk(ChunkType::SHUTDOWN, 0, &[0; 4]);
        assert!(pair.client.receive(&shutdown).is_empty());
        assert_eq!(pair.client.closed(), None);
    }
}

#[test]
fn dm_o_4_6_2_shutdown_out_of_the_blue_is_aborted() {
    let packet = to_listener(Tag(1), &chunk_of(ChunkType::SHUTDOWN, 0, &[0; 4]));
    let answers = listener().receive(&packet);
    assert_eq!(kinds(&answers), [6]);
    assert_eq!((tag_of(&answers[0]), answers[0][13]), (Tag(1), 1));
}

#[test]
fn dm_o_4_6_3_shutdown_in_shutdown_ack_sent_changes_nothing() {
    let mut pair = pair(Reach::ShutdownAckSent);
    let cumulative = pair.client_tsn.0.wrapping_sub(1).to_be_bytes();
    let shutdown = pair.chunk(ChunkType::SHUTDOWN, 0, &cumulative);
    pair.client.receive(&shutdown);
    assert_eq!(pair.client.closed(), None);
}

#[test]
fn dm_o_4_7_1_shutdown_ack_before_the_association_is_open_is_completed_with_flag_t() {
    let mut pair = pair(Reach::CookieWait);
    let ack = pair.chunk(ChunkType::SHUTDOWN_ACK, 0, &[]);
    let answers = pair.client.receive(&ack);
    assert_eq!((kinds(&answers), answers[0][13]), (vec![14], 1));
}

#[test]
fn dm_o_4_7_2_shutdown_ack_to_an_open_association_is_dropped() {
    let mut answerer = Answerer::established();
    assert!(
        answerer
            .receive_chunk(ChunkType::SHUTDOWN_ACK, 0, &[])
            .is_empty()
    );
    let answers = answerer.receive_chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_eq!(kinds(&answers), [5]);
}

#[test]
fn dm_o_4_7_3_shutdown_ack_that_crosses_ours_ends_the_association() {
    let mut answerer = Answerer::established();
    assert_eq!(kinds(&answerer.shutdown(0)), [8]);
    let answers = answerer.receive_chunk(ChunkType::SHUTDOWN_ACK, 0, &[]);
    assert_eq!(kinds(&answers), [14]);
    assert_eq!(answerer.end.closed(), Some(CloseReason::Graceful));
}

#[test]
fn dm_o_4_8_cookie_echo_of_nobody_to_an_open_association_is_dropped() {
    let mut answerer = Answerer::established();
    let cookie = [1; 12];
    assert!(
        answerer
            .receive_chunk(ChunkType::COOKIE_ECHO, 0, &cookie)
            .is_empty()
    );
    let answers = answerer.receive_chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_eq!(kinds(&answers), [5]);
}

#[test]
fn dm_o_4_9_shutdown_complete_before_the_association_is_open_is_dropped() {
    for state in [Reach::CookieWait, Reach::CookieEchoed] {
        let mut pair = pair(state);
        let complete = pair.chunk(ChunkType::SHUTDOWN_COMPLETE, 0, &[]);
        assert!(pair.client.receive(&complete).is_empty());
        assert_eq!(pair.client.closed(), None);
    }
}

#[test]
fn dm_o_4_10_data_in_shutdown_ack_sent_are_dropped() {
    let mut answerer = Answerer::established();
    assert_eq!(kinds(&answerer.shutdown(0)), [8]);
    assert!(
        answerer
            .receive(&data_chunk(0, 0, 0, WHOLE, 1000))
            .is_empty()
    );
    assert_eq!(kinds(&answerer.end.time_out()), [8]);
}
