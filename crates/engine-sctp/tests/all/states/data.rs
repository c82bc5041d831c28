//! Timers, acknowledgements and windows of an association.

use super::*;
use congestion::Congestion;
use core::time::Duration;
use engine_sctp::CongestionChoice;

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

/// So many packets with a message of one byte each arrive together, from number `first` on; the flags of all
/// are B and E and `more`. What is sent then.
fn receive_run(pair: &mut Pair, first: u32, count: u32, more: u8) -> Vec<Packet> {
    let mut deliveries = Deliveries::default();
    for behind in first..first + count {
        let data = pair.data(behind, 0, behind as u16, 3 | more, 1);
        let received = Received::new(Path::to(SERVER), &data);
        let now = pair.client.now;
        pair.client
            .engine
            .handle_packet(now, received, &mut deliveries);
    }
    assert_eq!(deliveries.bytes.len(), count as usize);
    let sent = pair.client.packets();
    pair.client.now = pair.client.now + Duration::from_millis(1);
    sent
}

#[test]
fn two_runs_of_packets_get_one_sack_if_the_peer_asks_where_it_waits() {
    let mut pair = pair(Reach::Established);
    // The first data of all, with flag I: acknowledged at once.
    assert_eq!(kinds(&receive_run(&mut pair, 0, 1, 8)), [3]);
    let none: [u8; 0] = [];
    assert_eq!(kinds(&receive_run(&mut pair, 1, 16, 0)), none, "one run");
    assert_eq!(kinds(&receive_run(&mut pair, 17, 1, 0)), [3], "and another");
    assert_eq!(
        kinds(&receive_run(&mut pair, 18, 15, 0)),
        [3],
        "no long run"
    );
    assert_eq!(kinds(&receive_run(&mut pair, 33, 40, 0)), none);
    assert_eq!(
        kinds(&pair.client.time_out()),
        [3],
        "within the delay of a SACK"
    );
    let mut last = receive_run(&mut pair, 73, 20, 0);
    last.extend(receive_run(&mut pair, 93, 1, 8));
    assert_eq!(kinds(&last), [3], "asked for");
}

#[test]
fn every_run_of_packets_gets_a_sack_if_the_peer_never_asks() {
    let mut pair = pair(Reach::Established);
    assert_eq!(kinds(&receive_run(&mut pair, 0, 1, 0)), [3]);
    for run in 0..4 {
        assert_eq!(kinds(&receive_run(&mut pair, 1 + 40 * run, 40, 0)), [3]);
    }
}

#[test]
fn sender_asks_whenever_half_of_what_may_be_unacknowledged_has_left() {
    let mut pair = pair_with(Reach::Established, |config| SctpConfig {
        congestion: CongestionChoice::Other(Congestion::Off),
        receive_buffer: 1 << 20,
        send_buffer: 100_000,
        ..config
    });
    let id = pair.client.id;
    for count in 1..=100 {
        submit_message(&mut pair.client.engine, id, 1400 * count, &Note::default());
    }
    let packets = pair.client.packets();
    let asks = |packet: &Packet| Chunks::new(packet).any(|chunk| chunk.flags & 8 != 0);
    let asking = packets
        .iter()
        .enumerate()
        .filter(|(_, packet)| asks(packet));
    let asking: Vec<usize> = asking.map(|(index, _)| index).collect();
    // 36 chunks of 1416 octets are the first beyond 50,000.
    assert_eq!(asking, [35, 71]);
}
