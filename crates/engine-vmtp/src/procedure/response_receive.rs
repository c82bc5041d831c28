//! Responses on their way in (RFC 1045 section 4.7).

use super::wants_answer;
use crate::client::{Answered, ClientCall, Current, end_of};
use crate::endpoint::{Key, Vmtp};
use crate::incoming::{Incoming, segment_of};
use crate::pdu::{Control, Flags, NotifyServer, ResponseCode, VmtpHeader};
use crate::shared::Shared;
use engine::{Deliveries, Event, Instant, Note, Path, TransactionEnd, TransactionEvent};

/// What a packet of a Response leads to.
enum Outcome {
    /// It is none of this transaction.
    Unknown,
    /// It breaks a rule, and is dropped.
    Malformed,
    /// Blocks are missing yet.
    Incomplete,
    /// The Response is whole.
    Whole,
    /// It is longer than this end takes.
    TooLong,
}

impl Vmtp {
    pub(crate) fn handle_response(
        &mut self,
        now: Instant,
        path: Path,
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        if let Some(slot) = self.sh.config.prober_slot(header.client) {
            return self.handle_probe_answer(now, path, slot, header);
        }
        let Some(client) = self.clients.get_mut(&header.client) else {
            self.refuse_response(path, header, ResponseCode::NONEXISTENT_ENTITY);
            return None;
        };
        let (outcome, answered) = match &mut client.current {
            Current::Call(call) => {
                let outcome = call.handle_response(&mut self.sh, now, path, header, deliveries);
                (outcome, None)
            }
            Current::Over(answered) => (Outcome::Unknown, Some(*answered)),
            Current::Fresh => (Outcome::Unknown, None),
        };
        match outcome {
            Outcome::Malformed => None,
            Outcome::Incomplete => {
                self.arm(Key::Client(header.client));
                Some(())
            }
            Outcome::Whole => {
                self.finish_call(header);
                Some(())
            }
            Outcome::TooLong => {
                let code = ResponseCode::BAD_REPLY_SEGMENT;
                self.refuse_response(path, header, code);
                self.end_call(header.client, TransactionEnd::Code(code.0));
                None
            }
            Outcome::Unknown => self.handle_duplicate(path, header, answered),
        }
    }

    /// A packet of a Response that has come, or that nobody waits for: its server need not repeat it.
    fn handle_duplicate(
        &mut self,
        path: Path,
        header: &VmtpHeader,
        answered: Option<Answered>,
    ) -> Option<()> {
        let is_known = answered.is_some_and(|answered| {
            let group = header.transaction.wrapping_sub(answered.first);
            (path, header.server) == (answered.path, answered.server)
                && group < u32::from(answered.groups)
        });
        match is_known {
            true if header.control.has(Control::ACKNOWLEDGE) => {
                let group = header
                    .transaction
                    .wrapping_sub(answered.map_or(0, |answered| answered.first));
                let all = segment_of(header).blocks(group as u16);
                let notification = notification(header, all, ResponseCode::OK);
                self.sh.notify_server(path, &notification);
            }
            true => {}
            false => self.refuse_response(path, header, ResponseCode::BAD_TRANSACTION_ID),
        }
        None
    }

    /// Tells a server why its Response is not taken.
    fn refuse_response(&mut self, path: Path, header: &VmtpHeader, code: ResponseCode) {
        let is_others = self.sh.config.shared_address && code == ResponseCode::NONEXISTENT_ENTITY;
        if !header.multicast && !is_others && wants_answer(header) {
            let notification = notification(header, Default::default(), code);
            self.sh.notify_server(path, &notification);
        }
    }

