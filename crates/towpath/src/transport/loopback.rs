//! loop-clts, loop-cots, loop-cotsord: the loop-back providers of STREAMS systems under XTI, between two
//! processes through rings of shared memory.
//!
//! `loop-cots` has no orderly release: an empty message ends a direction, as programs over such providers
//! agree, and empty messages are refused.

use super::xti_connections::{ConnectionCircuit, accept_one};
use super::xti_datagrams::{DatagramCircuit, DatagramEnds};
use super::xti_words::{self, StreamWords};
use crate::contract::{
    Circuit, CircuitResult, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket;
use crate::transport::{datagrams, unix_stream};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use xti::{Flags, ServiceType, XtiEndpoint, loopback};

/// `loop-clts`: datagrams.
pub static CLTS: Loopback = Loopback {
    name: "loop-clts",
    summary: "ticlts: loop-back datagrams under XTI over STREAMS, through rings of shared memory",
    service: ServiceType::Datagrams,
};

/// `loop-cots`: connections.
pub static COTS: Loopback = Loopback {
    name: "loop-cots",
    summary: "ticots: loop-back connections under XTI over STREAMS, through rings of shared memory",
    service: ServiceType::Connections,
};

/// `loop-cotsord`: connections with orderly release.
pub static COTS_ORD: Loopback = Loopback {
    name: "loop-cotsord",
    summary: "ticotsord: loop-cots with orderly release",
    service: ServiceType::ConnectionsWithRelease,
};

/// Connections that may wait to be accepted.
const QUEUE_LEN: u32 = 1024;

/// The longest that a connect waits to be accepted.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The transport.
#[derive(Debug)]
pub struct Loopback {
    name: &'static str,
    summary: &'static str,
    service: ServiceType,
}

impl Loopback {
    fn open(&self, options: &Options) -> io::Result<XtiEndpoint> {
        let own = &options.transport_specific;
        let words = StreamWords::parse(self.name, &xti_words::OF_STREAMS, own);
        let words = words.map_err(crate::options::invalid)?;
        // As the rings of `shm`: four messages of the job, or as much as the user says.
        let four = options.message_len.saturating_mul(4);
        let ring = options.buffers.unwrap_or(loopback::RING_OCTETS.max(four));
        let end = XtiEndpoint::open_loopback(self.service, ring, words.stream)?;
        Ok(end)
    }

    fn circuit(&self, end: XtiEndpoint, options: &Options) -> Box<dyn Circuit> {
        let flags = Flags::default();
        Box::new(ConnectionCircuit::new(end, self.service, options, flags))
    }

    fn is_datagrams(&self) -> bool {
        self.service == ServiceType::Datagrams
    }
}

impl Transport for Loopback {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        let like = match self.is_datagrams() {
            true => datagrams::UNIX_CLASS,
            false => unix_stream::CLASS,
        };
        Class {
            stream: false,
            kernel: false,
            ..like
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        // Connections without an orderly release end a direction by an empty message.
        self.service != ServiceType::Connections
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn options(&self) -> &[OptionHelp] {
        &xti_words::OF_STREAMS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        StreamWords::parse(self.name, &xti_words::OF_STREAMS, own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        if self.is_datagrams() {
            let mut listener = DatagramEnds::new(Reach::Host);
            for _ in 0..options.circuits.max(1) {
                let end = self.open(options)?;
                let address = end.bind(&[], 0)?.address;
                listener.add(end, address);
            }
            return Ok(Box::new(listener));
        }
        let end = self.open(options)?;
        let address = end.bind(&[], QUEUE_LEN)?.address;
        Ok(Box::new(LoopListener {
            transport: Loopback { ..*self },
            end,
            address,
            options: options.clone(),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let end = self.open(options)?;
        end.bind(&[], 0)?;
        if self.is_datagrams() {
            let peer = socket::rendezvous_entry(&rendezvous.bytes, index)?;
            return Ok(Box::new(DatagramCircuit::new(Arc::new(end), peer.to_vec())));
        }
        let connected = end.connect(&rendezvous.bytes, Instant::now() + CONNECT_MAX);
        connected.map_err(|error| xti_words::connect_error(&end, error))?;
        Ok(self.circuit(end, options))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max connect_all connect_to_many
    }
}

struct LoopListener {
    transport: Loopback,
    end: XtiEndpoint,
    address: Vec<u8>,
    options: Options,
}

impl Listener for LoopListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous::new(Reach::Host, self.address.clone()))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let open = || self.transport.open(&self.options);
        let end = accept_one(&self.end, deadline, open)?;
        Ok(self.transport.circuit(end, &self.options))
    }
}
