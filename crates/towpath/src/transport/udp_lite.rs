//! udp-lite: UDP-Lite (RFC 3828) with a checksum over the header alone.
//!
//! Kernels may be built without it, and Linux has announced its removal.

use crate::contract::{Circuit, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::datagram::{AddressFamily, DatagramListener, DatagramSocket, SocketKind};
use crate::options::Options;
use crate::plain_circuit::PlainCircuit;
use crate::transport::udp;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The transport.
#[derive(Debug)]
pub struct UdpLite;

static KIND: SocketKind = SocketKind {
    family: AddressFamily::Internet(Protocol::UDPLITE),
    connected: false,
    configure: set_checksum_coverage,
};

impl Transport for UdpLite {
    fn name(&self) -> &'static str {
        "udp-lite"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP-Lite, checksum over the header alone, one sendto a message"
    }

    fn class(&self) -> Class {
        Class {
            checksum: "Internet, 16 bit, over the header",
            ..udp::CLASS
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let domain = Domain::for_address(SocketAddr::new(options.bind_address(), 0));
        let probe = Socket::new(domain, Type::DGRAM, Some(Protocol::UDPLITE));
        probe
            .and_then(|socket| set_checksum_coverage(&socket))
            .map_err(|error| Unavailable {
                reason: format!("this kernel has no UDP-Lite: {error}"),
                remedy: "none on this kernel; udp-nochecksum is the nearest".into(),
            })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        DatagramListener::bind(&KIND, options, lite_circuit)
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        lite_circuit(
            DatagramSocket::connect(&KIND, rendezvous, index, options)?,
            options,
        )
    }
}

/// Checksum coverage: the 8 octets of the header (RFC 3828 s. 3.1).
const COVERAGE: i32 = 8;
/// Socket options of linux/udp.h, missing in the C library's headers.
const UDPLITE_SEND_CSCOV: i32 = 10;
const UDPLITE_RECV_CSCOV: i32 = 11;

fn set_checksum_coverage(socket: &Socket) -> io::Result<()> {
    for option in [UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV] {
        wire_udp::sys::set_option(socket.as_fd(), libc::IPPROTO_UDPLITE, option, COVERAGE)?;
    }
    Ok(())
}

fn lite_circuit(port: DatagramSocket, _options: &Options) -> io::Result<Box<dyn Circuit>> {
    let checksum = &[("checksum", "Internet, 16 bit, over 8 octets")];
    Ok(Box::new(PlainCircuit::new(port, checksum)))
}
