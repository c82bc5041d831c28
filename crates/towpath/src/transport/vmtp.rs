//! vmtp: VMTP (RFC 1045) over UDP, a message a transaction.
//!
//! The client's end is an entity that calls: a send begins a transaction, up to [`OUTSTANDING_MAX`]
//! at a time, and a receive takes a reply, in the order of the calls. The server's end is an entity
//! that is called: a receive takes a request, and a send answers it. A request that is still open at
//! the next receive is answered with nothing, by a code of this transport, which the client's end
//! drops: so messages that want no reply flow one way. The engine is crate `engine-vmtp`; the thread
//! that waits runs it.

use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, Class, Interest, LentArrival, Listener, Note, OptionHelp, Part,
    Reach, Rendezvous, Reserved, Transport, Unavailable,
};
use crate::engine_setup;
use crate::medium::{Medium, OpenedWire, UdpMedium};
use crate::options::Options;
use crate::parts::{self, MessageRest};
use crate::socket;
use driver::TransactionEndpoint;
use driver::transactions::{Call, Request};
use engine::{Address, EntityId};
use engine_vmtp::pdu::ResponseCode;
use engine_vmtp::{Vmtp as Engine, VmtpConfig};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// The transport.
#[derive(Debug)]
pub struct Vmtp;

/// Calls of a circuit that are not answered, at most: of 16 KiB each, 1 MiB.
const OUTSTANDING_MAX: usize = 64;

/// Discriminators of the entities of a circuit: the one that calls, and the one that is called.
const CLIENT: u64 = 1;
const SERVER: u64 = 2;

/// The code of a Response that says no more than that the request was received.
const NOT_ANSWERED: u32 = ResponseCode::APPLICATION.0;

/// Options of this transport.
const HELP: &[OptionHelp] = &[
    OptionHelp {
        name: "packet",
        values: "BYTES",
        meaning: "octets of the longest packet, 580 to 65507; if not given, 1472",
    },
    OptionHelp {
        name: "checksum",
        values: "on|off",
        meaning: "VMTP's check of packets, besides UDP's",
    },
];

impl Transport for Vmtp {
    fn name(&self) -> &'static str {
        "vmtp"
    }

    fn summary(&self) -> &'static str {
        "VMTP (RFC 1045) over UDP: a message a transaction, answered or not"
    }

    fn class(&self) -> Class {
        Class {
            reliable: true,
            // Calls that overtake each other on the path are served as they come.
            ordered: false,
            encrypted: false,
            stream: false,
            kernel: false,
            connectionless: true,
            connects: false,
            flow_control: true,
            half_close: false,
            calls: false,
            reach: Reach::Network,
            checksum: "Internet, 16 bit, by UDP; two sums of 16 bit of VMTP's own over each packet",
            congestion: "",
            offload: "UDP segmentation and coalescing by the kernel",
        }
    }

    fn options(&self) -> &'static [OptionHelp] {
        HELP
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        if let Some(key) = own
            .keys()
            .find(|key| HELP.iter().all(|help| help.name != *key))
        {
            return Err(format!(
                "vmtp has no option '{key}'; it has packet, checksum"
            ));
        }
        Settings::parse(own).map(drop)
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut ends = VecDeque::new();
        let mut lines = Vec::new();
        for _ in 0..options.circuits.max(1) {
            let opened = UdpMedium.listen(options)?;
            lines.push(opened.rendezvous_entry.clone());
            let end = End::open(opened, options, SERVER)?;
            ends.push_back(end);
        }
        Ok(Box::new(VmtpListener { ends, lines }))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let (opened, peer) = UdpMedium.connect(line, options)?;
        UdpMedium::restrict_to_peer(&opened.wire, peer)?;
        let end = End::open(opened, options, CLIENT)?;
        let server = entity(SERVER, host_of(peer));
        end.endpoint.locate(server, peer);
        Ok(Box::new(ClientCircuit {
            end,
            server,
            calls: VecDeque::new(),
            replies: VecDeque::new(),
            rest: MessageRest::default(),
        }))
    }
}

