//! UDP as a wire, with the kernel's segmentation (GSO) and coalescing (GRO).
//!
//! [`UdpWire`] implements [`wire::Wire`]. Its system calls live in [`sys`], the only place with
//! unsafe code. The kernel's UDP transports make the same calls, so that a comparison with them is
//! one of protocols alone.
//!
//! A segmented send (UDP_SEGMENT, Linux 4.18) hands up to 64 equal datagrams to the kernel as one
//! buffer of at most 65,507 octets; a coalescing receive (UDP_GRO, Linux 5.0) gets them back as
//! one. Where the kernel lacks either, the wire sends and receives one datagram a call, and its
//! capabilities say so.
//!
//! A datagram longer than the path's MTU is fragmented by the host, once; the kernel segments none that
//! are too long, so those are sent one by one, and reported (see [`mod@path_mtu`]).
//!
//! [`multicast`] has the member sockets of this wire and of the one on raw IP; [`raw`] binds the latter.

mod by_reference;
pub mod multicast;
pub mod packet_filter;
pub mod path_mtu;
pub mod raw;
mod receiver;
pub mod route;
pub mod sys;

pub use receiver::UdpReceiver;

use by_reference::ByReference;
use engine::{Address, Ecn, Fragmentation, PacketLen, Path, PathError};
use multicast::{GroupReceiver, MemberSockets};
use path_mtu::{FragmentationOption, RouteProbe};
use receiver::{interrupt, local_destination};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::{Arrival, BusyPoll, Capabilities, PathReport, Receiver, Taken, Wire};

/// Largest UDP payload over IPv4: 65,535 less 20 and 8 octets of headers.
pub const UDP_PAYLOAD_MAX: usize = 65_507;

/// Datagrams of one segmented send: UDP_MAX_SEGMENTS of Linux before 6.9; later kernels take 128.
const SEGMENTS_MAX: usize = 64;

/// Kernel buffer requested in each direction.
///
/// The kernel also charges its own bookkeeping (about as much as the payload), and the windows of
/// 512 KiB of a few associations must fit.
pub const BUFFER_LEN: usize = 4 << 20;

/// Destinations whose packets were too long that wait to be told. A flush has few; one that is not told
/// comes again with the next packets.
const TOO_BIG_MAX: usize = 64;

/// How long a send by reference waits for room in the socket; the kernel rounds it up to its tick.
const SPLICE_WAIT: Duration = Duration::from_micros(1);

/// Default timeout of a waiting receive, so that its thread can check for other work.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// A UDP socket as a wire.
#[derive(Debug)]
pub struct UdpWire {
    socket: UdpSocket,
    segmented: bool,
    max_wait: Option<Duration>,
    shared: Arc<Shared>,
    groups: GroupReceiver,
    packet_len: Option<PacketLen>,
    spin: Duration,
    fragmentation: FragmentationOption,
    probe: RouteProbe,
    /// Destinations of packets that were too long for their path, not yet told.
    too_big: VecDeque<SocketAddr>,
    /// The only source of packets to groups; None for any.
    only_from: Option<IpAddr>,
    by_reference: ByReference,
}

/// What a wire shares with its receivers, also with those made earlier.
#[derive(Debug, Default)]
struct Shared {
    /// The only peer of a connected socket.
    peer: OnceLock<SocketAddr>,
    /// Sockets of the groups it is in.
    members: MemberSockets,
    /// The peer's host said that nobody is at its port, and nobody has asked since.
    is_refused: AtomicBool,
    /// Datagrams from port 0.
    unanswerable: AtomicU64,
}

impl Shared {
    /// Notes what a receive says of paths, and drops a datagram that cannot be answered: nothing can
    /// be sent to port 0.
    #[inline]
    fn check(&self, received: io::Result<Arrival>) -> io::Result<Arrival> {
        match &received {
            Ok(arrival) => match arrival.path.remote {
                Address::Socket(from) if from.port() == 0 && arrival.len > 0 => {
                    self.unanswerable.fetch_add(1, Ordering::Relaxed);
                    Err(io::ErrorKind::Interrupted.into())
                }
                _ => received,
            },
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                received
            }
        }
    }
}

