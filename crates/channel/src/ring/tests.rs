//! A ring between two ends of one process, and what a hostile end can write.

use super::*;
use crate::{ChannelError, Geometry, Signal};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// More than a busy machine keeps a thread waiting.
const A_MINUTE: Duration = Duration::from_secs(60);

fn ends(slots: u32, signal: Signal) -> (ChannelSender, ChannelReceiver) {
    let (near, far) = UnixStream::pair().unwrap();
    let sender = ChannelSender::open(near, Geometry::new(64, slots).unwrap(), signal).unwrap();
    (sender, ChannelReceiver::accept(far, signal).unwrap())
}

fn messages_through_a_small_ring_arrive_in_order(signal: Signal) {
    let (mut sender, mut receiver) = ends(4, signal);
    let sending = std::thread::spawn(move || {
        for number in 0..2_000_u64 {
            let len = 8 + number as usize % 150;
            let mut message = vec![number as u8; len];
            message[..8].copy_from_slice(&number.to_le_bytes());
            sender.send(&message).unwrap();
        }
    });
    for number in 0..2_000_u64 {
        let message = receiver.receive().unwrap().unwrap().to_vec();
        assert_eq!(message[..8], number.to_le_bytes());
        assert_eq!(message.len(), 8 + number as usize % 150);
        assert!(message[8..].iter().all(|&octet| octet == number as u8));
    }
    sending.join().unwrap();
    assert!(receiver.receive().unwrap().is_none());
}

#[test]
fn messages_of_runs_arrive_whole_through_a_ring_that_is_shorter_than_a_run() {
    for signal in [Signal::Futex, Signal::Poll] {
        let (mut sender, mut receiver) = ends(64, signal);
        let sending = std::thread::spawn(move || {
            for number in 0..50_u8 {
                let message = vec![number; number as usize * 20];
                let sent = sender.send_run_within(&message, 100, A_MINUTE).unwrap();
                assert_eq!(sent, 100, "length {}", message.len());
            }
        });
        for number in 0..50_u8 {
            for _ in 0..100 {
                let message = receiver.receive().unwrap().unwrap().to_vec();
                assert_eq!(message, vec![number; number as usize * 20]);
            }
        }
        sending.join().unwrap();
    }
}

#[test]
fn run_without_room_for_all_shows_those_that_have_and_says_how_many() {
    let (mut sender, mut receiver) = ends(8, Signal::Futex);
    assert_eq!(sender.send_run_within(b"a", 20, Duration::ZERO).unwrap(), 8);
    assert_eq!(sender.send_run_within(b"b", 2, Duration::ZERO).unwrap(), 0);
    for _ in 0..8 {
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"a");
    }
    assert_eq!(sender.send_run_within(b"c", 2, Duration::ZERO).unwrap(), 2);
    drop(receiver);
    assert_eq!(sender.send_run_within(b"d", 20, Duration::ZERO).unwrap(), 6);
    let refused = sender.send_run_within(b"e", 1, Duration::ZERO);
    assert!(matches!(refused, Err(ChannelError::PeerGone)));
    let refused = sender.send_run_within(&[0; 513], 1, Duration::ZERO);
    assert!(matches!(refused, Err(ChannelError::TooLong { .. })));
}

#[test]
fn receiver_that_asked_is_woken_once_for_a_run() {
    let (mut sender, mut receiver) = ends(32, Signal::Poll);
    assert!(receiver.prepare_poll().unwrap());
    let calls = sender.system_calls();
    sender.send_run_within(b"a", 20, Duration::ZERO).unwrap();
    assert_eq!(sender.system_calls(), calls + 1);
    assert!(is_readable(&receiver));
}

#[test]
fn messages_with_futexes_arrive_in_order_through_a_small_ring() {
    messages_through_a_small_ring_arrive_in_order(Signal::Futex);
}

#[test]
fn messages_with_polling_arrive_in_order_through_a_small_ring() {
    messages_through_a_small_ring_arrive_in_order(Signal::Poll);
}

