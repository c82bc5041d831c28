//! Timers, acknowledgements and windows of an association.

use super::*;

#[test]
fn init_is_repeated_until_the_limit() {
    let mut pair = pair(Reach::CookieWait);
    let mut waits = Vec::new();
    let closed = loop {
        let before = pair.client.now;
        let packets = pair.client.time_out();
        waits.push(pair.client.now.since(before).as_secs());
        if let Some(reason) = pair.client.closed() {
            break reason;
        }
        assert_eq!(kinds(&packets), [1]);
    };
    assert_eq!(closed, CloseReason::TimedOut);
    assert_eq!(
        waits,
        [1, 2, 4, 8, 16, 32, 60, 60, 60],
        "the first, and eight repeats"
    );
}

#[test]
fn sack_of_what_was_never_sent_aborts() {
    for sack in [(1, vec![]), (0, vec![(2, 9)])] {
        let mut pair = pair(Reach::Established);
        let packet = pair.sack(sack.0, 5000, &sack.1);
        assert_eq!(kinds(&pair.client.receive(&packet)), [6]);
        assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
    }
}

#[test]
fn three_reports_of_a_gap_retransmit_once() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    for count in 1..=3 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    assert_eq!(kinds(&pair.client.packets()), [0, 0, 0]);
    let sacks: Vec<Packet> = (2..=3)
        .map(|end| pair.sack(0, 100_000, &[(2, end)]))
        .collect();
    assert_eq!(
        kinds(&pair.client.receive(&sacks[0])),
        [0u8; 0],
        "one report"
    );
    assert_eq!(kinds(&pair.client.receive(&sacks[1])), [0u8; 0], "two");
    assert_eq!(
        kinds(&pair.client.receive(&sacks[1])),
        [0u8; 0],
        "nothing newly acknowledged"
    );
    submit_message(&mut pair.client.engine, id, 4000, &Note::default());
    assert_eq!(kinds(&pair.client.packets()), [0]);
    let third = pair.sack(0, 100_000, &[(2, 4)]);
    assert_eq!(
        kinds(&pair.client.receive(&third)),
        [0],
        "three: the lost one again"
    );
    assert_eq!(pair.client.engine.counters().retransmissions, 1);
    assert_eq!(
        kinds(&pair.client.receive(&third)),
        [0u8; 0],
        "and no second time"
    );
    pair.client.events();
    let all = pair.sack(4, 100_000, &[]);
    pair.client.receive(&all);
    assert_eq!(pair.client.events(), [Event::Released(id, 0..4000)]);
}

#[test]
fn chunk_reported_and_taken_back_is_sent_again_after_the_timeout() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    for count in 1..=2 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    pair.client.packets();
    let gap = pair.sack(0, 100_000, &[(2, 2)]);
    pair.client.receive(&gap);
    let reneged = pair.sack(0, 100_000, &[]);
    pair.client.receive(&reneged);
    assert_eq!(
        kinds(&pair.client.time_out()),
        [0],
        "one packet after a timeout"
    );
    let first = pair.sack(1, 100_000, &[]);
    assert_eq!(
        kinds(&pair.client.receive(&first)),
        [0],
        "and the other one"
    );
}

#[test]
fn window_of_zero_is_probed_with_one_chunk() {
    let mut pair = pair(Reach::Established);
    let id = pair.client.id;
    submit_message(&mut pair.client.engine, id, 1000, &Note::default());
    pair.client.packets();
    let shut = pair.sack(1, 0, &[]);
    pair.client.receive(&shut);
    for count in 2..=5 {
        submit_message(&mut pair.client.engine, id, 1000 * count, &Note::default());
    }
    assert!(pair.client.packets().is_empty(), "the window is shut");
    assert_eq!(kinds(&pair.client.time_out()), [0], "one probe");
    // It is dropped, and the peer says so for as long as it likes.
    for _ in 0..30 {
        pair.client.receive(&shut);
        assert_eq!(kinds(&pair.client.time_out()), [0]);
        assert_eq!(pair.client.closed(), None, "a shut window is no failure");
    }
    let open = pair.sack(2, 100_000, &[]);
    let packets = pair.client.receive(&open);
    // Each probe that was not acknowledged in time left a congestion window of one packet.
    assert_eq!(kinds(&packets), [0, 0]);
}

