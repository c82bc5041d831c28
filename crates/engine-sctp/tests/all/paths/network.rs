//! Two endpoints, two paths between them that can be cut, one clock.

use crate::support::PUSHED;
use core::time::Duration;
use engine::test_kit::written;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CloseReason, CommandError,
    Deliveries, Event, Instant, LocalAddress, Note, Path, Protocol, Received, Secret,
};
use engine_sctp::numbers::Tag;
use engine_sctp::pdu::auth::{CODE_AT, push_auth};
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::{ChunkType, Chunks, CommonHeader, HmacId, Init, KeyId, chunk::push_chunk};
use engine_sctp::{LocalAddresses, Notice, PathParameters, PathSummary, Sctp, SctpConfig};
use ring::hmac;
use std::collections::BTreeMap;

/// The end that opens the association.
pub const CLIENT: usize = 0;

/// The other one.
pub const SERVER: usize = 1;

/// From one end to the other, ms.
pub const DELAY_MS: u64 = 5;

/// RTO.Min, ms.
pub const RTO_MIN_MS: u64 = 50;

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// Of both ends; they differ by their seeds.
pub fn config() -> SctpConfig {
    let default = SctpConfig::default();
    SctpConfig {
        local_addresses: LocalAddresses::Stations(2),
        rto: congestion::RtoBounds {
            min: Duration::from_millis(RTO_MIN_MS),
            max: Duration::from_secs(2),
            ..default.rto
        },
        sack_delay: Duration::ZERO,
        heartbeat_interval: Duration::from_secs(1),
        ..default
    }
}

/// The path by medium `medium` to or from end `end`.
pub fn path_by(medium: u16, end: usize) -> Path {
    Path {
        local: LocalAddress(medium),
        remote: Address::Station(end as u32),
    }
}

/// A packet that an end sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub from: usize,
    pub path: u16,
    pub packet: Vec<u8>,
}

impl Sent {
    /// Whether it has a chunk of `kind`.
    pub fn has(&self, kind: ChunkType) -> bool {
        Chunks::new(&self.packet).any(|chunk| chunk.kind == kind)
    }
}

/// Two endpoints and what is under way between them.
pub struct Network {
    pub ends: [Sctp; 2],
    pub now: Instant,
    pub cut: [bool; 8],
    pub ids: [Option<AssociationId>; 2],
    /// User bytes given to each end, and those that its peer's user got from it.
    pub sent: [u64; 2],
    pub received: [u64; 2],
    pub closed: [Option<CloseReason>; 2],
    /// The client's user was told that it can send.
    pub is_connected: bool,
    pub notices: [Vec<Notice>; 2],
    pub trace: Vec<Sent>,
    in_transit: BTreeMap<(Instant, u64), Sent>,
    departures: u64,
    /// Bytes that the server's user sends as soon as it is told of the association.
    pub answers_at_once: Option<u64>,
    /// The number of the next ASCONF that a test makes.
    pub serial: u32,
}

impl Network {
    pub fn new(config: SctpConfig) -> Network {
        Network::of([config.clone(), config])
    }

    /// Each end has a configuration of its own.
    pub fn of(configs: [SctpConfig; 2]) -> Network {
        let mut seed = 0;
        let ends = configs.map(|config| {
            seed += 1;
            Sctp::new(SctpConfig {
                seed,
                secret: Secret::from_seed(seed),
                ..config
            })
        });
        Network {
            ends,
            now: Instant::from_nanos(MS),
            cut: [false; 8],
            ids: [None; 2],
            sent: [0; 2],
            received: [0; 2],
            closed: [None; 2],
            is_connected: false,
            notices: Default::default(),
            trace: Vec::new(),
            in_transit: BTreeMap::new(),
            departures: 0,
            answers_at_once: None,
            serial: 0,
        }
    }

    /// The client opens an association to the server.
    pub fn open(&mut self) {
        self.ends[SERVER].listen(true);
        let opened = self.ends[CLIENT].connect(self.now, &[Address::Station(SERVER as u32)]);
        self.ids[CLIENT] = Some(opened.expect("room for one"));
    }

    pub fn now_ms(&self) -> u64 {
        self.now.as_nanos() / MS
    }

    fn id(&self, end: usize) -> AssociationId {
        self.ids[end].expect("an association")
    }

    pub fn paths(&self, end: usize) -> Vec<PathSummary> {
        self.ends[end].paths(self.id(end))
    }

    /// A message of `len` bytes from `end`.
    pub fn send(&mut self, end: usize, len: u64) {
        self.sent[end] += len;
        let (id, position) = (self.id(end), self.sent[end]);
        self.ends[end].submit(self.now, id, position, PUSHED, &Note::default());
    }

    pub fn set_primary(&mut self, end: usize, medium: u16) -> Result<(), CommandError> {
        let id = self.id(end);
        self.ends[end].set_primary(id, path_by(medium, 1 - end))
    }

    pub fn request_heartbeat(&mut self, end: usize, medium: u16) -> Result<(), CommandError> {
        let id = self.id(end);
        self.ends[end].request_heartbeat(self.now, id, path_by(medium, 1 - end))
    }

    /// Changes what is decided of a path.
    pub fn set_path(
        &mut self,
        end: usize,
        medium: u16,
        change: impl FnOnce(&mut PathParameters),
    ) -> Result<(), CommandError> {
        let path = path_by(medium, 1 - end);
        let paths = self.paths(end);
        let known = paths.iter().find(|known| known.path == path);
        let mut parameters = known.ok_or(CommandError::Unsupported)?.parameters;
        change(&mut parameters);
        let id = self.id(end);
        self.ends[end].set_path_parameters(self.now, id, path, parameters)
    }