fn is_readable(receiver: &ChannelReceiver) -> bool {
    let descriptor = receiver.descriptor();
    let mut polled = [rustix::event::PollFd::new(
        &descriptor,
        rustix::event::PollFlags::IN,
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut polled, Some(&now)).unwrap() > 0
}

#[test]
fn descriptor_is_readable_after_a_message_that_was_asked_for_and_not_after_others() {
    let (mut sender, mut receiver) = ends(8, Signal::Poll);
    let calls = sender.system_calls();
    sender.send(b"not asked for").unwrap();
    assert!(!is_readable(&receiver));
    assert!(!receiver.prepare_poll().unwrap(), "there is a message");
    drop(receiver.receive().unwrap());
    assert_eq!(sender.system_calls(), calls);
    assert!(receiver.prepare_poll().unwrap());
    for message in [b"first", b"other"] {
        sender.send(message).unwrap();
    }
    assert_eq!(sender.system_calls(), calls + 1, "one wake for both");
    assert!(is_readable(&receiver));
    receiver.take_wakes().unwrap();
    assert!(!is_readable(&receiver));
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"first");
}

#[test]
fn message_that_is_received_takes_the_wish_for_a_wake_back() {
    let (mut sender, mut receiver) = ends(8, Signal::Poll);
    assert!(receiver.prepare_poll().unwrap());
    sender.send(b"a").unwrap();
    drop(receiver.receive().unwrap());
    receiver.take_wakes().unwrap();
    sender.send(b"b").unwrap();
    assert!(!is_readable(&receiver));
}

#[test]
fn descriptor_is_readable_when_the_sender_closed_and_when_it_is_gone() {
    let (sender, mut receiver) = ends(2, Signal::Poll);
    assert!(receiver.prepare_poll().unwrap());
    drop(sender);
    assert!(is_readable(&receiver));
    assert_eq!(receiver.look().unwrap(), Arrival::End);
    let (mut sender, mut receiver) = ends(2, Signal::Poll);
    sender.send(b"last").unwrap();
    sender.abort();
    receiver.take_wakes().unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"last");
    assert!(matches!(receiver.look(), Err(ChannelError::PeerGone)));
}

#[test]
fn sender_that_asked_for_room_is_woken_once() {
    let (mut sender, mut receiver) = ends(2, Signal::Poll);
    assert!(!sender.prepare_poll(128).unwrap(), "there is room");
    sender.send(b"a").unwrap();
    sender.send(b"b").unwrap();
    assert!(sender.prepare_poll(64).unwrap());
    let calls = receiver.system_calls();
    for _ in 0..2 {
        drop(receiver.receive().unwrap());
    }
    assert_eq!(receiver.system_calls(), calls + 1, "one wake for both");
    assert!(!sender.prepare_poll(128).unwrap());
    drop(receiver);
    sender.send(b"c").unwrap();
    assert!(matches!(
        sender.prepare_poll(128),
        Err(ChannelError::PeerGone)
    ));
}

/// A wake that nobody answers by receiving, and one from an end that lies, only makes the descriptor readable.
#[test]
fn wakes_without_a_message_bring_none() {
    let (_sender, mut receiver) = ends(2, Signal::Poll);
    assert!(receiver.prepare_poll().unwrap());
    receiver.take_wakes().unwrap();
    let none = receiver.wait_for_message(std::time::Duration::from_millis(1));
    assert_eq!(none.unwrap(), Arrival::Nothing);
}

#[test]
fn messages_with_spinning_arrive_in_order_through_a_small_ring() {
    messages_through_a_small_ring_arrive_in_order(Signal::Spin);
}

#[test]
fn slot_not_committed_sends_nothing() {
    let (mut sender, mut receiver) = ends(2, Signal::Futex);
    sender.lend(8).unwrap().write(0, b"not sent").unwrap();
    sender.send(b"sent").unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"sent");
}

#[test]
fn message_longer_than_the_ring_is_refused_and_the_channel_stays() {
    let (mut sender, mut receiver) = ends(2, Signal::Futex);
    let refused = sender.send(&[0; 129]);
    assert!(matches!(
        refused,
        Err(ChannelError::TooLong { len: 129, max: 128 })
    ));
    assert!(sender.lend(9).unwrap().write(usize::MAX, b"x").is_err());
    assert!(sender.lend(9).unwrap().write(9, b"x").is_err());
    assert!(sender.lend(9).unwrap().commit(10).is_err());
    sender.send(&[7; 128]).unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), [7; 128]);
}

