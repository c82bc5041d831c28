//! Memory into a socket by reference: its pages go through a pipe (vmsplice(2), splice(2)), and no octet is
//! copied before the receiver copies it. Linux 6.5 and later; earlier kernels copy at the splice.

use rustix::net::{SendFlags, send};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// A pipe between memory and sockets. It is empty between two calls.
#[derive(Debug)]
pub struct Pipe {
    into: OwnedFd,
    out: OwnedFd,
}

impl Pipe {
    /// A pipe that takes `octets`, page by page.
    ///
    /// # Errors
    ///
    /// Out of descriptors, or the user has so many pipes that this one would be too small.
    pub fn open(octets: usize) -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
        if fcntl_getpipe_size(&into)? < octets {
            fcntl_setpipe_size(&into, octets)?;
        }
        Ok(Pipe { into, out })
    }

    /// Sends the `len` octets of `slices` in one piece. The kernel takes up to 16 pages a datagram: more are the
    /// caller's fault, and reported like a short call.
    /// Errors are those of the socket, and `WriteZero` for a call that took a part. Nothing was sent that a receiver
    /// would take for the whole, and the pipe is not empty: drop it.
    pub fn send(
        &self,
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
        len: usize,
    ) -> io::Result<()> {
        self.fill(slices, len)?;
        self.empty_into(socket, len)
    }

    /// Sends `slices` in one datagram behind a copy of `header`. No other thread may send by the socket meanwhile.
    /// Errors are those of [`send`](Pipe::send).
    pub fn send_behind(
        &self,
        socket: BorrowedFd<'_>,
        header: &[u8],
        slices: &[IoSlice<'_>],
    ) -> io::Result<()> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        self.fill(slices, len)?;
        begin_datagram(socket, header)?;
        let sent = self.empty_into(socket, len);
        if sent.is_err() {
            abandon_datagram(socket);
        }
        sent
    }

    fn fill(&self, slices: &[IoSlice<'_>], len: usize) -> io::Result<()> {
        // SAFETY: IoSlice is guaranteed to have the layout of iovec, and the slices are live memory. The pipe refers
        // to their pages, not to their addresses: what becomes of the mapping does not matter to it.
        let taken = unsafe {
            let (iov, count) = (slices.as_ptr().cast(), slices.len());
            libc::vmsplice(self.into.as_raw_fd(), iov, count, libc::SPLICE_F_NONBLOCK)
        };
        all_of(taken, len)
    }

    fn empty_into(&self, socket: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        let (from, to) = (self.out.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: descriptors and numbers only.
        let sent = unsafe { libc::splice(from, ptr::null_mut(), to, ptr::null_mut(), len, 0) };
        all_of(sent, len)
    }
}

/// Begins a datagram of a connected socket with `octets`, which are copied; the next send ends it.
/// Errors are those of the socket; nothing is begun then.
pub fn begin_datagram(socket: BorrowedFd<'_>, octets: &[u8]) -> io::Result<()> {
    let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match send(socket, octets, flags)? {
        len if len == octets.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Drops the datagram that was begun, if there is one: what it would become by so many more octets is longer than a
/// datagram can be, for which the kernel drops all of it (`udp_flush_pending_frames` of Linux).
#[cold]
pub fn abandon_datagram(socket: BorrowedFd<'_>) {
    let octets = vec![0u8; usize::from(u16::MAX)];
    // It fails: that is what it is for.
    let _ = send(socket, &octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

fn all_of(count: isize, len: usize) -> io::Result<()> {
    match usize::try_from(count) {
        Ok(count) if count == len => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