/// The entity `discriminator` of a host (RFC 1045 section IV.1).
fn entity(discriminator: u64, host: u32) -> EntityId {
    EntityId(discriminator << 32 | u64::from(host))
}

/// The low word of a host's identifiers: its IPv4 address, or one of 240.0.0.0/4, which no host has,
/// from the end of its IPv6 address.
fn host_of(address: Address) -> u32 {
    match address {
        Address::Socket(address) => match address.ip() {
            IpAddr::V4(ip) => u32::from(ip),
            IpAddr::V6(ip) => 0xf000_0000 | u128::from(ip) as u32 & 0x0fff_ffff,
        },
        Address::Station(_) | Address::Ether(_) => 0xf000_0000,
    }
}

/// The options of this transport.
#[derive(Clone, Copy, Debug)]
struct Settings {
    packet_len: Option<usize>,
    checksum: bool,
}

impl Settings {
    fn parse(own: &BTreeMap<String, String>) -> Result<Settings, String> {
        let packet_len = match own.get("packet") {
            None => None,
            Some(text) => {
                let range = 580..=wire_udp::UDP_PAYLOAD_MAX;
                let parsed = text.parse().ok().filter(|len| range.contains(len));
                let refusal = || format!("packet={text} is no length; use 580 to {}", range.end());
                Some(parsed.ok_or_else(refusal)?)
            }
        };
        let checksum = match own.get("checksum").map(String::as_str) {
            None | Some("on") => true,
            Some("off") => false,
            Some(other) => return Err(format!("checksum={other} is neither; use on or off")),
        };
        Ok(Settings {
            packet_len,
            checksum,
        })
    }
}

/// An endpoint with the one entity of a circuit.
struct End {
    endpoint: TransactionEndpoint<Engine, UdpWire>,
    entity: EntityId,
    message_max: usize,
    effective: BTreeMap<String, String>,
    recv_timeout: Duration,
}

impl End {
    fn open(opened: OpenedWire<UdpWire>, options: &Options, discriminator: u64) -> io::Result<End> {
        let settings = Settings::parse(&options.transport_specific)
            .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        let host = host_of(opened.local_address());
        let usual = VmtpConfig::default();
        let packet_len = settings.packet_len.unwrap_or(usual.packet_len);
        let config = VmtpConfig {
            packet_len: engine_setup::packet_len_for_family(packet_len, options),
            checksum: settings.checksum,
            host,
            seed: engine_setup::random_seed(),
            secret: engine_setup::random_secret(),
            ..usual
        };
        let message_max = config.message_max as usize;
        let mut wire = opened.wire;
        let segmentation = UdpMedium::segmentation(&mut wire, true, config.packet_len)?;
        let effective = BTreeMap::from([
            ("packet".into(), config.packet_len.to_string()),
            ("segmentation".into(), segmentation),
            // Octets of requests that may be outstanding.
            (
                "send_buffer".into(),
                (OUTSTANDING_MAX * engine_vmtp::blocks::GROUP_LEN as usize).to_string(),
            ),
        ]);
        let endpoint = TransactionEndpoint::new(Engine::new(config), wire)?;
        let entity = entity(discriminator, host);
        endpoint.create_entity(entity)?;
        Ok(End {
            endpoint,
            entity,
            message_max,
            effective,
            recv_timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
        })
    }

