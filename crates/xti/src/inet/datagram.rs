//! Datagrams of the kernel's UDP: one system call each.

use super::options::{SocketOptions, of_marks, with_options};
use super::{Setup, SocketAddress};
use crate::datagrams::{DatagramCarrier, DatagramHeaders, Found, INTERNET_ADDRESS_MAX};
use crate::options::OPTIONS_MAX;
use crate::tpi::{Primitive, TransportOption};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Octets of the longest datagram: 65,535 less the headers of IPv4 and UDP.
pub(crate) const DATAGRAM_MAX: usize = 65_507;

/// Any address of IPv4, which a socket gets unless its user names another.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// A UDP socket, once it is bound.
pub(crate) struct KernelUdp {
    setup: Setup,
    socket: Option<Arc<Socket>>,
    options: SocketOptions,
    /// What came with datagrams is asked for.
    reports_options: bool,
    sends: u64,
    receives: u64,
}

impl KernelUdp {
    /// Its socket gets `setup`.
    pub(crate) fn new(setup: Setup) -> KernelUdp {
        KernelUdp {
            setup,
            socket: None,
            options: SocketOptions::udp(),
            reports_options: false,
            sends: 0,
            receives: 0,
        }
    }

    /// A socket with the setup, and without the options of the user.
    fn plain_socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        (self.setup)(&socket)?;
        Ok(socket)
    }
}

impl DatagramCarrier for KernelUdp {
    fn name(&self) -> &'static str {
        "inet-udp"
    }

    fn address_max(&self) -> i32 {
        INTERNET_ADDRESS_MAX
    }

    fn datagram_max(&self) -> usize {
        DATAGRAM_MAX
    }

    fn options_max(&self) -> i32 {
        OPTIONS_MAX as i32
    }

    fn bind(&mut self, address: Option<SocketAddress>) -> io::Result<SocketAddress> {
        let address = address.map_or(Ok(ANY), SocketAddress::internet)?;
        let socket = self.plain_socket(address)?;
        self.options.apply(&socket)?;
        socket.bind(&SockAddr::from(address))?;
        let bound = socket.local_addr()?.as_socket();
        self.socket = Some(Arc::new(socket));
        if self.reports_options {
            self.report_options();
        }
        let bound = bound.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(bound.into())
    }

    fn unbind(&mut self) {
        self.socket = None;
    }

    fn socket(&self) -> Option<Arc<Socket>> {
        self.socket.clone()
    }

    fn socket_tells_room(&self) -> bool {
        true
    }

    fn batch_max(&self, _octets: usize) -> usize {
        1
    }

    fn send(
        &mut self,
        destination: SocketAddress,
        datagrams: &[&[u8]],
        options: &mut [TransportOption],
    ) -> io::Result<()> {
        let destination = destination.internet()?;
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.sends += datagrams.len() as u64;
        let send = || {
            datagrams.iter().try_for_each(|datagram| {
                sendto(socket, datagram, flags, &destination)?;
                Ok(())
            })
        };
        match options {
            [] => send(),
            options => with_options(socket, options, send),
        }
    }

    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders> {
        None
    }

    fn report_options(&mut self) {
        self.reports_options = true;
        if let Some(socket) = &self.socket {
            wire_udp::sys::report_marks(socket.as_fd());
        }
    }

    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        self.receives += 1;
        if self.reports_options {
            let (received, marks) = wire_udp::sys::receive_with_marks(socket.as_fd(), room)?;
            found.push(Found {
                source: received.from.into(),
                range: 0..received.len,
                options: of_marks(marks),
            });
            return Ok(received.len);
        }
        let (len, _, from) = recvfrom(socket, room, RecvFlags::DONTWAIT)?;
        if let Some(source) = from.and_then(internet_address) {
            found.push(Found {
                source: source.into(),
                range: 0..len,
                options: Vec::new(),
            });
        }
        Ok(len)
    }

    fn system_calls(&self) -> (u64, u64) {
        (self.sends, self.receives)
    }

    fn malformed(&self) -> u64 {
        0
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        let plain = self.plain_socket(ANY);
        let socket = self.socket.as_deref();
        self.options.answer(octets, flags, socket, plain)
    }
}

fn internet_address(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}
