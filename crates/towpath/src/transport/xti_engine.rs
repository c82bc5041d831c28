//! xti-xtp and xti-sctp: our own XTP and SCTP under XTI over STREAMS in the user's process. The study of
//! 2007 had SCTP there, with T_MORE on each send; `xti-sctp,framing=stream,more=on` is that.

use super::xti_connections::{ConnectionCircuit, accept_one};
use super::xti_words::{self, StreamWords};
use super::{sctp, xtp};
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::options::{self, Options};
use crate::xti_carrier::{self, EngineCarrier};
use crate::{sctp as sctp_endpoint, socket, xtp as xtp_endpoint};
use engine::Framing;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use xti::carrier::Carrier;
use xti::sctp::SctpOptions;
use xti::{ServiceType, XtiEndpoint, inet};

/// `xti-xtp`.
pub static XTP: XtiEngine = XtiEngine {
    protocol: EngineProtocol::Xtp,
};

/// `xti-sctp`.
pub static SCTP: XtiEngine = XtiEngine {
    protocol: EngineProtocol::Sctp,
};

/// Connections that may wait to be accepted.
const QUEUE_LEN: u32 = 1024;

/// The longest that a connect waits for its answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Options of `xtp` that are not here: rings between processes, and buffers that the user posts.
const NOT_OF_XTP: [&str; 3] = ["shortcut", "service", "splice"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EngineProtocol {
    Xtp,
    Sctp,
}

/// The transport.
#[derive(Debug)]
pub struct XtiEngine {
    protocol: EngineProtocol,
}

static XTP_OPTIONS: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let own = xtp_endpoint::EndpointConfig::HELP.iter().copied();
    of_streams()
        .chain(own.filter(|word| !NOT_OF_XTP.contains(&word.name)))
        .collect()
});

static SCTP_OPTIONS: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let own = sctp_endpoint::EndpointConfig::HELP.iter().copied();
    of_streams().chain(own).collect()
});

fn of_streams() -> impl Iterator<Item = OptionHelp> {
    let of_streams = xti_words::OF_STREAMS.into_iter();
    of_streams.chain([xti_words::MORE, xti_words::HOLD, xti_words::LENT])
}

/// Options of an endpoint: those of the stream, and those of the engine.
struct Words {
    stream: StreamWords,
    engine: BTreeMap<String, String>,
}

impl XtiEngine {
    fn words(&self, own: &BTreeMap<String, String>) -> Result<Words, String> {
        crate::contract::check_names(self.name(), self.options(), own)?;
        let known: Vec<OptionHelp> = of_streams().collect();
        let is_of_streams = |name: &str| known.iter().any(|word| word.name == name);
        let (stream, engine): (BTreeMap<_, _>, BTreeMap<_, _>) = own
            .clone()
            .into_iter()
            .partition(|(name, _)| is_of_streams(name));
        let words = Words {
            stream: StreamWords::parse(self.name(), &known, &stream)?,
            engine,
        };
        if words.stream.flags.more && self.framing(&words.engine)? == Framing::Messages {
            return Err(
                "more=on makes one message of all that is sent; give framing=stream too".into(),
            );
        }
        Ok(words)
    }

    fn framing(&self, engine: &BTreeMap<String, String>) -> Result<Framing, String> {
        Ok(match self.protocol {
            EngineProtocol::Xtp => {
                xtp_endpoint::EndpointConfig::parse(engine)?;
                Framing::Stream
            }
            EngineProtocol::Sctp => {
                let settings = sctp_endpoint::EndpointConfig::parse(engine)?;
                settings.config.framing
            }
        })
    }

    fn carrier(&self, words: &Words, options: &Options) -> Result<Box<dyn Carrier>, String> {
        let options = options.clone();
        Ok(match self.protocol {
            EngineProtocol::Xtp => {
                let settings = xtp_endpoint::EndpointConfig::parse(&words.engine)?;
                let host = options.bind_address();
                let own = Options {
                    transport_specific: words.engine.clone(),
                    ..options.clone()
                };
                let make = move |_: Option<&SctpOptions>, _: IpAddr| {
                    xtp::STREAM.setup(&settings, &own, host)
                };
                let name = (xti_carrier::XTP, None);
                Box::new(EngineCarrier::new(name, &options, Arc::new(make), None))
            }
            EngineProtocol::Sctp => {
                let settings = sctp_endpoint::EndpointConfig::parse(&words.engine)?;
                Box::new(xti_carrier::sctp_carrier(settings, &options))
            }
        })
    }

