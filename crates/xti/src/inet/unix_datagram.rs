//! Datagrams of this host: the kernel's sockets of AF_UNIX, one system call each. None is lost: a receiver whose queue
//! is full refuses more, and a sender looks again soon, as poll(2) says nothing of other sockets' queues.

use super::options::SocketOptions;
use super::{Setup, SocketAddress, UNIX_ADDRESS_LEN, UnixName};
use crate::datagrams::{DatagramCarrier, DatagramHeaders, Found};
use crate::options::OPTIONS_MAX;
use crate::tpi::{Primitive, TransportOption};
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, recvfrom, sendto};
use socket2::{Domain, Socket, Type};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Octets of the longest datagram: those of one primitive.
const DATAGRAM_MAX: usize = super::TIDU;

/// A socket of this host, once it is bound.
pub(crate) struct UnixDatagrams {
    setup: Setup,
    socket: Option<Arc<Socket>>,
    options: SocketOptions,
    sends: u64,
    receives: u64,
}

impl UnixDatagrams {
    /// Its socket gets `setup`.
    pub(crate) fn new(setup: Setup) -> UnixDatagrams {
        UnixDatagrams {
            setup,
            socket: None,
            options: SocketOptions::unix(),
            sends: 0,
            receives: 0,
        }
    }

    /// A socket with the setup, and without the options of the user.
    fn plain_socket(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
        (self.setup)(&socket)?;
        Ok(socket)
    }
}

impl DatagramCarrier for UnixDatagrams {
    fn name(&self) -> &'static str {
        "inet-unix"
    }

    fn address_max(&self) -> i32 {
        UNIX_ADDRESS_LEN
    }

    fn datagram_max(&self) -> usize {
        DATAGRAM_MAX
    }

    fn options_max(&self) -> i32 {
        OPTIONS_MAX as i32
    }

    /// Without a name it gets an abstract one of the kernel, so that it can be answered.
    fn bind(&mut self, address: Option<SocketAddress>) -> io::Result<SocketAddress> {
        let address = address.unwrap_or(SocketAddress::Unix(UnixName::NONE));
        if address.internet().is_ok() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = self.plain_socket()?;
        self.options.apply(&socket)?;
        socket.bind(&address.for_kernel()?)?;
        let bound = SocketAddress::of_kernel(&socket.local_addr()?);
        self.socket = Some(Arc::new(socket));
        bound.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    fn unbind(&mut self) {
        self.socket = None;
    }

    fn socket(&self) -> Option<Arc<Socket>> {
        self.socket.clone()
    }

    fn socket_tells_room(&self) -> bool {
        false
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
        if !options.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let SocketAddress::Unix(name) = destination else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let to = match name.octets() {
            [0, name @ ..] => SocketAddrUnix::new_abstract_name(name),
            path => SocketAddrUnix::new(OsStr::from_bytes(path)),
        }?;
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        for datagram in datagrams {
            self.sends += 1;
            sendto(socket, datagram, flags, &to)?;
        }
        Ok(())
    }

    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders> {
        None
    }

    fn report_options(&mut self) {}

    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        self.receives += 1;
        let (len, _, from) = recvfrom(socket, room, RecvFlags::DONTWAIT)?;
        found.push(Found {
            source: SocketAddress::Unix(from.map_or(UnixName::NONE, name_of)),
            range: 0..len,
            options: Vec::new(),
        });
        Ok(len)
    }

    fn system_calls(&self) -> (u64, u64) {
        (self.sends, self.receives)
    }

    fn malformed(&self) -> u64 {
        0
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        let plain = self.plain_socket();
        let socket = self.socket.as_deref();
        self.options.answer(octets, flags, socket, plain)
    }
}

/// The name that a datagram came from; none for a socket without one.
fn name_of(from: SocketAddrAny) -> UnixName {
    let Ok(from) = SocketAddrUnix::try_from(from) else {
        return UnixName::NONE;
    };
    let name = match (from.abstract_name(), from.path_bytes()) {
        (Some(name), _) => UnixName::new(&[&[0], name].concat()),
        (_, Some(path)) => UnixName::new(path),
        _ => None,
    };
    name.unwrap_or(UnixName::NONE)
}
