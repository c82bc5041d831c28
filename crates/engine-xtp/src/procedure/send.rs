//! Sending user bytes.

use crate::api::Ask;
use crate::pdu::{CHECK_AT, Format, HEADER_LEN, Header, Options, Service};
use crate::procedure::{close, reply, request, setup, three};
use crate::shared::{Shared, plain};
use crate::state::{Context, Phase, Timer};
use crate::tx::Tags;
use core::ops::Range;
use engine::{Batch, CloseReason, Event, Framing, Instant};

/// The bytes of one packet.
struct Cut {
    bytes: Range<u64>,
    again: bool,
    /// It begins with a tag.
    tag: bool,
    /// It ends with one.
    end_tag: bool,
    eom: bool,
    /// It ends where a packet must end.
    full: bool,
}

/// The store holds bytes up to `end`. The water marks decide whether they wait for others.
pub(crate) fn do_extend(ctx: &mut Context, sh: &mut Shared, end: u64, push: bool) {
    let tx = &mut ctx.tx;
    tx.end = tx.end.max(end);
    let config = &sh.config;
    let push = push || ctx.service == Service::Isochronous;
    if push || tx.in_flight() <= config.low_water || config.linger.is_zero() {
        tx.pushed = tx.end;
    } else if tx.end - tx.next >= sh.high_water() {
        let slot = sh.payload_max();
        let part = if sh.high_water() < slot {
            0
        } else {
            tx.end % slot
        };
        tx.pushed = tx.pushed.max(tx.end - part);
    }
    setup::start_if_due(ctx, sh);
    ctx.wake(sh);
}

/// Bytes waited long enough for others to share a packet with.
pub(crate) fn handle_linger(ctx: &mut Context, sh: &mut Shared) {
    ctx.tx.pushed = ctx.tx.end;
    ctx.wake(sh);
}

/// Fills `batch` with what the context may send now.
pub(crate) fn transmit(ctx: &mut Context, sh: &mut Shared, now: Instant, batch: &mut Batch) {
    if ctx.is_ended() || ctx.supervised {
        return;
    }
    batch.set_destination(ctx.id, ctx.peer);
    if ctx.phase == Phase::Opening && ctx.first.due {
        setup::transmit_first(ctx, sh, now, batch);
        ctx.wake(sh);
        return;
    }
    if ctx.due.deferred {
        reply::transmit_control(ctx, sh, now, batch);
    }
    if batch.is_empty() {
        transmit_data(ctx, sh, now, batch);
        watch_linger(ctx, sh, now);
        request::settle(ctx, sh, now);
        ctx.due.reply |= ctx.due.delivered;
        if ctx.due.reply || ctx.due.probe || close::is_wclose_due(ctx) {
            reply::transmit_control(ctx, sh, now, batch);
        }
    }
    if !batch.is_empty() {
        ctx.wake(sh);
    }
}

fn transmit_data(ctx: &mut Context, sh: &mut Shared, now: Instant, batch: &mut Batch) {
    let mut next = next_cut(ctx, sh);
    while let Some(cut) = next.take() {
        let len = sh.packet_len(cut.bytes.end - cut.bytes.start);
        let short = !batch.is_empty() && len < batch.segment_size();
        let long = !batch.is_empty() && len > batch.segment_size();
        if long || batch.room() == 0 || !may_send(ctx, sh, now, len) {
            break;
        }
        advance(ctx, sh, &cut);
        next = next_cut(ctx, sh);
        push(ctx, sh, now, batch, &cut, next.is_none());
        if short {
            break;
        }
    }
}

/// Bounds the wait of bytes that were held back.
#[inline]
fn watch_linger(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let held = ctx.tx.next.max(ctx.tx.pushed) < ctx.tx.end;
    if !held {
        ctx.disarm(Timer::Linger);
    } else if !ctx.is_armed(Timer::Linger) {
        ctx.arm(sh, Timer::Linger, now + sh.config.linger);
    }
}

/// Whether rate and the peer's proof let a packet of `len` octets go; if not, sees to it that
/// sending goes on some time.
fn may_send(ctx: &mut Context, sh: &mut Shared, now: Instant, len: usize) -> bool {
    let whole = ctx.tx.finishing && ctx.tx.end - ctx.tx.next < len as u64;
    let spare = if whole { 0 } else { sh.key_len() };
    if !ctx.may_send(len + spare) {
        // Whoever uses the key that a TCNTL offers has proven the address.
        ctx.due.probe |= !ctx.starved;
        ctx.starved = true;
        return false;
    }
    if ctx.route != 0
        && let Some(at) = sh.routes.blocked_until(ctx.route, now)
    {
        ctx.arm(sh, Timer::Rate, at);
        return false;
    }
    let alone = ctx.tx.in_flight() == 0;
    if let Some(congestion) = &mut ctx.tx.congestion
        && let Some(at) = congestion.blocked_until(now, alone)
    {
        ctx.arm(sh, Timer::Rate, at);
        return false;
    }
    let Some(bucket) = &mut ctx.tx.bucket else {
        return true;
    };
    if bucket.allows(now) {
        return true;
    }
    let at = bucket.next_refill();
    ctx.arm(sh, Timer::Rate, at);
    false
}

