//! Shared by the socket transports: addresses, timeouts, buffers, send and receive.

use crate::contract::{Interest, Reach, Rendezvous};
use crate::engine_setup::random_seed;
use crate::options::Options;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrAny, recvmsg};
use socket2::{SockAddr, SockRef, Socket};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use wire_udp::route::{source_address_to, wildcard_address};

/// Encodes the address of a rendezvous.
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

/// The address of a listener on a network: a line a circuit, as [`rendezvous_entry`] takes them.
pub(crate) fn rendezvous_of(lines: impl IntoIterator<Item = impl ToString>) -> Rendezvous {
    let lines: Vec<String> = lines.into_iter().map(|line| line.to_string()).collect();
    Rendezvous::new(Reach::Network, lines.join("\n").into_bytes())
}

/// Entry `index` of a rendezvous that has one line per circuit.
pub(crate) fn rendezvous_entry(bytes: &[u8], index: usize) -> io::Result<&[u8]> {
    bytes
        .split(|&byte| byte == b'\n')
        .nth(index)
        .ok_or_else(|| {
            let text = format!(
                "the listener has no circuit {index}; give both ends the same number of circuits"
            );
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
}

/// A name unique on this host, in the abstract namespace: no file is created.
pub(crate) fn unique_name(role: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = random_seed();
    let process = std::process::id();
    format!("\0towpath-{role}-{process}-{count}-{random:016x}")
}

/// Encodes an abstract name without its leading zero.
pub(crate) fn encode_name(name: &str) -> Vec<u8> {
    name.trim_start_matches('\0').as_bytes().to_vec()
}

pub(crate) fn decode_name(bytes: &[u8]) -> io::Result<SockAddr> {
    let text = std::str::from_utf8(bytes).ok();
    let text = text.filter(|text| text.starts_with("towpath-") && !text.contains('\0'));
    let text = text.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the rendezvous is no name of a local socket",
        )
    })?;
    SockAddr::unix(format!("\0{text}"))
}

/// Timeout of a connect: allows for three lost SYNs, which TCP retransmits after 1, 3 and 7 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects `socket`, then sets its blocking timeout, which would limit the connect too.
pub(crate) fn connect(
    socket: &Socket,
    address: &SockAddr,
    timeout: Option<Duration>,
) -> io::Result<()> {
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    // A process that is stopped and continued sees EINTR where a timeout is set (signal(7)). The same
    // call goes on with the connection that is under way.
    let connected = loop {
        match socket.connect(address) {
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted && Instant::now() < deadline => {}
            other => break other,
        }
    };
    connected.map_err(|error| {
        let late = [libc::EINPROGRESS, libc::EAGAIN, libc::EINTR].map(Some);
        if late.contains(&error.raw_os_error()) {
            let text = "the listener did not answer in 10 seconds";
            return io::Error::new(io::ErrorKind::TimedOut, text);
        }
        error
    })?;
    set_blocking_timeout(socket, timeout)
}

/// The error of a send or a receive. EINTR ends the wait, so it becomes `WouldBlock`.
#[cold]
pub(crate) fn to_io_error(errno: Errno) -> io::Error {
    match errno {
        Errno::INTR => io::ErrorKind::WouldBlock.into(),
        errno => errno.into(),
    }
}

/// Sets SO_RCVTIMEO and SO_SNDTIMEO; None for no timeout.
pub(crate) fn set_blocking_timeout(socket: &Socket, timeout: Option<Duration>) -> io::Result<()> {
    socket.set_read_timeout(timeout)?;
    socket.set_write_timeout(timeout)
}

/// The next connection of a listening socket that has a blocking timeout; `TimedOut` at `deadline`.
pub(crate) fn accept(listening: &Socket, deadline: Instant) -> io::Result<Socket> {
    loop {
        match listening.accept() {
            Ok((socket, _)) => return Ok(socket),
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"));
        }
    }
}

/// Whether an accept may be retried: timeout, EINTR, or a connection already aborted.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

/// Sets SO_SNDBUF and SO_RCVBUF if `buffers` is given.
pub(crate) fn set_buffers(socket: &Socket, buffers: Option<usize>) {
    if let Some(len) = buffers {
        wire_udp::sys::set_buffers(socket.as_fd(), len);
    }
}

/// Reads SO_SNDBUF and SO_RCVBUF (the kernel doubles the value set, see socket(7)).
pub(crate) fn buffer_sizes(socket: BorrowedFd<'_>) -> BTreeMap<String, String> {
    let socket = SockRef::from(&socket);
    let sizes = [
        ("send_buffer", socket.send_buffer_size()),
        ("receive_buffer", socket.recv_buffer_size()),
    ];
    let known = |(name, len): (&str, io::Result<usize>)| Some((name.into(), len.ok()?.to_string()));
    sizes.into_iter().filter_map(known).collect()
}

/// Where a socket listens: its port, at the address that `options` give.
pub(crate) fn listening_address(socket: &Socket, options: &Options) -> io::Result<Rendezvous> {
    let address = socket.local_addr()?.as_socket();
    let port = address.ok_or(io::ErrorKind::AddrNotAvailable)?.port();
    let address = SocketAddr::new(options.bind_address(), port);
    Ok(Rendezvous::new(Reach::Network, encode_address(address)))
}

/// Sends a message whole, as [`send`]. One that is longer than the socket's send buffer is refused in words.
#[inline]
pub(crate) fn send_message(socket: &Socket, message: &[u8], block: bool) -> io::Result<()> {
    match send(socket.as_fd(), message, block) {
        Ok(_) => Ok(()),
        Err(error) => Err(too_long(socket, error, message.len())),
    }
}

