//! A packet socket with rings of frames as a wire.

use crate::encapsulation::{Encapsulation, HEADER_MAX, Reading};
use crate::socket::Interface;
use crate::sys::{self, ReceiveRing, RingSizes, SLOT_OVERHEAD, SendRing};
use engine::{Address, Ecn, PacketLen, Path};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};

/// Packets of a send, at most: as many as with segmented UDP.
const SEGMENTS_MAX: usize = 64;

/// Octets of the receive ring: 2048 full frames, 25 ms at 1 Gbit/s.
const RECEIVE_RING_LEN: usize = 4 << 20;

/// Octets of the send ring: eight full batches.
const SEND_RING_LEN: usize = 1 << 20;

/// Slots a ring has at least, however long its frames.
const SLOTS_MIN: usize = 2 * SEGMENTS_MAX;

/// Groups a wire may join: what interfaces filter in hardware, commonly (more make them take all).
const GROUPS_MAX: usize = 64;

/// Timeout of a waiting receive, so that its thread can check for other work. Nothing else ends the
/// wait: a packet socket cannot be shut down.
const MAX_WAIT: Duration = Duration::from_millis(10);

/// Configuration of a wire on an interface.
#[derive(Clone, Copy, Debug)]
pub struct EtherWireConfig {
    /// EtherType of the protocol.
    pub ethertype: u16,
    /// Octets of the longest packet without the Ethernet header; the interface's MTU may be lower.
    /// It sets the length of the rings' slots.
    pub packet_max: usize,
    /// Whether frames bypass the queueing discipline (PACKET_QDISC_BYPASS); frames are then dropped
    /// when the device is busy.
    pub bypass: bool,
    /// How frames say that they are of this EtherType.
    pub encapsulation: Encapsulation,
}

impl EtherWireConfig {
    /// The same, with packets that the interface can carry.
    fn within(self, interface: &Interface) -> EtherWireConfig {
        EtherWireConfig {
            packet_max: self
                .packet_max
                .min(interface.mtu - self.encapsulation.overhead().min(interface.mtu)),
            ..self
        }
    }

    fn ring_sizes(&self) -> RingSizes {
        let slot_len = (HEADER_MAX + self.packet_max + SLOT_OVERHEAD).next_power_of_two();
        RingSizes {
            slot_len,
            received: (RECEIVE_RING_LEN / slot_len).max(SLOTS_MIN),
            sending: (SEND_RING_LEN / slot_len).max(SLOTS_MIN),
        }
    }
}

/// A packet socket with rings as a wire. Peers are hardware addresses. Every wire on the same
/// interface and EtherType receives every frame, so protocols must demultiplex by themselves.
pub struct EtherWire {
    socket: OwnedFd,
    interface: Interface,
    config: EtherWireConfig,
    /// Reads the length of a packet in a frame of the minimum length, which may be padded.
    packet_len: Option<PacketLen>,
    send_ring: SendRing,
    /// Shared with receivers; at most one thread receives at a time.
    receive_ring: Arc<Mutex<ReceiveRing>>,
    /// Frames dropped so far because no slot was free.
    drops: AtomicU64,
    /// Groups it is in.
    groups: Vec<[u8; 6]>,
}

impl EtherWire {
    /// Opens a socket with its rings on `interface`.
    ///
    /// # Errors
    ///
    /// `PermissionDenied`, with the remedy, without CAP_NET_RAW.
    pub fn open(interface: Interface, config: &EtherWireConfig) -> io::Result<EtherWire> {
        let config = config.within(&interface);
        let shape = config.ring_sizes();
        let received = config.encapsulation.received_type(config.ethertype);
        let opened = sys::open_rings(interface.index, received, &shape, config.bypass);
        let (socket, receive_ring, send_ring) = opened.map_err(|error| open_error(&error))?;
        Ok(EtherWire::of(
            socket,
            interface,
            config,
            (receive_ring, send_ring),
        ))
    }

    /// A wire over a packet socket that [`crate::packet::open`] has opened, perhaps in another process, on
    /// `interface` for frames of the same EtherType.
    ///
    /// # Errors
    ///
    /// When the socket takes no rings.
    pub fn over(
        socket: OwnedFd,
        interface: Interface,
        config: &EtherWireConfig,
    ) -> io::Result<EtherWire> {
        let config = config.within(&interface);
        rustix::io::ioctl_fionbio(&socket, true)?;
        let added = sys::add_rings(socket.as_fd(), &config.ring_sizes(), config.bypass);
        let rings = added.map_err(|error| open_error(&error))?;
        Ok(EtherWire::of(socket, interface, config, rings))
    }

