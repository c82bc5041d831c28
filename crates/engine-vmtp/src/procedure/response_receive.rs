//! Responses on their way in (RFC 1045 section 4.7).

use super::wants_answer;
use crate::client::{Answered, ClientCall, Current, Responder, end_of};
use crate::endpoint::{Key, Vmtp};
use crate::incoming::{Incoming, segment_of};
use crate::pdu::{Control, Flags, MANAGER_GROUP, NotifyServer, ResponseCode, VmtpHeader};
use crate::peers::Peer;
use crate::shared::Shared;
use engine::{Deliveries, EntityId, Instant, Path, TransactionEnd, TransactionEvent};

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
        path: Path,
        header: &VmtpHeader,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let now = self.now();
        if let Some(slot) = self.sh.config.prober_slot(header.client) {
            return self.handle_probe_answer(now, path, slot, header);
        }
        let key = self.call_key(header.client, header.transaction, true);
        if key == header.client && self.streams.contains_key(&key) {
            return self.handle_old_of_stream(path, header);
        }
        let Some(client) = self.clients.get_mut(&key) else {
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
                self.arm(Key::Client(key));
                Some(())
            }
            Outcome::Whole => {
                self.finish_call(key);
                Some(())
            }
            Outcome::TooLong => {
                let code = ResponseCode::BAD_REPLY_SEGMENT;
                self.refuse_response(path, header, code);
                self.end_call(key, TransactionEnd::Code(code.0));
                None
            }
            Outcome::Unknown => self.handle_duplicate(path, header, answered),
        }
    }

    /// A packet of a Response to a call of a stream that is over.
    fn handle_old_of_stream(&mut self, path: Path, header: &VmtpHeader) -> Option<()> {
        if header.control.has(Control::ACKNOWLEDGE) {
            // Which group it is of is forgotten with the call: the last one, or one that is full.
            let segment = segment_of(header);
            let group = match header.control.has(Control::NOT_END) {
                true => 0,
                false => segment.groups() - 1,
            };
            let all = segment.blocks(group);
            let notification = notification(header, all, ResponseCode::OK);
            self.sh.notify_server(path, &notification);
        }
        None
    }

    /// A packet of a Response that has come, or that nobody waits for: its server need not repeat it.
    fn handle_duplicate(
        &mut self,
        path: Path,
        header: &VmtpHeader,
        answered: Option<Answered>,
    ) -> Option<()> {
        let server = header.server;
        let is_known = answered.is_some_and(|answered| {
            let group = header.transaction.wrapping_sub(answered.first);
            Responder { path, server } == answered.responder && group < u32::from(answered.groups)
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
            // It was to be delivered only to a client that waits.
            false if header.flags.has(Flags::CONDITIONAL) => {
                self.refuse_response(path, header, ResponseCode::RESPONSE_DISCARDED);
            }
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

    /// The Response of a client's transaction has come, whole or as far as it will.
    pub(crate) fn finish_call(&mut self, id: EntityId) {
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        let Some(code) = call.reply.as_ref().map(|reply| ResponseCode(reply.code())) else {
            return;
        };
        let is_reply = code == ResponseCode::OK || code >= ResponseCode::APPLICATION;
        let (run, own_groups) = (call.run, u32::from(call.request.groups()));
        let stands_for = call
            .reply
            .as_ref()
            .map_or(0, |reply| u32::from(reply.group_count));
        if let Some(run) = run.filter(|_| stands_for >= own_groups) {
            self.answer_earlier(id, run, stands_for + 1 - own_groups);
        }
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        if !is_reply && !call.wants_many() {
            return self.end_call(id, end_of(code));
        }
        if is_reply {
            call.tell_reply(&mut self.sh);
        } else if let Some(reply) = &call.reply {
            self.sh.tell(TransactionEvent::Discarded(reply.message));
        }
        if call.wants_many() {
            call.go_on();
            return self.arm(Key::Client(id));
        }
        self.end_call(id, TransactionEnd::Complete);
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
        let server = header.server;
        let from = Responder { path, server };
        if !self.accepts(from, header) || group >= u32::from(segment.groups()) {
            return Outcome::Unknown;
        }
        if !self.turn_to(from) {
            return self.handle_surplus(sh, path, header, group as u16);
        }
        if segment.len() > u64::from(sh.config.message_max) {
            return Outcome::TooLong;
        }
        let group = group as u16;
        let is_first = self.reply.is_none();
        let mut header = *header;
        if self.called.server == MANAGER_GROUP && !header.has_segment() {
            // A manager's results take the whole of the header's data.
            header.segment_size = crate::blocks::HEADER_DATA_MAX as u32;
        }
        let header = &header;
        let is_manager = self.called.server == MANAGER_GROUP;
        let reply = self.reply.get_or_insert_with(|| match is_manager {
            true => Incoming::of_manager(sh.next_incoming(), header),
            false => Incoming::new(sh.next_incoming(), header),
        });
        let Some(is_fresh) = reply.take(header, group, deliveries) else {
            if is_first {
                self.reply = None;
            }
            return Outcome::Malformed;
        };
        self.is_idempotent = header.flags.has(Flags::DATAGRAM);
        let count = header.control.gap_or_group_count();
        reply.group_count = reply.group_count.max(count);
        let is_whole = reply.is_whole();
        if is_first {
            let peer = sh.peers.get(self.responder.path);
            self.sample(peer, now, header.control.retransmit_count());
        }
        self.note_packet(sh, now, (header, group), is_fresh);
        match is_whole {
            true => {
                sh.peers.get(path).note_response_clean();
                Outcome::Whole
            }
            false => Outcome::Incomplete,
        }
    }

    /// The first packet of a Response, to a Request that was sent again `count` times, modulo 8: how long it took.
    pub(super) fn sample(&self, peer: &mut Peer, now: Instant, count: u8) {
        let is_current = u32::from(count) == self.request.count & 7;
        if let Some(sent_at) = self.request.sent_at.filter(|_| is_current) {
            peer.sample_rtt_at_most(now.since(sent_at));
        }
        // Its server had seen no retransmission, and eight look like none.
        let answers_first = count == 0 && self.request.count < 8;
        if let Some(began_at) = self.request.began_at.filter(|_| answers_first) {
            peer.sample_response(now.since(began_at));
        }
        if self.request.count == 0 {
            peer.note_clean();
        }
    }

    /// Blocks of the Response have come: its server is told what it asks.
    fn note_packet(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        (header, group): (&VmtpHeader, u16),
        is_fresh: bool,
    ) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        let path = self.responder.path;
        let peer = sh.peers.get(path);
        if is_fresh {
            reply.retries = 0;
            if let Some(last) = reply.last_packet_at.replace(now) {
                peer.note_spacing(now.since(last));
            }
        }
        let wait = peer.packet_wait(&sh.config);
        let (have, is_group_whole) = (reply.have(group), reply.is_group_whole(group));
        let asks = header.control.has(Control::ACKNOWLEDGE);
        if asks && is_group_whole {
            let notification = notification(header, have, ResponseCode::OK);
            sh.notify_server(path, &notification);
        } else if asks && header.delivery.is_empty() && reply.is_repaired() {
            let notification = notification(header, have, ResponseCode::RETRY);
            sh.notify_server(path, &notification);
        }
        self.timeout = now + wait;
    }

    /// A packet of a reply that was told, or that is one too many: its server need not repeat it.
    fn handle_surplus(
        &self,
        sh: &mut Shared,
        path: Path,
        header: &VmtpHeader,
        group: u16,
    ) -> Outcome {
        if !self.wants_many() {
            return Outcome::Unknown;
        }
        if header.control.has(Control::ACKNOWLEDGE) {
            let all = segment_of(header).blocks(group);
            let notification = notification(header, all, ResponseCode::OK);
            sh.notify_server(path, &notification);
        }
        Outcome::Malformed
    }

    /// Asks the server for the blocks that are missing of the groups that have begun.
    pub(crate) fn request_missing(&mut self, sh: &mut Shared) {
        let Some(reply) = &self.reply else {
            return;
        };
        let peer = sh.peers.get(self.responder.path);
        peer.note_response_missing(reply.missing_so_far());
        let groups = (0..reply.begun).filter(|group| !reply.is_group_whole(*group));
        for group in groups.take(usize::from(sh.config.groups_in_flight)) {
            let notification = NotifyServer {
                server: self.responder.server,
                client: self.client,
                transaction: self.last().wrapping_add(u32::from(group)),
                delivery: reply.have(group),
                code: ResponseCode::RETRY,
            };
            sh.notify_server(self.responder.path, &notification);
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