#[cold]
fn too_long(socket: &Socket, error: io::Error, len: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::EMSGSIZE) {
        return error;
    }
    let limit = socket.send_buffer_size().unwrap_or(0);
    let text = format!(
        "a message of {len} bytes does not fit into the socket's send buffer of {limit}; raise it \
         with --buffers, or send smaller messages"
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Waits until `fd` is ready for `interest`, at most until `deadline`.
pub(crate) fn wait(fd: BorrowedFd<'_>, interest: Interest, deadline: Instant) -> io::Result<()> {
    let flags = match interest {
        Interest::Read => PollFlags::IN,
        Interest::Write => PollFlags::OUT,
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let limit = Timespec::try_from(left).ok();
    match poll(&mut [PollFd::new(&fd, flags)], limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sends on a socket; `block` waits for space up to the socket's blocking timeout.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], block: bool) -> io::Result<usize> {
    let flags = if block {
        SendFlags::NOSIGNAL
    } else {
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT
    };
    rustix::net::send(fd, bytes, flags).map_err(to_io_error)
}

/// Receives on a socket; `block` waits for data up to the socket's blocking timeout.
#[inline]
pub(crate) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8], block: bool) -> io::Result<usize> {
    let flags = if block {
        RecvFlags::empty()
    } else {
        RecvFlags::DONTWAIT
    };
    match rustix::net::recv(fd, buffer, flags) {
        Ok((len, _)) => Ok(len),
        Err(errno) => Err(to_io_error(errno)),
    }
}

/// The length of the next message, blocking; the message stays where it is. 0 at the end of a stream
/// of messages.
pub(crate) fn message_len(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // With MSG_TRUNC the kernel returns the length of the message, of which nothing is copied.
    let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
    match rustix::net::recv(fd, &mut [0u8; 0][..], flags) {
        Ok((_, len)) => Ok(len),
        Err(errno) => Err(to_io_error(errno)),
    }
}

/// Receives one message into `buffer` and, beyond that, `rest`, blocking: its length as far as both
/// hold it, and its source.
pub(crate) fn recv_split(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    rest: &mut [u8],
) -> Result<(usize, Option<SocketAddrAny>), Errno> {
    let mut slices = [IoSliceMut::new(buffer), IoSliceMut::new(rest)];
    let mut control = RecvAncillaryBuffer::default();
    let got = recvmsg(fd, &mut slices, &mut control, RecvFlags::empty())?;
    Ok((got.bytes, got.address))
}

/// The unsent tail of a message after a short write on a byte stream.
#[derive(Debug, Default)]
pub(crate) struct UnsentTail {
    bytes: Vec<u8>,
    sent: usize,
}

impl UnsentTail {
    /// Sends one message on a byte stream, after the unsent tail of the previous one.
    ///
    /// A message of which any byte was sent counts as sent; its tail is kept.
    #[inline]
    pub(crate) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        message: &[u8],
        block: bool,
    ) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.flush(fd, block)?;
        }
        let sent = send(fd, message, block)?;
        if sent < message.len() {
            self.queue(fd, &message[sent..], block);
        }
        Ok(())
    }

    /// Sends the tail.
    pub(crate) fn flush(&mut self, fd: BorrowedFd<'_>, block: bool) -> io::Result<()> {
        while self.sent < self.bytes.len() {
            self.sent += send(fd, &self.bytes[self.sent..], block)?;
        }
        self.bytes.clear();
        self.sent = 0;
        Ok(())
    }

    /// Keeps `rest` as the tail; there must be none.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.bytes.is_empty());
        self.bytes.extend_from_slice(rest);
    }

    #[cold]
    fn queue(&mut self, fd: BorrowedFd<'_>, rest: &[u8], block: bool) {
        self.keep(rest);
        if block {
            // The next call sends what is left, and reports any error.
            let _ = self.flush(fd, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use socket2::{Domain, Type};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    /// Tells the child of the test below whom to connect to.
    const LISTENER: &str = "TOWPATH_TEST_LISTENER";

    fn unix_socket() -> Socket {
        Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket")
    }

    /// Connects as the child of a test does: behind one that fills the queue.
    fn connect_to(name: &str) {
        println!("connecting");
        let address = decode_name(name.as_bytes()).expect("a name");
        connect(&unix_socket(), &address, None).expect("it is accepted in the end");
        println!("connected");
    }

    #[test]
    fn connect_goes_on_after_process_was_stopped() {
        if let Ok(name) = std::env::var(LISTENER) {
            return connect_to(&name);
        }
        let name = unique_name("stopped");
        let address = SockAddr::unix(&name).expect("a name");
        let listener = unix_socket();
        listener.bind(&address).expect("it is unique");
        // A queue for one, which is full from here on.
        listener.listen(0).expect("it is bound");
        let first = unix_socket();
        first.connect(&address).expect("it waits in the queue");
        let mut child = Command::new(std::env::current_exe().expect("a program"))
            .args(["--exact", "--nocapture"])
            .arg("socket::tests::connect_goes_on_after_process_was_stopped")
            .env(LISTENER, name.trim_start_matches('\0'))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let pid = Pid::from_child(&child);
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("connecting")));
        for signal in [Signal::STOP, Signal::CONT].repeat(3) {
            std::thread::sleep(Duration::from_millis(20));
            kill_process(pid, signal).expect("it runs");
        }
        for _ in 0..2 {
            listener.accept().expect("both connect");
        }
        let status = child.wait().expect("it ends");
        assert!(lines.any(|line| line.contains("connected")) && status.success());
    }
}