#[test]
fn message_of_several_slots_arrives_whole_across_the_end_of_the_ring() {
    let (mut sender, mut receiver) = ends(8, Signal::Futex);
    for len in [130, 200, 64, 512, 1, 300] {
        let message: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let mut lent = sender.lend(len).unwrap();
        // Pieces that meet at the ring's end, and across it.
        for (index, piece) in message.chunks(97).enumerate() {
            lent.write(index * 97, piece).unwrap();
        }
        lent.commit(len).unwrap();
        let received = receiver.receive().unwrap().unwrap();
        assert_eq!(received.to_vec(), message);
        let mut tail = [0; 40];
        let from = len.saturating_sub(40);
        let count = received.read(from, &mut tail);
        assert_eq!(tail[..count], message[from..]);
    }
}

#[test]
fn room_is_there_as_soon_as_enough_slots_are_released() {
    let (mut sender, mut receiver) = ends(4, Signal::Futex);
    sender.send(&[1; 64]).unwrap();
    sender.send(&[2; 150]).unwrap();
    assert!(!sender.has_room(1).unwrap());
    drop(receiver.receive().unwrap());
    assert!(sender.has_room(64).unwrap() && !sender.has_room(65).unwrap());
    drop(receiver.receive().unwrap());
    assert!(sender.has_room(256).unwrap());
    let none = receiver.wait_for_message(std::time::Duration::from_millis(1));
    assert_eq!(none.unwrap(), Arrival::Nothing);
}

#[test]
fn message_read_in_part_gives_what_is_there_and_no_more() {
    let (mut sender, mut receiver) = ends(2, Signal::Futex);
    sender.send(b"barge").unwrap();
    let message = receiver.receive().unwrap().unwrap();
    let mut octets = [0; 8];
    assert_eq!(message.read(3, &mut octets), 2);
    assert_eq!(&octets[..2], b"ge");
    assert_eq!(message.read(9, &mut octets), 0);
}

#[test]
fn positions_that_wrap_keep_the_order() {
    let (mut sender, mut receiver) = ends(4, Signal::Futex);
    let start = u32::MAX - 2;
    sender.start_at(start);
    receiver.start_at(start);
    for octet in 0..8 {
        sender.send(&[octet; 3]).unwrap();
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), [octet; 3]);
    }
}

#[test]
fn ring_full_with_a_receiver_that_is_gone_is_an_error() {
    for signal in [Signal::Futex, Signal::Spin] {
        let (mut sender, receiver) = ends(2, signal);
        drop(receiver);
        sender.send(b"a").unwrap();
        sender.send(b"b").unwrap();
        assert!(matches!(sender.send(b"c"), Err(ChannelError::PeerGone)));
        assert!(sender.peer_gone().unwrap());
    }
}

#[test]
fn sender_that_aborts_gives_what_it_committed_and_then_an_error() {
    for signal in [Signal::Futex, Signal::Spin] {
        let (mut sender, mut receiver) = ends(2, signal);
        sender.send(b"before").unwrap();
        sender.abort();
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"before");
        assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    }
}

#[test]
fn receiver_that_releases_what_was_never_sent_is_found_out() {
    let (mut sender, receiver) = ends(2, Signal::Futex);
    sender.send(b"a").unwrap();
    sender.send(b"b").unwrap();
    receiver.segment().word(TAIL).store(3, Ordering::Release);
    assert!(matches!(
        sender.send(b"c"),
        Err(ChannelError::Corrupt { value: 3, .. })
    ));
}

#[test]
fn sender_that_claims_more_than_the_ring_holds_is_found_out() {
    let (sender, mut receiver) = ends(2, Signal::Futex);
    sender.segment().word(HEAD).store(3, Ordering::Release);
    assert!(matches!(
        receiver.receive(),
        Err(ChannelError::Corrupt { value: 3, .. })
    ));
}

#[test]
fn sender_that_writes_a_length_beyond_what_it_committed_is_found_out() {
    let (mut sender, mut receiver) = ends(2, Signal::Futex);
    let at = sender.geometry().length_offset(0);
    sender.send(b"a").unwrap();
    sender.send(b"b").unwrap();
    for value in [129, u32::MAX] {
        sender.segment().word(at).store(value, Ordering::Release);
        let refused = receiver.receive().map(drop);
        assert!(
            matches!(refused, Err(ChannelError::Corrupt { value: found, .. }) if found == value)
        );
    }
}

