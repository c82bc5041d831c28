//! Tests of the schedulers.

use super::*;
use crate::pdu::DATA_HEADER_LEN;
use crate::tx::MessageRules;
use core::time::Duration;
use engine::Note;

const FULL: usize = 1000;
const ROOM: usize = FULL + DATA_HEADER_LEN;

/// A queue of messages, each of a stream and a length.
fn queue(scheduler: Scheduler, interleave: bool, messages: &[(u16, u64)]) -> Scheduled {
    let mut queue = Scheduled::new(scheduler, Reliability::Full);
    let mut end = 0;
    for &(stream, len) in messages {
        end += len;
        submit(&mut queue, end, &on(stream));
    }
    queue.numbering.rules = MessageRules {
        streams: 10,
        interleave,
        partial_reliability: true,
        ..MessageRules::default()
    };
    queue
}

fn on(stream: u16) -> Note {
    Note {
        stream,
        ..Note::default()
    }
}

fn submit(queue: &mut Scheduled, end: u64, note: &Note) {
    queue.submit(&Submission {
        now: Instant::from_nanos(0),
        end,
        is_end: true,
        push: true,
        note,
    });
}

/// The streams of all chunks, packet by packet.
fn packets(queue: &mut Scheduled) -> Vec<Vec<u16>> {
    let mut packets = Vec::new();
    loop {
        queue.begin_packet();
        let (mut room, mut packet) = (ROOM, Vec::new());
        while queue.next(room, FULL).is_some() {
            let cut = queue.cut(room, FULL).expect("it was said");
            packet.push(cut.stream.0);
            let len = (cut.range.end - cut.range.start) as usize;
            room -= (len + DATA_HEADER_LEN).next_multiple_of(4);
        }
        if packet.is_empty() {
            assert_eq!(queue.unsent(), 0);
            return packets;
        }
        packets.push(packet);
    }
}

fn streams(queue: &mut Scheduled) -> Vec<u16> {
    packets(queue).concat()
}

#[test]
fn round_robin_takes_a_message_of_each_stream_in_turn() {
    let waiting = [(1, 100), (1, 100), (1, 100), (2, 100), (2, 100), (3, 100)];
    let mut queue = queue(Scheduler::RoundRobin, false, &waiting);
    assert_eq!(streams(&mut queue), [1, 2, 3, 1, 2, 1]);
}

#[test]
fn message_goes_on_to_its_end_unless_it_is_interleaved() {
    let waiting = [(1, 3000), (2, 100), (3, 100)];
    for scheduler in [
        Scheduler::RoundRobin,
        Scheduler::RoundRobinPacket,
        Scheduler::FairBandwidth,
    ] {
        let mut plain = queue(scheduler, false, &waiting);
        assert_eq!(streams(&mut plain), [1, 1, 1, 2, 3], "{scheduler:?}");
        let mut interleaved = queue(scheduler, true, &waiting);
        // The rest of the long one fills the packet of the others, if they may share it.
        let shares = scheduler != Scheduler::RoundRobinPacket;
        let expected: &[u16] = match shares {
            true => &[1, 2, 3, 1, 1, 1],
            false => &[1, 2, 3, 1, 1],
        };
        assert_eq!(streams(&mut interleaved), expected, "{scheduler:?}");
    }
}

#[test]
fn packet_of_round_robin_per_packet_has_one_stream() {
    let waiting = [(1, 100), (2, 100), (1, 100), (2, 100), (1, 900)];
    let mut queue = queue(Scheduler::RoundRobinPacket, false, &waiting);
    assert_eq!(packets(&mut queue), [vec![1, 1], vec![2, 2], vec![1]]);
}

#[test]
fn priority_serves_the_lowest_value_first_and_may_interrupt() {
    let waiting = [(5, 3000), (3, 100), (5, 100)];
    let mut numbers = queue(Scheduler::Priority, false, &waiting);
    assert_eq!(streams(&mut numbers), [3, 5, 5, 5, 5, 5]);
    let mut chosen = queue(Scheduler::Priority, true, &waiting);
    assert!(chosen.set_value(5, 2));
    assert_eq!(chosen.next(ROOM, FULL), Some(1000));
    assert_eq!(chosen.cut(ROOM, FULL).expect("a chunk").stream.0, 5);
    let urgent = 3300;
    submit(&mut chosen, urgent, &on(1));
    assert_eq!(streams(&mut chosen), [1, 5, 5, 5, 5, 3]);
}