impl UdpWire {
    /// Binds a socket to `local`; for port 0 the kernel picks one.
    pub fn bind(local: SocketAddr) -> io::Result<UdpWire> {
        UdpWire::from_socket(UdpSocket::bind(local)?)
    }

    /// A wire on a bound socket.
    ///
    /// # Errors
    ///
    /// When the system refuses an option.
    pub fn from_socket(socket: UdpSocket) -> io::Result<UdpWire> {
        let local = socket.local_addr()?;
        // Only a waiting receive blocks; all other calls pass MSG_DONTWAIT.
        socket.set_read_timeout(Some(MAX_WAIT))?;
        sys::set_buffers(socket.as_fd(), BUFFER_LEN);
        multicast::set_interface(socket.as_fd(), local.ip())?;
        let segmented =
            sys::set_coalescing(socket.as_fd(), true).is_ok() && sys::can_segment(socket.as_fd());
        Ok(UdpWire {
            socket,
            segmented,
            max_wait: Some(MAX_WAIT),
            shared: Arc::default(),
            groups: GroupReceiver::default(),
            packet_len: None,
            spin: Duration::ZERO,
            fragmentation: FragmentationOption::new(local.ip()),
            probe: RouteProbe::new(local.ip()),
            too_big: VecDeque::new(),
            only_from: None,
            by_reference: ByReference::default(),
        })
    }

    /// Has the groups that it joins from now on hear one source alone. Its own socket takes a filter before it is
    /// bound ([`packet_filter::source_filter`]).
    pub fn set_only_from(&mut self, source: Option<IpAddr>) {
        self.only_from = source;
    }

    /// Connects the socket to `peer`: the kernel drops datagrams of other senders and looks up the
    /// route once instead of for each packet, which saves half a microsecond.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when it is connected to another peer.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        if *self.shared.peer.get_or_init(|| peer) != peer {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.socket.connect(peer)
    }

    /// Sets the receive timeout of receivers made from now on; None waits without a limit.
    ///
    /// A timeout arms a timer at each sleep, which costs up to a microsecond on a virtual machine.
    /// Without one, [`Receiver::interrupt`] ends the wait; on a connected socket, shutting it down
    /// for reading does.
    pub fn set_max_wait(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        self.max_wait = max_wait;
        self.socket.set_read_timeout(max_wait)
    }

    /// Sets how long receivers made from now on busy-poll before they sleep. It shortens delays and
    /// keeps a processor busy.
    pub fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Sends and receives one datagram a call from now on, as on a kernel without segmentation.
    pub fn disable_segmentation(&mut self) -> io::Result<()> {
        self.segmented = false;
        sys::set_coalescing(self.socket.as_fd(), false)
    }

    /// Sends packets by reference that its user holds ([`Wire::send_by_reference`]) from now on, if the socket is
    /// connected to an address of this host. Returns whether it does. Its capabilities say how long calls may be; those
    /// that were planned before and are longer are copied.
    ///
    /// # Errors
    ///
    /// When the system refuses an option.
    pub fn enable_references(&mut self) -> io::Result<bool> {
        let Some(peer) = self.shared.peer.get().copied() else {
            return Ok(false);
        };
        let own = self.local_addr()?.ip();
        if !(peer.ip().is_loopback() || peer.ip() == own) {
            return Ok(false);
        }
        // A splice has no flag for that; all other sends pass MSG_DONTWAIT.
        self.socket.set_write_timeout(Some(SPLICE_WAIT))?;
        self.by_reference.turn_on();
        Ok(true)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What the kernel did not segment, because packets are too long for the path, goes out packet by
    /// packet, and each is fragmented.
    #[cold]
    fn send_each(
        &mut self,
        peer: SocketAddr,
        slices: &[IoSlice<'_>],
        packet_len: usize,
    ) -> io::Result<()> {
        let to = (self.shared.peer.get() != Some(&peer)).then_some(peer);
        let octets: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let own = self.socket.as_fd();
        self.by_reference.prepare_plain(own, packet_len);
        for (at, packet) in octets.chunks(packet_len).enumerate() {
            let sent = sys::send_segmented(own, to, &[IoSlice::new(packet)], None);
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && at > 0 => {
                    // Part of them is on its way: the rest is lost, as on the path.
                    break;
                }
                other => other?,
            }
        }
        if !self.too_big.contains(&peer) && self.too_big.len() < TOO_BIG_MAX {
            self.too_big.push_back(peer);
        }
        Ok(())
    }

    /// Its receiver, for a wire that waits for more than this one; None when there is no descriptor left.
    pub fn udp_receiver(&self) -> Option<UdpReceiver> {
        let socket = self.socket.try_clone().ok()?;
        // A connected socket drops its own datagrams, so they cannot interrupt a wait.
        let own = match self.shared.peer.get() {
            None => socket.local_addr().ok().map(local_destination),
            Some(_) => None,
        };
        Some(UdpReceiver {
            socket,
            max_wait: self.max_wait,
            shared: Arc::clone(&self.shared),
            own,
            packet_len: self.packet_len,
            spin: self.spin,
            busy_poll: BusyPoll::default(),
            groups: GroupReceiver::default(),
        })
    }

    /// Whether the kernel segments and coalesces for this socket.
    pub fn is_segmented(&self) -> bool {
        self.segmented
    }
}

