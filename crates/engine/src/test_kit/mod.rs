//! For tests and fuzzers of engines: takes the packets of an engine and gives it some, without a driver.

mod association_twins;
mod pair;
mod script_host;
mod twins;

pub use association_twins::AssociationTwins;
pub use pair::{CLIENT, End, ReplyPolicy, SERVER, Sent, TransactionPair};
pub use script_host::{Reached, ScriptHost, ScriptRules};
pub use twins::{Twin, TwoQueues, assert_twins, pause};

use crate::{
    Address, Batch, Block, Deliveries, Event, IncomingMessage, Instant, OutgoingMessage, Protocol,
    Received, Store, TransactionEvent,
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

/// The next event of an engine without associations.
///
/// # Panics
///
/// When it is an association's.
pub fn transaction_event<P: Protocol + ?Sized>(engine: &mut P) -> Option<TransactionEvent> {
    engine.poll_event().map(|event| match event {
        Event::Transaction(event) => event,
        other => panic!("no association here: {other:?}"),
    })
}

/// Lets the time-outs of `engine` that are due at `now` happen.
///
/// # Panics
///
/// When the engine's time-out stays due.
pub fn expire<P: Protocol + ?Sized>(engine: &mut P, now: Instant) {
    if engine.poll_timeout().is_some_and(|at| at <= now) {
        engine.handle_timeout(now);
        let next = engine.poll_timeout();
        assert!(next.is_none_or(|at| at > now), "the timeout stays due");
    }
}

/// Packets on their way in virtual time, by when they arrive; those of one time in the order they were sent.
#[derive(Clone, Debug)]
pub struct InFlight<T> {
    packets: BTreeMap<(Instant, u64), T>,
    sent: u64,
}

impl<T> Default for InFlight<T> {
    fn default() -> InFlight<T> {
        InFlight {
            packets: BTreeMap::new(),
            sent: 0,
        }
    }
}

impl<T> InFlight<T> {
    /// Puts a packet on its way, which arrives at `at`.
    pub fn send(&mut self, at: Instant, packet: T) {
        self.sent += 1;
        self.packets.insert((at, self.sent), packet);
    }

    /// When the next packet arrives.
    pub fn next_at(&self) -> Option<Instant> {
        self.packets.keys().next().map(|(at, _)| *at)
    }

    /// The next packet that has arrived at `now`.
    pub fn arrived(&mut self, now: Instant) -> Option<T> {
        let first = self.packets.first_entry();
        Some(first.filter(|first| first.key().0 <= now)?.remove())
    }
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
    /// Keeps a message to send under `id`: what an engine is given of it.
    pub fn keep_outgoing(&mut self, id: u64, octets: Vec<u8>) -> (OutgoingMessage, u64) {
        let len = octets.len() as u64;
        self.outgoing.insert(OutgoingMessage(id), octets);
        (OutgoingMessage(id), len)
    }

    /// The octets of a message that arrived, which is not kept any longer.
    pub fn take_incoming(&mut self, message: IncomingMessage) -> Vec<u8> {
        self.incoming.remove(&message).unwrap_or_default()
    }

    /// Frees and copies messages as `event` says.
    ///
    /// # Panics
    ///
    /// When a message is released twice, or a copy is made of one that is not kept.
    pub fn apply(&mut self, event: &TransactionEvent) {
        match event {
            TransactionEvent::Released(id) => {
                assert!(self.outgoing.remove(id).is_some(), "released twice");
            }
            TransactionEvent::Copied { from, to } => {
                self.incoming.insert(*to, self.outgoing[from].clone());
            }
            TransactionEvent::Duplicated { from, to } => {
                let copy = self.incoming.get(from).cloned();
                self.incoming.insert(*to, copy.unwrap_or_default());
            }
            TransactionEvent::Discarded(id) => drop(self.incoming.remove(id)),
            _ => {}
        }
    }

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
