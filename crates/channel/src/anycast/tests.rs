//! Rings whose messages receivers share out: each message comes to one of them; ends that are gone, and words of any value.

use super::*;
use crate::fanout::test_kit::{LONG, message, ring};
use crate::fanout::{NEVER, NOBODY};
use crate::ring::Arrival;
use crate::wait::Signal;
use std::thread;
use std::time::Duration;

/// What a receiver gets until the end: the messages' numbers.
fn numbers(mut receiver: AnycastReceiver) -> Vec<u32> {
    let mut got = Vec::new();
    while let Some(slots) = receiver.receive().unwrap() {
        let octets = slots.to_vec();
        let number = u32::from_le_bytes(*octets.first_chunk().unwrap());
        assert_eq!(octets, message(number));
        got.push(number);
    }
    got
}

fn each_message_comes_to_one(signal: Signal) {
    const COUNT: u32 = 3000;
    let (mut sender, receivers): (AnycastSender, _) = ring(16, 3, signal);
    let receivers = receivers.into_iter();
    let receiving: Vec<_> = receivers
        .map(|one| thread::spawn(move || numbers(one)))
        .collect();
    for number in 0..COUNT {
        assert!(sender.send(&message(number), LONG).unwrap());
    }
    assert_eq!((sender.receivers(), sender.killed()), (3, 0));
    drop(sender);
    let mut all = Vec::new();
    for thread in receiving {
        let got = thread.join().unwrap();
        assert!(got.is_sorted(), "the ring's order");
        all.extend(got);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..COUNT), "each once");
}

#[test]
fn each_message_comes_to_one_of_three_sleeping_receivers() {
    each_message_comes_to_one(Signal::Futex);
}

#[test]
fn each_message_comes_to_one_of_three_spinning_receivers() {
    each_message_comes_to_one(Signal::Spin);
}

#[test]
fn receiver_that_is_busy_gets_nothing_and_keeps_its_message() {
    let (mut sender, mut receivers): (AnycastSender, _) = ring(4, 2, Signal::Futex);
    let [busy, free] = &mut receivers[..] else {
        panic!("two of them")
    };
    for text in [&b"one"[..], b"two", b"three"] {
        assert!(sender.send(text, Duration::ZERO).unwrap());
    }
    let kept = busy.receive().unwrap().unwrap();
    for text in [&b"two"[..], b"three"] {
        assert_eq!(free.receive().unwrap().unwrap().to_vec(), text);
    }
    assert_eq!(
        free.wait_for_message(Duration::ZERO).unwrap(),
        Arrival::Nothing
    );
    // Three slots are behind what is held.
    assert!(sender.send(b"four", Duration::ZERO).unwrap());
    assert!(!sender.send(b"five", Duration::from_millis(1)).unwrap());
    assert_eq!(kept.to_vec(), b"one");
    drop(kept);
    assert!(sender.send(b"five", Duration::ZERO).unwrap());
}

#[test]
fn receiver_that_closes_or_is_gone_with_a_message_holds_nobody_back() {
    let (mut sender, mut receivers): (AnycastSender, _) = ring(4, 3, Signal::Futex);
    for number in 0..4 {
        assert!(sender.send(&[number], Duration::ZERO).unwrap());
    }
    let mut gone = receivers.remove(0);
    // Its lifeline hangs up without a close and with a claim, as that of a killed process.
    std::mem::forget(gone.receive().unwrap().unwrap());
    gone.forsake();
    let mut closes = receivers.remove(0);
    std::mem::forget(closes.receive().unwrap().unwrap());
    drop(closes);
    for number in 2..4 {
        assert_eq!(receivers[0].receive().unwrap().unwrap().to_vec(), [number]);
    }
    assert!(sender.send(&[0; 256], LONG).unwrap());
    assert_eq!((sender.receivers(), sender.killed()), (1, 1));
    drop(receivers);
    let sent = sender.send(&[0; 256], LONG);
    assert!(matches!(sent, Err(ChannelError::PeerGone)), "{sent:?}");
}

#[test]
fn wish_is_reached_around_the_end_of_all_numbers() {
    for position in [0, 5, (1 << 31) - 1, u32::MAX - 2, 1 << 31] {
        let reached = [-4, -1, 0, 1, 4_i32].map(|offset| {
            let other = position.wrapping_add_signed(offset);
            is_reached(wish(position), other)
        });
        assert_eq!(reached, [false, false, true, true, true], "{position}");
        assert!(!is_reached(NOBODY, position) && !is_reached(NEVER, position));
    }
}
