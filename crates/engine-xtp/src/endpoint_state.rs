//! State of an endpoint that all its associations share.

use crate::codec::{Codec, HeaderContext};
use crate::config::{Config, ErrorControl, FlowControl, SpanMeaning};
use crate::cookies::Cookies;
use crate::numbers::SyncNumber;
use crate::pdu::{
    Body, Diag, DiagCode, DiagValue, Format, Header, Options, Packet, Reject, Rejects, Service,
};
#[cfg(test)]
use crate::procedure::prediction::Predictions;
use crate::procedure::prediction::{CalledSegments, LastOpening};
use crate::ready_queue::ReadyQueue;
use crate::refusals::Refusals;
use crate::routes::Routes;
use engine::{Address, AssociationId, Counters, Event, Instant, KeyedStream, Purpose, TimerTable};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) config: Arc<Config>,
    pub(crate) codec: Codec,
    /// Timer queue: at most one entry for each association.
    pub(crate) timers: TimerTable<AssociationId>,
    pub(crate) events: VecDeque<Event>,
    /// Slots whose contexts may have something to send.
    pub(crate) ready_queue: ReadyQueue,
    /// Packets that belong to no context.
    pub(crate) stateless_replies: VecDeque<(Address, Vec<u8>)>,
    pub(crate) stranger_replies: ReplyLimit,
    pub(crate) counters: Counters,
    pub(crate) rejects: Rejects,
    pub(crate) keys: KeyedStream,
    pub(crate) rng: KeyedStream,
    pub(crate) cookies: Cookies,
    pub(crate) listening: bool,
    /// An association has, or had, a sort value.
    pub(crate) uses_sort: bool,
    /// User bytes in a full packet.
    payload_max: u64,
    /// Route in the header of a reply to the current packet (XTP 3.x).
    pub(crate) reply_route: u32,
    /// Sync of the current packet (XTP 3.x).
    pub(crate) reply_sync: SyncNumber,
    /// Routes shared with neighbours (XTP 3.x).
    pub(crate) routes: Routes,
    /// Why peers refused openings.
    pub(crate) refusals: Refusals,
    /// Buffer to build packets in.
    pub(crate) scratch: Vec<u8>,
    /// What the last opening asked for that was accepted.
    pub(crate) last_opening: LastOpening,
    /// Whom and what the last FIRST called that was sent.
    pub(crate) called_segments: CalledSegments,
    /// Packets as predicted go the short way, which knows those of 4.0.
    pub(crate) predicts: bool,
    #[cfg(test)]
    pub(crate) predictions: Predictions,
}

/// Limit of queued stateless replies. More are dropped; the peers repeat their packets.
const STATELESS_REPLIES_MAX: usize = 1024;

/// Answers to peers without an association, which say why there is none: so many a second are enough
/// for all who look for a fault. Cookies are not among them.
const STRANGER_REPLIES_PER_S: u32 = 1000;

/// How many of them went out in the current second.
#[derive(Debug, Default)]
pub(crate) struct ReplyLimit {
    second: u64,
    sent: u32,
}

impl ReplyLimit {
    /// Whether another one may go out now; counts it.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.sent) = (second, 0);
        }
        self.sent = self.sent.saturating_add(1);
        self.sent <= STRANGER_REPLIES_PER_S
    }
}

impl EndpointState {
    /// The state of an endpoint that draws from `stream`.
    pub(crate) fn new(config: Arc<Config>, stream: impl Fn(Purpose) -> KeyedStream) -> Self {
        let codec = Codec::new(config.version, config.packet_len, config.hop_limit);
        let config = fit_to(codec, config);
        EndpointState {
            codec,
            predicts: matches!(codec, Codec::V40),
            payload_max: config.version.payload_max(config.packet_len),
            reply_route: 0,
            reply_sync: SyncNumber::NONE,
            routes: Routes::default(),
            keys: stream(Purpose::Keys),
            rng: stream(Purpose::Visible),
            cookies: Cookies::new(&config, stream(Purpose::Cookies)),
            config,
            timers: TimerTable::new(),
            events: VecDeque::new(),
            ready_queue: ReadyQueue::default(),
            stateless_replies: VecDeque::new(),
            stranger_replies: ReplyLimit::default(),
            counters: Counters::default(),
            rejects: Rejects::default(),
            listening: false,
            uses_sort: false,
            refusals: Refusals::default(),
            scratch: Vec::new(),
            last_opening: LastOpening::default(),
            called_segments: CalledSegments::default(),
            #[cfg(test)]
            predictions: Predictions::default(),
        }
    }

    /// User bytes in a full DATA packet.
    #[inline]
    pub(crate) fn payload_max(&self) -> u64 {
        self.payload_max
    }

    /// User bytes in a full DATA packet of `packet_len` octets.
    pub(crate) fn payload_of(&self, packet_len: usize) -> u64 {
        self.config.version.payload_max(packet_len)
    }

