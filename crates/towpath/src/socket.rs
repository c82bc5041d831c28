//! What the socket transports share.

use crate::contract::{Interest, PATIENCE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{SockRef, Socket};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The address of a rendezvous as bytes, and back.
pub(crate) fn encode_address(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

pub(crate) fn decode_address(bytes: &[u8]) -> io::Result<SocketAddr> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the rendezvous is no Internet address",
        )
    })
}

/// Makes blocking calls of `socket` give up after [`PATIENCE`].
pub(crate) fn set_patience(socket: &Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))
}

/// Sets both buffers when asked to.
pub(crate) fn set_buffers(socket: &Socket, buffers: Option<usize>) {
    if let Some(len) = buffers {
        wire_udp::sys::set_buffers(socket.as_fd(), len);
    }
}

/// Buffers as the kernel granted them (it doubles what is asked for, see socket(7)).
pub(crate) fn effective_buffers(socket: BorrowedFd<'_>, into: &mut BTreeMap<String, String>) {
    let socket = SockRef::from(&socket);
    if let Ok(len) = socket.send_buffer_size() {
        into.insert("send_buffer".into(), len.to_string());
    }
    if let Ok(len) = socket.recv_buffer_size() {
        into.insert("receive_buffer".into(), len.to_string());
    }
}

/// Waits until `fd` is ready for `interest` or `deadline` has come.
pub(crate) fn wait(fd: BorrowedFd<'_>, interest: Interest, deadline: Instant) -> io::Result<()> {
    let flags = match interest {
        Interest::Read => PollFlags::IN,
        Interest::Write => PollFlags::OUT,
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let limit = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match poll(&mut [PollFd::new(&fd, flags)], Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends on a socket; `block` waits for room up to [`PATIENCE`].
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], block: bool) -> io::Result<usize> {
    let flags = if block {
        SendFlags::NOSIGNAL
    } else {
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT
    };
    Ok(rustix::net::send(fd, bytes, flags)?)
}

/// Receives on a socket; `block` waits for something up to [`PATIENCE`].
#[inline]
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8], block: bool) -> io::Result<usize> {
    let flags = if block {
        RecvFlags::empty()
    } else {
        RecvFlags::DONTWAIT
    };
    Ok(rustix::net::recv(fd, buffer, flags)?.0)
}

/// The tail of a message of which a byte stream took only the front.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    bytes: Vec<u8>,
    sent: usize,
}

impl Rest {
    /// Sends one message on a byte stream: first what is left of the one before, then this one.
    ///
    /// A message of which any byte was taken counts as taken; its rest is kept.
    #[inline]
    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        message: &[u8],
        block: bool,
    ) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.push(fd, block)?;
        }
        let sent = send(fd, message, block)?;
        if sent < message.len() {
            self.keep(fd, &message[sent..], block);
        }
        Ok(())
    }

    /// Sends what is left.
    pub(crate) fn push(&mut self, fd: BorrowedFd<'_>, block: bool) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            self.sent += send(fd, &self.bytes[self.sent..], block)?;
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }

    #[cold]
    fn keep(&mut self, fd: BorrowedFd<'_>, rest: &[u8], block: bool) {
        self.bytes.extend_from_slice(rest);
        if block {
            // What still does not go is sent by the next call, which reports any error.
            let _ = self.push(fd, true);
        }
    }
}
