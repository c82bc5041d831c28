//! Requests on their way out (RFC 1045 section 4.6.1, Send).

use super::{Asked, read_note};
use crate::client::{Answered, Client, ClientCall, Current, Responder, skips_transactions};
use crate::config::CLIENT_NUMBERS;
use crate::endpoint::{Key, Vmtp, is_group};
use crate::outgoing::{Left, Outgoing, Sending};
use crate::pdu::MANAGER_GROUP;
use crate::shared::NEVER;
use engine::{
    Batch, CallFlags, CallNote, CommandError, EntityId, Instant, Note, OutgoingMessage, Path,
    TransactionEnd, TransactionId,
};

/// Memory of calls that are over, kept for others: of some 400 octets each, 25 kB.
const SPARE_CALLS_MAX: usize = 64;

impl Vmtp {
    pub(crate) fn begin_call(
        &mut self,
        now: Instant,
        (from, to): (EntityId, EntityId),
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        let asked = read_note(note)?;
        let is_partial = asked.call.flags.has(CallFlags::PARTIAL);
        let groups = request.1.div_ceil(crate::blocks::GROUP_LEN);
        if request.1 > u64::from(self.sh.config.message_max) || (is_partial && groups > 1) {
            return Err(CommandError::Unsupported);
        }
        if !self.entities.contains_key(&from) {
            return Err(CommandError::UnknownAssociation);
        }
        let to_manager = asked.call.flags.has(CallFlags::TO_MANAGER);
        if asked.stream != 0
            && (asked.once || to_manager || is_group(self.sh.config.identifier(to)))
        {
            // A run is of Requests that are answered, by one server.
            return Err(CommandError::Unsupported);
        }
        if groups > 1 && !to_manager && is_group(self.sh.config.identifier(to)) {
            // No member takes it: runs are not for groups, and members say nothing negative.
            return Err(CommandError::Unsupported);
        }
        if self.entities.contains_key(&to) && !to_manager {
            return self.begin_local_call(now, (from, to), request, &asked);
        }
        if asked.stream != 0 {
            return self.begin_stream_call((from, to), asked.stream, request, &asked);
        }
        let transaction = TransactionId(self.next_number());
        self.begin_remote_call(transaction, (from, to), request, &asked)?;
        Ok(transaction)
    }

    /// Begins a call over the network.
    pub(super) fn begin_remote_call(
        &mut self,
        transaction: TransactionId,
        (from, to): (EntityId, EntityId),
        request: (OutgoingMessage, u64),
        asked: &Asked,
    ) -> Result<(), CommandError> {
        let place = self.places.get(&to);
        let path = Path::to(*place.ok_or(CommandError::UnknownAssociation)?);
        let id = self.take_client(from)?;
        let identifier = self.sh.config.identifier(to);
        let to_manager = asked.call.flags.has(CallFlags::TO_MANAGER);
        // The manager of a host is found by an entity of the host.
        let co_resident = asked.call.co_resident.or(to_manager.then_some(to));
        let call_note = CallNote {
            co_resident: co_resident.map(|entity| self.sh.config.identifier(entity)),
            ..asked.call
        };
        let server = if to_manager {
            MANAGER_GROUP
        } else {
            identifier
        };
        let outgoing = Outgoing::new(request, self.sh.config.groups_in_flight, call_note);
        let skips = skips_transactions(&self.sh.config) && !asked.once;
        let client = self
            .clients
            .get_mut(&id)
            .ok_or(CommandError::UnknownAssociation)?;
        let called = Responder { path, server };
        let ids = (transaction, id);
        let mut call = match self.spare_calls.pop() {
            Some(mut spare) => {
                spare.renew(ids, called, client.next, asked.code, outgoing);
                spare
            }
            None => {
                let call = ClientCall::new(ids, called, client.next, asked.code, outgoing);
                Box::new(call)
            }
        };
        call.is_datagram = asked.once;
        call.is_multicast = is_group(identifier);
        call.accepts_any |= call.is_multicast;
        // A Response of several groups takes numbers behind the Request's last.
        client.next = call.last().wrapping_add(if skips { 256 } else { 1 });
        client.current = Current::Call(call);
        self.transactions.insert(transaction, Key::Client(id));
        // The host's user named the address.
        self.sh.peers.get(path).is_valid = true;
        self.note_ready(Key::Client(id));
        Ok(())
    }

