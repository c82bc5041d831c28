//! Raw IP as a wire: packets directly behind an IPv4 or IPv6 header, with a protocol number and no
//! ports.
//!
//! * [`IpWire`] implements [`wire::Wire`]; one system call sends or receives many packets.
//! * `receive_queue` - packets of one recvmmsg that the engine has not taken yet.
//! * `sys` - sendmmsg and recvmmsg; the only unsafe code. Addresses, socket options and multicast
//!   are those of `wire-udp`.
//!
//! The kernel does not segment raw IP: every packet goes through the stack by itself, and a call
//! for many packets saves only system calls. There are no ports either: a raw socket bound to an
//! address receives every packet of the protocol for that address, so programs on one address must
//! demultiplex by themselves. XTP does, by its keys and by the port in its FIRST packets. The
//! protocol number is the caller's: this crate knows no protocol.
//!
//! A raw socket needs CAP_NET_RAW; see [`IpWire::bind`].

mod receive_queue;
mod sys;

use engine::{Address, Fragmentation, PacketLen, Path};
use receive_queue::ReceiveQueue;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};
use wire_udp::multicast::{self, GroupReceiver, MemberSockets};
use wire_udp::path_mtu::{FragmentationOption, RouteProbe, ip_header_len};
use wire_udp::raw;

/// Longest payload: 65,535 less the longest IPv4 header of 60 octets.
pub const PAYLOAD_MAX: usize = 65_535 - 60;

/// Packets of a send, at most: as many as with segmented UDP.
const SEGMENTS_MAX: usize = 64;

/// Octets of a send, at most. With the kernel's bookkeeping, at worst as much again, they take a
/// third of the smallest default buffer (416 KiB).
const BATCH_BYTES_MAX: usize = 64 << 10;

/// Kernel buffer requested in each direction; see [`wire_udp::BUFFER_LEN`].
const BUFFER_LEN: usize = wire_udp::BUFFER_LEN;

/// The port of a question that is never sent (RFC 863).
const DISCARD_PORT: u16 = 9;

/// Default timeout of a waiting receive.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// A raw IP socket as a wire.
#[derive(Debug)]
pub struct IpWire {
    socket: OwnedFd,
    local: IpAddr,
    protocol: Protocol,
    max_wait: Option<Duration>,
    outgoing: sys::SendTables,
    /// Shared with receivers; at most one thread receives at a time.
    queue: Arc<Mutex<ReceiveQueue>>,
    /// Sockets of the groups it is in, shared with receivers.
    members: Arc<MemberSockets>,
    groups: GroupReceiver,
    fragmentation: FragmentationOption,
    probe: RouteProbe,
}

impl IpWire {
    /// Opens a socket for the packets of `protocol` to the address `local`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`, with the remedy, without CAP_NET_RAW.
    pub fn bind(local: IpAddr, protocol: u8) -> io::Result<IpWire> {
        let socket = open_unbound(local, protocol)?;
        raw::bind(socket.as_fd(), SocketAddr::new(local, 0))?;
        IpWire::over(socket, local, protocol)
    }

    /// A wire over a socket that is bound to `local` already, perhaps by another process.
    ///
    /// # Errors
    ///
    /// When an option of the socket cannot be set.
    pub fn over(socket: OwnedFd, local: IpAddr, protocol: u8) -> io::Result<IpWire> {
        wire_udp::sys::set_buffers(socket.as_fd(), BUFFER_LEN);
        multicast::set_interface(socket.as_fd(), local)?;
        let mut wire = IpWire {
            socket,
            local,
            protocol: protocol_of(protocol)?,
            max_wait: None,
            outgoing: sys::SendTables::new(SEGMENTS_MAX),
            queue: Arc::new(Mutex::new(ReceiveQueue::new(local))),
            members: Arc::default(),
            groups: GroupReceiver::default(),
            fragmentation: FragmentationOption::new(local),
            probe: RouteProbe::new(local),
        };
        wire.set_max_wait(Some(MAX_WAIT))?;
        Ok(wire)
    }

    /// The address it is bound to.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// Sets the receive timeout of receivers made from now on; None waits without a limit. See
    /// [`wire_udp::UdpWire::set_max_wait`].
    pub fn set_max_wait(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        self.max_wait = max_wait;
        let id = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&self.socket, id, max_wait)?;
        Ok(())
    }
}

