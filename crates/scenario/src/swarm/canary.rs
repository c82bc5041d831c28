//! Engines with a fault planted in them, one for each invariant.

use super::check::Invariant;
use crate::engines::Boxed;
use engine::{
    Address, Batch, Bytes, AssociationId, CommandError, Counters, Delivery, Engine, Event, Framing,
    Instant, SegmentLayout,
};
use std::collections::VecDeque;

/// A fault to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A byte is turned over.
    Damage,
    /// A delivery comes twice.
    Double,
    /// Two deliveries change places.
    Misorder,
    /// A delivery is left out.
    Drop,
    /// A message ends too early.
    EndEarly,
    /// The sender is told that all arrived as soon as it has written.
    Forget,
    /// The circuit is closed in the middle.
    GiveUp,
    /// Nothing more is sent.
    Stick,
    /// The deadline is always now.
    Spin,
    /// A packet makes it panic.
    Panic,
}

/// Each fault and the invariants that may find it.
pub const PLANTS: [(Plant, &[Invariant]); 10] = [
    (Plant::Damage, &[Invariant::Undamaged]),
    (Plant::Double, &[Invariant::NotDoubled]),
    (Plant::Misorder, &[Invariant::InOrder]),
    (Plant::Drop, &[Invariant::InOrder, Invariant::NotLost]),
    (Plant::EndEarly, &[Invariant::WholeMessages]),
    (Plant::Forget, &[Invariant::NotLost]),
    (Plant::GiveUp, &[Invariant::NotGivenUp]),
    (Plant::Stick, &[Invariant::NotStuck]),
    (Plant::Spin, &[Invariant::NotSpinning]),
    (Plant::Panic, &[Invariant::NoPanic]),
];

/// Deliveries, packets or calls before the fault shows.
const BEFORE: u64 = 3;

/// An engine with a fault.
struct Saboteur {
    inner: Boxed,
    plant: Plant,
    /// Deliveries with bytes so far.
    deliveries: u64,
    packets: u64,
    /// A delivery that waits for the next one to pass it.
    held: Option<Delivery>,
    events: VecDeque<Event>,
    last: Instant,
}

/// Plants a fault in an engine.
pub fn plant(inner: Boxed, plant: Plant) -> Boxed {
    Boxed::new(Saboteur {
        inner,
        plant,
        deliveries: 0,
        packets: 0,
        held: None,
        events: VecDeque::new(),
        last: Instant::from_nanos(0),
    })
}

/// The same delivery with its bytes on their own.
fn on_its_own(mut delivery: Delivery, packet: &[u8]) -> Delivery {
    if let Bytes::Packet(range) = &delivery.bytes {
        delivery.bytes = Bytes::Reassembled(packet[range.clone()].to_vec());
    }
    delivery
}

impl Saboteur {
    /// Spoils a delivery, if its time has come.
    fn spoil(&mut self, delivery: Delivery, packet: &[u8], out: &mut Vec<Delivery>) {
        let delivery = on_its_own(delivery, packet);
        let Bytes::Reassembled(bytes) = &delivery.bytes else {
            return;
        };
        if bytes.len() < 16 {
            out.push(delivery);
            return;
        }
        self.deliveries += 1;
        if self.deliveries != BEFORE {
            out.push(delivery);
            out.extend(self.held.take());
            return;
        }
        self.spoil_now(delivery, out);
    }

    fn spoil_now(&mut self, mut delivery: Delivery, out: &mut Vec<Delivery>) {
        match self.plant {
            Plant::Damage => {
                if let Bytes::Reassembled(bytes) = &mut delivery.bytes {
                    bytes[7] ^= 0x10;
                }
                out.push(delivery);
            }
            Plant::Double => {
                let mut first = delivery.clone();
                first.end = false;
                out.extend([first, delivery]);
            }
            Plant::Misorder => self.held = Some(delivery),
            Plant::Drop => {}
            Plant::EndEarly => {
                if let Bytes::Reassembled(bytes) = &mut delivery.bytes {
                    let rest = bytes.split_off(5);
                    let mut second = delivery.clone();
                    second.bytes = Bytes::Reassembled(rest);
                    delivery.end = true;
                    out.extend([delivery, second]);
                }
            }
            _ => out.push(delivery),
        }
    }
}

impl Engine for Saboteur {
    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) {
        self.last = now;
        self.packets += 1;
        if self.plant == Plant::Panic {
            assert!(self.packets < BEFORE, "a planted panic");
        }
        let mut found = Vec::new();
        self.inner.handle_packet(now, from, packet, &mut found);
        for delivery in found {
            self.spoil(delivery, packet, deliveries);
        }
    }

    fn submit(&mut self, now: Instant, circuit: AssociationId, end: u64, push: bool) {
        self.inner.submit(now, circuit, end, push);
        match self.plant {
            Plant::Forget => self.events.push_back(Event::Released(circuit, end)),
            Plant::GiveUp if self.packets >= BEFORE => self.inner.abort(now, circuit),
            _ => {}
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.inner.poll_event())
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        self.last = now;
        if self.plant == Plant::Stick && self.packets >= BEFORE {
            return;
        }
        self.inner.poll_transmit(now, batch);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.plant {
            Plant::Spin if self.packets >= BEFORE => Some(self.last),
            _ => self.inner.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.last = now;
        self.inner.handle_timeout(now);
    }

    fn layout(&self) -> SegmentLayout {
        self.inner.layout()
    }

    fn framing(&self) -> Framing {
        self.inner.framing()
    }

    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        self.inner.connect(now, to)
    }

    fn listen(&mut self, accept: bool) {
        self.inner.listen(accept);
    }

    fn end_message(&mut self, circuit: AssociationId, end: u64) {
        self.inner.end_message(circuit, end);
    }

    fn consume(&mut self, now: Instant, circuit: AssociationId, bytes: u64) {
        self.inner.consume(now, circuit, bytes);
    }

    fn finish(&mut self, now: Instant, circuit: AssociationId) {
        self.inner.finish(now, circuit);
    }

    fn abort(&mut self, now: Instant, circuit: AssociationId) {
        self.inner.abort(now, circuit);
    }

    fn bytes_in_flight(&self, circuit: AssociationId) -> u64 {
        self.inner.bytes_in_flight(circuit)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
