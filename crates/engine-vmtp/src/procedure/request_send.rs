//! Requests on their way out (RFC 1045 section 4.6.1, Send).

use super::code_and_once;
use crate::client::{Client, ClientCall, Current, skips_transactions};
use crate::config::{CLIENT_NUMBERS, PROGRESS_WAIT_MAX};
use crate::endpoint::{Key, Vmtp};
use crate::outgoing::{Left, Outgoing, Sending};
use crate::shared::NEVER;
use engine::{
    Batch, CommandError, EntityId, Instant, Note, OutgoingMessage, Path, TransactionEnd,
    TransactionId,
};

impl Vmtp {
    pub(crate) fn begin_call(
        &mut self,
        (from, to): (EntityId, EntityId),
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        let (code, is_datagram) = code_and_once(note)?;
        if request.1 > u64::from(self.sh.config.message_max) {
            return Err(CommandError::Unsupported);
        }
        let place = self
            .places
            .get(&to)
            .filter(|_| self.entities.contains_key(&from));
        let path = Path::to(*place.ok_or(CommandError::UnknownAssociation)?);
        let id = self.take_client(from)?;
        let transaction = TransactionId(self.next_number());
        let server = self.sh.config.identifier(to);
        let skips = skips_transactions(&self.sh) && !is_datagram;
        let client = self
            .clients
            .get_mut(&id)
            .ok_or(CommandError::UnknownAssociation)?;
        let call = ClientCall {
            id: transaction,
            client: id,
            server,
            path,
            first: client.next,
            code,
            is_datagram,
            request: Outgoing::new(request, self.sh.config.groups_in_flight),
            reply: None,
            is_idempotent: false,
            progress: 0,
            timeout: NEVER,
        };
        // A Response of several groups takes numbers behind the Request's last.
        client.next = call.last().wrapping_add(if skips { 256 } else { 1 });
        client.current = Current::Call(Box::new(call));
        self.transactions.insert(transaction, Key::Client(id));
        // The host's user named the address.
        self.sh.peers.get(path).is_valid = true;
        self.note_ready(Key::Client(id));
        Ok(transaction)
    }

    /// A client of an entity that has no transaction: the one used last, so that its Request
    /// acknowledges a Response that its server still keeps; or a new one.
    fn take_client(&mut self, owner: EntityId) -> Result<EntityId, CommandError> {
        let entity = self
            .entities
            .get_mut(&owner)
            .ok_or(CommandError::UnknownAssociation)?;
        if let Some(id) = entity.idle.pop() {
            return Ok(id);
        }
        let is_full = self.clients.len() >= self.sh.config.entities_max;
        if is_full || entity.clients >= CLIENT_NUMBERS {
            return Err(CommandError::TooManyAssociations);
        }
        let number = entity.first.wrapping_add(entity.clients);
        entity.clients += 1;
        let id = self.sh.config.client(owner, number);
        let client = Client {
            owner,
            next: self.sh.random.next_u64() as u32,
            current: Current::Fresh,
        };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// The client has no transaction any more.
    pub(crate) fn release_client(&mut self, id: EntityId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if let Current::Call(call) = &client.current {
            self.transactions.remove(&call.id);
            client.current = Current::Over(call.answered());
        }
        match self.entities.get_mut(&client.owner) {
            Some(entity) => entity.idle.push(id),
            None => drop(self.clients.remove(&id)),
        }
        self.timers.cancel(Key::Client(id));
    }

    /// Ends the transaction of a client.
    pub(crate) fn end_call(&mut self, id: EntityId, how: TransactionEnd) {
        if let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) {
            call.end(&mut self.sh, how);
            if how != TransactionEnd::Complete {
                call.reply = None;
            }
        }
        self.release_client(id);
    }

    pub(crate) fn abandon_call(&mut self, id: EntityId) {
        self.end_call(id, TransactionEnd::Abandoned);
    }

    /// The entity calls no more, and is not called.
    pub(crate) fn forget_entity(&mut self, entity: EntityId) {
        let Some(forgotten) = self.entities.remove(&entity) else {
            return;
        };
        for id in forgotten.idle {
            self.clients.remove(&id);
        }
    }

    pub(crate) fn transmit_request(&mut self, now: Instant, id: EntityId, batch: &mut Batch) {
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        call.request.queued = false;
        batch.set_path(call.path, None);
        let header = call.header(&self.sh);
        let mut sending = Sending {
            now,
            config: &self.sh.config,
            counters: &mut self.sh.counters,
            peer: self.sh.peers.get(call.path),
        };
        match call.request.transmit(&mut sending, &header, batch) {
            Left::Everything if call.is_datagram => {
                return self.end_call(id, TransactionEnd::Complete);
            }
            Left::Everything => {
                let config = sending.config;
                let wait = match call.request.retries {
                    0 => {
                        let wait = sending.peer.retry_wait(config, 0) + config.service_wait;
                        (wait * 2u32.saturating_pow(call.progress)).min(PROGRESS_WAIT_MAX)
                    }
                    retries => sending.peer.retry_wait(config, retries - 1),
                };
                if call.reply.is_none() {
                    call.timeout = now + wait;
                }
            }
            Left::More => {
                call.request.queued = true;
                self.ready.push_back(Key::Client(id));
            }
            Left::Paced => call.timeout = call.request.next_at,
            // An address that this host's user named has all the credit there is.
            Left::NoCredit => call.timeout = now + sending.config.rtt_initial,
        }
        self.arm(Key::Client(id));
    }
}
