//! A transaction as the called entity sees it.

use crate::endpoint::{Arrival, Shared};
use crate::incoming::Incoming;
use crate::pdu::{Header, Kind};
use crate::transmission::Transmission;
use engine::{
    EntityId, Event, Instant, Note, Path, TransactionEnd, TransactionEvent, TransactionId,
};

/// What names a transaction to its server: where the caller is, its entity, and its number.
pub(crate) type ServerKey = (Path, EntityId, u64);

/// A transaction from its first block to the end of its quarantine.
#[derive(Debug)]
pub(crate) struct ServerCall {
    pub(crate) id: TransactionId,
    pub(crate) key: ServerKey,
    pub(crate) server: EntityId,
    pub(crate) state: State,
}

/// How far it got.
#[derive(Debug)]
pub(crate) enum State {
    /// Blocks of the request are missing; it is given up at the time.
    Receiving(Incoming, Instant),
    /// The user works on it.
    Executing,
    /// The reply is on its way.
    Replying(Transmission),
    /// The caller has the reply, or will never ask for it again. What comes until the time is a
    /// duplicate and is not executed again.
    Quarantined(Instant),
}

impl ServerCall {
    pub(crate) fn header(&self, kind: Kind) -> Header {
        Header::without_block(kind, self.key.2, (self.key.1, self.server))
    }

    /// A block of the request came.
    pub(crate) fn handle_request(&mut self, sh: &mut Shared, packet: Arrival<'_>) {
        let header = &packet.header;
        match &mut self.state {
            State::Receiving(request, until) => {
                *until = packet.now + sh.config.quarantine;
                let block = request.take(header.message_len, header.offset, packet.block);
                packet.deliveries.blocks.extend(block);
                if request.is_whole() {
                    let requested = TransactionEvent::Requested {
                        transaction: self.id,
                        message: request.message,
                        from: header.client,
                        to: header.server,
                        answerer: header.server,
                        note: Note::default(),
                    };
                    self.state = State::Executing;
                    sh.events.push_back(Event::Transaction(requested));
                }
            }
            // The caller repeats its request: it lacks some of the reply.
            State::Replying(reply) if header.offset == 0 => reply.restart(sh),
            State::Replying(_) | State::Executing | State::Quarantined(_) => {}
        }
    }

    /// The caller has the reply.
    pub(crate) fn handle_ack(&mut self, sh: &mut Shared, now: Instant) {
        if matches!(self.state, State::Replying(_)) {
            self.end(sh, now, TransactionEnd::Complete);
        }
    }

    /// Ends the transaction for its user; duplicates are known for a while.
    pub(crate) fn end(&mut self, sh: &mut Shared, now: Instant, how: TransactionEnd) {
        let quarantined = State::Quarantined(now + sh.config.quarantine);
        match std::mem::replace(&mut self.state, quarantined) {
            State::Replying(reply) => sh.tell(TransactionEvent::Released(reply.message)),
            // The user does not know of it.
            State::Receiving(request, _) => {
                return sh.tell(TransactionEvent::Discarded(request.message));
            }
            State::Executing => {}
            State::Quarantined(_) => return,
        }
        sh.tell(TransactionEvent::Ended(self.id, how));
    }

    /// When it wants to act next.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(_, until) | State::Quarantined(until) => Some(*until),
            State::Executing => None,
            State::Replying(reply) => Some(reply.timeout()),
        }
    }
}
