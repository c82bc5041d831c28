//! Datagrams of a driver that makes its packets itself, over raw IP: UDP (RFC 768), and a header of two ports
//! alone. The kernel knows nothing of either's ports.

mod header;

pub(crate) use header::Header;

use crate::medium::random_port;
use engine::{Address, Path};
use header::{HEADER_MAX, is_for};
use socket2::{Domain, SockFilter, SockRef, Socket, Type};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::Wire;
use wire_ip::{IpWire, PAYLOAD_MAX};
use xti::datagrams::{
    BATCH_MAX, DatagramCarrier, DatagramHeaders, Found, INTERNET_ADDRESS_MAX, no_options,
};
use xti::inet::SocketAddress;
use xti::tpi::{Primitive, TransportOption};

/// The driver of an endpoint.
pub(crate) struct IpDatagrams {
    header: Header,
    /// Where an endpoint is bound whose user names no address.
    host: IpAddr,
    /// Octets of the socket's buffers; None for those of a UDP socket.
    buffers: Option<usize>,
    bound: Option<Bound>,
    sends: u64,
    receives: u64,
    malformed: u64,
}

/// What an address has.
struct Bound {
    wire: IpWire,
    local: SocketAddr,
    socket: Arc<Socket>,
    /// Keeps the port from the kernel's own UDP.
    _holder: Option<Socket>,
}

impl IpDatagrams {
    /// A driver of packets with this header.
    pub(crate) fn new(header: Header, buffers: Option<usize>) -> IpDatagrams {
        IpDatagrams {
            header,
            host: Ipv4Addr::LOCALHOST.into(),
            buffers,
            bound: None,
            sends: 0,
            receives: 0,
            malformed: 0,
        }
    }

    /// Whether this process may open its sockets. Errors: why it may not, with the remedy.
    pub(crate) fn check(header: Header, host: IpAddr) -> io::Result<()> {
        IpWire::bind(host, header.protocol()).map(drop)
    }

    /// Takes a port: UDP's from the kernel, which then gives it to nobody else, and tells nobody that it is
    /// closed.
    fn take_port(&self, address: SocketAddr) -> io::Result<(SocketAddr, Option<Socket>)> {
        match self.header {
            Header::Ports => {
                let port = match address.port() {
                    0 => random_port(),
                    port => port,
                };
                Ok((SocketAddr::new(address.ip(), port), None))
            }
            Header::Udp => {
                let holder = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
                SockRef::from(&holder).attach_filter(&NOTHING)?;
                holder.bind(&address.into())?;
                let local = holder.local_addr()?.as_socket();
                let local = local.ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok((local, Some(holder)))
            }
        }
    }
}

/// A filter that drops everything (classic BPF: return 0).
const NOTHING: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];

/// SO_RCVBUF of a UDP socket of this system.
fn usual_buffers(address: SocketAddr) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    // The kernel reports twice what is asked for (socket(7)).
    Ok(socket.recv_buffer_size()? / 2)
}

