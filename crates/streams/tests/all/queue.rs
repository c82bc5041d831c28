//! Each operation of a queue, as its table says.

use crate::kit::{marks, octets};
use streams::{FlushScope, Hysteresis, Message, MessageKind, Pool, Queue};

fn queue(high: usize, low: usize, hysteresis: Hysteresis) -> Queue {
    Queue::new(marks(high, low), hysteresis)
}

fn data(text: &str) -> Message {
    Message::data(Pool::default().copy(0, text.as_bytes()))
}

fn high(text: &str) -> Message {
    Message::high_proto(Pool::default().copy(0, text.as_bytes()))
}

fn drain(queue: &mut Queue) -> Vec<String> {
    let messages = std::iter::from_fn(|| queue.get());
    messages
        .map(|(message, _)| String::from_utf8(octets(&message)).unwrap())
        .collect()
}

#[test]
fn get_returns_high_priority_then_bands_from_above_then_the_rest_in_order() {
    let mut queue = queue(1000, 10, Hysteresis::Full);
    queue.put(data("n1"));
    queue.put(data("b1").in_band(1));
    queue.put(high("h1"));
    queue.put(data("b9").in_band(9));
    queue.put(data("n2"));
    queue.put(data("B1").in_band(1));
    queue.put(high("h2"));
    assert_eq!(
        drain(&mut queue),
        ["h1", "h2", "b9", "b1", "B1", "n1", "n2"]
    );
}

#[test]
fn put_back_goes_in_front_of_its_class() {
    let mut queue = queue(1000, 10, Hysteresis::Full);
    for text in ["n1", "n2"] {
        queue.put(data(text));
    }
    queue.put(data("b1").in_band(1));
    let (first, _) = queue.get().unwrap();
    assert!(!queue.put_back(first), "the reader found something last");
    queue.put_back(data("n0"));
    assert_eq!(drain(&mut queue), ["b1", "n0", "n1", "n2"]);
}

#[test]
fn put_schedules_when_the_reader_found_nothing() {
    let mut queue = queue(1000, 10, Hysteresis::Full);
    assert!(queue.put(data("first")), "nobody read yet");
    let _ = queue.get();
    assert!(!queue.put(data("second")), "the last get found a message");
    let _ = queue.get();
    assert!(queue.get().is_none());
    assert!(queue.put(data("third")), "the last get found nothing");
}

#[test]
fn put_schedules_for_bands_and_high_priority_at_any_time() {
    let mut queue = queue(1000, 10, Hysteresis::Full);
    queue.put(data("first"));
    let _ = queue.get();
    assert!(queue.put(data("band").in_band(2)));
    queue.set_no_enable(true);
    assert!(!queue.put(data("band").in_band(2)));
    assert!(queue.put(high("high")));
}

#[test]
fn put_back_schedules_only_when_the_reader_found_nothing() {
    let mut queue = queue(1000, 10, Hysteresis::Full);
    queue.put(high("high"));
    let (message, _) = queue.get().unwrap();
    assert!(
        !queue.put_back(message),
        "a procedure that puts back would run for ever"
    );
}

#[test]
fn band_is_full_at_its_high_mark_alone() {
    let mut queue = queue(4, 2, Hysteresis::Full);
    queue.put(data("abc"));
    assert!(queue.has_room(0));
    queue.put(data("d"));
    assert!(!queue.has_room(0), "4 octets of 4");
    assert!(queue.has_room(1));
    queue.put(data("wxyz").in_band(1));
    assert!(!queue.has_room(1));
    assert!(queue.has_room(2), "a band that is not there has room");
}

#[test]
fn empty_messages_fill_a_queue() {
    let mut queue = queue(3, 1, Hysteresis::Full);
    for _ in 0..3 {
        assert!(queue.has_room(0));
        queue.put(Message::new(MessageKind::Data));
    }
    assert!(!queue.has_room(0));
}

/// Takes messages of one octet from a queue of marks 4/2 that refused a writer; returns after how
/// many it has room, and after how many the refused is woken.
fn after_refusal(hysteresis: Hysteresis) -> (usize, usize) {
    let mut queue = queue(4, 2, hysteresis);
    for _ in 0..4 {
        queue.put(data("x"));
    }
    assert!(!queue.has_room(0));
    let (mut room, mut woken) = (0, 0);
    for taken in 1..=4 {
        let (_, wake) = queue.get().unwrap();
        if !queue.is_full(0) && room == 0 {
            room = taken;
        }
        if wake.0 {
            assert_eq!(woken, 0, "woken once");
            woken = taken;
        }
    }
    (room, woken)
}

