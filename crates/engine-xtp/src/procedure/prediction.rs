//! Header prediction: DATA that go on where those before ended, in few steps and one place.
//!
//! Where short messages go to and fro, a packet of an open association of 4.0 is nearly always DATA with the bytes that
//! come next, and says nothing else (the idea is Van Jacobson's, for TCP). What is as predicted does here what the
//! general way does; whatever is not is left to that, before anything changed.

use crate::closing::SendingEnd;
use crate::codec::internet_checksum;
use crate::config::FlowControl;
use crate::context::{Context, Timer};
use crate::context_table::Slot;
use crate::endpoint::Xtp;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::{Key, SEQ_MAX, SyncNumber};
use crate::opening::{ContextState, FirstPacket, OpenReport};
use crate::pdu::{
    DATA_WORD, Format, HEADER_LEN, Header, Options, RTN, Service, first_key, has_right_check,
};
use crate::procedure::{data_send, status_request};
use crate::rx::Gap;
use engine::{
    Address, Batch, Bytes, Deliveries, Delivery, Framing, Instant, Note, Received, Store,
};

/// Options of DATA in order that change nothing, and the end of a message.
const PLAIN: u32 = Options::NOCHECK.0
    | Options::EDGE.0
    | Options::RES.0
    | Options::SORT.0
    | Options::FASTNAK.0
    | Options::EOM.0;

/// DATA of 4.0 with the receiver's key and user bytes, and no option that asks for something.
struct PlainData<'a> {
    packet: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    key: Key,
    options: Options,
    sync: SyncNumber,
    seq: u64,
    len: u64,
}

