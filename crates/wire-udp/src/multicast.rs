//! Multicast for the wires on Internet sockets.
//!
//! Each group has a member socket of its own, bound to the group's address. Several receivers on
//! one host each get a copy, and each answers from its own unicast socket and port.

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Groups a wire may join; each takes a descriptor.
const GROUPS_MAX: usize = 64;

/// The member sockets of a wire, beside its unicast socket.
#[derive(Debug)]
pub struct MulticastSockets {
    /// Readable when any of the sockets is, the unicast socket included.
    epoll: OwnedFd,
    groups: Vec<OwnedFd>,
    /// The socket tried first; it rotates, so that a busy socket does not block the others.
    next_socket: usize,
}

impl MulticastSockets {
    /// No member sockets yet; `own` is the unicast socket.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn new(own: BorrowedFd<'_>) -> io::Result<MulticastSockets> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, own)?;
        Ok(MulticastSockets {
            epoll,
            groups: Vec::new(),
            next_socket: 0,
        })
    }

    /// Adds the member socket `socket`.
    ///
    /// # Errors
    ///
    /// When there are 64 already, or the process is out of descriptors.
    pub fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        if self.groups.len() >= GROUPS_MAX {
            let text = format!("a wire joins {GROUPS_MAX} groups at most; use another wire");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        watch(&self.epoll, socket.as_fd())?;
        self.groups.push(socket);
        Ok(())
    }

    /// Readable when any socket has a packet.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Receives from the next of all sockets that has a packet, round-robin.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when none has, or the first other error.
    pub fn receive<T>(
        &mut self,
        own: BorrowedFd<'_>,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let count = self.groups.len() + 1;
        self.next_socket = (self.next_socket + 1) % count;
        for step in 0..count {
            let at = (self.next_socket + step) % count;
            let socket = at.checked_sub(1).map_or(own, |at| self.groups[at].as_fd());
            match receive(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Handles of all sockets, `own` first, for a thread that waits in a receive.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn receiver(&self, own: BorrowedFd<'_>) -> io::Result<MulticastReceiver> {
        let groups = self.groups.iter().map(AsFd::as_fd);
        let sockets = std::iter::once(own).chain(groups);
        let cloned: io::Result<Vec<OwnedFd>> =
            sockets.map(|socket| socket.try_clone_to_owned()).collect();
        Ok(MulticastReceiver {
            sockets: cloned?,
            last_ready: AtomicUsize::new(0),
            receives: AtomicUsize::new(0),
        })
    }
}

/// Receives on all sockets of a wire with groups, for one thread at a time.
#[derive(Debug)]
pub struct MulticastReceiver {
    /// The unicast socket first.
    sockets: Vec<OwnedFd>,
    /// The socket that had the last packet.
    last_ready: AtomicUsize,
    receives: AtomicUsize,
}

/// Every so many receives the busy socket is tried last, so that it does not block the others.
const FAIRNESS_INTERVAL: usize = 16;

impl MulticastReceiver {
    /// Tries the last ready socket `spin_tries` times, then waits on all sockets for up to
    /// `max_wait`.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after `max_wait`, or the first other error.
    pub fn receive<T>(
        &self,
        max_wait: Option<Duration>,
        spin_tries: u32,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let last = self.last_ready.load(Ordering::Relaxed);
        let receives = self.receives.fetch_add(1, Ordering::Relaxed);
        if receives.is_multiple_of(FAIRNESS_INTERVAL) {
            match self.try_all(last + 1, &mut receive) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        for _ in 0..spin_tries {
            match receive(self.sockets[last].as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                other => return other,
            }
        }
        loop {
            if !self.wait(max_wait)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match self.try_all(last, &mut receive) {
                // The kernel dropped a datagram with a bad checksum after poll reported it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    fn try_all<T>(
        &self,
        first: usize,
        receive: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let count = self.sockets.len();
        for step in 0..count {
            let at = (first + step) % count;
            match receive(self.sockets[at].as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => {
                    self.last_ready.store(at, Ordering::Relaxed);
                    return other;
                }
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Sleeps until a socket is readable; false after `max_wait`.
    fn wait(&self, max_wait: Option<Duration>) -> io::Result<bool> {
        let limit = max_wait.map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let in_flags = PollFlags::IN;
        let mut ready: Vec<PollFd<'_>> = self
            .sockets
            .iter()
            .map(|socket| PollFd::new(socket, in_flags))
            .collect();
        match poll(&mut ready, limit.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            Err(error) => Err(error.into()),
        }
    }
}

fn watch(epoll: &OwnedFd, socket: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    epoll::add(epoll, socket, data, epoll::EventFlags::IN)?;
    Ok(())
}

/// Opens a socket that is a member of `group` on the interface with the address `local` (any, if
/// unspecified). For IPv6 the group's scope names the interface.
///
/// # Errors
///
/// `InvalidInput` when `group` is not a multicast address.
pub fn open_member_socket(
    kind: SocketType,
    protocol: Option<Protocol>,
    group: SocketAddr,
    local: IpAddr,
) -> io::Result<OwnedFd> {
    if !group.ip().is_multicast() {
        let text = format!("{} is no multicast address, such as 239.1.2.3", group.ip());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let family = match group {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &group)?;
    match group {
        SocketAddr::V4(group) => {
            let local = match local {
                IpAddr::V4(local) => local,
                IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
            };
            sockopt::set_ip_add_membership(&socket, group.ip(), &local)?;
        }
        SocketAddr::V6(group) => {
            sockopt::set_ipv6_add_membership(&socket, group.ip(), group.scope_id())?;
        }
    }
    Ok(socket)
}

/// Makes `socket` send multicast on the interface with the address `local` (IP_MULTICAST_IF). Does
/// nothing when `local` is unspecified, or IPv6, where the group's scope names the interface.
pub fn set_interface(socket: BorrowedFd<'_>, local: IpAddr) -> io::Result<()> {
    if let IpAddr::V4(local) = local
        && !local.is_unspecified()
    {
        sockopt::set_ip_multicast_if(socket, &local)?;
    }
    Ok(())
}

/// Makes `socket`, bound to `local`, send multicast across up to `hops` - 1 routers (1 stays on the
/// local network). For IPv6 the scope of `local`, if any, also names the interface.
pub fn set_hops(socket: BorrowedFd<'_>, local: SocketAddr, hops: u8) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => sockopt::set_ip_multicast_ttl(socket, u32::from(hops))?,
        SocketAddr::V6(local) => {
            sockopt::set_ipv6_multicast_hops(socket, u32::from(hops))?;
            if local.scope_id() != 0 {
                sockopt::set_ipv6_multicast_if(socket, local.scope_id())?;
            }
        }
    }
    Ok(())
}