impl Wire for UdpWire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: UDP_PAYLOAD_MAX,
            segments_max: if self.segmented { SEGMENTS_MAX } else { 1 },
            batch_bytes_max: match self.by_reference.is_on() {
                true => by_reference::octets_max().min(UDP_PAYLOAD_MAX),
                false => UDP_PAYLOAD_MAX,
            },
            receive_len: 65_536,
        }
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let Address::Socket(to) = wire::only_local(path)? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a UDP wire needs an Internet address",
            ));
        };
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let segment_size = (total > segment_size).then_some(segment_size);
        if segment_size.is_none() {
            self.by_reference.prepare_plain(self.socket.as_fd(), total);
        }
        let unconnected = (self.shared.peer.get() != Some(&to)).then_some(to);
        let sent = sys::send_segmented(self.socket.as_fd(), unconnected, slices, segment_size);
        let sent = match (sent, segment_size) {
            (Err(error), Some(len)) if path_mtu::is_too_long(&error) => {
                self.send_each(to, slices, len)
            }
            (sent, _) => sent,
        };
        let own = self.socket.as_fd();
        if !self.shared.members.is_empty() {
            let is_full = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            self.shared.members.note_room(own, !is_full);
        }
        sent
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken> {
        let is_to_peer = match (wire::only_local(path)?, self.shared.peer.get()) {
            (Address::Socket(to), Some(peer)) => to == *peer,
            _ => false,
        };
        let socket = self.socket.as_fd();
        if is_to_peer && self.by_reference.send(socket, slices, segment_size) {
            return Ok(Taken::ByReference);
        }
        self.send(path, slices, segment_size)
            .map(|()| Taken::Copied)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let own = self.socket.as_fd();
        let (shared, packet_len) = (&self.shared, self.packet_len);
        let received = if shared.members.is_empty() {
            let peer = shared.peer.get().copied();
            receive(own, buffer, peer, packet_len, false)
        } else {
            self.groups.try_receive(&shared.members, own, |fd| {
                receive(fd, buffer, None, packet_len, false)
            })
        };
        shared.check(received)
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        if let Some(peer) = self.too_big.pop_front() {
            let path = Path::to(Address::Socket(peer));
            let octets = u16::try_from(self.path_mtu(path)).unwrap_or(u16::MAX);
            return Some(PathReport {
                path,
                error: PathError::TooBig(octets),
                quoted: Vec::new(),
            });
        }
        let peer = *self.shared.peer.get()?;
        // A load first: most calls find nothing, and an exchange takes the cache line.
        let is_refused = self.shared.is_refused.load(Ordering::Relaxed)
            && self.shared.is_refused.swap(false, Ordering::Relaxed);
        is_refused.then(|| PathReport {
            path: Path::to(Address::Socket(peer)),
            error: PathError::Unreachable,
            quoted: Vec::new(),
        })
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation.set(self.socket.as_fd(), fragmentation);
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        let Address::Socket(to) = path.remote else {
            return UDP_PAYLOAD_MAX;
        };
        let mtu = match self.shared.peer.get() {
            Some(peer) if *peer == to => path_mtu::connected_mtu(self.socket.as_fd(), to),
            _ => self.probe.route_mtu(to),
        };
        let octets = mtu.and_then(|mtu| mtu.checked_sub(path_mtu::headers_len(to)));
        octets.map_or(UDP_PAYLOAD_MAX, |octets| octets.min(UDP_PAYLOAD_MAX))
    }

    fn unanswerable(&self) -> u64 {
        self.shared.unanswerable.load(Ordering::Relaxed)
    }

    fn receive_drops(&self) -> Option<u64> {
        self.shared.members.receive_drops(self.socket.as_fd())
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        self.packet_len = Some(packet_len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let all = self.shared.members.descriptor();
        Some(all.unwrap_or(self.socket.as_fd()))
    }

    fn has_buffered(&self) -> bool {
        false
    }

    fn may_wait(&mut self) -> bool {
        true
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        let group = group_address(group)?;
        if let Some(peer) = self.shared.peer.get() {
            let text = format!(
                "the wire is connected to {peer} and hears nobody else; join the group {group} \
                 with another wire"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.shared.members.check_new(group)?;
        let local = self.local_addr()?;
        let kind = rustix::net::SocketType::DGRAM;
        let socket = multicast::open_member_socket(kind, None, group, local.ip(), self.only_from)?;
        sys::set_buffers(socket.as_fd(), BUFFER_LEN);
        sys::set_coalescing(socket.as_fd(), self.segmented).or_else(|error| {
            // A kernel without UDP_GRO has nothing to turn off.
            if self.segmented { Err(error) } else { Ok(()) }
        })?;
        let may_wait = self.shared.members.is_empty() && Arc::strong_count(&self.shared) > 1;
        let own = self.socket.as_fd();
        self.shared.members.add(own, group, socket)?;
        if may_wait {
            // A receiver may be waiting on the unicast socket alone.
            interrupt(own, local_destination(local))?;
        }
        Ok(())
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        let local = self.local_addr()?.ip();
        self.shared.members.remove(group_address(group)?, local)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(self.udp_receiver()?))
    }
}

fn group_address(group: Address) -> io::Result<SocketAddr> {
    match group {
        Address::Socket(group) => Ok(group),
        _ => {
            let text = "a group of a UDP wire is an Internet address and a port";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Receives one or more coalesced datagrams. When the packets carry their own length, the kernel is
/// not asked for the segment size, which saves a sixth of a microsecond. A part of each loop that polls, or what it brings
/// is copied on the way out.
#[inline(always)]
fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: Option<SocketAddr>,
    packet_len: Option<PacketLen>,
    waits: bool,
) -> io::Result<Arrival> {
    let flags = if waits { 0 } else { sys::DONT_WAIT };
    let Some(packet_len) = packet_len else {
        return sys::receive_coalesced_with(socket, buffer, peer, flags).map(arrival);
    };
    let got = sys::receive_plain_with(socket, buffer, peer, flags).map(arrival)?;
    // UDP_GRO joins datagrams of equal length; only the last may be shorter.
    let first_len = packet_len(&buffer[..got.len]).unwrap_or(got.len);
    Ok(Arrival {
        segment_size: first_len.clamp(1, got.len.max(1)),
        ..got
    })
}

#[inline]
fn arrival(coalesced: sys::Coalesced) -> Arrival {
    Arrival {
        path: Path::to(Address::Socket(coalesced.from)),
        ecn: Ecn::NotEct,
        len: coalesced.len,
        segment_size: coalesced.segment_size,
    }
}
