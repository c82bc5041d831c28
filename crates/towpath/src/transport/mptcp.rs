//! mptcp: the kernel's Multipath TCP (RFC 8684), one send per message.
//!
//! The kernel joins a subflow to each address that the peer announces (RFC 8684 s. 3.2), which must be
//! one that the peer listens at: between ends with several addresses a listener is at all of them, and
//! stays open as long as its circuits.
//!
//! Where the peer or a middlebox does not support it, the kernel silently falls back to plain TCP
//! (RFC 8684 s. 3.7). A circuit that fell back is an error here, as it would measure TCP.

use crate::contract::{
    CircuitResult, Class, Interest, Listener, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket;
use crate::stream::{SocketReadback, StreamCircuit};
use crate::sys;
use crate::transport::tcp::{self, TcpCircuitListener};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct Mptcp;

impl Transport for Mptcp {
    fn name(&self) -> &'static str {
        "mptcp"
    }

    fn summary(&self) -> &'static str {
        "kernel Multipath TCP, one send a message; a fall-back to TCP is an error"
    }

    fn class(&self) -> Class {
        tcp::CLASS
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
        probe.map_err(|error| Unavailable {
            reason: format!("this kernel gives no Multipath TCP socket: {error}"),
            remedy: "set net.mptcp.enabled=1 with sysctl, on a kernel built with CONFIG_MPTCP"
                .into(),
        })?;
        tcp::congestion_available(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let listening = TcpCircuitListener::bind(options, Protocol::MPTCP)?;
        // Unlike with TCP, a blocking accept ignores SO_RCVTIMEO.
        listening.socket.set_nonblocking(true)?;
        Ok(Box::new(MptcpListener(listening)))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let end = tcp::connect(rendezvous, options, Protocol::MPTCP)?;
        Ok(Box::new(require_mptcp(end)?))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

#[derive(Debug)]
struct MptcpListener(TcpCircuitListener);

impl Listener for MptcpListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        self.0.rendezvous()
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        socket::wait(self.0.socket.as_fd(), Interest::Read, deadline)?;
        let mut end = require_mptcp(self.0.accept_circuit(deadline)?)?;
        if self.0.has_several_paths() {
            end.keep_listening(self.0.socket.try_clone()?);
        }
        Ok(Box::new(end))
    }
}

/// Fails if the connection fell back to plain TCP.
fn require_mptcp(end: StreamCircuit) -> io::Result<StreamCircuit> {
    if fell_back(&end.socket) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the connection fell back to plain TCP: the peer or the path does not speak MPTCP; \
             race tcp instead",
        ));
    }
    Ok(end.with_readback(SocketReadback {
        effective,
        counts,
        connection_info: tcp::connection_info,
    }))
}

fn fell_back(socket: &Socket) -> bool {
    // For a peer without MPTCP the listener returns a plain TCP socket.
    let plain = !matches!(socket.protocol(), Ok(Some(Protocol::MPTCP)));
    plain || sys::mptcp_info(socket.as_fd()).is_ok_and(|info| info.fell_back())
}

fn effective(socket: &Socket, into: &mut BTreeMap<String, String>) {
    tcp::effective(socket, into);
    let protocol = if fell_back(socket) { "tcp" } else { "mptcp" };
    into.insert("protocol".into(), protocol.into());
}

fn counts(socket: &Socket, into: &mut BTreeMap<String, u64>) {
    tcp::counts(socket, into);
    into.insert("fell_back".into(), u64::from(fell_back(socket)));
    if let Ok(info) = sys::mptcp_info(socket.as_fd()) {
        // The kernel does not count the first subflow.
        into.insert("subflows".into(), u64::from(info.subflows) + 1);
    }
}
