//! Fault injection: engines with a planted fault, one for each invariant.

mod transactions;

use super::check::Invariant;
use engine::{
    AssociationId, Associations, Batch, Bytes, Close, Deliveries, Delivery, Event, Instant, Note,
    Protocol, Received, SendFlags,
};
use sim::Node;
use std::collections::VecDeque;

/// A fault to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    /// A bit of a byte is flipped.
    Damage,
    /// A delivery is duplicated.
    Double,
    /// Two deliveries are swapped.
    Misorder,
    /// A delivery is dropped.
    Drop,
    /// A message ends too early.
    EndEarly,
    /// Bytes are released as soon as they are submitted.
    Forget,
    /// The circuit is aborted.
    GiveUp,
    /// Nothing more is sent.
    Stick,
    /// The timeout is always due.
    Spin,
    /// A packet makes the engine panic.
    Panic,
    /// A reply does not reach its caller (engines of transactions only).
    DropReply,
    /// A reply is told twice (engines of transactions only).
    DoubleReply,
    /// Calls of streams are sent as calls on their own (engines of transactions only).
    LoseStream,
    /// A request is taken to be passed on, and is not (engines of transactions only).
    DropForward,
}

/// Each fault and the invariants that may find it.
pub const PLANTED_FAULTS: [(PlantedFault, &[Invariant]); 10] = [
    (PlantedFault::Damage, &[Invariant::Undamaged]),
    (PlantedFault::Double, &[Invariant::NotDoubled]),
    (PlantedFault::Misorder, &[Invariant::InOrder]),
    (
        PlantedFault::Drop,
        &[Invariant::InOrder, Invariant::NotLost],
    ),
    (PlantedFault::EndEarly, &[Invariant::WholeMessages]),
    (PlantedFault::Forget, &[Invariant::NotLost]),
    (PlantedFault::GiveUp, &[Invariant::NotGivenUp]),
    (PlantedFault::Stick, &[Invariant::NotStuck]),
    (PlantedFault::Spin, &[Invariant::NotSpinning]),
    (PlantedFault::Panic, &[Invariant::NoPanic]),
];

/// The same for engines of transactions. A request that is told twice is executed twice; one that is
/// not told is never answered; a message that is released too early is named again.
pub const PLANTED_CALL_FAULTS: [(PlantedFault, &[Invariant]); 9] = [
    (PlantedFault::Damage, &[Invariant::Undamaged]),
    (PlantedFault::Double, &[Invariant::NotDoubled]),
    (
        PlantedFault::Drop,
        &[Invariant::NotGivenUp, Invariant::NotStuck],
    ),
    (PlantedFault::DropReply, &[Invariant::NotStuck]),
    (PlantedFault::Forget, &[Invariant::NoPanic]),
    (PlantedFault::GiveUp, &[Invariant::NotGivenUp]),
    (
        PlantedFault::Stick,
        &[Invariant::NotStuck, Invariant::NotGivenUp],
    ),
    (PlantedFault::Spin, &[Invariant::NotSpinning]),
    (PlantedFault::Panic, &[Invariant::NoPanic]),
];

/// The same of streams, requests that are passed on, and groups.
pub const PLANTED_CALLING_FAULTS: [(PlantedFault, &[Invariant]); 3] = [
    (PlantedFault::DoubleReply, &[Invariant::NotDoubled]),
    (PlantedFault::LoseStream, &[Invariant::InOrder]),
    (
        PlantedFault::DropForward,
        &[Invariant::NotGivenUp, Invariant::NotStuck],
    ),
];

/// Deliveries, packets or calls before the fault shows.
const FAULT_AFTER: u64 = 3;

/// An engine with a planted fault. All other calls are forwarded.
struct Faulty<E: ?Sized> {
    inner: Box<E>,
    fault: PlantedFault,
    packets: u64,
    /// Deliveries or events that the fault is about, so far.
    chances: u64,
    /// A delivery to be sent after the next one.
    delayed: Option<Delivery>,
    events: VecDeque<Event>,
    last_now: Instant,
}

/// The half of an engine that faces its users, as far as faults are in it.
trait FaultyHalf: Protocol {
    /// Takes in a packet, with the faults of deliveries.
    fn deliver(engine: &mut Faulty<Self>, packet: Received<'_>, deliveries: &mut Deliveries);

    /// The engine's next event, unless the fault swallows it.
    fn next_event(engine: &mut Faulty<Self>) -> Option<Event>;
}

/// Plants a fault in an engine with users. A router stays as it is: no invariant is about its users.
pub fn plant(node: Node, fault: PlantedFault) -> Node {
    match node {
        Node::Associations(inner) => Node::associations(Faulty::new(inner, fault)),
        Node::Transactions(inner) => Node::transactions(Faulty::new(inner, fault)),
        router @ Node::Router(_) => router,
    }
}

impl<E: ?Sized> Faulty<E> {
    fn new(inner: Box<E>, fault: PlantedFault) -> Faulty<E> {
        Faulty {
            inner,
            fault,
            packets: 0,
            chances: 0,
            delayed: None,
            events: VecDeque::new(),
            last_now: Instant::from_nanos(0),
        }
    }

