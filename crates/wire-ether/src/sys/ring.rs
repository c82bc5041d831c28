//! Rings of frames that the kernel and this process share (packet_mmap).
//!
//! Version 2 of their format: a reader sees each frame as it comes. Version 3 fills blocks and hands
//! them over when they are full or a timer of some milliseconds runs out, which no protocol that
//! waits for an answer can afford.

use super::packet::{self, check};
use crate::packet::{OutgoingFrames, PacketSocketOptions};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Octets in front of a frame in a slot to be sent: the slot's header.
const SEND_OFFSET: usize = mem::size_of::<libc::tpacket2_hdr>();

/// Octets a slot needs beside a frame: its header, a link-layer address and what aligns them.
pub(crate) const SLOT_OVERHEAD: usize = 96;

/// Octets of a block, the unit in which the kernel finds memory; a multiple of every page size.
const BLOCK_LEN: usize = 64 << 10;

/// Kinds of packets (`<linux/if_packet.h>`) that are not for this socket.
const IGNORED_TYPES: [u8; 2] = [libc::PACKET_OTHERHOST, libc::PACKET_OUTGOING];

/// How large the rings are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSizes {
    /// Octets of a slot, a power of two.
    pub(crate) slot_len: usize,
    /// Slots of received frames.
    pub(crate) received: usize,
    /// Slots of frames to send.
    pub(crate) sending: usize,
}

impl RingSizes {
    fn request(&self, slots: usize) -> libc::tpacket_req {
        let block = BLOCK_LEN.max(self.slot_len);
        libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (slots * self.slot_len / block) as u32,
            tp_frame_size: self.slot_len as u32,
            tp_frame_nr: slots as u32,
        }
    }
}

/// The memory both rings lie in.
struct RingMapping {
    start: NonNull<u8>,
    len: usize,
    slot_len: usize,
}