#[test]
fn sender_that_writes_a_last_length_beyond_what_it_committed_is_found_out() {
    let (mut sender, mut receiver) = ends(2, Signal::Futex);
    sender.send(b"a").unwrap();
    let lie = last_word(0, 65);
    sender.segment().word(LAST).store(lie, Ordering::Release);
    let refused = receiver.receive().map(drop);
    assert!(matches!(
        refused,
        Err(ChannelError::Corrupt { value: 65, .. })
    ));
}

#[test]
fn last_length_is_that_of_its_message_alone() {
    let slots = 1 << 15;
    for (position, len) in [(0, 0), (5, 64), (u32::MAX, 0xfffe)] {
        let word = last_word(position, len);
        assert_eq!(last_len(word, position, slots), Some(len));
        for other in [1, slots - 1, slots] {
            assert_eq!(last_len(word, position.wrapping_add(other), slots), None);
            assert_eq!(last_len(word, position.wrapping_sub(other), slots), None);
        }
        assert_eq!(last_len(word, position, slots * 2), None);
    }
    assert_eq!(last_len(last_word(7, 0xffff), 7, slots), None);
    assert_eq!(last_len(0, 0, slots), None);
}

#[test]
fn messages_of_any_length_keep_it_whether_one_or_several_wait() {
    let (mut sender, mut receiver) = ends(8192, Signal::Spin);
    let lens = [0, 64, 0xfffe, 1, 0xffff, 65, 0x1_0000, 100_000, 3];
    for round in 0..60 {
        let waiting: Vec<usize> = (0..=round % 3)
            .map(|at| lens[(round * 2 + at) % lens.len()])
            .collect();
        for &len in &waiting {
            sender.send(&vec![len as u8; len]).unwrap();
        }
        for &len in &waiting {
            let message = receiver.receive().unwrap().unwrap().to_vec();
            assert_eq!(message, vec![len as u8; len]);
        }
    }
}

#[test]
fn slots_of_short_messages_are_released_together_and_at_the_end_all_of_them() {
    let (mut sender, mut receiver) = ends(1024, Signal::Spin);
    for _ in 0..1024 {
        sender.send(&[1; 64]).unwrap();
    }
    let taken_until_room = (1..).find(|_| {
        drop(receiver.receive().unwrap().unwrap());
        sender.has_room(64).unwrap()
    });
    assert_eq!(taken_until_room, Some(32));
    for _ in 32..1024 {
        drop(receiver.receive().unwrap().unwrap());
    }
    assert!(sender.has_room(1024 * 64).unwrap());
}

#[test]
fn slot_is_released_at_once_for_a_sender_that_sleeps() {
    let (mut sender, mut receiver) = ends(1024, Signal::Poll);
    for _ in 0..1024 {
        sender.send(&[1; 64]).unwrap();
    }
    assert!(sender.prepare_poll(64).unwrap());
    drop(receiver.receive().unwrap().unwrap());
    assert!(sender.has_room(64).unwrap());
}

/// Any octets in the words and lengths end in messages no longer than the ring, or in an error.
#[test]
fn receiver_of_any_words_reads_within_the_ring_or_fails() {
    let mut state = 7_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let (mut refused, mut read) = (0, 0);
    for _ in 0..500 {
        let (sender, mut receiver) = ends(8, Signal::Futex);
        sender
            .segment()
            .word(HEAD)
            .store(random() % 12, Ordering::Release);
        sender
            .segment()
            .word(SENDER_CLOSED)
            .store(1, Ordering::Release);
        let last = random() & 0x7_01ff;
        sender.segment().word(LAST).store(last, Ordering::Release);
        for slot in 0..8 {
            let len = if random() % 4 == 0 {
                random()
            } else {
                random() % 300
            };
            sender
                .segment()
                .word(sender.geometry().length_offset(slot))
                .store(len, Ordering::Release);
        }
        loop {
            match receiver.receive() {
                Ok(Some(message)) => {
                    assert!(message.to_vec().len() <= 8 * 64);
                    read += 1;
                }
                Ok(None) => break,
                Err(ChannelError::Corrupt { .. }) => {
                    refused += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(
        refused > 100 && read > 100,
        "{refused} refused, {read} read"
    );
}