    fn of(
        socket: OwnedFd,
        interface: Interface,
        config: EtherWireConfig,
        (receive_ring, send_ring): (ReceiveRing, SendRing),
    ) -> EtherWire {
        enlarge_send_buffer(socket.as_fd());
        EtherWire {
            socket,
            interface,
            config,
            packet_len: None,
            send_ring,
            receive_ring: Arc::new(Mutex::new(receive_ring)),
            drops: AtomicU64::new(0),
            groups: Vec::new(),
        }
    }

    /// Its hardware address.
    pub fn address(&self) -> Address {
        Address::Ether(self.interface.hardware)
    }

    /// The interface it is on.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    fn reading(&self) -> Reading {
        Reading {
            encapsulation: self.config.encapsulation,
            ethertype: self.config.ethertype,
            packet_len: self.packet_len,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.send_ring.flush(self.socket.as_fd()) {
            // The frames stay in the ring, and the next call sends them.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // The device's queue is full: the frames are lost, as at a full queue of the path.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            other => other,
        }
    }
}

/// Requests a send buffer as large as the send ring.
fn enlarge_send_buffer(socket: BorrowedFd<'_>) {
    // Without CAP_NET_ADMIN the kernel caps it, and the smaller buffer must do.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(socket, SEND_RING_LEN);
}

/// The kernel's error with its remedy.
fn open_error(error: &io::Error) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "Ethernet frames need the right to packet sockets (CAP_NET_RAW); run it as root, give \
             the program the capability with setcap cap_net_raw+ep, or run it in a host of towpath \
             testbed"
                .to_owned()
        }
        _ => format!("cannot open a packet socket with rings: {error}"),
    };
    io::Error::new(error.kind(), text)
}

