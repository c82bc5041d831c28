//! udp-lite: UDP-Lite (RFC 3828), whose checksum guards the header alone.
//!
//! Kernels may be built without it, and Linux has announced its removal.

use crate::contract::{Circuit, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::datagram::{Flavour, Listening, PlainCircuit, Port, Space};
use crate::options::Options;
use crate::transport::udp;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The transport.
#[derive(Debug)]
pub struct UdpLite;

static FLAVOUR: Flavour = Flavour {
    space: Space::Internet(Protocol::UDPLITE),
    connected: false,
    prepare,
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
            .and_then(|socket| prepare(&socket))
            .map_err(|error| Unavailable {
                reason: format!("this kernel has no UDP-Lite: {error}"),
                remedy: "none on this kernel; udp-nochecksum is the nearest".into(),
            })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        Listening::bind(&FLAVOUR, options, dress)
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        dress(
            Port::connect(&FLAVOUR, rendezvous, index, options)?,
            options,
        )
    }
}

/// Octets under the checksum: the header's (RFC 3828, 3.1).
const COVERAGE: i32 = 8;
/// Socket options of linux/udp.h, which the C library's headers leave out.
const UDPLITE_SEND_CSCOV: i32 = 10;
const UDPLITE_RECV_CSCOV: i32 = 11;

fn prepare(socket: &Socket) -> io::Result<()> {
    for option in [UDPLITE_SEND_CSCOV, UDPLITE_RECV_CSCOV] {
        wire_udp::sys::set_option(socket.as_fd(), libc::IPPROTO_UDPLITE, option, COVERAGE)?;
    }
    Ok(())
}

fn dress(port: Port, _options: &Options) -> io::Result<Box<dyn Circuit>> {
    let checksum = &[("checksum", "Internet, 16 bit, over 8 octets")];
    Ok(Box::new(PlainCircuit::new(port, checksum)))
}
