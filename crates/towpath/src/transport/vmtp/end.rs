//! What both ends of a circuit have: options, an endpoint, an entity.

use crate::cells;
use crate::contract::BLOCKING_TIMEOUT;
use crate::engine_setup;
use crate::medium::{Medium, OpenedWire};
use crate::options::Options;
use crate::parts;
use crate::xtp::tracing;
use driver::TransactionEndpoint;
use driver::transactions::Message;
use engine::{Address, EntityId};
use engine_vmtp::pdu::ResponseCode;
use engine_vmtp::{Vmtp as Engine, VmtpConfig};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Wire;
use wire::trace::Traced;

/// Calls of a circuit that are not answered, at most: of 16 KiB each, 1 MiB.
pub(super) const OUTSTANDING_MAX: usize = 64;

/// Octets of memory that a circuit keeps for its next message, at most: ten thousand circuits keep 10 MB.
const SPARE_MAX: usize = 1 << 10;

/// The code of a Response that says no more than that the request was received.
pub(super) const NOT_ANSWERED: u32 = ResponseCode::APPLICATION.0;

/// The entity `discriminator` of a host (RFC 1045 section IV.1).
pub(crate) fn entity(discriminator: u64, host: u32) -> EntityId {
    EntityId(discriminator << 32 | u64::from(host))
}

/// The low word of a host's identifiers: its IPv4 address; else one of 240.0.0.0/4, which no host has,
/// with the last 28 bits of its address.
pub(crate) fn host_of(address: Address) -> u32 {
    let other = |low: u32| 0xf000_0000 | low & 0x0fff_ffff;
    match address {
        Address::Socket(address) => match address.ip() {
            IpAddr::V4(ip) => u32::from(ip),
            IpAddr::V6(ip) => other(u128::from(ip) as u32),
        },
        Address::Ether([_, _, a, b, c, d]) => other(u32::from_be_bytes([a, b, c, d])),
        Address::Station(number) => other(number),
    }
}

/// The options of this transport.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    packet_len: Option<usize>,
    checksum: bool,
    stream: bool,
    /// How often each message is sent, as a datagram; None: messages are calls.
    repeat: Option<u32>,
}

/// Copies of a datagram, at most: RetransmitCount tells as many apart (RFC 1045 section 2.4).
const REPEAT_MAX: u32 = 8;

impl Settings {
    /// Those of packets of up to `packet_max` octets.
    pub(super) fn parse(
        own: &BTreeMap<String, String>,
        packet_max: usize,
    ) -> Result<Settings, String> {
        let packet_len = match own.get("packet") {
            None => None,
            Some(text) => {
                let range = 580..=packet_max;
                let parsed = text.parse().ok().filter(|len| range.contains(len));
                let refusal = || format!("packet={text} is no length; use 580 to {}", range.end());
                Some(parsed.ok_or_else(refusal)?)
            }
        };
        let settings = Settings {
            packet_len,
            checksum: switch(own, "checksum", true)?,
            stream: switch(own, "stream", false)?,
            repeat: repeat(own)?,
        };
        if settings.stream && settings.repeat.is_some() {
            let text = "stream=on orders calls, and repeat makes datagrams of them; leave one out";
            return Err(text.into());
        }
        Ok(settings)
    }

    /// Whether messages are datagrams, which nothing answers.
    pub(super) fn is_one_way(&self) -> bool {
        self.repeat.is_some()
    }
}

/// A wire with the trace of the process, which discards its packets if the user wants that.
fn traced<W>(wire: W, own: Address, options: &Options) -> io::Result<Traced<W>> {
    let wire = Traced::new(wire, tracing::process_log()?, own);
    Ok(wire.discarding_into(options.discard.clone()))
}

/// The value of option `repeat`.
fn repeat(own: &BTreeMap<String, String>) -> Result<Option<u32>, String> {
    let Some(text) = own.get("repeat") else {
        return Ok(None);
    };
    let parsed = text.parse().ok();
    let parsed = parsed.filter(|number| (1..=REPEAT_MAX).contains(number));
    let refusal = || format!("repeat={text} is no number of copies; use 1 to {REPEAT_MAX}");
    parsed.map(Some).ok_or_else(refusal)
}

/// The value of an option that is on or off.
fn switch(own: &BTreeMap<String, String>, name: &str, usual: bool) -> Result<bool, String> {
    match own.get(name).map(String::as_str) {
        None => Ok(usual),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(format!("{name}={other} is neither; use on or off")),
    }
}

/// A circuit's entity and its endpoint.
pub(super) struct End<W: Wire> {
    /// Circuits may share it.
    pub(super) endpoint: Arc<TransactionEndpoint<Engine, Traced<W>>>,
    pub(super) entity: EntityId,
    effective: BTreeMap<String, String>,
    pub(super) recv_timeout: Duration,
    /// The calls of its entity are a stream.
    pub(super) is_stream: bool,
    /// Its messages are datagrams.
    pub(super) is_one_way: bool,
    message_max: usize,
    /// It reports what the endpoint counts: of several circuits that share one, the first.
    is_first: bool,
}

/// What the wire of an end decides.
pub(super) struct Place {
    /// The discriminator of the end's entity.
    pub(super) discriminator: u64,
    /// Octets of a full packet, if no option says it.
    pub(super) packet_len: usize,
    /// Octets of the longest.
    pub(super) packet_max: usize,
    /// Other endpoints have the same address: packets for unknown entities are theirs.
    pub(super) shared_address: bool,
}