impl Wire for EtherWire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: self.config.packet_max,
            segments_max: SEGMENTS_MAX,
            batch_bytes_max: usize::MAX,
            receive_len: (64 << 10).max(self.config.packet_max),
        }
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let Address::Ether(to) = wire::only_local(path)? else {
            let text = "an Ethernet wire needs a hardware address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let segment_size = segment_size.clamp(1, total.max(1));
        if segment_size > self.config.packet_max {
            return Err(too_long(segment_size, self.config.packet_max));
        }
        if !self.send_ring.has_room(total.div_ceil(segment_size)) {
            self.flush()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let EtherWireConfig {
            ethertype,
            encapsulation,
            ..
        } = self.config;
        let mut header = [0; HEADER_MAX];
        let header = &mut header[..encapsulation.header_len()];
        header[..6].copy_from_slice(&to);
        header[6..12].copy_from_slice(&self.interface.hardware);
        let mut rest = SliceReader { slices, at: 0 };
        let mut left = total;
        while left > 0 {
            let len = segment_size.min(left);
            encapsulation.emit(ethertype, len, header);
            self.send_ring.push(|slot| {
                let end = header.len() + len;
                slot[..header.len()].copy_from_slice(header);
                rest.copy_to(&mut slot[header.len()..end]);
                end
            });
            left -= len;
        }
        self.flush()
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
        if self.send_ring.has_unsent() {
            self.flush()?;
        }
        let Ok(mut receive_ring) = self.receive_ring.try_lock() else {
            // A receiver has the lock and will deliver the frames.
            return Err(io::ErrorKind::WouldBlock.into());
        };
        take_batch(&mut receive_ring, self.reading(), buffer)
    }

    // Nothing on an Ethernet says that a frame did not arrive.
    fn poll_path_error(&mut self) -> Option<PathReport> {
        None
    }

    // Frames are not fragmented.
    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}

    fn path_mtu(&mut self, _: engine::Path) -> usize {
        self.capabilities().packet_max
    }

    fn unanswerable(&self) -> u64 {
        0
    }

    // The kernel forgets what it has said.
    fn receive_drops(&self) -> Option<u64> {
        let more = sys::drops(self.socket.as_fd()).ok()?;
        Some(self.drops.fetch_add(more, Ordering::Relaxed) + more)
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        self.packet_len = Some(packet_len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    // Buffered frames stay in the ring, where the descriptor shows them.
    fn has_buffered(&self) -> bool {
        false
    }

    fn may_wait(&mut self) -> bool {
        true
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        let group = group_address(group)?;
        if self.groups.contains(&group) {
            return Err(group_error(io::ErrorKind::AlreadyExists, group));
        }
        if self.groups.len() >= GROUPS_MAX {
            let text = format!("a wire joins {GROUPS_MAX} groups at most; use another wire");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        sys::set_member(self.socket.as_fd(), self.interface.index, group, true)?;
        self.groups.push(group);
        Ok(())
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        let group = group_address(group)?;
        let at = self.groups.iter().position(|known| *known == group);
        let at = at.ok_or_else(|| group_error(io::ErrorKind::NotFound, group))?;
        self.groups.swap_remove(at);
        sys::set_member(self.socket.as_fd(), self.interface.index, group, false)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(EtherReceiver {
            socket: self.socket.try_clone().ok()?,
            reading: self.reading(),
            receive_ring: Arc::clone(&self.receive_ring),
        }))
    }
}

fn group_address(group: Address) -> io::Result<[u8; 6]> {
    match group {
        // The lowest bit of the first octet marks multicast addresses.
        Address::Ether(group) if group[0] & 1 == 1 => Ok(group),
        _ => {
            let text = "a group of an Ethernet wire is a hardware address whose first octet is \
                        odd, such as 01:00:5e:01:02:03";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

fn group_error(kind: io::ErrorKind, group: [u8; 6]) -> io::Error {
    let [a, b, c, d, e, f] = group;
    let group = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    let text = match kind {
        io::ErrorKind::NotFound => format!("the wire is in no group {group}; it has not joined it"),
        _ => format!("the wire is in the group {group} already"),
    };
    io::Error::new(kind, text)
}

fn too_long(len: usize, most: usize) -> io::Error {
    let text = format!(
        "a packet of {len} octets is longer than {most}, the longest of this interface; send \
         shorter packets or raise the interface's MTU"
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Reads octets from several slices.
struct SliceReader<'a> {
    slices: &'a [IoSlice<'a>],
    /// Octets of the first slice already read.
    at: usize,
}

impl SliceReader<'_> {
    fn copy_to(&mut self, mut room: &mut [u8]) {
        while let (Some(first), false) = (self.slices.first(), room.is_empty()) {
            let rest = &first[self.at..];
            let len = rest.len().min(room.len());
            let (now, later) = room.split_at_mut(len);
            now.copy_from_slice(&rest[..len]);
            room = later;
            self.at += len;
            if self.at == first.len() {
                self.slices = &self.slices[1..];
                self.at = 0;
            }
        }
    }
}

/// Moves the next packet into `buffer`, and the packets behind it of the same sender and length. A
/// shorter packet is the last of an arrival.
fn take_batch(
    receive_ring: &mut ReceiveRing,
    reading: Reading,
    buffer: &mut [u8],
) -> io::Result<Arrival> {
    let mut arrival: Option<Arrival> = None;
    while let Some(frame) = receive_ring.front() {
        if let Some((from, packet)) = reading.parse(frame) {
            let at = arrival.map_or(0, |first| first.len);
            let fits = at + packet.len() <= buffer.len();
            let same_batch = arrival.is_none_or(|first| {
                first.path.remote == from
                    && packet.len() <= first.segment_size
                    && first.len % first.segment_size == 0
            });
            if !fits || !same_batch {
                if arrival.is_some() {
                    break;
                }
            } else {
                buffer[at..at + packet.len()].copy_from_slice(packet);
                let segment_size = arrival.map_or(packet.len(), |first| first.segment_size);
                arrival = Some(Arrival {
                    path: Path::to(from),
                    ecn: Ecn::NotEct,
                    len: at + packet.len(),
                    segment_size,
                });
            }
        }
        receive_ring.release();
    }
    arrival.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

/// Waits on the same socket.
struct EtherReceiver {
    socket: OwnedFd,
    reading: Reading,
    receive_ring: Arc<Mutex<ReceiveRing>>,
}

impl Receiver for EtherReceiver {
    fn max_wait(&self) -> Duration {
        MAX_WAIT
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let mut receive_ring: MutexGuard<'_, ReceiveRing> = self
            .receive_ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match take_batch(&mut receive_ring, self.reading, buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(MAX_WAIT.subsec_nanos()),
        };
        // A signal only shortens the wait.
        let _ = poll(&mut ready, Some(&limit));
        take_batch(&mut receive_ring, self.reading, buffer)
    }

    fn interrupt(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn hint_busy_poll(&self) {}

    fn is_interruptible(&self) -> bool {
        false
    }
}

impl fmt::Debug for EtherWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtherWire")
            .field("interface", &self.interface)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_reader_crosses_slice_boundaries() {
        let (a, b) = ([1; 3], [2; 4]);
        let slices = [IoSlice::new(&a), IoSlice::new(&b)];
        let mut reader = SliceReader {
            slices: &slices,
            at: 0,
        };
        let mut room = [0; 5];
        reader.copy_to(&mut room);
        assert_eq!(room, [1, 1, 1, 2, 2]);
        reader.copy_to(&mut room[..2]);
        assert_eq!(room[..2], [2, 2]);
    }
}
