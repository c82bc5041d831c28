//! The ends of a channel each way whose peer writes any words: any octets are its script.

use channel::{Arrival, ChannelReceiver, ChannelSender, Signal, accept_pair};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const SLOT_LEN: u32 = 64;

/// Where the words of both ends lie, and where the lengths of the slots begin.
const WORDS: [u64; 6] = [0, 128, 256, 512, 640, 768];
const LENGTHS: u64 = 4096;

/// Octets of one step of the script: which segment and word, and its value.
const STEP: usize = 5;

/// Runs the script, whose first octet chooses the number of slots; how many messages were read and sent.
pub fn words(octets: &[u8]) -> u64 {
    let Some((choice, script)) = octets.split_first() else {
        return 0;
    };
    let slots = 1 << (choice % 5);
    let segments = [segment(slots), segment(slots)];
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    offer(&near, slots, &segments);
    let (mut sender, mut receiver) = accept_pair(far, Signal::Spin).expect("a right opening");
    let mut moved = 0;
    for step in script.chunks_exact(STEP) {
        write(&segments, slots, step);
        match (read_all(&mut receiver), send_one(&mut sender, step[1])) {
            (Ok(read), Ok(sent)) => moved += read + sent,
            _ => return moved,
        }
    }
    moved
}

fn segment(slots: u32) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create(c"fuzz", flags).expect("a memory file"));
    let lengths = u64::from((slots * 4).next_multiple_of(SLOT_LEN));
    let len = LENGTHS + lengths + u64::from(slots * SLOT_LEN);
    file.set_len(len).expect("memory");
    let seals = SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_add_seals(&file, seals).expect("it can be sealed");
    file
}

fn offer(socket: &UnixStream, slots: u32, segments: &[File; 2]) {
    let mut opening = b"TWCH".to_vec();
    for word in [1, SLOT_LEN, slots] {
        opening.extend(word.to_le_bytes());
    }
    let descriptors = [segments[0].as_fd(), segments[1].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let parts = [IoSlice::new(&opening)];
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL).expect("room");
}

/// A step: any word, with a value that is small in most of them.
fn write(segments: &[File; 2], slots: u32, step: &[u8]) {
    let [place, low, rest @ ..] = step else {
        return;
    };
    let value = match place & 0x40 {
        0 => u32::from(*low) % (slots * SLOT_LEN + 2),
        _ => u32::from_le_bytes([*low, rest[0], rest[1], rest[2]]),
    };
    let index = usize::from(place & 0x3f);
    let at = WORDS
        .get(index)
        .copied()
        .unwrap_or_else(|| LENGTHS + 4 * (index as u64 % u64::from(slots)));
    let file = &segments[usize::from(place >> 7)];
    file.write_all_at(&value.to_ne_bytes(), at)
        .expect("within the segment");
}

/// Reads what there is; an error when the channel is of no use any more.
fn read_all(receiver: &mut ChannelReceiver) -> Result<u64, ()> {
    let geometry = receiver.geometry();
    let mut messages = 0;
    while receiver.wait_for_message(Duration::ZERO).map_err(drop)? == Arrival::Message {
        let message = receiver.receive().map_err(drop)?.ok_or(())?;
        assert!(message.len() <= geometry.capacity() as usize);
        assert_eq!(message.to_vec().len(), message.len());
        messages += 1;
        assert!(messages <= u64::from(geometry.slots()), "each takes a slot");
    }
    Ok(messages)
}

fn send_one(sender: &mut ChannelSender, len: u8) -> Result<u64, ()> {
    let message = vec![len; usize::from(len).min(sender.geometry().capacity() as usize)];
    if !sender.has_room(message.len()).map_err(drop)? {
        return Ok(0);
    }
    sender.send(&message).map_err(drop)?;
    Ok(1)
}