    fn check_len(&self, len: usize) -> io::Result<()> {
        if len <= self.message_max {
            return Ok(());
        }
        let text = format!(
            "a message of {len} bytes is longer than VMTP's {}; send smaller messages",
            self.message_max
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let calls = self.endpoint.wire_calls();
        BTreeMap::from([
            ("send_calls".into(), calls.sends),
            ("receive_calls".into(), calls.receives),
            ("packets_sent".into(), calls.packets_sent),
            (
                "retransmissions".into(),
                self.endpoint.counters().retransmissions,
            ),
        ])
    }
}

/// Copies a message into the user's buffer; what exceeds it is dropped.
fn hand_out(octets: &[u8], buffer: &mut [u8]) -> usize {
    let len = octets.len().min(buffer.len());
    buffer[..len].copy_from_slice(&octets[..len]);
    len
}

/// The first part of a message; the rest stays for the next receive.
fn first_part(octets: &[u8], buffer: &mut [u8], rest: &mut MessageRest) -> Part {
    let len = hand_out(octets, buffer);
    let left = &octets[len..];
    rest.room(left.len()).copy_from_slice(left);
    rest.keep(octets.len(), buffer.len())
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

struct VmtpListener {
    ends: VecDeque<End>,
    lines: Vec<String>,
}

impl Listener for VmtpListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: self.lines.join("\n").into_bytes(),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, _deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let end = self.ends.pop_front();
        let end = end.ok_or_else(|| {
            let text = "all circuits of this listener are accepted; listen again";
            io::Error::new(io::ErrorKind::TimedOut, text)
        })?;
        Ok(Box::new(ServerCircuit {
            end,
            open: None,
            rest: MessageRest::default(),
        }))
    }
}

/// The end that calls.
struct ClientCircuit {
    end: End,
    server: EntityId,
    /// Calls that are not answered, the oldest first.
    calls: VecDeque<Call>,
    /// Replies that were not received, in the order of their calls.
    replies: VecDeque<Vec<u8>>,
    rest: MessageRest,
}

impl ClientCircuit {
    /// Takes the replies that have come, as far as those of the oldest calls have.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(call) = self.calls.front() {
            let Some(outcome) = self.end.endpoint.try_take(call) else {
                return Ok(());
            };
            self.calls.pop_front();
            self.keep(outcome)?;
        }
        Ok(())
    }

    /// Keeps a reply, unless it says only that its request was received.
    fn keep(&mut self, outcome: io::Result<driver::transactions::Reply>) -> io::Result<()> {
        let reply = outcome?;
        if reply.note.tag != Some(u64::from(NOT_ANSWERED)) {
            self.replies.push_back(reply.octets);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.calls.len() + self.replies.len() >= OUTSTANDING_MAX
    }

    fn begin(&mut self, message: impl Into<Arc<[u8]>>) {
        let endpoint = &self.end.endpoint;
        let call = endpoint.begin(self.end.entity, self.server, message, &Note::default());
        self.calls.push_back(call);
    }

    fn send_message(&mut self, message: impl Into<Arc<[u8]>> + AsRef<[u8]>) -> io::Result<()> {
        self.end.check_len(message.as_ref().len())?;
        if self.is_full() {
            self.await_oldest(BLOCKING_TIMEOUT)?;
        }
        if self.is_full() {
            return Err(would_block());
        }
        self.begin(message);
        Ok(())
    }

    /// Waits for the reply to the oldest call.
    fn await_oldest(&mut self, limit: Duration) -> io::Result<()> {
        let Some(call) = self.calls.front() else {
            return Ok(());
        };
        if let Some(outcome) = self.end.endpoint.take(call, limit) {
            self.calls.pop_front();
            self.keep(outcome)?;
        }
        self.reap()
    }

    /// The next reply, waiting for it.
    fn await_reply(&mut self) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.end.recv_timeout;
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Ok(reply);
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if self.calls.is_empty() {
                std::thread::sleep(rest);
            }
            if rest.is_zero() || self.calls.is_empty() {
                return Err(would_block());
            }
            self.await_oldest(rest)?;
        }
    }
}

