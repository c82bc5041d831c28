//! The server's record of a client's transaction (RFC 1045 section 5.1).

use crate::blocks::BlockMask;
use crate::client::Responder;
use crate::endpoint::is_group;
use crate::incoming::Incoming;
use crate::incoming::segment_of;
use crate::outgoing::Outgoing;
use crate::pdu::{Control, Flags, NotifyClient, ResponseCode, VmtpHeader};
use crate::procedure::Run;
use crate::records::RecordId;
use crate::shared::{NEVER, Shared};
use engine::{
    EntityId, Instant, OutgoingMessage, Path, TransactionEnd, TransactionEvent, TransactionId,
};

/// The last transaction of a client, from its first packet until it is forgotten.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) path: Path,
    pub(crate) client: EntityId,
    /// Whom the Request is to: an entity, or a group of them.
    pub(crate) server: EntityId,
    /// The entity of this host that answers it.
    pub(crate) answerer: EntityId,
    /// Who forwarded the Request, and hears what became of it.
    pub(crate) forwarder: Option<Path>,
    /// How often it was forwarded.
    pub(crate) forward_count: u8,
    /// It went to a group: other hosts may have it, and nobody is told that it cannot be served.
    pub(crate) is_multicast: bool,
    /// Its Response waits for a random time (DRT).
    pub(crate) delays: bool,
    /// It is only for a user that waits (CMD).
    pub(crate) is_conditional: bool,
    /// The number of the Request's first group.
    pub(crate) first: u32,
    /// Packet groups of the Request.
    pub(crate) groups: u16,
    /// The host's number of the transaction.
    pub(crate) transaction: TransactionId,
    /// The client's RetransmitCount, to be sent back.
    pub(crate) count: u8,
    pub(crate) code: u32,
    /// No Response is awaited.
    pub(crate) is_datagram: bool,
    /// The client left numbers for a Response of several groups.
    pub(crate) skips: bool,
    /// A Request of the client was served: later ones need no probe.
    pub(crate) is_known: bool,
    /// Its client is being probed.
    pub(crate) is_probed: bool,
    pub(crate) run: Run,
    /// Records of other members of the group that is called: of this host, each with a Response of its
    /// own.
    pub(crate) siblings: Vec<RecordId>,
    pub(crate) state: State,
    pub(crate) timeout: Instant,
    /// When its timer expires: no later than that.
    pub(crate) armed: Instant,
    /// Since when it may be forgotten for another.
    pub(crate) over_since: Option<Instant>,
}

/// How far it got.
#[derive(Debug)]
pub(crate) enum State {
    /// Blocks of the Request are missing.
    Receiving(Incoming),
    /// The Request is whole; whether it is the client's current one is being probed.
    AwaitingProbe(Incoming),
    /// The Request is whole; the one before it in its run is not answered.
    Queued(Incoming),
    /// The user works on it.
    Processing,
    /// The Request was forwarded: another server answers it.
    Forwarded(Box<Forwarded>),
    /// The Response is on its way, or kept for a client that asks again.
    Responding(Response),
    /// Who asks again gets this code. The Response of an idempotent transaction is made again.
    Over(ResponseCode, Idempotent),
}

/// Whether a transaction may be executed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idempotent(pub(crate) bool);

/// A Request that another server is to answer.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) outgoing: Outgoing,
    pub(crate) to: Responder,
    pub(crate) code: u32,
    /// It has it.
    pub(crate) is_received: bool,
}

/// A Response on its way out.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) outgoing: Outgoing,
    pub(crate) code: u32,
    pub(crate) idempotent: Idempotent,
}

impl Record {
    /// A record of the Request of `header`, which `answerer` is to answer.
    pub(crate) fn new(path: Path, header: &VmtpHeader, answerer: EntityId, state: State) -> Record {
        Record {
            path,
            client: header.client,
            server: header.server,
            answerer,
            forwarder: None,
            forward_count: header.control.forward_count(),
            is_multicast: header.multicast,
            delays: header.control.has(Control::DELAY_RESPONSE),
            is_conditional: header.flags.has(Flags::CONDITIONAL),
            first: header.transaction,
            groups: segment_of(header).groups(),
            transaction: TransactionId(0),
            count: 0,
            code: header.code,
            is_datagram: header.flags.has(Flags::DATAGRAM),
            skips: false,
            is_known: false,
            is_probed: false,
            run: Run::default(),
            siblings: Vec::new(),
            state,
            timeout: NEVER,
            armed: NEVER,
            over_since: None,
        }
    }

    /// The record of the same Request for another member of its group, which works on it.
    pub(crate) fn of_member(&self, answerer: EntityId) -> Record {
        Record {
            path: self.path,
            client: self.client,
            server: self.server,
            answerer,
            forwarder: None,
            forward_count: self.forward_count,
            is_multicast: self.is_multicast,
            delays: self.delays,
            is_conditional: self.is_conditional,
            first: self.first,
            groups: self.groups,
            transaction: TransactionId(0),
            count: self.count,
            code: self.code,
            is_datagram: self.is_datagram,
            skips: self.skips,
            is_known: true,
            is_probed: false,
            run: Run::default(),
            siblings: Vec::new(),
            state: State::Processing,
            timeout: NEVER,
            armed: NEVER,
            over_since: None,
        }
    }

