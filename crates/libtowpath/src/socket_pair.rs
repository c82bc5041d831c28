//! The library's end of a socket pair, shared by the socket table and the socket's thread.

use crate::direct::DirectConnection;
use library::tunnel::{CircuitUser, LocalSocket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};

/// Pending errors of all sockets; while it is 0, calls skip the table.
static PENDING_ERRORS: AtomicUsize = AtomicUsize::new(0);

/// The state of a stream connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnState {
    /// Not connected.
    Idle,
    /// connect(2) was called and the peer has not answered.
    Connecting,
    /// The peer has answered.
    Established,
    /// Reset, refused or timed out.
    Failed,
}

impl ConnState {
    const ALL: [ConnState; 4] = [
        ConnState::Idle,
        ConnState::Connecting,
        ConnState::Established,
        ConnState::Failed,
    ];
}

/// The library's end of a socket pair, with the state that the pair itself cannot express.
pub(crate) struct SocketPairEnd {
    fd: OwnedFd,
    state: AtomicU8,
    /// The pending error number (SO_ERROR); 0 for none.
    error: AtomicI32,
    /// Filler octets in the socket, which keep it from being writable.
    filler_bytes: AtomicUsize,
    /// The program has shut down reading; incoming data are dropped.
    read_shut_down: AtomicBool,
    /// Close resets the connection (SO_LINGER with 0 seconds).
    abort_on_close: AtomicBool,
}

/// Octets per write of filler.
const FILLER_BLOCK_LEN: usize = 4096;

/// Writes of filler at most: 16 MiB, more than the kernel lets a socket hold.
const FILLER_BLOCKS_MAX: usize = 4096;

impl SocketPairEnd {
    pub(crate) fn new(end: OwnedFd, stage: ConnState) -> Arc<SocketPairEnd> {
        Arc::new(SocketPairEnd {
            fd: end,
            state: AtomicU8::new(stage as u8),
            error: AtomicI32::new(0),
            filler_bytes: AtomicUsize::new(0),
            read_shut_down: AtomicBool::new(false),
            abort_on_close: AtomicBool::new(false),
        })
    }

