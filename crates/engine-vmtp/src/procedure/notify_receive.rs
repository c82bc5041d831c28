//! Notifications and other requests to the manager of this host (RFC 1045 section III.4).

use crate::client::{Current, end_of};
use crate::endpoint::{Key, Vmtp};
use crate::pdu::{
    Introduction, MANAGER_GROUP, NotifyClient, NotifyServer, ProbeEntity, ResponseCode, VmtpHeader,
};
use crate::server::State;
use engine::{EntityId, Instant, Path, TransactionEnd};

impl Vmtp {
    /// Whether a Request is to this host's manager.
    pub(crate) fn is_for_manager(&self, header: &VmtpHeader) -> bool {
        header.server == MANAGER_GROUP || header.server == self.sh.config.manager()
    }

    /// A Request to the manager. It has no record: notifications are datagrams, in any order, and
    /// what is asked changes nothing.
    pub(crate) fn handle_management(
        &mut self,
        now: Instant,
        path: Path,
        header: &VmtpHeader,
    ) -> Option<()> {
        if let Some(notification) = NotifyClient::parse(header) {
            return match notification.is_remote {
                true => self.handle_notify_remote(now, path, &notification),
                false => self.handle_notify_client(now, path, &notification),
            };
        }
        if let Some(notification) = NotifyServer::parse(header) {
            return self.handle_notify_server(now, path, &notification);
        }
        if let Some(introduction) = Introduction::parse(header) {
            return self.handle_introduction(now, path, &introduction);
        }
        match ProbeEntity::parse(header) {
            Some(probe) => self.answer_probe(path, header, &probe),
            None => self.answer_manager(path, header),
        }
        Some(())
    }

    /// What became of a Request.
    fn handle_notify_client(
        &mut self,
        now: Instant,
        path: Path,
        notification: &NotifyClient,
    ) -> Option<()> {
        let id = self.call_key(notification.client, notification.transaction, false);
        let Current::Call(call) = &mut self.clients.get_mut(&id)?.current else {
            return None;
        };
        let group = notification.transaction.wrapping_sub(call.first);
        if (call.called.path != path && !call.accepts_any)
            || group >= u32::from(call.request.groups())
        {
            return None;
        }
        // Once a Response comes, it says all there is to say.
        if call.reply.is_some() {
            return Some(());
        }
        let group = group as u16;
        let window = self.sh.config.groups_in_flight;
        let peer = self.sh.peers.get(path);
        let is_current =
            u32::from(notification.control.retransmit_count()) == call.request.count & 7;
        if let Some(sent_at) = call.request.sent_at.filter(|_| is_current) {
            peer.sample_rtt(now.since(sent_at));
        }
        match notification.code {
            ResponseCode::OK => {
                call.request
                    .acknowledge(group, notification.delivery, window);
                call.request.retries = 0;
                let is_in_progress = call.request.is_acknowledged();
                call.progress += u32::from(is_in_progress);
                let config = &self.sh.config;
                let wait = peer.retry_wait(config, 0) + config.service_wait;
                let wait = wait * 2u32.saturating_pow(call.progress.min(16));
                call.timeout = now + wait.min(crate::config::PROGRESS_WAIT_MAX);
            }
            ResponseCode::RETRY => {
                call.request.retries = 0;
                call.request
                    .acknowledge(group, notification.delivery, window);
                if !call.request.has_just_left(now, peer.rtt_min()) {
                    let missing = call.request.repeat_missing(group, notification.delivery);
                    peer.note_missing(missing);
                }
            }
            ResponseCode::RETRY_ALL => {
                call.request.retries = 0;
                call.request.repeat_all();
            }
            // Sent again, data and all, when the time to wait is over.
            ResponseCode::BUSY => call.request.retries = 0,
            code => return self.handle_refusal(now, id, (notification.client, code), is_current),
        }
        self.note_ready(Key::Client(id));
        Some(())
    }

    /// A Request is not served as it was sent: last, if `is_current`, or before.
    fn handle_refusal(
        &mut self,
        now: Instant,
        id: EntityId,
        (client, code): (EntityId, ResponseCode),
        is_current: bool,
    ) -> Option<()> {
        let Current::Call(call) = &mut self.clients.get_mut(&id)?.current else {
            return None;
        };
        let is_in_run = call.run.is_some();
        match code {
            ResponseCode::STREAMING_NOT_SUPPORTED if is_in_run => self.refuse_stream(client),
            ResponseCode::NO_RUN_RECORD | ResponseCode::BAD_TRANSACTION_ID if is_in_run => {
                // Each packet of a run that was forgotten is refused; the run begins again once for all.
                if is_current {
                    self.restart_run(client);
                }
            }
            // The server has no room for more of the run: it is asked again later.
            ResponseCode::MSGTRANS_OVERFLOW if is_in_run => {
                call.request.repeat_all();
                call.timeout = now + self.sh.config.service_wait;
                self.arm(Key::Client(id));
            }
            // The server had the Request, and has forgotten it; or only the first of its groups.
            ResponseCode::NO_RUN_RECORD if call.request.is_acknowledged() => {
                self.end_call(id, TransactionEnd::TimedOut);
            }
            ResponseCode::NO_RUN_RECORD => {
                call.request.repeat_all();
                call.timeout = now + self.sh.config.service_wait;
                self.arm(Key::Client(id));
            }
            ResponseCode::ENTITY_MIGRATED => self.follow_entity(now, id),
            // One member of a group does not speak for the others.
            _ if call.is_multicast => return None,
            code => self.end_call(id, end_of(code)),
        }
        Some(())
    }

    /// What became of a Response.
    fn handle_notify_server(
        &mut self,
        now: Instant,
        path: Path,
        notification: &NotifyServer,
    ) -> Option<()> {
        let (client, transaction) = (notification.client, notification.transaction);
        let id = match self.member_record(path, client, notification.server) {
            Some(member) => member,
            None => self.response_record(path, client, transaction)?,
        };
        let record = self.records.get_mut(&id)?;
        let group = notification.transaction.wrapping_sub(record.last());
        let State::Responding(response) = &mut record.state else {
            return None;
        };
        let is_ours = record.answerer == notification.server;
        if !is_ours || group >= u32::from(response.outgoing.groups()) {
            return None;
        }
        let group = group as u16;
        let window = self.sh.config.groups_in_flight;
        let peer = self.sh.peers.get(path);
        match notification.code {
            ResponseCode::OK => {
                response
                    .outgoing
                    .acknowledge(group, notification.delivery, window);
                response.outgoing.retries = 0;
                if response.outgoing.is_acknowledged() || !response.outgoing.has_segment() {
                    self.close_record(
                        now,
                        id,
                        TransactionEnd::Complete,
                        ResponseCode::RESPONSE_DISCARDED,
                    );
                    return Some(());
                }
            }
            ResponseCode::RETRY => {
                response.outgoing.retries = 0;
                response
                    .outgoing
                    .acknowledge(group, notification.delivery, window);
                if !response.outgoing.has_just_left(now, peer.rtt_min()) {
                    let missing = response
                        .outgoing
                        .repeat_missing(group, notification.delivery);
                    peer.note_missing(missing);
                }
            }
            ResponseCode::RETRY_ALL | ResponseCode::BUSY => {
                response.outgoing.retries = 0;
                response.outgoing.repeat_all();
            }
            // The client does not want it.
            _ => {
                self.close_record(
                    now,
                    id,
                    TransactionEnd::Abandoned,
                    ResponseCode::RESPONSE_DISCARDED,
                );
                return Some(());
            }
        }
        self.note_ready(Key::Server(id));
        Some(())
    }
}
