//! What the targets of SCTP check; the tests of `engine-sctp` run the same on random octets.
#![allow(dead_code, reason = "each target uses its own part")]

use core::time::Duration;
use engine::test_kit::{positions, take_packets};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Bytes, Close, Deliveries, Event,
    Instant, Note, Protocol, Received, Reliability, Secret, SendFlags,
};
use engine_sctp::numbers::{LongTsn, StreamId};
use engine_sctp::pdu::cause::causes;
use engine_sctp::pdu::cookie::CookieKeys;
use engine_sctp::pdu::forward_tsn::push_forward_tsn;
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::i_data::I_DATA_FIELDS_LEN;
use engine_sctp::pdu::parameter::parameters;
use engine_sctp::pdu::{
    AuthChunk, ChunkType, Chunks, CommonHeader, Cookie, DataHeader, ForwardTsn, IDataHeader, Init,
    InitParameters, ReconfigParameter, Sack,
};
use engine_sctp::{Authentication, Scheduler, Sctp, SctpConfig, StreamDirection};

/// All of them.
pub const SCHEDULERS: [Scheduler; 6] = [
    Scheduler::Fcfs,
    Scheduler::RoundRobin,
    Scheduler::RoundRobinPacket,
    Scheduler::Priority,
    Scheduler::FairBandwidth,
    Scheduler::Weighted,
];

/// Decodes a packet in every way; an INIT that is valid is written as it is read.
pub fn packet(octets: &[u8]) {
    let _ = CommonHeader::parse(octets);
    for chunk in Chunks::new(octets) {
        assert_eq!(chunk.value, &octets[chunk.at.clone()]);
        if let Ok(init) = Init::parse(chunk.value) {
            let mut again = Vec::new();
            init.push(&mut again, ChunkType::INIT_ACK);
            let reread = Chunks::new(&[&[0; 12][..], &again].concat())
                .next()
                .map(|chunk| {
                    Init::parse(chunk.value).map(|again| {
                        let InitParameters {
                            addresses, auth, ..
                        } = again.parameters;
                        (again.tag, addresses, auth)
                    })
                });
            let InitParameters {
                addresses, auth, ..
            } = init.parameters;
            assert_eq!(reread, Some(Ok((init.tag, addresses, auth))));
        }
        if let Some(sack) = Sack::parse(chunk.value) {
            assert!(sack.gaps().all(|block| !block.is_empty()));
            let first = LongTsn::first(sack.cumulative);
            assert_eq!(first.nearest(sack.cumulative), first);
        }
        let _ = DataHeader::parse(chunk.flags, chunk.value);
        if let Some(header) = IDataHeader::parse(chunk.flags, chunk.value) {
            let again = header.emit(chunk.value.len() - I_DATA_FIELDS_LEN);
            assert_eq!(IDataHeader::parse(again[1], &again[4..]), Some(header));
        }
        if let Some(auth) = AuthChunk::parse(chunk.value) {
            assert_eq!(auth.code.len() + 4, chunk.value.len());
        }
        for kind in [ChunkType::FORWARD_TSN, ChunkType::I_FORWARD_TSN] {
            forward_tsn(kind, chunk.value);
        }
        if let Some(found) = ReconfigParameter::parse_all(chunk.value) {
            assert!((1..=2).contains(&found.len()));
        }
        assert!(causes(chunk.value).count() <= chunk.value.len() / 4);
        assert!(parameters(chunk.value).count() <= chunk.value.len() / 4);
    }
}

/// What is read of a FORWARD-TSN or I-FORWARD-TSN is written so.
fn forward_tsn(kind: ChunkType, value: &[u8]) {
    let Some(forward) = ForwardTsn::parse(kind, value) else {
        return;
    };
    let mut again = Vec::new();
    let interleaved = kind == ChunkType::I_FORWARD_TSN;
    push_forward_tsn(
        &mut again,
        interleaved,
        forward.cumulative,
        forward.streams(),
    );
    let reread = ForwardTsn::parse(kind, &again[4..]).expect("it was just written");
    assert!(reread.streams().eq(forward.streams()));
}

/// Octets that nobody made are no cookie.
pub fn cookie(octets: &[u8]) {
    let keys = CookieKeys::new(Secret::from_seed(7), 7);
    assert_eq!(Cookie::open(octets, &keys, Instant::from_nanos(5)), None);
}

/// Takes octets of a script.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn octet(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<usize> {
        Some(usize::from(self.octet()?) << 8 | usize::from(self.octet()?))
    }
}

/// Two endpoints whose packets a script loses, doubles, reorders and changes. Returns user bytes
/// delivered; None for an empty script.
pub fn script(octets: &[u8]) -> Option<usize> {
    let mut script = Script(octets);
    let seed = u64::from(script.octet()?);
    let mut pair = Pair::new(seed);
    // Each step costs the script two octets at least.
    while let (Some(step), Some(argument)) = (script.octet(), script.octet()) {
        let from = usize::from(step >> 7);
        match step & 0x0f {
            0..=2 => pair.now += u64::from(argument).pow(2) * 100_000,
            3 | 4 => pair.submit(from, u64::from(argument) * 40, step & 0x40 != 0),
            5 => pair.connect(),
            6 => pair.close(from, argument),
            7 => {
                pair.waiting.pop();
            }
            8 => pair.waiting.extend(pair.waiting.last().cloned()),
            9 => {
                let len = pair.waiting.len().max(1);
                pair.waiting.rotate_left(usize::from(argument) % len);
            }
            12 => pair.reconfigure(from, argument),
            10 | 11 => pair.change(script.number().unwrap_or(0), argument),
            _ => pair.deliver(usize::from(argument)),
        }
        pair.step();
    }
    Some(pair.delivered)
}

