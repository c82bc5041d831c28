//! The client's record of a transaction (RFC 1045 section 4.1).

use crate::config::VmtpConfig;
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pdu::{Control, Flags, ResponseCode, VmtpHeader};
use crate::peers::Peer;
use crate::procedure::stream::RunPlace;
use crate::shared::{NEVER, Shared};
use core::time::Duration;
use engine::{
    CallFlags, EntityId, Event, Instant, Path, TransactionEnd, TransactionEvent, TransactionId,
};

/// Members of a group whose replies to one call are told apart, at most.
const RESPONDERS_MAX: usize = 1024;

/// A client entity: it has one transaction at a time.
#[derive(Debug)]
pub(crate) struct Client {
    /// The host's number of the entity that calls through it.
    pub(crate) owner: EntityId,
    /// The number of its next transaction.
    pub(crate) next: u32,
    /// When its timer expires: no later than the call's time-out.
    pub(crate) armed: Instant,
    pub(crate) current: Current,
}

/// What it does.
#[derive(Debug)]
pub(crate) enum Current {
    /// It has not called yet.
    Fresh,
    /// Its transaction is not over.
    Call(Box<ClientCall>),
    /// Its last transaction is over; duplicates of the Response are known by this.
    Over(Answered),
}

impl Current {
    /// When its transaction's timer is to expire.
    pub(crate) fn timeout(&self) -> Instant {
        match self {
            Current::Call(call) => call.timeout,
            _ => NEVER,
        }
    }
}

/// The Response of a transaction that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) responder: Responder,
    /// The number of its first group.
    pub(crate) first: u32,
    /// None if it did not come.
    pub(crate) groups: u16,
}

/// A server that answers, and the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Responder {
    pub(crate) path: Path,
    pub(crate) server: EntityId,
}

/// A transaction whose Response is not whole.
#[derive(Debug)]
pub(crate) struct ClientCall {
    pub(crate) id: TransactionId,
    pub(crate) client: EntityId,
    /// Whom it calls.
    pub(crate) called: Responder,
    /// Whose Response comes in: that of the called one, of a server that it was forwarded to, of a
    /// member of the group, or of a manager.
    pub(crate) responder: Responder,
    /// Its place in a stream.
    pub(crate) run: Option<RunPlace>,
    /// The number of the Request's first group.
    pub(crate) first: u32,
    pub(crate) code: u32,
    pub(crate) is_datagram: bool,
    /// A group or a manager is called: any server may answer.
    pub(crate) accepts_any: bool,
    /// Another endpoint of the group gets it too.
    pub(crate) is_multicast: bool,
    pub(crate) request: Outgoing,
    pub(crate) reply: Option<Incoming>,
    /// Replies of other members of the group that are not whole.
    others: Vec<(Responder, Incoming)>,
    /// Members whose replies were told.
    notified: Vec<Responder>,
    /// The Response that comes in is not kept by its server.
    pub(crate) is_idempotent: bool,
    /// "In progress" was answered so often in a row.
    pub(crate) progress: u32,
    pub(crate) timeout: Instant,
}

impl ClientCall {
    pub(crate) fn new(
        (id, client): (TransactionId, EntityId),
        called: Responder,
        first: u32,
        code: u32,
        request: Outgoing,
    ) -> ClientCall {
        ClientCall {
            id,
            client,
            called,
            responder: called,
            run: None,
            first,
            code,
            is_datagram: false,
            accepts_any: request.asked.flags.has(CallFlags::TO_MANAGER),
            is_multicast: false,
            request,
            reply: None,
            others: Vec::new(),
            notified: Vec::new(),
            is_idempotent: false,
            progress: 0,
            timeout: NEVER,
        }
    }

    /// Makes one that is over what [`ClientCall::new`] gives, in the memory that it has.
    pub(crate) fn renew(
        &mut self,
        ids: (TransactionId, EntityId),
        to: Responder,
        number: u32,
        what: u32,
        message: Outgoing,
    ) {
        let ClientCall {
            id,
            client,
            called,
            responder,
            run,
            first,
            code,
            is_datagram,
            accepts_any,
            is_multicast,
            request,
            reply,
            others,
            notified,
            is_idempotent,
            progress,
            timeout,
        } = self;
        (*id, *client) = ids;
        (*called, *responder) = (to, to);
        (*first, *code, *run) = (number, what, None);
        (*is_datagram, *is_multicast, *is_idempotent) = (false, false, false);
        *accepts_any = message.asked.flags.has(CallFlags::TO_MANAGER);
        *request = message;
        *reply = None;
        (*others, *notified) = (Vec::new(), Vec::new());
        (*progress, *timeout) = (0, NEVER);
    }

