//! What rings of many receivers refuse: ends that are gone, too many of them, and words of any value.

use super::test_kit::{LONG, joined, ring, sender};
use super::*;
use crate::anycast::{Anycast, CLAIMED, held_of};
use crate::broadcast::{Broadcast, tail_of};
use crate::ring::NextMessage;
use crate::sync::Ordering;
use crate::wait::Signal;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The first receiver gets what was committed; others may have had it too.
fn sender_that_is_gone<D: Fanout>() {
    let (mut sender, mut receivers) = ring::<D>(4, 2, Signal::Futex);
    assert!(sender.send(b"last", LONG).unwrap());
    // Its lifelines hang up without a close, as those of a killed process.
    sender.forsake();
    assert_eq!(receivers[0].receive().unwrap().unwrap().to_vec(), b"last");
    let _ = receivers[1].receive_within(Duration::ZERO).map(drop);
    for receiver in &mut receivers {
        assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    }
}

#[test]
fn sender_that_is_gone_leaves_what_it_committed_and_then_an_error() {
    sender_that_is_gone::<Broadcast>();
    sender_that_is_gone::<Anycast>();
}

fn no_receivers_and_long_messages<D: Fanout>() {
    let mut alone = sender::<D>(4, Signal::Futex);
    let sent = alone.send(b"x", LONG);
    assert!(matches!(sent, Err(ChannelError::PeerGone)), "{sent:?}");
    let _one = joined(&mut alone, Signal::Futex);
    let long = alone.send(&[0; 257], LONG);
    let expected = matches!(long, Err(ChannelError::TooLong { len: 257, max: 256 }));
    assert!(expected, "{long:?}");
}

#[test]
fn sender_without_receivers_and_messages_beyond_the_ring_are_refused() {
    no_receivers_and_long_messages::<Broadcast>();
    no_receivers_and_long_messages::<Anycast>();
}

fn receivers_beyond_the_limit<D: Fanout>() {
    let (mut sender, _receivers) = ring::<D>(4, RECEIVERS_MAX as usize, Signal::Futex);
    let (near, _far) = UnixStream::pair().unwrap();
    let refused = sender.admit(near).unwrap_err();
    assert!(matches!(refused, ChannelError::ReceiversFull));
    assert!(refused.to_string().contains("24"), "{refused}");
}

#[test]
fn receivers_beyond_the_limit_are_refused_in_one_line() {
    receivers_beyond_the_limit::<Broadcast>();
    receivers_beyond_the_limit::<Anycast>();
}

/// Writes any values, mostly below the limits of `words`, into lengths and words: how many receives and sends were refused, and how many
/// messages were read.
fn with_words_of_any_value<D: Fanout>(receivers: usize, words: &[(usize, u64)]) -> (u32, u32) {
    let mut random = engine::SplitMix64::new(7);
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let (mut sender, mut receivers) = ring::<D>(4, receivers, Signal::Futex);
        // So that a message of the whole ring has to look at the receivers' positions.
        assert!(sender.send(b"first", Duration::ZERO).unwrap());
        let lengths = (0..4).map(|slot| (sender.geometry().length_offset(slot), 150));
        for (offset, small) in lengths.chain(words.iter().copied()) {
            let value = match random.below(8) {
                0 => random.next_u64() as u32,
                _ => random.below(small) as u32,
            };
            let word = sender.segment().word(offset);
            word.store(value, Ordering::Release);
        }
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
    (refused, read)
}

/// Positions and lengths of any value end in messages within the ring, in an error, or in no room.
#[test]
fn words_of_any_value_are_refused_or_read_within_the_ring() {
    let (refused, read) = with_words_of_any_value::<Broadcast>(1, &[(HEAD, 6), (tail_of(0), 3)]);
    assert!(refused > 100 && read > 100, "{refused} {read}");
    let words = [(HEAD, 6), (CLAIMED, 3), (held_of(1), 6), (ASLEEP, 100)];
    let (refused, read) = with_words_of_any_value::<Anycast>(2, &words);
    assert!(refused > 50 && read > 100, "{refused} {read}");
}
