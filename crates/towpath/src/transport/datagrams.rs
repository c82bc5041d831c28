//! The kernel's datagram sockets, one call a message: transports that differ in the kind of socket.

use crate::contract::{CircuitResult, Class, Listener, Reach, Rendezvous, Transport, Unavailable};
use crate::datagram::{
    AddressFamily, CircuitFactory, DatagramListener, DatagramSocket, SocketKind, configure_nothing,
};
use crate::options::Options;
use crate::plain_circuit::{PlainCircuit, plain_circuit};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// A transport of datagram sockets.
#[derive(Debug)]
pub struct DatagramTransport {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) class: Class,
    pub(super) kind: SocketKind,
    pub(super) available: fn(&Options) -> Result<(), Unavailable>,
    pub(super) make_circuit: CircuitFactory,
}

/// The class of plain UDP.
pub(crate) const UDP_CLASS: Class = Class {
    reliable: false,
    ordered: false,
    duplicates: true,
    encrypted: false,
    stream: false,
    kernel: true,
    connectionless: true,
    connects: true,
    flow_control: false,
    half_close: false,
    calls: false,
    reach: Reach::Network,
    checksum: "Internet, 16 bit",
    congestion: "",
    offload: "none",
};

/// The class of datagrams within a host.
pub(crate) const UNIX_CLASS: Class = Class {
    reliable: true,
    ordered: true,
    duplicates: false,
    flow_control: true,
    reach: Reach::Host,
    checksum: "none: memory",
    ..UDP_CLASS
};

/// udp: one sendto a message.
pub static UDP: DatagramTransport = DatagramTransport {
    name: "udp",
    summary: "kernel UDP, one sendto a message",
    class: UDP_CLASS,
    kind: SocketKind {
        family: AddressFamily::Internet(Protocol::UDP),
        connected: false,
        configure: configure_nothing,
    },
    available: always,
    make_circuit: plain_circuit,
};

/// udp-connected: connected sockets. The kernel looks up the route and the peer once instead of on every call.
pub static UDP_CONNECTED: DatagramTransport = DatagramTransport {
    name: "udp-connected",
    summary: "kernel UDP on connected sockets, one send a message",
    kind: SocketKind {
        connected: true,
        ..UDP.kind
    },
    ..UDP
};

/// udp-nochecksum: without a UDP checksum (SO_NO_CHECK). IPv4 only: UDP over IPv6 must have a checksum (RFC 8200 s. 8.1). The
/// loopback never computes checksums, so there only the saved set-up of the offload shows.
pub static UDP_NOCHECKSUM: DatagramTransport = DatagramTransport {
    name: "udp-nochecksum",
    summary: "kernel UDP without checksum, one sendto a message",
    class: Class {
        checksum: "none",
        ..UDP_CLASS
    },
    kind: SocketKind {
        configure: disable_checksum,
        ..UDP.kind
    },
    available: nochecksum_available,
    make_circuit: nochecksum_circuit,
};

/// udp-lite: UDP-Lite (RFC 3828) with a checksum over the header alone. Kernels may be built without it, and Linux has announced
/// its removal.
pub static UDP_LITE: DatagramTransport = DatagramTransport {
    name: "udp-lite",
    summary: "kernel UDP-Lite, checksum over the header alone, one sendto a message",
    class: Class {
        checksum: "Internet, 16 bit, over the header",
        ..UDP_CLASS
    },
    kind: SocketKind {
        family: AddressFamily::Internet(Protocol::UDPLITE),
        configure: set_checksum_coverage,
        ..UDP.kind
    },
    available: lite_available,
    make_circuit: lite_circuit,
};

/// unix-dgram: datagrams between Unix sockets.
///
/// The kernel queues at most `net.unix.max_dgram_qlen` messages for a receiver that is not connected to the sender, then blocks
/// the sender; once both ends are connected to each other, the sender's buffer is the limit.
pub static UNIX_DGRAM: DatagramTransport = DatagramTransport {
    name: "unix-dgram",
    summary: "local datagram sockets, one send a message",
    class: UNIX_CLASS,
    kind: SocketKind {
        family: AddressFamily::Unix,
        ..UDP_CONNECTED.kind
    },
    ..UDP
};

impl Transport for DatagramTransport {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        self.class
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        (self.available)(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        DatagramListener::bind(self.kind, options, self.make_circuit)
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let socket = DatagramSocket::connect(&self.kind, rendezvous, index, options)?;
        (self.make_circuit)(socket, options)
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn always(_options: &Options) -> Result<(), Unavailable> {
    Ok(())
}

fn nochecksum_available(options: &Options) -> Result<(), Unavailable> {
    match options.bind_address() {
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(_) => Err(Unavailable {
            reason: "UDP over IPv6 must have a checksum".into(),
            remedy: "use IPv4 for this transport".into(),
        }),
    }
}

fn disable_checksum(socket: &Socket) -> io::Result<()> {
    wire_udp::sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
}

fn nochecksum_circuit(port: DatagramSocket, _options: &Options) -> CircuitResult {
    let set = wire_udp::sys::option(port.inner.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK)?;
    let checksum: &[_] = if set != 0 {
        &[("checksum", "none")]
    } else {
        &[("checksum", "Internet, 16 bit")]
    };
    Ok(Box::new(PlainCircuit::new(port, checksum)))
}

fn lite_available(options: &Options) -> Result<(), Unavailable> {
    let domain = Domain::for_address(SocketAddr::new(options.bind_address(), 0));
    let probe = Socket::new(domain, Type::DGRAM, Some(Protocol::UDPLITE));
    probe
        .and_then(|socket| set_checksum_coverage(&socket))
        .map_err(|error| Unavailable {
            reason: format!("this kernel has no UDP-Lite: {error}"),
            remedy: "none on this kernel; udp-nochecksum is the nearest".into(),
        })
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

fn lite_circuit(port: DatagramSocket, _options: &Options) -> CircuitResult {
    let checksum = &[("checksum", "Internet, 16 bit, over 8 octets")];
    Ok(Box::new(PlainCircuit::new(port, checksum)))
}
