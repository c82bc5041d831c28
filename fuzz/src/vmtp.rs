//! An endpoint of VMTP, driven by a script of packets, commands and time steps; any octets are one.
//!
//! The endpoint calls an entity at a peer and is called. The script builds packets from its octets,
//! sends the endpoint's own packets back to it, changed, and says what its users do. Its host checks
//! what a host relies on.

#![allow(dead_code, reason = "each target uses one of the functions")]

#[path = "vmtp_packets.rs"]
mod packets;

use engine::test_kit::{Reached, ScriptHost, ScriptRules};
use engine::{CallFlags, CallNote, EntityId, Note, Reliability, Transactions};
use engine_vmtp::blocks::BlockMask;
use engine_vmtp::pdu::{Control, Flags, VmtpHeader, packet};
use engine_vmtp::{Vmtp, VmtpConfig};
use packets::{management, request, sign, wishing_request};
use std::time::Duration;

const PACKET_LEN: usize = 1100;
const MESSAGE_MAX: u32 = 40_000;
const RECORDS_MAX: usize = 4;
const ENTITIES_MAX: usize = 6;
const BASE: u64 = 0x0000_0001_f000_0000;

/// The endpoint's second entity, and a group that the first is a member of.
const SECOND: EntityId = EntityId(2);
const GROUP: EntityId = EntityId(1 << 62 | 7 << 32);

/// Calls of a stream that are not answered, at most.
const RUN_MAX: usize = 64;

/// A packet of any octets: an accepted one is written again as it was.
pub fn parse(octets: &[u8]) {
    if let Ok(header) = packet::parse(octets) {
        assert_eq!(header.emit()[..], octets[..64]);
        assert_eq!(octets.len(), 68 + header.data_len());
        assert!(header.message_in_header().end <= 56);
    }
}

/// Runs the script.
pub fn script(octets: &[u8]) -> Reached {
    let mut run = Run::new(octets.first().is_some_and(|octet| octet & 1 == 1));
    for step in octets.chunks(5) {
        let at = |index: usize| step.get(index).copied().unwrap_or(0);
        run.step(at(0) % 14, [at(1), at(2), at(3), at(4)]);
        run.host.drain();
        assert!(run.host.engine.records() <= RECORDS_MAX);
    }
    run.host.end();
    let engine = &run.host.engine;
    assert_eq!(engine.transactions(), 0, "transactions are left");
    assert_eq!(engine.records(), 0, "records are left");
    run.host.reached
}

/// The endpoint, and what its host knows.
type Host = ScriptHost<Vmtp>;

struct Run {
    host: Host,
    /// A call that goes on after a reply was made.
    wants_many: bool,
}

impl Run {
    fn new(is_settled: bool) -> Run {
        let lifetime = if is_settled { 0 } else { 100 };
        let mut engine = Vmtp::new(VmtpConfig {
            packet_len: PACKET_LEN,
            message_max: MESSAGE_MAX,
            entity_base: BASE,
            packet_lifetime: Duration::from_millis(lifetime),
            retries_max: 3,
            entities_max: ENTITIES_MAX,
            records_max: RECORDS_MAX,
            ..VmtpConfig::default()
        });
        engine.create_entity(EntityId(0)).expect("room for one");
        engine.create_entity(SECOND).expect("room for two");
        engine.locate(EntityId(1), Host::PEER);
        engine.locate(GROUP, Host::PEER);
        let joined = engine.set_member(GROUP, EntityId(0), true);
        joined.expect("it is its own");
        let rules = ScriptRules {
            packet_len: PACKET_LEN,
            message_max: MESSAGE_MAX,
            is_packet: |octets| packet::parse(octets).is_ok(),
            blocks_overlap: false,
            copies: true,
        };
        Run {
            host: Host::new(engine, rules),
            wants_many: false,
        }
    }