impl Circuit for ClientCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.end.check_len(message.len())?;
        if self.is_full() {
            self.end.endpoint.flush();
            self.reap()?;
        }
        if self.is_full() {
            return Err(would_block());
        }
        self.begin(message);
        Ok(())
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        if self.replies.is_empty() {
            self.end.endpoint.flush();
            self.reap()?;
        }
        let reply = self.replies.pop_front().ok_or_else(would_block)?;
        Ok(Some(hand_out(&reply, buffer)))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_message(message)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        for done in 0..count {
            match self.send_message(Arc::clone(message)) {
                Ok(()) => {}
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let reply = self.await_reply()?;
        Ok(Some(hand_out(&reply, buffer)))
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let reply = self.await_reply()?;
        Ok(Some(first_part(&reply, buffer, &mut self.rest)))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.endpoint.flush();
        self.reap()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.flush()?;
        let is_ready = match interest {
            Interest::Read => !self.replies.is_empty(),
            Interest::Write => !self.is_full(),
        };
        let rest = deadline.saturating_duration_since(Instant::now());
        match self.calls.is_empty() {
            _ if is_ready => Ok(()),
            true => {
                std::thread::sleep(rest);
                Ok(())
            }
            false => self.await_oldest(rest),
        }
    }

    fn effective(&self) -> BTreeMap<String, String> {
        self.end.effective.clone()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.end.counts()
    }
}

/// The end that is called.
struct ServerCircuit {
    end: End,
    /// The request that was received and is not answered.
    open: Option<Request>,
    rest: MessageRest,
}

impl ServerCircuit {
    /// Answers the open request with nothing.
    fn release_open(&mut self) {
        if let Some(request) = self.open.take() {
            let note = Note {
                tag: Some(u64::from(NOT_ANSWERED)),
                ..Note::default()
            };
            self.end.endpoint.reply_noted(request, &[][..], &note);
        }
    }

    fn take(&mut self, request: Option<Request>) -> io::Result<Vec<u8>> {
        let mut request = request.ok_or_else(would_block)?;
        let octets = std::mem::take(&mut request.octets);
        self.open = Some(request);
        Ok(octets)
    }

    fn try_take(&mut self) -> io::Result<Vec<u8>> {
        self.release_open();
        let mut request = self.end.endpoint.try_receive();
        if request.is_none() {
            self.end.endpoint.flush();
            request = self.end.endpoint.try_receive();
        }
        self.take(request)
    }

    fn await_request(&mut self) -> io::Result<Vec<u8>> {
        self.release_open();
        let request = self.end.endpoint.receive(self.end.recv_timeout).ok();
        self.take(request)
    }

    fn answer(&mut self, message: impl Into<Arc<[u8]>> + AsRef<[u8]>) -> io::Result<()> {
        self.end.check_len(message.as_ref().len())?;
        let request = self.open.take().ok_or_else(|| {
            let text = "no request is open; a server of vmtp sends only in answer to one";
            io::Error::new(io::ErrorKind::NotConnected, text)
        })?;
        let endpoint = &self.end.endpoint;
        endpoint.reply_noted(request, message, &Note::default());
        Ok(())
    }
}

impl Circuit for ServerCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.answer(message)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let request = self.try_take()?;
        Ok(Some(hand_out(&request, buffer)))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.answer(message)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, _count: usize) -> io::Result<usize> {
        self.answer(Arc::clone(message)).map(|()| 1)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let request = self.await_request()?;
        Ok(Some(hand_out(&request, buffer)))
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let request = self.await_request()?;
        Ok(Some(first_part(&request, buffer, &mut self.rest)))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.endpoint.flush();
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let rest = deadline.saturating_duration_since(Instant::now());
        if interest == Interest::Read {
            self.release_open();
            self.end.endpoint.wait_request(rest);
        }
        self.flush()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        self.end.effective.clone()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.end.counts()
    }
}

impl Drop for ServerCircuit {
    fn drop(&mut self) {
        self.release_open();
        self.end.endpoint.flush();
    }
}