    /// The Response of a client's transaction is whole.
    fn finish_call(&mut self, header: &VmtpHeader) {
        let code = ResponseCode(header.code);
        let is_reply = code == ResponseCode::OK || code >= ResponseCode::APPLICATION;
        let Some(Current::Call(call)) = self
            .clients
            .get_mut(&header.client)
            .map(|client| &mut client.current)
        else {
            return;
        };
        let Some(reply) = call.reply.as_ref().filter(|_| is_reply) else {
            return self.end_call(header.client, end_of(code));
        };
        let replied = TransactionEvent::Replied {
            transaction: call.id,
            message: reply.message,
            from: self.sh.config.entity(header.server),
            note: Note {
                tag: Some(u64::from(header.code)),
                ..Note::default()
            },
        };
        self.sh.events.push_back(Event::Transaction(replied));
        self.end_call(header.client, TransactionEnd::Complete);
    }
}

impl ClientCall {
    fn handle_response(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        path: Path,
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Outcome {
        let group = header.transaction.wrapping_sub(self.last());
        let segment = segment_of(header);
        let is_ours = (path, header.server) == (self.path, self.server) && !self.is_datagram;
        if !is_ours || group >= u32::from(segment.groups()) {
            return Outcome::Unknown;
        }
        if segment.len() > u64::from(sh.config.message_max) {
            return Outcome::TooLong;
        }
        let group = group as u16;
        let is_first = self.reply.is_none();
        let reply = self
            .reply
            .get_or_insert_with(|| Incoming::new(sh.next_incoming(), header));
        let Some(is_fresh) = reply.take(header, group, deliveries) else {
            if is_first {
                self.reply = None;
            }
            return Outcome::Malformed;
        };
        self.is_idempotent = header.flags.has(Flags::DATAGRAM);
        let peer = sh.peers.get(path);
        if is_first
            && let Some(sent_at) = self.request.sent_at
            && u32::from(header.control.retransmit_count()) == self.request.count & 7
        {
            peer.sample_rtt_at_most(now.since(sent_at));
        }
        if is_first && self.request.count == 0 {
            peer.note_clean();
        }
        if is_fresh {
            reply.retries = 0;
            if let Some(last) = reply.last_packet_at.replace(now) {
                peer.note_spacing(now.since(last));
            }
        }
        let wait = peer.packet_wait(&sh.config);
        let (have, is_group_whole) = (reply.have(group), reply.is_group_whole(group));
        let is_whole = reply.is_whole();
        let asks = header.control.has(Control::ACKNOWLEDGE);
        if asks && is_group_whole {
            let notification = notification(header, have, ResponseCode::OK);
            sh.notify_server(path, &notification);
        } else if asks && header.delivery.is_empty() {
            let notification = notification(header, have, ResponseCode::RETRY);
            sh.notify_server(path, &notification);
        }
        self.timeout = now + wait;
        match is_whole {
            true => Outcome::Whole,
            false => Outcome::Incomplete,
        }
    }

    /// Asks the server for the blocks that are missing of the groups that have begun.
    pub(crate) fn request_missing(&mut self, sh: &mut Shared) {
        let Some(reply) = &self.reply else {
            return;
        };
        let groups = (0..reply.begun).filter(|group| !reply.is_group_whole(*group));
        for group in groups.take(usize::from(sh.config.groups_in_flight)) {
            let notification = NotifyServer {
                server: self.server,
                client: self.client,
                transaction: self.last().wrapping_add(u32::from(group)),
                delivery: reply.have(group),
                code: ResponseCode::RETRY,
            };
            sh.notify_server(self.path, &notification);
        }
    }

    /// The Response that came in part is dropped.
    pub(crate) fn discard_reply(&mut self, sh: &mut Shared) {
        if let Some(reply) = self.reply.take() {
            sh.tell(TransactionEvent::Discarded(reply.message));
        }
    }
}

/// A notification about the Response with `header`.
fn notification(
    header: &VmtpHeader,
    delivery: crate::blocks::BlockMask,
    code: ResponseCode,
) -> NotifyServer {
    NotifyServer {
        server: header.server,
        client: header.client,
        transaction: header.transaction,
        delivery,
        code,
    }
}
