//! Tests of messages in the order of the store.

use super::*;
use crate::pdu::DATA_HEADER_LEN;
use crate::pdu::data::{FLAG_BEGIN, FLAG_END};
use crate::tx::MessageRules;
use core::time::Duration;

const FULL: usize = 1444;
const ROOM: usize = FULL + DATA_HEADER_LEN;

fn submit(messages: &mut InOrder, end: u64, is_end: bool, note: &Note) {
    messages.submit(&Submission {
        now: Instant::from_nanos(0),
        end,
        is_end,
        push: true,
        note,
    });
}

fn messages(lengths: &[u64]) -> InOrder {
    let mut messages = InOrder::new(Reliability::Full);
    let mut end = 0;
    for len in lengths {
        end += len;
        submit(&mut messages, end, true, &Note::default());
    }
    messages
}

#[test]
fn small_message_is_not_cut_to_fill_a_packet() {
    let mut messages = messages(&[1000, 1000]);
    let plan = messages.plan(ROOM, FULL, false);
    assert_eq!((plan.octets, plan.first), (1016, 1000));
    let first = messages.cut(ROOM, FULL).expect("a chunk");
    assert_eq!((first.range, first.flags), (0..1000, FLAG_BEGIN | FLAG_END));
    assert_eq!(messages.cut(ROOM - 1016, FULL), None);
    assert_eq!(messages.cut(ROOM, FULL).expect("a chunk").number, 1);
    assert_eq!(messages.unsent(), 0);
}

#[test]
fn long_message_fills_packets_and_its_fragments_share_a_number() {
    let mut messages = messages(&[100, 4000]);
    let (mut flags, mut lens, mut room) = (Vec::new(), Vec::new(), ROOM);
    while messages.unsent() > 0 {
        let Some(cut) = messages.cut(room, FULL) else {
            room = ROOM;
            continue;
        };
        let len = (cut.range.end - cut.range.start) as usize;
        room -= (len + DATA_HEADER_LEN).next_multiple_of(4);
        flags.push(cut.flags);
        lens.push(len);
    }
    assert_eq!(lens, [100, 1328, 1444, 1228]);
    assert_eq!(flags, [3, FLAG_BEGIN, 0, FLAG_END]);
}

#[test]
fn part_filled_packet_waits_although_a_message_without_end_is_behind_it() {
    let mut messages = InOrder::new(Reliability::Full);
    let mut submit = |end, is_end| {
        messages.submit(&Submission {
            now: Instant::from_nanos(0),
            end,
            is_end,
            push: false,
            note: &Note::default(),
        });
        messages.may_leave(ROOM, FULL)
    };
    assert!(!submit(500, true));
    assert!(!submit(1500, false), "its end may be far");
    assert!(submit(1600, true), "it is whole and does not fit");
}

#[test]
fn message_without_end_keeps_a_byte_for_its_end() {
    let mut messages = InOrder::new(Reliability::Full);
    submit(&mut messages, 1444, false, &Note::default());
    assert_eq!(messages.cut(ROOM, FULL), None, "it may fit into one packet");
    submit(&mut messages, 1445, false, &Note::default());
    assert_eq!(messages.cut(ROOM, FULL).expect("a fragment").range, 0..1444);
    assert_eq!(messages.cut(ROOM, FULL), None);
    submit(&mut messages, 1445, true, &Note::default());
    let last = messages.cut(ROOM, FULL).expect("the end");
    assert_eq!((last.range, last.flags), (1444..1445, FLAG_END));
}

#[test]
fn plain_messages_go_to_streams_in_turn_and_noted_ones_where_they_say() {
    let mut messages = InOrder::new(Reliability::Full);
    messages.numbering.rules = MessageRules {
        streams: 3,
        spread: true,
        ..MessageRules::default()
    };
    let noted = Note {
        stream: 2,
        tag: Some(51),
        unordered: true,
        ..Note::default()
    };
    for (end, note) in [(1, Note::default()), (2, noted), (3, Note::default())] {
        submit(&mut messages, end, true, &note);
    }
    let cuts: Vec<Cut> = (0..3).filter_map(|_| messages.cut(ROOM, FULL)).collect();
    let seen = cuts.iter().map(|cut| (cut.stream.0, cut.ppid, cut.flags));
    assert!(seen.eq([(0, 0, 3), (2, 51, 7), (1, 0, 3)]));
}

#[test]
fn message_for_a_stream_that_does_not_exist_is_skipped() {
    let mut messages = InOrder::new(Reliability::Full);
    let note = Note {
        stream: 1,
        ..Note::default()
    };
    submit(&mut messages, 5, true, &note);
    submit(&mut messages, 9, true, &Note::default());
    assert_eq!(messages.next(ROOM, FULL), Some(4));
    let dropped = messages.dropped.pop_front();
    assert_eq!(dropped, Some(Dropped { range: 0..5, note }));
    assert_eq!(messages.dropped, []);
    assert_eq!(messages.cut(ROOM, FULL).expect("a chunk").range, 5..9);
}

