//! BDC, D, A and RT: bundling, data, acknowledgements, retransmission timer.

use super::*;

#[test]
fn bdc_i_7_1_init_with_data_is_dropped() {
    let value = init_value(PEER_TAG, (1, 1), &[]);
    let chunks = [
        chunk_of(ChunkType::INIT, 0, &value),
        data_chunk(0, 0, 0, WHOLE, 100),
    ];
    let packet = to_listener(Tag::NONE, &chunks.concat());
    assert!(listener().receive(&packet).is_empty());
}

#[test]
fn bdc_i_7_2_init_ack_with_data_is_dropped() {
    let mut pair = pair(Reach::CookieWait);
    let value = init_value(PEER_TAG, (1, 1), &cookie_parameter());
    let chunks = [
        chunk_of(ChunkType::INIT_ACK, 0, &value),
        data_chunk(0, 0, 0, WHOLE, 100),
    ];
    let packet = pair.packet(pair.to_client, &chunks.concat());
    assert!(pair.client.receive(&packet).is_empty());
    assert_eq!(kinds(&pair.client.time_out()), [1]);
}

#[test]
fn bdc_i_7_3_shutdown_complete_with_data_is_dropped() {
    let mut answerer = Answerer::established();
    assert_eq!(kinds(&answerer.shutdown(0)), [8]);
    let chunks = [
        chunk_of(ChunkType::SHUTDOWN_COMPLETE, 0, &[]),
        data_chunk(0, 0, 0, WHOLE, 100),
    ];
    assert!(answerer.receive(&chunks.concat()).is_empty());
    assert_eq!(answerer.end.closed(), None);
}

#[test]
fn bdc_v_7_4_data_with_the_cookie_are_taken() {
    let mut end = listener();
    let answers = end.receive(&init(PEER_TAG, (10, 10), &[]));
    let tag = init_of(&answers[0]).tag;
    let chunks = [cookie_echo(&answers[0]), data_chunk(0, 0, 0, WHOLE, 100)];
    let answers = end.receive(&to_listener(tag, &chunks.concat()));
    assert_eq!(kinds(&answers), [11, 3]);
}

#[test]
fn bdc_v_7_5_data_with_cookie_ack_are_taken() {
    let (mut pair, _) = echoed((1, 1), &[]);
    let chunks = [
        chunk_of(ChunkType::COOKIE_ACK, 0, &[]),
        data_chunk(0, 0, 0, WHOLE, 100),
    ];
    let packet = pair.packet(pair.to_client, &chunks.concat());
    assert_eq!(kinds(&pair.client.receive(&packet)), [3]);
}

#[test]
fn bdc_v_7_6_sack_with_shutdown_is_taken() {
    let mut answerer = Answerer::established();
    submit(&mut answerer.end, 100);
    let cumulative = answerer.tsn.0.wrapping_sub(1).to_be_bytes();
    let chunks = [
        chunk_of(ChunkType::SHUTDOWN, 0, &cumulative),
        answerer.sack_chunk(1),
    ];
    assert_eq!(kinds(&answerer.receive(&chunks.concat())), [8]);
}

#[test]
fn bdc_v_7_7_sack_with_data_is_taken() {
    let mut answerer = Answerer::established();
    submit(&mut answerer.end, 100);
    let chunks = [answerer.sack_chunk(1), data_chunk(0, 0, 0, WHOLE, 100)];
    assert_eq!(kinds(&answerer.receive(&chunks.concat())), [3]);
    let released = Event::Released(answerer.end.id, 0..100);
    assert!(answerer.end.events().contains(&released));
}

#[test]
fn bdc_v_7_8_shutdown_ack_with_data_ends_the_association() {
    let mut pair = pair(Reach::ShutdownSent);
    let chunks = [
        chunk_of(ChunkType::SHUTDOWN_ACK, 0, &[]),
        data_chunk(0, 0, 0, WHOLE, 100),
    ];
    let packet = pair.packet(pair.to_client, &chunks.concat());
    assert_eq!(kinds(&pair.client.receive(&packet)), [14]);
}

