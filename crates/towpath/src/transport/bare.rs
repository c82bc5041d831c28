//! bare: this project's least engine over segmented UDP, the limit row of every race.
//!
//! Windowed, numbered packets without retransmission, run by `driver` in the user's thread. A short
//! message leaves at once when nothing is on its way, else it may wait about a millisecond for
//! others; a flush sends it on.

use crate::contract::{
    Circuit, Class, Interest, Listener, PATIENCE, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket;
use driver::Endpoint;
use engine::Address;
use engine_bare::{Bare as Engine, Config};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// The transport.
#[derive(Debug)]
pub struct Bare;

/// Bytes of a circuit's send store: what is sent is forgotten at once, so this is room for the
/// largest message (half of it, 128 KiB and a little) and stays in a second-level cache.
const STORE_LEN: usize = 288 << 10;

/// How long an opening may take; the engine itself gives up after two seconds of silence.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a circuit that goes away waits for its peer to take what is on its way.
const LINGER: Duration = Duration::from_millis(500);

impl Transport for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn summary(&self) -> &'static str {
        "windowed datagrams without retransmission over segmented UDP: the limit of the others"
    }

    fn class(&self) -> Class {
        Class {
            reliable: false,
            ordered: true,
            encrypted: false,
            stream: false,
            kernel: false,
            connectionless: false,
            connects: true,
            flow_control: true,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listening = BareListening {
            ends: Vec::new(),
            accepted: 0,
        };
        for _ in 0..options.circuits.max(1) {
            let end = endpoint(SocketAddr::new(options.bind_address(), 0), options)?;
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
        let (endpoint, _, segmented) = endpoint(local, options)?;
        let circuit = endpoint.connect(Address::Socket(peer), CONNECT_LIMIT)?;
        Ok(Box::new(BareCircuit { circuit, segmented }))
    }
}

type End = (Endpoint<Engine, UdpWire>, SocketAddr, bool);

fn endpoint(local: SocketAddr, options: &Options) -> io::Result<End> {
    let wire = UdpWire::bind(local)?;
    if let (Some(len), Some(socket)) = (options.buffers, wire::Wire::descriptor(&wire)) {
        wire_udp::sys::set_buffers(socket, len);
    }
    let address = wire.local_addr()?;
    let segmented = wire.is_segmented();
    let config = Config {
        // A port used again soon must not look like the opening of its last circuit repeated.
        seed: RandomState::new().build_hasher().finish(),
        ..Config::default()
    };
    let endpoint = Endpoint::new(Engine::new(config), wire, STORE_LEN)?;
    Ok((endpoint, address, segmented))
}

/// An endpoint for each circuit it prepares for, so that circuits in several threads share nothing.
struct BareListening {
    ends: Vec<End>,
    accepted: usize,
}

impl Listener for BareListening {
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
        Ok(Box::new(BareCircuit {
            circuit,
            segmented: *segmented,
        }))
    }
}

struct BareCircuit {
    circuit: driver::Circuit<Engine, UdpWire>,
    segmented: bool,
}

impl BareCircuit {
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

impl Circuit for BareCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.circuit.try_send(message)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let got = self.circuit.try_recv(buffer)?;
        Ok(got.map(|len| len.min(buffer.len())))
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
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
        let config = Config::default();
        let segments = wire_udp::UDP_PAYLOAD_MAX / config.packet_len;
        let segmentation = if self.segmented {
            format!("on, {segments} segments")
        } else {
            "off: not in this kernel".to_owned()
        };
        effective.insert("segmentation".into(), segmentation);
        effective.insert("packet_len".into(), config.packet_len.to_string());
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

impl Drop for BareCircuit {
    fn drop(&mut self) {
        // The helper thread goes with the circuit, and with it what is still on its way.
        let _ = self.circuit.drain(LINGER);
    }
}
