//! Requests on their way in (RFC 1045 section 5.3).

use super::wants_answer;
use crate::blocks::GROUP_LEN;
use crate::endpoint::{Key, Vmtp, is_group};
use crate::incoming::{Incoming, segment_of};
use crate::outgoing::Outgoing;
use crate::pdu::{Control, Flags, NotifyClient, ResponseCode, VmtpHeader};
use crate::records::RecordId;
use crate::server::{Idempotent, Record, State};
use crate::shared::NEVER;
use engine::{
    Deliveries, EntityId, Event, Instant, Path, TransactionEnd, TransactionEvent, TransactionId,
};

impl Vmtp {
    pub(crate) fn handle_request(
        &mut self,
        path: Path,
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let now = self.now();
        if let Some(known) = self.receiving_record(path, header) {
            let gap = header.control.gap_or_group_count();
            self.sh.peers.get(path).note_asked_gap(gap);
            let handled = self.handle_known(now, known, header, deliveries);
            if handled.is_some() {
                self.note_group(path, known, header);
            }
            return handled;
        }
        if let Some(code) = self.refusal(header) {
            self.refuse(path, header, code);
            return None;
        }
        let is_forwarded = header.control.forward_count() > 0;
        let forwarder = is_forwarded.then_some(path);
        let path = match is_forwarded {
            true => self.client_path(path, header)?,
            false => path,
        };
        self.sh
            .peers
            .get(path)
            .note_asked_gap(header.control.gap_or_group_count());
        let known = self.request_record(path, header.client, header.transaction);
        let id = match self.keys.get(&(header.client, path)) {
            Some(newest) => {
                let (id, group) = known.map_or((newest, None), |(id, group)| (id, Some(group)));
                let record = self.records.get(&id)?;
                let forwards = header.control.forward_count();
                match group {
                    Some(_) if forwards < record.forward_count && forwarder.is_some() => {
                        return None;
                    }
                    Some(_) if forwards > record.forward_count => {
                        self.replace_record(now, id, header)?
                    }
                    Some(group) => return self.handle_known(now, (id, group), header, deliveries),
                    None if is_older(header.transaction, record.first) => return None,
                    None if header.control.has(Control::NOT_START) => {
                        self.continue_run(now, id, header)?
                    }
                    None => self.replace_record(now, id, header)?,
                }
            }
            None => self.new_record(now, (path, forwarder.unwrap_or(path)), header)?,
        };
        self.records.get_mut(&id)?.forwarder = forwarder;
        let handled = self.handle_known(now, (id, 0), header, deliveries);
        if handled.is_none() {
            // Nothing of it fits: there is no Request to wait for.
            self.give_up_request(now, id);
        }
        handled
    }

    /// Why a Request cannot be served.
    fn refusal(&self, header: &VmtpHeader) -> Option<ResponseCode> {
        let is_of_run = header.control.has(Control::NOT_START)
            || header.control.has(Control::NOT_END)
            || header.control.has(Control::CONTINUED);
        let segment = segment_of(header);
        if header.encrypted {
            Some(ResponseCode::SECURITY_NOT_SUPPORTED)
        } else if self.answerer(header).is_none() {
            let own = self.sh.config.entity(header.server);
            Some(match self.moved.contains_key(&own) {
                true => ResponseCode::ENTITY_MIGRATED,
                false => ResponseCode::NONEXISTENT_ENTITY,
            })
        } else if segment.len() > u64::from(self.sh.config.message_max) {
            Some(ResponseCode::VMTP_ERROR)
        } else if is_of_run && is_group(header.server) {
            Some(ResponseCode::STREAMING_NOT_SUPPORTED)
        } else if header.flags.has(Flags::PARTIAL) && segment.len() > GROUP_LEN {
            Some(ResponseCode::VMTP_ERROR)
        } else {
            None
        }
    }

    /// The entity of this host that answers a Request: the one that is called, or the member of the
    /// group that is; None where it must share its host with an entity that is elsewhere.
    fn answerer(&self, header: &VmtpHeader) -> Option<EntityId> {
        let config = &self.sh.config;
        let is_near = |with| self.own_entity(with).is_some();
        if header.flags.has(Flags::CO_RESIDENT) && !is_near(header.co_resident()) {
            return None;
        }
        let called = config.entity(header.server);
        if is_group(header.server) && config.identifier(called) == header.server {
            let member = self.members.get(&called)?.first()?;
            return Some(config.identifier(*member));
        }
        self.own_entity(header.server).map(|_| header.server)
    }