    /// Length of a packet with `bytes` behind its header, padding included.
    #[inline]
    pub(crate) fn packet_len(&self, bytes: u64) -> usize {
        self.config.version.packet_len(bytes)
    }

    /// Length of the shortest control packet.
    pub(crate) fn control_len(&self) -> usize {
        self.config.version.overhead() + self.config.version.control_len()
    }

    /// Length of a control packet that carries this side's key.
    pub(crate) fn key_packet_len(&self) -> usize {
        self.codec.key_packet_len()
    }

    /// Encodes `packet`, which has no user bytes, into the scratch buffer.
    pub(crate) fn emit(&mut self, packet: &Packet<'_>, header_context: &HeaderContext) {
        self.codec.emit(packet, header_context, &mut self.scratch);
    }

    /// Unsent bytes that are sent no matter how many are in flight.
    pub(crate) fn high_water(&self) -> u64 {
        self.config.high_water.unwrap_or(self.payload_max())
    }

    pub(crate) fn count_packet_built(&mut self, bytes: u64) {
        self.counters.packets_built += 1;
        self.counters.bytes_sent += bytes;
    }

    /// Option bits of every packet of an association with `service` (0007, Services).
    pub(crate) fn service_options(&self, service: Service) -> Options {
        let config = &self.config;
        let unacknowledged = matches!(service, Service::Datagram | Service::Isochronous);
        let noerr = config.error == ErrorControl::None || unacknowledged;
        let noflow = config.flow == FlowControl::Off || unacknowledged;
        Options::NONE
            .with(Options::NOERR, noerr)
            .with(Options::FASTNAK, config.fastnak)
            .with(Options::NOFLOW, noflow)
            .with(
                Options::RES,
                config.flow == FlowControl::Reservation || service == Service::Bulk,
            )
    }

    /// Queues a packet that belongs to no context.
    pub(crate) fn queue_reply(
        &mut self,
        to: Address,
        packet: &Packet<'_>,
        header_context: &HeaderContext,
    ) {
        self.emit(packet, header_context);
        let octets = self.scratch.clone();
        self.queue_octets(to, octets);
    }

    /// Queues an encoded packet that belongs to no context.
    pub(crate) fn queue_octets(&mut self, to: Address, octets: Vec<u8>) {
        if self.stateless_replies.len() < STATELESS_REPLIES_MAX {
            self.stateless_replies.push_back((to, octets));
        }
    }

    /// Queues a DIAG. The text is left out beyond `octets_max`: an unvalidated address gets no more
    /// than it sent (0007, Address validation).
    pub(crate) fn queue_diag(
        &mut self,
        to: Address,
        key: u64,
        code: DiagCode,
        value: DiagValue,
        octets_max: usize,
        header_context: &HeaderContext,
    ) {
        let text: &[u8] = match value {
            DiagValue::NO_LISTENER => b"no listener\0",
            DiagValue::NO_PROVIDER => b"no provider\0",
            DiagValue::NO_RESOURCE => b"no resource\0",
            DiagValue::MALFORMED_ADDRESS => b"malformed address\0",
            DiagValue::MALFORMED_TRAFFIC => b"malformed traffic\0",
            _ => b"",
        };
        let fits = self.packet_len(8 + text.len() as u64) <= octets_max;
        let diag = Diag {
            code,
            value,
            text: if fits { text } else { b"" },
        };
        self.queue_reply(
            to,
            &Packet {
                header: plain_header(key, Format::Diag),
                body: Body::Diag(diag),
            },
            header_context,
        );
    }

    /// What 3.x has in the header of a reply to the current packet, which belongs to no association.
    pub(crate) fn reply_context(&self) -> HeaderContext {
        HeaderContext {
            route: self.reply_route,
            returned_sync: self.reply_sync,
            ..HeaderContext::default()
        }
    }

    /// Counts a dropped packet.
    pub(crate) fn reject(&mut self, reason: Reject) {
        self.rejects.record(reason);
        self.counters.packets_discarded += 1;
    }
}

/// `config` adjusted to what the packets of its version can say.
fn fit_to(codec: Codec, config: Arc<Config>) -> Arc<Config> {
    let version = config.version;
    if matches!(codec, Codec::V40) {
        return match config.routes {
            false => config,
            true => Arc::new(Config {
                routes: false,
                ..(*config).clone()
            }),
        };
    }
    let pairs = version.overhead() + version.control_len() + 128;
    Arc::new(Config {
        window: config.window.min(codec.window_max()),
        initial_window: config.initial_window.min(codec.window_max()),
        spans: SpanMeaning::Missing,
        gateway: config.gateway.filter(|_| config.routes),
        fixed_pairs: config.fixed_pairs && config.packet_len >= pairs,
        ..(*config).clone()
    })
}

/// A header with a key only. Length and checksum are filled in by the encoder.
pub(crate) fn plain_header(key: u64, format: Format) -> Header {
    Header {
        key,
        options: Options::NONE,
        format,
        dlen: 0,
        check: 0,
        sort: 0,
        sync: SyncNumber::NONE,
        seq: 0,
    }
}
