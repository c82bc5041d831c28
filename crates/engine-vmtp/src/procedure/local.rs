//! Calls between entities of this host: no packet leaves (RFC 1045 section 4.6.1).

use super::{Asked, read_note};
use crate::endpoint::{Key, Vmtp};
use crate::pdu::ResponseCode;
use engine::{
    CommandError, EntityId, Event, IncomingMessage, Instant, Note, OutgoingMessage, TransactionEnd,
    TransactionEvent, TransactionId,
};

/// A call between two entities of this host; known by the server's number of the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalCall {
    /// The caller's number; None of a datagram, for which nobody waits.
    caller: Option<TransactionId>,
    from: EntityId,
    to: EntityId,
    is_conditional: bool,
}

impl Vmtp {
    pub(super) fn begin_local_call(
        &mut self,
        _now: Instant,
        (from, to): (EntityId, EntityId),
        (message, _): (OutgoingMessage, u64),
        asked: &Asked,
    ) -> Result<TransactionId, CommandError> {
        if self.locals.len() >= self.sh.config.entities_max {
            return Err(CommandError::TooManyAssociations);
        }
        if let Some(with) = asked.call.co_resident
            && !self.entities.contains_key(&with)
        {
            return Err(CommandError::UnknownAssociation);
        }
        let caller = TransactionId(self.next_number());
        let call = LocalCall {
            caller: (!asked.once).then_some(caller),
            from,
            to,
            is_conditional: asked.call.flags.has(engine::CallFlags::CONDITIONAL),
        };
        let note = Note {
            tag: Some(u64::from(asked.code)),
            call: asked.call,
            ..Note::default()
        };
        self.tell_local_request(message, call, note);
        if asked.once {
            self.sh
                .tell(TransactionEvent::Ended(caller, TransactionEnd::Complete));
        }
        Ok(caller)
    }

    fn tell_local_request(&mut self, message: OutgoingMessage, call: LocalCall, note: Note) {
        let served = TransactionId(self.next_number());
        let copy = self.copy_message(message);
        let requested = TransactionEvent::Requested {
            transaction: served,
            message: copy,
            from: call.from,
            to: call.to,
            answerer: call.to,
            note,
        };
        self.sh.events.push_back(Event::Transaction(requested));
        if call.caller.is_none() {
            // Nobody waits for an answer.
            self.sh
                .tell(TransactionEvent::Ended(served, TransactionEnd::Complete));
            return;
        }
        self.locals.insert(served, call);
        self.transactions.insert(served, Key::LocalServer(served));
        if let Some(caller) = call.caller {
            self.transactions.insert(caller, Key::LocalClient(served));
        }
    }

    /// A message of this end becomes one that has come in.
    pub(crate) fn copy_message(&mut self, message: OutgoingMessage) -> IncomingMessage {
        let copy = self.sh.next_incoming();
        self.sh.tell(TransactionEvent::Copied {
            from: message,
            to: copy,
        });
        self.sh.tell(TransactionEvent::Released(message));
        copy
    }

    /// The user answers a call of this host.
    pub(crate) fn reply_local(
        &mut self,
        served: TransactionId,
        (message, len): (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError> {
        let asked = read_note(note)?;
        if len > u64::from(self.sh.config.message_max) {
            return Err(CommandError::Unsupported);
        }
        let call = self.locals.get(&served).copied();
        let call = call.ok_or(CommandError::UnknownAssociation)?;
        let copy = self.copy_message(message);
        let code = ResponseCode(asked.code);
        let is_reply = code == ResponseCode::OK || code >= ResponseCode::APPLICATION;
        if let Some(caller) = call.caller.filter(|_| is_reply) {
            let replied = TransactionEvent::Replied {
                transaction: caller,
                message: copy,
                from: call.to,
                note: Note {
                    tag: Some(u64::from(asked.code)),
                    call: asked.call,
                    ..Note::default()
                },
            };
            self.sh.events.push_back(Event::Transaction(replied));
        } else {
            self.sh.tell(TransactionEvent::Discarded(copy));
        }
        let how = match is_reply {
            true => TransactionEnd::Complete,
            false => crate::client::end_of(code),
        };
        self.end_local(served, (how, TransactionEnd::Complete));
        Ok(())
    }

    /// The user passes a call of this host on: to another entity here, or over the network.
    pub(super) fn forward_local(
        &mut self,
        served: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        asked: &Asked,
    ) -> Result<(), CommandError> {
        let call = self.locals.get(&served).copied();
        let call = call.ok_or(CommandError::UnknownAssociation)?;
        let Some(caller) = call.caller else {
            return Err(CommandError::UnknownAssociation);
        };
        if self.entities.contains_key(&to) {
            let note = Note {
                tag: Some(u64::from(asked.code)),
                ..Note::default()
            };
            self.forget_local(served);
            self.tell_local_request(request.0, LocalCall { to, ..call }, note);
        } else {
            self.begin_remote_call(caller, (call.from, to), request, asked)?;
            self.locals.remove(&served);
            self.transactions.remove(&served);
        }
        self.sh
            .tell(TransactionEvent::Ended(served, TransactionEnd::Complete));
        Ok(())
    }

    fn forget_local(&mut self, served: TransactionId) -> Option<LocalCall> {
        let call = self.locals.remove(&served)?;
        self.transactions.remove(&served);
        if let Some(caller) = call.caller {
            self.transactions.remove(&caller);
        }
        Some(call)
    }

    fn end_local(&mut self, served: TransactionId, ends: (TransactionEnd, TransactionEnd)) {
        if let Some(call) = self.forget_local(served) {
            self.sh.tell(TransactionEvent::Ended(served, ends.1));
            if let Some(caller) = call.caller {
                self.sh.tell(TransactionEvent::Ended(caller, ends.0));
            }
        }
    }

    /// The caller waits no longer.
    pub(crate) fn abandon_local(&mut self, served: TransactionId) {
        let abandoned = TransactionEnd::Abandoned;
        self.end_local(served, (abandoned, abandoned));
    }

    /// The user does not answer.
    pub(crate) fn refuse_local(&mut self, served: TransactionId) {
        let is_conditional = self
            .locals
            .get(&served)
            .is_some_and(|call| call.is_conditional);
        let how = match is_conditional {
            true => TransactionEnd::Code(ResponseCode::NOT_AWAITING_MSG.0),
            false => TransactionEnd::Refused,
        };
        self.end_local(served, (how, TransactionEnd::Abandoned));
    }
}
