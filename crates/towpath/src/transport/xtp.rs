//! xtp and xtp-message: XTP 4.0 over segmented UDP, as a byte stream and with messages kept apart.
//!
//! Reliable and ordered; the engine is crate `engine-xtp`, run by `driver` in the user's thread. A
//! short message leaves at once when nothing is on its way, else it may wait about a millisecond
//! for others; a flush sends it on. Both ends of a race share the path with nobody, so the optional
//! congestion controller is off.

use crate::contract::{
    Circuit, Class, Interest, Listener, PATIENCE, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket;
use driver::Endpoint;
use engine::{Address, Framing};
use engine_xtp::{Config, Xtp as Engine};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// XTP with one way of keeping messages.
#[derive(Debug)]
pub struct Xtp {
    framing: Framing,
}

/// The byte stream.
pub const STREAM: Xtp = Xtp {
    framing: Framing::Stream,
};

/// One packet a message, or more for long ones; the last is marked.
pub const MESSAGES: Xtp = Xtp {
    framing: Framing::Messages,
};

/// Bytes of a circuit's send store. Bytes stay in it until they are acknowledged, about every
/// 120 KiB; half of it is room for the largest message.
const STORE_LEN: usize = 512 << 10;

/// How long an opening may take; the engine itself repeats it for 30 seconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a circuit that goes away waits for its peer to take what is on its way.
const LINGER: Duration = Duration::from_millis(500);

impl Transport for Xtp {
    fn name(&self) -> &'static str {
        match self.framing {
            Framing::Messages => "xtp-message",
            _ => "xtp",
        }
    }

    fn summary(&self) -> &'static str {
        match self.framing {
            Framing::Messages => "XTP 4.0 over segmented UDP, a packet or more for each message",
            _ => "XTP 4.0 over segmented UDP, a byte stream",
        }
    }

    fn class(&self) -> Class {
        Class {
            reliable: true,
            ordered: true,
            encrypted: false,
            stream: self.framing == Framing::Stream,
            kernel: false,
            connectionless: false,
            connects: true,
            flow_control: true,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listening = XtpListening {
            framing: self.framing,
            ends: Vec::new(),
            accepted: 0,
        };
        for _ in 0..options.circuits.max(1) {
            let end = self.endpoint(SocketAddr::new(options.bind_address(), 0), options)?;
            end.0.listen(true);
            listening.ends.push(end);
        }
        Ok(Box::new(listening))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let line = socket::line(&rendezvous.bytes, index)?;
        let peer = socket::decode_address(line)?;
        let local = socket::unspecified(&peer);
        let (endpoint, _, segmented) = self.endpoint(local, options)?;
        let circuit = endpoint.connect(Address::Socket(peer), CONNECT_LIMIT)?;
        Ok(Box::new(XtpCircuit {
            circuit,
            framing: self.framing,
            segmented,
        }))
    }
}

type End = (Endpoint<Engine, UdpWire>, SocketAddr, bool);

impl Xtp {
    fn endpoint(&self, local: SocketAddr, options: &Options) -> io::Result<End> {
        let wire = UdpWire::bind(local)?;
        if let (Some(len), Some(socket)) = (options.buffers, wire::Wire::descriptor(&wire)) {
            wire_udp::sys::set_buffers(socket, len);
        }
        let address = wire.local_addr()?;
        let segmented = wire.is_segmented();
        let config = Config {
            // A port used again soon must not use the keys of its last circuit.
            seed: RandomState::new().build_hasher().finish(),
            framing: self.framing,
            ..config()
        };
        let endpoint = Endpoint::new(Engine::new(config), wire, STORE_LEN)?;
        Ok((endpoint, address, segmented))
    }
}

/// The engine's defaults, with user bytes summed once, by UDP.
fn config() -> Config {
    Config {
        checksum: false,
        ..Config::default()
    }
}

/// An endpoint for each circuit it prepares for, so that circuits in several threads share nothing.
struct XtpListening {
    framing: Framing,
    ends: Vec<End>,
    accepted: usize,
}

impl Listener for XtpListening {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let lines: Vec<Vec<u8>> = self
            .ends
            .iter()
            .map(|(_, address, _)| socket::encode_address(*address))
            .collect();
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: lines.join(&b'\n'),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let (endpoint, _, segmented) = &self.ends[self.accepted % self.ends.len()];
        let limit = deadline.saturating_duration_since(Instant::now());
        let circuit = endpoint.accept(limit)?;
        self.accepted += 1;
        Ok(Box::new(XtpCircuit {
            circuit,
            framing: self.framing,
            segmented: *segmented,
        }))
    }
}

struct XtpCircuit {
    circuit: driver::Circuit<Engine, UdpWire>,
    framing: Framing,
    segmented: bool,
}

impl XtpCircuit {
    /// The end of a message travels with its last byte, so an empty one cannot be kept.
    #[inline]
    fn check(&self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() && self.framing == Framing::Messages {
            let text = "xtp-message carries no empty messages; send at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(())
    }

    #[cold]
    fn send_waiting(&mut self, message: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + crate::contract::PATIENCE;
        loop {
            self.wait(Interest::Write, deadline)?;
            match self.circuit.try_send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }
}

impl Circuit for XtpCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check(message)?;
        self.circuit.try_send(message)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let got = self.circuit.try_recv(buffer)?;
        Ok(got.map(|len| len.min(buffer.len())))
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check(message)?;
        match self.circuit.try_send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.send_waiting(message),
            other => other,
        }
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.circuit.recv(buffer, PATIENCE) {
            Ok(got) => Ok(got.map(|len| len.min(buffer.len()))),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.circuit.finish()
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.circuit.wait(limit)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        self.circuit.with_pump(|pump| {
            if let Some(descriptor) = wire::Wire::descriptor(pump.wire()) {
                socket::effective_buffers(descriptor, &mut effective);
            }
        });
        let config = config();
        let segments = wire_udp::UDP_PAYLOAD_MAX / config.packet_len;
        let segmentation = if self.segmented {
            format!("on, {segments} segments")
        } else {
            "off: not in this kernel".to_owned()
        };
        effective.insert("segmentation".into(), segmentation);
        effective.insert("packet_len".into(), config.packet_len.to_string());
        effective.insert("checksum".into(), "off: UDP sums the data".into());
        effective.insert("window".into(), config.window.to_string());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let (engine, (sends, receives)) = self.circuit.counters();
        BTreeMap::from([
            ("retransmissions".into(), engine.retransmissions),
            ("packets_sent".into(), engine.packets_built),
            ("packets_received".into(), engine.packets_parsed),
            ("packets_discarded".into(), engine.packets_discarded),
            ("bytes_lost".into(), engine.bytes_lost),
            ("messages_damaged".into(), self.circuit.damaged()),
            ("send_calls".into(), sends),
            ("receive_calls".into(), receives),
        ])
    }
}

impl Drop for XtpCircuit {
    fn drop(&mut self) {
        // The helper thread goes with the circuit, and with it what is still on its way.
        let _ = self.circuit.drain(LINGER);
    }
}
