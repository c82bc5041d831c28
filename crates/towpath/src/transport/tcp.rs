//! tcp: the kernel's TCP, one system call per message.

use crate::connection_info::NOT_READABLE;
use crate::contract::{
    BLOCKING_TIMEOUT, CircuitResult, Class, ConnectionInfo, Listener, NoConnectionInfo, OptionHelp,
    Reach, Rendezvous, Transport, Unavailable, check_names,
};
use crate::options::{self, Options};
use crate::source_filter;
use crate::stream::{Acknowledgement, SocketReadback, StreamCircuit};
use crate::{socket, sys};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct Tcp;

const QUICKACK: &str = "quickack";

const RCVLOWAT: &str = "rcvlowat";

/// Longest SO_RCVLOWAT: the kernel bounds it by half the largest receive buffer.
const RCVLOWAT_MAX: u64 = 1 << 30;

const OPTIONS: [OptionHelp; 2] = [
    OptionHelp {
        name: QUICKACK,
        values: "off|on",
        meaning: "acknowledges at once (TCP_QUICKACK), which is set again after each receive: one call more",
    },
    OptionHelp {
        name: RCVLOWAT,
        values: "COUNT",
        meaning: "octets that wake a reader (SO_RCVLOWAT); never more than it asked for",
    },
];

/// A listening TCP socket.
#[derive(Debug)]
pub(crate) struct TcpCircuitListener {
    pub(crate) socket: Socket,
    options: Options,
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "kernel TCP, one send a message"
    }

    fn class(&self) -> Class {
        CLASS
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        congestion_available(options)
    }

    fn options(&self) -> &[OptionHelp] {
        &OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        check_names(self.name(), &OPTIONS, own)?;
        options::switch(own, QUICKACK, false)?;
        rcvlowat(own).map(drop)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(TcpCircuitListener::bind(options, Protocol::TCP)?))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        Ok(Box::new(connect(rendezvous, options, Protocol::TCP)?))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

pub(crate) const CLASS: Class = Class {
    reliable: true,
    ordered: true,
    duplicates: false,
    encrypted: false,
    stream: true,
    kernel: true,
    connectionless: false,
    connects: true,
    flow_control: true,
    half_close: true,
    calls: false,
    reach: Reach::Network,
    checksum: "Internet, 16 bit",
    congestion: "as set, read back",
    offload: "segmentation and coalescing by the kernel",
};

/// Whether the kernel has the congestion control of `options`.
pub(crate) fn congestion_available(options: &Options) -> Result<(), Unavailable> {
    let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let set = probe.and_then(|socket| socket.set_tcp_congestion(options.congestion.as_bytes()));
    set.map_err(|error| Unavailable {
        reason: format!("congestion control '{}': {error}", options.congestion),
        remedy: "choose one of /proc/sys/net/ipv4/tcp_allowed_congestion_control with --congestion"
            .into(),
    })
}

fn new_socket(address: SocketAddr, options: &Options, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    set_up(&socket, options)?;
    Ok(socket)
}

/// What a socket gets before it is bound or connected.
pub(crate) fn set_up(socket: &Socket, options: &Options) -> io::Result<()> {
    socket.set_tcp_congestion(options.congestion.as_bytes())?;
    socket::set_buffers(socket, options.buffers);
    source_filter::attach_if_permitted(socket.as_fd(), options.only_from)?;
    if let Some(nodelay) = options.nodelay {
        socket.set_tcp_nodelay(nodelay)?;
    }
    Ok(())
}

fn has_several_paths(options: &Options) -> bool {
    options.local_addresses.len() > 1
}

impl TcpCircuitListener {
    /// Listens at the address of `options`; where there are several paths, MPTCP at all addresses of
    /// this host.
    pub(crate) fn bind(options: &Options, protocol: Protocol) -> io::Result<TcpCircuitListener> {
        let first = SocketAddr::new(options.bind_address(), 0);
        let address = match protocol {
            Protocol::MPTCP if has_several_paths(options) => socket::wildcard_address(&first),
            _ => first,
        };
        let socket = new_socket(address, options, protocol)?;
        TcpCircuitListener::listening(socket, address, options)
    }

    /// Listens on a socket that is set up, at a free port of `address`.
    pub(crate) fn listening(
        socket: Socket,
        address: SocketAddr,
        options: &Options,
    ) -> io::Result<TcpCircuitListener> {
        socket.bind(&SockAddr::from(address))?;
        socket::set_blocking_timeout(&socket, Some(BLOCKING_TIMEOUT))?;
        // Backlog for a connect workload in which the listener briefly falls behind.
        socket.listen(1024)?;
        Ok(TcpCircuitListener {
            socket,
            options: options.clone(),
        })
    }

