//! Rings of many receivers: each gets all in order; the slowest counts; ends that are gone, and words of any value.

use super::*;
use crate::ring::Arrival;
use crate::sync::Ordering;
use crate::wait::Signal;
use crate::{ChannelError, Geometry};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn sender(slots: u32, signal: Signal) -> BroadcastSender {
    BroadcastSender::create(Geometry::new(64, slots).unwrap(), signal).unwrap()
}

fn joined(sender: &mut BroadcastSender, signal: Signal) -> BroadcastReceiver {
    let (near, far) = UnixStream::pair().unwrap();
    sender.admit(near).unwrap();
    BroadcastReceiver::join(far, signal).unwrap()
}

fn ring(slots: u32, receivers: usize) -> (BroadcastSender, Vec<BroadcastReceiver>) {
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

fn each_gets_all(signal: Signal) {
    const COUNT: u32 = 2000;
    let mut sender = sender(16, signal);
    let receivers: Vec<_> = (0..3).map(|_| joined(&mut sender, signal)).collect();
    let receiving = receivers.into_iter().map(|mut receiver| {
        thread::spawn(move || {
            for number in 0..COUNT {
                let got = receiver.receive().unwrap().expect("not the end");
                assert_eq!(got.to_vec(), message(number));
            }
            assert!(receiver.receive().unwrap().is_none(), "the end");
        })
    });
    let receiving: Vec<_> = receiving.collect();
    for number in 0..COUNT {
        assert!(sender.send(&message(number), LONG).unwrap());
    }
    assert_eq!((sender.receivers(), sender.killed()), (3, 0));
    drop(sender);
    receiving
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn each_of_three_sleeping_receivers_gets_every_message_once_in_order() {
    each_gets_all(Signal::Futex);
}

#[test]
fn each_of_three_spinning_receivers_gets_every_message_once_in_order() {
    each_gets_all(Signal::Spin);
}

#[test]
fn slowest_receiver_holds_the_sender_back_until_it_reads() {
    let (mut sender, mut receivers) = ring(2, 2);
    for _ in 0..2 {
        assert!(sender.send(b"x", Duration::ZERO).unwrap());
        drop(receivers[0].receive().unwrap().unwrap());
    }
    assert_eq!(receivers[0].look().unwrap(), Arrival::Nothing);
    assert!(!sender.send(b"y", Duration::from_millis(1)).unwrap());
    drop(receivers[1].receive().unwrap().unwrap());
    assert!(sender.send(b"y", Duration::ZERO).unwrap());
    assert_eq!(receivers[0].receive().unwrap().unwrap().to_vec(), b"y");
    assert_eq!(receivers[1].receive().unwrap().unwrap().to_vec(), b"x");
}

#[test]
fn receiver_that_closed_or_is_gone_holds_nobody_back() {
    let (mut sender, mut receivers) = ring(2, 2);
    let (near, far) = UnixStream::pair().unwrap();
    assert_eq!(sender.admit(near).unwrap(), 2);
    // As if the process of the third were killed before it joined.
    drop(far);
    drop(receivers.remove(0));
    for number in 0..20_u8 {
        assert!(sender.send(&[number], LONG).unwrap());
        assert_eq!(receivers[0].receive().unwrap().unwrap().to_vec(), [number]);
    }
    assert_eq!((sender.receivers(), sender.killed()), (1, 1));
    receivers.clear();
    let sent = (0..3).find_map(|_| sender.send(b"x", LONG).err());
    assert!(matches!(sent, Some(ChannelError::PeerGone)), "{sent:?}");
    assert_eq!((sender.receivers(), sender.killed()), (0, 1));
}

#[test]
fn receiver_gets_what_is_sent_after_its_admission() {
    let (mut sender, mut receivers) = ring(4, 1);
    for number in 0..7_u8 {
        assert!(sender.send(&[number], Duration::ZERO).unwrap());
        drop(receivers[0].receive().unwrap().unwrap());
    }
    let mut late = joined(&mut sender, Signal::Futex);
    assert_eq!(late.number(), 1);
    assert_eq!(late.look().unwrap(), Arrival::Nothing);
    assert!(sender.send(b"new", Duration::ZERO).unwrap());
    assert_eq!(late.receive().unwrap().unwrap().to_vec(), b"new");
}

#[test]
fn sender_that_is_gone_leaves_what_it_committed_and_then_an_error() {
    let (mut sender, mut receivers) = ring(4, 2);
    assert!(sender.send(b"last", LONG).unwrap());
    // Its lifelines hang up without a close, as those of a killed process.
    sender.forsake();
    for receiver in &mut receivers {
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"last");
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
    assert!(
        matches!(long, Err(ChannelError::TooLong { len: 257, max: 256 })),
        "{long:?}"
    );
}

#[test]
fn receivers_beyond_the_limit_are_refused_in_one_line() {
    let (mut sender, _receivers) = ring(4, BROADCAST_RECEIVERS_MAX as usize);
    let (near, _far) = UnixStream::pair().unwrap();
    let refused = sender.admit(near).unwrap_err();
    assert!(matches!(refused, ChannelError::ReceiversFull));
    assert!(refused.to_string().contains("24"), "{refused}");
}

#[test]
fn position_is_wanted_of_one_receiver_and_reached_around_the_end_of_all_numbers() {
    for position in [0, 5, (1 << 27) - 2, u32::MAX - 2, 1 << 31] {
        let wanted = Wanted::of(3, position);
        assert!(wanted.is_of(3) && !wanted.is_of(2));
        let reached = [-4, -1, 0, 1, 4_i32].map(|offset| {
            let other = position.wrapping_add_signed(offset);
            wanted.is_reached(other)
        });
        assert_eq!(reached, [false, false, true, true, true], "{position}");
    }
    assert!(!Wanted(NOBODY).is_of(0) && !Wanted(NEVER).is_of(BROADCAST_RECEIVERS_MAX - 1));
}

/// A sender that sleeps is not woken by each message, but by a quarter of the ring, or by all there is.
#[test]
fn sleeping_sender_is_woken_once_for_a_quarter_of_the_ring() {
    let (mut sender, mut receivers) = ring(64, 1);
    for _ in 0..64 {
        assert!(sender.send(b"x", Duration::ZERO).unwrap());
    }
    let waited_for = Wanted::of(0, 16).word();
    let words =
        |sender: &BroadcastSender| sender.segment().word(WAITED_FOR).load(Ordering::Acquire);
    sender
        .segment()
        .word(WAITED_FOR)
        .store(waited_for, Ordering::Release);
    for _ in 0..15 {
        drop(receivers[0].receive().unwrap().unwrap());
        assert_eq!(words(&sender), waited_for);
    }
    drop(receivers[0].receive().unwrap().unwrap());
    assert_eq!(words(&sender), NOBODY, "the sixteenth");
}

/// Positions and lengths of any value end in messages within the ring, in an error, or in no room.
#[test]
fn words_of_any_value_are_refused_or_read_within_the_ring() {
    let mut random = engine::SplitMix64::new(7);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let (mut sender, mut receivers) = ring(4, 1);
        // So that a message of the whole ring has to look at the receiver's position.
        assert!(sender.send(b"first", Duration::ZERO).unwrap());
        let mut draw = |small: u64| match random.below(8) {
            0 => random.next_u64() as u32,
            _ => random.below(small) as u32,
        };
        let word = |offset: usize, value: u32| {
            sender
                .segment()
                .word(offset)
                .store(value, Ordering::Release);
        };
        for slot in 0..4 {
            word(sender.geometry().length_offset(slot), draw(150));
        }
        word(HEAD, draw(6));
        word(tail_of(0), draw(3));
        for _ in 0..4 {
            match receivers[0].look() {
                Ok(Arrival::Message) => {}
                Ok(_) => break,
                Err(error) => {
                    assert!(matches!(error, ChannelError::Corrupt { .. }), "{error}");
                    refused += 1;
                    break;
                }
            }
            match receivers[0].receive() {
                Ok(message) => {
                    assert!(message.unwrap().to_vec().len() <= 256);
                    read += 1;
                }
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
    assert!(refused > 100 && read > 100, "{refused} {read}");
}