    fn open(&self, options: &Options) -> io::Result<XtiEndpoint> {
        let words = self.words(&options.transport_specific);
        let words = words.map_err(options::invalid)?;
        let carrier = self.carrier(&words, options).map_err(options::invalid)?;
        Ok(XtiEndpoint::open_over(carrier, words.stream.stream)?)
    }

    fn circuit(&self, end: XtiEndpoint, options: &Options) -> CircuitResult {
        let words = self.words(&options.transport_specific);
        let words = words.map_err(options::invalid)?;
        let service = ServiceType::ConnectionsWithRelease;
        let mut effective = match self.protocol {
            EngineProtocol::Xtp => xtp_endpoint::EndpointConfig::parse(&words.engine)
                .map(|settings| settings.effective()),
            EngineProtocol::Sctp => sctp_endpoint::EndpointConfig::parse(&words.engine)
                .map(|settings| settings.effective()),
        }
        .map_err(options::invalid)?;
        effective.insert("more".into(), xti_words::on_off(words.stream.flags.more));
        let lent = words.stream.stream.lent;
        effective.insert("lent".into(), xti_words::on_off(lent));
        if let Some(socket) = end.socket() {
            effective.extend(socket::buffer_sizes(socket.as_fd()));
        }
        let circuit = ConnectionCircuit::new(end, service, options, words.stream.flags);
        Ok(Box::new(circuit.with_effective(effective)))
    }
}

impl Transport for XtiEngine {
    fn name(&self) -> &'static str {
        match self.protocol {
            EngineProtocol::Xtp => "xti-xtp",
            EngineProtocol::Sctp => "xti-sctp",
        }
    }

    fn summary(&self) -> &'static str {
        match self.protocol {
            EngineProtocol::Xtp => "XTP 4.0 over UDP under XTI over STREAMS, a byte stream",
            EngineProtocol::Sctp => {
                "SCTP over UDP under XTI over STREAMS, messages that share packets"
            }
        }
    }

    fn class(&self) -> Class {
        match self.protocol {
            EngineProtocol::Xtp => xtp::STREAM.class(),
            EngineProtocol::Sctp => sctp::Sctp.class(),
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let Ok(words) = self.words(own) else {
            return self.class();
        };
        match self.protocol {
            EngineProtocol::Xtp => xtp::STREAM.class_with(&words.engine),
            EngineProtocol::Sctp => sctp::Sctp.class_with(&words.engine),
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn options(&self) -> &[OptionHelp] {
        match self.protocol {
            EngineProtocol::Xtp => &XTP_OPTIONS,
            EngineProtocol::Sctp => &SCTP_OPTIONS,
        }
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        self.words(own).map(|_| ())
    }

    /// An endpoint for each circuit, so that circuits in different threads share nothing.
    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let address = SocketAddr::new(options.bind_address(), 0);
        let mut ends = Vec::new();
        for _ in 0..options.circuits.max(1) {
            let end = self.open(options)?;
            let bound = end.bind(&inet::encode(address), QUEUE_LEN)?;
            let address = inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?;
            ends.push((end, address));
        }
        Ok(Box::new(EngineListener {
            transport: XtiEngine { ..*self },
            ends,
            accepted: 0,
            options: options.clone(),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let address = socket::decode_address(line)?;
        let end = self.open(options)?;
        end.bind(&[], 0)?;
        let connected = end.connect(&inet::encode(address), Instant::now() + CONNECT_MAX);
        connected.map_err(|error| xti_words::connect_error(&end, error))?;
        self.circuit(end, options)
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max connect_all connect_to_many
    }
}

struct EngineListener {
    transport: XtiEngine,
    ends: Vec<(XtiEndpoint, SocketAddr)>,
    accepted: usize,
    options: Options,
}

impl Listener for EngineListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of(
            self.ends.iter().map(|(_, address)| address),
        ))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let (listener, _) = &self.ends[self.accepted % self.ends.len()];
        let end = accept_one(listener, deadline, || self.transport.open(&self.options))?;
        self.accepted += 1;
        self.transport.circuit(end, &self.options)
    }
}