impl<'a> PlainData<'a> {
    #[inline]
    fn read(packet: &'a [u8]) -> Option<PlainData<'a>> {
        let (header, user) = packet.split_first_chunk::<HEADER_LEN>()?;
        let (words, _) = header.as_chunks::<8>();
        let word = |at: usize| u64::from_be_bytes(words[at]);
        let (key, kind) = (word(0), word(1));
        let is_plain = (kind >> 32) as u32 & !(PLAIN << 8) == DATA_WORD
            && kind as u32 as usize == user.len()
            && !user.is_empty()
            && key & RTN != 0;
        is_plain.then_some(PlainData {
            packet,
            header,
            key: Key::in_field(key),
            options: Options((kind >> 40) as u32),
            sync: SyncNumber(word(2) as u32),
            seq: word(3),
            len: user.len() as u64,
        })
    }

    /// Whether it is the next packet of `ctx`, which takes all of it.
    #[inline]
    fn is_next_of(&self, ctx: &Context, from: Address) -> bool {
        let rx = &ctx.rx;
        ctx.key == self.key
            && ctx.peer == from
            && self.seq == rx.next_seq
            && self.seq.saturating_add(self.len) <= rx.advertised_alloc.min(SEQ_MAX)
            && awaits_data(ctx)
            && has_right_check(self.header, self.packet, self.options)
    }

    /// Delivers its user bytes.
    #[inline]
    fn take(&self, ctx: &mut Context, ep: &mut EndpointState, now: Instant) -> Delivery {
        ep.counters.bytes_summed += match self.options.has(Options::NOCHECK) {
            true => HEADER_LEN as u64,
            false => self.packet.len() as u64,
        };
        ep.counters.bytes_delivered += self.len;
        ctx.last_received_at = now;
        ctx.returns_cookie = false;
        let rx = &mut ctx.rx;
        rx.error_control_off = false;
        rx.reports_without_data = 0;
        rx.next_seq += self.len;
        rx.unread_bytes += self.len;
        rx.record_sync(self.sync);
        rx.previous_had_sreq = false;
        if ctx.pending.is_any() {
            ctx.mark_ready(ep);
        }
        Delivery {
            association: ctx.id,
            bytes: Bytes::Packet(HEADER_LEN..self.packet.len()),
            gap: false,
            end_of_message: self.options.has(Options::EOM),
            note: Note::default(),
            begin_tag: false,
            end_tag: false,
        }
    }
}

/// Handles `received` if it is predicted; false if it is for the general way.
#[inline]
pub(crate) fn handle_packet(
    xtp: &mut Xtp,
    now: Instant,
    received: &Received<'_>,
    deliveries: &mut Deliveries,
) -> bool {
    let Some(data) = PlainData::read(received.octets) else {
        if let Some(key) = first_key(received.octets) {
            xtp.table.prefetch_opening(received.path.remote, key);
        }
        return false;
    };
    let ep = &mut xtp.state;
    if !ep.predicts || ep.config.flow == FlowControl::Off {
        return false;
    }
    let Some(Slot::Active(ctx)) = xtp.table.slot(data.key.slot()) else {
        return false;
    };
    if !data.is_next_of(ctx, received.path.remote) {
        return false;
    }
    #[cfg(test)]
    {
        ep.predictions.received += 1;
    }
    deliveries.bytes.push(data.take(ctx, ep, now));
    true
}

/// Whether the next user bytes are delivered as they come.
fn awaits_data(ctx: &Context) -> bool {
    let rx = &ctx.rx;
    ctx.state == ContextState::Active
        && ctx.is_validated()
        && !ctx.waits_for_validation()
        && ctx.tx.handshake.is_none()
        && rx.final_seq.is_none()
        && rx.reassembly.is_empty()
        && rx.gap == Gap::None
        && !rx.is_full
}

/// Puts into `batch` what `ctx` may send, if that is nothing, or one packet of DATA that asks for nothing; false if it
/// is for the general way.
#[inline]
pub(crate) fn transmit(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) -> bool {
    if !ep.predicts || !is_usual(ctx) {
        return false;
    }
    if ctx.tx.queue.next_seq < ctx.tx.queue.submitted {
        if !may_leave_alone(ctx, ep) {
            return false;
        }
        push_data(ctx, ep, batch);
        // Where others wait their turn, it goes behind them, as the general way has it. It has nothing more to send.
        if ep.ready_queue.len() > 0 {
            ctx.mark_ready(ep);
        }
        #[cfg(test)]
        {
            ep.predictions.sent += 1;
        }
    }
    ctx.timers.disarm(Timer::Coalesce);
    status_request::ensure_status_request(ctx, ep, now);
    true
}

/// Whether an association that is open, or has sent its FIRST, has neither lost bytes, nor an end, nor a control packet to
/// send.
fn is_usual(ctx: &Context) -> bool {
    let tx = &ctx.tx;
    let has_opened = match ctx.state {
        ContextState::Active => true,
        ContextState::Opening { first, .. } => matches!(first, FirstPacket::Sent(_)),
        ContextState::Closed { .. } => false,
    };
    has_opened
        && ctx.open_report != OpenReport::AwaitingAdmission
        && !ctx.pending.is_any()
        && !ctx.pending.deferred
        && ctx.closing.sending != SendingEnd::Finishing
        && tx.handshake.is_none()
        && tx.queue.retransmission_queue.is_empty()
}

/// Whether all that waits is one packet, which nothing holds back and which carries no status request.
fn may_leave_alone(ctx: &Context, ep: &EndpointState) -> bool {
    let tx = &ctx.tx;
    let len = tx.queue.unsent_bytes();
    let every = tx
        .queue
        .request_interval(ep.config.status_interval_bytes, ep.payload_max());
    let is_plain = ctx.state == ContextState::Active
        && !ctx.closing.is_finishing()
        && ctx.service == Service::Stream
        && ep.config.framing == Framing::Stream
        && tx.queue.message_ends.first().is_none()
        && tx.queue.begin_tags.is_empty()
        && tx.queue.end_tags.is_empty()
        && ctx.rx.final_seq.is_none();
    let is_free = ctx.is_validated()
        && ctx.route.is_none()
        && tx.congestion.is_none()
        && tx.rate_credit.is_none()
        && ep.config.oqmax.is_none()
        && ctx.options.0 & (Options::NOFLOW | Options::NOERR).0 == 0
        && tx.queue.submitted <= tx.queue.alloc;
    let asks = tx.queue.request_with_next_data
        || tx.queue.next_seq < tx.queue.request_at && tx.queue.request_at <= tx.queue.submitted
        || tx.queue.bytes_since_request + len >= every;
    is_plain
        && is_free
        && !asks
        && tx.queue.pushed >= tx.queue.submitted
        && len <= tx.payload_max.min(tx.path.slot)
}

/// Sends all that waits, which is one packet.
fn push_data(ctx: &mut Context, ep: &mut EndpointState, batch: &mut Batch) {
    let (start, end) = (ctx.tx.queue.next_seq, ctx.tx.queue.submitted);
    let len = end - start;
    // Where slots end is found out for the packets that follow.
    let rules = data_send::cut_rules(ctx, ep);
    ctx.tx.queue.next_slot_boundary(start, end, &rules);
    ctx.tx.queue.next_seq = end;
    ctx.tx.queue.bytes_since_request += len;
    let header = Header {
        options: ctx.options.with(Options::NOCHECK, !ep.config.checksum),
        dlen: len as u32,
        sort: ctx.sort.unwrap_or(0),
        sync: ctx.tx.sync,
        seq: start,
        ..plain_header(ctx.outgoing_key(), Format::Data)
    };
    batch.set_path(ctx.peer, Some(ctx.id));
    batch.push(
        &header.emit_with_checksum(),
        Store::Association(ctx.id),
        start..end,
        internet_checksum(ep.config.checksum),
    );
    batch.mark_held();
    ep.count_packet_built(len);
    ep.counters.bytes_summed += HEADER_LEN as u64 + if ep.config.checksum { len } else { 0 };
}

/// What tests want of it, and know.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Predictions {
    /// Packets that came, and that left, as predicted.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

#[cfg(test)]
mod tests;
