//! An engine of transactions with a planted fault.

use super::{FAULT_AFTER, Faulty, FaultyHalf, PlantedFault};
use engine::{
    Address, CommandError, Deliveries, EntityId, Event, Instant, Note, OutgoingMessage, Protocol,
    Received, TransactionEvent, TransactionId, Transactions,
};

impl FaultyHalf for dyn Transactions {
    fn deliver(engine: &mut Faulty<Self>, packet: Received<'_>, deliveries: &mut Deliveries) {
        engine
            .inner
            .handle_packet(engine.last_now, packet, deliveries);
        if engine.fault == PlantedFault::Damage {
            let chance = deliveries.blocks.first().map(|block| block.range.len());
            if chance.is_some_and(|len| len >= 16) && engine.takes_chance() {
                // The last octets stay behind.
                deliveries.blocks[0].range.end -= 8;
            }
        }
    }

    fn next_event(engine: &mut Faulty<Self>) -> Option<Event> {
        loop {
            let event = engine.inner.poll_event()?;
            let Event::Transaction(notified) = &event else {
                return Some(event);
            };
            let is_chance = match engine.fault {
                PlantedFault::Drop | PlantedFault::Double => {
                    matches!(notified, TransactionEvent::Requested { .. })
                }
                PlantedFault::DropReply | PlantedFault::DoubleReply => {
                    matches!(notified, TransactionEvent::Replied { .. })
                }
                _ => false,
            };
            if !is_chance || !engine.takes_chance() {
                return Some(event);
            }
            if let PlantedFault::Double | PlantedFault::DoubleReply = engine.fault {
                engine.events.push_back(event.clone());
                return Some(event);
            }
        }
    }
}

impl Transactions for Faulty<dyn Transactions> {
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
