//! Receiving user bytes.

use crate::api::{ErrorControl, FlowControl};
use crate::pdu::{Header, Options, Reject};
use crate::procedure::three;
use crate::rx::Marks;
use crate::shared::Shared;
use crate::state::{Context, Phase};
use crate::types::SEQ_MAX;
use core::ops::Range;
use engine::{Bytes, Delivery, Framing, Instant};

/// Runs of early bytes kept at most: one for every 64 bytes of the window.
const BYTES_PER_RUN: u64 = 64;

/// Octets of a tag. It is taken whole or not at all.
const TAG_LEN: u64 = 8;

/// A sender told to heed no allocation is cut off at this many windows.
const NOFLOW_WINDOWS: u64 = 4;

/// Takes in the user bytes at `range` of `packet`.
pub(crate) fn handle_data(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    packet: &[u8],
    range: Range<usize>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let seq = header.seq;
    let end = seq.saturating_add(range.len() as u64);
    ctx.rx.noerr = header.options.has(Options::NOERR);
    if range.is_empty() {
        return Ok(());
    }
    if end > SEQ_MAX || ctx.rx.last.is_some_and(|last| end > last) {
        return Err(Reject::State);
    }
    let limit = limit(ctx, sh, header.options);
    if seq >= limit {
        return Err(Reject::BeyondWindow);
    }
    // What lies beyond the allocation comes again.
    let fits = end <= limit;
    let tag = header.options.has(Options::BTAG);
    let end_tag = header.options.has(Options::ETAG) && sh.config.dialect.is_three();
    let cuts_tag = end_tag && !fits && end - limit < TAG_LEN;
    let limit = if cuts_tag { end - TAG_LEN } else { limit };
    if seq >= limit || tag && limit - seq < TAG_LEN {
        return Err(Reject::BeyondWindow);
    }
    let marks = Marks {
        tag,
        end_tag: end_tag && fits,
        end: header.options.has(Options::EOM) && fits,
    };
    let end = end.min(limit);
    let range = range.start..range.start + (end - seq) as usize;
    if seq > ctx.rx.next && !ctx.rx.noerr {
        return hold(ctx, sh, now, header, &packet[range], marks);
    }
    if end > ctx.rx.next {
        take(ctx, sh, seq, range, marks, deliveries);
    }
    Ok(())
}

/// Delivers the bytes at `range` of the packet, which begin at `seq`, without those that came
/// before, and what was held and comes next.
#[inline]
fn take(
    ctx: &mut Context,
    sh: &mut Shared,
    seq: u64,
    range: Range<usize>,
    marks: Marks,
    deliveries: &mut Vec<Delivery>,
) {
    skip_to(ctx, sh, seq);
    if ctx.rx.torn {
        skip_to(ctx, sh, seq + range.len() as u64);
        ctx.rx.torn = !marks.end;
        return;
    }
    let known = (ctx.rx.next - seq) as usize;
    let bytes = Bytes::Packet(range.start + known..range.end);
    let tag = marks.tag && known == 0;
    deliver(ctx, sh, bytes, Marks { tag, ..marks }, deliveries);
    if ctx.rx.held.is_empty() {
        return;
    }
    while let Some(piece) = ctx.rx.held.take(ctx.rx.next) {
        deliver(ctx, sh, Bytes::Reassembled(piece.bytes), piece.marks, deliveries);
    }
}

/// Bytes from here on are not taken.
fn limit(ctx: &Context, sh: &Shared, options: Options) -> u64 {
    if options.has(Options::NOFLOW) || sh.config.flow == FlowControl::Off {
        let most = NOFLOW_WINDOWS * sh.config.window;
        ctx.rx.taken() + sh.config.iqmax.map_or(most, |iqmax| iqmax.min(most))
    } else {
        ctx.rx.told
    }
}

/// Gives up what lies before `seq`. A message that lost bytes goes whole: with no mark where
/// messages begin, what follows a loss may be the tail of one until the next ends.
pub(crate) fn skip_to(ctx: &mut Context, sh: &mut Shared, seq: u64) {
    if seq > ctx.rx.next {
        let lost = seq - ctx.rx.next;
        sh.counters.bytes_lost = sh.counters.bytes_lost.saturating_add(lost);
        ctx.rx.next = seq;
        // The user's buffers are still empty.
        ctx.rx.posted = ctx.rx.posted.saturating_add(lost).min(SEQ_MAX);
        ctx.rx.gap = true;
        ctx.rx.torn = sh.config.framing == Framing::Messages;
    }
}

