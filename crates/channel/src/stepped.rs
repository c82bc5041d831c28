//! Peers that are killed at each instruction: a child executes one operation step by step and is killed between two
//! instructions. It is noticed within two sleeps, what it left is whole messages in order, nobody is blocked, and no
//! file stays behind, nor a slot, but for the one that `ArenaOwner::sweep` tells of.
//!
//! A usual run kills at [`KILLS`] instructions of each operation, spread over all; TOWPATH_KILLS is their number, or `all`.

use crate::anycast;
use crate::broadcast::Wanted;
use crate::fanout::WAITED_FOR;
use crate::ring::{RECEIVER_WAITS, SENDER_WAITS};
use crate::sys::stepping::{self, Step, Stepped};
use crate::wait::{SLEEP_MAX, SLEEPS};
use crate::{
    AnycastReceiver, AnycastSender, Arena, ArenaOwner, ArenaReceiver, Arrival, BroadcastReceiver,
    BroadcastSender, ChannelError, ChannelReceiver, ChannelSender, Geometry, NextMessage, Signal,
};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Kills of each operation in a usual run.
const KILLS: u64 = 40;

/// Instructions of an operation at most: many times what the longest takes.
const STEPS_MAX: u64 = 2_000_000;

/// A wait of this length notices a peer that is gone.
const NOTICED: Duration = SLEEP_MAX.saturating_mul(2);

/// Names the operation in the processes that are killed: they run the same test.
const OPERATION: &str = "TOWPATH_STEPPED";

/// Before the number of a child's thread, in its output.
const THREAD: &str = "stepped thread ";

/// Slots of a ring, and of an arena.
const SLOTS: u32 = 8;

/// A message that takes three slots.
const LEN: usize = 150;

/// What the child does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Sends to an end that is awake, sleeps, or polls.
    Send,
    SendToSleeper,
    SendToPoller,
    /// Receives and releases, while the sender is awake, or sleeps.
    Receive,
    ReceiveForSleeper,
    /// The same as one of two receivers of a ring, for whom the sender waits.
    ReceiveWithOthers,
    /// Claims a message of a ring that two receivers share, and lets it go, while the sender waits for that.
    Claim,
    /// Takes a slot of an arena, writes it, passes it on, and lets it go.
    Pass,
    /// Receives a slot of an arena, and lets it go.
    Release,
}

const OPERATIONS: [Operation; 9] = [
    Operation::Send,
    Operation::SendToSleeper,
    Operation::SendToPoller,
    Operation::Receive,
    Operation::ReceiveForSleeper,
    Operation::ReceiveWithOthers,
    Operation::Claim,
    Operation::Pass,
    Operation::Release,
];

fn geometry() -> Geometry {
    Geometry::new(64, SLOTS).unwrap()
}

fn message(number: u8) -> Vec<u8> {
    vec![number; LEN]
}

/// The child's end: it does the operation once, then the one that is stepped between two stops.
mod child {
    use super::*;

    fn socket(of: impl AsFd) -> UnixStream {
        UnixStream::from(of.as_fd().try_clone_to_owned().unwrap())
    }

    fn stepped(work: impl FnOnce()) {
        assert!(stepping::let_parent_step(), "ptrace is forbidden here");
        // Now the thread is one that the parent can wait for.
        println!("{THREAD}{}", rustix::thread::gettid().as_raw_nonzero());
        stepping::stop();
        work();
        stepping::stop();
    }

    pub(super) fn run(operation: Operation) {
        match operation {
            Operation::Send | Operation::SendToSleeper | Operation::SendToPoller => {
                let socket = socket(std::io::stdin());
                let mut sender = ChannelSender::open(socket, geometry(), Signal::Futex).unwrap();
                sender.send(&message(1)).unwrap();
                let second = message(2);
                stepped(|| sender.send(&second).unwrap());
            }
            Operation::Receive | Operation::ReceiveForSleeper => {
                let socket = socket(std::io::stdin());
                let mut receiver = ChannelReceiver::accept(socket, Signal::Futex).unwrap();
                let mut octets = message(0);
                stepped(|| {
                    let received = receiver.receive().unwrap().unwrap();
                    received.read(0, &mut octets);
                });
                assert_eq!(octets, message(1));
            }
            Operation::ReceiveWithOthers => {
                let socket = socket(std::io::stdin());
                let mut receiver = BroadcastReceiver::join(socket, Signal::Futex).unwrap();
                stepped(|| drop(receiver.receive().unwrap().unwrap()));
            }
            Operation::Claim => {
                let socket = socket(std::io::stdin());
                let mut receiver = AnycastReceiver::join(socket, Signal::Futex).unwrap();
                stepped(|| drop(receiver.receive().unwrap().unwrap()));
            }
            Operation::Pass => {
                let arena = Arena::join(socket(std::io::stdin())).unwrap();
                let socket = socket(std::io::stderr());
                let mut sender = arena.open(socket, Signal::Futex).unwrap();
                stepped(|| {
                    let mut slot = arena.take().unwrap();
                    slot.write(0, &[2; 60]).unwrap();
                    sender.pass(&slot).unwrap();
                });
            }
            Operation::Release => {
                let arena = Arena::join(socket(std::io::stdin())).unwrap();
                let socket = socket(std::io::stderr());
                let mut receiver = arena.accept(socket, Signal::Futex).unwrap();
                stepped(|| drop(receiver.receive().unwrap().unwrap()));
            }
        }
    }
}

