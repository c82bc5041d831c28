//! Responses on their way out (RFC 1045 section 5.6, Respond).

use super::read_note;
use crate::endpoint::{Key, Vmtp};
use crate::outgoing::{Left, Outgoing, Sending};
use crate::pdu::ResponseCode;
use crate::records::RecordId;
use crate::server::{Idempotent, Response, State};
use crate::shared::NEVER;
use engine::{Batch, CommandError, Instant, Note, OutgoingMessage, TransactionEnd, TransactionId};

impl Vmtp {
    pub(crate) fn begin_response(
        &mut self,
        transaction: TransactionId,
        reply: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError> {
        let now = self.now();
        let asked = read_note(note)?;
        let Some(Key::Server(id)) = self.transactions.get(&transaction).copied() else {
            return Err(CommandError::UnknownAssociation);
        };
        let record = self.records.get_mut(&id);
        let processing = record.filter(|record| matches!(record.state, State::Processing));
        let record = processing.ok_or(CommandError::UnknownAssociation)?;
        let call = engine::CallNote {
            co_resident: None,
            ..asked.call
        };
        let outgoing = Outgoing::new(reply, self.sh.config.groups_in_flight, call);
        let is_partial = call.flags.has(engine::CallFlags::PARTIAL);
        let is_too_long = reply.1 > u64::from(self.sh.config.message_max);
        let is_run = outgoing.groups() > 1;
        if is_too_long || (is_run && (!record.skips || is_partial)) {
            return Err(CommandError::Unsupported);
        }
        record.state = State::Responding(Response {
            outgoing,
            code: asked.code,
            idempotent: Idempotent(asked.once),
        });
        record.timeout = NEVER;
        if record.delays {
            // Many members of the group answer: not all at once.
            let max = self.sh.config.group_delay_max.as_nanos() as u64;
            let delay = self.sh.random.next_u64() % max.max(1);
            record.timeout = now + core::time::Duration::from_nanos(delay);
            self.arm(Key::Server(id));
            return Ok(());
        }
        self.note_ready(Key::Server(id));
        self.advance_run(now, id);
        Ok(())
    }

    /// The user does not answer: the client gets NO_PERMISSION, now and when it asks again; or
    /// NOT_AWAITING_MSG, if the Request was only for a user that waits.
    pub(crate) fn refuse_request(&mut self, now: Instant, id: RecordId) {
        let Some(record) = self.records.get(&id) else {
            return;
        };
        let code = match record.is_conditional {
            true => ResponseCode::NOT_AWAITING_MSG,
            false => ResponseCode::NO_PERMISSION,
        };
        if matches!(record.state, State::Processing) && !record.is_multicast {
            let last = record.groups - 1;
            record.notify(&mut self.sh, last, Default::default(), code);
        }
        self.close_record(now, id, TransactionEnd::Abandoned, code);
    }

    pub(crate) fn transmit_response(&mut self, now: Instant, id: RecordId, batch: &mut Batch) {
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let header = match &record.state {
            State::Responding(response) => record.header(&self.sh, response),
            State::Forwarded(_) => return self.transmit_forwarded(now, id, batch),
            _ => return,
        };
        let State::Responding(response) = &mut record.state else {
            return;
        };
        response.outgoing.queued = false;
        batch.set_path(record.path, None);
        let mut sending = Sending {
            now,
            config: &self.sh.config,
            counters: &mut self.sh.counters,
            peer: self.sh.peers.get(record.path),
        };
        match response.outgoing.transmit(&mut sending, &header, batch) {
            Left::Everything => {
                let config = sending.config;
                record.timeout = now
                    + match (
                        response.outgoing.has_segment(),
                        response.outgoing.is_asking(),
                    ) {
                        // Nothing more is sent: it is kept for a client that asks again.
                        (false, _) => config.record_wait(),
                        (true, false) => sending.peer.retry_wait(config, 0) + config.service_wait,
                        (true, true) => response.outgoing.answer_wait(sending.peer, config),
                    };
                let is_over = !response.outgoing.has_segment();
                if response.idempotent.0 {
                    return self.close_record(
                        now,
                        id,
                        TransactionEnd::Complete,
                        ResponseCode::RESPONSE_DISCARDED,
                    );
                }
                if is_over {
                    self.note_over(now, id);
                }
            }
            Left::More => {
                response.outgoing.queued = true;
                self.ready.push(&response.outgoing.asked, Key::Server(id));
            }
            Left::Paced => record.timeout = response.outgoing.next_at,
            Left::NoCredit => {
                record.timeout = NEVER;
                if !self.start_probe(now, id) {
                    // All probes are in use: it tries again when one may be free.
                    let wait = self.sh.config.rtt_initial;
                    if let Some(record) = self.records.get_mut(&id) {
                        record.timeout = now + wait;
                    }
                }
            }
        }
        self.arm(Key::Server(id));
    }
}
