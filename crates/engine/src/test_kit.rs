//! For tests and fuzzers of engines: takes the packets of an engine and gives it some, without a driver.

use crate::{
    Address, Batch, Block, Deliveries, IncomingMessage, Instant, OutgoingMessage, Protocol,
    Received, Store,
};
use core::ops::Range;
use std::collections::BTreeMap;

/// The packets of `batch`; `copy` appends user bytes.
pub fn written(
    batch: &Batch,
    mut copy: impl FnMut(Store, &Range<u64>, &mut Vec<u8>),
) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for packet in batch.packets() {
        let mut octets = Vec::new();
        batch.write(packet, &mut octets, &mut copy);
        packets.push(octets);
    }
    packets
}

/// All that `engine` sends at `now`, in batches of up to `packets_max` packets: to whom, and the octets. `copy` appends
/// user bytes.
pub fn take_packets<P: Protocol + ?Sized>(
    engine: &mut P,
    now: Instant,
    packets_max: usize,
    mut copy: impl FnMut(Store, &Range<u64>, &mut Vec<u8>),
) -> Vec<(Address, Vec<u8>)> {
    let mut packets = Vec::new();
    loop {
        let mut batch = Batch::new(packets_max);
        engine.poll_transmit(now, &mut batch);
        let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
            return packets;
        };
        let octets = written(&batch, &mut copy);
        packets.extend(octets.into_iter().map(|octets| (path.remote, octets)));
    }
}

/// Appends zeros as user bytes.
pub fn zeros(_: Store, range: &Range<u64>, out: &mut Vec<u8>) {
    out.resize(out.len() + (range.end - range.start) as usize, 0);
}

/// Appends the lowest octets of their positions as user bytes.
pub fn positions(_: Store, range: &Range<u64>, out: &mut Vec<u8>) {
    out.extend(range.clone().map(|at| at as u8));
}

/// For engines whose users wrote nothing.
///
/// # Panics
///
/// When the engine sends user bytes.
pub fn nothing(store: Store, range: &Range<u64>, _: &mut Vec<u8>) {
    panic!("bytes {range:?} of {store:?}, which nobody wrote")
}

/// Gives `packet`, which `from` sent, to `engine`: what it delivers.
pub fn give_packet<P: Protocol + ?Sized>(
    engine: &mut P,
    now: Instant,
    from: Address,
    packet: &[u8],
) -> Deliveries {
    let mut deliveries = Deliveries::default();
    engine.handle_packet(now, Received::new(from, packet), &mut deliveries);
    deliveries
}

/// The messages that a host of transactions keeps.
#[derive(Clone, Debug, Default)]
pub struct MessageStores {
    /// Messages to send, until they are released.
    pub outgoing: BTreeMap<OutgoingMessage, Vec<u8>>,
    /// Messages that arrive, in parts.
    pub incoming: BTreeMap<IncomingMessage, Vec<u8>>,
}

impl MessageStores {
    /// Appends octets of a message to send.
    ///
    /// # Panics
    ///
    /// When it is not kept, or `store` is an association's.
    pub fn copy(&self, store: Store, range: &Range<u64>, out: &mut Vec<u8>) {
        let Store::Message(id) = store else {
            panic!("no association here")
        };
        out.extend(&self.outgoing[&id][range.start as usize..range.end as usize]);
    }

    /// Copies `blocks` of `packet` to their places.
    pub fn keep(&mut self, packet: &[u8], blocks: Vec<Block>) {
        for block in blocks {
            let message = self.incoming.entry(block.message).or_default();
            message.resize(block.message_len as usize, 0);
            let at = block.offset as usize;
            message[at..at + block.range.len()].copy_from_slice(&packet[block.range]);
        }
    }

    /// Whether no message is kept.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && self.incoming.is_empty()
    }
}