/// A child that is to step, with what it inherits as input and error output.
fn start(operation: Operation, input: UnixStream, errors: Option<UnixStream>) -> Started {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = "stepped::peer_killed_at_any_instruction_corrupts_and_blocks_nobody";
    command.args(["--exact", test, "--nocapture"]);
    command.env(OPERATION, format!("{operation:?}"));
    command.stdin(OwnedFd::from(input)).stdout(Stdio::piped());
    if let Some(errors) = errors {
        command.stderr(OwnedFd::from(errors));
    }
    Started(command.spawn().unwrap())
}

/// A child that sets its end up.
struct Started(std::process::Child);

impl Started {
    /// Waits until it is about to do the operation.
    fn stopped(mut self) -> Stepped {
        let output = self.0.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines();
        let thread = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once(THREAD)?.1.parse().ok()
        });
        Stepped::new(self.0, thread.expect("the child says what to step"))
    }
}

/// Executes `steps` instructions of the child, fewer when it is done before, and kills it; how many it executed.
fn kill_after(mut child: Stepped, steps: u64) -> u64 {
    let made = (0..steps)
        .take_while(|_| child.step() == Step::Made)
        .count();
    child.kill();
    made as u64
}

/// Kills a child after `steps` instructions of its operation, and checks what it left.
fn killed(operation: Operation, steps: u64) -> u64 {
    let (near, far) = UnixStream::pair().unwrap();
    match operation {
        Operation::Send | Operation::SendToSleeper | Operation::SendToPoller => {
            let child = start(operation, far, None);
            killed_sender(operation, child, near, steps)
        }
        Operation::Receive | Operation::ReceiveForSleeper => {
            let mut sender = ChannelSender::open(near, geometry(), Signal::Futex).unwrap();
            (1..=2).for_each(|number| sender.send(&message(number)).unwrap());
            let child = start(operation, far, None).stopped();
            if operation == Operation::ReceiveForSleeper {
                let waits = sender.segment().word(SENDER_WAITS);
                waits.store(SLEEPS, Ordering::Relaxed);
            }
            let made = kill_after(child, steps);
            let longest = geometry().capacity() as usize;
            let error = sender.wait_for_room(longest, NOTICED);
            assert!(matches!(error, Err(ChannelError::PeerGone)), "{error:?}");
            made
        }
        Operation::ReceiveWithOthers => killed_receiver_of_two(near, far, steps),
        Operation::Claim => killed_with_a_claim(near, far, steps),
        Operation::Pass | Operation::Release => killed_member(operation, near, far, steps),
    }
}

fn killed_receiver_of_two(near: UnixStream, far: UnixStream, steps: u64) -> u64 {
    let mut sender = BroadcastSender::create(geometry(), Signal::Futex).unwrap();
    let killed = sender.admit(near).unwrap();
    let (other_near, other_far) = UnixStream::pair().unwrap();
    sender.admit(other_near).unwrap();
    let mut other = BroadcastReceiver::join(other_far, Signal::Futex).unwrap();
    (1..=2).for_each(|number| assert!(sender.send(&message(number), NOTICED).unwrap()));
    let child = start(Operation::ReceiveWithOthers, far, None).stopped();
    let waited_for = sender.segment().word(WAITED_FOR);
    waited_for.store(Wanted::of(killed, 1).word(), Ordering::Relaxed);
    let made = kill_after(child, steps);
    for number in 1..=2 {
        assert_eq!(other.receive().unwrap().unwrap().to_vec(), message(number));
    }
    let whole = vec![3; geometry().capacity() as usize];
    assert!(sender.send(&whole, NOTICED).unwrap());
    assert_eq!(other.receive().unwrap().unwrap().to_vec(), whole);
    assert_eq!((sender.receivers(), sender.killed()), (1, 1));
    made
}

/// The one message that it may have claimed is lost, and its place is free again.
fn killed_with_a_claim(near: UnixStream, far: UnixStream, steps: u64) -> u64 {
    let mut sender = AnycastSender::create(geometry(), Signal::Futex).unwrap();
    sender.admit(near).unwrap();
    let (other_near, other_far) = UnixStream::pair().unwrap();
    sender.admit(other_near).unwrap();
    let mut other = AnycastReceiver::join(other_far, Signal::Futex).unwrap();
    (1..=2).for_each(|number| assert!(sender.send(&message(number), NOTICED).unwrap()));
    let child = start(Operation::Claim, far, None).stopped();
    let waited_for = sender.segment().word(WAITED_FOR);
    waited_for.store(anycast::wish(1), Ordering::Relaxed);
    let made = kill_after(child, steps);
    let mut got = Vec::new();
    while let NextMessage::Message(left) = other.receive_within(Duration::ZERO).unwrap() {
        got.push(left.to_vec());
    }
    let all = [message(1), message(2)];
    assert!(got == all || got == all[1..], "{got:?}");
    let whole = vec![3; geometry().capacity() as usize];
    assert!(sender.send(&whole, NOTICED).unwrap());
    // A wait for room looks who is there.
    assert!(!sender.send(&whole, NOTICED).unwrap());
    assert_eq!((sender.receivers(), sender.killed()), (1, 1));
    assert_eq!(other.receive().unwrap().unwrap().to_vec(), whole);
    made
}

