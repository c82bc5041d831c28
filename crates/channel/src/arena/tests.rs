//! Members of an arena in one process, and what a hostile one can write.

use super::*;
use crate::ring::{Arrival, ChannelSender};
use crate::wait::Signal;
use std::thread;

fn owner(slots: u32) -> ArenaOwner {
    ArenaOwner::create(Geometry::new(256, slots).unwrap()).unwrap()
}

/// Another member's handle, in this thread.
fn member(owner: &mut ArenaOwner) -> Arena {
    let (near, far) = UnixStream::pair().unwrap();
    owner.admit(near).unwrap();
    Arena::join(far).unwrap()
}

/// A channel between two members. The receiver's hello lies in the socket before the sender reads it.
fn channel(from: &Arena, to: &Arena) -> (ArenaSender, ArenaReceiver) {
    let (near, far) = UnixStream::pair().unwrap();
    opening::send_hello(&far, to.0.identity, to.0.member.0).unwrap();
    let sender = from.open(near, Signal::Futex).unwrap();
    let receiver = ArenaReceiver::adopt(to, far).unwrap();
    (sender, receiver)
}

fn message(arena: &Arena, octets: &[u8]) -> ArenaSlot {
    let mut slot = arena.take().expect("a free slot");
    slot.write(0, octets).unwrap();
    slot
}

#[test]
fn message_passed_on_keeps_its_slot_and_is_free_when_the_last_holder_drops_it() {
    let mut owner = owner(2);
    let (middle, last) = (member(&mut owner), member(&mut owner));
    let (mut first_out, mut middle_in) = channel(owner.arena(), &middle);
    let (mut middle_out, mut last_in) = channel(&middle, &last);
    let sent = message(owner.arena(), b"lock gate");
    let number = sent.number();
    first_out.pass(&sent).unwrap();
    drop(sent);
    let held = middle_in.receive().unwrap().unwrap();
    middle_out.pass(&held).unwrap();
    drop(held);
    let received = last_in.receive().unwrap().unwrap();
    assert_eq!(
        (received.number(), received.to_vec()),
        (number, b"lock gate".to_vec())
    );
    let other = owner.arena().take().expect("the second slot");
    assert!(owner.arena().take().is_none());
    drop(received);
    assert_eq!(owner.arena().take().unwrap().number(), number);
    drop(other);
}

#[test]
fn message_to_many_is_one_slot_until_all_of_them_dropped_it() {
    let mut owner = owner(1);
    let members: Vec<Arena> = (0..5).map(|_| member(&mut owner)).collect();
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) = members
        .iter()
        .map(|member| channel(owner.arena(), member))
        .unzip();
    let sent = message(owner.arena(), b"to all");
    for sender in &mut senders {
        sender.pass(&sent).unwrap();
    }
    drop(sent);
    for receiver in &mut receivers {
        assert!(owner.arena().take().is_none());
        assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"to all");
    }
    assert!(owner.arena().take().is_some());
}

#[test]
fn message_that_others_hold_cannot_be_written_nor_passed_to_them_again() {
    let mut owner = owner(4);
    let other = member(&mut owner);
    let (mut sender, mut receiver) = channel(owner.arena(), &other);
    let mut sent = message(owner.arena(), b"held");
    sender.pass(&sent).unwrap();
    assert!(matches!(sent.write(0, b"x"), Err(ChannelError::Shared)));
    assert!(matches!(sent.set_len(1), Err(ChannelError::Shared)));
    assert!(matches!(sender.pass(&sent), Err(ChannelError::AlreadyHeld)));
    drop(receiver.receive().unwrap());
    sent.write(4, b" no more").unwrap();
    sender.pass(&sent).unwrap();
    assert_eq!(
        receiver.receive().unwrap().unwrap().to_vec(),
        b"held no more"
    );
    assert_eq!(receiver.look().unwrap(), Arrival::Nothing);
}

#[test]
fn message_beyond_a_slot_is_refused() {
    let owner = owner(1);
    let mut slot = owner.arena().take().unwrap();
    for (offset, len) in [(0, 257), (256, 1), (usize::MAX, 2)] {
        let refused = slot.write(offset, &vec![0; len]);
        assert!(matches!(
            refused,
            Err(ChannelError::TooLong { max: 256, .. })
        ));
    }
    assert!(slot.set_len(257).is_err());
    slot.write(0, &[7; 256]).unwrap();
    assert_eq!(slot.len(), 256);
}