/// The next bytes to send: what was lost first, then what is new.
#[inline]
fn next_cut(ctx: &mut Context, sh: &Shared) -> Option<Cut> {
    // What is worth something now alone does not wait for answers.
    let waits = ctx.tx.handshake.is_some() && ctx.service != Service::Isochronous;
    if waits || ctx.waits_for_answer() {
        return None;
    }
    if let Some(lost) = ctx.tx.lost.front() {
        let lost = lost.clone();
        return Some(cut(ctx, sh, lost.start, lost.end, true));
    }
    let limit = limit(ctx, sh);
    let tx = &ctx.tx;
    if limit <= tx.next || ctx.waits_for_finish() && tx.end - tx.next < sh.payload_max() {
        return None;
    }
    let (next, end, pushed, in_flight) = (tx.next, tx.end, tx.pushed, tx.in_flight());
    let cut = cut(ctx, sh, next, end, false);
    if cut.bytes.end > limit {
        // A part of a packet only when nothing else is on its way, and no part of a tag.
        let limit = whole_tags(&ctx.tx.end_tags, next, limit);
        let bytes = next..limit;
        let parts = in_flight == 0 && limit > next && (!cut.tag || limit - next >= TAG_LEN);
        return parts.then_some(Cut {
            bytes,
            end_tag: false,
            eom: false,
            ..cut
        });
    }
    let full = cut.full || cut.bytes.end < end;
    let goes = cut.eom || pushed >= cut.bytes.end || full && sh.high_water() <= sh.payload_max();
    (goes || in_flight <= sh.config.low_water).then_some(cut)
}

/// Cuts a packet that begins at `start`: it ends at the end of a message, at what the peer takes,
/// or at `end`; in a longer byte stream at a slot's border too, so that packets lie in one piece.
#[inline]
fn cut(ctx: &mut Context, sh: &Shared, start: u64, end: u64, again: bool) -> Cut {
    let border = border(ctx, sh, start, end);
    let mut stop = end.min(border).min(start + ctx.tx.payload_max);
    let mut tag = false;
    if !ctx.tx.tags.is_empty() {
        let (here, next) = ctx.tx.tags.at(start);
        tag = here;
        stop = stop.min(next);
    }
    let message_end = ctx.tx.ends.after(start);
    let eom = message_end.is_some_and(|message_end| message_end <= stop);
    if let Some(message_end) = message_end.filter(|_| eom) {
        stop = message_end;
    }
    let mut end_tag = false;
    if !ctx.tx.end_tags.is_empty() {
        stop = whole_tags(&ctx.tx.end_tags, start, stop).max(start + 1);
        let least = if tag { 2 * TAG_LEN } else { TAG_LEN };
        end_tag = ctx.tx.end_tags.at(stop).0 && stop - start >= least;
    }
    Cut {
        end_tag,
        bytes: start..stop,
        again,
        tag,
        eom,
        full: stop == border,
    }
}

/// Octets of a tag.
const TAG_LEN: u64 = 8;

/// Where a packet from `start` on ends that would end at `stop`, so that no tag at the end of a
/// message is cut in two.
fn whole_tags(end_tags: &Tags, start: u64, stop: u64) -> u64 {
    match end_tags.after(start) {
        Some(end) if start + TAG_LEN <= end && stop < end && end - stop < TAG_LEN => end - TAG_LEN,
        _ => stop,
    }
}

/// Slots of bytes from which on it pays to send a short packet, which mostly takes a call of its
/// own, for the sake of those behind it that begin at a slot's border then and lie in one piece.
const ALIGN_FROM: u64 = 16;

/// Where a packet that begins at `start`, with bytes to send up to `end`, ends at the latest.
#[inline]
fn border(ctx: &mut Context, sh: &Shared, start: u64, end: u64) -> u64 {
    let slot = sh.payload_max();
    if sh.config.framing == Framing::Messages {
        return start + slot;
    }
    let known = ctx.tx.border;
    if start >= known || start + slot < known {
        ctx.tx.border = (start / slot + 1) * slot;
    }
    let aligned = start + slot == ctx.tx.border;
    if !aligned && sh.config.framing == Framing::Stream && end - start < ALIGN_FROM * slot {
        return start + slot;
    }
    ctx.tx.border
}

/// Bytes below this may be sent.
fn limit(ctx: &Context, sh: &Shared) -> u64 {
    let tx = &ctx.tx;
    let mut limit = tx.end;
    if let Some(most) = sh.config.oqmax {
        limit = limit.min(tx.acknowledged.saturating_add(most));
    }
    if !ctx.options.has(Options::NOFLOW) {
        limit = limit.min(tx.alloc);
    }
    if let Some(congestion) = &tx.congestion {
        limit = limit.min(congestion.limit(tx.acknowledged));
    }
    limit
}