    /// Where the client of a forwarded Request is. What came from the forwarder counts as come from
    /// it: a probe may be sent there.
    fn client_path(&mut self, forwarder: Path, header: &VmtpHeader) -> Option<Path> {
        let path = self.place_of_client(header.client)?;
        if path != forwarder {
            let peer = self.sh.peers.get(path);
            peer.note_received(crate::pdu::PACKET_MIN + header.data_len());
        }
        Some(path)
    }

    /// Tells a client why, unless nobody waits for it.
    pub(super) fn refuse(&mut self, path: Path, header: &VmtpHeader, code: ResponseCode) {
        let is_others = self.sh.config.shared_address && code == ResponseCode::NONEXISTENT_ENTITY;
        if header.multicast || is_others || !wants_answer(header) {
            return;
        }
        let count = u32::from(header.control.retransmit_count());
        if code == ResponseCode::ENTITY_MIGRATED {
            let own = self.sh.config.entity(header.server);
            if let Some(at) = self.moved.get(&own).copied() {
                self.introduce(path, header.server, at);
            }
        }
        let notification = NotifyClient {
            is_remote: header.control.forward_count() > 0,
            client: header.client,
            control: Control::response(0).with_retransmit_count(count),
            receive_sequence: 0,
            transaction: header.transaction,
            delivery: Default::default(),
            code,
        };
        self.sh.notify_client(path, &notification);
    }

    /// A record of a client that has none. What is refused is so to the host that sent it.
    fn new_record(
        &mut self,
        now: Instant,
        (path, sender): (Path, Path),
        header: &VmtpHeader,
    ) -> Option<RecordId> {
        if header.control.has(Control::NOT_START) {
            // Where in its message this group belongs is known when the first has come. A message of
            // one group is one of a run that was forgotten, and so may be one that its client asks about.
            if segment_of(header).len() <= GROUP_LEN || header.delivery.is_empty() {
                self.refuse(sender, header, ResponseCode::NO_RUN_RECORD);
            }
            return None;
        }
        self.add_record(now, (path, sender), header)
    }

    /// A record, in place of the oldest that is over where there is no room.
    pub(super) fn add_record(
        &mut self,
        now: Instant,
        (path, sender): (Path, Path),
        header: &VmtpHeader,
    ) -> Option<RecordId> {
        if self.records.len() >= self.sh.config.records_max {
            let Some(oldest) = self.over.oldest() else {
                self.refuse(sender, header, ResponseCode::BUSY);
                return None;
            };
            self.forget_record(now, oldest);
        }
        let number = self.next_number();
        let answerer = self.answerer(header)?;
        let state = State::Receiving(Incoming::new(self.sh.next_incoming(), header));
        let record = Record::new(path, header, answerer, state);
        let id = self.records.insert(number, record);
        self.keys.insert((header.client, path), id);
        Some(id)
    }

    /// A client's next Request: it has the Response to its last one, or waits for it no longer.
    fn replace_record(
        &mut self,
        now: Instant,
        id: RecordId,
        header: &VmtpHeader,
    ) -> Option<RecordId> {
        if header.control.has(Control::NOT_START) {
            return None;
        }
        let record = self.records.get(&id)?;
        let how = match record.state {
            State::Responding(_) => TransactionEnd::Complete,
            _ => TransactionEnd::Abandoned,
        };
        self.forget_siblings(now, id);
        self.close_record(now, id, how, ResponseCode::OK);
        self.note_not_over(id);
        let run = self.records.get(&id)?.run;
        if let Some(previous) = run.previous {
            if let Some(record) = self.records.get_mut(&id) {
                record.run.previous = None;
            }
            self.forget_record(now, previous);
        }
        let answerer = self.answerer(header)?;
        let state = State::Receiving(Incoming::new(self.sh.next_incoming(), header));
        let record = self.records.get_mut(&id)?;
        *record = Record {
            is_known: record.is_known,
            is_probed: record.is_probed,
            armed: record.armed,
            ..Record::new(record.path, header, answerer, state)
        };
        Some(id)
    }

