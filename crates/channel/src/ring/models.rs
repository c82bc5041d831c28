//! Models of the ring, in every order of its two ends (loom).
//!
//! loom knows of each access to a slot, and reports two that are not ordered. A wake that is missed leaves an end
//! asleep, or looking, for ever, which loom reports too. The rings of the shortcut are those of `Signal::Poll`.

use super::{Arrival, ChannelReceiver, ChannelSender};
use crate::geometry::Geometry;
use crate::kernel;
use crate::sys::Segment;
use crate::wait::{SLEEP_MAX, Signal};
use loom::thread;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// One more than the ring has slots, so that one is written twice.
const MESSAGES: u8 = 3;

const LEN: usize = 8;

fn model(run: impl Fn() + Sync + Send + 'static) {
    kernel::model(2, run);
}

fn geometry() -> Geometry {
    Geometry::new(64, 2).expect("a right geometry")
}

/// Both ends of a channel over a socket.
fn ends(
    near: &Arc<UnixStream>,
    far: &Arc<UnixStream>,
    signal: Signal,
) -> (ChannelSender, ChannelReceiver) {
    let [own, peers] = Segment::both(geometry());
    let sender = ChannelSender::new(own, geometry(), Arc::clone(near), signal);
    let receiver = ChannelReceiver::new(peers, geometry(), Arc::clone(far), signal);
    (sender, receiver)
}

fn sockets() -> [Arc<UnixStream>; 2] {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    [Arc::new(near), Arc::new(far)]
}

fn channel(signal: Signal) -> (ChannelSender, ChannelReceiver) {
    let [near, far] = sockets();
    ends(&near, &far, signal)
}

/// Sends when there is room, without a sleep.
fn send(sender: &mut ChannelSender, number: u8) {
    while !sender.has_room(LEN).expect("an honest receiver") {
        thread::yield_now();
    }
    sender.send(&[number; LEN]).expect("there is room");
}

/// The message that is there.
fn take(receiver: &mut ChannelReceiver) -> Vec<u8> {
    let message = receiver.receive().expect("an honest sender");
    message.expect("it was there").to_vec()
}

/// Sleeps as an event loop does: in a poll of the socket, after the wish for a wake.
fn take_polled(receiver: &mut ChannelReceiver) -> Vec<u8> {
    loop {
        if receiver.look().expect("an honest sender") == Arrival::Message {
            return take(receiver);
        }
        if receiver.prepare_poll().expect("an honest sender") {
            while !is_readable(receiver.descriptor()) {
                thread::yield_now();
            }
            receiver.take_wakes().expect("a socket");
        }
    }
}

fn is_readable(socket: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&now)).expect("a poll") > 0
}

#[test]
fn models_messages_arrive_at_ends_that_sleep() {
    model(|| {
        let (mut sender, mut receiver) = channel(Signal::Futex);
        let sending = thread::spawn(move || {
            for number in 0..MESSAGES {
                sender.send(&[number; LEN]).expect("an honest receiver");
            }
            sender
        });
        for number in 0..MESSAGES {
            assert_eq!(take(&mut receiver), [number; LEN]);
        }
        sending.join().expect("it does not panic");
    });
}

#[test]
fn models_messages_of_a_run_arrive_at_ends_that_sleep() {
    model(|| {
        let (mut sender, mut receiver) = channel(Signal::Futex);
        let sending = thread::spawn(move || {
            let sent = sender.send_run_within(&[1; LEN], MESSAGES.into(), SLEEP_MAX);
            assert_eq!(sent.expect("an honest receiver"), MESSAGES.into());
            sender
        });
        for _ in 0..MESSAGES {
            assert_eq!(take(&mut receiver), [1; LEN]);
        }
        sending.join().expect("it does not panic");
    });
}

#[test]
fn models_messages_arrive_at_ends_that_spin() {
    model(|| {
        let (mut sender, mut receiver) = channel(Signal::Spin);
        let sending = thread::spawn(move || {
            (0..MESSAGES).for_each(|number| send(&mut sender, number));
            sender
        });
        for number in 0..MESSAGES {
            while receiver.look().expect("an honest sender") == Arrival::Nothing {
                thread::yield_now();
            }
            assert_eq!(take(&mut receiver), [number; LEN]);
        }
        sending.join().expect("it does not panic");
    });
}

#[test]
fn models_messages_wake_an_end_that_polls() {
    model(|| {
        let (mut sender, mut receiver) = channel(Signal::Poll);
        let sending = thread::spawn(move || {
            (0..MESSAGES).for_each(|number| send(&mut sender, number));
            sender
        });
        for number in 0..MESSAGES {
            assert_eq!(take_polled(&mut receiver), [number; LEN]);
        }
        sending.join().expect("it does not panic");
    });
}

#[test]
fn models_rings_each_way_over_one_socket_wake_both_ends() {
    model(|| {
        let [near, far] = sockets();
        let (mut there, mut arriving) = ends(&near, &far, Signal::Poll);
        let (mut back, mut answers) = ends(&far, &near, Signal::Poll);
        let answering = thread::spawn(move || {
            let message = take_polled(&mut arriving);
            send(&mut back, message[0] + 1);
            (arriving, back)
        });
        send(&mut there, 7);
        assert_eq!(take_polled(&mut answers), [8; LEN]);
        answering.join().expect("it does not panic");
    });
}

#[test]
fn models_end_of_a_sender_comes_after_all_it_committed() {
    model(|| {
        let (mut sender, mut receiver) = channel(Signal::Spin);
        let sending = thread::spawn(move || {
            (0..2).for_each(|number| send(&mut sender, number));
        });
        let mut received = 0;
        loop {
            match receiver.look().expect("an honest sender") {
                Arrival::Nothing => thread::yield_now(),
                Arrival::Message => {
                    assert_eq!(take(&mut receiver), [received; LEN]);
                    received += 1;
                }
                Arrival::End => break,
            }
        }
        assert_eq!(received, 2);
        sending.join().expect("it does not panic");
    });
}