// SAFETY: the memory belongs to the kernel and to whoever holds a ring; each slot has one owner at
// a time, which its status says.
unsafe impl Send for RingMapping {}
// SAFETY: as above.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    fn new(socket: BorrowedFd<'_>, shape: &RingSizes) -> io::Result<RingMapping> {
        let len = (shape.received + shape.sending) * shape.slot_len;
        // SAFETY: a new mapping at an address the kernel chooses touches no other memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(RingMapping {
            start,
            len,
            slot_len: shape.slot_len,
        })
    }

    /// The start of slot `index`, counted through both rings.
    fn slot(&self, index: usize) -> NonNull<u8> {
        debug_assert!((index + 1) * self.slot_len <= self.len);
        // SAFETY: rings hold indices below their numbers of slots, so this is inside the mapping.
        unsafe { self.start.add(index * self.slot_len) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, four aligned octets, which kernel and process
        // change in turn; the mapping lives as long as self.
        unsafe { self.slot(index).cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of this value, which nobody else holds.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Opens a socket on interface number `index` with both rings, for frames of `ethertype`.
pub(crate) fn open_rings(
    index: u32,
    ethertype: u16,
    shape: &RingSizes,
    bypass: bool,
) -> io::Result<(OwnedFd, ReceiveRing, SendRing)> {
    let socket = packet::open_unbound(&PacketSocketOptions {
        ethertype,
        port: None,
        outgoing: OutgoingFrames::Ignored,
        timestamped: false,
        receive_buffer: None,
        nonblocking: true,
    })?;
    let fd = socket.as_fd();
    let level = libc::SOL_PACKET;
    let version = libc::tpacket_versions::TPACKET_V2 as i32;
    packet::set_option(fd, level, libc::PACKET_VERSION, &version)?;
    // A frame the kernel cannot send does not stop those behind it.
    packet::set_option(fd, level, libc::PACKET_LOSS, &1i32)?;
    if bypass {
        packet::set_option(fd, level, libc::PACKET_QDISC_BYPASS, &1i32)?;
    }
    let ring = |name, slots| packet::set_option(fd, level, name, &shape.request(slots));
    ring(libc::PACKET_RX_RING, shape.received)?;
    ring(libc::PACKET_TX_RING, shape.sending)?;
    let map = Arc::new(RingMapping::new(fd, shape)?);
    packet::bind(fd, index, ethertype)?;
    let received = ReceiveRing {
        map: Arc::clone(&map),
        slots: shape.received,
        next: 0,
    };
    let sending = SendRing {
        map,
        first: shape.received,
        slots: shape.sending,
        next: 0,
        last: None,
    };
    Ok((socket, received, sending))
}

/// The ring of received frames.
pub(crate) struct ReceiveRing {
    map: Arc<RingMapping>,
    slots: usize,
    next: usize,
}

impl ReceiveRing {
    /// The next frame for this socket, Ethernet header included, as it lies in the ring. Frames
    /// that were longer than a slot are skipped.
    pub(crate) fn front(&mut self) -> Option<&[u8]> {
        for _ in 0..self.slots {
            let status = self.map.status(self.next).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            if let Some((offset, len)) = self.frame_bounds() {
                // SAFETY: `frame_bounds` found the frame inside the slot, which is this process's until
                // `release`; the borrow of self ends before that.
                let octets = unsafe {
                    let start = self.map.slot(self.next).add(offset);
                    std::slice::from_raw_parts(start.as_ptr(), len)
                };
                return Some(octets);
            }
            self.release();
        }
        None
    }

    /// Where in its slot the next frame lies, if it is whole and for this socket.
    fn frame_bounds(&self) -> Option<(usize, usize)> {
        let slot = self.map.slot(self.next);
        // SAFETY: a slot of this process begins with a header and an address behind it, both
        // written by the kernel; a slot is longer than both.
        let (header, address) = unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>().read();
            let address = slot.add(mem::size_of::<libc::tpacket2_hdr>());
            (header, address.cast::<libc::sockaddr_ll>().read_unaligned())
        };
        let (offset, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let whole = header.tp_snaplen == header.tp_len && offset + len <= self.map.slot_len;
        (whole && !IGNORED_TYPES.contains(&address.sll_pkttype)).then_some((offset, len))
    }

    /// Gives the slot of the frame that [`front`](Received::front) showed back to the kernel.
    pub(crate) fn release(&mut self) {
        let status = self.map.status(self.next);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
    }
}

/// The ring of frames to send.
pub(crate) struct SendRing {
    map: Arc<RingMapping>,
    /// Where its slots begin, behind those of the other ring.
    first: usize,
    slots: usize,
    next: usize,
    /// The slot written last.
    last: Option<usize>,
}

impl SendRing {
    /// Whether `count` more frames fit. Slots are freed in order.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let is_free = |index: usize| {
            let status = self.map.status(index).load(Ordering::Acquire);
            status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING) == 0
        };
        // The last of them is free only when all are, unless frames are freed out of order.
        count <= self.slots && (0..count).all(|step| is_free(self.index(step)))
    }

    fn index(&self, step: usize) -> usize {
        self.first + (self.next + step) % self.slots
    }

    /// Writes a frame into the next slot, which must be free: `write` gets the slot and says how
    /// long the frame is.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        let index = self.index(0);
        let slot = self.map.slot(index);
        let room = self.map.slot_len - SEND_OFFSET;
        // SAFETY: the caller has seen that the slot is free, so it is this process's, and the
        // exclusive borrow of self keeps others out until it is handed over below.
        let octets = unsafe {
            let start = slot.add(SEND_OFFSET);
            std::slice::from_raw_parts_mut(start.as_ptr(), room)
        };
        let len = write(octets).min(room);
        // SAFETY: the header lies at the start of the slot, which is this process's.
        unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>().as_ptr();
            (*header).tp_len = len as u32;
        }
        let status = self.map.status(index);
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        self.last = Some(index);
    }

    /// Has the kernel send what is in the ring, without waiting.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: no memory is passed; the frames are in the ring.
        let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, flags) };
        check(sent.clamp(-1, 1) as i32)
    }

    /// Whether frames in the ring wait for another kick.
    pub(crate) fn has_unsent(&mut self) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        let status = self.map.status(last).load(Ordering::Acquire);
        let waiting = status & libc::TP_STATUS_SEND_REQUEST != 0;
        if !waiting {
            self.last = None;
        }
        waiting
    }
}
