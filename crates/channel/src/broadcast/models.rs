//! A ring of two receivers in every order of the three ends that differs in what they read.

use super::{BroadcastReceiver, BroadcastSender};
use crate::fanout::test_kit::{LONG, modelled};
use crate::kernel;

/// A receiver that gets `count` messages, and is closed after that.
fn receiving(mut receiver: BroadcastReceiver, count: u8) -> loom::thread::JoinHandle<()> {
    loom::thread::spawn(move || {
        for number in 0..count {
            let message = receiver.receive().unwrap().unwrap();
            assert_eq!(message.to_vec(), [number; 8]);
        }
    })
}

/// Sends `messages` through a ring of `slots` to so many receivers, with at most so many untimely switches.
fn model(switches: usize, slots: u32, receivers: usize, messages: u8) {
    kernel::model(switches, move || {
        let (mut sender, receivers): (BroadcastSender, _) = modelled(slots, receivers);
        let receivers = receivers.into_iter();
        let threads: Vec<_> = receivers.map(|one| receiving(one, messages)).collect();
        for number in 0..messages {
            assert!(sender.send(&[number; 8], LONG).unwrap());
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// Both get the message, and those that sleep are woken.
#[test]
fn message_of_one_sender_reaches_both_receivers() {
    model(2, 2, 2, 1);
}

/// Two messages and one place: the sender waits for the one receiver, then for the other, and is woken.
#[test]
fn sender_without_room_is_woken_by_the_slowest() {
    model(1, 1, 2, 2);
}

/// Neither end sleeps on, whenever its wish for a wake is taken.
#[test]
fn sender_and_receiver_that_wait_for_each_other_are_woken() {
    model(2, 1, 1, 2);
}