/// Whether the peer, not the user, keeps the sender from going on.
pub(crate) fn is_blocked(ctx: &Context, sh: &Shared) -> bool {
    ctx.tx.next < ctx.tx.end && limit(ctx, sh) <= ctx.tx.next
}

fn advance(ctx: &mut Context, sh: &mut Shared, cut: &Cut) {
    let tx = &mut ctx.tx;
    if !cut.again {
        tx.next = cut.bytes.end;
        return;
    }
    tx.resent = true;
    tx.retransmissions += 1;
    sh.counters.retransmissions += 1;
    if let Some(front) = tx.lost.front_mut() {
        front.start = cut.bytes.end;
        if front.is_empty() {
            tx.lost.pop_front();
        }
    }
}

fn push(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    batch: &mut Batch,
    cut: &Cut,
    last: bool,
) {
    let len = cut.bytes.end - cut.bytes.start;
    ctx.tx.unasked += len;
    let options = options(ctx, sh, cut, last);
    let sync = request::sync(ctx, sh, now, options);
    let header = Header {
        options,
        dlen: len as u32,
        sort: ctx.sort.unwrap_or(0),
        sync,
        seq: cut.bytes.start,
        ..plain(ctx.wire_key(), Format::Data)
    };
    let sum_at = sh.config.checksum.then_some(CHECK_AT);
    let mut header_len = HEADER_LEN;
    if sh.config.dialect.is_three() {
        three::push_data(ctx, sh, batch, &header, cut.bytes.clone());
        header_len = sh.packet_len(len) - len as usize;
    } else {
        batch.push_with_checksum(&header.emit_summed(), cut.bytes.clone(), sum_at);
    }
    let summed = header_len as u64 + if sum_at.is_some() { len } else { 0 };
    let forget = ctx.options.has(Options::NOERR) && ctx.phase == Phase::Active;
    if forget || ctx.service == Service::Datagram {
        sh.events.push_back(Event::Released(ctx.id, ctx.tx.next));
    }
    account(ctx, sh, options, header_len, len, summed);
}

/// The options of a DATA packet with the bytes of `cut`.
#[inline]
fn options(ctx: &Context, sh: &Shared, cut: &Cut, last: bool) -> Options {
    let wclose = ctx.tx.finishing && cut.bytes.end == ctx.tx.end;
    let complete = ctx.rx.is_complete() && !ctx.is_one_way();
    let datagram = ctx.service == Service::Datagram;
    let ask = !datagram && wants_answer(ctx, sh, cut, wclose, last);
    let delivered = sh.config.ask == Ask::Delivered && !wclose;
    let eom = cut.eom || wclose && !ctx.is_stream();
    ctx.options
        .with(Options::NOCHECK, !sh.config.checksum)
        .with(Options::SREQ, ask && !delivered)
        .with(Options::DREQ, ask && delivered)
        .with(Options::EOM, eom)
        .with(Options::BTAG, cut.tag)
        .with(Options::ETAG, cut.end_tag)
        .with(Options::WCLOSE, wclose)
        .with(Options::RCLOSE, complete)
        .with(Options::END, wclose && datagram)
}

/// Books a packet with `len` user bytes that went into the batch.
#[inline]
pub(crate) fn account(
    ctx: &mut Context,
    sh: &mut Shared,
    options: Options,
    header_len: usize,
    len: u64,
    summed: u64,
) {
    ctx.spend(header_len + len as usize);
    if ctx.route != 0 {
        sh.routes.spend(ctx.route, header_len + len as usize);
    }
    sh.count_built(len);
    sh.counters.bytes_summed += summed;
    close::note_sent(
        ctx,
        options.has(Options::WCLOSE),
        options.has(Options::RCLOSE),
    );
    if options.has(Options::END) {
        ctx.end(sh, CloseReason::Graceful, ctx.service != Service::Datagram);
    }
}

/// The sender's policy for status requests: one `status_every` bytes or quarter of the window,
/// with the last retransmission, with the end, and when the window is used up.
fn wants_answer(ctx: &Context, sh: &Shared, cut: &Cut, wclose: bool, last: bool) -> bool {
    let tx = &ctx.tx;
    let mut every = sh.config.status_every;
    if !ctx.options.has(Options::NOFLOW) {
        let quarter = tx.alloc.saturating_sub(tx.acknowledged) / 4;
        every = every.min(quarter.max(sh.payload_max()));
    }
    if let Some(congestion) = &tx.congestion {
        every = every.min(congestion.status_every().max(sh.payload_max()));
    }
    tx.unasked >= every
        || tx.ask_next
        || wclose && !cut.again
        || cut.again && tx.lost.is_empty()
        || last && tx.requests.is_empty() && is_blocked(ctx, sh)
}