#[test]
fn fair_bandwidth_counts_octets_and_not_messages() {
    let long = [(1, 1000); 4];
    let short = [(2, 100); 20];
    let mut queue = queue(
        Scheduler::FairBandwidth,
        false,
        &[&long[..], &short].concat(),
    );
    let order = streams(&mut queue);
    let before_third_long: Vec<u16> = order
        .iter()
        .copied()
        .take_while({
            let mut seen = 0;
            move |stream| {
                seen += u32::from(*stream == 1);
                seen < 3
            }
        })
        .collect();
    let shorts = before_third_long
        .iter()
        .filter(|stream| **stream == 2)
        .count();
    assert!((19..=20).contains(&shorts), "{order:?}");
}

#[test]
fn weights_divide_the_octets() {
    let mut waiting = [(0, 500); 40].to_vec();
    waiting.extend([(1, 500); 40]);
    waiting.extend([(2, 500); 40]);
    let mut by_number = queue(Scheduler::Weighted, false, &waiting);
    let count = |order: &[u16], stream| order.iter().filter(|one| **one == stream).count();
    let order = streams(&mut by_number);
    let first = &order[..36];
    assert_eq!([0, 1, 2].map(|stream| count(first, stream)), [6, 12, 18]);
    let mut chosen = queue(Scheduler::Weighted, false, &waiting);
    assert!(!chosen.set_value(0, 0), "nobody has no share");
    for (stream, weight) in [(0, 4), (1, 1), (2, 1)] {
        assert!(chosen.set_value(stream, weight));
    }
    let order = streams(&mut chosen);
    assert_eq!(
        [0, 1, 2].map(|stream| count(&order[..36], stream)),
        [24, 6, 6]
    );
}

#[test]
fn stream_that_was_silent_gets_no_more_than_its_share_later() {
    let mut queue = queue(Scheduler::FairBandwidth, false, &[(1, 500); 10]);
    assert_eq!(streams(&mut queue).len(), 10);
    let mut end = 5000;
    for stream in [2, 1, 2, 1, 2, 1] {
        end += 500;
        submit(&mut queue, end, &on(stream));
    }
    let order = streams(&mut queue);
    assert_eq!(
        order[..4].iter().filter(|stream| **stream == 1).count(),
        2,
        "{order:?}"
    );
}

#[test]
fn messages_that_are_over_leave_their_streams() {
    let mut queue = queue(Scheduler::RoundRobin, false, &[(1, 100)]);
    let note = |stream, reliability| Note {
        reliability,
        ..on(stream)
    };
    let life = Reliability::Lifetime(Duration::from_millis(1));
    submit(&mut queue, 200, &note(2, life));
    submit(&mut queue, 300, &note(2, Reliability::Priority(4)));
    submit(&mut queue, 400, &note(3, Reliability::Priority(9)));
    submit(&mut queue, 500, &note(11, Reliability::Full));
    queue.now = Instant::from_nanos(1_000_000);
    assert!(queue.drop_above(4));
    assert!(!queue.drop_above(4));
    assert_eq!(streams(&mut queue), [1, 2]);
    let gone: Vec<u64> = queue.dropped.iter().map(|one| one.range.start).collect();
    assert_eq!(
        gone,
        [400, 300, 100],
        "no such stream, for another one, too late"
    );
}

#[test]
fn rest_of_a_message_that_was_begun_goes_with_it() {
    let mut queue = queue(
        Scheduler::RoundRobin,
        false,
        &[(1, 3000), (1, 100), (2, 100)],
    );
    assert_eq!(queue.next(ROOM, FULL), Some(1000));
    queue.cut(ROOM, FULL).expect("a chunk");
    assert_eq!(queue.drop_rest(1), None);
    let rest = queue.drop_rest(0).expect("the rest of it");
    assert_eq!((rest.range, rest.stream.0, rest.number), (1000..3000, 1, 0));
    assert_eq!(streams(&mut queue).len(), 2);
    let mut taken = queue_with_a_begun_message();
    let unsent: Vec<_> = taken
        .take_unsent()
        .into_iter()
        .map(|(one, begun)| (one.range, begun))
        .collect();
    assert_eq!(unsent, [(1000..3000, true), (3000..3100, false)]);
}

fn queue_with_a_begun_message() -> Scheduled {
    let mut queue = queue(Scheduler::RoundRobin, true, &[(1, 3000), (2, 100)]);
    assert_eq!(queue.next(ROOM, FULL), Some(1000));
    queue.cut(ROOM, FULL).expect("a chunk");
    queue
}