/// Flags of the DATA chunks of these packets.
fn flags(packets: &[Packet]) -> Vec<u8> {
    let chunks = packets.iter().flat_map(|packet| Chunks::new(packet));
    chunks.map(|chunk| chunk.flags & WHOLE).collect()
}

#[test]
fn d_v_8_1_message_that_fits_is_not_cut() {
    let mut pair = pair(Reach::Established);
    let packets = submit(&mut pair.client, 1444);
    assert_eq!(flags(&packets), [WHOLE]);
}

#[test]
fn d_v_8_2_message_that_does_not_fit_is_cut() {
    let mut pair = pair(Reach::Established);
    let packets = submit(&mut pair.client, 2000);
    assert_eq!(flags(&packets), [2, 1]);
}

#[test]
fn d_v_8_3_fragments_are_joined() {
    let mut answerer = Answerer::established();
    let mut deliveries = Deliveries::default();
    for (behind, flags) in [(0, 2), (1, 0), (2, 1)] {
        let packet = to_listener(answerer.tag, &data_chunk(behind, 0, 0, flags, 100));
        let received = Received::new(Path::to(CLIENT), &packet);
        let now = answerer.end.now;
        answerer
            .end
            .engine
            .handle_packet(now, received, &mut deliveries);
    }
    let ends: Vec<bool> = deliveries
        .bytes
        .iter()
        .map(|part| part.end_of_message)
        .collect();
    assert_eq!(ends, [false, false, true]);
}

#[test]
fn d_v_8_4_and_d_i_8_5_data_are_sent_again_after_the_timeout() {
    let mut pair = pair(Reach::Established);
    let first = submit(&mut pair.client, 1000);
    assert_eq!(kinds(&first), [0]);
    let again = pair.client.time_out();
    // The same chunk: what differs is flag I, which a lost packet may have had.
    assert_eq!(again[0][16..], first[0][16..]);
}

#[test]
fn d_o_8_6_duplicate_is_acknowledged_at_once_and_named() {
    let mut answerer = Answerer::established();
    answerer.receive(&data_chunk(0, 0, 0, WHOLE, 100));
    let answers = answerer.receive(&data_chunk(0, 0, 0, WHOLE, 100));
    assert_eq!(kinds(&answers), [3]);
    assert_eq!(answers[0][26..28], [0, 1], "one duplicate");
    assert_eq!(answers[0][28..32], PEER_TSN.0.to_be_bytes());
}

/// What leaves while the peer's window is shut: nothing at once, one chunk after each timeout.
fn probes(end: &mut Pair, rounds: usize) {
    for _ in 0..rounds {
        assert_eq!(kinds(&end.client.time_out()), [0], "one chunk");
        assert!(end.client.packets().is_empty());
    }
}

#[test]
fn d_o_8_7_shut_window_is_probed_with_one_chunk_until_it_opens() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    submit(&mut pair.client, 1000);
    let shut = pair.sack(1, 0, &[]);
    assert!(pair.client.receive(&shut).is_empty());
    submit_message(&mut pair.client.engine, id, 2000, &Note::default());
    submit_message(&mut pair.client.engine, id, 3000, &Note::default());
    assert!(pair.client.packets().is_empty());
    probes(&mut pair, 3);
    let open = pair.sack(2, 10_000, &[]);
    assert_eq!(kinds(&pair.client.receive(&open)), [0]);
}

#[test]
fn d_o_8_8_shut_window_in_the_middle_of_a_message_is_probed_and_ends_nothing() {
    let mut pair = pair(Reach::Established);
    submit(&mut pair.client, 20_000);
    let shut = pair.sack(3, 0, &[]);
    pair.client.receive(&shut);
    for _ in 0..20 {
        assert_eq!(kinds(&pair.client.time_out()), [0]);
        pair.client.receive(&shut);
        assert_eq!(pair.client.closed(), None);
    }
}

