//! Rings of many receivers: each gets all in order; the slowest counts; ends that are gone, and words of any value.

use super::*;
use crate::fanout::test_kit::{LONG, joined, message, ring};
use crate::fanout::{NEVER, NOBODY, WAITED_FOR};
use crate::ring::Arrival;
use crate::sync::Ordering;
use crate::wait::Signal;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

fn each_gets_all(signal: Signal) {
    const COUNT: u32 = 2000;
    let (mut sender, receivers): (BroadcastSender, _) = ring(16, 3, signal);
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
    let (mut sender, mut receivers): (BroadcastSender, _) = ring(2, 2, Signal::Futex);
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
    let (mut sender, mut receivers): (BroadcastSender, _) = ring(2, 2, Signal::Futex);
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
    let (mut sender, mut receivers): (BroadcastSender, _) = ring(4, 1, Signal::Futex);
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
    let (mut sender, mut receivers): (BroadcastSender, _) = ring(64, 1, Signal::Futex);
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