#[inline]
fn deliver(
    ctx: &mut Context,
    sh: &mut Shared,
    bytes: Bytes,
    marks: Marks,
    deliveries: &mut Vec<Delivery>,
) {
    let len = match &bytes {
        Bytes::Packet(range) => range.len(),
        Bytes::Reassembled(held) => held.len(),
    } as u64;
    ctx.rx.next += len;
    ctx.rx.unread += len;
    sh.counters.bytes_delivered += len;
    deliveries.push(Delivery {
        association: ctx.id,
        bytes,
        gap: std::mem::take(&mut ctx.rx.gap),
        tag: marks.tag,
        end_tag: marks.end_tag,
        end: marks.end,
    });
}

/// Keeps bytes that came before their turn, or drops them when the sender goes back anyway.
fn hold(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    bytes: &[u8],
    marks: Marks,
) -> Result<(), Reject> {
    let opens_gap = header.seq > ctx.rx.held.end();
    if opens_gap && header.options.has(Options::FASTNAK) {
        report_gap(ctx, now);
    }
    if sh.config.error != ErrorControl::Selective {
        return Ok(());
    }
    let runs_max = (sh.config.window / BYTES_PER_RUN) as usize;
    let kept = ctx.rx.held.insert(header.seq, bytes, marks, runs_max);
    let kept = kept.ok_or(Reject::BeyondWindow)?;
    sh.counters.bytes_copied += kept as u64;
    Ok(())
}

/// A gap is reported unasked, but no more than four times a round trip.
fn report_gap(ctx: &mut Context, now: Instant) {
    let pause = ctx.tx.rtt.smooth() / 4;
    if ctx.rx.nak_at.is_none_or(|at| now >= at + pause) {
        ctx.rx.nak_at = Some(now);
        ctx.due.reply = true;
    }
}

/// The user took `bytes`. Tells the peer unasked when a quarter of the window is open again.
pub(crate) fn do_consume(ctx: &mut Context, sh: &mut Shared, bytes: u64) {
    ctx.rx.unread -= bytes.min(ctx.rx.unread);
    let opened = allocation(ctx, sh).saturating_sub(ctx.rx.told);
    let delivered = ctx.rx.report_at.is_some_and(|at| ctx.rx.taken() >= at);
    if delivered {
        ctx.rx.report_at = None;
    }
    let reopened = opened >= window(ctx, sh) / 4 && !ctx.rx.is_complete();
    let with_data = delivered && three::tells_with_data(sh.config.dialect);
    if with_data {
        ctx.due.delivered = true;
        ctx.wake(sh);
    }
    if (reopened && !is_reserved(ctx, sh)) || delivered && !with_data {
        ctx.due.reply = true;
        ctx.wake(sh);
    }
}

/// The user posted room for `bytes` more (reservation mode).
pub(crate) fn do_post(ctx: &mut Context, sh: &mut Shared, bytes: u64) {
    if !std::mem::replace(&mut ctx.rx.posts, true) {
        ctx.rx.posted = ctx.rx.posted.max(ctx.rx.taken());
    }
    ctx.rx.posted = ctx.rx.posted.saturating_add(bytes).min(SEQ_MAX);
    if is_reserved(ctx, sh) {
        ctx.due.reply = true;
        ctx.wake(sh);
    }
}

/// What a control packet sent now would allocate. It never goes back.
pub(crate) fn allocation(ctx: &Context, sh: &Shared) -> u64 {
    let open = if is_reserved(ctx, sh) {
        ctx.rx.posted
    } else {
        ctx.rx.taken() + window(ctx, sh)
    };
    open.max(ctx.rx.told)
}

/// Whether only what the user posted is allocated: by this side's own choice, or because the
/// sender wants it and the user does post.
fn is_reserved(ctx: &Context, sh: &Shared) -> bool {
    sh.config.flow == FlowControl::Reservation || ctx.rx.reserved && ctx.rx.posts
}

fn window(ctx: &Context, sh: &Shared) -> u64 {
    let mut window = sh.config.window.min(sh.config.iqmax.unwrap_or(u64::MAX));
    if ctx.budget.is_some() || ctx.phase == Phase::Opening {
        window = window.min(sh.config.initial_window);
    }
    match ctx.accepts {
        Some(limit) if ctx.limits_due => window.min(u64::from(limit.burst_bytes)),
        _ => window,
    }
}
