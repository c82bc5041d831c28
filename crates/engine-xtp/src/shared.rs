//! What the procedures of all associations share.

use crate::api::{Config, ErrorControl, FlowControl, SpanMeaning};
use crate::pdu::{
    Body, Diag, DiagCode, DiagValue, Format, HEADER_LEN, Header, Options, Packet, Reject, Rejects,
    Service,
};
use crate::procedure::three::{self, Link};
use crate::ready::Ready;
use crate::routes::Routes;
use engine::{Address, AssociationId, Counters, Event, Instant, SplitMix64};
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// When to look after the timers of which circuit: one entry each at most.
    pub(crate) timers: BTreeSet<(Instant, AssociationId)>,
    pub(crate) events: VecDeque<Event>,
    /// Slots whose contexts may have something to send, served in turn.
    pub(crate) ready: Ready,
    /// Packets that belong to no context.
    pub(crate) answers: VecDeque<(Address, Vec<u8>)>,
    pub(crate) counters: Counters,
    pub(crate) rejects: Rejects,
    pub(crate) random: SplitMix64,
    pub(crate) listening: bool,
    /// An association has, or had, a priority.
    pub(crate) sorted: bool,
    /// User bytes in a full packet.
    payload: u64,
    /// The route in the header of an answer to the packet at hand, in the third revision.
    pub(crate) came_by: u32,
    /// The neighbours' routes, in the third revision.
    pub(crate) routes: Routes,
    /// Memory to build packets in.
    pub(crate) scratch: Vec<u8>,
}

/// Answers kept for the wire at most. Beyond it answers are dropped; their askers ask again.
const ANSWERS_MAX: usize = 1024;

impl Shared {
    pub(crate) fn new(config: Config) -> Shared {
        let config = fitted(config);
        Shared {
            payload: payload(&config),
            came_by: 0,
            routes: Routes::default(),
            random: SplitMix64::new(config.seed),
            config,
            timers: BTreeSet::new(),
            events: VecDeque::new(),
            ready: Ready::default(),
            answers: VecDeque::new(),
            counters: Counters::default(),
            rejects: Rejects::default(),
            listening: false,
            sorted: false,
            scratch: Vec::new(),
        }
    }

    /// User bytes in a full DATA packet.
    #[inline]
    pub(crate) fn payload_max(&self) -> u64 {
        self.payload
    }

    /// Octets of a packet with `bytes` behind its header, padding included.
    #[inline]
    pub(crate) fn packet_len(&self, bytes: u64) -> usize {
        let dialect = self.config.dialect;
        if dialect.is_three() {
            return dialect.overhead() + (bytes as usize).next_multiple_of(4).max(4);
        }
        HEADER_LEN + bytes as usize
    }

    /// Octets of a control packet that says the least.
    pub(crate) fn control_len(&self) -> usize {
        self.config.dialect.overhead() + self.config.dialect.control_len()
    }

    /// Octets of a control packet that brings a key.
    pub(crate) fn key_len(&self) -> usize {
        if self.config.dialect.is_three() {
            self.control_len()
        } else {
            TCNTL_LEN
        }
    }

    /// Builds `packet`, which has no user bytes, in the scratch memory.
    pub(crate) fn emit(&mut self, packet: &Packet<'_>, link: &Link) {
        if self.config.dialect.is_three() {
            self.scratch = three::emit(self, packet, link);
        } else {
            packet.emit_summed(&mut self.scratch);
        }
    }

    /// Unsent bytes that leave whatever is on its way.
    pub(crate) fn high_water(&self) -> u64 {
        self.config.high_water.unwrap_or(self.payload_max())
    }

    pub(crate) fn count_built(&mut self, bytes: u64) {
        self.counters.packets_built += 1;
        self.counters.bytes_sent += bytes;
    }

    /// Options every packet of an association with `service` carries.
    pub(crate) fn options(&self, service: Service) -> Options {
        let config = &self.config;
        let deaf = matches!(service, Service::Datagram | Service::Isochronous);
        let noerr = config.error == ErrorControl::None || deaf;
        let noflow = config.flow == FlowControl::Off || deaf;
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
    pub(crate) fn answer(&mut self, to: Address, packet: &Packet<'_>, link: &Link) {
        self.emit(packet, link);
        let octets = self.scratch.clone();
        self.queue(to, octets);
    }

    /// Queues octets that belong to no context.
    pub(crate) fn queue(&mut self, to: Address, octets: Vec<u8>) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((to, octets));
        }
    }

    /// Queues a DIAG of at most `octets_max` octets, without its text if need be. A peer whose
    /// address is not proven gets no more than it sent.
    pub(crate) fn diagnose(
        &mut self,
        to: Address,
        key: u64,
        code: DiagCode,
        value: DiagValue,
        octets_max: usize,
        link: &Link,
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
        self.answer(
            to,
            &Packet {
                header: plain(key, Format::Diag),
                body: Body::Diag(diag),
            },
            link,
        );
    }

    /// Counts a dropped packet.
    pub(crate) fn reject(&mut self, reason: Reject) {
        self.rejects.count(reason);
        self.counters.packets_discarded += 1;
    }
}

/// Octets of a TCNTL that says nothing about rates.
const TCNTL_LEN: usize = HEADER_LEN + 20 + 12 + 8;

/// User bytes in a full packet.
fn payload(config: &Config) -> u64 {
    let room = config.packet_len - config.dialect.overhead();
    (room - room % config.dialect.grain()) as u64
}

/// Windows of a revision with 32-bit numbers: a quarter of them, so that old and new are apart.
const WINDOW_MAX: u64 = 1 << 30;

/// `config` with what its dialect demands.
fn fitted(config: Config) -> Config {
    let dialect = config.dialect;
    if !dialect.is_three() {
        return config;
    }
    let pairs = dialect.overhead() + dialect.control_len() + 128;
    Config {
        window: config.window.min(WINDOW_MAX),
        initial_window: config.initial_window.min(WINDOW_MAX),
        spans: SpanMeaning::Missing,
        gateway: config.gateway.filter(|_| config.routes),
        fixed_pairs: config.fixed_pairs && config.packet_len >= pairs,
        ..config
    }
}

/// A header with nothing but a key; the length and the checksum are worked out later.
pub(crate) fn plain(key: u64, format: Format) -> Header {
    Header {
        key,
        options: Options::NONE,
        format,
        dlen: 0,
        check: 0,
        sort: 0,
        sync: 0,
        seq: 0,
    }
}
