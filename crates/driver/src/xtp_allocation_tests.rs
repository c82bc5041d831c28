//! Allocations of XTP's engine: none for a transaction, which opens and closes an association at both ends, once its tables
//! have their size; and none for a message to and fro.

use crate::sys::counting_allocator::allocations;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Bytes, Deliveries, Event,
    Instant, Path, Protocol, Received,
};
use engine_xtp::pdu::Service;
use engine_xtp::{Config, Xtp};
use std::time::Duration;

/// Octets of a message.
const LEN: u64 = 64;

/// Keys of closed associations that are kept: tables have their size after as many.
const QUARANTINE_MAX: usize = 64;

/// Two endpoints, and the memory that their hosts use again and again.
struct Pair {
    ends: [Xtp; 2],
    batch: Batch,
    packet: Vec<u8>,
    deliveries: Deliveries,
    now: Instant,
    /// Bytes that came at each end.
    received: [u64; 2],
    accepted: Option<AssociationId>,
}

impl Pair {
    fn new() -> Pair {
        let end = |seed| {
            let mut end = Xtp::new(Config {
                seed,
                quarantine_max: QUARANTINE_MAX,
                ..Config::default()
            });
            end.listen(true);
            end
        };
        Pair {
            ends: [end(1), end(2)],
            batch: Batch::new(32),
            packet: Vec::with_capacity(2000),
            deliveries: Deliveries::default(),
            now: Instant::from_nanos(1),
            received: [0; 2],
            accepted: None,
        }
    }

    /// Packets of an end arrive at the other, whose user takes what they bring.
    fn exchange(&mut self, from: usize) {
        let to = 1 - from;
        self.now = self.now + Duration::from_micros(10);
        loop {
            self.batch.clear();
            self.ends[from].poll_transmit(self.now, &mut self.batch);
            if self.batch.is_empty() {
                break;
            }
            for built in self.batch.packets() {
                self.packet.clear();
                self.batch.write(built, &mut self.packet, |_, range, out| {
                    out.extend(range.clone().map(|at| at as u8));
                });
                let path = Path::to(Address::Station(from as u32));
                let received = Received::new(path, &self.packet);
                self.ends[to].handle_packet(self.now, received, &mut self.deliveries);
                for delivery in self.deliveries.bytes.drain(..) {
                    if let Bytes::Packet(range) = delivery.bytes {
                        self.received[to] += range.len() as u64;
                        let bytes = range.len() as u64;
                        self.ends[to].consume(self.now, delivery.association, bytes);
                    }
                }
            }
        }
        for end in &mut self.ends {
            while let Some(event) = end.poll_event() {
                if let Event::Accepted(id, _) = event {
                    self.accepted = Some(id);
                }
            }
        }
    }

    fn send_last(&mut self, end: usize, id: AssociationId) {
        self.ends[end].push(self.now, id, LEN);
        self.ends[end].finish(self.now, id);
    }

    /// A request, its reply, and the packet that ends both.
    fn transact(&mut self) {
        let to = Address::Station(1);
        let opened = self.ends[0].open(self.now, to, Service::Transaction);
        self.send_last(0, opened.expect("there is room"));
        self.exchange(0);
        let accepted = self.accepted.take().expect("a request");
        self.send_last(1, accepted);
        self.exchange(1);
        self.exchange(0);
    }
}

#[test]
fn transactions_allocate_nothing_in_the_engine() {
    let mut pair = Pair::new();
    for _ in 0..4 * QUARANTINE_MAX {
        pair.transact();
    }
    let before = (allocations(), pair.received);
    for _ in 0..1000 {
        pair.transact();
    }
    assert_eq!(allocations() - before.0, 0, "1000 transactions");
    assert_eq!(pair.received, before.1.map(|bytes| bytes + 1000 * LEN));
    let left = pair.ends.each_ref().map(|end| end.holdings().associations);
    assert_eq!(left, [0, 0], "all ended");
}

#[test]
fn messages_to_and_fro_allocate_nothing_in_the_engine() {
    let mut pair = Pair::new();
    let id = pair.ends[0].open(pair.now, Address::Station(1), Service::Stream);
    let mut ids = [id.expect("there is room"); 2];
    pair.exchange(0);
    ids[1] = pair.accepted.take().expect("it opened");
    let mut before = (0, [0; 2]);
    for count in 1..=1200 {
        for (end, id) in ids.into_iter().enumerate() {
            pair.ends[end].push(pair.now, id, count * LEN);
            pair.exchange(end);
        }
        let now = pair.now;
        for end in &mut pair.ends {
            end.handle_timeout(now);
        }
        if count == 200 {
            before = (allocations(), pair.received);
        }
    }
    assert_eq!(allocations() - before.0, 0, "1000 round trips");
    assert_eq!(pair.received, before.1.map(|bytes| bytes + 1000 * LEN));
}
