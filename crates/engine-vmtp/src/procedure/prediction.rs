//! Header prediction: the packet that comes next where calls of up to 20 octets follow each other, in few steps and one
//! place.
//!
//! The next Request of a client whose last one was answered in a header differs from that one in its number and its
//! data, and so does a Response that comes whole (the idea is Van Jacobson's, for TCP). What is as predicted does here
//! what the general way does; whatever is not is left to that, before anything changed.

use crate::client::{Answered, ClientCall, Current, Responder};
use crate::endpoint::{Key, Vmtp};
use crate::pdu::header::USER_DATA;
use crate::pdu::{Control, PACKET_MIN, ResponseCode, packet};
use crate::records::RecordId;
use crate::server::State;
use engine::{
    Block, Deliveries, EntityId, IncomingMessage, Instant, Note, OutgoingMessage, Path, Received,
    TransactionEnd, TransactionEvent, TransactionId,
};

/// What differs between packets without a segment and without a wish.
struct Plain<'a> {
    path: Path,
    octets: &'a [u8; PACKET_MIN],
    client: EntityId,
    server: EntityId,
    control: Control,
    transaction: u32,
    code: u32,
    /// Octets of its message.
    len: usize,
}

impl<'a> Plain<'a> {
    /// The packet, if its version is 0, its domain is this one, and no flag is set.
    fn read(path: Path, octets: &'a [u8; PACKET_MIN], domain: u16) -> Option<Plain<'a>> {
        let (words, _) = octets.as_chunks::<8>();
        let word = |at: usize| u64::from_be_bytes(words[at]);
        let (kind, group, operation) = (word(1), word(2), word(4));
        let is_plain = kind >> 32 == u64::from(domain) << 16
            && kind >> 61 == 0
            && group as u32 == 0
            && operation >> 56 == 0;
        is_plain.then(|| Plain {
            path,
            octets,
            client: EntityId(word(0)),
            server: EntityId(word(3)),
            control: Control(kind as u32),
            transaction: (group >> 32) as u32,
            code: (operation >> 32) as u32,
            len: USER_DATA.len().min(word(7) as u32 as usize),
        })
    }

    /// What its receiver is told.
    fn note(&self) -> Note {
        Note {
            tag: Some(u64::from(self.code)),
            ..Note::default()
        }
    }
}

/// Bits of the control word that may be set in a predicted Request: STI and InterpacketGap.
const REQUEST_BITS: u32 = Control::SKIP_TRANSACTIONS | 0xff00;

impl Vmtp {
    /// Handles `received` if it is a predicted packet; false if it is for the general way.
    #[inline]
    pub(super) fn handle_predicted(
        &mut self,
        now: Instant,
        received: &Received<'_>,
        deliveries: &mut Deliveries,
    ) -> bool {
        #[cfg(test)]
        if self.predictions.is_off {
            return false;
        }
        let Some(octets) = received.octets.as_array() else {
            return false;
        };
        let Some(plain) = Plain::read(received.path, octets, self.sh.config.domain) else {
            return false;
        };
        let handled = match plain.control.is_response() {
            true => self.take_response(now, &plain),
            false => self.take_request(now, &plain),
        };
        if let Some(message) = handled.filter(|_| plain.len > 0) {
            deliveries.blocks.push(Block {
                message,
                message_len: plain.len as u64,
                offset: 0,
                range: USER_DATA.start..USER_DATA.start + plain.len,
            });
        }
        handled.is_some()
    }

    /// The record of the client whose next Request a packet is, after one whose Response it has; and the message of that.
    fn record_before(&self, plain: &Plain<'_>) -> Option<(RecordId, OutgoingMessage)> {
        let id = self.keys.get(&(plain.client, plain.path))?;
        let record = self.records.get(&id)?;
        let ahead = plain.transaction.wrapping_sub(record.first);
        let is_next = record.server == plain.server
            && (1..=u32::MAX / 2).contains(&ahead)
            && plain.control.0 & !REQUEST_BITS == 0;
        let released = record.plain_response()?;
        let is_predicted = is_next
            && self.own_entity(plain.server).is_some()
            && packet::is_check_right(plain.octets);
        is_predicted.then_some((id, released))
    }