fn killed_sender(operation: Operation, child: Started, near: UnixStream, steps: u64) -> u64 {
    let signal = match operation {
        Operation::SendToPoller => Signal::Poll,
        _ => Signal::Futex,
    };
    let mut receiver = ChannelReceiver::accept(near, signal).unwrap();
    let child = child.stopped();
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), message(1));
    match operation {
        Operation::SendToSleeper => {
            let waits = receiver.segment().word(RECEIVER_WAITS);
            waits.store(SLEEPS, Ordering::Relaxed);
        }
        Operation::SendToPoller => assert!(receiver.prepare_poll().unwrap()),
        _ => {}
    }
    let made = kill_after(child, steps);
    let mut found = receiver.wait_for_message(NOTICED);
    if matches!(found, Ok(Arrival::Message)) {
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), message(2));
        found = receiver.wait_for_message(NOTICED);
    }
    assert!(matches!(found, Err(ChannelError::PeerGone)), "{found:?}");
    made
}

fn killed_member(operation: Operation, near: UnixStream, far: UnixStream, steps: u64) -> u64 {
    let mut owner = ArenaOwner::create(geometry()).unwrap();
    let (channel, channel_far) = UnixStream::pair().unwrap();
    let child = start(operation, far, Some(channel_far));
    owner.admit(near).unwrap();
    let made = if operation == Operation::Pass {
        let mut receiver = owner.arena().accept(channel, Signal::Futex).unwrap();
        let made = kill_after(child.stopped(), steps);
        drain_passed(&mut receiver);
        made
    } else {
        let mut sender = owner.arena().open(channel, Signal::Futex).unwrap();
        let mut slot = owner.arena().take().unwrap();
        slot.write(0, b"passed").unwrap();
        sender.pass(&slot).unwrap();
        drop(slot);
        kill_after(child.stopped(), steps)
    };
    owner.sweep().unwrap();
    let free: Vec<_> = (0..=SLOTS).filter_map(|_| owner.arena().take()).collect();
    // Killed between the mark of a receiver and its reference, it leaves the slot with that receiver (`sweep`).
    let with_receiver = usize::from(operation == Operation::Pass);
    let expected = SLOTS as usize - with_receiver..=SLOTS as usize;
    assert!(
        expected.contains(&free.len()),
        "{} slots are free",
        free.len()
    );
    made
}

/// What a killed member passed: one whole message or none, then that it is gone.
fn drain_passed(receiver: &mut ArenaReceiver) {
    let mut found = receiver.wait_for_message(NOTICED);
    if matches!(found, Ok(Arrival::Message)) {
        let passed = receiver.receive().unwrap().unwrap();
        assert_eq!(passed.to_vec(), [2; 60]);
        found = receiver.wait_for_message(NOTICED);
    }
    assert!(matches!(found, Err(ChannelError::PeerGone)), "{found:?}");
}

/// After how many of `steps` instructions a child is killed.
fn kills(steps: u64) -> Vec<u64> {
    let wanted = std::env::var("TOWPATH_KILLS").ok();
    match wanted.as_deref() {
        Some("all") => (0..=steps).collect(),
        wanted => {
            let count = wanted.map_or(KILLS, |text| text.parse().expect("a number, or all"));
            (0..count)
                .map(|index| index * steps / (count.max(2) - 1))
                .collect()
        }
    }
}

/// Files with the name that segments have in the kernel's lists.
fn named_files() -> usize {
    let folders = ["/dev/shm", "/tmp"].map(std::fs::read_dir);
    let files = folders.into_iter().flatten().flatten().flatten();
    files
        .filter(|file| {
            file.file_name()
                .to_string_lossy()
                .contains("towpath-channel")
        })
        .count()
}

#[test]
fn peer_killed_at_any_instruction_corrupts_and_blocks_nobody() {
    if let Ok(name) = std::env::var(OPERATION) {
        let named = |operation: &Operation| format!("{operation:?}") == name;
        return child::run(OPERATIONS.into_iter().find(named).expect("an operation"));
    }
    for operation in OPERATIONS {
        let steps = killed(operation, STEPS_MAX);
        assert!(steps < STEPS_MAX, "{operation:?} is endless");
        let kills = kills(steps);
        for &after in &kills {
            println!("{operation:?}: killed after {after} of {steps} instructions");
            killed(operation, after);
        }
        eprintln!(
            "{operation:?}: {} kills in {steps} instructions",
            kills.len()
        );
    }
    assert_eq!(named_files(), 0);
}
