//! A ring whose messages two receivers share out, in every order of the three ends that differs in what they read.

use super::{AnycastReceiver, AnycastSender};
use crate::fanout::test_kit::{LONG, modelled};
use crate::kernel;

/// What a thread with a receiver of `most` messages, or until the end, gets.
fn receiving(mut receiver: AnycastReceiver, most: usize) -> loom::thread::JoinHandle<Vec<u8>> {
    loom::thread::spawn(move || {
        let mut got = Vec::new();
        while got.len() < most
            && let Some(message) = receiver.receive().unwrap()
        {
            let octets = message.to_vec();
            assert_eq!(octets, [octets[0]; 8]);
            got.push(octets[0]);
        }
        got
    })
}

/// Sends `messages` through a ring of `slots` to so many receivers, with at most so many untimely switches: each message comes to one of
/// them, in order at each.
fn model(switches: usize, slots: u32, receivers: usize, messages: u8, most: usize) {
    kernel::model(switches, move || {
        let (mut sender, receivers): (AnycastSender, _) = modelled(slots, receivers);
        let receivers = receivers.into_iter();
        let threads: Vec<_> = receivers.map(|one| receiving(one, most)).collect();
        for number in 0..messages {
            assert!(sender.send(&[number; 8], LONG).unwrap());
        }
        drop(sender);
        let mut all = Vec::new();
        for thread in threads {
            let got = thread.join().unwrap();
            assert!(got.is_sorted());
            all.extend(got);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..messages));
    });
}

/// One gets it, and the other the end.
#[test]
fn message_comes_to_one_of_two_receivers() {
    model(1, 2, 2, 1, 2);
}

/// Two messages and one place: the sender waits for the receiver that holds the first.
#[test]
fn sender_without_room_is_woken_by_the_receiver_that_lets_go() {
    model(1, 1, 2, 2, 1);
}

/// Neither end sleeps on, whenever its wish for a wake is taken.
#[test]
fn sender_and_receiver_that_wait_for_each_other_are_woken() {
    model(2, 1, 1, 2, 2);
}
