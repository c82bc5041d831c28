//! AT: association termination.

use super::*;

/// What a HEARTBEAT to an association that is gone is answered with: ABORT with flag T.
fn assert_gone(end: &mut End, packet: &[u8]) {
    let answers = end.receive(packet);
    assert_eq!(kinds(&answers), [6]);
    assert_eq!(answers[0][13], 1, "flag T");
}

#[test]
fn at_v_2_2_abort_of_the_peer_removes_the_association() {
    let mut pair = pair(Reach::Established);
    let abort = pair.chunk(ChunkType::ABORT, 0, &[]);
    assert!(pair.client.receive(&abort).is_empty());
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
    let heartbeat = pair.chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_gone(&mut pair.client, &heartbeat);
}

#[test]
fn at_i_2_3_shutdown_waits_for_the_acknowledgement_of_data() {
    let mut pair = pair(Reach::ShutdownPending);
    assert!(pair.client.packets().is_empty());
    let sack = pair.sack(1, 1500, &[]);
    assert_eq!(kinds(&pair.client.receive(&sack)), [7]);
    let ack = pair.chunk(ChunkType::SHUTDOWN_ACK, 0, &[]);
    assert_eq!(kinds(&pair.client.receive(&ack)), [14]);
}

#[test]
fn at_i_2_4_shutdown_is_repeated() {
    let mut pair = pair(Reach::ShutdownSent);
    assert_eq!(kinds(&pair.client.time_out()), [7]);
}

/// How often the client repeats `kind` to a silent peer before it is gone.
fn repeats(mut client: End, kind: u8) -> usize {
    for count in 0..40 {
        let packets = client.time_out();
        if let Some(reason) = client.closed() {
            assert_eq!(reason, CloseReason::TimedOut);
            assert_eq!(kinds(&packets), [6], "the peer is told");
            return count;
        }
        assert_eq!(kinds(&packets), [kind]);
    }
    panic!("it never gives up");
}

#[test]
fn at_i_2_5_shutdown_is_given_up_after_association_max_retrans() {
    assert_eq!(repeats(pair(Reach::ShutdownSent).client, 7), 10);
}

#[test]
fn at_v_2_6_shutdown_ack_is_answered_and_the_association_gone() {
    let mut pair = pair(Reach::ShutdownSent);
    let ack = pair.chunk(ChunkType::SHUTDOWN_ACK, 0, &[]);
    assert_eq!(kinds(&pair.client.receive(&ack)), [14]);
    let heartbeat = pair.chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_gone(&mut pair.client, &heartbeat);
}

/// Nothing leaves of what a user sends in this state.
fn assert_sends_nothing(state: Reach) {
    let mut pair = pair(state);
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 1000, &Note::default());
    assert!(pair.client.packets().is_empty(), "{state:?}");
}

#[test]
fn at_i_2_7_1_no_data_leave_after_shutdown() {
    assert_sends_nothing(Reach::ShutdownSent);
}

#[test]
fn at_i_2_7_2_no_new_data_leave_after_a_shutdown_of_the_peer() {
    assert_sends_nothing(Reach::ShutdownReceived);
}

#[test]
fn at_i_2_7_3_no_new_data_leave_while_shutdown_is_pending() {
    assert_sends_nothing(Reach::ShutdownPending);
}

#[test]
fn at_i_2_7_4_no_data_leave_after_shutdown_ack() {
    assert_sends_nothing(Reach::ShutdownAckSent);
}

#[test]
fn at_i_2_8_data_after_shutdown_are_acknowledged_with_shutdown_again() {
    let mut pair = pair(Reach::ShutdownSent);
    for behind in 0..2 {
        let data = pair.data(behind, 0, behind as u16, WHOLE, 1000);
        let answers = pair.client.receive(&data);
        assert_eq!(kinds(&answers), [7], "it acknowledges them");
    }
    assert_eq!(kinds(&pair.client.time_out()), [7]);
}

#[test]
fn at_i_2_9_data_after_the_peers_shutdown_are_dropped() {
    let mut pair = pair(Reach::ShutdownReceived);
    let data = pair.data(0, 0, 0, WHOLE, 1000);
    assert!(pair.client.receive(&data).is_empty());
    let sack = pair.sack(1, 1500, &[]);
    assert_eq!(kinds(&pair.client.receive(&sack)), [8]);
}

#[test]
fn at_i_2_10_shutdown_of_the_peer_is_answered_when_data_are_acknowledged() {
    let mut pair = pair(Reach::ShutdownReceived);
    assert_eq!(kinds(&pair.client.time_out()), [0], "the data again");
    let nothing_new = pair.client_tsn.0.wrapping_sub(1).to_be_bytes();
    let shutdown = pair.chunk(ChunkType::SHUTDOWN, 0, &nothing_new);
    assert!(pair.client.receive(&shutdown).is_empty());
    let sack = pair.sack(1, 1500, &[]);
    assert_eq!(kinds(&pair.client.receive(&sack)), [8]);
}

#[test]
fn at_i_2_11_shutdown_ack_is_repeated() {
    let mut pair = pair(Reach::ShutdownAckSent);
    assert_eq!(kinds(&pair.client.time_out()), [8]);
}

#[test]
fn at_i_2_12_shutdown_ack_is_given_up_after_association_max_retrans() {
    assert_eq!(repeats(pair(Reach::ShutdownAckSent).client, 8), 10);
}

#[test]
fn at_i_2_13_shutdown_complete_removes_the_association() {
    let mut pair = pair(Reach::ShutdownAckSent);
    let complete = pair.chunk(ChunkType::SHUTDOWN_COMPLETE, 0, &[]);
    assert!(pair.client.receive(&complete).is_empty());
    assert_eq!(pair.client.closed(), Some(CloseReason::Graceful));
    let heartbeat = pair.chunk(ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    assert_gone(&mut pair.client, &heartbeat);
}

#[test]
fn at_v_2_14_shutdown_acknowledges_data() {
    let mut pair = pair(Reach::Established);
    assert_eq!(kinds(&submit(&mut pair.client, 1000)), [0]);
    let shutdown = pair.chunk(ChunkType::SHUTDOWN, 0, &pair.client_tsn.0.to_be_bytes());
    assert_eq!(kinds(&pair.client.receive(&shutdown)), [8]);
}