    fn step(&mut self, code: u8, [a, b, c, d]: [u8; 4]) {
        match code {
            0 => self.arrive(&[a, b, c, d]),
            1..=3 => self.arrive(&request([a, b, c, d])),
            4 => self.call(u64::from(b) << (c & 7), a & 7 == 0),
            5 => {
                let len = u64::from(b) << (c & 7);
                self.host.reply(usize::from(a), len, &note(d & 7 == 0));
            }
            6 if a & 3 == 0 => self.host.abandon(usize::from(b)),
            6 | 7 => self.host.wait(u64::from(a) << (b & 15)),
            8 => self.host.transmit(usize::from(a & 3) + 1),
            10 => self.call_wishing([a, b, c, d]),
            11 => self.forward(usize::from(a), b, u64::from(c)),
            12 => self.arrive(&wishing_request([a, b, c, d])),
            13 => self.arrive(&management([a, b, c, d])),
            _ => self.send_back(usize::from(a), b, [c, d]),
        }
    }

    fn arrive(&mut self, octets: &[u8]) {
        self.host.arrive(octets);
        // Members of a group may each have sent a part of a reply. One message may replace another,
        // whose end is not known yet.
        assert!(
            self.wants_many || self.host.incoming.len() <= RECORDS_MAX + self.host.calls.len() + 1,
            "more messages than transactions"
        );
    }

    fn call(&mut self, len: u64, once: bool) {
        if self.host.call(EntityId(0), EntityId(1), len, &note(once)) {
            let most = 2 * ENTITIES_MAX + 3 * RUN_MAX;
            assert!(self.host.calls.len() <= most, "more calls than may be");
        }
    }

    /// A call with wishes: of the peer, of the endpoint itself, of a group or in a stream.
    fn call_wishing(&mut self, [a, b, c, d]: [u8; 4]) {
        let len = u64::from(b) << (c & 7);
        let to = match a & 3 {
            0 => SECOND,
            1 => GROUP,
            _ => EntityId(1),
        };
        let flags = CallFlags(u16::from(d) | u16::from(a >> 2 & 1) << 8);
        let note = Note {
            stream: u16::from(a >> 4 & 3),
            call: CallNote {
                flags,
                priority: c >> 4,
                tries: a >> 6,
                spacing_us: u32::from(b) << 10,
                co_resident: (a & 8 == 8).then_some(EntityId(u64::from(c & 3))),
                ..CallNote::default()
            },
            ..note(a >> 6 == 1)
        };
        if self.host.call(EntityId(0), to, len, &note) {
            self.wants_many |= flags.has(CallFlags::MANY_REPLIES);
        }
    }

    /// A request is passed on: to the peer, or to an entity of the endpoint.
    fn forward(&mut self, which: usize, to: u8, len: u64) {
        let host = &mut self.host;
        if host.requests.is_empty() {
            return;
        }
        let request = host.requests[which % host.requests.len()];
        let message = host.message(len);
        host.outgoing.insert(message.0, len);
        let to = EntityId(u64::from(to % 3));
        if host.engine.forward(host.now, request, to, message).is_err() {
            host.outgoing.remove(&message.0);
        }
    }

    /// A packet of the endpoint comes back: as it is, changed in an octet of its header, or as the
    /// answer to it.
    fn send_back(&mut self, which: usize, kind: u8, [at, by]: [u8; 2]) {
        let Some(mut octets) = self.host.take_sent(which) else {
            return;
        };
        let header = packet::parse(&octets).expect("it was checked");
        match kind % 4 {
            0 => {}
            1 => {
                octets[usize::from(at % 64)] ^= by;
                sign(&mut octets);
            }
            _ => {
                let len = usize::from(at % 20);
                let response = VmtpHeader {
                    control: Control::response(if by & 1 == 1 { Control::ACKNOWLEDGE } else { 0 }),
                    transaction: header.transaction.wrapping_add(u32::from(by >= 0xe0)),
                    flags: Flags(by & Flags::DATAGRAM),
                    code: u32::from(by & 2) << 22,
                    delivery: BlockMask::NONE,
                    data_words: 0,
                    segment_size: len as u32,
                    ..header
                };
                octets = packet::emit(&response, true).to_vec();
            }
        }
        self.arrive(&octets);
    }
}

fn note(once: bool) -> Note {
    Note {
        reliability: match once {
            true => Reliability::Retransmissions(0),
            false => Reliability::Full,
        },
        ..Note::default()
    }
}
