//! Many datagrams a call: sendmmsg and recvmmsg, with tables that are reused.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A table for sending one message several times with sendmmsg, on a connected socket.
pub struct MmsgSender {
    headers: Vec<libc::mmsghdr>,
    // Headers point into these; they are never resized.
    slices: Vec<libc::iovec>,
}

impl MmsgSender {
    /// A table for up to `count` datagrams a call.
    pub fn new(count: usize) -> MmsgSender {
        let empty = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut slices = vec![empty; count];
        let headers = slices.iter_mut().map(header_of).collect();
        MmsgSender { headers, slices }
    }

    /// Datagrams a call can send.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Sends `message` up to `count` times and returns how often the kernel took it. `flags` decide
    /// whether it blocks.
    ///
    /// # Errors
    ///
    /// The error of the first datagram.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &[u8],
        count: usize,
        flags: i32,
    ) -> io::Result<usize> {
        let count = count.min(self.headers.len());
        for slice in &mut self.slices[..count] {
            slice.iov_base = message.as_ptr().cast_mut().cast();
            slice.iov_len = message.len();
        }
        // SAFETY: the headers point to slices owned by self, those to `message`, which the kernel
        // only reads.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (flags | libc::MSG_NOSIGNAL) as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Buffers for recvmmsg.
pub struct MmsgReceiver {
    headers: Vec<libc::mmsghdr>,
    // Headers point into these; they are never resized.
    _slices: Vec<libc::iovec>,
    octets: Vec<u8>,
    buffer_len: usize,
}

impl MmsgReceiver {
    /// Room for `count` datagrams of up to `buffer_len` octets.
    pub fn new(buffer_len: usize, count: usize) -> MmsgReceiver {
        let mut octets = vec![0u8; buffer_len * count];
        let mut slices: Vec<libc::iovec> = octets
            .chunks_exact_mut(buffer_len.max(1))
            .map(|chunk| libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: buffer_len,
            })
            .collect();
        let headers = slices.iter_mut().map(header_of).collect();
        MmsgReceiver {
            headers,
            _slices: slices,
            octets,
            buffer_len,
        }
    }

    /// Receives at least one datagram (unless `flags` forbid waiting) and at most `count`; returns
    /// their number.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        count: usize,
        flags: i32,
    ) -> io::Result<usize> {
        // SAFETY: the headers point to live slices and octets owned by self.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count.min(self.headers.len()) as libc::c_uint,
                (flags | libc::MSG_WAITFORONE) as _,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Octets of datagram `index` of the last call, and whether it was truncated.
    #[inline]
    pub fn datagram_len(&self, index: usize) -> (usize, bool) {
        let header = &self.headers[index];
        let cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        (header.msg_len as usize, cut)
    }

    /// The octets of datagram `index` of the last call.
    pub fn datagram(&self, index: usize) -> &[u8] {
        let len = (self.headers[index].msg_len as usize).min(self.buffer_len);
        &self.octets[index * self.buffer_len..][..len]
    }
}

fn header_of(slice: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain data for which all zeros is a value.
    let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_iov = slice;
    header.msg_hdr.msg_iovlen = 1;
    header
}

// SAFETY: the raw pointers refer to heap memory owned by the same value and moved with it.
unsafe impl Send for MmsgSender {}
// SAFETY: as above.
unsafe impl Send for MmsgReceiver {}