    /// The library's descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn state(&self) -> ConnState {
        ConnState::ALL[usize::from(self.state.load(Ordering::Acquire)) % ConnState::ALL.len()]
    }

    pub(crate) fn set_state(&self, stage: ConnState) {
        self.state.store(stage as u8, Ordering::Release);
    }

    /// Whether any socket has a pending error.
    pub(crate) fn any_pending_error() -> bool {
        PENDING_ERRORS.load(Ordering::Acquire) > 0
    }

    /// Sets the pending error.
    pub(crate) fn set_error(&self, number: i32) {
        if self.error.swap(number, Ordering::AcqRel) == 0 && number != 0 {
            PENDING_ERRORS.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes the pending error.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let number = self.error.swap(0, Ordering::AcqRel);
        if number == 0 {
            return None;
        }
        PENDING_ERRORS.fetch_sub(1, Ordering::AcqRel);
        Some(io::Error::from_raw_os_error(number))
    }

    /// Notes shutdown(SHUT_RD).
    pub(crate) fn shutdown_read(&self) {
        self.read_shut_down.store(true, Ordering::Release);
    }

    /// Whether the program has shut down reading.
    pub(crate) fn reads_are_shut_down(&self) -> bool {
        self.read_shut_down.load(Ordering::Acquire)
    }

    /// Whether close is to reset the connection.
    pub(crate) fn aborts_on_close(&self) -> bool {
        self.abort_on_close.load(Ordering::Acquire)
    }

    /// Notes that close is to reset the connection.
    pub(crate) fn set_abort_on_close(&self) {
        self.abort_on_close.store(true, Ordering::Release);
    }

    /// Starts a connect: fills the socket, so that the program's descriptor is not writable until
    /// the peer has answered.
    pub(crate) fn begin_connect(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.set_state(ConnState::Connecting);
        self.fill(program)
    }

    /// Fills the socket, so that the program's descriptor is not writable until
    /// [`drain_filler`](SocketPairEnd::drain_filler).
    pub(crate) fn fill(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        for _ in 0..FILLER_BLOCKS_MAX {
            if !is_ready(program, PollFlags::OUT, 0)? {
                return Ok(());
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(program, &[0; FILLER_BLOCK_LEN], flags) {
                Ok(len) => self.filler_bytes.fetch_add(len, Ordering::AcqRel),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    }

    /// Removes the filler: the program's descriptor is writable again.
    pub(crate) fn drain_filler(&self) {
        let mut buffer = [0; FILLER_BLOCK_LEN];
        let mut left = self.filler_bytes.swap(0, Ordering::AcqRel);
        while left > 0 {
            let part = left.min(FILLER_BLOCK_LEN);
            match rustix::io::read(&self.fd, &mut buffer[..part]) {
                Ok(len) if len > 0 => left -= len,
                _ => return,
            }
        }
    }

    /// Stops the program from writing; what it wrote can still be read.
    pub(crate) fn stop_program_writes(&self) {
        // Fails only where the program has closed its end.
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Whether the program has closed all its descriptors of the socket, or shut both directions
    /// down.
    pub(crate) fn is_closed_by_program(&self) -> bool {
        is_ready(self.fd(), PollFlags::empty(), 0).unwrap_or(true)
    }

    /// Aborts the connection with error `number`.
    pub(crate) fn abort(&self, number: i32) {
        if self.state() != ConnState::Failed {
            self.set_error(number);
            self.set_state(ConnState::Failed);
        }
        self.drain_filler();
        // shutdown, because a forked child may have a copy of this end. Fails only if it is closed.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }
}

impl Drop for SocketPairEnd {
    fn drop(&mut self) {
        self.take_error();
    }
}

/// Waits up to `limit_ms` (-1: no limit) until `fd` is ready for `flags` or has an error.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, limit_ms: i64) -> io::Result<bool> {
    let limit = (limit_ms >= 0).then_some(rustix::event::Timespec {
        tv_sec: limit_ms / 1000,
        tv_nsec: limit_ms % 1000 * 1_000_000,
    });
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    Ok(poll(&mut fds, limit.as_ref())? > 0)
}

/// The tunnel thread's end of a byte stream.
pub(crate) struct StreamEnd {
    link: Arc<SocketPairEnd>,
    /// The program's calls, if they may move the data.
    direct: Option<Arc<DirectConnection>>,
}

impl StreamEnd {
    pub(crate) fn new(link: Arc<SocketPairEnd>) -> StreamEnd {
        StreamEnd { link, direct: None }
    }

    /// One whose data the program's calls may move.
    pub(crate) fn for_direct(
        link: Arc<SocketPairEnd>,
        direct: Option<Arc<DirectConnection>>,
    ) -> StreamEnd {
        StreamEnd { link, direct }
    }
}

impl Read for StreamEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_pieces(&mut [IoSliceMut::new(buffer)])
    }
}

impl Write for StreamEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.link.fd, bytes, flags) {
            Err(rustix::io::Errno::PIPE) if self.link.read_shut_down.load(Ordering::Acquire) => {
                Ok(bytes.len())
            }
            other => Ok(other?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for StreamEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.fd()
    }
}

impl LocalSocket for StreamEnd {
    fn configure(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.link.fd, true)?)
    }

    fn on_connected(&self) -> io::Result<()> {
        self.link.set_state(ConnState::Established);
        self.link.drain_filler();
        Ok(())
    }

    fn read_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.link.state() == ConnState::Connecting {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = rustix::io::readv(&self.link.fd, pieces)?;
        if len == 0 && self.link.abort_on_close.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(len)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(shutdown(&self.link.fd, Shutdown::Write)?)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    fn user(&self) -> Option<Arc<dyn CircuitUser>> {
        let direct = self.direct.as_ref()?;
        Some(Arc::clone(direct) as Arc<dyn CircuitUser>)
    }

    fn reset(&self, why: Option<&io::Error>) {
        let number = match (self.link.state(), why.map(io::Error::kind)) {
            (ConnState::Connecting, Some(io::ErrorKind::TimedOut)) => libc::ETIMEDOUT,
            (ConnState::Connecting, Some(io::ErrorKind::ConnectionRefused)) => libc::ECONNREFUSED,
            (_, Some(io::ErrorKind::TimedOut)) => libc::ETIMEDOUT,
            _ => libc::ECONNRESET,
        };
        self.link.abort(number);
        if let Some(direct) = &self.direct {
            direct.hand_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn connecting_socket_becomes_writable_when_peer_answers() {
        let (mut program, end) = UnixStream::pair().expect("descriptors");
        let link = SocketPairEnd::new(end.into(), ConnState::Idle);
        link.begin_connect(program.as_fd())
            .expect("it can be filled");
        let writable = |program: &UnixStream| is_ready(program.as_fd(), PollFlags::OUT, 0);
        assert!(!writable(&program).expect("it can be asked"));
        let mut end = StreamEnd::new(Arc::clone(&link));
        end.configure().expect("it is a socket");
        let mut buffer = [0; 16];
        assert!(end.read(&mut buffer).is_err(), "not yet");
        end.on_connected().expect("it can be emptied");
        assert!(writable(&program).expect("it can be asked"));
        program.write_all(b"hello").expect("there is room");
        assert_eq!(end.read(&mut buffer).expect("it is there"), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    #[test]
    fn connect_error_reported_once_then_eof() {
        let (mut program, end) = UnixStream::pair().expect("descriptors");
        let link = SocketPairEnd::new(end.into(), ConnState::Idle);
        link.begin_connect(program.as_fd())
            .expect("it can be filled");
        StreamEnd::new(Arc::clone(&link)).reset(Some(&io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(link.state(), ConnState::Failed);
        assert!(SocketPairEnd::any_pending_error());
        let reported = link.take_error().expect("an error");
        assert_eq!(reported.raw_os_error(), Some(libc::ECONNREFUSED));
        assert!(link.take_error().is_none());
        assert_eq!(program.read(&mut [0; 4]).expect("the end"), 0);
    }
}