    /// A packet of the Request that a record is about.
    fn handle_known(
        &mut self,
        now: Instant,
        (id, group): (RecordId, u16),
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let record = self.records.get_mut(&id)?;
        if (record.server, record.code) != (header.server, header.code) {
            // Packets of a group differ in nothing but what is the packet's (RFC 1045 section 2.5).
            return None;
        }
        record.count = header.control.retransmit_count();
        record.skips |= header.control.has(Control::SKIP_TRANSACTIONS);
        self.note_run(id, group, header);
        let record = self.records.get_mut(&id)?;
        match &mut record.state {
            State::Receiving(_) => return self.handle_blocks(now, (id, group), header, deliveries),
            State::Forwarded(_) => {
                if wants_answer(header) && self.ask_other_server(now, id) {
                    self.note_progress(now, (id, group), header);
                }
            }
            State::AwaitingProbe(_) | State::Queued(_) | State::Processing => {
                if wants_answer(header) {
                    self.note_progress(now, (id, group), header);
                }
            }
            State::Responding(response) => {
                if wants_answer(header) {
                    repeat_response(&mut response.outgoing);
                    self.note_ready(Key::Server(id));
                }
            }
            State::Over(_, Idempotent(true)) => {
                // It may be executed again.
                let groups = record.groups;
                self.note_not_over(id);
                let request = Incoming::new(self.sh.next_incoming(), header);
                let record = self.records.get_mut(&id)?;
                if request.groups() != groups {
                    return None;
                }
                record.state = State::Receiving(request);
                return self.handle_blocks(now, (id, group), header, deliveries);
            }
            State::Over(code, _) => {
                let code = *code;
                if wants_answer(header) && !record.is_datagram && !record.is_multicast {
                    record.notify(&mut self.sh, group, Default::default(), code);
                }
            }
        }
        if wants_answer(header) {
            self.repeat_siblings(now, id);
        }
        Some(())
    }

    /// Tells a client that its Request is being served. What may be sent to an address that is not
    /// known to be real is kept for a probe.
    fn note_progress(&mut self, now: Instant, (id, group): (RecordId, u16), header: &VmtpHeader) {
        let orphan_wait = self.sh.config.orphan_wait();
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        if matches!(record.state, State::Processing) {
            record.timeout = now + orphan_wait;
        }
        let to = record.forwarder.unwrap_or(record.path);
        match self.sh.peers.get(to).is_valid || record.forwarder.is_some() {
            true => {
                let all = segment_of(header).blocks(group);
                record.notify(&mut self.sh, group, all, ResponseCode::OK);
            }
            false => drop(self.start_probe(now, id)),
        }
        self.arm(Key::Server(id));
    }

    /// Blocks of a Request that is not whole.
    pub(super) fn handle_blocks(
        &mut self,
        now: Instant,
        (id, group): (RecordId, u16),
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let record = self.records.get_mut(&id)?;
        let State::Receiving(request) = &mut record.state else {
            return None;
        };
        let is_fresh = request.take(header, group, deliveries)?;
        let peer = self.sh.peers.get(record.path);
        if is_fresh {
            request.retries = 0;
            if let Some(last) = request.last_packet_at.replace(now) {
                peer.note_spacing(now.since(last));
            }
        }
        let (have, is_group_whole) = (request.have(group), request.is_group_whole(group));
        let (is_whole, is_repaired) = (request.is_whole(), request.is_repaired());
        let wait = peer.packet_wait(&self.sh.config);
        let asks = header.control.has(Control::ACKNOWLEDGE);
        let is_valid = peer.is_valid || record.forwarder.is_some();
        if asks && is_group_whole && (is_valid || !is_whole) {
            record.notify(&mut self.sh, group, have, ResponseCode::OK);
        } else if asks && !is_group_whole && is_repaired && header.delivery.is_empty() {
            // It asks what is missing, and is told at once.
            record.notify(&mut self.sh, group, have, ResponseCode::RETRY);
        }
        if is_whole {
            self.accept_request(now, id);
        } else if let Some(record) = self.records.get_mut(&id) {
            record.timeout = now + wait;
            self.arm(Key::Server(id));
        }
        Some(())
    }

    /// A Request is whole: its user is told, once it is known to be the client's current one.
    pub(crate) fn accept_request(&mut self, now: Instant, id: RecordId) {
        if self.queue_in_run(id) {
            return;
        }
        let is_young = self.is_young(now) && !self.sh.config.packet_lifetime.is_zero();
        let exceeds_credit = self.responses_exceed_credit(id);
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        record.timeout = NEVER;
        if (record.is_known || !is_young) && !exceeds_credit {
            return self.tell_request(now, id);
        }
        let closed = State::Over(ResponseCode::OK, Idempotent(false));
        record.state = match std::mem::replace(&mut record.state, closed) {
            State::Receiving(request) => State::AwaitingProbe(request),
            other => other,
        };
        self.arm(Key::Server(id));
        if !self.start_probe(now, id) {
            if let Some(record) = self.records.get(&id) {
                let last = record.groups - 1;
                record.notify(&mut self.sh, last, Default::default(), ResponseCode::BUSY);
            }
            self.forget_record(now, id);
        }
    }

