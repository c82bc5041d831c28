//! xtp-transaction and xtp-datagram: a message an association of XTP 4.0 over segmented UDP, opened and ended
//! with its data, as the services of the same names have it.
//!
//! A transaction takes three packets in all: the request opens the association and ends its direction, the reply ends the
//! other, and the last acknowledges it. The client's end has up to 64 of them under way. The server's end takes a request by a
//! receive and answers it by a send; one that is still open at the next receive is ended without a reply, which the client's
//! end drops. A datagram takes one packet, or two if it is acknowledged.
//!
//! * `arrivals` - messages that peers send, an association each.
//! * `circuit` - a circuit of any of the ends.
//! * `client`, `server` - both ends of transactions.
//! * `datagram` - an end of datagrams.

mod arrivals;
mod circuit;
mod client;
mod datagram;
mod server;

use crate::contract::{
    BLOCKING_TIMEOUT, CircuitResult, Class, Listener, OptionHelp, Rendezvous, Transport,
    Unavailable,
};
use crate::engine_circuit::pump_counts;
use crate::engine_endpoint::{EngineEndpoint, open_endpoint};
use crate::medium::{Medium, UdpMedium};
use crate::options::Options;
use crate::socket;
use crate::spare_endpoint::Spare;
use crate::transport::xtp;
use crate::xtp::EndpointConfig;
use circuit::CallCircuit;
use client::ClientEnd;
use datagram::DatagramEnd;
use engine::Address;
use engine_xtp::Xtp as Engine;
use engine_xtp::pdu::Service;
use server::ServerEnd;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use wire::trace::Traced;
use wire_udp::UdpWire;

/// Associations of an end that are under config, at most.
const OUTSTANDING_MAX: usize = 64;

/// One of the two transports.
#[derive(Debug)]
pub struct XtpCalls(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transaction,
    Datagram,
}

/// A message and its reply an association.
pub const TRANSACTION: XtpCalls = XtpCalls(Kind::Transaction);

/// A message an association.
pub const DATAGRAM: XtpCalls = XtpCalls(Kind::Datagram);

/// The option of datagrams alone.
const ACKNOWLEDGED: OptionHelp = OptionHelp {
    name: "acknowledged",
    values: "off|on",
    meaning: "whether the receiver acknowledges each message, which is sent again until it does; not more than 64 are \
              under way",
};

/// Options of an endpoint that these associations have no use for: they have services of their own, which open implicitly,
/// nobody posts buffers for them, and they are over before rings are exchanged.
const WITHOUT_USE: [&str; 5] = ["service", "flow", "open", "shortcut", "splice"];

/// The options of transactions.
static TRANSACTION_HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let of_endpoint = EndpointConfig::HELP.iter().copied();
    of_endpoint
        .filter(|word| !WITHOUT_USE.contains(&word.name))
        .collect()
});

/// The options of datagrams.
static DATAGRAM_HELP: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let of_both = TRANSACTION_HELP.iter().copied();
    std::iter::once(ACKNOWLEDGED).chain(of_both).collect()
});

/// What a user chose.
struct Settings {
    endpoint: EndpointConfig,
    acknowledged: bool,
}

impl XtpCalls {
    fn settings(&self, own: &BTreeMap<String, String>) -> Result<Settings, String> {
        let mut own = own.clone();
        let acknowledged = match self.0 {
            Kind::Transaction => true,
            Kind::Datagram => {
                let is_on = crate::options::switch(&own, ACKNOWLEDGED.name, false)?;
                own.remove(ACKNOWLEDGED.name);
                is_on
            }
        };
        let endpoint = EndpointConfig::parse(&own)?;
        Ok(Settings {
            endpoint,
            acknowledged,
        })
    }

    fn settings_of(&self, options: &Options) -> io::Result<Settings> {
        let settings = self.settings(&options.transport_specific);
        settings.map_err(crate::options::invalid)
    }

    /// Opens an endpoint of a listener, which accepts associations.
    fn open_listening(&self, options: &Options, settings: &Settings) -> io::Result<CallEndpoint> {
        let opened = UdpMedium.listen(options)?;
        let setup = xtp::STREAM.setup(&settings.endpoint, options, options.bind_address());
        let end = open_endpoint(opened, options, setup)?;
        end.endpoint.listen(true);
        Ok(end)
    }

    /// Opens an endpoint to the listener of rendezvous entry `line`, and its address.
    fn open_to(
        &self,
        line: &[u8],
        options: &Options,
        settings: &Settings,
    ) -> io::Result<(CallEndpoint, Address)> {
        let (opened, peer) = UdpMedium.connect(line, options)?;
        UdpMedium::restrict_to_peer(&opened.wire, peer)?;
        let host = socket::decode_address(line)?.ip();
        let setup = xtp::STREAM.setup(&settings.endpoint, options, host);
        let end = open_endpoint(opened, options, setup)?;
        // Datagrams go both ways.
        end.endpoint.listen(self.0 == Kind::Datagram);
        Ok((end, peer))
    }
}