#[test]
fn hysteresis_decides_when_there_is_room_and_when_the_refused_is_woken() {
    assert_eq!(after_refusal(Hysteresis::Full), (3, 3));
    assert_eq!(after_refusal(Hysteresis::Wake), (1, 3));
    assert_eq!(after_refusal(Hysteresis::Off), (1, 1));
}

#[test]
fn nobody_is_woken_who_was_not_refused() {
    let mut queue = queue(2, 1, Hysteresis::Full);
    queue.put(data("ab"));
    let (_, woken) = queue.get().unwrap();
    assert!(!woken.0);
}

#[test]
fn flush_of_data_leaves_what_is_none_in_order() {
    let (mut pool, mut queue) = (Pool::default(), queue(2, 1, Hysteresis::Full));
    queue.put(data("ab"));
    queue.put(Message::new(MessageKind::Signal));
    queue.put(high("high"));
    queue.put(Message::new(MessageKind::Start));
    assert!(!queue.has_room(0));
    let woken = queue.flush(FlushScope::Data, &mut pool);
    let left = std::iter::from_fn(|| queue.get()).map(|(message, _)| message.kind());
    assert_eq!(
        left.collect::<Vec<_>>(),
        [MessageKind::Start, MessageKind::Signal]
    );
    assert!(!woken.0, "two blocks are left of a low mark of 1");
}

#[test]
fn flush_of_a_band_empties_that_band_and_wakes() {
    let (mut pool, mut queue) = (Pool::default(), queue(2, 1, Hysteresis::Full));
    queue.put(data("n"));
    queue.put(data("bb").in_band(3));
    assert!(!queue.has_room(3));
    assert!(queue.flush_band(3, FlushScope::Data, &mut pool).0);
    assert!(
        !queue.flush_band(7, FlushScope::All, &mut pool).0,
        "no such band"
    );
    queue.put(high("h"));
    queue.flush_band(0, FlushScope::All, &mut pool);
    assert!(queue.is_empty(), "band 0 and what has high priority");
}

#[test]
fn new_marks_wake_who_has_room_now() {
    let mut queue = queue(2, 1, Hysteresis::Full);
    queue.put(data("abc"));
    assert!(!queue.has_room(0));
    assert!(queue.set_marks(0, marks(100, 50)).0);
    assert!(queue.has_room(0));
    assert!(!queue.set_marks(0, marks(3, 1)).0);
    assert!(!queue.has_room(0), "3 octets of 3");
}

/// Makes a message of a class.
type Make = fn(&str) -> Message;

/// insq: a place within the class of a message, and no other.
#[test]
fn message_is_inserted_where_its_class_is() {
    let fresh = || {
        let mut queue = queue(1000, 10, Hysteresis::Full);
        for message in [data("n1"), data("b1").in_band(1), high("h1"), data("n2")] {
            queue.put(message);
        }
        queue
    };
    let expected: [(Make, &[usize]); 4] = [
        (high, &[0, 1]),
        (|text| data(text).in_band(1), &[1, 2]),
        (data, &[2, 3, 4]),
        // A band that is not there yet.
        (|text| data(text).in_band(9), &[1]),
    ];
    for (message, places) in expected {
        for at in 0..=6 {
            let mut queue = fresh();
            let taken = queue.insert(at, message("new"));
            assert_eq!(taken.is_ok(), places.contains(&at), "{at}");
            let kept: Vec<_> = queue.iter().map(octets).collect();
            let order = drain(&mut queue);
            assert_eq!(
                kept,
                order.iter().map(|text| text.as_bytes()).collect::<Vec<_>>()
            );
            assert_eq!(
                order.iter().position(|text| text == "new"),
                taken.ok().map(|_| at)
            );
            assert_eq!(
                queue.octets(0) + queue.octets(1) + queue.octets(9),
                0,
                "all was counted"
            );
        }
    }
}

#[test]
fn inserted_message_counts_and_schedules_only_for_a_reader_that_found_nothing() {
    let mut queue = queue(4, 2, Hysteresis::Full);
    assert_eq!(
        queue.insert(0, data("abcd")).ok(),
        Some(true),
        "nobody read yet"
    );
    assert!(!queue.has_room(0), "4 octets of 4");
    let _ = queue.get();
    assert_eq!(queue.insert(0, high("h")).ok(), Some(false));
    let _ = (queue.get(), queue.get());
    queue.set_no_enable(true);
    assert_eq!(queue.insert(0, high("h")).ok(), Some(false), "unlike a put");
}