    pub fn close(&mut self, end: usize) {
        let id = self.id(end);
        self.ends[end].close(self.now, id, Close::Graceful);
    }

    pub fn abort(&mut self, end: usize) {
        let id = self.id(end);
        self.ends[end].close(self.now, id, Close::Abort);
    }

    /// A packet as `from` would send it, with one chunk.
    pub fn forge(&self, from: usize, kind: ChunkType, value: &[u8]) -> Vec<u8> {
        let genuine = self.trace.iter().rfind(|sent| {
            let header = CommonHeader::parse(&sent.packet);
            sent.from == from && header.is_some_and(|header| header.tag != Tag::NONE)
        });
        let genuine = genuine.expect("it sent something");
        let mut packet = genuine.packet[..12].to_vec();
        push_chunk(&mut packet, kind, 0, value);
        complete_checksum(&mut packet);
        packet
    }

    /// A packet as `from` would send it, with chunks behind an AUTH by the empty key.
    pub fn sealed(&self, from: usize, chunks: &[u8]) -> Vec<u8> {
        let mut packet = self.forge(from, ChunkType::PAD, &[])[..12].to_vec();
        let mut sealed = Vec::new();
        push_auth(&mut sealed, KeyId(0), HmacId::SHA256);
        sealed.extend_from_slice(chunks);
        let code = hmac::sign(&self.association_key(), &sealed);
        sealed[CODE_AT..CODE_AT + 32].copy_from_slice(code.as_ref());
        packet.extend(sealed);
        complete_checksum(&mut packet);
        packet
    }

    /// The key of the association with the empty shared key, from the handshake (RFC 4895 section 6.1).
    fn association_key(&self) -> hmac::Key {
        let handshake = [ChunkType::INIT, ChunkType::INIT_ACK];
        let first = |sent: &Sent| {
            Chunks::new(&sent.packet)
                .next()
                .expect("a chunk")
                .value
                .to_vec()
        };
        let inits = handshake.map(|kind| {
            let sent = self.trace.iter().find(|sent| sent.has(kind));
            Init::parse(&first(sent.expect("a handshake"))).expect("well formed")
        });
        let mut vectors = inits.map(|init| init.parameters.auth.expect("both can").key_vector());
        vectors.sort_by_key(|vector| (vector.len(), vector.clone()));
        hmac::Key::new(hmac::HMAC_SHA256, &vectors.concat())
    }

    /// A packet arrives at `to` by `path`. What it answers is dropped.
    pub fn inject(&mut self, to: usize, path: Path, packet: &[u8]) {
        self.arrive(to, path, packet);
        packets(&mut self.ends[to], self.now);
    }

    pub fn arrive(&mut self, to: usize, path: Path, packet: &[u8]) {
        let mut deliveries = Deliveries::default();
        self.ends[to].handle_packet(self.now, Received::new(path, packet), &mut deliveries);
        for delivery in &deliveries.bytes {
            let len = match &delivery.bytes {
                Bytes::Packet(range) => range.len() as u64,
                Bytes::Reassembled(bytes) => bytes.len() as u64,
            };
            self.received[to] += len;
            self.ends[to].consume(self.now, delivery.association, len);
        }
    }

    /// Packets leave and arrive and timers expire up to `until_ms`.
    pub fn run_until(&mut self, until_ms: u64) {
        let until = Instant::from_nanos(until_ms * MS);
        loop {
            self.depart();
            let arrival = self.in_transit.keys().next().map(|(at, _)| *at);
            let timers = self.ends.iter().filter_map(Sctp::poll_timeout);
            let next = timers.chain(arrival).min().filter(|at| *at <= until);
            let Some(next) = next else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(next);
            while let Some(first) = self.in_transit.first_entry()
                && first.key().0 <= self.now
            {
                let sent = first.remove();
                self.arrive(1 - sent.from, path_by(sent.path, sent.from), &sent.packet);
            }
            for end in [CLIENT, SERVER] {
                self.ends[end].handle_timeout(self.now);
            }
        }
    }

    /// All that wants to leave does, by paths that are not cut.
    fn depart(&mut self) {
        for from in [CLIENT, SERVER] {
            self.note_events(from);
            for (path, packet) in packets(&mut self.ends[from], self.now) {
                let path = path.local.0;
                let sent = Sent { from, path, packet };
                self.trace.push(sent.clone());
                if !self.cut[usize::from(path)] {
                    self.departures += 1;
                    let at = self.now + Duration::from_millis(DELAY_MS);
                    self.in_transit.insert((at, self.departures), sent);
                }
            }
            self.note_events(from);
        }
    }

    fn note_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Accepted(id, _) => {
                    self.ids[end] = Some(id);
                    if let Some(len) = self.answers_at_once {
                        self.send(end, len);
                    }
                }
                Event::Connected(_) => self.is_connected = true,
                Event::Closed(_, reason) => self.closed[end] = Some(reason),
                _ => {}
            }
        }
        while let Some(notice) = self.ends[end].poll_notice() {
            self.notices[end].push(notice);
        }
    }
}

/// Everything an endpoint sends now, and by which path.
pub fn packets(engine: &mut Sctp, now: Instant) -> Vec<(Path, Vec<u8>)> {
    let mut all = Vec::new();
    let mut batch = Batch::new(16);
    loop {
        batch.clear();
        engine.poll_transmit(now, &mut batch);
        let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
            return all;
        };
        let sent = written(&batch, |_, range, out| out.extend(range.clone().map(|_| 5)));
        all.extend(sent.into_iter().map(|octets| (path, octets)));
    }
}
