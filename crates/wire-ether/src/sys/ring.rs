//! Rings of frames that the kernel and this process share (PACKET_MMAP).
//!
//! They use TPACKET_V2, which hands over each frame as it arrives. TPACKET_V3 hands over blocks of
//! frames when they are full or a timer of some milliseconds expires, which delays every reply.

use super::packet::{self, check};
use crate::packet::{OutgoingFrames, PacketSocketOptions};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Offset of the frame in a slot of the send ring, behind the slot's header.
const SEND_OFFSET: usize = mem::size_of::<libc::tpacket2_hdr>();

/// Octets of a slot beside its frame: header, link-layer address and alignment.
pub(crate) const SLOT_OVERHEAD: usize = 96;

/// Octets of a block, the kernel's unit of allocation; a multiple of every page size.
const BLOCK_LEN: usize = 64 << 10;

/// Packet types (`<linux/if_packet.h>`) that this socket ignores.
const IGNORED_TYPES: [u8; 2] = [libc::PACKET_OTHERHOST, libc::PACKET_OUTGOING];

/// Sizes of the rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSizes {
    /// Octets of a slot, a power of two.
    pub(crate) slot_len: usize,
    /// Slots of the receive ring.
    pub(crate) received: usize,
    /// Slots of the send ring.
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

/// The shared memory of both rings.
struct RingMapping {
    start: NonNull<u8>,
    len: usize,
    slot_len: usize,
}

// SAFETY: kernel and process share the memory; the status of a slot names its one owner at a time.
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

    /// The start of slot `index`; the receive ring's slots come first, then the send ring's.
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
        // SAFETY: this value is the only owner of the mapping.
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
        source: None,
        outgoing: OutgoingFrames::Ignored,
        timestamped: false,
        receive_buffer: None,
        nonblocking: true,
    })?;
    let (received, sending) = add_rings(socket.as_fd(), shape, bypass)?;
    packet::bind(socket.as_fd(), index, ethertype)?;
    Ok((socket, received, sending))
}

/// Gives a packet socket both rings.
pub(crate) fn add_rings(
    fd: BorrowedFd<'_>,
    shape: &RingSizes,
    bypass: bool,
) -> io::Result<(ReceiveRing, SendRing)> {
    let level = libc::SOL_PACKET;
    let version = libc::tpacket_versions::TPACKET_V2 as i32;
    packet::set_option(fd, level, libc::PACKET_VERSION, &version)?;
    // PACKET_LOSS: a malformed frame does not stop the frames behind it.
    packet::set_option(fd, level, libc::PACKET_LOSS, &1i32)?;
    if bypass {
        packet::set_option(fd, level, libc::PACKET_QDISC_BYPASS, &1i32)?;
    }
    let ring = |name, slots| packet::set_option(fd, level, name, &shape.request(slots));
    ring(libc::PACKET_RX_RING, shape.received)?;
    ring(libc::PACKET_TX_RING, shape.sending)?;
    let map = Arc::new(RingMapping::new(fd, shape)?);
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
    Ok((received, sending))
}

/// The receive ring.
pub(crate) struct ReceiveRing {
    map: Arc<RingMapping>,
    slots: usize,
    next: usize,
}

impl ReceiveRing {
    /// The next frame for this socket, in the ring, Ethernet header included. Frames longer than a
    /// slot are skipped.
    pub(crate) fn front(&mut self) -> Option<&[u8]> {
        for _ in 0..self.slots {
            let status = self.map.status(self.next).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            if let Some((offset, len)) = self.frame_bounds() {
                // SAFETY: `frame_bounds` found the frame inside the slot, which is this process's
                // until `release`; the borrow of self ends before that.
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

    /// Offset and length of the next frame in its slot, if it is whole and for this socket.
    fn frame_bounds(&self) -> Option<(usize, usize)> {
        let slot = self.map.slot(self.next);
        // SAFETY: a slot owned by this process begins with a header and an address, both written by
        // the kernel; a slot is longer than both.
        let (header, address) = unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>().read();
            let address = slot.add(mem::size_of::<libc::tpacket2_hdr>());
            (header, address.cast::<libc::sockaddr_ll>().read_unaligned())
        };
        let (offset, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let whole = header.tp_snaplen == header.tp_len && offset + len <= self.map.slot_len;
        (whole && !IGNORED_TYPES.contains(&address.sll_pkttype)).then_some((offset, len))
    }

    /// Returns the slot of the frame of [`front`](ReceiveRing::front) to the kernel.
    pub(crate) fn release(&mut self) {
        let status = self.map.status(self.next);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
    }
}

/// The send ring.
pub(crate) struct SendRing {
    map: Arc<RingMapping>,
    /// Index of its first slot, behind those of the receive ring.
    first: usize,
    slots: usize,
    next: usize,
    /// The slot written last.
    last: Option<usize>,
}

impl SendRing {
    /// Whether `count` more frames fit.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let is_free = |index: usize| {
            let status = self.map.status(index).load(Ordering::Acquire);
            status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING) == 0
        };
        // All are checked, as a device may free slots out of order.
        count <= self.slots && (0..count).all(|step| is_free(self.index(step)))
    }

    fn index(&self, step: usize) -> usize {
        self.first + (self.next + step) % self.slots
    }

    /// Writes a frame into the next slot, which must be free. `write` fills the slot and returns
    /// the frame's length.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        let index = self.index(0);
        let slot = self.map.slot(index);
        let room = self.map.slot_len - SEND_OFFSET;
        // SAFETY: the caller has checked that the slot is free, so this process owns it, and the
        // exclusive borrow of self keeps it so until the status is set below.
        let octets = unsafe {
            let start = slot.add(SEND_OFFSET);
            std::slice::from_raw_parts_mut(start.as_ptr(), room)
        };
        let len = write(octets).min(room);
        // SAFETY: the header is at the start of the slot, which this process owns.
        unsafe {
            let header = slot.cast::<libc::tpacket2_hdr>().as_ptr();
            (*header).tp_len = len as u32;
        }
        let status = self.map.status(index);
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        self.last = Some(index);
    }

    /// Has the kernel send the frames in the ring, without waiting.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: no memory is passed; the frames are in the ring.
        let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, flags) };
        check(sent.clamp(-1, 1) as i32)
    }

    /// Whether frames in the ring need another [`flush`](SendRing::flush).
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
