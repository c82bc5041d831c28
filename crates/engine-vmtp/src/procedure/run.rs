//! Runs at the server: Requests of a stream, served and answered in order (RFC 1045 section 5.3).
//!
//! Each Request has a record that knows the one before and the one behind. A whole Request is told
//! when the one before it is answered.

use crate::endpoint::{Key, Vmtp, is_group};
use crate::pdu::{Control, Flags, ResponseCode, VmtpHeader};
use crate::records::RecordId;
use crate::server::{Record, State};
use crate::shared::NEVER;
use engine::{EntityId, Instant, Path};

/// Records of a run, at most: twice as many as a client has calls in flight. Responses before those
/// have come.
const RECORDS_MAX: usize = 2 * super::stream::RUN_MAX;

/// The records beside one in its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) previous: Option<RecordId>,
    pub(crate) next: Option<RecordId>,
    /// Others may follow (NER of the message's last group).
    pub(crate) is_open: bool,
}

impl Vmtp {
    /// The record of a client that a packet group of a Request belongs to, and which group it is.
    pub(crate) fn request_record(
        &self,
        path: Path,
        client: EntityId,
        transaction: u32,
    ) -> Option<(RecordId, u16)> {
        self.run_records(path, client)
            .find_map(|(id, record)| Some((id, record.group(transaction)?)))
    }

    /// The record of the Request that a packet goes on with, and which of its groups the packet is of: nearly all packets
    /// of a group are plain, and what is to be asked of their Request was asked when the first came.
    pub(super) fn receiving_record(
        &self,
        path: Path,
        header: &VmtpHeader,
    ) -> Option<(RecordId, u16)> {
        let id = self.keys.get(&(header.client, path))?;
        let record = self.records.get(&id)?;
        let group = record.group(header.transaction)?;
        let is_open = matches!(record.state, State::Receiving(_))
            && record.server == header.server
            && !record.was_forwarded();
        let special = Flags::PARTIAL | Flags::CO_RESIDENT;
        let is_plain = !header.encrypted
            && header.flags.0 & special == 0
            && header.control.forward_count() == 0
            && !is_group(header.server);
        let is_near = || self.own_entity(header.server).is_some();
        (is_open && is_plain && is_near()).then_some((id, group))
    }

    /// The record of a client that a packet group of a Response belongs to.
    pub(crate) fn response_record(
        &self,
        path: Path,
        client: EntityId,
        transaction: u32,
    ) -> Option<RecordId> {
        let mut records = self.run_records(path, client);
        let found = records.find(|(_, record)| match &record.state {
            State::Responding(response) => {
                let group = transaction.wrapping_sub(record.last());
                group < u32::from(response.outgoing.groups())
            }
            _ => false,
        });
        found.map(|(id, _)| id)
    }

    /// The records of a client, the newest first.
    fn run_records(
        &self,
        path: Path,
        client: EntityId,
    ) -> impl Iterator<Item = (RecordId, &Record)> {
        let newest = self.keys.get(&(client, path));
        let known = |id: RecordId| Some((id, self.records.get(&id)?));
        std::iter::successors(newest.and_then(known), move |(_, record)| {
            record.run.previous.and_then(known)
        })
    }

    /// A record for the next message of the run whose newest record is `newest`; None for a packet
    /// that is not its first, with what its client is told.
    pub(super) fn continue_run(
        &mut self,
        now: Instant,
        newest: RecordId,
        header: &VmtpHeader,
    ) -> Option<RecordId> {
        let record = self.records.get(&newest)?;
        let (path, client, is_known) = (record.path, record.client, record.is_known);
        let after = header.transaction.wrapping_sub(record.last());
        let is_receiving = matches!(record.state, State::Receiving(_));
        if !record.run.is_open && !is_receiving {
            self.refuse(path, header, ResponseCode::NO_RUN_RECORD);
            return None;
        }
        if after != 1 && after != 256 {
            // The one before it is missing.
            let step = if record.skips { 256 } else { 1 };
            let missing = record.last().wrapping_add(step);
            if super::wants_answer(header) {
                self.ask_for_request(path, header, missing);
            }
            return None;
        }
        let waiting = self.run_records(path, client).count();
        if waiting >= RECORDS_MAX && !self.forget_oldest_of_run(now, path, client) {
            self.refuse(path, header, ResponseCode::MSGTRANS_OVERFLOW);
            return None;
        }
        let id = self.add_record(now, (path, path), header)?;
        let record = self.records.get_mut(&id)?;
        record.run.previous = Some(newest);
        record.is_known = is_known;
        if let Some(record) = self.records.get_mut(&newest) {
            record.run.next = Some(id);
        }
        Some(id)
    }

