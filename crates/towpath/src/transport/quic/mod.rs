//! quic: QUIC (RFC 9000) by the library `quinn-proto`, one write per message on one stream for each
//! direction, encrypted.
//!
//! The library is sans-I/O. It is driven here, in the user's thread, over UDP sockets with the
//! kernel's segmentation and coalescing: the same calls as in `udp-segmented` and the engines of
//! this project.
//!
//! * `endpoint` - a socket, the library's endpoint and its connections.
//! * `shared_endpoint` - an endpoint shared by circuits, and the helper thread that serves it while
//!   no user does.
//! * `circuit` - one connection and its two streams.
//!
//! TLS has a key per listener, passed to peers in the rendezvous.
//!
//! A message leaves when about 64 KiB are written, at a flush, and when the user waits or receives;
//! `try_send` sends it at once.

mod circuit;
mod endpoint;
mod shared_endpoint;

use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
    check_names,
};
use crate::engine_setup;
use crate::listener_keys::{self, ListenerKeys};
use crate::options::Options;
use crate::socket;
use crate::udp_offloads::{self, UdpOffloads};
use circuit::QuicCircuit;
use endpoint::QuicEndpoint;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ClientConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use shared_endpoint::SharedEndpoint;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The transport.
#[derive(Debug)]
pub struct Quic;

/// The send window: most unacknowledged bytes. Eight segmented sends, as in `bare`.
///
/// The library's default is twenty times as much. It walks all unacknowledged messages for each
/// packet it builds, which took two thirds of the time with 1 MiB of 64-byte messages.
const SEND_WINDOW: u64 = 512 << 10;

/// The idle timeout, ms (RFC 9000 s. 10.1). Longer than any pause between the phases of a
/// measurement, when no user drives the connection.
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(60_000);

/// Timeout of the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a listener with several sockets waits at each in turn.
const ACCEPT_SLICE: Duration = Duration::from_millis(1);

impl Transport for Quic {
    fn name(&self) -> &'static str {
        "quic"
    }

    fn summary(&self) -> &'static str {
        "QUIC by quinn-proto over segmented UDP, one write a message on one stream, encrypted"
    }

    fn class(&self) -> Class {
        Class {
            encrypted: true,
            stream: true,
            checksum: "AES-128-GCM tag, 128 bit; Internet, 16 bit, by UDP",
            congestion: "as set, by the library",
            ..engine_setup::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        Class {
            offload: UdpOffloads::in_words(own),
            ..self.class()
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        congestion(&options.congestion).map(drop)
    }

    fn options(&self) -> &[OptionHelp] {
        &udp_offloads::OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        check_names(self.name(), self.options(), own)?;
        UdpOffloads::parse(own).map(drop)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let keys = ListenerKeys::generate()?;
        let crypto = QuicServerConfig::try_from(keys.server()?).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport_config(options)?));
        let config = Arc::new(config);
        let local = SocketAddr::new(options.bind_address(), 0);
        let endpoints = (0..options.circuits.max(1))
            .map(|_| {
                SharedEndpoint::new(QuicEndpoint::bind(
                    local,
                    Some(Arc::clone(&config)),
                    options,
                )?)
            })
            .collect::<io::Result<_>>()?;
        Ok(Box::new(QuicListener {
            endpoints,
            key: keys.public(),
            accepted: 0,
            handshaking: None,
            options: options.clone(),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        // Line 0 is the key, the others are one address a circuit.
        let key = listener_keys::decode(socket::rendezvous_entry(&rendezvous.bytes, 0)?)?;
        let peer = socket::decode_address(socket::rendezvous_entry(&rendezvous.bytes, index + 1)?)?;
        let crypto = QuicClientConfig::try_from(listener_keys::client(key)?);
        let mut config = ClientConfig::new(Arc::new(crypto.map_err(io::Error::other)?));
        config.transport_config(Arc::new(transport_config(options)?));
        let local = socket::wildcard_address(&peer);
        let mut endpoint = QuicEndpoint::bind(local, None, options)?;
        let handle = endpoint.connect(config, peer)?;
        let mut circuit = QuicCircuit::new(SharedEndpoint::new(endpoint)?, handle, options);
        if !circuit.establish(Instant::now() + CONNECT_TIMEOUT)? {
            let text = "the peer did not answer the handshake of a connection";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(Box::new(circuit))
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn congestion(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, Unavailable> {
    match name {
        "cubic" => Ok(Arc::new(CubicConfig::default())),
        "reno" => Ok(Arc::new(NewRenoConfig::default())),
        "bbr" => Ok(Arc::new(BbrConfig::default())),
        other => Err(Unavailable {
            reason: format!("the QUIC library has no congestion control '{other}'"),
            remedy: "choose cubic, reno or bbr with --congestion".into(),
        }),
    }
}

fn transport_config(options: &Options) -> io::Result<TransportConfig> {
    let controller = congestion(&options.congestion)
        .map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why.reason))?;
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(controller)
        .max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT)))
        .send_window(SEND_WINDOW);
    Ok(config)
}

/// One endpoint per circuit, so that circuits in different threads share nothing.
struct QuicListener {
    endpoints: Vec<Arc<SharedEndpoint>>,
    key: Vec<u8>,
    accepted: usize,
    /// A circuit whose handshake was incomplete when the last accept timed out.
    handshaking: Option<QuicCircuit>,
    options: Options,
}

impl Listener for QuicListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let mut lines = vec![listener_keys::encode(&self.key)];
        for endpoint in &self.endpoints {
            lines.push(socket::encode_address(
                endpoint.lock().socket().local_addr()?,
            ));
        }
        Ok(Rendezvous::new(Reach::Network, lines.join(&b'\n')))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        if let Some(handshaking) = self.handshaking.take() {
            return self.establish(handshaking, deadline);
        }
        let mut at = self.accepted % self.endpoints.len();
        loop {
            let endpoint = &self.endpoints[at];
            let (opened, seen) = {
                let mut endpoint = endpoint.lock();
                endpoint.serve_all()?;
                (endpoint.accept()?, endpoint.arrivals())
            };
            if let Some(handle) = opened {
                let circuit = QuicCircuit::new(Arc::clone(endpoint), handle, &self.options);
                return self.establish(circuit, deadline);
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(accept_timeout());
            }
            // Peers may connect to the sockets in any order, so each is tried in turn.
            let slice_end = match self.endpoints.len() {
                1 => deadline,
                _ => deadline.min(now + ACCEPT_SLICE),
            };
            endpoint.sleep(None, seen, slice_end)?;
            at = (at + 1) % self.endpoints.len();
        }
    }
}

impl QuicListener {
    /// Completes a handshake, or keeps the circuit for the next accept: dropping it would refuse a
    /// peer that is only slow.
    fn establish(&mut self, mut circuit: QuicCircuit, deadline: Instant) -> CircuitResult {
        if circuit.establish(deadline)? {
            self.accepted += 1;
            return Ok(Box::new(circuit));
        }
        self.handshaking = Some(circuit);
        Err(accept_timeout())
    }
}

fn accept_timeout() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no peer connected")
}
