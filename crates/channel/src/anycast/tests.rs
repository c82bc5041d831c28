//! Rings whose messages receivers share out: each message comes to one of them; ends that are gone, and words of any value.

use super::*;
use crate::ring::{Arrival, NextMessage};
use crate::sync::Ordering;
use crate::wait::Signal;
use crate::{ChannelError, Geometry};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn sender(slots: u32, signal: Signal) -> AnycastSender {
    AnycastSender::create(Geometry::new(64, slots).unwrap(), signal).unwrap()
}

fn joined(sender: &mut AnycastSender, signal: Signal) -> AnycastReceiver {
    let (near, far) = UnixStream::pair().unwrap();
    sender.admit(near).unwrap();
    AnycastReceiver::join(far, signal).unwrap()
}

fn ring(slots: u32, receivers: usize) -> (AnycastSender, Vec<AnycastReceiver>) {
    let mut sender = sender(slots, Signal::Futex);
    let receivers = (0..receivers).map(|_| joined(&mut sender, Signal::Futex));
    let receivers = receivers.collect();
    (sender, receivers)
}

/// Octets that say their message's number, of lengths that begin and end anywhere in the ring.
fn message(number: u32) -> Vec<u8> {
    let len = 4 + number as usize * 37 % 300;
    let mut octets = vec![number as u8; len];
    octets[..4].copy_from_slice(&number.to_le_bytes());
    octets
}

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
    let mut sender = sender(16, signal);
    let receivers: Vec<_> = (0..3).map(|_| joined(&mut sender, signal)).collect();
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
    let (mut sender, mut receivers) = ring(4, 2);
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
    let (mut sender, mut receivers) = ring(4, 3);
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
fn sender_that_is_gone_leaves_what_it_committed_and_then_an_error() {
    let (mut sender, mut receivers) = ring(4, 2);
    assert!(sender.send(b"last", LONG).unwrap());
    sender.forsake();
    assert_eq!(receivers[0].receive().unwrap().unwrap().to_vec(), b"last");
    for receiver in &mut receivers {
        assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    }
}

#[test]
fn sender_without_receivers_and_messages_beyond_the_ring_are_refused() {
    let mut alone = sender(4, Signal::Futex);
    let sent = alone.send(b"x", LONG);
    assert!(matches!(sent, Err(ChannelError::PeerGone)), "{sent:?}");
    let _one = joined(&mut alone, Signal::Futex);
    let long = alone.send(&[0; 257], LONG);
    let expected = matches!(long, Err(ChannelError::TooLong { len: 257, max: 256 }));
    assert!(expected, "{long:?}");
}

#[test]
fn receivers_beyond_the_limit_are_refused_in_one_line() {
    let (mut sender, _receivers) = ring(4, ANYCAST_RECEIVERS_MAX as usize);
    let (near, _far) = UnixStream::pair().unwrap();
    let refused = sender.admit(near).unwrap_err();
    assert!(matches!(refused, ChannelError::ReceiversFull));
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

/// Positions and lengths of any value end in messages within the ring, in an error, or in no room.
#[test]
fn words_of_any_value_are_refused_or_read_within_the_ring() {
    let mut random = engine::SplitMix64::new(7);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let (mut sender, mut receivers) = ring(4, 2);
        assert!(sender.send(b"first", Duration::ZERO).unwrap());
        let mut draw = |small: u64| match random.below(8) {
            0 => random.next_u64() as u32,
            _ => random.below(small) as u32,
        };
        let word = |offset: usize, value: u32| {
            let word = sender.segment().word(offset);
            word.store(value, Ordering::Release);
        };
        for slot in 0..4 {
            word(sender.geometry().length_offset(slot), draw(150));
        }
        word(HEAD, draw(6));
        word(CLAIMED, draw(3));
        word(held_of(1), draw(6));
        word(ASLEEP, draw(100));
        for _ in 0..4 {
            match receivers[0].receive_within(Duration::ZERO) {
                Ok(NextMessage::Message(message)) => {
                    assert!(message.to_vec().len() <= 256);
                    read += 1;
                }
                Ok(_) => break,
                Err(error) => {
                    assert!(matches!(error, ChannelError::Corrupt { .. }), "{error}");
                    refused += 1;
                    break;
                }
            }
        }
        match sender.send(&[0; 200], Duration::ZERO) {
            Ok(_) => {}
            Err(ChannelError::Corrupt { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 50 && read > 100, "{refused} {read}");
}
