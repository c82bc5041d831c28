//! The descriptor of an endpoint, on which poll and select work.
//!
//! Its number stays, and what is open under it changes with what poll shall say: the kernel's socket of a connection
//! or of datagrams while all that has come is still in it; an eventfd that is readable while an event or data wait in
//! the stream; an epoll that is readable when a connection comes or a connect is answered, whose socket keeps the
//! flags that its provider needs. Programs that register the descriptor with epoll would not see the change.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{DupFlags, FdFlags, dup3, fcntl_getfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xti::XtiReadiness;

/// The descriptor.
pub(crate) struct Descriptor {
    number: RawFd,
    shown: Mutex<Option<Shown>>,
}

/// The open descriptor; there is none after the program has closed it.
struct Shown {
    fd: OwnedFd,
    open: Open,
}

/// What is open under the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// Nothing comes by itself.
    Nothing,
    /// Something waits.
    Ready,
    /// A socket, by its own descriptor.
    Socket(RawFd),
    /// An epoll that waits for a socket to be readable.
    Readable(RawFd),
    /// An epoll that waits for a socket to be writable.
    Writable(RawFd),
}

impl Descriptor {
    /// A descriptor on which nothing comes.
    pub(crate) fn new(is_nonblocking: bool) -> io::Result<Descriptor> {
        let mut flags = EventfdFlags::empty();
        flags.set(EventfdFlags::NONBLOCK, is_nonblocking);
        let fd = eventfd(0, flags)?;
        Ok(Descriptor {
            number: fd.as_raw_fd(),
            shown: Mutex::new(Some(Shown {
                fd,
                open: Open::Nothing,
            })),
        })
    }

    pub(crate) fn number(&self) -> RawFd {
        self.number
    }

    fn lock(&self) -> MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program has set O_NONBLOCK, by t_open or by fcntl.
    pub(crate) fn is_nonblocking(&self) -> bool {
        let shown = self.lock();
        let flags = shown.as_ref().map(|shown| fcntl_getfl(&shown.fd));
        matches!(flags, Some(Ok(flags)) if flags.contains(OFlags::NONBLOCK))
    }

    /// Lets poll say this from now on.
    pub(crate) fn show(&self, readiness: &XtiReadiness) -> io::Result<()> {
        let wanted = match readiness {
            XtiReadiness::Now => Open::Ready,
            XtiReadiness::Socket(socket) => Open::Socket(socket.as_raw_fd()),
            XtiReadiness::Readable(socket) => Open::Readable(socket.as_raw_fd()),
            XtiReadiness::Writable(socket) => Open::Writable(socket.as_raw_fd()),
            XtiReadiness::InProcess | XtiReadiness::Nothing => Open::Nothing,
        };
        let mut shown = self.lock();
        let Some(shown) = shown.as_mut().filter(|shown| shown.open != wanted) else {
            return Ok(());
        };
        match readiness {
            XtiReadiness::Now => shown.replace(eventfd(1, EventfdFlags::empty())?.as_fd())?,
            XtiReadiness::InProcess | XtiReadiness::Nothing => {
                shown.replace(eventfd(0, EventfdFlags::empty())?.as_fd())?
            }
            XtiReadiness::Socket(socket) => shown.replace(socket.as_fd())?,
            XtiReadiness::Readable(socket) => {
                shown.replace(epoll_of(socket.as_fd(), EventFlags::IN)?.as_fd())?;
            }
            XtiReadiness::Writable(socket) => {
                shown.replace(epoll_of(socket.as_fd(), EventFlags::OUT)?.as_fd())?;
            }
        }
        shown.open = wanted;
        Ok(())
    }

    /// Something waits where nothing comes by itself: who polls now is woken.
    pub(crate) fn signal(&self) {
        let mut shown = self.lock();
        let Some(shown) = shown.as_mut().filter(|shown| shown.open == Open::Nothing) else {
            return;
        };
        if rustix::io::write(&shown.fd, &1u64.to_ne_bytes()).is_ok() {
            shown.open = Open::Ready;
        }
    }

    /// Closes the number (t_close).
    pub(crate) fn close(&self) {
        drop(self.lock().take());
    }

    /// The program has closed the number itself, which may be another file's by now.
    pub(crate) fn forget(&self) {
        if let Some(shown) = self.lock().take() {
            let _ = shown.fd.into_raw_fd();
        }
    }
}

impl Shown {
    /// Puts something else under the number, with the flags that the program has set.
    fn replace(&mut self, with: BorrowedFd<'_>) -> io::Result<()> {
        let nonblocking = fcntl_getfl(&self.fd)? & OFlags::NONBLOCK;
        let others = fcntl_getfl(with)? - OFlags::NONBLOCK;
        fcntl_setfl(with, others | nonblocking)?;
        let mut flags = DupFlags::empty();
        let closes_on_exec = fcntl_getfd(&self.fd)?.contains(FdFlags::CLOEXEC);
        flags.set(DupFlags::CLOEXEC, closes_on_exec);
        Ok(dup3(with, &mut self.fd, flags)?)
    }
}

/// An epoll that is readable on these events of `socket`.
fn epoll_of(socket: BorrowedFd<'_>, events: EventFlags) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, socket, EventData::new_u64(0), events)?;
    Ok(epoll)
}
