//! Forwarding: a server passes a Request on to another, whose Response goes to the client (RFC 1045
//! section 5.5).
//!
//! The forwarder keeps the Request until the client has a new one, or as long as a record is kept: a
//! client that hears nothing asks the forwarder, which asks the other server.

use super::Asked;
use crate::client::Responder;
use crate::endpoint::{Key, Vmtp};
use crate::outgoing::{Left, Outgoing, Sending};
use crate::pdu::{NotifyClient, ResponseCode};
use crate::records::RecordId;
use crate::server::{Forwarded, State};
use crate::shared::NEVER;
use engine::{
    Batch, CommandError, EntityId, Event, Instant, Note, OutgoingMessage, Path, TransactionEnd,
    TransactionEvent, TransactionId,
};

/// ForwardCount has four bits.
const FORWARD_COUNT_MAX: u8 = 15;

impl Vmtp {
    pub(crate) fn begin_forward(
        &mut self,
        transaction: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError> {
        let key = self.transactions.get(&transaction).copied();
        let code = |record: &crate::server::Record| record.code;
        match key {
            Some(Key::LocalServer(served)) => {
                let asked = Asked {
                    code: 0,
                    once: false,
                    call: Default::default(),
                    stream: 0,
                };
                self.forward_local(served, to, request, &asked)
            }
            Some(Key::Server(id)) => {
                let record = self.records.get(&id);
                let record = record.filter(|record| matches!(record.state, State::Processing));
                let record = record.ok_or(CommandError::UnknownAssociation)?;
                let code = code(record);
                // The Response is numbered behind the last group that the client has sent.
                let renumbers = segment_groups(request.1) != record.groups;
                // A run has transactions of its own: it is called again instead.
                let is_run = record.run != super::Run::default();
                if renumbers
                    || is_run
                    || record.is_multicast
                    || record.forward_count >= FORWARD_COUNT_MAX
                {
                    return Err(CommandError::Unsupported);
                }
                match self.entities.contains_key(&to) {
                    true => self.forward_within(id, to, request.0, code),
                    false => self.forward_away(self.now(), id, to, request, code)?,
                }
                self.transactions.remove(&transaction);
                self.sh.tell(TransactionEvent::Ended(
                    transaction,
                    TransactionEnd::Complete,
                ));
                Ok(())
            }
            _ => Err(CommandError::UnknownAssociation),
        }
    }

    /// To another entity of this host.
    fn forward_within(&mut self, id: RecordId, to: EntityId, message: OutgoingMessage, code: u32) {
        let transaction = TransactionId(self.next_number());
        let copy = self.copy_message(message);
        let answerer = self.sh.config.identifier(to);
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        record.forward_count += 1;
        record.answerer = answerer;
        record.transaction = transaction;
        let requested = TransactionEvent::Requested {
            transaction,
            message: copy,
            from: self.sh.config.entity(record.client),
            to,
            answerer: to,
            note: Note {
                tag: Some(u64::from(code)),
                ..Note::default()
            },
        };
        self.transactions.insert(transaction, Key::Server(id));
        self.sh.events.push_back(Event::Transaction(requested));
    }

    /// To an entity of another host.
    fn forward_away(
        &mut self,
        _now: Instant,
        id: RecordId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        code: u32,
    ) -> Result<(), CommandError> {
        let place = self.places.get(&to);
        let path = Path::to(*place.ok_or(CommandError::UnknownAssociation)?);
        let server = self.sh.config.identifier(to);
        let window = self.sh.config.groups_in_flight;
        self.sh.peers.get(path).is_valid = true;
        let Some(record) = self.records.get_mut(&id) else {
            return Err(CommandError::UnknownAssociation);
        };
        record.timeout = NEVER;
        record.state = State::Forwarded(Box::new(Forwarded {
            outgoing: Outgoing::new(request, window, Default::default()),
            to: Responder { path, server },
            code,
            is_received: false,
        }));
        let (client, at) = (record.client, record.path.remote);
        self.forwards.insert(client, id);
        self.introduce(path, client, at);
        self.note_ready(Key::Server(id));
        Ok(())
    }

    pub(crate) fn transmit_forwarded(&mut self, now: Instant, id: RecordId, batch: &mut Batch) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let header = match &record.state {
            State::Forwarded(forwarded) => record.forwarded_header(&self.sh, forwarded),
            _ => return,
        };
        let State::Forwarded(forwarded) = &mut record.state else {
            return;
        };
        forwarded.outgoing.queued = false;
        batch.set_path(forwarded.to.path, None);
        let mut sending = Sending {
            now,
            config: &self.sh.config,
            counters: &mut self.sh.counters,
            peer: self.sh.peers.get(forwarded.to.path),
        };
        match forwarded.outgoing.transmit(&mut sending, &header, batch) {
            Left::Everything => {
                let retries = forwarded.outgoing.retries;
                record.timeout = now
                    + match forwarded.is_received {
                        true => sending.config.record_wait(),
                        false => sending.peer.retry_wait(sending.config, retries),
                    };
            }
            Left::More => {
                forwarded.outgoing.queued = true;
                self.ready.push(&forwarded.outgoing.asked, Key::Server(id));
            }
            Left::Paced => record.timeout = forwarded.outgoing.next_at,
            Left::NoCredit => record.timeout = now + sending.config.rtt_initial,
        }
        self.arm(Key::Server(id));
    }