fn with(reliability: Reliability) -> Note {
    Note {
        reliability,
        ..Note::default()
    }
}

/// Messages of 10 bytes with these notes, where messages may be given up.
fn partial(notes: &[Note]) -> InOrder {
    let mut messages = InOrder::new(Reliability::Full);
    messages.numbering.rules.partial_reliability = true;
    for (index, note) in notes.iter().enumerate() {
        submit(&mut messages, 10 * (index as u64 + 1), true, note);
    }
    messages
}

fn dropped(messages: &mut InOrder) -> Vec<(u64, u64)> {
    messages
        .dropped
        .drain(..)
        .map(|message| (message.range.start, message.range.end))
        .collect()
}

#[test]
fn messages_whose_life_is_over_are_not_sent() {
    let life = |ms| with(Reliability::Lifetime(Duration::from_millis(ms)));
    let notes = [life(5), Note::default(), life(5), life(50)];
    let mut messages = partial(&notes);
    assert_eq!(
        messages.next_deadline(),
        Some(Instant::from_nanos(5_000_000))
    );
    messages.now = Instant::from_nanos(5_000_000);
    let mut sent = Vec::new();
    while messages.next(ROOM, FULL).is_some() {
        sent.push(messages.cut(ROOM, FULL).expect("it was said").range);
    }
    assert_eq!(sent, [10..20, 30..40]);
    assert_eq!(dropped(&mut messages), [(0, 10), (20, 30)]);
    assert_eq!(messages.unsent(), 0);
}

#[test]
fn lives_end_only_where_both_ends_agree() {
    let life = with(Reliability::Lifetime(Duration::from_millis(5)));
    let mut messages = partial(&[life]);
    messages.numbering.rules.partial_reliability = false;
    messages.now = Instant::from_nanos(5_000_000);
    assert_eq!(messages.next(ROOM, FULL), Some(10));
    assert_eq!(messages.next_deadline(), None);
    let cut = messages.cut(ROOM, FULL).expect("it was said");
    assert_eq!(cut.tracked, None, "nothing is to be known of it later");
}

#[test]
fn oldest_message_of_the_highest_value_makes_room() {
    let notes = [3, 7, 1, 7].map(|value| with(Reliability::Priority(value)));
    let mut messages = partial(&notes);
    assert!(messages.drop_above(3));
    assert_eq!(
        (dropped(&mut messages), messages.unsent()),
        (vec![(10, 20)], 30)
    );
    assert!(messages.drop_above(3));
    assert_eq!(dropped(&mut messages), [(30, 40)]);
    assert!(!messages.drop_above(3), "3 is not above 3");
    let mut sent = Vec::new();
    while messages.next(ROOM, FULL).is_some() {
        sent.push(messages.cut(ROOM, FULL).expect("it was said").range);
    }
    assert_eq!(sent, [0..10, 20..30]);
    assert_eq!((messages.unsent(), dropped(&mut messages)), (0, vec![]));
    assert!(!messages.drop_above(0), "what was sent makes no room");
}

#[test]
fn rest_of_a_message_begun_is_dropped_with_it() {
    let mut messages = InOrder::new(Reliability::Retransmissions(0));
    messages.numbering.rules.partial_reliability = true;
    submit(&mut messages, 4000, true, &Note::default());
    submit(&mut messages, 4100, true, &Note::default());
    let cut = messages.cut(ROOM, FULL).expect("a fragment");
    let tracked = cut.tracked.expect("it may be given up");
    assert_eq!((tracked.range, tracked.has_end), (0..4000, true));
    assert_eq!(messages.drop_rest(1), None, "another message");
    let rest = messages.drop_rest(0).expect("the rest of it");
    assert_eq!(
        (rest.range, rest.flags, rest.number),
        (1444..4000, FLAG_END, 0)
    );
    let next = messages.cut(ROOM, FULL).expect("the next one");
    assert_eq!((next.range, next.number), (4000..4100, 1));
}

#[test]
fn unsent_messages_are_taken_with_their_notes() {
    let context = Note {
        context: 9,
        ..Note::default()
    };
    let mut messages = partial(&[Note::default(), context]);
    submit(&mut messages, 25, false, &Note::default());
    let taken: Vec<_> = messages
        .take_unsent()
        .into_iter()
        .map(|(message, begun)| (message.range, message.note.context, begun))
        .collect();
    assert_eq!(
        taken,
        [(0..10, 0, false), (10..20, 9, false), (20..25, 0, false)]
    );
}