#[test]
fn d_v_8_9_timeout_leaves_one_packet_in_flight() {
    let mut pair = pair(Reach::Established);
    submit(&mut pair.client, 4000);
    assert_eq!(kinds(&pair.client.time_out()), [0]);
    let first = pair.sack(1, 10_000, &[]);
    assert!(
        !pair.client.receive(&first).is_empty(),
        "and then the others"
    );
}

#[test]
fn d_i_8_11_data_without_bytes_are_aborted() {
    let mut answerer = Answerer::established();
    let answers = answerer.receive(&data_chunk(0, 0, 0, WHOLE, 0));
    assert_eq!(kinds(&answers), [6]);
    let abort = Chunks::new(&answers[0]).next().expect("a chunk");
    let cause = causes(abort.value).next().expect("a cause");
    assert_eq!(cause.code, CauseCode::NO_USER_DATA);
    assert_eq!(cause.value, PEER_TSN.0.to_be_bytes());
}

#[test]
fn d_o_8_12_sack_older_than_the_last_changes_nothing() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    submit(&mut pair.client, 1000);
    let first = pair.sack(1, 10_000, &[]);
    pair.client.receive(&first);
    submit_message(&mut pair.client.engine, id, 2000, &Note::default());
    assert_eq!(kinds(&pair.client.packets()), [0]);
    let older = pair.sack(0, 10_000, &[(2, 2)]);
    assert!(pair.client.receive(&older).is_empty());
    assert_eq!(
        kinds(&pair.client.time_out()),
        [0],
        "it is not acknowledged"
    );
}

#[test]
fn a_v_9_1_data_are_acknowledged() {
    let mut answerer = Answerer::established();
    let answers = answerer.receive(&data_chunk(0, 0, 0, WHOLE, 100));
    assert_eq!(kinds(&answers), [3]);
    assert_eq!(answers[0][16..20], PEER_TSN.0.to_be_bytes());
}

#[test]
fn a_v_9_2_chunks_of_a_packet_are_acknowledged_together() {
    let mut answerer = Answerer::established();
    let chunks: Vec<u8> = (0..3)
        .flat_map(|behind| data_chunk(behind, 0, behind as u16, WHOLE, 100))
        .collect();
    let answers = answerer.receive(&chunks);
    assert_eq!(kinds(&answers), [3]);
    assert_eq!(answers[0][16..20], (PEER_TSN.0 + 2).to_be_bytes());
}

#[test]
fn a_o_9_3_gap_is_reported_at_once_and_so_is_its_end() {
    let mut answerer = Answerer::established();
    answerer.receive(&data_chunk(0, 0, 0, WHOLE, 100));
    let answers = answerer.receive(&data_chunk(2, 0, 2, WHOLE, 100));
    assert_eq!(kinds(&answers), [3]);
    assert_eq!(
        answers[0][24..32],
        [0, 1, 0, 0, 0, 2, 0, 2],
        "one gap, 2 to 2"
    );
    let answers = answerer.receive(&data_chunk(1, 0, 1, WHOLE, 100));
    assert_eq!(kinds(&answers), [3]);
    assert_eq!(answers[0][16..20], (PEER_TSN.0 + 2).to_be_bytes());
}

/// Seconds between repeats of data to a silent peer.
fn waits(mut pair: Pair, count: usize) -> Vec<u64> {
    submit(&mut pair.client, 1000);
    let wait = |_| {
        let before = pair.client.now;
        assert_eq!(kinds(&pair.client.time_out()), [0]);
        pair.client.now.since(before).as_millis() as u64
    };
    (0..count).map(wait).collect()
}

#[test]
fn rt_i_11_1_timeout_doubles() {
    let waits = waits(pair(Reach::Established), 5);
    assert!(
        waits.windows(2).all(|pair| pair[1] == 2 * pair[0]),
        "{waits:?}"
    );
}

#[test]
fn rt_i_11_2_timeout_grows_no_further_than_rto_max() {
    let waits = waits(pair(Reach::Established), 10);
    assert_eq!(waits.last(), Some(&60_000), "{waits:?}");
}