    /// The number of the Request's last group, which is that of the Response's first.
    pub(crate) fn last(&self) -> u32 {
        self.first
            .wrapping_add(u32::from(self.request.groups()) - 1)
    }

    /// Whether the call goes on when a reply was told.
    pub(crate) fn wants_many(&self) -> bool {
        self.accepts_any && self.request.asked.flags.has(CallFlags::MANY_REPLIES)
    }

    /// The header of the Request's first group; `gap` is wanted between packets of the Response.
    pub(crate) fn header(&self, config: &VmtpConfig, gap: u8) -> VmtpHeader {
        let asked = &self.request.asked;
        let set = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
        let control = set(
            skips_transactions(config) && !self.is_datagram,
            Control::SKIP_TRANSACTIONS,
        ) | set(
            asked.flags.has(CallFlags::DELAYED_REPLIES),
            Control::DELAY_RESPONSE,
        );
        let run = |of: fn(&RunPlace) -> bool| self.run.as_ref().is_some_and(of);
        let control = control
            | set(run(|run| run.not_start), Control::NOT_START)
            | set(run(|run| run.not_end), Control::NOT_END);
        let flag = |wanted: bool, flag: u8| if wanted { flag } else { 0 };
        let flags = flag(self.is_datagram, Flags::DATAGRAM)
            | flag(asked.co_resident.is_some(), Flags::CO_RESIDENT)
            | flag(
                asked.flags.has(CallFlags::MANY_REPLIES),
                Flags::MANY_RESPONSES,
            )
            | flag(asked.flags.has(CallFlags::PUBLIC_CODE), Flags::PUBLIC_CODE);
        let mut header = VmtpHeader {
            client: self.client,
            domain: config.domain,
            multicast: self.is_multicast,
            control: Control::request(control).with_gap_or_group_count(gap),
            transaction: self.first,
            server: self.called.server,
            flags: Flags(flags),
            code: self.code,
            ..VmtpHeader::default()
        };
        if let Some(entity) = asked.co_resident {
            header.user_data[..8].copy_from_slice(&entity.0.to_be_bytes());
        }
        header
    }

    /// Whether a packet may be of its Response. One that was forwarded is answered by another server
    /// than the one that was called.
    pub(crate) fn accepts(&self, from: Responder, header: &VmtpHeader) -> bool {
        let is_forwarded = header.control.forward_count() > 0;
        let may_be_other = self.accepts_any || (is_forwarded && self.reply.is_none());
        !self.is_datagram && (from == self.responder || may_be_other)
    }

    /// Makes `from` the one whose Response comes in; false when its reply was told, or there are too
    /// many.
    pub(crate) fn turn_to(&mut self, from: Responder) -> bool {
        if self.notified.contains(&from) {
            return false;
        }
        if from == self.responder {
            return true;
        }
        if self.others.len() + self.notified.len() >= RESPONDERS_MAX {
            return false;
        }
        if let Some(reply) = self.reply.take() {
            if !self.wants_many() {
                // One reply is wanted, and one is on its way.
                self.reply = Some(reply);
                return false;
            }
            self.others.push((self.responder, reply));
        }
        self.responder = from;
        let known = self.others.iter().position(|(other, _)| *other == from);
        self.reply = known.map(|at| self.others.swap_remove(at).1);
        true
    }

    /// The reply that has come is told; others may follow.
    pub(crate) fn go_on(&mut self) {
        self.notified.push(self.responder);
        match self.others.pop() {
            Some((responder, reply)) => {
                self.responder = responder;
                self.reply = Some(reply);
            }
            None => self.reply = None,
        }
    }

    /// Whether a reply was told.
    pub(crate) fn has_replied(&self) -> bool {
        !self.notified.is_empty()
    }

