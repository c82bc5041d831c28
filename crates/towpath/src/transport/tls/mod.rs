//! tls: TLS 1.3 (RFC 8446) by the library `rustls` over the kernel's TCP, one record and one send per
//! message.
//!
//! It is what `quic` is compared with: the same library, cipher and keys over the calls of `tcp`.
//! Records are sealed and opened in the user's thread; a message longer than 2^14 octets is several
//! records in one send.
//!
//! * `session` - the TLS end of a connection, in memory.
//! * `circuit` - that on a socket.

mod circuit;
mod session;

use crate::contract::{CircuitResult, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::listener_keys::{self, ListenerKeys};
use crate::options::Options;
use crate::socket;
use crate::transport::tcp::{self, TcpCircuitListener};
use circuit::TlsCircuit;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use session::Session;
use socket2::Protocol;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The transport.
#[derive(Debug)]
pub struct Tls;

/// Timeout of the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Transport for Tls {
    fn name(&self) -> &'static str {
        "tls"
    }

    fn summary(&self) -> &'static str {
        "TLS 1.3 by rustls over kernel TCP, one record and one send a message, encrypted"
    }

    fn class(&self) -> Class {
        Class {
            encrypted: true,
            checksum: "AES-128-GCM tag, 128 bit; Internet, 16 bit, by TCP",
            ..tcp::CLASS
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        tcp::congestion_available(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let keys = ListenerKeys::generate()?;
        let mut config = keys.server()?;
        // Tickets would lie unread at a peer that only sends, whose close then resets the connection.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Box::new(TlsListener {
            listening: TcpCircuitListener::bind(options, Protocol::TCP)?,
            key: keys.public(),
            config: Arc::new(config),
            handshaking: None,
            options: options.clone(),
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        // Line 0 is the key, line 1 the address.
        let key = listener_keys::decode(socket::rendezvous_entry(&rendezvous.bytes, 0)?)?;
        let address = socket::rendezvous_entry(&rendezvous.bytes, 1)?;
        let end = tcp::connect_to(socket::decode_address(address)?, options, Protocol::TCP)?;
        let mut circuit = TlsCircuit::new(end, Session::client(key)?, options);
        if !circuit.establish(Instant::now() + CONNECT_TIMEOUT)? {
            let text = "the peer did not answer the handshake of a connection";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(Box::new(circuit))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

struct TlsListener {
    listening: TcpCircuitListener,
    key: Vec<u8>,
    config: Arc<ServerConfig>,
    /// A circuit whose handshake was incomplete when the last accept timed out.
    handshaking: Option<TlsCircuit>,
    options: Options,
}

impl Listener for TlsListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let tcp = self.listening.rendezvous()?;
        let lines = [listener_keys::encode(&self.key), tcp.bytes];
        Ok(Rendezvous {
            bytes: lines.join(&b'\n'),
            ..tcp
        })
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        loop {
            let mut circuit = match self.handshaking.take() {
                Some(handshaking) => handshaking,
                None => self.accept_connection(deadline)?,
            };
            match circuit.establish(deadline) {
                Ok(true) => return Ok(Box::new(circuit)),
                Ok(false) => {
                    self.handshaking = Some(circuit);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"));
                }
                // A peer that breaks the handshake is gone; the next one is served.
                Err(_) => {}
            }
        }
    }
}

impl TlsListener {
    fn accept_connection(&mut self, deadline: Instant) -> io::Result<TlsCircuit> {
        let end = self.listening.accept_circuit(deadline)?;
        let session = Session::server(&self.config)?;
        Ok(TlsCircuit::new(end, session, &self.options))
    }
}