impl Transport for XtpCalls {
    fn name(&self) -> &'static str {
        match self.0 {
            Kind::Transaction => "xtp-transaction",
            Kind::Datagram => "xtp-datagram",
        }
    }

    fn summary(&self) -> &'static str {
        match self.0 {
            Kind::Transaction => {
                "XTP 4.0 over segmented UDP, an association a message and its reply: three packets"
            }
            Kind::Datagram => {
                "XTP 4.0 over segmented UDP, an association a message: one packet, two if acknowledged"
            }
        }
    }

    fn class(&self) -> Class {
        let is_call = self.0 == Kind::Transaction;
        Class {
            reliable: is_call,
            // Associations that are under way together overtake each other.
            ordered: false,
            stream: false,
            connectionless: true,
            connects: is_call,
            flow_control: is_call,
            half_close: false,
            ..xtp::STREAM.class()
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = self.settings(own) else {
            return class;
        };
        Class {
            reliable: settings.acknowledged && settings.endpoint.is_reliable(),
            flow_control: settings.acknowledged,
            congestion: settings.endpoint.congestion_class(),
            offload: match settings.endpoint.segmentation {
                true => class.offload,
                false => "",
            },
            ..class
        }
    }

    fn only_answers(&self) -> bool {
        self.0 == Kind::Transaction
    }

    fn sends_unanswered(&self, own: &BTreeMap<String, String>) -> bool {
        let settings = self.settings(own);
        self.0 == Kind::Datagram && settings.is_ok_and(|settings| !settings.acknowledged)
    }

    fn options(&self) -> &[OptionHelp] {
        match self.0 {
            Kind::Transaction => &TRANSACTION_HELP,
            Kind::Datagram => &DATAGRAM_HELP,
        }
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        self.settings(own).map(drop)
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = self.settings_of(options)?;
        let open = |_| {
            let end = self.open_listening(options, &settings)?;
            Ok(Arc::new(SharedEndpoint(end)))
        };
        let ends = (0..options.circuits.max(1)).map(open);
        Ok(Box::new(CallListener {
            ends: ends.collect::<io::Result<Vec<_>>>()?,
            accepted: 0,
            kind: self.0,
            config: settings.circuit_config(options),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let settings = self.settings_of(options)?;
        let config = settings.circuit_config(options);
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        if self.0 == Kind::Datagram {
            let (end, peer) = self.open_to(line, options, &settings)?;
            let end = Arc::new(SharedEndpoint(end));
            return Ok(CallCircuit::boxed(DatagramEnd::new(
                end,
                Some(peer),
                config,
            )));
        }
        let spare = match Spare::take(line, options) {
            Some(spare) => spare,
            None => {
                let (end, peer) = self.open_to(line, options, &settings)?;
                Spare::new(line, options, end, peer)
            }
        };
        Ok(CallCircuit::boxed(ClientEnd::new(spare, config)))
    }

    crate::usual_transport! { is_one_to_many is_one_way option_to_many message_max connect_all connect_to_many }
}

struct CallListener {
    ends: Vec<Arc<SharedEndpoint>>,
    accepted: usize,
    kind: Kind,
    config: CircuitConfig,
}

impl Listener for CallListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of(
            self.ends.iter().map(|end| &end.0.line),
        ))
    }

    /// A circuit takes calls as they come: those of one endpoint share them.
    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let end = Arc::clone(&self.ends[self.accepted % self.ends.len()]);
        self.accepted += 1;
        if self.kind == Kind::Datagram {
            return Ok(CallCircuit::boxed(DatagramEnd::new(end, None, self.config)));
        }
        Ok(CallCircuit::boxed(ServerEnd::new(end, self.config)))
    }
}

/// An endpoint whose associations are messages.
type CallEndpoint = EngineEndpoint<UdpMedium, Engine>;

/// An endpoint that a listener and its circuits share. The last of them waits for the ends of associations that were dropped.
struct SharedEndpoint(CallEndpoint);

impl Drop for SharedEndpoint {
    fn drop(&mut self) {
        self.0.await_ends();
    }
}

/// An association of it.
type CallAssociation = driver::Circuit<Engine, Traced<UdpWire>>;

/// How the circuits of an endpoint carry messages.
#[derive(Clone, Copy, Debug)]
struct CircuitConfig {
    /// Longest wait of a receive.
    recv_timeout: Duration,
    /// Bytes of the longest message.
    message_max: usize,
    /// Messages are sent again until they are acknowledged.
    acknowledged: bool,
    /// A client that is dropped keeps its endpoint for the next circuit of its thread.
    keeps_endpoint: bool,
}

impl Settings {
    fn circuit_config(&self, options: &Options) -> CircuitConfig {
        CircuitConfig {
            recv_timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            message_max: self.endpoint.send_buffer_len / 2,
            acknowledged: self.acknowledged,
            keeps_endpoint: !options.one_peer,
        }
    }
}

impl CircuitConfig {
    fn check_len(&self, len: usize) -> io::Result<()> {
        let max = self.message_max;
        let text = match len {
            // An end without data is no message.
            0 => "an association without data is no message; send at least one byte".to_owned(),
            _ if len > max => format!(
                "a message of {len} bytes does not fit into the send store of an association, which takes {max}; raise it \
                 with queue=SIZE, or send smaller messages"
            ),
            _ => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}

/// Opens an association to `peer` that carries `message` and ends its direction, without waiting.
fn begin(
    end: &CallEndpoint,
    peer: Address,
    service: Service,
    message: &[u8],
) -> io::Result<CallAssociation> {
    let open = |engine: &mut Engine, now| engine.open(now, peer, service);
    let mut association = end.endpoint.open(peer, open)?;
    association.set_delayed_ack();
    association.try_send_last(message)?;
    Ok(association)
}

/// What an endpoint counts.
fn counts(end: &CallEndpoint) -> BTreeMap<String, u64> {
    end.endpoint.with_pump(pump_counts)
}

/// The options in effect of an endpoint.
fn effective(end: &CallEndpoint) -> BTreeMap<String, String> {
    let mut effective = end.effective.clone();
    end.endpoint.with_pump(|pump| {
        for socket in UdpMedium::sockets(pump.wire().wire()) {
            effective.extend(socket::buffer_sizes(socket));
        }
    });
    effective
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}
