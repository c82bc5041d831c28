//! What the calls do, on sockets of the family.

use crate::service::{End, Queue, Service};
use crate::table::{self, Held, State};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a peer may take to answer an opening.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Makes a socket.
pub(crate) fn socket(nonblocking: bool, cloexec: bool) -> io::Result<OwnedFd> {
    let (program, end) = End::pair()?;
    program.set_nonblocking(nonblocking)?;
    set_cloexec(program.as_fd(), cloexec)?;
    let held = Held {
        inode: 0,
        state: State::New(end),
        words: BTreeMap::new(),
        local: None,
    };
    table::lock().put(program.as_fd(), held);
    Ok(program.into())
}

fn set_cloexec(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let mut flags = rustix::io::fcntl_getfd(fd)?;
    flags.set(rustix::io::FdFlags::CLOEXEC, on);
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Runs `act` on a socket of the family; None when `fd` is none.
fn with<R>(
    fd: BorrowedFd<'_>,
    act: impl FnOnce(&mut Held) -> io::Result<R>,
) -> Option<io::Result<R>> {
    table::lock().get(fd).map(act)
}

/// Notes where a socket is to be.
pub(crate) fn bind(fd: BorrowedFd<'_>, local: SocketAddr) -> Option<io::Result<()>> {
    with(fd, |held| match (&held.state, held.local) {
        (State::New(_), None) => {
            // Whether the address can be had is said now, as the system's bind does.
            let probe = std::net::UdpSocket::bind(local)?;
            held.local = Some(probe.local_addr()?);
            Ok(())
        }
        _ => Err(Errno::INVAL.into()),
    })
}

/// Begins to listen.
pub(crate) fn listen(fd: BorrowedFd<'_>) -> Option<io::Result<()>> {
    let mut table = table::lock();
    let held = table.get(fd)?;
    let made = start_listening(held);
    if let Ok(service) = &made {
        table.services.push(Arc::clone(service));
        crate::sys::at_exit(&mut table);
    }
    Some(made.map(drop))
}

fn start_listening(held: &mut Held) -> io::Result<Arc<Service>> {
    let State::New(end) = &held.state else {
        return Err(Errno::INVAL.into());
    };
    let settings = held.settings().map_err(|_| Errno::INVAL)?;
    let local = held.local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
    let queue = Queue::default();
    let told = UnixStream::from(end.as_fd().try_clone_to_owned()?);
    let service = Service::start(local, &settings, Some((told, queue.clone())))?;
    let service = Arc::new(service);
    held.local = Some(service.local_addr());
    held.state = State::Listening(queue);
    Ok(service)
}

/// The next connection of a listening socket, and its peer; waits unless the socket must not.
pub(crate) fn accept(
    fd: BorrowedFd<'_>,
    nonblocking: bool,
    cloexec: bool,
) -> Option<io::Result<(OwnedFd, SocketAddr)>> {
    let listening = with(fd, |held| match &held.state {
        State::Listening(queue) => Ok((queue.clone(), held.local)),
        _ => Err(Errno::INVAL.into()),
    })?;
    Some(listening.and_then(|(queue, local)| {
        // The octet of one connection; the lock is not held while this waits.
        rustix::io::read(fd, &mut [0])?;
        let waiting = queue.pop().ok_or(Errno::AGAIN)?;
        waiting.program.set_nonblocking(nonblocking)?;
        set_cloexec(waiting.program.as_fd(), cloexec)?;
        let held = Held {
            inode: 0,
            state: State::Connected {
                peer: waiting.peer,
                broken: waiting.broken,
            },
            words: BTreeMap::new(),
            local,
        };
        table::lock().put(waiting.program.as_fd(), held);
        Ok((waiting.program.into(), waiting.peer))
    }))
}

/// Connects; waits for the peer's answer, also where the socket does not block.
pub(crate) fn connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> Option<io::Result<()>> {
    let prepared = with(fd, |held| {
        let settings = held.settings().map_err(|_| Errno::INVAL)?;
        match std::mem::replace(&mut held.state, State::Failed) {
            State::New(end) => Ok((end, held.local, settings)),
            other => {
                let connected = matches!(other, State::Connected { .. });
                held.state = other;
                Err(if connected {
                    Errno::ISCONN
                } else {
                    Errno::INVAL
                }
                .into())
            }
        }
    })?;
    Some(prepared.and_then(|(end, local, settings)| {
        let any = match peer {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let service = Arc::new(Service::start(local.unwrap_or(any), &settings, None)?);
        let broken = end.broken();
        service.connect(peer, end, CONNECT_LIMIT)?;
        let mut table = table::lock();
        if let Some(held) = table.get(fd) {
            held.local = Some(service.local_addr());
            held.state = State::Connected { peer, broken };
        }
        table.services.push(service);
        crate::sys::at_exit(&mut table);
        Ok(())
    }))
}

/// Where a socket is.
pub(crate) fn local(fd: BorrowedFd<'_>) -> Option<io::Result<SocketAddr>> {
    with(fd, |held| {
        Ok(held.local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into()))
    })
}

/// Where the peer of a socket is.
pub(crate) fn peer(fd: BorrowedFd<'_>) -> Option<io::Result<SocketAddr>> {
    with(fd, |held| match &held.state {
        State::Connected { peer, .. } => Ok(*peer),
        _ => Err(Errno::NOTCONN.into()),
    })
}

/// Sets an option from `NAME=VALUE`, before the socket listens or connects.
pub(crate) fn set(fd: BorrowedFd<'_>, text: &str) -> Option<io::Result<()>> {
    with(fd, |held| {
        let (name, value) = text.split_once('=').ok_or(Errno::INVAL)?;
        let old = held.words.insert(name.to_owned(), value.to_owned());
        let allowed = matches!(held.state, State::New(_)) && held.settings().is_ok();
        if allowed {
            return Ok(());
        }
        match old {
            Some(old) => held.words.insert(name.to_owned(), old),
            None => held.words.remove(name),
        };
        Err(Errno::INVAL.into())
    })
}

/// Whether the connection of a socket broke, so that its end is none.
pub(crate) fn is_broken(fd: BorrowedFd<'_>) -> bool {
    let state = with(fd, |held| match &held.state {
        State::Connected { broken, .. } => Ok(broken.load(Ordering::Relaxed)),
        State::Failed => Ok(true),
        _ => Ok(false),
    });
    matches!(state, Some(Ok(true)))
}

/// Ends all sockets of the family and waits until peers have what was written.
pub(crate) fn end_all() {
    let services = std::mem::take(&mut table::lock().services);
    for service in services {
        service.drain();
    }
}
