//! Header prediction: DATA that go on where those before ended, in few steps and one place.
//!
//! Where short messages go to and fro, a packet of an open association of 4.0 is nearly always DATA with the bytes that
//! come next, and says nothing else, or that these are all (the idea is Van Jacobson's, for TCP). What is as predicted does
//! here what the general way does; whatever is not is left to that, before anything changed.

mod first;
mod opening;

use crate::closing::SendingEnd;
use crate::codec::internet_checksum;
use crate::config::FlowControl;
use crate::context::{Context, Timer};
use crate::context_table::Slot;
use crate::endpoint::Xtp;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::{Key, SEQ_MAX, SyncNumber};
use crate::opening::{ContextState, FirstPacket, OpenReport};
use crate::pdu::{DATA_WORD, Format, HEADER_LEN, Header, Options, RTN, Service, has_right_check};
use crate::procedure::{close_and_requests, data_send, packet_input, status_request};
use crate::rx::Gap;
use core::ops::Range;
use engine::{
    Address, Batch, Bytes, Deliveries, Delivery, Framing, Instant, Note, Received, Store,
};
pub(crate) use first::CalledSegments;
pub(crate) use opening::LastOpening;

/// Options of DATA in order that change nothing, and the end of a message.
const PLAIN: u32 = Options::NOCHECK.0
    | Options::EDGE.0
    | Options::RES.0
    | Options::SORT.0
    | Options::FASTNAK.0
    | Options::EOM.0;

/// Options of DATA that end a stream, acknowledge all, or ask for the receiver's state: as the reply of a transaction has them.
const CLOSE_OR_REQUEST: u32 = Options::WCLOSE.0 | Options::RCLOSE.0 | Options::SREQ.0;

/// Longest segments that are kept: an address of 40 octets and limits of 24.
const SEGMENTS_MAX: usize = 64;

/// What a FIRST had between its header and its user bytes, an address segment and a traffic specifier.
#[derive(Debug)]
struct KeptSegments {
    octets: [u8; SEGMENTS_MAX],
    len: usize,
}

impl Default for KeptSegments {
    fn default() -> KeptSegments {
        KeptSegments {
            octets: [0; SEGMENTS_MAX],
            len: 0,
        }
    }
}

impl KeptSegments {
    /// Keeps `segments`; false, and nothing is changed, if they are too long.
    fn keep(&mut self, segments: &[u8]) -> bool {
        let Some(octets) = self.octets.get_mut(..segments.len()) else {
            return false;
        };
        octets.copy_from_slice(segments);
        self.len = segments.len();
        true
    }
}

/// DATA of 4.0 with the receiver's key and user bytes, and no other options than [`PLAIN`] and [`CLOSE_OR_REQUEST`].
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
        let is_plain = (kind >> 32) as u32 & !((PLAIN | CLOSE_OR_REQUEST) << 8) == DATA_WORD
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
            && self.end() <= rx.advertised_alloc.min(SEQ_MAX)
            && awaits_data(ctx)
            && has_right_check(self.header, self.packet, self.options)
    }

    /// The number behind its last byte.
    #[inline]
    fn end(&self) -> u64 {
        self.seq.saturating_add(self.len)
    }

    /// Whether it ends a stream, acknowledges all, or asks for the receiver's state.
    #[inline]
    fn closes_or_requests(&self) -> bool {
        self.options.0 & CLOSE_OR_REQUEST != 0
    }

    /// Its header, as far as procedures look at it that follow user bytes.
    #[inline]
    fn header(&self) -> Header {
        Header {
            options: self.options,
            sync: self.sync,
            seq: self.seq,
            ..plain_header(self.key.returned(), Format::Data)
        }
    }

    /// Delivers its user bytes.
    #[inline]
    fn take(&self, ctx: &mut Context, ep: &mut EndpointState, now: Instant) -> Delivery {
        ep.counters.bytes_summed += ep.codec.summed_len(self.options, self.packet);
        ctx.last_received_at = now;
        ctx.returns_cookie = false;
        packet_input::on_setup_answered(ctx, ep);
        deliver(ctx, ep, &self.header(), HEADER_LEN..self.packet.len())
    }
}

