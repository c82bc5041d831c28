//! An endpoint of `call`, driven by a script of packets, commands and time steps; any octets are one.
//!
//! The endpoint calls entities at a peer and is called. The script builds packets of the right form
//! from its octets, sends the endpoint's own packets back to it, and says what its users do. Its host
//! checks what a host relies on.

#![allow(dead_code, reason = "each target uses one of the functions")]

use engine::test_kit::{Reached, ScriptHost, ScriptRules};
use engine::{EntityId, Note, Transactions};
use engine_call::pdu::{HEADER_LEN, Header, Kind};
use engine_call::{Call, CallConfig};
use std::time::Duration;

const PACKET_LEN: usize = 128;
const MESSAGE_MAX: u32 = 1000;
const TRANSACTIONS_MAX: usize = 6;

/// The endpoint, and what its host knows.
type Host = ScriptHost<Call>;

/// The header of any octets: an accepted packet is written again as it was, but for what is unused.
pub fn packet(octets: &[u8]) {
    if let Some(header) = Header::parse(octets) {
        let again = header.emit();
        let same = Header::parse(&again[..HEADER_LEN]).expect("a header is accepted");
        assert_eq!(same, header);
        let end = u64::from(header.offset) + (octets.len() - HEADER_LEN) as u64;
        assert!(end <= u64::from(header.message_len));
    }
}

/// Runs the script.
pub fn script(octets: &[u8]) -> Reached {
    let mut run = host();
    let mut rest = octets;
    while let Some((&code, more)) = rest.split_first() {
        rest = more;
        let mut next = || match rest.split_first() {
            Some((&octet, more)) => {
                rest = more;
                octet
            }
            None => 0,
        };
        let arguments = [next(), next(), next(), next()];
        step(&mut run, code % 10, arguments);
        run.drain();
        assert!(run.engine.transactions() <= 2 * TRANSACTIONS_MAX);
    }
    run.end();
    assert_eq!(run.engine.transactions(), 0, "transactions are left");
    run.reached
}

fn host() -> Host {
    let mut engine = Call::new(CallConfig {
        packet_len: PACKET_LEN,
        message_max: MESSAGE_MAX,
        retry: Duration::from_millis(10),
        retries_max: 3,
        quarantine: Duration::from_millis(100),
        transactions_max: TRANSACTIONS_MAX,
        seed: 0,
    });
    engine.create_entity(EntityId(0)).expect("room for one");
    for entity in 0..4 {
        engine.locate(EntityId(entity), Host::PEER);
    }
    let rules = ScriptRules {
        packet_len: PACKET_LEN,
        message_max: MESSAGE_MAX,
        is_packet: |octets| Header::parse(octets).is_some(),
        blocks_overlap: true,
        copies: false,
    };
    Host::new(engine, rules)
}

fn step(run: &mut Host, code: u8, [a, b, c, d]: [u8; 4]) {
    match code {
        0 => arrive(run, &[a, b, c, d]),
        1..=3 => arrive(run, &built(code, [a, b, c, d])),
        // Most calls are made by the entity of this end, and are short enough.
        4 => {
            let (from, to) = (u64::from(a & 7 == 7), u64::from(b & 3));
            call(run, EntityId(from), EntityId(to), u64::from(c) << (d & 3));
        }
        5 => {
            let len = u64::from(b) * u64::from(c & 7);
            run.reply(usize::from(a), len, &Note::default());
        }
        6 => run.abandon(usize::from(a)),
        7 => run.wait(u64::from(a) << (b & 7)),
        8 => run.transmit(usize::from(a & 3) + 1),
        _ => send_back(run, usize::from(a), b, c),
    }
}

fn arrive(run: &mut Host, octets: &[u8]) {
    run.arrive(octets);
    let messages = run.incoming.len();
    let most = 2 * TRANSACTIONS_MAX;
    assert!(messages <= most, "more messages than transactions");
}

fn call(run: &mut Host, from: EntityId, to: EntityId, len: u64) {
    run.call(from, to, len, &Note::default());
    let calls = run.calls.len();
    assert!(calls <= TRANSACTIONS_MAX, "more calls than there may be");
}

/// A packet of the endpoint comes back: as it is, or as its peer would answer.
fn send_back(run: &mut Host, which: usize, kind: u8, len: u8) {
    let Some(octets) = run.take_sent(which) else {
        return;
    };
    let answer = Header {
        message_len: 0,
        offset: 0,
        ..Header::parse(&octets).expect("it was checked")
    };
    let kind_of = |kind| Header { kind, ..answer };
    match kind % 4 {
        0 => arrive(run, &octets),
        1 => arrive(run, &kind_of(Kind::Ack).emit()),
        2 => {
            let refused = Header {
                refused: len.is_multiple_of(8),
                ..kind_of(Kind::Reply)
            };
            arrive(run, &refused.emit());
        }
        _ => {
            let len = len % 96;
            let head = Header {
                message_len: u32::from(len) + u32::from(len % 3),
                ..kind_of(Kind::Reply)
            };
            let block = usize::from(len).min(PACKET_LEN - HEADER_LEN);
            arrive(run, &with_block(&head, block));
        }
    }
}

/// A packet with a right checksum from octets of the script.
fn built(kind: u8, [a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let kind = match kind {
        1 => Kind::Request,
        2 => Kind::Reply,
        _ => Kind::Ack,
    };
    let block = usize::from(c % 89);
    // Half of them are whole messages.
    let (message_len, offset) = match d & 0x80 {
        0 => (block as u32, 0),
        _ => (
            u32::from(b) * u32::from(d & 7),
            u32::from(c) * u32::from(d >> 3 & 7),
        ),
    };
    let header = Header {
        kind,
        refused: kind == Kind::Reply && d & 0x40 != 0,
        message_len,
        offset,
        transaction: u64::from(a >> 2),
        client: EntityId(u64::from(b & 3)),
        server: EntityId(u64::from(a & 3 == 3)),
    };
    with_block(&header, block)
}

/// The packet of `header` and a block of `len` octets.
fn with_block(header: &Header, len: usize) -> Vec<u8> {
    let mut packet = header.emit().to_vec();
    let block: Vec<u8> = (0..len).map(|at| at as u8).collect();
    let check = u16::from_be_bytes([packet[2], packet[3]]);
    let check = engine::checksum::extend(check, engine::checksum::sum(&block));
    packet[2..4].copy_from_slice(&check.to_be_bytes());
    packet.extend(block);
    packet
}
