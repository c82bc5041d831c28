//! The client's record of a transaction (RFC 1045 section 4.1).

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pdu::{Control, Flags, ResponseCode, VmtpHeader};
use crate::shared::{NEVER, Shared};
use engine::{EntityId, Instant, Path, TransactionEnd, TransactionEvent, TransactionId};

/// A client entity: it has one transaction at a time.
#[derive(Debug)]
pub(crate) struct Client {
    /// The host's number of the entity that calls through it.
    pub(crate) owner: EntityId,
    /// The number of its next transaction.
    pub(crate) next: u32,
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

/// The Response of a transaction that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) path: Path,
    pub(crate) server: EntityId,
    /// The number of its first group.
    pub(crate) first: u32,
    /// None if it did not come.
    pub(crate) groups: u16,
}

/// A transaction whose Response is not whole.
#[derive(Debug)]
pub(crate) struct ClientCall {
    pub(crate) id: TransactionId,
    pub(crate) client: EntityId,
    pub(crate) server: EntityId,
    pub(crate) path: Path,
    /// The number of the Request's first group.
    pub(crate) first: u32,
    pub(crate) code: u32,
    pub(crate) is_datagram: bool,
    pub(crate) request: Outgoing,
    pub(crate) reply: Option<Incoming>,
    /// The Response that comes in is not kept by its server.
    pub(crate) is_idempotent: bool,
    /// "In progress" was answered so often in a row.
    pub(crate) progress: u32,
    pub(crate) timeout: Instant,
}

impl ClientCall {
    /// The number of the Request's last group, which is that of the Response's first.
    pub(crate) fn last(&self) -> u32 {
        self.first
            .wrapping_add(u32::from(self.request.groups()) - 1)
    }

    /// The header of the Request's first group.
    pub(crate) fn header(&self, sh: &Shared) -> VmtpHeader {
        let skip = match skips_transactions(sh) && !self.is_datagram {
            true => Control::SKIP_TRANSACTIONS,
            false => 0,
        };
        VmtpHeader {
            client: self.client,
            domain: sh.config.domain,
            control: Control::request(skip),
            transaction: self.first,
            server: self.server,
            flags: Flags(if self.is_datagram { Flags::DATAGRAM } else { 0 }),
            code: self.code,
            ..VmtpHeader::default()
        }
    }

    /// What is left of it when it is over.
    pub(crate) fn answered(&self) -> Answered {
        Answered {
            path: self.path,
            server: self.server,
            first: self.last(),
            groups: self.reply.as_ref().map_or(0, Incoming::groups),
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
        sh.tell(TransactionEvent::Ended(self.id, how));
        self.timeout = NEVER;
    }
}

/// Whether Requests leave numbers for Responses of several groups.
pub(crate) fn skips_transactions(sh: &Shared) -> bool {
    u64::from(sh.config.message_max) > crate::blocks::GROUP_LEN
}

/// How a transaction ends that the other side refused with this code.
pub(crate) fn end_of(code: ResponseCode) -> TransactionEnd {
    match code {
        ResponseCode::NONEXISTENT_ENTITY | ResponseCode::NO_PERMISSION => TransactionEnd::Refused,
        ResponseCode::RETRANS_TIMEOUT => TransactionEnd::TimedOut,
        ResponseCode(code) => TransactionEnd::Code(code),
    }
}
