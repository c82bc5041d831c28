//! Many packets sent in one call (sendmmsg).

use std::fmt;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use wire_udp::sys::{RawAddress, option};

/// Tables for sendmmsg, reused from call to call.
#[derive(Default)]
pub(crate) struct SendTables {
    headers: Vec<libc::mmsghdr>,
    slices: Vec<libc::iovec>,
    /// Slices of each packet.
    counts: Vec<usize>,
}

// SAFETY: each call sets the raw pointers and none is used after it.
unsafe impl Send for SendTables {}

impl SendTables {
    /// Tables for about `count` packets a call.
    pub(crate) fn new(count: usize) -> SendTables {
        SendTables {
            headers: Vec::with_capacity(count),
            slices: Vec::with_capacity(2 * count),
            counts: Vec::with_capacity(count),
        }
    }

    /// Sends the octets of `slices` to `to` as packets of `segment_size` octets, without waiting.
    /// Fails with `WouldBlock` when no packet was taken. Packets behind one that the device refused are lost, as they
    /// would be at a full queue of the path.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        to: SocketAddr,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<()> {
        self.split_packets(slices, segment_size.max(1));
        if self.counts.len() > 1 && !has_room(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut address = RawAddress::new(without_port(to));
        self.build_headers(&mut address);
        // SAFETY: every header points to the address and to slices of self, which point to the
        // caller's octets; all of it lives longer than the call, and the kernel only reads it.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The device's queue is full, not the socket's buffer.
            Some(libc::ENOBUFS) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(error),
        }
    }

    /// Splits the octets into packets.
    fn split_packets(&mut self, slices: &[IoSlice<'_>], segment_size: usize) {
        self.slices.clear();
        self.counts.clear();
        let mut left = 0;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                if left == 0 {
                    self.counts.push(0);
                    left = segment_size;
                }
                let (part, more) = rest.split_at(left.min(rest.len()));
                self.slices.push(libc::iovec {
                    iov_base: part.as_ptr().cast_mut().cast(),
                    iov_len: part.len(),
                });
                if let Some(count) = self.counts.last_mut() {
                    *count += 1;
                }
                left -= part.len();
                rest = more;
            }
        }
    }

    /// Fills in a mmsghdr for each packet.
    fn build_headers(&mut self, address: &mut RawAddress) {
        self.headers.clear();
        let mut slices = &mut self.slices[..];
        for &count in &self.counts {
            let (mine, rest) = slices.split_at_mut(count);
            slices = rest;
            // SAFETY: mmsghdr is plain data for which all zeros is a value.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = mine.as_mut_ptr();
            header.msg_hdr.msg_iovlen = mine.len() as _;
            header.msg_hdr.msg_name = (&raw mut address.storage).cast();
            header.msg_hdr.msg_namelen = address.len;
            self.headers.push(header);
        }
    }
}

/// Whether a whole batch fits into the socket's buffer: at least half of it is free, as when the
/// kernel reports the socket writable.
fn has_room(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut queued: libc::c_int = 0;
    // SAFETY: the request writes one live integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let whole = option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)?;
    Ok(queued <= whole / 2)
}

/// A raw socket takes port 0 only.
fn without_port(mut to: SocketAddr) -> SocketAddr {
    to.set_port(0);
    to
}

impl fmt::Debug for SendTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_split_across_slices() {
        let (a, b, c) = ([1; 5], [2; 6], [3; 2]);
        let slices = [IoSlice::new(&a), IoSlice::new(&b), IoSlice::new(&c)];
        let mut outgoing = SendTables::new(4);
        outgoing.split_packets(&slices, 4);
        assert_eq!(outgoing.counts, [1, 2, 2, 1]);
        let lens: Vec<usize> = outgoing.slices.iter().map(|slice| slice.iov_len).collect();
        assert_eq!(lens, [4, 1, 3, 3, 1, 1]);
        outgoing.split_packets(&[IoSlice::new(&a)], 5);
        assert_eq!(outgoing.counts, [1]);
    }
}
