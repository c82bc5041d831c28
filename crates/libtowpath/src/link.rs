//! The library's end of a socket, which the table and the thread that carries share.

use library::forward::Plug;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};

/// Errors of sockets that wait to be told. Calls that need not look have nothing to ask the table.
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is none.
    Idle,
    /// The peer has not answered.
    Opening,
    /// It has.
    Open,
    /// It has gone, or never answered.
    Broken,
}

impl Stage {
    const ALL: [Stage; 4] = [Stage::Idle, Stage::Opening, Stage::Open, Stage::Broken];
}

/// The library's end of a socket, with what a socket pair cannot tell.
pub(crate) struct Link {
    end: OwnedFd,
    stage: AtomicU8,
    /// The error number that the next call tells; 0 for none.
    error: AtomicI32,
    /// Octets in the socket that no program wrote: they keep it from being writable.
    ballast: AtomicUsize,
    /// The program reads no more, so that what comes is dropped.
    is_deaf: AtomicBool,
    /// The program wants its end to be a break.
    breaks: AtomicBool,
}

/// Octets written at once to make a socket full.
const BLOCK_LEN: usize = 4096;

/// Writes at most until a socket is full: 16 MiB, more than the kernel lets a socket hold.
const BLOCKS_MAX: usize = 4096;

impl Link {
    pub(crate) fn new(end: OwnedFd, stage: Stage) -> Arc<Link> {
        Arc::new(Link {
            end,
            stage: AtomicU8::new(stage as u8),
            error: AtomicI32::new(0),
            ballast: AtomicUsize::new(0),
            is_deaf: AtomicBool::new(false),
            breaks: AtomicBool::new(false),
        })
    }

    /// The library's descriptor.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Acquire)) % Stage::ALL.len()]
    }

    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Whether any socket has an error to tell.
    pub(crate) fn any_error() -> bool {
        PENDING.load(Ordering::Acquire) > 0
    }

    /// Has the next call tell an error.
    pub(crate) fn set_error(&self, number: i32) {
        if self.error.swap(number, Ordering::AcqRel) == 0 && number != 0 {
            PENDING.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The error to tell, which is forgotten then.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let number = self.error.swap(0, Ordering::AcqRel);
        if number == 0 {
            return None;
        }
        PENDING.fetch_sub(1, Ordering::AcqRel);
        Some(io::Error::from_raw_os_error(number))
    }

    /// The program reads no more.
    pub(crate) fn deafen(&self) {
        self.is_deaf.store(true, Ordering::Release);
    }

    /// The end of the program's direction is to be a break.
    pub(crate) fn set_breaks(&self) {
        self.breaks.store(true, Ordering::Release);
    }

    /// Begins to open a connection for the program's descriptor, which is not writable until the
    /// peer has answered.
    pub(crate) fn begin(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.set_stage(Stage::Opening);
        for _ in 0..BLOCKS_MAX {
            if !is_ready(program, PollFlags::OUT, 0)? {
                return Ok(());
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(program, &[0; BLOCK_LEN], flags) {
                Ok(len) => self.ballast.fetch_add(len, Ordering::AcqRel),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(())
    }

    /// Takes out what was put in by [`begin`](Link::begin).
    fn drop_ballast(&self) {
        let mut buffer = [0; BLOCK_LEN];
        let mut left = self.ballast.swap(0, Ordering::AcqRel);
        while left > 0 {
            let part = left.min(BLOCK_LEN);
            match rustix::io::read(&self.end, &mut buffer[..part]) {
                Ok(len) if len > 0 => left -= len,
                _ => return,
            }
        }
    }

    /// The program can write no more; what it wrote can still be read.
    pub(crate) fn end_writing(&self) {
        // One that is gone writes no more either.
        let _ = shutdown(&self.end, Shutdown::Read);
    }

    /// Whether the program has closed all its descriptors of the socket, or could do nothing with them
    /// any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        is_ready(self.end(), PollFlags::empty(), 0).unwrap_or(true)
    }

    /// Breaks the connection; the program is told `number`.
    pub(crate) fn break_off(&self, number: i32) {
        if self.stage() != Stage::Broken {
            self.set_error(number);
            self.set_stage(Stage::Broken);
        }
        self.drop_ballast();
        // A child that the program forked may hold this end too. One that is gone needs no end.
        let _ = shutdown(&self.end, Shutdown::Both);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.take_error();
    }
}

/// Waits up to `limit_ms` (-1 for ever) until `fd` is ready for `flags`, or broken.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, limit_ms: i64) -> io::Result<bool> {
    let limit = (limit_ms >= 0).then_some(rustix::event::Timespec {
        tv_sec: limit_ms / 1000,
        tv_nsec: limit_ms % 1000 * 1_000_000,
    });
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    Ok(poll(&mut fds, limit.as_ref())? > 0)
}

/// The end of a byte stream, as the carrying thread holds it.
pub(crate) struct End(pub(crate) Arc<Link>);

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.stage() == Stage::Opening {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = rustix::io::read(&self.0.end, buffer)?;
        if len == 0 && self.0.breaks.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(len)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.0.end, bytes, flags) {
            Err(rustix::io::Errno::PIPE) if self.0.is_deaf.load(Ordering::Acquire) => {
                Ok(bytes.len())
            }
            other => Ok(other?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.end()
    }
}

impl Plug for End {
    fn prepare(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0.end, true)?)
    }

    fn opened(&self) -> io::Result<()> {
        self.0.set_stage(Stage::Open);
        self.0.drop_ballast();
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        Ok(shutdown(&self.0.end, Shutdown::Write)?)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    fn reset(&self, why: Option<&io::Error>) {
        let number = match (self.0.stage(), why.map(io::Error::kind)) {
            (Stage::Opening, Some(io::ErrorKind::TimedOut)) => libc::ETIMEDOUT,
            (Stage::Opening, Some(io::ErrorKind::ConnectionRefused)) => libc::ECONNREFUSED,
            (_, Some(io::ErrorKind::TimedOut)) => libc::ETIMEDOUT,
            _ => libc::ECONNRESET,
        };
        self.0.break_off(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_is_not_writable_until_the_peer_answers_and_its_bytes_are_its_own() {
        let (mut program, end) = UnixStream::pair().expect("descriptors");
        let link = Link::new(end.into(), Stage::Idle);
        link.begin(program.as_fd()).expect("it can be filled");
        let writable = |program: &UnixStream| is_ready(program.as_fd(), PollFlags::OUT, 0);
        assert!(!writable(&program).expect("it can be asked"));
        let mut end = End(Arc::clone(&link));
        end.prepare().expect("it is a socket");
        let mut buffer = [0; 16];
        assert!(end.read(&mut buffer).is_err(), "not yet");
        end.opened().expect("it can be emptied");
        assert!(writable(&program).expect("it can be asked"));
        program.write_all(b"hello").expect("there is room");
        assert_eq!(end.read(&mut buffer).expect("it is there"), 5);
        assert_eq!(&buffer[..5], b"hello");
    }

    #[test]
    fn what_broke_is_told_once_and_then_ends() {
        let (mut program, end) = UnixStream::pair().expect("descriptors");
        let link = Link::new(end.into(), Stage::Idle);
        link.begin(program.as_fd()).expect("it can be filled");
        End(Arc::clone(&link)).reset(Some(&io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(link.stage(), Stage::Broken);
        assert!(Link::any_error());
        let told = link.take_error().expect("an error");
        assert_eq!(told.raw_os_error(), Some(libc::ECONNREFUSED));
        assert!(link.take_error().is_none());
        assert_eq!(program.read(&mut [0; 4]).expect("the end"), 0);
    }
}
