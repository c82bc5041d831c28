//! Multicast for the wires on Internet sockets.
//!
//! Each group has a member socket of its own, bound to the group's address. Several receivers on
//! one host each get a copy, and each answers from its own unicast socket and port.

use crate::packet_filter::source_filter;
use crate::{raw, sys};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, bind, socket_with, sockopt};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use wire::BusyPoll;

/// Groups a wire may join; each takes a descriptor.
const GROUPS_MAX: usize = 64;

/// The member sockets of a wire, beside its unicast socket; shared with the wire's receivers, so that
/// groups are joined and left at any time.
#[derive(Debug, Default)]
pub struct MemberSockets {
    /// Readable when any of the sockets is, the unicast socket included; made with the first group.
    epoll: OnceLock<OwnedFd>,
    members: RwLock<Vec<Member>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    /// The unicast socket had no room for a packet: its room makes the descriptor readable too.
    awaits_room: AtomicBool,
    /// Datagrams that the sockets of groups it has left dropped.
    drops_of_left: AtomicU64,
}

#[derive(Debug)]
struct Member {
    group: SocketAddr,
    socket: OwnedFd,
}

impl MemberSockets {
    /// Whether the wire is in no group.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Adds the member socket `socket` of `group`; `own` is the unicast socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when there are 64 already, or the process is out of descriptors.
    pub fn add(&self, own: BorrowedFd<'_>, group: SocketAddr, socket: OwnedFd) -> io::Result<()> {
        let mut members = self.write();
        if members.len() >= GROUPS_MAX {
            let text = format!("a wire joins {GROUPS_MAX} groups at most; use another wire");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let epoll = match self.epoll.get() {
            Some(epoll) => epoll,
            None => {
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                watch(&epoll, own)?;
                self.epoll.get_or_init(|| epoll)
            }
        };
        watch(epoll, socket.as_fd())?;
        members.push(Member { group, socket });
        self.count.store(members.len(), Ordering::Release);
        Ok(())
    }

    /// Fails when the wire is in `group` already.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`.
    pub fn check_new(&self, group: SocketAddr) -> io::Result<()> {
        if self.read().iter().any(|member| member.group == group) {
            let text = format!("the wire is in the group {group} already");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        Ok(())
    }

    /// Leaves `group`, of which the interface with the address `local` is a member.
    ///
    /// # Errors
    ///
    /// `NotFound` when the wire is not in it.
    pub fn remove(&self, group: SocketAddr, local: IpAddr) -> io::Result<()> {
        let mut members = self.write();
        let Some(at) = members.iter().position(|member| member.group == group) else {
            let text = format!("the wire is in no group {group}; it has not joined it");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let Member { socket, .. } = members.remove(at);
        self.count.store(members.len(), Ordering::Release);
        let drops = sys::receive_drops(socket.as_fd()).unwrap_or_default();
        self.drops_of_left.fetch_add(drops, Ordering::Relaxed);
        if let Some(epoll) = self.epoll.get() {
            epoll::delete(epoll, &socket)?;
        }
        drop_membership(socket.as_fd(), group, local)
    }

    /// Datagrams that the kernel dropped because the unicast socket `own`, or one of a group, was full; None where the kernel
    /// does not count them.
    pub fn receive_drops(&self, own: BorrowedFd<'_>) -> Option<u64> {
        let of_own = sys::receive_drops(own).ok()?;
        let members = self.read();
        let of_members = members.iter();
        let of_members = of_members.filter_map(|one| sys::receive_drops(one.socket.as_fd()).ok());
        Some(of_own + of_members.sum::<u64>() + self.drops_of_left.load(Ordering::Relaxed))
    }

    /// Readable when any socket has a packet; None before the first group.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.get().map(AsFd::as_fd)
    }

    /// Says whether the unicast socket `own` had room for the last packet. While it has not, the
    /// descriptor becomes readable when it has: nobody can wait for room on a set of sockets.
    pub fn note_room(&self, own: BorrowedFd<'_>, has_room: bool) {
        let Some(epoll) = self.epoll.get() else {
            return;
        };
        if self.awaits_room.swap(!has_room, Ordering::Relaxed) != has_room {
            return;
        }
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, !has_room);
        // The socket is in the set since the set was made, so this cannot fail.
        let _ = epoll::modify(epoll, own, epoll::EventData::new_u64(0), flags);
    }

    /// Receives from the first socket that has a packet, beginning with number `first`, of which 0 is
    /// `own`. Returns its number too.
    fn receive_from<T>(
        &self,
        own: BorrowedFd<'_>,
        first: usize,
        receive: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> (usize, io::Result<T>) {
        let members = self.read();
        let count = members.len() + 1;
        for step in 0..count {
            let at = (first + step) % count;
            let socket = at
                .checked_sub(1)
                .map_or(own, |at| members[at].socket.as_fd());
            match receive(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return (at, other),
            }
        }
        drop(members);
        // Room alone may have made the descriptor readable; the sender says so again if it has none.
        self.note_room(own, true);
        (0, Err(io::ErrorKind::WouldBlock.into()))
    }

    /// Sleeps until a socket is readable; false after `max_wait`.
    fn wait(&self, max_wait: Option<Duration>) -> io::Result<bool> {
        let limit = max_wait.and_then(|span| Timespec::try_from(span).ok());
        let epoll = self.epoll.get().ok_or(io::ErrorKind::WouldBlock)?;
        let mut ready = [PollFd::new(epoll, PollFlags::IN)];
        match poll(&mut ready, limit.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Member>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Member>> {
        self.members.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives on all sockets of a wire with groups, for one thread at a time.
#[derive(Debug, Default)]
pub struct GroupReceiver {
    /// The socket that had the last packet; 0 is the unicast socket.
    last_ready: AtomicUsize,
    receives: AtomicUsize,
}

/// Every so many receives the busy socket is tried last, so that it does not block the others.
const FAIRNESS_INTERVAL: usize = 16;

impl GroupReceiver {
    /// Receives from the next of all sockets that has a packet, round-robin, without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when none has, or the first other error.
    pub fn try_receive<T>(
        &self,
        members: &MemberSockets,
        own: BorrowedFd<'_>,
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let last = self.last_ready.load(Ordering::Relaxed);
        self.try_from(members, own, last + 1, &mut receive)
    }

    /// Polls the last ready socket while that pays, if given, then waits on all sockets for up to `max_wait`.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after `max_wait`, or the first other error.
    pub fn receive<T>(
        &self,
        members: &MemberSockets,
        own: BorrowedFd<'_>,
        (max_wait, busy_poll): (Option<Duration>, Option<&BusyPoll>),
        mut receive: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let last = self.last_ready.load(Ordering::Relaxed);
        let receives = self.receives.fetch_add(1, Ordering::Relaxed);
        if receives.is_multiple_of(FAIRNESS_INTERVAL) {
            match self.try_from(members, own, last + 1, &mut receive) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        let mut poll_last = || self.try_from(members, own, last, &mut receive);
        if let Some(received) = busy_poll.and_then(|poll| poll.poll_in_bulk(&mut poll_last)) {
            return received;
        }
        loop {
            if !members.wait(max_wait)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            match self.try_from(members, own, last, &mut receive) {
                // The kernel dropped a datagram with a bad checksum after poll reported it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    fn try_from<T>(
        &self,
        members: &MemberSockets,
        own: BorrowedFd<'_>,
        first: usize,
        receive: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (at, received) = members.receive_from(own, first, receive);
        self.last_ready.store(at, Ordering::Relaxed);
        received
    }
}

fn watch(epoll: &OwnedFd, socket: BorrowedFd<'_>) -> io::Result<()> {
    let data = epoll::EventData::new_u64(0);
    epoll::add(epoll, socket, data, epoll::EventFlags::IN)?;
    Ok(())
}

/// Ends the membership at once: a receiver may still hold the socket.
fn drop_membership(socket: BorrowedFd<'_>, group: SocketAddr, local: IpAddr) -> io::Result<()> {
    match (group, local) {
        (SocketAddr::V4(group), IpAddr::V4(local)) => {
            sockopt::set_ip_drop_membership(socket, group.ip(), &local)?;
        }
        (SocketAddr::V4(group), IpAddr::V6(_)) => {
            sockopt::set_ip_drop_membership(socket, group.ip(), &Ipv4Addr::UNSPECIFIED)?;
        }
        (SocketAddr::V6(group), _) => {
            sockopt::set_ipv6_drop_membership(socket, group.ip(), group.scope_id())?;
        }
    }
    Ok(())
}

/// Opens a socket that is a member of `group` on the interface with the address `local` (any, if
/// unspecified). For IPv6 the group's scope names the interface. A datagram socket hears `only_from` alone, if it is given: a
/// filter says so before it is bound.
///
/// # Errors
///
/// `InvalidInput` when `group` is not a multicast address.
pub fn open_member_socket(
    kind: SocketType,
    protocol: Option<Protocol>,
    group: SocketAddr,
    local: IpAddr,
    only_from: Option<IpAddr>,
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
    if let Some(source) = only_from {
        SockRef::from(&socket).attach_filter(&source_filter(source))?;
    }
    if kind == SocketType::RAW {
        raw::bind(socket.as_fd(), group)?;
    } else {
        bind(&socket, &group)?;
    }
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
