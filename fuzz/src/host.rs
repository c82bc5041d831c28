//! The host of an XTP endpoint, of associations or of groups, that a script drives: what its user wrote and has not read.

use core::time::Duration;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Deliveries, Instant, Note, Received,
    SendFlags, Store,
};
use engine_xtp::pdu::{CHECK_AT, HEADER_LEN};
use std::collections::BTreeMap;

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets that were accepted.
    pub accepted: u64,
    /// User bytes delivered.
    pub delivered: u64,
    /// Packets the endpoint sent.
    pub sent: u64,
}

/// Powers of two at which a sequence number may overflow: 2^32, the engine's limit 2^62, 2^63 and
/// 2^64, which is 0.
const BOUNDARIES: [u64; 4] = [1 << 32, 1 << 62, 1 << 63, 0];

/// A sequence number from 4 below to 3 above one of [`BOUNDARIES`], chosen by the opcode's free bits.
pub(crate) fn boundary(what: u8) -> u64 {
    let base = BOUNDARIES[usize::from(what >> 4 & 3)];
    base.wrapping_add(u64::from(what & 7)).wrapping_sub(4)
}

/// The octets of a packet in a script, a sixth of their number before them, and the rest of the script.
pub(crate) fn split_packet(script: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = script.split_first()?;
    Some(rest.split_at((usize::from(len) * 6).min(rest.len())))
}

/// `packet` with its length and checksum.
pub fn completed(mut packet: Vec<u8>) -> Vec<u8> {
    let dlen = (packet.len() - HEADER_LEN) as u32;
    packet[12..16].copy_from_slice(&dlen.to_be_bytes());
    packet[CHECK_AT..CHECK_AT + 2].fill(0);
    let nocheck = packet[8] & 0x40 != 0;
    let covered = if nocheck { HEADER_LEN } else { packet.len() };
    let check = engine::checksum::checksum(&packet[..covered]);
    packet[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
    packet
}

/// An endpoint with its inputs and outputs.
pub(crate) struct Host<E> {
    pub(crate) engine: E,
    pub(crate) now: Instant,
    pub(crate) associations: Vec<AssociationId>,
    /// Bytes submitted on each association, and bytes its user has not consumed.
    written: BTreeMap<AssociationId, u64>,
    unread: BTreeMap<AssociationId, u64>,
    /// Keys that a packet to the endpoint may carry, newest first.
    pub(crate) keys: Vec<u64>,
    /// Packets that it sent.
    pub(crate) sent: u64,
}

impl<E: Associations> Host<E> {
    pub(crate) fn new(engine: E, keys: &[u64]) -> Host<E> {
        Host {
            engine,
            now: Instant::from_nanos(1000),
            associations: Vec::new(),
            written: BTreeMap::new(),
            unread: BTreeMap::new(),
            keys: keys.to_vec(),
            sent: 0,
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        let counters = self.engine.counters();
        Summary {
            accepted: counters.packets_parsed - counters.packets_discarded,
            delivered: counters.bytes_delivered,
            sent: self.sent,
        }
    }

    pub(crate) fn association(&self, argument: u8) -> AssociationId {
        let count = self.associations.len().max(1);
        let found = self.associations.get(usize::from(argument) % count);
        found.copied().unwrap_or(AssociationId(0))
    }

    pub(crate) fn written(&self, association: AssociationId) -> u64 {
        self.written.get(&association).copied().unwrap_or(0)
    }

    /// The association that `batch` names as its sender, whose bytes alone its packets carry, and the bytes written on it.
    pub(crate) fn sender(&self, batch: &Batch, store: Store) -> (AssociationId, u64) {
        let association = batch.sender().expect("user bytes have a sender");
        assert_eq!(store, Store::Association(association), "bytes of another");
        (association, self.written(association))
    }

    /// Writes a message, up to `store_max` bytes of all messages.
    pub(crate) fn write(&mut self, id: AssociationId, bytes: u64, store_max: u64, push: bool) {
        let end = self.written.entry(id).or_default();
        *end = (*end + bytes).min(store_max);
        let flags = SendFlags {
            push,
            ..SendFlags::END_OF_MESSAGE
        };
        self.engine
            .submit(self.now, id, *end, flags, &Note::default());
    }

    pub(crate) fn read(&mut self, association: AssociationId) {
        let unread = self.unread.remove(&association).unwrap_or(0);
        self.engine.consume(self.now, association, unread);
    }

    pub(crate) fn deliver(&mut self, from: Address, packet: &[u8]) {
        let mut deliveries = Deliveries::default();
        self.engine
            .handle_packet(self.now, Received::new(from, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            let len = match delivery.bytes {
                Bytes::Packet(range) => {
                    assert!(range.start >= HEADER_LEN && range.end <= packet.len());
                    range.len()
                }
                Bytes::Reassembled(bytes) => bytes.len(),
            };
            *self.unread.entry(delivery.association).or_default() += len as u64;
        }
    }

    /// A key that the endpoint revealed.
    pub(crate) fn reveal(&mut self, key: u64) {
        if !self.keys.contains(&key) {
            self.keys.truncate(7);
            self.keys.insert(0, key);
        }
    }

    pub(crate) fn assert_timer_in_future(&self) {
        let next = self.engine.poll_timeout();
        assert!(
            next.is_none_or(|at| at > self.now),
            "an expired timer stays armed"
        );
    }

    /// Goes on by a time that grows with `argument` up to a minute.
    pub(crate) fn wait(&mut self, argument: u8) {
        self.now = self.now + Duration::from_micros(100) * (1 << (argument % 20));
    }

    /// Goes to the next timeout; false when there is none before `give_up_at`.
    pub(crate) fn advance(&mut self, give_up_at: Instant) -> bool {
        let next = self.engine.poll_timeout().filter(|at| *at < give_up_at);
        self.now = self.now.max(next.unwrap_or(self.now));
        next.is_some()
    }
}