#[test]
fn receiver_that_is_full_takes_what_is_missing_and_drops_the_highest() {
    let mut pair = pair(Reach::Established);
    // Nine chunks behind a gap fill the buffer of 10,000; each counts some octets besides its bytes.
    for behind in 1..=10 {
        let data = pair.data(behind, 0, behind as u16, 3, 1000);
        pair.client.receive(&data);
    }
    let discards = pair.client.engine.discards();
    assert!(
        discards.count(DiscardReason::Window) > 0,
        "one beyond all is refused"
    );
    let missing = pair.data(0, 0, 0, 3, 1000);
    let from = Received::new(Path::to(SERVER), &missing);
    let mut deliveries = Deliveries::default();
    let now = pair.client.now;
    pair.client.engine.handle_packet(now, from, &mut deliveries);
    let bytes: usize = deliveries.bytes.len();
    assert!(
        bytes >= 8,
        "the one that was missing, and those behind it: {bytes}"
    );
}

#[test]
fn chunk_that_continues_nothing_aborts() {
    let mut one = pair(Reach::Established);
    let orphan = one.data(0, 0, 0, 0, 10);
    assert_eq!(kinds(&one.client.receive(&orphan)), [6]);
    let mut other = pair(Reach::Established);
    let begun = other.data(0, 0, 0, 2, 10);
    let begun_again = other.data(1, 0, 1, 2, 10);
    other.client.receive(&begun);
    assert_eq!(kinds(&other.client.receive(&begun_again)), [6]);
}

#[test]
fn data_without_bytes_or_for_a_foreign_stream_is_reported() {
    let mut one = pair(Reach::Established);
    let empty = one.data(0, 0, 0, 3, 0);
    let answers = one.client.receive(&empty);
    assert_eq!(kinds(&answers), [6]);
    let mut other = pair(Reach::Established);
    let foreign = other.data(0, 60_000, 0, 3, 4);
    assert_eq!(kinds(&other.client.receive(&foreign)), [3, 9]);
}

#[test]
fn unknown_chunks_are_skipped_or_end_the_packet() {
    let mut pair = pair(Reach::Established);
    let (mut skip, mut stop) = (Vec::new(), Vec::new());
    push_chunk(&mut skip, ChunkType(0xbf), 0, &[1; 4]);
    push_chunk(&mut skip, ChunkType(0xff), 0, &[2; 4]);
    push_chunk(&mut skip, ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    push_chunk(&mut stop, ChunkType(0x7f), 0, &[3; 4]);
    push_chunk(&mut stop, ChunkType::HEARTBEAT, 0, &[0, 1, 0, 4]);
    let packet = pair.packet(pair.to_client, &skip);
    assert_eq!(kinds(&pair.client.receive(&packet)), [9, 5]);
    let packet = pair.packet(pair.to_client, &stop);
    assert_eq!(kinds(&pair.client.receive(&packet)), [9]);
}

#[test]
fn user_abort_reaches_the_peer() {
    let mut pair = pair(Reach::Established);
    let (id, now) = (pair.client.id, pair.client.now);
    pair.client.engine.abort(now, id);
    assert_eq!(pair.client.closed(), Some(CloseReason::Aborted));
    let packets = pair.client.packets();
    assert_eq!(kinds(&packets), [6]);
    pair.server.receive(&packets[0]);
    assert_eq!(pair.server.closed(), Some(CloseReason::Aborted));
    assert_eq!(pair.server.engine.associations_len(), 0);
}