    /// Whether there are several links between the ends.
    pub(crate) fn has_several_paths(&self) -> bool {
        has_several_paths(&self.options)
    }

    pub(crate) fn accept_circuit(&mut self, deadline: Instant) -> io::Result<StreamCircuit> {
        loop {
            let socket = socket::accept(&self.socket, deadline)?;
            if source_filter::accepts_source(&socket, self.options.only_from) {
                return accepted(socket, &self.options);
            }
        }
    }
}

impl Listener for TcpCircuitListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        socket::listening_address(&self.socket, &self.options)
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        Ok(Box::new(self.accept_circuit(deadline)?))
    }
}

/// Connects a socket of `protocol`.
pub(crate) fn connect(
    rendezvous: &Rendezvous,
    options: &Options,
    protocol: Protocol,
) -> io::Result<StreamCircuit> {
    connect_to(
        socket::decode_address(&rendezvous.bytes)?,
        options,
        protocol,
    )
}

/// Connects a socket of `protocol` to a listener at `address`.
pub(crate) fn connect_to(
    address: SocketAddr,
    options: &Options,
    protocol: Protocol,
) -> io::Result<StreamCircuit> {
    connect_socket(new_socket(address, options, protocol)?, address, options)
}

/// Connects a socket that is set up.
pub(crate) fn connect_socket(
    socket: Socket,
    address: SocketAddr,
    options: &Options,
) -> io::Result<StreamCircuit> {
    socket::connect(&socket, &SockAddr::from(address), options.blocking_timeout)?;
    new_circuit(socket, options)
}

/// Octets that wake a reader; None where the option is not given.
fn rcvlowat(own: &BTreeMap<String, String>) -> Result<Option<i32>, String> {
    let Some(text) = own.get(RCVLOWAT) else {
        return Ok(None);
    };
    let octets = text.parse().ok();
    let octets = octets.filter(|octets| (1..=RCVLOWAT_MAX).contains(octets));
    octets.map(|octets| Some(octets as i32)).ok_or_else(|| {
        format!("rcvlowat of tcp is '{text}', not a number of octets from 1 to {RCVLOWAT_MAX}")
    })
}

fn new_circuit(socket: Socket, options: &Options) -> io::Result<StreamCircuit> {
    if let Some(octets) = rcvlowat(&options.transport_specific).map_err(options::invalid)? {
        sys::set_rcvlowat(socket.as_fd(), octets)?;
    }
    let quickack = options::switch(&options.transport_specific, QUICKACK, false);
    let acknowledgement = match quickack.map_err(options::invalid)? {
        true => Acknowledgement::Quick,
        false => Acknowledgement::Delayed,
    };
    let circuit = StreamCircuit::new(socket, options, READBACK);
    circuit.with_acknowledgement(acknowledgement)
}

fn accepted(socket: Socket, options: &Options) -> io::Result<StreamCircuit> {
    socket.set_tcp_congestion(options.congestion.as_bytes())?;
    if let Some(nodelay) = options.nodelay {
        socket.set_tcp_nodelay(nodelay)?;
    }
    socket::set_blocking_timeout(&socket, options.blocking_timeout)?;
    new_circuit(socket, options)
}

const READBACK: SocketReadback = SocketReadback {
    effective,
    counts,
    connection_info,
};

/// State of the connection from TCP_INFO; of MPTCP's first subflow.
pub(crate) fn connection_info(socket: &Socket) -> Result<ConnectionInfo, NoConnectionInfo> {
    sys::tcp_connection_info(socket.as_fd()).map_err(|_| NOT_READABLE)
}

pub(crate) fn effective(socket: &Socket, into: &mut BTreeMap<String, String>) {
    if let Ok(name) = socket.tcp_congestion() {
        let name = String::from_utf8_lossy(&name);
        into.insert("congestion".into(), name.trim_end_matches('\0').to_owned());
    }
    if let Ok(nodelay) = socket.tcp_nodelay() {
        into.insert("nodelay".into(), nodelay.to_string());
    }
    // 1 is what every socket has.
    if let Some(octets) = sys::rcvlowat(socket.as_fd())
        .ok()
        .filter(|octets| *octets > 1)
    {
        into.insert("rcvlowat".into(), octets.to_string());
    }
    if let Ok(info) = sys::tcp_info(socket.as_fd()) {
        into.insert("segment_max".into(), info.mss.to_string());
    }
}

pub(crate) fn counts(socket: &Socket, into: &mut BTreeMap<String, u64>) {
    if let Ok(info) = sys::tcp_info(socket.as_fd()) {
        into.insert("retransmissions".into(), info.retransmissions.into());
        into.insert("packets_sent".into(), info.segments_sent.into());
        into.insert("packets_received".into(), info.segments_received.into());
        into.insert("round_trip_us".into(), info.rtt_us.into());
    }
}
