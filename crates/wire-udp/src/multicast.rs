//! Groups of hosts (multicast), for every wire on Internet sockets.
//!
//! A group is heard on a socket of its own, bound to the group's address: several receivers of one
//! host each get a copy, and each keeps the socket and port that it alone answers from.

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Groups a wire may join: each takes a descriptor.
const GROUPS_MAX: usize = 64;

/// The sockets on which a wire hears groups, beside its own.
#[derive(Debug)]
pub struct MulticastSockets {
    /// Readable when any of the sockets is, the wire's own among them.
    epoll: OwnedFd,
    groups: Vec<OwnedFd>,
    /// Which is asked first, so that none waits behind a busy one.
    next_socket: usize,
}

impl MulticastSockets {
    /// None yet, beside `own`.
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

    /// Hears one more group on `socket`.
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

    /// Readable when something is there.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Receives from the first of `own` and the groups' sockets that has something, in turn.
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

/// The sockets of a wire with groups, for one thread at a time.
#[derive(Debug)]
pub struct MulticastReceiver {
    /// The wire's own first.
    sockets: Vec<OwnedFd>,
    /// Which had something when one was last found.
    last_ready: AtomicUsize,
    receives: AtomicUsize,
}

/// Receives after which the one that was busy is not asked first for once.
const FAIRNESS_INTERVAL: usize = 16;

impl MulticastReceiver {
    /// Receives, looking `spin_tries` times where something came last and then waiting for as long as
    /// `max_wait`.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing came for so long, or the first other error.
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
                // What was there was damaged, and the kernel threw it away.
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

    /// Sleeps until a socket has something; false when none had for as long as `max_wait`.
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

/// A socket that receives what is sent to `group`, on the interface that has the address `local`
/// (any, if unspecified). For IPv6 the group's scope names the interface.
///
/// # Errors
///
/// `InvalidInput` when `group` is none, or what the kernel says.
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

/// Makes `socket` send to groups by the interface that has the address `local`; nothing when that
/// is unspecified or IPv6, where the group's scope names the interface.
///
/// # Errors
///
/// What the kernel says.
pub fn set_interface(socket: BorrowedFd<'_>, local: IpAddr) -> io::Result<()> {
    if let IpAddr::V4(local) = local
        && !local.is_unspecified()
    {
        sockopt::set_ip_multicast_if(socket, &local)?;
    }
    Ok(())
}

/// Makes `socket`, bound to `local`, send to groups across up to `hops` - 1 routers (1 stays on the
/// local network), and over IPv6 by the interface that is the scope of `local`, if it has one.
///
/// # Errors
///
/// What the kernel says.
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