    /// The client asks: so does this host, unless the other server is silent since it has the Request.
    /// Then the client is told, and this is false: progress is what that server says, not this one.
    pub(super) fn ask_other_server(&mut self, now: Instant, id: RecordId) -> bool {
        let max = self.sh.config.retries_max;
        if let Some(record) = self.records.get_mut(&id)
            && let State::Forwarded(forwarded) = &mut record.state
            && forwarded.is_received
        {
            if forwarded.outgoing.retries >= max {
                self.end_forwarded(now, id, ResponseCode::RETRANS_TIMEOUT);
                return false;
            }
            forwarded.outgoing.note_silence();
        }
        self.repeat_forwarded(id);
        true
    }

    /// The client asks, or the other server is silent: the Request, or a question, is sent again.
    pub(crate) fn repeat_forwarded(&mut self, id: RecordId) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let (client, at) = (record.client, record.path.remote);
        let State::Forwarded(forwarded) = &mut record.state else {
            return;
        };
        if forwarded.outgoing.wants_to_send() {
            return;
        }
        forwarded.outgoing.ask();
        let path = forwarded.to.path;
        self.introduce(path, client, at);
        self.note_ready(Key::Server(id));
    }

    pub(crate) fn expire_forwarded(&mut self, now: Instant, id: RecordId) {
        let max = self.sh.config.retries_max;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let State::Forwarded(forwarded) = &mut record.state else {
            return;
        };
        if forwarded.outgoing.wants_to_send() {
            return self.note_ready(Key::Server(id));
        }
        if forwarded.is_received {
            return self.forget_record(now, id);
        }
        if forwarded.outgoing.retries >= max {
            return self.end_forwarded(now, id, ResponseCode::RETRANS_TIMEOUT);
        }
        forwarded.outgoing.note_silence();
        self.repeat_forwarded(id);
    }

    /// What became of a forwarded Request, from the server that it went to.
    pub(crate) fn handle_notify_remote(
        &mut self,
        now: Instant,
        path: Path,
        notification: &NotifyClient,
    ) -> Option<()> {
        let (id, group) = self.forwarded_record(path, notification)?;
        let window = self.sh.config.groups_in_flight;
        let record = self.records.get_mut(&id)?;
        let State::Forwarded(forwarded) = &mut record.state else {
            return None;
        };
        let outgoing = &mut forwarded.outgoing;
        outgoing.retries = 0;
        match notification.code {
            ResponseCode::OK => {
                outgoing.acknowledge(group, notification.delivery, window);
                if !outgoing.is_acknowledged() {
                    self.note_ready(Key::Server(id));
                    return Some(());
                }
                forwarded.is_received = true;
                record.timeout = now + self.sh.config.record_wait();
                self.note_over(now, id);
                self.arm(Key::Server(id));
            }
            ResponseCode::RETRY => {
                let peer = self.sh.peers.get(path);
                outgoing.acknowledge(group, notification.delivery, window);
                if !outgoing.has_just_left(now, peer.rtt_min()) {
                    let missing = outgoing.repeat_missing(group, notification.delivery);
                    peer.note_missing(missing);
                }
                self.note_ready(Key::Server(id));
            }
            ResponseCode::RETRY_ALL | ResponseCode::BUSY => {
                outgoing.repeat_all();
                // It is sent when the time to wait is over.
                record.timeout = now + self.sh.config.service_wait;
                self.arm(Key::Server(id));
            }
            ResponseCode::NO_RUN_RECORD if !forwarded.is_received => {
                outgoing.repeat_all();
                record.timeout = now + self.sh.config.service_wait;
                self.arm(Key::Server(id));
            }
            // It had the Request, and has forgotten it.
            ResponseCode::NO_RUN_RECORD => {
                self.end_forwarded(now, id, ResponseCode::RETRANS_TIMEOUT);
            }
            code => self.end_forwarded(now, id, code),
        }
        Some(())
    }

    /// The record of the Request that a notification from the host at `path` is about, and which of its
    /// groups.
    fn forwarded_record(&self, path: Path, notification: &NotifyClient) -> Option<(RecordId, u16)> {
        let id = self.forwards.get(&notification.client).copied()?;
        let record = self.records.get(&id)?;
        let is_ours = match &record.state {
            State::Forwarded(forwarded) => forwarded.to.path == path,
            _ => false,
        };
        let group = record.group(notification.transaction)?;
        is_ours.then_some((id, group))
    }

    /// The other server does not answer it: the client is told.
    fn end_forwarded(&mut self, now: Instant, id: RecordId, code: ResponseCode) {
        if let Some(record) = self.records.get(&id) {
            record.notify(&mut self.sh, 0, Default::default(), code);
        }
        self.close_record(now, id, TransactionEnd::Abandoned, code);
    }
}

/// Packet groups of a message.
fn segment_groups(len: u64) -> u16 {
    crate::blocks::Segment::of_message(len).groups()
}
