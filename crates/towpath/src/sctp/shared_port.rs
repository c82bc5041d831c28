//! One UDP port for several endpoints of a process: SCTP's port says whose a packet is (RFC 6951 section 3.1).
//!
//! Whichever endpoint's thread finds a packet hands on those of others. Each has a descriptor of its own, which is
//! readable when the socket is, or something was handed to it.

use engine::{Address, Fragmentation, PacketLen, Path};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire, no_multicast};
use wire_udp::UdpWire;

/// Octets that may wait for an endpoint, about those that its socket alone would hold. What exceeds them is lost.
const WAITING_MAX: usize = 4 << 20;

/// Arrivals that a receive hands on before it returns.
const HANDED_ON_MAX: usize = 64;

/// Where SCTP's destination port lies in a packet.
const PORT_AT: Range<usize> = 2..4;

/// The sockets of the process that are shared.
static SOCKETS: Mutex<Vec<Weak<SharedSocket>>> = Mutex::new(Vec::new());

/// A UDP socket, and what waits for its endpoints.
struct SharedSocket {
    at: SocketAddr,
    state: Mutex<SocketState>,
}

struct SocketState {
    udp: UdpWire,
    /// By their SCTP ports.
    ends: BTreeMap<u16, End>,
}

/// What waits for an endpoint.
struct End {
    arrivals: VecDeque<(Arrival, Vec<u8>)>,
    octets: usize,
    /// Readable while something waits.
    wakeup: Arc<OwnedFd>,
}

impl End {
    fn push(&mut self, arrival: Arrival, octets: &[u8]) {
        if self.octets + octets.len() > WAITING_MAX {
            return;
        }
        self.octets += octets.len();
        self.arrivals.push_back((arrival, octets.to_vec()));
        // It fails only when it is readable anyway.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    fn pop(&mut self) -> Option<(Arrival, Vec<u8>)> {
        let first = self.arrivals.pop_front()?;
        self.octets -= first.1.len();
        if self.arrivals.is_empty() {
            // It fails only when it is not readable anyway.
            let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
        }
        Some(first)
    }
}