    /// Gives a whole Request to its user.
    pub(crate) fn tell_request(&mut self, now: Instant, id: RecordId) {
        let transaction = TransactionId(self.next_number());
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let (message, note) = match &record.state {
            State::Receiving(request) | State::AwaitingProbe(request) => {
                (request.message, request.note())
            }
            _ => return,
        };
        record.state = State::Processing;
        record.is_known = true;
        record.transaction = transaction;
        // A client that is there asks in this time.
        record.timeout = now + self.sh.config.orphan_wait();
        let requested = TransactionEvent::Requested {
            transaction,
            message,
            from: self.sh.config.entity(record.client),
            to: self.sh.config.entity(record.server),
            answerer: self.sh.config.entity(record.answerer),
            note,
        };
        let (is_datagram, is_of_group) = (record.is_datagram, is_group(record.server));
        if is_of_group {
            self.tell_other_members(now, id, message, note);
        }
        self.transactions.insert(transaction, Key::Server(id));
        self.sh.events.push_back(Event::Transaction(requested));
        self.arm(Key::Server(id));
        if is_datagram {
            self.close_record(now, id, TransactionEnd::Complete, ResponseCode::OK);
        }
    }

    /// The transaction is over for its user; duplicates are known for a while, and get `code`.
    pub(crate) fn close_record(
        &mut self,
        now: Instant,
        id: RecordId,
        how: TransactionEnd,
        code: ResponseCode,
    ) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        if matches!(record.state, State::Over(..)) {
            return;
        }
        record.close(&mut self.sh, how, code);
        record.timeout = now + self.sh.config.record_wait();
        let transaction = record.transaction;
        self.transactions.remove(&transaction);
        self.note_over(now, id);
        self.arm(Key::Server(id));
        self.advance_run(now, id);
    }

    /// The record may be forgotten when another needs its place.
    pub(crate) fn note_over(&mut self, now: Instant, id: RecordId) {
        self.note_not_over(id);
        if let Some(record) = self.records.get_mut(&id) {
            record.over_since = Some(now);
            self.over.insert(now, id);
        }
    }

    pub(crate) fn note_not_over(&mut self, id: RecordId) {
        let record = self.records.get_mut(&id);
        if let Some(since) = record.and_then(|record| record.over_since.take()) {
            self.over.remove(since, id);
        }
    }

    /// Forgets a client.
    pub(crate) fn forget_record(&mut self, now: Instant, id: RecordId) {
        let state = self.records.get(&id).map(|record| &record.state);
        let was_answered = matches!(
            state,
            Some(State::Responding(_) | State::Over(..) | State::Forwarded(_))
        );
        let run = self.records.get(&id).map(|record| record.run);
        if let Some(record) = self.records.get_mut(&id).filter(|_| !was_answered) {
            // Those behind it must not be served without it.
            record.run.next = None;
        }
        self.forget_siblings(now, id);
        self.close_record(now, id, TransactionEnd::Complete, ResponseCode::OK);
        self.note_not_over(id);
        if let Some(record) = self.records.remove(&id) {
            if self.keys.get(&(record.client, record.path)) == Some(id) {
                self.keys.remove(&(record.client, record.path));
            }
            self.unlink_run(now, run.unwrap_or_default(), was_answered);
            if self.forwards.get(&record.client) == Some(&id) {
                self.forwards.remove(&record.client);
            }
        }
        self.timers.cancel(Key::Server(id));
    }
}

/// A client asks for a Response that has left: it comes again, or a packet that asks what is missing.
pub(super) fn repeat_response(outgoing: &mut Outgoing) {
    outgoing.retries = 0;
    if !outgoing.wants_to_send() {
        outgoing.ask();
    }
}

/// Whether `transaction` lies before `current` in the order of numbers that wrap around.
fn is_older(transaction: u32, current: u32) -> bool {
    transaction.wrapping_sub(current) > u32::MAX / 2
}