    /// The header of the forwarded Request. It asks for an acknowledgement, which comes here.
    pub(crate) fn forwarded_header(&self, sh: &Shared, forwarded: &Forwarded) -> VmtpHeader {
        let flags = Control::ACKNOWLEDGE
            | if self.skips {
                Control::SKIP_TRANSACTIONS
            } else {
                0
            };
        VmtpHeader {
            client: self.client,
            domain: sh.config.domain,
            control: Control::request(flags).with_forward_count(self.forward_count + 1),
            transaction: self.first,
            server: forwarded.to.server,
            code: forwarded.code,
            ..VmtpHeader::default()
        }
    }

    /// The message of its Response, if that lies in a header and has left, and what came before it was nothing but a
    /// Request of one packet group to one entity: no run, no group of entities, no forwarder.
    pub(crate) fn plain_response(&self) -> Option<OutgoingMessage> {
        let State::Responding(response) = &self.state else {
            return None;
        };
        let outgoing = &response.outgoing;
        let has_left = !outgoing.has_segment() && !outgoing.wants_to_send();
        let is_plain = self.is_known
            && self.groups == 1
            && self.run == Run::default()
            && self.siblings.is_empty()
            && !self.was_forwarded()
            && !(self.is_multicast || is_group(self.server));
        (has_left && is_plain).then_some(outgoing.message)
    }

    /// Whether the Request came from another server.
    pub(crate) fn was_forwarded(&self) -> bool {
        self.forwarder.is_some() || self.forward_count > 0
    }

    /// The packet group of the Request that has this number; None for another Request's.
    pub(crate) fn group(&self, transaction: u32) -> Option<u16> {
        let group = transaction.wrapping_sub(self.first);
        (group < u32::from(self.groups)).then_some(group as u16)
    }

    /// The number of the Request's last group, which is that of the Response's first.
    pub(crate) fn last(&self) -> u32 {
        self.first.wrapping_add(u32::from(self.groups) - 1)
    }

    /// The header of the Response's first group.
    pub(crate) fn header(&self, sh: &Shared, response: &Response) -> VmtpHeader {
        let several = response.outgoing.groups() > 1;
        let control = Control::response(if several {
            Control::SKIP_TRANSACTIONS
        } else {
            0
        });
        let is_idempotent = response.idempotent.0;
        let answered_before = (self.groups - 1).min(255) as u8;
        VmtpHeader {
            client: self.client,
            domain: sh.config.domain,
            control: control
                .with_retransmit_count(u32::from(self.count))
                .with_forward_count(self.forward_count)
                .with_gap_or_group_count(answered_before),
            transaction: self.last(),
            server: self.answerer,
            flags: Flags(if is_idempotent { Flags::DATAGRAM } else { 0 }),
            code: response.code,
            ..VmtpHeader::default()
        }
    }

    /// Tells the client what became of a group of its Request.
    pub(crate) fn notify(
        &self,
        sh: &mut Shared,
        group: u16,
        delivery: BlockMask,
        code: ResponseCode,
    ) {
        let control = Control::response(0)
            .with_retransmit_count(u32::from(self.count))
            .with_forward_count(self.forward_count);
        let notification = NotifyClient {
            is_remote: self.forwarder.is_some(),
            client: self.client,
            control,
            receive_sequence: 0,
            transaction: self.first.wrapping_add(u32::from(group)),
            delivery,
            code,
        };
        sh.notify_client(self.forwarder.unwrap_or(self.path), &notification);
    }

    /// Gives the host back what the record holds of its user's; duplicates get `code`.
    pub(crate) fn close(&mut self, sh: &mut Shared, how: TransactionEnd, code: ResponseCode) {
        let over = State::Over(code, Idempotent(false));
        match std::mem::replace(&mut self.state, over) {
            State::Receiving(request) | State::AwaitingProbe(request) | State::Queued(request) => {
                sh.tell(TransactionEvent::Discarded(request.message));
            }
            State::Processing => sh.tell(TransactionEvent::Ended(self.transaction, how)),
            // Its user was told that it is over when it was forwarded.
            State::Forwarded(forwarded) => {
                sh.tell(TransactionEvent::Released(forwarded.outgoing.message));
            }
            State::Responding(response) => {
                if let State::Over(_, idempotent) = &mut self.state {
                    *idempotent = response.idempotent;
                }
                sh.tell(TransactionEvent::Released(response.outgoing.message));
                sh.tell(TransactionEvent::Ended(self.transaction, how));
            }
            over @ State::Over(..) => self.state = over,
        }
        self.timeout = NEVER;
    }
}