impl DatagramCarrier for IpDatagrams {
    fn name(&self) -> &'static str {
        self.header.name()
    }

    fn address_max(&self) -> i32 {
        INTERNET_ADDRESS_MAX
    }

    fn datagram_max(&self) -> usize {
        PAYLOAD_MAX - self.header.len()
    }

    fn options_max(&self) -> i32 {
        -2
    }

    /// An address of the host, not the unspecified one: it is part of what is summed.
    fn bind(&mut self, address: Option<SocketAddress>) -> io::Result<SocketAddress> {
        let any = SocketAddr::new(self.host, 0);
        let address = address.map_or(Ok(any), SocketAddress::internet)?;
        if address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let (local, holder) = self.take_port(address)?;
        let wire = IpWire::bind(local.ip(), self.header.protocol())?;
        let own = wire.descriptor().ok_or(io::ErrorKind::NotConnected)?;
        let buffers = match self.buffers {
            Some(len) => len,
            None => usual_buffers(local)?,
        };
        wire_udp::sys::set_buffers(own, buffers);
        let program = wire_udp::packet_filter::port_filter(local);
        SockRef::from(&own).attach_filter(&program)?;
        let socket = Arc::new(Socket::from(own.try_clone_to_owned()?));
        self.bound = Some(Bound {
            wire,
            local,
            socket,
            _holder: holder,
        });
        Ok(local.into())
    }

    fn unbind(&mut self) {
        self.bound = None;
    }

    fn socket(&self) -> Option<Arc<Socket>> {
        self.bound.as_ref().map(|bound| Arc::clone(&bound.socket))
    }

    fn socket_tells_room(&self) -> bool {
        true
    }

    fn batch_max(&self, octets: usize) -> usize {
        let packet_len = self.header.len() + octets;
        let segments = self.bound.as_ref();
        let segments = segments.map(|bound| bound.wire.capabilities().segments(packet_len));
        segments.unwrap_or(1).min(BATCH_MAX)
    }

    fn send(
        &mut self,
        destination: SocketAddress,
        datagrams: &[&[u8]],
        options: &mut [TransportOption],
    ) -> io::Result<()> {
        if !options.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (bound, destination) = reachable(&mut self.bound, destination)?;
        let header_len = self.header.len();
        let mut headers = [[0; HEADER_MAX]; BATCH_MAX];
        for (header, octets) in headers.iter_mut().zip(datagrams) {
            *header = self.header.write(bound.local, destination, octets);
        }
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_MAX];
        let (pairs, _) = slices.as_chunks_mut::<2>();
        for ((pair, header), octets) in pairs.iter_mut().zip(&headers).zip(datagrams) {
            *pair = [IoSlice::new(&header[..header_len]), IoSlice::new(octets)];
        }
        self.sends += 1;
        let packet_len = header_len + datagrams.first().map_or(0, |first| first.len());
        let path = Path::to(Address::Socket(destination));
        let slices = &slices[..2 * datagrams.len()];
        bound.wire.send(path, slices, packet_len)
    }

    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders> {
        Some(self)
    }

    fn report_options(&mut self) {}

    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize> {
        let bound = self.bound.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.receives += u64::from(!bound.wire.has_buffered());
        let arrival = bound.wire.receive(room)?;
        let Address::Socket(from) = arrival.path.remote else {
            return Ok(0);
        };
        let mut start = 0;
        for packet in room[..arrival.len].chunks(arrival.segment_size.max(1)) {
            match self.header.read(packet, from.ip(), bound.local) {
                Some((port, octets)) => found.push(Found {
                    source: SocketAddr::new(from.ip(), port).into(),
                    range: start + octets.start..start + octets.end,
                    options: Vec::new(),
                }),
                // Others came before the filter was there.
                None => self.malformed += u64::from(is_for(packet, bound.local)),
            }
            start += packet.len();
        }
        Ok(arrival.len)
    }

    fn system_calls(&self) -> (u64, u64) {
        (self.sends, self.receives)
    }

    fn malformed(&self) -> u64 {
        self.malformed
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        no_options(octets, flags)
    }
}

impl DatagramHeaders for IpDatagrams {
    fn header_len(&self) -> usize {
        self.header.len()
    }

    fn write_header(
        &self,
        destination: SocketAddress,
        octets: &[u8],
        header: &mut [u8],
    ) -> io::Result<()> {
        let bound = self.bound.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let written = self
            .header
            .write(bound.local, destination.internet()?, octets);
        header.copy_from_slice(&written[..self.header.len()]);
        Ok(())
    }

    fn send_packets(&mut self, destination: SocketAddress, packets: &[&[u8]]) -> io::Result<()> {
        let (bound, destination) = reachable(&mut self.bound, destination)?;
        let mut slices = [IoSlice::new(&[]); BATCH_MAX];
        for (slice, packet) in slices.iter_mut().zip(packets) {
            *slice = IoSlice::new(packet);
        }
        self.sends += 1;
        let packet_len = packets.first().map_or(0, |first| first.len());
        let path = Path::to(Address::Socket(destination));
        bound.wire.send(path, &slices[..packets.len()], packet_len)
    }
}

/// What an endpoint is bound to, and an address that it reaches: one of its family.
fn reachable(
    bound: &mut Option<Bound>,
    destination: SocketAddress,
) -> io::Result<(&mut Bound, SocketAddr)> {
    let destination = destination.internet()?;
    let bound = bound.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    if destination.is_ipv4() != bound.local.is_ipv4() {
        return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
    }
    Ok((bound, destination))
}
