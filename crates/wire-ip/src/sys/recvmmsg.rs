//! Many packets received in one call (recvmmsg).

use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use wire_udp::sys::RawAddress;

/// Packets received in a call.
const SLOTS: usize = 32;

/// Octets of the longest packet. The kernel commits a slot's memory when a packet first fills it.
const SLOT_LEN: usize = 65_536;

/// Buffers of one call.
pub(crate) struct ReceiveBuffers {
    octets: Vec<u8>,
    addresses: [RawAddress; SLOTS],
    /// Length of each packet of the last call; None if it was truncated.
    lens: [Option<usize>; SLOTS],
}

impl ReceiveBuffers {
    /// Empty buffers.
    pub(crate) fn new() -> ReceiveBuffers {
        ReceiveBuffers {
            octets: vec![0; SLOTS * SLOT_LEN],
            addresses: std::array::from_fn(|_| RawAddress::zeroed()),
            lens: [None; SLOTS],
        }
    }

    /// Packet `index` of the last call and its sender; None if it was truncated.
    pub(crate) fn packet(&self, index: usize) -> Option<(SocketAddr, &[u8])> {
        let len = (*self.lens.get(index)?)?;
        let from = self.addresses[index].to_socket()?;
        Some((
            without_port(from),
            self.octets[index * SLOT_LEN..].get(..len)?,
        ))
    }

    /// Receives at least one packet, unless `flags` forbid waiting; returns their number.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, flags: i32) -> io::Result<usize> {
        let empty = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut slices = [empty; SLOTS];
        // SAFETY: mmsghdr is plain data for which all zeros is a value.
        let mut headers: [libc::mmsghdr; SLOTS] = unsafe { mem::zeroed() };
        let slots = self.octets.chunks_exact_mut(SLOT_LEN);
        let rooms = slots.zip(&mut self.addresses).zip(&mut slices);
        for (header, ((slot, address), slice)) in headers.iter_mut().zip(rooms) {
            slice.iov_base = slot.as_mut_ptr().cast();
            slice.iov_len = slot.len();
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut address.storage).cast();
            header.msg_hdr.msg_namelen =
                mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        // SAFETY: each header names a slot and an address of its own, which live longer than the
        // call and are of the lengths given.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                SLOTS as libc::c_uint,
                (flags | libc::MSG_WAITFORONE) as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (len, header) in self.lens.iter_mut().zip(&headers).take(count) {
            let whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            *len = whole.then_some(header.msg_len as usize);
        }
        Ok(count)
    }
}

/// A raw socket reports the protocol number in the port field; engines use port 0.
fn without_port(mut from: SocketAddr) -> SocketAddr {
    from.set_port(0);
    from
}

impl fmt::Debug for ReceiveBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}