impl<W: Wire + Send + 'static> End<W> {
    pub(super) fn open<M: Medium<Wire = W>>(
        mut opened: OpenedWire<W>,
        options: &Options,
        place: &Place,
    ) -> io::Result<End<W>> {
        let settings = Settings::parse(&options.transport_specific, place.packet_max)
            .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?;
        let own = opened.local_address();
        let host = host_of(own);
        let usual = VmtpConfig::default();
        let config = VmtpConfig {
            datagram_copies: settings.repeat.unwrap_or(1),
            // Where nothing comes back, no probe is answered.
            packet_lifetime: match settings.is_one_way() {
                true => Duration::ZERO,
                false => usual.packet_lifetime,
            },
            packet_len: settings.packet_len.unwrap_or(place.packet_len),
            checksum: settings.checksum,
            host,
            shared_address: place.shared_address,
            seed: engine_setup::random_seed(),
            secret: engine_setup::random_secret(),
            ..usual
        };
        let message_max = config.message_max as usize;
        let layer = match &options.cells {
            None => None,
            // The rate of VMTP limits what is under way.
            Some(cells) => Some(cells::layer(cells, config.packet_len, 1)?),
        };
        let frame_len = layer
            .as_ref()
            .map_or(config.packet_len, |layer| layer.frame_max());
        let segmentation = M::segmentation(&mut opened.wire, true, frame_len)?;
        // Octets of requests of one packet group each that may be outstanding.
        let send_buffer = OUTSTANDING_MAX * engine_vmtp::blocks::GROUP_LEN as usize;
        let mut effective = BTreeMap::from([
            ("packet".into(), config.packet_len.to_string()),
            ("segmentation".into(), segmentation),
            ("send_buffer".into(), send_buffer.to_string()),
        ]);
        if settings.stream {
            effective.insert("stream".into(), "on".into());
        }
        if let Some(copies) = settings.repeat {
            effective.insert("repeat".into(), copies.to_string());
        }
        if let Some(config) = &options.cells {
            effective.insert("cells".into(), cells::name(config).into());
        }
        let engine = Engine::new(config);
        let wire = traced(opened.wire, own, options)?;
        let endpoint = match layer {
            None => TransactionEndpoint::new(engine, wire)?,
            Some(layer) => TransactionEndpoint::with_layer(engine, wire, layer)?,
        };
        let entity = entity(place.discriminator, host);
        endpoint.create_entity(entity)?;
        Ok(End {
            endpoint: Arc::new(endpoint),
            entity,
            effective,
            recv_timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            is_stream: settings.stream,
            is_one_way: settings.is_one_way(),
            message_max,
            is_first: true,
        })
    }

    /// The end of another circuit at the same endpoint, in the name of the same entity.
    pub(super) fn share(&self) -> End<W> {
        End {
            endpoint: Arc::clone(&self.endpoint),
            entity: self.entity,
            effective: self.effective.clone(),
            recv_timeout: self.recv_timeout,
            is_stream: self.is_stream,
            is_one_way: self.is_one_way,
            message_max: self.message_max,
            is_first: false,
        }
    }

    /// The end of another circuit at the same endpoint, with an entity of its own.
    pub(super) fn share_as(&self, entity: EntityId) -> io::Result<End<W>> {
        self.endpoint.create_entity(entity)?;
        Ok(End {
            entity,
            ..self.share()
        })
    }

    /// A copy of `octets`, in the memory of a message that was received before if there is such.
    pub(super) fn message(&self, spare: &mut Vec<u8>, octets: &[u8]) -> Message {
        if spare.capacity() < octets.len().max(1) {
            return self.endpoint.message(octets);
        }
        let mut message = std::mem::take(spare);
        message.clear();
        message.extend_from_slice(octets);
        Message::Own(message)
    }

    /// Keeps the memory of a short message that was received for the next one to be sent: the endpoint's has a lock.
    pub(super) fn keep_spare(&self, spare: &mut Vec<u8>, octets: Vec<u8>) {
        match spare.capacity() == 0 && octets.capacity() <= SPARE_MAX {
            true => *spare = octets,
            false => self.endpoint.recycle(octets),
        }
    }

    pub(super) fn check_len(&self, len: usize) -> io::Result<()> {
        if len <= self.message_max {
            return Ok(());
        }
        let text = format!(
            "a message of {len} bytes is longer than VMTP's {}; send smaller messages",
            self.message_max
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    pub(super) fn effective(&self) -> BTreeMap<String, String> {
        self.effective.clone()
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        if !self.is_first {
            return BTreeMap::from(
                ["send_calls", "receive_calls", "retransmissions"].map(|name| (name.into(), 0)),
            );
        }
        let calls = self.endpoint.wire_calls();
        let mut counts = BTreeMap::from([
            ("send_calls".into(), calls.sends),
            ("receive_calls".into(), calls.receives),
            ("packets_sent".into(), calls.packets_sent),
            (
                "retransmissions".into(),
                self.endpoint.counters().retransmissions,
            ),
        ]);
        parts::add_receive_drops(self.endpoint.receive_drops(), &mut counts);
        cells::add_counts(self.endpoint.layer_counts(), &mut counts);
        counts
    }
}

pub(super) fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

/// Neither end of a one-way circuit is answered.
pub(super) fn no_way_back() -> io::Error {
    let text = "repeat sends datagrams, and nothing comes back; leave it out, or send one way";
    io::Error::new(io::ErrorKind::Unsupported, text)
}
