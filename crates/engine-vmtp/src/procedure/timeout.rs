//! Time-outs of clients and of servers (RFC 1045 sections 4.9 and 5.8).

use crate::client::Current;
use crate::config::RETRY_WAIT_MAX;
use crate::endpoint::{Key, Vmtp};
use crate::pdu::ResponseCode;
use crate::records::RecordId;
use crate::server::State;
use crate::shared::NEVER;
use engine::{EntityId, Instant, TransactionEnd};

impl Vmtp {
    pub(crate) fn expire_client(&mut self, now: Instant, id: EntityId) {
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        call.timeout = NEVER;
        if call.request.wants_to_send() && call.reply.is_none() {
            // The gap between two packets is over, or the time between two copies.
            return self.note_ready(Key::Client(id));
        }
        if call.reply.is_some() {
            return self.expire_reply(now, id);
        }
        if call.wants_many() && call.request.retries == 0 && call.has_replied() {
            // A group that answered is not asked again: the caller waits for others.
            return;
        }
        if call.request.retries >= call.retries_max(&self.sh) {
            return self.end_call(id, TransactionEnd::TimedOut);
        }
        call.request.note_silence();
        match call.request.is_repaired() {
            true => call.request.ask(),
            // Nobody asks for what was lost.
            false => call.request.repeat_all(),
        }
        self.note_ready(Key::Client(id));
    }

    /// Blocks of a Response are missing.
    fn expire_reply(&mut self, now: Instant, id: EntityId) {
        let max = self.sh.config.retries_max;
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        let Some(reply) = &mut call.reply else {
            return;
        };
        let is_last = reply.retries >= max || call.is_idempotent || !reply.is_repaired();
        if is_last && reply.is_deliverable_in_part() {
            return self.finish_call(id);
        }
        if call.is_idempotent {
            // Its server has no copy: the Request is sent again, and executed again.
            call.discard_reply(&mut self.sh);
            if call.request.retries >= call.retries_max(&self.sh) {
                return self.end_call(id, TransactionEnd::TimedOut);
            }
            call.request.note_silence();
            call.request.ask();
            return self.note_ready(Key::Client(id));
        }
        if is_last {
            let code = ResponseCode::BAD_REPLY_SEGMENT.0;
            return self.end_call(id, TransactionEnd::Code(code));
        }
        let peer = self.sh.peers.get(call.responder.path);
        let wait = peer.packet_wait(&self.sh.config);
        let wait = wait.max(peer.retry_wait(&self.sh.config, reply.retries));
        reply.retries += 1;
        call.timeout = now + wait.min(RETRY_WAIT_MAX);
        call.request_missing(&mut self.sh);
        self.arm(Key::Client(id));
    }

    pub(crate) fn expire_record(&mut self, now: Instant, id: RecordId) {
        let has_open_sibling = self.has_open_sibling(id);
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        record.timeout = NEVER;
        match &mut record.state {
            State::Receiving(_) => self.expire_request(now, id),
            State::Responding(response) if response.outgoing.wants_to_send() => {
                self.note_ready(Key::Server(id));
            }
            State::Responding(response) if response.outgoing.has_segment() => {
                if response.outgoing.retries >= self.sh.config.retries_max {
                    let code = ResponseCode::RESPONSE_DISCARDED;
                    return self.close_record(now, id, TransactionEnd::TimedOut, code);
                }
                response.outgoing.note_silence();
                response.outgoing.ask();
                self.note_ready(Key::Server(id));
            }
            State::Forwarded(_) => self.expire_forwarded(now, id),
            State::Responding(_) | State::Over(..) if has_open_sibling => {
                // Its duplicates must find what other members do.
                let wait = self.sh.config.record_wait();
                if let Some(record) = self.records.get_mut(&id) {
                    record.timeout = now + wait;
                }
                self.arm(Key::Server(id));
            }
            State::Responding(_) | State::Over(..) => self.forget_record(now, id),
            // Nothing was heard of the client: nobody waits for a Response (TS2).
            State::Processing => {
                let code = ResponseCode::RESPONSE_DISCARDED;
                self.close_record(now, id, TransactionEnd::TimedOut, code);
            }
            State::AwaitingProbe(_) | State::Queued(_) => {}
        }
    }

    /// Blocks of a Request are missing.
    fn expire_request(&mut self, now: Instant, id: RecordId) {
        let max = self.sh.config.retries_max;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let State::Receiving(request) = &mut record.state else {
            return;
        };
        if request.retries >= max || record.is_datagram || !request.is_repaired() {
            match request.is_deliverable_in_part() {
                true => self.accept_request(now, id),
                // Its client asks again, if it is there.
                false => self.give_up_request(now, id),
            }
            return;
        }
        let retries = request.retries;
        request.retries += 1;
        let peer = self.sh.peers.get(record.path);
        let wait = peer.packet_wait(&self.sh.config);
        let wait = wait.max(peer.retry_wait(&self.sh.config, retries));
        record.timeout = now + wait.min(RETRY_WAIT_MAX);
        self.request_missing(id);
        self.arm(Key::Server(id));
    }

    /// Asks the client for the blocks that are missing of the groups that have begun.
    fn request_missing(&mut self, id: RecordId) {
        let Some(record) = self.records.get(&id) else {
            return;
        };
        let State::Receiving(request) = &record.state else {
            return;
        };
        let groups = (0..request.begun).filter(|group| !request.is_group_whole(*group));
        for group in groups.take(usize::from(self.sh.config.groups_in_flight)) {
            let have = request.have(group);
            record.notify(&mut self.sh, group, have, ResponseCode::RETRY);
        }
    }
}
