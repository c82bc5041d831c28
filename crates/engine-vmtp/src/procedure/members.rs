//! Requests to a group that has several members at this host (RFC 1045 section 4.6.1): each gets a copy,
//! and its Response is its own.

use super::request_receive::repeat_response;
use crate::endpoint::{Key, Vmtp, is_group};
use crate::pdu::ResponseCode;
use crate::records::RecordId;
use crate::server::{Record, State};
use engine::{
    EntityId, Event, IncomingMessage, Instant, Note, Path, TransactionEnd, TransactionEvent,
    TransactionId,
};

impl Vmtp {
    /// Gives copies of the Request of record `id`, which is whole, to the members that are not its
    /// answerer. One for which there is no record does not get it, as from a host that is full.
    pub(super) fn tell_other_members(
        &mut self,
        now: Instant,
        id: RecordId,
        message: IncomingMessage,
        note: Note,
    ) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let own = self.sh.config.entity(record.answerer);
        let group = self.sh.config.entity(record.server);
        let known = std::mem::take(&mut record.siblings);
        let known = self.drop_answered(now, known);
        let has_it = |vmtp: &Vmtp, member: EntityId| {
            let member = vmtp.sh.config.identifier(member);
            let mut records = known.iter().filter_map(|id| vmtp.records.get(id));
            member == vmtp.sh.config.identifier(own) || records.any(|it| it.answerer == member)
        };
        let mut siblings = known.clone();
        for member in self.members_of(group) {
            if !has_it(self, member) {
                siblings.extend(self.tell_member(now, (id, member), message, note));
            }
        }
        if let Some(record) = self.records.get_mut(&id) {
            record.siblings = siblings;
        }
    }

    /// Whether members of this host answer with more packets together than may be sent to an address
    /// that is not known to be real: a probe comes first.
    pub(super) fn responses_exceed_credit(&mut self, id: RecordId) -> bool {
        let Some(record) = self.records.get(&id) else {
            return false;
        };
        let group = self.sh.config.entity(record.server);
        let members = self.members.get(&group).map_or(0, |members| members.len());
        is_group(record.server)
            && members > 1
            && !record.is_datagram
            && !self.sh.peers.get(record.path).is_valid
    }

    /// Forgets records that are answered: an idempotent Request is executed again.
    fn drop_answered(&mut self, now: Instant, mut siblings: Vec<RecordId>) -> Vec<RecordId> {
        siblings.retain(|sibling| {
            let state = self.records.get(sibling).map(|record| &record.state);
            let is_open = state.is_some_and(|state| !matches!(state, State::Over(..)));
            if !is_open {
                self.forget_record(now, *sibling);
            }
            is_open
        });
        siblings
    }

    /// Gives `member` a copy of a Request.
    fn tell_member(
        &mut self,
        now: Instant,
        (id, member): (RecordId, EntityId),
        message: IncomingMessage,
        note: Note,
    ) -> Option<RecordId> {
        if self.records.len() >= self.sh.config.records_max {
            let oldest = self.over.oldest()?;
            self.forget_record(now, oldest);
        }
        let number = self.next_number();
        let transaction = TransactionId(self.next_number());
        let orphan_wait = self.sh.config.orphan_wait();
        let config = &self.sh.config;
        let record = self.records.get(&id)?.of_member(config.identifier(member));
        let requested = TransactionEvent::Requested {
            transaction,
            message: copy_of(&mut self.sh, message),
            from: self.sh.config.entity(record.client),
            to: self.sh.config.entity(record.server),
            answerer: member,
            note,
        };
        let is_datagram = record.is_datagram;
        let sibling = self.records.insert(
            number,
            Record {
                transaction,
                timeout: now + orphan_wait,
                ..record
            },
        );
        self.transactions.insert(transaction, Key::Server(sibling));
        self.sh.events.push_back(Event::Transaction(requested));
        self.arm(Key::Server(sibling));
        if is_datagram {
            self.close_record(now, sibling, TransactionEnd::Complete, ResponseCode::OK);
        }
        Some(sibling)
    }

    /// The client asks again: the Responses of the other members that have left come again.
    pub(super) fn repeat_siblings(&mut self, now: Instant, id: RecordId) {
        let record = self.records.get(&id);
        let (siblings, count) = record.map_or((0, 0), |it| (it.siblings.len(), it.count));
        let orphan_wait = self.sh.config.orphan_wait();
        for at in 0..siblings {
            let sibling = self.records.get(&id).map(|record| record.siblings[at]);
            let Some((sibling, record)) =
                sibling.and_then(|it| Some((it, self.records.get_mut(&it)?)))
            else {
                continue;
            };
            record.count = count;
            match &mut record.state {
                State::Processing => record.timeout = now + orphan_wait,
                State::Responding(response) => {
                    repeat_response(&mut response.outgoing);
                    self.note_ready(Key::Server(sibling));
                }
                _ => {}
            }
        }
    }

    /// Whether a member works on the Request, or its Response is not acknowledged.
    pub(super) fn has_open_sibling(&self, id: RecordId) -> bool {
        let siblings = self.records.get(&id).map(|record| &record.siblings);
        let records = siblings
            .into_iter()
            .flatten()
            .filter_map(|id| self.records.get(id));
        records
            .into_iter()
            .any(|record| !matches!(record.state, State::Over(..)))
    }

    /// An entity is a member of a group no longer.
    pub(crate) fn leave_group(&mut self, group: EntityId, entity: EntityId) {
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&entity);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
    }

    /// The client's Request is over, for all members.
    pub(super) fn forget_siblings(&mut self, now: Instant, id: RecordId) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        for sibling in std::mem::take(&mut record.siblings) {
            let state = self.records.get(&sibling).map(|record| &record.state);
            let how = match state {
                Some(State::Processing) => TransactionEnd::Abandoned,
                _ => TransactionEnd::Complete,
            };
            self.close_record(now, sibling, how, ResponseCode::OK);
            self.forget_record(now, sibling);
        }
    }

    /// The record of the Response of `server`, another member of a group, to a client.
    pub(super) fn member_record(
        &self,
        path: Path,
        client: EntityId,
        server: EntityId,
    ) -> Option<RecordId> {
        let id = self.keys.get(&(client, path))?;
        let siblings = &self.records.get(&id)?.siblings;
        let is_of = |id: &&RecordId| {
            let record = self.records.get(id);
            record.is_some_and(|record| record.answerer == server)
        };
        siblings.iter().find(is_of).copied()
    }
}

/// A message that is whole is for another user as well.
fn copy_of(sh: &mut crate::shared::Shared, message: IncomingMessage) -> IncomingMessage {
    let copy = sh.next_incoming();
    sh.tell(TransactionEvent::Duplicated {
        from: message,
        to: copy,
    });
    copy
}