    /// The next Request of a client that has the Response to its last one.
    fn take_request(&mut self, now: Instant, plain: &Plain<'_>) -> Option<IncomingMessage> {
        let (id, released) = self.record_before(plain)?;
        self.count_prediction(false);
        self.last_group = None;
        let peer = self.sh.peers.get(plain.path);
        peer.note_received(PACKET_MIN);
        peer.note_asked_gap(plain.control.gap_or_group_count());
        let message = self.sh.next_incoming();
        let transaction = TransactionId(self.next_number());
        let record = self.records.get_mut(&id)?;
        let (answered, since) = (record.transaction, record.over_since.take());
        record.first = plain.transaction;
        record.code = plain.code;
        record.count = 0;
        record.skips = plain.control.has(Control::SKIP_TRANSACTIONS);
        (record.delays, record.is_conditional) = (false, false);
        record.transaction = transaction;
        record.state = State::Processing;
        record.timeout = now + self.sh.config.orphan_wait();
        if let Some(since) = since {
            self.over.remove(since, id);
        }
        self.transactions.remove(&answered);
        self.transactions.insert(transaction, Key::Server(id));
        self.arm(Key::Server(id));
        let to = self.sh.config.entity(plain.server);
        self.sh.tell(TransactionEvent::Released(released));
        let ended = TransactionEvent::Ended(answered, TransactionEnd::Complete);
        self.sh.tell(ended);
        self.sh.tell(TransactionEvent::Requested {
            transaction,
            message,
            from: self.sh.config.entity(plain.client),
            to,
            answerer: to,
            note: plain.note(),
        });
        Some(message)
    }

    /// Whether a packet may be a reply, whole and plain, to a client that is neither of a stream nor one of probes.
    fn may_be_reply(&self, plain: &Plain<'_>) -> bool {
        let code = ResponseCode(plain.code);
        (code == ResponseCode::OK || code >= ResponseCode::APPLICATION)
            && plain.control == Control::response(0)
            && !self.streams.contains_key(&plain.client)
            && self.sh.config.prober_slot(plain.client).is_none()
    }

    /// The whole Response to a call that was sent once.
    fn take_response(&mut self, now: Instant, plain: &Plain<'_>) -> Option<IncomingMessage> {
        let (path, server) = (plain.path, plain.server);
        let from = Responder { path, server };
        let call = match &self.clients.get(&plain.client)?.current {
            Current::Call(call) => call,
            _ => return None,
        };
        let is_predicted = self.may_be_reply(plain)
            && call.awaits_plainly(from)
            && call.last() == plain.transaction
            && packet::is_check_right(plain.octets);
        if !is_predicted {
            return None;
        }
        let message = self.sh.next_incoming();
        let peer = self.sh.peers.get(path);
        peer.note_received(PACKET_MIN);
        call.sample(peer, now, 0);
        peer.note_response_clean();
        let (id, released) = (call.id, call.request.message);
        self.sh.tell(TransactionEvent::Replied {
            transaction: id,
            message,
            from: self.sh.config.entity(server),
            note: plain.note(),
        });
        self.sh.tell(TransactionEvent::Released(released));
        let ended = TransactionEvent::Ended(id, TransactionEnd::Complete);
        self.sh.tell(ended);
        self.count_prediction(true);
        self.last_group = None;
        let over = Answered {
            responder: from,
            first: plain.transaction,
            groups: 1,
        };
        self.retire_call(plain.client, over);
        Some(message)
    }

    #[cfg(test)]
    fn count_prediction(&mut self, is_response: bool) {
        match is_response {
            true => self.predictions.responses += 1,
            false => self.predictions.requests += 1,
        }
    }

    #[cfg(not(test))]
    #[inline(always)]
    fn count_prediction(&mut self, _is_response: bool) {}
}

impl ClientCall {
    /// Whether nothing of its Response has come, which is awaited from this server alone, and it left once.
    fn awaits_plainly(&self, from: Responder) -> bool {
        self.responder == from
            && self.called == from
            && self.reply.is_none()
            && self.request.count == 0
            && self.run.is_none()
            && !self.has_replied()
            && !(self.is_datagram || self.accepts_any || self.is_multicast)
    }
}

/// Predicted packets that were handled here, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Predictions {
    /// All packets go the general way.
    is_off: bool,
    requests: u64,
    responses: u64,
}

#[cfg(test)]
mod tests;
