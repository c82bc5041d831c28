//! Tests of rings of many senders, with senders that are gone at any step and words of any value.

use super::*;
use crate::sync::Ordering;
use crate::{ChannelError, Geometry};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn ring(slots: u32, senders: usize) -> (GatherReceiver, Vec<GatherSender>) {
    let mut receiver = GatherReceiver::create(Geometry::new(64, slots).unwrap()).unwrap();
    let senders = (0..senders).map(|_| {
        let (near, far) = UnixStream::pair().unwrap();
        receiver.admit(near).unwrap();
        GatherSender::join(far).unwrap()
    });
    let senders = senders.collect();
    (receiver, senders)
}

fn receive(receiver: &mut GatherReceiver) -> Option<(u32, Vec<u8>)> {
    let mut buffer = [0; 60];
    match receiver.receive(&mut buffer, LONG).unwrap() {
        Gathered::Message { sender, len } => Some((sender, buffer[..len].to_vec())),
        Gathered::End => None,
        Gathered::Nothing => panic!("nothing in {LONG:?}"),
    }
}

#[test]
fn messages_of_many_senders_arrive_once_and_in_each_ones_order() {
    const COUNT: u32 = 3000;
    let (mut receiver, senders) = ring(8, 4);
    let sending: Vec<_> = senders
        .into_iter()
        .map(|mut sender| {
            thread::spawn(move || {
                for number in 0..COUNT {
                    assert!(sender.send(&number.to_ne_bytes(), LONG).unwrap());
                }
                sender.collisions()
            })
        })
        .collect();
    let mut next = [0; 5];
    while let Some((sender, octets)) = receive(&mut receiver) {
        assert_eq!(octets, u32::to_ne_bytes(next[sender as usize]));
        next[sender as usize] += 1;
    }
    assert_eq!(next, [0, COUNT, COUNT, COUNT, COUNT]);
    assert_eq!((receiver.passed_over(), receiver.killed()), (0, 0));
    sending
        .into_iter()
        .for_each(|thread| assert!(thread.join().is_ok()));
}

#[test]
fn claim_of_another_is_noticed_and_the_next_place_taken() {
    let (mut receiver, mut senders) = ring(4, 2);
    assert_eq!(senders[0].claim(), Some(0));
    // The other has not looked since, as if both had found the place free.
    assert!(senders[1].send(b"behind", Duration::ZERO).unwrap());
    let mut buffer = [0; 60];
    let nothing = receiver.receive(&mut buffer, Duration::ZERO).unwrap();
    assert_eq!(nothing, Gathered::Nothing, "the first place is claimed");
    let gone = senders.remove(0);
    std::mem::forget(gone);
    let nothing = receiver
        .receive(&mut buffer, Duration::from_millis(1))
        .unwrap();
    assert_eq!(nothing, Gathered::Nothing, "its process lives");
}

#[test]
fn sender_that_is_gone_between_claim_and_commit_is_passed_over() {
    let (mut receiver, mut senders) = ring(4, 3);
    assert_eq!(senders[0].claim(), Some(0));
    assert!(senders[1].send(b"behind it", LONG).unwrap());
    drop(senders.remove(0));
    assert_eq!(receive(&mut receiver), Some((2, b"behind it".to_vec())));
    assert_eq!(receiver.passed_over(), 1);
    assert!(senders[1].send(b"on", LONG).unwrap());
    senders.clear();
    assert_eq!(receive(&mut receiver), Some((3, b"on".to_vec())));
    assert_eq!(receive(&mut receiver), None);
    assert_eq!(receiver.killed(), 0, "they closed");
}

#[test]
fn full_ring_has_no_room_until_a_message_is_read_and_none_without_a_receiver() {
    let (mut receiver, mut senders) = ring(2, 2);
    for (sender, message) in [(0, b"a"), (1, b"b")] {
        assert!(senders[sender].send(message, Duration::ZERO).unwrap());
    }
    assert!(!senders[0].send(b"c", Duration::from_millis(1)).unwrap());
    assert_eq!(receive(&mut receiver), Some((1, b"a".to_vec())));
    assert!(senders[0].send(b"c", Duration::ZERO).unwrap());
    assert!(!senders[1].send(b"d", Duration::ZERO).unwrap());
    drop(receiver);
    assert!(matches!(
        senders[1].send(b"d", LONG),
        Err(ChannelError::PeerGone)
    ));
    let long = senders[0].send(&[0; 61], LONG);
    assert!(matches!(
        long,
        Err(ChannelError::TooLong { len: 61, max: 60 })
    ));
}

#[test]
fn senders_beyond_the_limit_are_refused_in_one_line() {
    let (mut receiver, _senders) = ring(64, SENDERS_MAX as usize);
    let (near, _far) = UnixStream::pair().unwrap();
    let refused = receiver.admit(near).unwrap_err();
    assert!(matches!(refused, ChannelError::SendersFull));
    assert!(refused.to_string().contains("31"), "{refused}");
}

/// A sender that has slept while all places were taken many times finds the next one, and no hole before it.
#[test]
fn sender_that_was_away_goes_on_at_the_tail() {
    let (mut receiver, mut senders) = ring(4, 2);
    for round in 0..50_u32 {
        assert!(senders[0].send(&round.to_ne_bytes(), LONG).unwrap());
        assert!(receive(&mut receiver).is_some());
        if round % 13 == 0 {
            assert!(senders[1].send(b"back", LONG).unwrap());
            assert_eq!(receive(&mut receiver), Some((2, b"back".to_vec())));
        }
    }
}

/// Words and lengths of any value end in messages no longer than a slot, or in an error; a sender finds room or none.
#[test]
fn words_of_any_value_are_refused_or_read_within_the_slot() {
    let mut random = engine::SplitMix64::new(5);
    let mut random = || (random.next_u64() >> 33) as u32;
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let (mut receiver, mut senders) = ring(4, 2);
        for position in 0..4 {
            let word = if random() % 3 == 0 {
                random()
            } else {
                random() % 64
            };
            senders[0]
                .places
                .word(position)
                .store(word, Ordering::Release);
            let slot = senders[0].places.slot(position);
            let len = if random() % 2 == 0 {
                random()
            } else {
                random() % 60
            };
            senders[0].places.segment.write(slot, &len.to_ne_bytes());
        }
        if random() % 4 == 0 {
            let tail = senders[0].places.segment.word(TAIL);
            tail.store(random(), Ordering::Release);
        }
        let _ = senders[1].send(b"through", Duration::ZERO);
        for _ in 0..6 {
            match receiver.receive(&mut [0; 60], Duration::ZERO) {
                Ok(Gathered::Message { len, .. }) => {
                    assert!(len <= 60);
                    read += 1;
                }
                Ok(Gathered::Nothing) => break,
                Ok(Gathered::End) => panic!("both are there"),
                Err(ChannelError::Corrupt { .. }) => {
                    refused += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(refused > 100 && read > 100, "{refused} {read}");
}
