//! An engine of transactions with a planted fault.

use super::{FAULT_AFTER, PlantedFault};
use engine::{
    Address, Batch, CommandError, Counters, Deliveries, EntityId, Event, Instant, Note,
    OutgoingMessage, PathFault, Properties, Protocol, Received, TransactionEvent, TransactionId,
    Transactions,
};
use std::collections::VecDeque;

/// All other calls are forwarded.
pub(super) struct Faulty {
    inner: Box<dyn Transactions>,
    fault: PlantedFault,
    /// Packets, and what the fault is about, so far.
    packets: u64,
    chances: u64,
    events: VecDeque<Event>,
    last_now: Instant,
}

impl Faulty {
    pub(super) fn new(inner: Box<dyn Transactions>, fault: PlantedFault) -> Faulty {
        Faulty {
            inner,
            fault,
            packets: 0,
            chances: 0,
            events: VecDeque::new(),
            last_now: Instant::from_nanos(0),
        }
    }

    /// Whether this chance for the fault is the one it takes.
    fn takes_chance(&mut self) -> bool {
        self.chances += 1;
        self.chances == FAULT_AFTER
    }

    /// The engine's next event, unless the fault swallows it.
    fn next_event(&mut self) -> Option<Event> {
        let fault = self.fault;
        loop {
            let event = self.inner.poll_event()?;
            let is_request = matches!(
                event,
                Event::Transaction(TransactionEvent::Requested { .. })
            );
            let is_reply = matches!(event, Event::Transaction(TransactionEvent::Replied { .. }));
            match fault {
                PlantedFault::Double if is_request && self.takes_chance() => {
                    self.events.push_back(event.clone());
                    return Some(event);
                }
                PlantedFault::Drop if is_request && self.takes_chance() => {}
                PlantedFault::DropReply if is_reply && self.takes_chance() => {}
                PlantedFault::DoubleReply if is_reply && self.takes_chance() => {
                    self.events.push_back(event.clone());
                    return Some(event);
                }
                _ => return Some(event),
            }
        }
    }
}

impl Protocol for Faulty {
    fn properties(&self) -> Properties {
        self.inner.properties()
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.last_now = now;
        self.packets += 1;
        if self.fault == PlantedFault::Panic {
            assert!(self.packets < FAULT_AFTER, "a planted panic");
        }
        self.inner.handle_packet(now, packet, deliveries);
        if self.fault == PlantedFault::Damage {
            let chance = deliveries.blocks.first().map(|block| block.range.len());
            if chance.is_some_and(|len| len >= 16) && self.takes_chance() {
                // The last octets stay behind.
                deliveries.blocks[0].range.end -= 8;
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.last_now = now;
        self.inner.handle_timeout(now);
    }

    fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>) {
        self.inner.handle_path_error(now, fault);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        self.last_now = now;
        if self.fault == PlantedFault::Stick && self.packets >= FAULT_AFTER {
            return;
        }
        self.inner.poll_transmit(now, batch);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.next_event())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.fault {
            PlantedFault::Spin if self.packets >= FAULT_AFTER => Some(self.last_now),
            _ => self.inner.poll_timeout(),
        }
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl Transactions for Faulty {
    fn call(
        &mut self,
        now: Instant,
        from: EntityId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        let alone = Note::default();
        let note = match self.fault {
            PlantedFault::LoseStream if note.stream != 0 => &alone,
            _ => note,
        };
        let transaction = self.inner.call(now, from, to, request, note)?;
        match self.fault {
            PlantedFault::Forget => {
                let released = TransactionEvent::Released(request.0);
                self.events.push_back(Event::Transaction(released));
            }
            PlantedFault::GiveUp if self.packets >= FAULT_AFTER => {
                self.inner.abandon(now, transaction);
            }
            _ => {}
        }
        Ok(transaction)
    }

    fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError> {
        if self.fault == PlantedFault::DropForward && self.takes_chance() {
            return Ok(());
        }
        self.inner.forward(now, transaction, to, request)
    }

    engine::forward! { self.inner;
        fn message_max(&self) -> u64;
        fn has_packets(&self) -> bool;
        fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError>;
        fn remove_entity(&mut self, now: Instant, entity: EntityId);
        fn set_member(&mut self, group: EntityId, entity: EntityId, is_member: bool) -> Result<(), CommandError>;
        fn locate(&mut self, entity: EntityId, at: Address);
        fn reply(&mut self, now: Instant, transaction: TransactionId,
            reply: (OutgoingMessage, u64), note: &Note) -> Result<(), CommandError>;
        fn abandon(&mut self, now: Instant, transaction: TransactionId);
    }
}