/// Delivers the user bytes at `range` of a packet: the next ones of an association that takes them.
#[inline]
fn deliver(
    ctx: &mut Context,
    ep: &mut EndpointState,
    header: &Header,
    range: Range<usize>,
) -> Delivery {
    let len = range.len() as u64;
    ep.counters.bytes_delivered += len;
    let rx = &mut ctx.rx;
    rx.error_control_off = false;
    rx.reports_without_data = 0;
    rx.next_seq += len;
    rx.unread_bytes += len;
    rx.record_sync(header.sync);
    Delivery {
        association: ctx.id,
        bytes: Bytes::Packet(range),
        gap: false,
        end_of_message: header.options.has(Options::EOM),
        note: Note::default(),
        begin_tag: false,
        end_tag: false,
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
        return opening::handle_packet(xtp, now, received, deliveries);
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
    if data.closes_or_requests() {
        let (header, end) = (data.header(), data.end());
        // A stream that has no end yet, and nothing beyond these bytes, may end with them.
        let _ = close_and_requests::handle_close_and_requests(ctx, ep, now, &header, end);
        return true;
    }
    ctx.rx.previous_had_sreq = false;
    if ctx.pending.is_any() {
        ctx.mark_ready(ep);
    }
    true
}

/// Whether the next user bytes are delivered as they come.
fn awaits_data(ctx: &Context) -> bool {
    let rx = &ctx.rx;
    has_opened(ctx)
        && ctx.is_validated()
        && !ctx.waits_for_validation()
        && ctx.tx.handshake.is_none()
        && rx.final_seq.is_none()
        && rx.reassembly.is_empty()
        && rx.gap == Gap::None
        && !rx.is_full
}

/// Puts into `batch` what `ctx` may send, if that is nothing, or one packet: a FIRST as the last one, DATA that ask for
/// nothing, or that end the stream; false if it is for the general way.
#[inline]
pub(crate) fn transmit(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) -> bool {
    if !ep.predicts {
        return false;
    }
    let opens = first::may_open(ctx, ep);
    if !opens && !is_usual(ctx) {
        return false;
    }
    if ctx.tx.queue.next_seq < ctx.tx.queue.submitted {
        if opens {
            first::push(ctx, ep, now, batch);
        } else if may_leave_alone(ctx, ep) {
            push_data(ctx, ep, now, batch);
        } else {
            return false;
        }
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
    has_opened(ctx)
        && ctx.open_report != OpenReport::AwaitingAdmission
        && !ctx.pending.is_any()
        && !ctx.pending.deferred
        && (ctx.closing.sending != SendingEnd::Finishing || tx.queue.unsent_bytes() > 0)
        && tx.handshake.is_none()
        && tx.queue.retransmission_queue.is_empty()
}

/// Whether an association is open, or has sent its FIRST.
#[inline]
fn has_opened(ctx: &Context) -> bool {
    match ctx.state {
        ContextState::Active => true,
        ContextState::Opening { first, .. } => matches!(first, FirstPacket::Sent(_)),
        ContextState::Closed { .. } => false,
    }
}

/// Whether all that waits is one packet, which nothing holds back, and which carries no status request or ends the stream.
fn may_leave_alone(ctx: &Context, ep: &EndpointState) -> bool {
    let tx = &ctx.tx;
    let len = tx.queue.unsent_bytes();
    let is_plain = ctx.state == ContextState::Active
        && ep.config.framing == Framing::Stream
        && tx.queue.message_ends.first().is_none()
        && tx.queue.begin_tags.is_empty()
        && tx.queue.end_tags.is_empty();
    let is_free = ctx.route.is_none()
        && tx.congestion.is_none()
        && tx.rate_credit.is_none()
        && ep.config.oqmax.is_none()
        && ctx.options.0 & (Options::NOFLOW | Options::NOERR).0 == 0
        && tx.queue.submitted <= tx.queue.alloc;
    is_plain
        && is_free
        && tx.queue.pushed >= tx.queue.submitted
        && len <= tx.payload_max.min(tx.path.slot)
        && match ctx.closing.sending {
            SendingEnd::Open => asks_nothing(ctx, ep, len),
            SendingEnd::Finishing => may_end_stream(ctx, len),
            _ => false,
        }
}

/// Whether `len` bytes of a stream that goes on carry no status request, and acknowledge no end.
fn asks_nothing(ctx: &Context, ep: &EndpointState, len: u64) -> bool {
    let queue = &ctx.tx.queue;
    let every = queue.request_interval(ep.config.status_interval_bytes, ep.payload_max());
    let asks = queue.request_with_next_data
        || queue.next_seq < queue.request_at && queue.request_at <= queue.submitted
        || queue.bytes_since_request + len >= every;
    !asks && ctx.service == Service::Stream && ctx.is_validated() && ctx.rx.final_seq.is_none()
}

/// Whether a packet with the last `len` bytes may leave, which carries WCLOSE and a status request.
fn may_end_stream(ctx: &Context, len: u64) -> bool {
    matches!(ctx.service, Service::Stream | Service::Transaction)
        && ctx.within_amplification_limit(HEADER_LEN + len as usize)
}

/// Sends all that waits, which is one packet.
fn push_data(ctx: &mut Context, ep: &mut EndpointState, now: Instant, batch: &mut Batch) {
    let (start, end) = (ctx.tx.queue.next_seq, ctx.tx.queue.submitted);
    let len = end - start;
    // Where slots end is found out for the packets that follow.
    let rules = data_send::cut_rules(ctx, ep);
    ctx.tx.queue.next_slot_boundary(start, end, &rules);
    ctx.tx.queue.next_seq = end;
    ctx.tx.queue.bytes_since_request += len;
    let ends = ctx.closing.is_finishing();
    let options = last_options(ctx, ends).with(Options::NOCHECK, !ep.config.checksum);
    let sync = status_request::packet_sync(ctx, ep, now, options);
    if ends && ctx.remote_key.is_some() {
        ctx.tx.note_request_data(start);
    }
    let header = Header {
        options,
        dlen: len as u32,
        sort: ctx.sort.unwrap_or(0),
        sync,
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
    let summed = HEADER_LEN as u64 + if ep.config.checksum { len } else { 0 };
    data_send::account_packet(ctx, ep, options, HEADER_LEN, len, summed);
}

/// Option bits of DATA; of the last of a stream, if it `ends` with them.
fn last_options(ctx: &Context, ends: bool) -> Options {
    match ends {
        false => ctx.options,
        true => ctx
            .options
            .with(Options::SREQ | Options::WCLOSE, true)
            .with(Options::EOM, !ctx.is_stream())
            .with(Options::RCLOSE, ctx.rx.is_complete()),
    }
}

/// What tests want of it, and know.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Predictions {
    /// Packets that came, and that left, as predicted.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// FIRST among those that came.
    pub(crate) opened: u64,
}

#[cfg(test)]
mod tests;