    /// A client of an entity that has no transaction: the one used last, so that its Request
    /// acknowledges a Response that its server still keeps; or a new one.
    pub(super) fn take_client(&mut self, owner: EntityId) -> Result<EntityId, CommandError> {
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
            armed: NEVER,
            current: Current::Fresh,
        };
        self.clients.insert(id, client);
        Ok(id)
    }

    /// The client has no transaction any more.
    pub(crate) fn release_client(&mut self, id: EntityId) {
        match self.clients.get(&id).map(|client| &client.current) {
            Some(Current::Call(call)) => self.retire_call(id, call.answered()),
            Some(_) => self.make_idle(id),
            None => {}
        }
    }

    /// The transaction of a client is over, as `over` says.
    pub(super) fn retire_call(&mut self, id: EntityId, over: Answered) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let over = Current::Over(over);
        if let Current::Call(call) = std::mem::replace(&mut client.current, over) {
            self.transactions.remove(&call.id);
            let run = call.run;
            if self.spare_calls.len() < SPARE_CALLS_MAX {
                self.spare_calls.push(call);
            }
            if let Some(run) = run {
                self.timers.cancel(Key::Client(id));
                return self.leave_stream(id, run);
            }
        }
        self.make_idle(id);
    }

    /// A client without a transaction waits for the next one of its entity.
    fn make_idle(&mut self, id: EntityId) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        match self.entities.get_mut(&client.owner) {
            Some(entity) => entity.idle.push(id),
            None => self.remove_client(id),
        }
    }

    /// Removes a client, and its timer.
    fn remove_client(&mut self, id: EntityId) {
        self.clients.remove(&id);
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
        self.last_group = None;
        for id in forgotten.idle {
            self.remove_client(id);
        }
        self.members.retain(|_, members| {
            members.remove(&entity);
            !members.is_empty()
        });
    }

    pub(crate) fn transmit_request(&mut self, now: Instant, id: EntityId, batch: &mut Batch) {
        let run = match self.clients.get(&id).map(|client| &client.current) {
            Some(Current::Call(call)) => call.run,
            _ => return,
        };
        let is_oldest = self.is_oldest(id, run);
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        call.request.queued = false;
        batch.set_path(call.called.path, None);
        let mut sending = Sending {
            now,
            config: &self.sh.config,
            counters: &mut self.sh.counters,
            peer: self.sh.peers.get(call.called.path),
        };
        let header = call.header(sending.config, sending.peer.wanted_gap());
        match call.request.transmit(&mut sending, &header, batch) {
            Left::Everything if call.is_datagram => return self.repeat_datagram(now, id),
            Left::Everything => {
                if call.reply.is_none() && is_oldest {
                    call.timeout = now + call.response_wait(sending.peer, sending.config);
                }
            }
            Left::More => {
                call.request.queued = true;
                self.ready.push(&call.request.asked, Key::Client(id));
            }
            Left::Paced => call.timeout = call.request.next_at,
            // An address that this host's user named has all the credit there is.
            Left::NoCredit => call.timeout = now + sending.config.rtt_initial,
        }
        self.arm(Key::Client(id));
    }

    /// A datagram has left: it leaves again, or is over.
    fn repeat_datagram(&mut self, now: Instant, id: EntityId) {
        let spacing = self.sh.config.copy_spacing;
        let copies = self.sh.config.datagram_copies;
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        let wanted = match call.request.asked.tries {
            0 => copies,
            tries => u32::from(tries),
        };
        if call.request.count + 1 >= wanted {
            return self.end_call(id, TransactionEnd::Complete);
        }
        call.request.repeat_all();
        let spacing = match call.request.asked.spacing_us {
            0 => spacing,
            us => core::time::Duration::from_micros(u64::from(us)),
        };
        // It is put in line when its time has come.
        call.timeout = now + spacing;
        self.arm(Key::Client(id));
    }
}