    /// The wait for a Response to the Request that has just left (TC1, TC2).
    pub(crate) fn response_wait(&self, peer: &Peer, config: &VmtpConfig) -> Duration {
        if self.request.asked.spacing_us > 0 {
            return Duration::from_micros(u64::from(self.request.asked.spacing_us));
        }
        match self.request.retries {
            0 => {
                let wait = peer.response_wait(config);
                let wait = wait * 2u32.saturating_pow(self.progress.min(16));
                wait.min(crate::config::PROGRESS_WAIT_MAX)
            }
            _ => self.request.answer_wait(peer, config),
        }
    }

    /// Times the Request is repeated without an answer.
    pub(crate) fn retries_max(&self, sh: &Shared) -> u32 {
        match self.request.asked.tries {
            0 => sh.config.retries_max,
            tries => u32::from(tries) - 1,
        }
    }

    /// What is left of it when it is over.
    pub(crate) fn answered(&self) -> Answered {
        Answered {
            responder: self.responder,
            first: self.last(),
            groups: self.reply.as_ref().map_or(0, Incoming::groups),
        }
    }

    /// Tells the caller of the reply, whole or in part.
    pub(crate) fn tell_reply(&self, sh: &mut Shared) {
        if let Some(reply) = &self.reply {
            let replied = TransactionEvent::Replied {
                transaction: self.id,
                message: reply.message,
                from: sh.config.entity(self.responder.server),
                note: reply.note(),
            };
            sh.events.push_back(Event::Transaction(replied));
        }
    }

    /// Ends it: the host gets its buffers back.
    pub(crate) fn end(&mut self, sh: &mut Shared, how: TransactionEnd) {
        sh.tell(TransactionEvent::Released(self.request.message));
        if how != TransactionEnd::Complete
            && let Some(reply) = &self.reply
        {
            sh.tell(TransactionEvent::Discarded(reply.message));
        }
        for (_, reply) in self.others.drain(..) {
            sh.tell(TransactionEvent::Discarded(reply.message));
        }
        sh.tell(TransactionEvent::Ended(self.id, how));
        self.timeout = NEVER;
    }
}

/// Whether Requests leave numbers for Responses of several groups.
pub(crate) fn skips_transactions(config: &VmtpConfig) -> bool {
    u64::from(config.message_max) > crate::blocks::GROUP_LEN
}

/// How a transaction ends that the other side refused with this code.
pub(crate) fn end_of(code: ResponseCode) -> TransactionEnd {
    match code {
        ResponseCode::NONEXISTENT_ENTITY | ResponseCode::NO_PERMISSION => TransactionEnd::Refused,
        ResponseCode::RETRANS_TIMEOUT => TransactionEnd::TimedOut,
        ResponseCode(code) => TransactionEnd::Code(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Address, CallNote, OutgoingMessage};

    #[test]
    fn call_in_used_memory_is_as_a_new_one() {
        let to = |station, server| Responder {
            path: Path::to(Address::Station(station)),
            server: EntityId(server),
        };
        let outgoing = |message| {
            let asked = CallNote {
                flags: CallFlags::TO_MANAGER,
                ..CallNote::default()
            };
            Outgoing::new((OutgoingMessage(message), 40_000), 4, asked)
        };
        let ids = |number| (TransactionId(number), EntityId(number + 1));
        let mut used = ClientCall::new(ids(1), to(1, 7), 5, 6, outgoing(1));
        used.responder = to(2, 8);
        used.run = Some(RunPlace {
            stream: EntityId(3),
            not_start: true,
            not_end: true,
        });
        (used.is_datagram, used.accepts_any) = (true, false);
        (used.is_multicast, used.is_idempotent) = (true, true);
        let header = VmtpHeader::default();
        let reply = |message| Incoming::new(engine::IncomingMessage(message), &header);
        used.reply = Some(reply(1));
        used.others.push((to(3, 9), reply(2)));
        used.notified.push(to(4, 9));
        (used.progress, used.timeout) = (9, Instant::from_nanos(9));
        let new = ClientCall::new(ids(20), to(5, 70), 50, 60, outgoing(2));
        used.renew(ids(20), to(5, 70), 50, 60, outgoing(2));
        assert_eq!(format!("{used:?}"), format!("{new:?}"));
    }
}