impl SharedSocket {
    /// The one at `at`, which is opened if there is none.
    fn at(at: SocketAddr, segmentation: bool) -> io::Result<Arc<SharedSocket>> {
        let mut all = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        let known = all
            .iter()
            .filter_map(Weak::upgrade)
            .find(|known| known.at == at);
        if let Some(known) = known {
            return Ok(known);
        }
        let mut udp = UdpWire::bind(at)?;
        if !segmentation {
            udp.disable_segmentation()?;
        }
        let ends = BTreeMap::new();
        let opened = Arc::new(SharedSocket {
            at,
            state: Mutex::new(SocketState { udp, ends }),
        });
        all.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    fn lock(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketState {
    /// Whose packet this is. One for a port that nobody has goes to the endpoint with the lowest, which refuses it.
    fn owner(&self, packet: &[u8]) -> Option<u16> {
        let port = packet
            .get(PORT_AT)
            .map(|octets| u16::from_be_bytes([octets[0], octets[1]]));
        let known = port.filter(|port| self.ends.contains_key(port));
        known.or_else(|| self.ends.keys().next().copied())
    }

    /// Gives the packets of an arrival to their endpoints, those of one in a row together.
    fn hand_on(&mut self, arrival: &Arrival, octets: &[u8]) {
        let size = arrival.segment_size.max(1);
        let mut start = 0;
        while start < octets.len() {
            let owner = self.owner(&octets[start..]);
            let behind = octets[start..].chunks(size).skip(1);
            let more = behind
                .take_while(|packet| self.owner(packet) == owner)
                .count();
            let end = octets.len().min(start + (1 + more) * size);
            let run = &octets[start..end];
            let of_run = Arrival {
                len: run.len(),
                segment_size: size.min(run.len()),
                ..*arrival
            };
            if let Some(to) = owner.and_then(|port| self.ends.get_mut(&port)) {
                to.push(of_run, run);
            }
            start = end;
        }
    }

    /// Whether all packets of an arrival are for `port`.
    fn is_for(&self, port: u16, arrival: &Arrival, octets: &[u8]) -> bool {
        let mut packets = octets.chunks(arrival.segment_size.max(1));
        packets.all(|packet| self.owner(packet) == Some(port))
    }
}

/// An endpoint's part of a shared socket.
pub(super) struct PortWire {
    socket: Arc<SharedSocket>,
    port: u16,
    /// Readable when the socket is, or something waits.
    ready: OwnedFd,
    capabilities: Capabilities,
    /// The socket has that of the endpoint that sent last.
    fragmentation: Fragmentation,
}

impl PortWire {
    /// The part of SCTP's port `port` of the UDP socket at `at`.
    /// Fails with `AddrInUse` when an endpoint of the process has the port, or another process the UDP port; else
    /// those of opening a socket.
    pub(super) fn open(at: SocketAddr, port: u16, segmentation: bool) -> io::Result<PortWire> {
        let socket = SharedSocket::at(at, segmentation)?;
        let mut state = socket.lock();
        if state.ends.contains_key(&port) {
            let text = format!("an endpoint of this process has SCTP's port {port} at {at}");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
        }
        let wakeup = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let udp = state.udp.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        for watched in [udp, wakeup.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&ready, watched, data, epoll::EventFlags::IN)?;
        }
        let capabilities = state.udp.capabilities();
        let end = End {
            arrivals: VecDeque::new(),
            octets: 0,
            wakeup,
        };
        state.ends.insert(port, end);
        drop(state);
        Ok(PortWire {
            socket,
            port,
            ready,
            capabilities,
            fragmentation: Fragmentation::Usual,
        })
    }

    fn take_waiting(&self, state: &mut SocketState, buffer: &mut [u8]) -> Option<Arrival> {
        let (arrival, octets) = state.ends.get_mut(&self.port)?.pop()?;
        buffer[..octets.len()].copy_from_slice(&octets);
        Some(arrival)
    }
}

impl Drop for PortWire {
    fn drop(&mut self) {
        self.socket.lock().ends.remove(&self.port);
    }
}

impl Wire for PortWire {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let mut state = self.socket.lock();
        state.udp.set_fragmentation(self.fragmentation);
        match state.udp.send(path, slices, segment_size) {
            // Room shows at the socket alone, which others wait for too: lost, as on a path that is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
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
        let mut state = self.socket.lock();
        for _ in 0..HANDED_ON_MAX {
            if let Some(arrival) = self.take_waiting(&mut state, buffer) {
                return Ok(arrival);
            }
            let arrival = state.udp.receive(buffer)?;
            let octets = &buffer[..arrival.len.min(buffer.len())];
            if state.is_for(self.port, &arrival, octets) {
                return Ok(arrival);
            }
            state.hand_on(&arrival, octets);
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation = fragmentation;
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn has_buffered(&self) -> bool {
        let state = self.socket.lock();
        let own = state.ends.get(&self.port);
        own.is_some_and(|end| !end.arrivals.is_empty())
    }

    fn may_wait(&mut self) -> bool {
        true
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        Err(no_multicast(group))
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        Err(no_multicast(group))
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }

    engine::forward! { self.socket.lock().udp;
        fn poll_path_error(&mut self) -> Option<PathReport>;
        fn path_mtu(&mut self, path: Path) -> usize;
        fn unanswerable(&self) -> u64;
        fn receive_drops(&self) -> Option<u64>;
        fn set_packet_len(&mut self, packet_len: PacketLen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    /// A packet to SCTP's port `port`.
    fn packet(port: u16, mark: u8) -> Vec<u8> {
        let mut octets = vec![mark; 20];
        octets[PORT_AT].copy_from_slice(&port.to_be_bytes());
        octets
    }

    fn free_address() -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.local_addr().expect("bound")
    }

    fn receive(wire: &mut PortWire) -> Vec<u8> {
        let mut buffer = vec![0; wire.capabilities().receive_len];
        loop {
            match wire.receive(&mut buffer) {
                Ok(arrival) => return buffer[..arrival.len].to_vec(),
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ),
                    "{error}"
                ),
            }
        }
    }

    #[test]
    fn packets_go_to_the_endpoint_with_their_port_and_unknown_ones_to_the_lowest() {
        let at = free_address();
        let mut low = PortWire::open(at, 7, true).expect("a socket");
        let mut high = PortWire::open(at, 9, true).expect("the same");
        let taken = PortWire::open(at, 9, true).err().expect("somebody has it");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        for (port, mark) in [(9, 1), (7, 2), (8, 3), (9, 4)] {
            peer.send_to(&packet(port, mark), at).expect("it leaves");
        }
        assert_eq!(receive(&mut low), packet(7, 2));
        assert_eq!(receive(&mut low), packet(8, 3));
        assert!(high.has_buffered(), "handed on");
        assert_eq!(receive(&mut high), packet(9, 1));
        assert_eq!(receive(&mut high), packet(9, 4));
        assert!(!high.has_buffered());
    }

    #[test]
    fn packets_of_one_arrival_are_separated() {
        let at = free_address();
        let low = PortWire::open(at, 7, true).expect("a socket");
        let mut high = PortWire::open(at, 9, true).expect("the same");
        let together = [packet(9, 1), packet(9, 2), packet(7, 3), packet(9, 4)].concat();
        let arrival = Arrival {
            path: Path::to(Address::Socket(at)),
            ecn: engine::Ecn::NotEct,
            len: together.len(),
            segment_size: 20,
        };
        low.socket.lock().hand_on(&arrival, &together);
        assert_eq!(receive(&mut high), [packet(9, 1), packet(9, 2)].concat());
        assert_eq!(receive(&mut high), packet(9, 4));
        assert!(low.has_buffered());
    }

    #[test]
    fn port_is_free_again_when_its_endpoints_are_gone() {
        let at = free_address();
        let first = PortWire::open(at, 7, true).expect("a socket");
        drop(first);
        UdpSocket::bind(at).expect("a free port");
    }
}