impl IpWire {
    /// Ends the waits of receivers on the unicast socket by an empty packet to its own address, which
    /// nobody delivers.
    fn end_waits(&mut self) -> io::Result<()> {
        let own = match self.local {
            IpAddr::V4(local) if local.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(local) if local.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            local => local,
        };
        let flags = rustix::net::SendFlags::DONTWAIT;
        match rustix::net::sendto(&self.socket, &[], flags, &SocketAddr::new(own, 0)) {
            // With no room to send there is something to receive, or the wait has a limit.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a socket for the packets of `protocol`, of the family of `local`. Until it is bound it receives those to
/// all addresses, so attach a filter first.
///
/// # Errors
///
/// `PermissionDenied`, with the remedy, without CAP_NET_RAW.
pub fn open_unbound(local: IpAddr, protocol: u8) -> io::Result<OwnedFd> {
    let family = match local {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let protocol = protocol_of(protocol)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(protocol));
    socket.map_err(|errno| open_error(&errno.into()))
}

fn protocol_of(number: u8) -> io::Result<Protocol> {
    let number = std::num::NonZeroU32::new(u32::from(number));
    let protocol = number.map(Protocol::from_raw);
    protocol.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The kernel's error with its remedy.
fn open_error(error: &io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "raw IP needs the right to raw sockets (CAP_NET_RAW); run it as root, give the program \
             the capability with setcap cap_net_raw+ep, or run it in a host of towpath testbed",
        ),
        kind => io::Error::new(kind, format!("cannot open a raw IP socket: {error}")),
    }
}

impl Wire for IpWire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: PAYLOAD_MAX,
            segments_max: SEGMENTS_MAX,
            batch_bytes_max: BATCH_BYTES_MAX,
            receive_len: 65_536,
        }
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let Address::Socket(to) = wire::only_local(path)? else {
            let text = "a raw IP wire needs an Internet address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let own = self.socket.as_fd();
        let sent = self.outgoing.send(own, to, slices, segment_size);
        if !self.members.is_empty() {
            let is_full = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            self.members.note_room(own, !is_full);
        }
        sent
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<wire::Taken> {
        self.send(path, slices, segment_size)
            .map(|()| wire::Taken::Copied)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let Ok(mut queue) = self.queue.try_lock() else {
            // A receiver has the lock and will deliver the packets.
            return Err(io::ErrorKind::WouldBlock.into());
        };
        if queue.is_empty() {
            let own = self.socket.as_fd();
            if self.members.is_empty() {
                queue.fill(own, libc::MSG_DONTWAIT)?;
            } else {
                let fill = |fd: BorrowedFd<'_>| queue.fill(fd, libc::MSG_DONTWAIT);
                self.groups.try_receive(&self.members, own, fill)?;
            }
        }
        queue.pop_arrival(buffer)
    }

    // The kernel reports what becomes of a raw packet to connected sockets only.
    fn poll_path_error(&mut self) -> Option<PathReport> {
        None
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation.set(self.socket.as_fd(), fragmentation);
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        let Address::Socket(to) = path.remote else {
            return PAYLOAD_MAX;
        };
        // A route is one of hosts; any port will do.
        let mtu = self.probe.route_mtu(SocketAddr::new(to.ip(), DISCARD_PORT));
        let octets = mtu.and_then(|mtu| mtu.checked_sub(ip_header_len(to.ip())));
        octets.map_or(PAYLOAD_MAX, |octets| octets.min(PAYLOAD_MAX))
    }

    fn unanswerable(&self) -> u64 {
        0
    }

    fn receive_drops(&self) -> Option<u64> {
        self.members.receive_drops(self.socket.as_fd())
    }

    // Each packet has a buffer of its own, so its length is known.
    fn set_packet_len(&mut self, _: PacketLen) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.members.descriptor().unwrap_or(self.socket.as_fd()))
    }

    fn has_buffered(&self) -> bool {
        self.queue.try_lock().is_ok_and(|queue| !queue.is_empty())
    }

    fn may_wait(&mut self) -> bool {
        true
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        let group = group_address(group)?;
        self.members.check_new(group)?;
        let protocol = Some(self.protocol);
        let socket =
            multicast::open_member_socket(SocketType::RAW, protocol, group, self.local, None)?;
        wire_udp::sys::set_buffers(socket.as_fd(), BUFFER_LEN);
        let may_wait = self.members.is_empty() && Arc::strong_count(&self.members) > 1;
        self.members.add(self.socket.as_fd(), group, socket)?;
        if may_wait {
            self.end_waits()?;
        }
        Ok(())
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        self.members.remove(group_address(group)?, self.local)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(IpReceiver {
            socket: self.socket.try_clone().ok()?,
            max_wait: self.max_wait,
            queue: Arc::clone(&self.queue),
            members: Arc::clone(&self.members),
            groups: GroupReceiver::default(),
        }))
    }
}

fn group_address(group: Address) -> io::Result<SocketAddr> {
    let Address::Socket(mut group) = group else {
        let text = "a group of a raw IP wire is an Internet address";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    group.set_port(0);
    Ok(group)
}

/// Waits on the same socket.
struct IpReceiver {
    socket: OwnedFd,
    max_wait: Option<Duration>,
    queue: Arc<Mutex<ReceiveQueue>>,
    members: Arc<MemberSockets>,
    groups: GroupReceiver,
}

impl Receiver for IpReceiver {
    fn max_wait(&self) -> Duration {
        self.max_wait.unwrap_or(Duration::MAX)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let mut queue: MutexGuard<'_, ReceiveQueue> =
            self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_empty() {
            let own = self.socket.as_fd();
            if self.members.is_empty() {
                queue.fill(own, 0)?;
            } else {
                let fill = |fd: BorrowedFd<'_>| queue.fill(fd, libc::MSG_DONTWAIT);
                let waiting = (self.max_wait, None);
                self.groups.receive(&self.members, own, waiting, fill)?;
            }
        }
        queue.pop_arrival(buffer)
    }

    fn interrupt(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn hint_busy_poll(&self) {}

    fn is_interruptible(&self) -> bool {
        false
    }
}
