//! Two engines and their associations; packets are carried by hand.

use crate::pair::both;
use core::time::Duration;
use engine::test_kit::{give_packet, written, zeros};
use engine::{Address, AssociationId, Associations, Batch, Event, Instant, Protocol};
use engine_xtp::{Config, Xtp};
use std::collections::BTreeMap;

/// Carries the packets that each of two sides has, until neither has any.
pub fn carry<P>(
    pair: &mut P,
    take: impl Fn(&mut P, usize) -> Vec<Vec<u8>>,
    arrive: impl Fn(&mut P, usize, &[u8]),
) {
    loop {
        let packets = [take(pair, 0), take(pair, 1)];
        if packets.iter().all(Vec::is_empty) {
            return;
        }
        for (from, packets) in packets.iter().enumerate() {
            for packet in packets {
                arrive(pair, 1 - from, packet);
            }
        }
    }
}

/// Two endpoints and all of their associations; packets are carried by hand. User bytes are zeros.
pub struct EnginePair {
    pub engines: [Xtp; 2],
    pub now: Instant,
    /// Associations that the second endpoint accepted, by those of the first.
    pub pairs: BTreeMap<AssociationId, AssociationId>,
    /// Users read what arrives.
    pub reads: bool,
}

impl EnginePair {
    pub fn new(config: &Config, associations: usize) -> (EnginePair, Vec<AssociationId>) {
        EnginePair::of_unlike(both(config, 9), associations)
    }

    pub fn of_unlike(
        configs: [Config; 2],
        associations: usize,
    ) -> (EnginePair, Vec<AssociationId>) {
        let mut ends = EnginePair {
            engines: configs.map(Xtp::new),
            now: Instant::from_nanos(1_000_000),
            pairs: BTreeMap::new(),
            reads: false,
        };
        ends.engines[1].listen(true);
        let ids = (0..associations).map(|_| ends.open()).collect();
        (ends, ids)
    }

    fn open(&mut self) -> AssociationId {
        let id = self.engines[0].connect(self.now, &[Address::Station(1)]);
        let id = id.expect("room for one");
        self.settle();
        while let Some(event) = self.engines[1].poll_event() {
            if let Event::Accepted(peer, _) = event {
                self.pairs.insert(id, peer);
            }
        }
        while self.engines[0].poll_event().is_some() {}
        id
    }

    /// The two ends of the first association.
    pub fn ids(&self) -> [AssociationId; 2] {
        let first = self.pairs.first_key_value();
        let (near, far) = first.expect("it has one");
        [*near, *far]
    }

    /// Up to `most` packets that one side sends now; they are not carried.
    pub fn take(&mut self, side: usize, most: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while packets.len() < most {
            let mut batch = Batch::new(1);
            self.engines[side].poll_transmit(self.now, &mut batch);
            if batch.is_empty() {
                break;
            }
            packets.extend(written(&batch, zeros));
        }
        packets
    }

    /// One side receives a packet of the other.
    pub fn arrive(&mut self, to: usize, packet: &[u8]) {
        let from = Address::Station(1 - to as u32);
        let deliveries = give_packet(&mut self.engines[to], self.now, from, packet);
        for delivery in deliveries.bytes.iter().filter(|_| self.reads) {
            let len = delivery.bytes.len() as u64;
            self.engines[to].consume(self.now, delivery.association, len);
        }
    }

    /// Carries packets until neither side sends any.
    pub fn settle(&mut self) {
        carry(self, |pair, side| pair.take(side, 1000), EnginePair::arrive);
    }

    /// Advances time by `span`; packets arrive at once.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            let next = self.engines.iter().filter_map(Xtp::poll_timeout).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            for engine in &mut self.engines {
                engine.handle_timeout(self.now);
            }
        }
        self.now = end;
        for engine in &mut self.engines {
            engine.handle_timeout(end);
        }
        self.settle();
    }
}
