//! udp-nochecksum: like `udp`, but without a UDP checksum (SO_NO_CHECK).
//!
//! IPv4 only: UDP over IPv6 must have a checksum (RFC 8200 s. 8.1). The loopback never computes
//! checksums, so there only the saved set-up of the offload shows.

use crate::contract::{Circuit, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::datagram::{AddressFamily, DatagramListener, DatagramSocket, SocketKind};
use crate::options::Options;
use crate::plain_circuit::PlainCircuit;
use crate::transport::udp;
use socket2::{Protocol, Socket};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// The transport.
#[derive(Debug)]
pub struct UdpNochecksum;

static KIND: SocketKind = SocketKind {
    family: AddressFamily::Internet(Protocol::UDP),
    connected: false,
    configure: disable_checksum,
};

impl Transport for UdpNochecksum {
    fn name(&self) -> &'static str {
        "udp-nochecksum"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP without checksum, one sendto a message"
    }

    fn class(&self) -> Class {
        Class {
            checksum: "none",
            ..udp::CLASS
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        match options.bind_address() {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(_) => Err(Unavailable {
                reason: "UDP over IPv6 must have a checksum".into(),
                remedy: "use IPv4 for this transport".into(),
            }),
        }
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        DatagramListener::bind(&KIND, options, nochecksum_circuit)
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        nochecksum_circuit(
            DatagramSocket::connect(&KIND, rendezvous, index, options)?,
            options,
        )
    }
}

fn disable_checksum(socket: &Socket) -> io::Result<()> {
    wire_udp::sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
}

fn nochecksum_circuit(port: DatagramSocket, _options: &Options) -> io::Result<Box<dyn Circuit>> {
    let set = wire_udp::sys::option(port.inner.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK)?;
    let checksum: &[_] = if set != 0 {
        &[("checksum", "none")]
    } else {
        &[("checksum", "Internet, 16 bit")]
    };
    Ok(Box::new(PlainCircuit::new(port, checksum)))
}
