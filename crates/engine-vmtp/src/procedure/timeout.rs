//! Time-outs of clients and of servers (RFC 1045 sections 4.9 and 5.8).

use crate::client::Current;
use crate::config::RETRY_WAIT_MAX;
use crate::endpoint::{Key, Vmtp};
use crate::pdu::ResponseCode;
use crate::server::{RecordId, State};
use engine::{EntityId, Instant, TransactionEnd};

impl Vmtp {
    pub(crate) fn expire_client(&mut self, now: Instant, id: EntityId) {
        let max = self.sh.config.retries_max;
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        call.timeout = crate::shared::NEVER;
        if call.request.wants_to_send() && call.reply.is_none() {
            // The gap between two packets is over.
            return self.note_ready(Key::Client(id));
        }
        match &mut call.reply {
            Some(reply) if !call.is_idempotent => {
                if reply.retries >= max {
                    let code = ResponseCode::BAD_REPLY_SEGMENT.0;
                    return self.end_call(id, TransactionEnd::Code(code));
                }
                let peer = self.sh.peers.get(call.path);
                let wait = peer.packet_wait(&self.sh.config);
                let wait = wait.max(peer.retry_wait(&self.sh.config, reply.retries));
                reply.retries += 1;
                call.timeout = now + wait.min(RETRY_WAIT_MAX);
                call.request_missing(&mut self.sh);
                self.arm(Key::Client(id));
                return;
            }
            // Its server has no copy: the Request is sent again, and executed again.
            Some(_) => call.discard_reply(&mut self.sh),
            None => {}
        }
        if call.request.retries >= max {
            return self.end_call(id, TransactionEnd::TimedOut);
        }
        call.request.retries += 1;
        call.request.ask();
        self.note_ready(Key::Client(id));
    }

    pub(crate) fn expire_record(&mut self, now: Instant, id: RecordId) {
        let max = self.sh.config.retries_max;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        record.timeout = crate::shared::NEVER;
        match &mut record.state {
            State::Receiving(request) => {
                if request.retries >= max || record.is_datagram {
                    // Its client asks again, if it is there.
                    return self.forget_record(now, id);
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
            State::Responding(response) if response.outgoing.wants_to_send() => {
                self.note_ready(Key::Server(id));
            }
            State::Responding(response) if response.outgoing.has_segment() => {
                if response.outgoing.retries >= max {
                    let code = ResponseCode::RESPONSE_DISCARDED;
                    return self.close_record(now, id, TransactionEnd::TimedOut, code);
                }
                response.outgoing.retries += 1;
                response.outgoing.ask();
                self.note_ready(Key::Server(id));
            }
            State::Responding(_) | State::Over(..) => self.forget_record(now, id),
            State::AwaitingProbe(_) | State::Processing => {}
        }
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