    /// Whether this chance for the fault is the one it takes.
    fn takes_chance(&mut self) -> bool {
        self.chances += 1;
        self.chances == FAULT_AFTER
    }
}

impl<E: FaultyHalf + ?Sized> Protocol for Faulty<E> {
    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.last_now = now;
        self.packets += 1;
        if self.fault == PlantedFault::Panic {
            assert!(self.packets < FAULT_AFTER, "a planted panic");
        }
        E::deliver(self, packet, deliveries);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.last_now = now;
        self.inner.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        self.last_now = now;
        if self.fault == PlantedFault::Stick && self.packets >= FAULT_AFTER {
            return;
        }
        self.inner.poll_transmit(now, batch);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| E::next_event(self))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.fault {
            PlantedFault::Spin if self.packets >= FAULT_AFTER => Some(self.last_now),
            _ => self.inner.poll_timeout(),
        }
    }

    engine::forward_protocol! { self => self.inner; properties handle_path_error counters }
}

/// The same delivery with a copy of its bytes.
fn into_owned(mut delivery: Delivery, packet: &[u8]) -> Delivery {
    if let Bytes::Packet(range) = &delivery.bytes {
        delivery.bytes = Bytes::Reassembled(packet[range.clone()].to_vec());
    }
    delivery
}

impl Faulty<dyn Associations> {
    /// Applies the fault to what was just submitted up to `end`.
    fn fault_submission(&mut self, now: Instant, id: AssociationId, end: u64) {
        match self.fault {
            PlantedFault::Forget => self.events.push_back(Event::Released(id, 0..end)),
            PlantedFault::GiveUp if self.packets >= FAULT_AFTER => {
                self.inner.close(now, id, Close::Abort);
            }
            _ => {}
        }
    }

    /// Applies the fault to a delivery, when its turn has come.
    fn inject_fault(&mut self, delivery: Delivery, packet: &[u8], out: &mut Vec<Delivery>) {
        let delivery = into_owned(delivery, packet);
        let Bytes::Reassembled(bytes) = &delivery.bytes else {
            return;
        };
        if bytes.len() < 16 {
            out.push(delivery);
            return;
        }
        if !self.takes_chance() {
            out.push(delivery);
            out.extend(self.delayed.take());
            return;
        }
        self.apply_fault(delivery, out);
    }

    fn apply_fault(&mut self, mut delivery: Delivery, out: &mut Vec<Delivery>) {
        match self.fault {
            PlantedFault::Damage => {
                if let Bytes::Reassembled(bytes) = &mut delivery.bytes {
                    bytes[7] ^= 0x10;
                }
                out.push(delivery);
            }
            PlantedFault::Double => {
                let mut first = delivery.clone();
                first.end_of_message = false;
                out.extend([first, delivery]);
            }
            PlantedFault::Misorder => self.delayed = Some(delivery),
            PlantedFault::Drop => {}
            PlantedFault::EndEarly => {
                if let Bytes::Reassembled(bytes) = &mut delivery.bytes {
                    let rest = bytes.split_off(5);
                    let mut second = delivery.clone();
                    second.bytes = Bytes::Reassembled(rest);
                    delivery.end_of_message = true;
                    out.extend([delivery, second]);
                }
            }
            _ => out.push(delivery),
        }
    }
}

impl FaultyHalf for dyn Associations {
    fn deliver(engine: &mut Faulty<Self>, packet: Received<'_>, deliveries: &mut Deliveries) {
        let mut found = Deliveries::default();
        engine
            .inner
            .handle_packet(engine.last_now, packet, &mut found);
        deliveries.blocks.append(&mut found.blocks);
        for delivery in found.bytes {
            engine.inject_fault(delivery, packet.octets, &mut deliveries.bytes);
        }
    }

    fn next_event(engine: &mut Faulty<Self>) -> Option<Event> {
        engine.inner.poll_event()
    }
}

impl Associations for Faulty<dyn Associations> {
    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note) {
        self.inner.submit(now, id, end, flags, note);
        self.fault_submission(now, id, end);
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        self.inner.submit_all(now, id, ends);
        for end in ends {
            self.fault_submission(now, id, *end);
        }
    }

    engine::forward_associations! { self => self.inner;
        layout connect listen consume close status receive_window set_receive_full set_path_mtu
        sort_by_priority
    }
}
