//! Many packets received in one call (recvmmsg).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Packets received in a call.
const SLOTS: usize = 32;

/// Octets kept of a packet: the largest of the stack's default configuration, and its Ethernet
/// header.
const SLOT_LEN: usize = (64 << 10) + 64;

/// Room for one timestamp: a cmsghdr of 16 octets and a timespec of 16, and as much again to spare.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

/// Buffers of one call.
pub(crate) struct FrameBatch {
    octets: Vec<u8>,
    controls: [ControlBuffer; SLOTS],
    addresses: [libc::sockaddr_ll; SLOTS],
    seen: Vec<FrameInfo>,
}

/// The kernel's metadata of a packet.
struct FrameInfo {
    original_len: usize,
    at_ns: Option<u64>,
    outgoing: bool,
}

/// A frame of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapturedFrame<'a> {
    /// Kernel timestamp, ns since 1970; None without one.
    pub(crate) at_ns: Option<u64>,
    /// Its octets, possibly truncated.
    pub(crate) octets: &'a [u8],
    /// Its original length.
    pub(crate) original_len: usize,
    /// It was sent by this host.
    pub(crate) outgoing: bool,
}

impl FrameBatch {
    /// An empty batch.
    pub(crate) fn new() -> FrameBatch {
        FrameBatch {
            octets: vec![0; SLOTS * SLOT_LEN],
            controls: [ControlBuffer([0; 64]); SLOTS],
            // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
            addresses: [unsafe { mem::zeroed() }; SLOTS],
            seen: Vec::with_capacity(SLOTS),
        }
    }

    /// Whether the last call filled it, so that more packets may be waiting.
    pub(crate) fn is_full(&self) -> bool {
        self.seen.len() == SLOTS
    }

    /// The packets of the last call, in order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = CapturedFrame<'_>> {
        let slots = self.octets.chunks_exact(SLOT_LEN);
        slots.zip(&self.seen).map(|(slot, header)| CapturedFrame {
            at_ns: header.at_ns,
            octets: &slot[..header.original_len.min(SLOT_LEN)],
            original_len: header.original_len,
            outgoing: header.outgoing,
        })
    }

    /// Makes timestamps monotonic by lowering those that are up to `late_ns` later than the next
    /// packet's: the kernel made them when the packet was read. A larger step is a clock that was
    /// set.
    pub(crate) fn order_timestamps(&mut self, late_ns: u64) {
        let mut next = u64::MAX;
        for at_ns in self
            .seen
            .iter_mut()
            .rev()
            .filter_map(|header| header.at_ns.as_mut())
        {
            if at_ns.saturating_sub(next) <= late_ns {
                *at_ns = next.min(*at_ns);
            }
            next = *at_ns;
        }
    }

    /// Receives the waiting packets; `WouldBlock` when there are none.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.seen.clear();
        let mut slices: [libc::iovec; SLOTS] = std::array::from_fn(|_| libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: SLOT_LEN,
        });
        for (slice, slot) in slices
            .iter_mut()
            .zip(self.octets.chunks_exact_mut(SLOT_LEN))
        {
            slice.iov_base = slot.as_mut_ptr().cast();
        }
        // SAFETY: mmsghdr is plain data for which all zeros is a value.
        let mut messages: [libc::mmsghdr; SLOTS] = unsafe { mem::zeroed() };
        for (index, message) in messages.iter_mut().enumerate() {
            let header = &mut message.msg_hdr;
            header.msg_iov = &raw mut slices[index];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_control = (&raw mut self.controls[index]).cast();
            header.msg_controllen = mem::size_of::<ControlBuffer>() as _;
        }
        // SAFETY: each message has a slot, an address and a control buffer of its own, which
        // live longer than the call and are of the lengths given.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                SLOTS as u32,
                // With MSG_TRUNC the kernel returns a packet's length, truncated or not.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (message, address) in messages.iter().zip(&self.addresses).take(count) {
            self.seen.push(FrameInfo {
                original_len: message.msg_len as usize,
                at_ns: timestamp(&message.msg_hdr),
                outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            });
        }
        Ok(())
    }
}

/// The kernel's timestamp among a message's control data.
fn timestamp(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel has filled in the message, whose control buffer is alive; the macros stay
    // inside the length it gave.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: not null, so the macro found a whole header there.
        let header = unsafe { &*at };
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: control data of this type is one timespec, perhaps not aligned as one.
            let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(at).cast()) };
            return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        }
        // SAFETY: as for the first.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    None
}