#[test]
fn thousands_of_messages_through_three_members_arrive_whole_and_in_order() {
    const COUNT: u64 = 3_000;
    let mut owner = owner(8);
    let ((first, first_far), (second, second_far)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let ((to_middle, from_first), (to_last, from_middle)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    owner.admit(first).unwrap();
    owner.admit(second).unwrap();
    let middle = thread::spawn(move || {
        let arena = Arena::join(first_far).unwrap();
        let mut incoming = arena.accept(from_first, Signal::Futex).unwrap();
        let mut outgoing = arena.open(to_last, Signal::Futex).unwrap();
        while let Some(message) = incoming.receive().unwrap() {
            outgoing.pass(&message).unwrap();
        }
    });
    let last = thread::spawn(move || {
        let arena = Arena::join(second_far).unwrap();
        let mut incoming = arena.accept(from_middle, Signal::Futex).unwrap();
        for number in 0..COUNT {
            let octets = incoming.receive().unwrap().unwrap().to_vec();
            assert_eq!(octets[..8], number.to_le_bytes());
            assert!(octets[8..].iter().all(|&octet| octet == number as u8));
        }
        assert!(incoming.receive().unwrap().is_none());
    });
    let mut outgoing = owner.arena().open(to_middle, Signal::Futex).unwrap();
    for number in 0..COUNT {
        let mut octets = vec![number as u8; 8 + number as usize % 248];
        octets[..8].copy_from_slice(&number.to_le_bytes());
        let taken = owner.arena().take_within(Duration::from_secs(60)).unwrap();
        let mut slot = taken.expect("the last member lets slots go");
        slot.write(0, &octets).unwrap();
        outgoing.pass(&slot).unwrap();
    }
    drop(outgoing);
    middle.join().unwrap();
    last.join().unwrap();
    let all: Vec<ArenaSlot> = (0..9).filter_map(|_| owner.arena().take()).collect();
    assert_eq!(all.len(), 8);
}

#[test]
fn receiver_that_closes_lets_go_what_it_has_not_read() {
    let mut owner = owner(4);
    let other = member(&mut owner);
    let (mut sender, receiver) = channel(owner.arena(), &other);
    for _ in 0..3 {
        sender.pass(&message(owner.arena(), b"unread")).unwrap();
    }
    drop(receiver);
    let late = message(owner.arena(), b"late");
    assert!(matches!(sender.pass(&late), Err(ChannelError::PeerGone)));
    drop(late);
    let free: Vec<ArenaSlot> = (0..4).filter_map(|_| owner.arena().take()).collect();
    assert_eq!(free.len(), 4);
}

#[test]
fn slots_of_a_member_that_is_gone_come_back_and_so_does_its_number() {
    let mut owner = owner(4);
    let other = member(&mut owner);
    let (mut sender, mut receiver) = channel(owner.arena(), &other);
    sender.pass(&message(owner.arena(), b"held")).unwrap();
    sender
        .pass(&message(owner.arena(), b"in the ring"))
        .unwrap();
    assert_eq!(owner.sweep().unwrap(), 0);
    let held = receiver.receive().unwrap().unwrap();
    // As a killed process: nothing is let go, and the kernel closes its sockets.
    let shared = Rc::clone(&other.0);
    std::mem::forget((held, receiver));
    rustix::net::shutdown(
        shared._lifeline.as_ref().unwrap(),
        rustix::net::Shutdown::Both,
    )
    .unwrap();
    assert_eq!(owner.sweep().unwrap(), 2);
    assert_eq!(member(&mut owner).0.member, other.0.member);
    let free: Vec<ArenaSlot> = (0..5).filter_map(|_| owner.arena().take()).collect();
    assert_eq!(free.len(), 4);
}

#[test]
fn member_beyond_the_last_is_refused_until_one_is_gone() {
    let mut owner = owner(1);
    let mut members: Vec<Arena> = (1..MEMBERS_MAX).map(|_| member(&mut owner)).collect();
    let (near, _far) = UnixStream::pair().unwrap();
    assert!(matches!(owner.admit(near), Err(ChannelError::ArenaFull)));
    members.remove(7);
    assert_eq!(member(&mut owner).0.member, Member(8));
}

#[test]
fn channel_to_a_member_of_another_arena_is_refused() {
    let (mut here, mut there) = (owner(1), owner(1));
    let stranger = member(&mut there);
    let (near, far) = UnixStream::pair().unwrap();
    opening::send_hello(&far, stranger.0.identity, stranger.0.member.0).unwrap();
    let refused = here.arena().open(near, Signal::Futex);
    assert!(matches!(refused, Err(ChannelError::OtherArena)));
    let other = member(&mut here);
    let (mut sender, _receiver) = channel(here.arena(), &other);
    let foreign = message(there.arena(), b"not ours");
    assert!(matches!(
        sender.pass(&foreign),
        Err(ChannelError::OtherArena)
    ));
}

#[test]
fn admission_with_a_number_that_no_member_has_is_refused() {
    let owner = owner(1);
    let (near, far) = UnixStream::pair().unwrap();
    let geometry = owner.arena().geometry();
    opening::offer_member(&near, &owner.descriptor, geometry, MEMBERS_MAX).unwrap();
    assert!(matches!(
        Arena::join(far),
        Err(ChannelError::Corrupt {
            value: MEMBERS_MAX,
            ..
        })
    ));
}

/// A member that writes any reference is found out, or passes what this member holds anyway.
#[test]
fn references_of_any_octets_end_in_messages_within_their_slot_or_an_error() {
    let mut random = engine::SplitMix64::new(3);
    let mut random = || (random.next_u64() >> 33) as u32;
    let (mut refused, mut read) = (0, 0);
    for _ in 0..400 {
        let mut owner = owner(8);
        let other = member(&mut owner);
        let (near, far) = UnixStream::pair().unwrap();
        let mut hostile =
            ChannelSender::open(near, Geometry::new(64, 8).unwrap(), Signal::Futex).unwrap();
        let mut receiver = ArenaReceiver::adopt(&other, far).unwrap();
        other
            .0
            .holders(random() % 8)
            .store(u32::MAX, Ordering::SeqCst);
        let mut reference = (random() % 10).to_ne_bytes().to_vec();
        let len = if random() % 3 == 0 {
            random()
        } else {
            random() % 256
        };
        reference.extend(len.to_ne_bytes());
        reference.truncate(if random() % 9 == 0 { 5 } else { 8 });
        hostile.send(&reference).unwrap();
        match receiver.receive() {
            Ok(message) => {
                assert!(message.expect("a message").to_vec().len() <= 256);
                read += 1;
            }
            Err(ChannelError::Corrupt { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 50 && read > 10, "{refused} refused, {read} read");
}
