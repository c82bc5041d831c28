//! Transports on a connection of the kernel's TCP that send in another way.

use crate::contract::{CircuitResult, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::options::Options;
use crate::stream::StreamCircuit;
use crate::transport::tcp::{self, TcpCircuitListener};
use socket2::Protocol;
use std::io;
use std::time::Instant;

/// A transport whose circuits are made from those of `tcp`.
#[derive(Debug)]
pub struct WrappedTcp {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Its class differs from that of `tcp` in the offload.
    pub(super) offload: &'static str,
    /// Whether this host has what it needs besides TCP.
    pub(super) available: fn() -> Result<(), Unavailable>,
    pub(super) wrap: Wrap,
}

/// Makes the circuit of a transport from a connected socket.
pub(super) type Wrap = fn(StreamCircuit) -> CircuitResult;

impl Transport for WrappedTcp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        Class {
            offload: self.offload,
            ..tcp::CLASS
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        (self.available)()?;
        tcp::congestion_available(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let inner = TcpCircuitListener::bind(options, Protocol::TCP)?;
        let wrap = self.wrap;
        Ok(Box::new(WrappingListener { inner, wrap }))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        (self.wrap)(tcp::connect(rendezvous, options, Protocol::TCP)?)
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

/// A TCP listener whose circuits are wrapped.
struct WrappingListener {
    inner: TcpCircuitListener,
    wrap: Wrap,
}

impl Listener for WrappingListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        self.inner.rendezvous()
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        (self.wrap)(self.inner.accept_circuit(deadline)?)
    }
}
