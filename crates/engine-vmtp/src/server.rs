//! The server's record of a client's transaction (RFC 1045 section 5.1).

use crate::blocks::BlockMask;
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pdu::{Control, Flags, NotifyClient, ResponseCode, VmtpHeader};
use crate::shared::{NEVER, Shared};
use engine::{EntityId, Instant, Path, TransactionEnd, TransactionEvent, TransactionId};

/// Names a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordId(pub(crate) u64);

/// The last transaction of a client, from its first packet until it is forgotten.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) path: Path,
    pub(crate) client: EntityId,
    pub(crate) server: EntityId,
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
    pub(crate) state: State,
    pub(crate) timeout: Instant,
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
    /// The user works on it.
    Processing,
    /// The Response is on its way, or kept for a client that asks again.
    Responding(Response),
    /// Who asks again gets this code. The Response of an idempotent transaction is made again.
    Over(ResponseCode, Idempotent),
}

/// Whether a transaction may be executed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idempotent(pub(crate) bool);

/// A Response on its way out.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) outgoing: Outgoing,
    pub(crate) code: u32,
    pub(crate) idempotent: Idempotent,
}

impl Record {
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
                .with_gap_or_group_count(answered_before),
            transaction: self.last(),
            server: self.server,
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
        let control = Control::response(0).with_retransmit_count(u32::from(self.count));
        let notification = NotifyClient {
            client: self.client,
            control,
            receive_sequence: 0,
            transaction: self.first.wrapping_add(u32::from(group)),
            delivery,
            code,
        };
        sh.notify_client(self.path, &notification);
    }

    /// Gives the host back what the record holds of its user's; duplicates get `code`.
    pub(crate) fn close(&mut self, sh: &mut Shared, how: TransactionEnd, code: ResponseCode) {
        let over = State::Over(code, Idempotent(false));
        match std::mem::replace(&mut self.state, over) {
            State::Receiving(request) | State::AwaitingProbe(request) => {
                sh.tell(TransactionEvent::Discarded(request.message));
            }
            State::Processing => sh.tell(TransactionEvent::Ended(self.transaction, how)),
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
