//! A peer that is killed at any time corrupts nothing, blocks nobody, and is noticed.

use channel::{
    Arena, ArenaOwner, ArenaSlot, BroadcastReceiver, BroadcastSender, ChannelError,
    ChannelReceiver, ChannelSender, Geometry, Signal,
};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Children killed in turn, each after another number of messages.
const ROUNDS: u64 = 24;

/// Set in the processes that a test starts and kills: they run the same test, as its peer.
const PEER: &str = "TOWPATH_CHANNEL_PEER";

/// Starts a test of this program as a process of its own, with one end of a socket as its input.
fn child(test: &str) -> (Child, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(PEER, "1")
        .stdin(Stdio::from(OwnedFd::from(far)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, near)
}

/// The socket that the child was started with.
fn lifeline() -> UnixStream {
    let inherited = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    UnixStream::from(inherited)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn send_until_killed() {
    let mut sender =
        ChannelSender::open(lifeline(), Geometry::new(1024, 8).unwrap(), Signal::Futex).unwrap();
    for number in 0_u64.. {
        let mut message = vec![number as u8; 8 + number as usize % 1000];
        message[..8].copy_from_slice(&number.to_le_bytes());
        if sender.send(&message).is_err() {
            return;
        }
    }
}

fn receive_until_killed() {
    let mut receiver = ChannelReceiver::accept(lifeline(), Signal::Futex).unwrap();
    while let Ok(Some(message)) = receiver.receive() {
        drop(message);
    }
}

#[test]
fn sender_killed_leaves_whole_messages_in_order_and_then_an_error() {
    if std::env::var_os(PEER).is_some() {
        return send_until_killed();
    }
    for round in 0..ROUNDS {
        let signal = if round % 2 == 0 {
            Signal::Futex
        } else {
            Signal::Spin
        };
        let (child, socket) =
            child("killed::sender_killed_leaves_whole_messages_in_order_and_then_an_error");
        let mut receiver = ChannelReceiver::accept(socket, signal).unwrap();
        let mut child = Some(child);
        let mut expected = 0_u64;
        let error = loop {
            match receiver.receive() {
                Ok(Some(message)) => {
                    let octets = message.to_vec();
                    assert_eq!(octets[..8], expected.to_le_bytes());
                    assert_eq!(octets.len(), 8 + expected as usize % 1000);
                    assert!(octets[8..].iter().all(|&octet| octet == expected as u8));
                    expected += 1;
                }
                Ok(None) => panic!("a killed sender closed its channel"),
                Err(error) => break error,
            }
            if expected == round * 37 + 1 {
                end(child.take().unwrap());
            }
        };
        assert!(matches!(error, ChannelError::PeerGone), "{error}");
    }
}

#[test]
fn receiver_killed_ends_its_sender_by_an_error() {
    if std::env::var_os(PEER).is_some() {
        return receive_until_killed();
    }
    for round in 0..ROUNDS {
        let signal = if round % 2 == 0 {
            Signal::Futex
        } else {
            Signal::Spin
        };
        let (child, socket) = child("killed::receiver_killed_ends_its_sender_by_an_error");
        let mut sender =
            ChannelSender::open(socket, Geometry::new(1024, 8).unwrap(), signal).unwrap();
        for _ in 0..round * 37 {
            sender.send(&[1; 900]).unwrap();
        }
        end(child);
        let error = (0..=8)
            .find_map(|_| sender.send(&[2; 900]).err())
            .expect("the ring takes eight at most");
        assert!(matches!(error, ChannelError::PeerGone), "{error}");
    }
}

/// The second socket that the child was started with, in the place of its error output.
fn second_socket() -> UnixStream {
    let inherited = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
    UnixStream::from(inherited)
}

fn hold_until_killed() {
    let arena = Arena::join(lifeline()).unwrap();
    let mut receiver = arena.accept(second_socket(), Signal::Futex).unwrap();
    let mut held = Vec::new();
    while let Ok(Some(message)) = receiver.receive() {
        held.extend(arena.take());
        held.push(message);
    }
}

#[test]
fn member_killed_gives_back_the_slots_it_held_and_took() {
    const SLOTS: u32 = 16;
    if std::env::var_os(PEER).is_some() {
        return hold_until_killed();
    }
    for round in 0..ROUNDS {
        let mut owner = ArenaOwner::create(Geometry::new(256, SLOTS).unwrap()).unwrap();
        let (member, member_far) = UnixStream::pair().unwrap();
        let (channel, channel_far) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::member_killed_gives_back_the_slots_it_held_and_took",
                "--nocapture",
            ])
            .env(PEER, "1")
            .stdin(Stdio::from(OwnedFd::from(member_far)))
            .stdout(Stdio::null())
            .stderr(Stdio::from(OwnedFd::from(channel_far)))
            .spawn()
            .unwrap();
        owner.admit(member).unwrap();
        let mut sender = owner.arena().open(channel, Signal::Futex).unwrap();
        for _ in 0..round % 7 + 1 {
            let mut slot = owner.arena().take().expect("a free slot");
            slot.write(0, b"held").unwrap();
            sender.pass(&slot).unwrap();
        }
        end(child);
        owner.sweep().unwrap();
        let free: Vec<ArenaSlot> = (0..=SLOTS).filter_map(|_| owner.arena().take()).collect();
        assert_eq!(free.len(), SLOTS as usize, "round {round}");
    }
}

fn receive_with_others_until_killed() {
    let mut receiver = BroadcastReceiver::join(lifeline(), Signal::Futex).unwrap();
    while let Ok(Some(message)) = receiver.receive() {
        drop(message);
    }
}

/// The messages' numbers, in order, until the end; how many.
fn received_in_order(mut receiver: BroadcastReceiver) -> u64 {
    let mut expected = 0_u64;
    while let Some(message) = receiver.receive().unwrap() {
        assert_eq!(message.to_vec()[..8], expected.to_le_bytes());
        expected += 1;
    }
    expected
}

#[test]
fn receiver_killed_holds_back_neither_the_sender_nor_another_receiver() {
    const LONG: Duration = Duration::from_secs(60);
    if std::env::var_os(PEER).is_some() {
        return receive_with_others_until_killed();
    }
    for signal in [Signal::Futex, Signal::Spin] {
        for round in 0..3 {
            let (child, socket) =
                child("killed::receiver_killed_holds_back_neither_the_sender_nor_another_receiver");
            let mut sender =
                BroadcastSender::create(Geometry::new(1024, 8).unwrap(), signal).unwrap();
            sender.admit(socket).unwrap();
            let (near, far) = UnixStream::pair().unwrap();
            sender.admit(near).unwrap();
            let other = BroadcastReceiver::join(far, signal).unwrap();
            let other = std::thread::spawn(move || received_in_order(other));
            let before = round * 37;
            let mut numbers = 0_u64..;
            let mut send = |count: u64| {
                for number in numbers.by_ref().take(count as usize) {
                    let mut message = [1; 900];
                    message[..8].copy_from_slice(&number.to_le_bytes());
                    assert!(sender.send(&message, LONG).unwrap());
                }
            };
            send(before);
            end(child);
            send(50);
            assert_eq!((sender.receivers(), sender.killed()), (1, 1));
            drop(sender);
            assert_eq!(other.join().unwrap(), before + 50);
        }
    }
}