    fn ask_for_request(&mut self, path: Path, header: &VmtpHeader, transaction: u32) {
        let asked = VmtpHeader {
            transaction,
            ..*header
        };
        self.refuse(path, &asked, ResponseCode::RETRY);
    }

    /// The oldest record of a run is forgotten, if its Response has left.
    fn forget_oldest_of_run(&mut self, now: Instant, path: Path, client: EntityId) -> bool {
        let oldest = self.run_records(path, client).last();
        let done = oldest
            .filter(|(_, record)| matches!(record.state, State::Responding(_) | State::Over(..)));
        let id = done.map(|(id, _)| id);
        if let Some(id) = id {
            self.forget_record(now, id);
        }
        id.is_some()
    }

    /// Notes what a packet says of its run.
    pub(super) fn note_run(&mut self, id: RecordId, group: u16, header: &VmtpHeader) {
        if let Some(record) = self.records.get_mut(&id)
            && group + 1 == record.groups
        {
            record.run.is_open = header.control.has(Control::NOT_END);
        }
    }

    /// A whole Request waits until the one before it is answered; whether it does.
    pub(super) fn queue_in_run(&mut self, id: RecordId) -> bool {
        let previous = self.records.get(&id).and_then(|record| record.run.previous);
        let previous = previous.and_then(|previous| self.records.get(&previous));
        let waits = previous.is_some_and(|record| {
            !matches!(
                record.state,
                State::Responding(_) | State::Over(..) | State::Forwarded(_)
            )
        });
        if let Some(record) = self.records.get_mut(&id).filter(|_| waits) {
            let over = State::Over(ResponseCode::OK, crate::server::Idempotent(false));
            record.state = match std::mem::replace(&mut record.state, over) {
                State::Receiving(request) => State::Queued(request),
                other => other,
            };
            record.timeout = NEVER;
            self.arm(Key::Server(id));
        }
        waits
    }

    /// A record was answered, or is over: the Request behind it is told if it is whole.
    pub(crate) fn advance_run(&mut self, now: Instant, id: RecordId) {
        let Some(record) = self.records.get(&id) else {
            return;
        };
        let (next, is_known) = (record.run.next, record.is_known);
        let Some(next) = next else {
            return;
        };
        let Some(record) = self.records.get_mut(&next) else {
            return;
        };
        record.is_known |= is_known;
        let over = State::Over(ResponseCode::OK, crate::server::Idempotent(false));
        match std::mem::replace(&mut record.state, over) {
            State::Queued(request) => {
                record.state = State::Receiving(request);
                self.accept_request(now, next);
            }
            other => record.state = other,
        }
    }

    /// A Request that is not whole is given up, with those behind it. Those before it in its run stay: they
    /// may be served now.
    pub(crate) fn give_up_request(&mut self, now: Instant, id: RecordId) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let key = (record.client, record.path);
        let previous = record.run.previous.take();
        self.forget_record(now, id);
        let Some(previous) = previous else {
            return;
        };
        if let Some(record) = self.records.get_mut(&previous) {
            record.run.next = None;
            self.keys.insert(key, previous);
        }
    }

    /// A record is forgotten: those before it too, and those behind it unless it was answered.
    pub(crate) fn unlink_run(&mut self, now: Instant, run: Run, was_answered: bool) {
        if let Some(previous) = run.previous {
            if let Some(record) = self.records.get_mut(&previous) {
                record.run.next = None;
            }
            self.forget_record(now, previous);
        }
        let Some(next) = run.next else {
            return;
        };
        if let Some(record) = self.records.get_mut(&next) {
            record.run.previous = None;
        }
        if !was_answered {
            self.forget_record(now, next);
        }
    }
}