struct Pair {
    ends: [Sctp; 2],
    ids: [Vec<AssociationId>; 2],
    ends_of_stores: [u64; 2],
    /// Packets on their way, and who sent them.
    waiting: Vec<(usize, Vec<u8>)>,
    now: u64,
    delivered: usize,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let ends = [0, 1].map(|end| {
            let mut engine = Sctp::new(SctpConfig {
                seed: 2 * seed + end,
                secret: Secret::from_seed(2 * seed + end),
                receive_buffer: 1500 + 5000 * (seed % 4),
                associations_max: 4,
                connects_early: seed.is_multiple_of(7),
                checksum: !seed.is_multiple_of(8),
                interleave: seed.is_multiple_of(3),
                scheduler: SCHEDULERS[(seed % 6) as usize],
                send_buffer: 3000,
                report_unacknowledged: seed.is_multiple_of(2),
                authentication: match seed % 5 {
                    1 => Some(Authentication::of_everything()),
                    2 => Some(Authentication::default()),
                    _ => None,
                },
                ..SctpConfig::default()
            });
            engine.listen(true);
            engine
        });
        Pair {
            ends,
            ids: Default::default(),
            ends_of_stores: [0; 2],
            waiting: Vec::new(),
            now: 1,
            delivered: 0,
        }
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn connect(&mut self) {
        let now = self.instant();
        if let Ok(id) = self.ends[0].connect(now, &[Address::Station(1)]) {
            self.ids[0].push(id);
        }
    }

    fn submit(&mut self, end: usize, bytes: u64, unordered: bool) {
        let (now, note) = (
            self.instant(),
            Note {
                stream: (bytes % 3) as u16,
                unordered,
                reliability: match bytes / 40 % 5 {
                    0 => Reliability::Lifetime(Duration::from_millis(bytes % 9)),
                    1 => Reliability::Retransmissions(0),
                    2 => Reliability::Priority((bytes % 7) as u16),
                    _ => Reliability::Full,
                },
                ..Note::default()
            },
        );
        self.ends_of_stores[end] += bytes;
        let flags = SendFlags {
            push: true,
            ..SendFlags::END_OF_MESSAGE
        };
        for id in &self.ids[end] {
            self.ends[end].submit(now, *id, self.ends_of_stores[end], flags, &note);
        }
    }

    fn close(&mut self, end: usize, argument: u8) {
        let now = self.instant();
        let how = if argument < 200 {
            Close::Graceful
        } else {
            Close::Abort
        };
        if let Some(id) = self.ids[end].first() {
            self.ends[end].close(now, *id, how);
        }
    }

    fn reconfigure(&mut self, end: usize, argument: u8) {
        let now = self.instant();
        let direction = match argument & 1 {
            0 => StreamDirection::Outgoing,
            _ => StreamDirection::Incoming,
        };
        let streams = [StreamId(u16::from(argument >> 4 & 3))];
        for id in &self.ids[end] {
            // Refused before an association is open, and while others wait.
            let _ = match argument & 6 {
                0 => self.ends[end].reset_streams(now, *id, direction, &[]),
                6 => self.ends[end].add_streams(now, *id, direction, u16::from(argument) << 4),
                _ => self.ends[end].reset_streams(now, *id, direction, &streams),
            };
        }
    }

    fn change(&mut self, at: usize, value: u8) {
        if let Some((_, packet)) = self.waiting.last_mut() {
            let at = at % packet.len();
            packet[at] = value;
            complete_checksum(packet);
        }
    }

    fn deliver(&mut self, count: usize) {
        let now = self.instant();
        let mut deliveries = Deliveries::default();
        for (from, packet) in self.waiting.drain(..count.min(self.waiting.len())) {
            let received = Received::new(Address::Station(from as u32), &packet);
            self.ends[1 - from].handle_packet(now, received, &mut deliveries);
            for delivery in deliveries.bytes.drain(..) {
                let len = match &delivery.bytes {
                    Bytes::Packet(range) => packet[range.clone()].len(),
                    Bytes::Reassembled(bytes) => bytes.len(),
                };
                self.delivered += len;
                self.ends[1 - from].consume(now, delivery.association, len as u64);
            }
        }
    }

    fn step(&mut self) {
        let now = self.instant();
        for from in 0..2 {
            self.ends[from].handle_timeout(now);
            let sent = take_packets(&mut self.ends[from], now, 16, positions);
            (self.waiting).extend(sent.into_iter().map(|(_, octets)| (from, octets)));
            while let Some(event) = self.ends[from].poll_event() {
                match event {
                    Event::Accepted(id, _) => self.ids[from].push(id),
                    Event::Closed(id, _) => self.ids[from].retain(|known| *known != id),
                    _ => {}
                }
            }
        }
        // Nothing waits for ever: what is too much is lost.
        self.waiting.truncate(500);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let now = self.instant();
        for (end, ids) in self.ends.iter_mut().zip(&self.ids) {
            ids.iter().for_each(|id| end.abort(now, *id));
            assert!(std::thread::panicking() || end.associations_len() <= 4);
        }
    }
}
