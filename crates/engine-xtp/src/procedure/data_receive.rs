//! Receiving user data: flow control, reassembly, delivery.

use crate::config::{ErrorControl, FlowControl};
use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::numbers::SEQ_MAX;
use crate::opening::LimitsReport;
use crate::pdu::{Header, Options, Reject, TAG_LEN};
use crate::rx::{FragmentFlags, Gap};
use core::ops::Range;
use engine::{Bytes, Delivery, Instant};

/// Bounds the fragments in the reassembly queue: one for every 64 bytes of the window.
const BYTES_PER_FRAGMENT: u64 = 64;

/// Limit for a sender with NOFLOW, in windows.
const NOFLOW_WINDOWS: u64 = 4;

/// Processes the user bytes at `range` of `packet`.
pub(crate) fn handle_data(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    packet: &[u8],
    range: Range<usize>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let seq = header.seq;
    let end = seq.saturating_add(range.len() as u64);
    ctx.rx.error_control_off = header.options.has(Options::NOERR);
    if range.is_empty() {
        return Ok(());
    }
    ctx.rx.reports_without_data = 0;
    if end > SEQ_MAX || ctx.rx.final_seq.is_some_and(|last| end > last) {
        return Err(Reject::State);
    }
    let limit = receive_limit(ctx, ep, header.options);
    if seq >= limit || ctx.rx.is_full {
        return Err(Reject::BeyondWindow);
    }
    // Bytes beyond the allocation are cut off; the sender retransmits them.
    let fits = end <= limit;
    let tag = header.options.has(Options::BTAG);
    let end_tag = header.options.has(Options::ETAG);
    let cuts_tag = end_tag && !fits && end - limit < TAG_LEN;
    let limit = if cuts_tag { end - TAG_LEN } else { limit };
    if seq >= limit || tag && limit - seq < TAG_LEN {
        return Err(Reject::BeyondWindow);
    }
    let flags = FragmentFlags {
        begin_tag: tag,
        end_tag: end_tag && fits,
        end_of_message: header.options.has(Options::EOM) && fits,
    };
    let end = end.min(limit);
    let range = range.start..range.start + (end - seq) as usize;
    if seq > ctx.rx.next_seq && !ctx.rx.error_control_off {
        return queue_out_of_order(ctx, ep, now, header, &packet[range], flags);
    }
    if end > ctx.rx.next_seq {
        deliver_in_order(ctx, ep, seq, range, flags, deliveries);
    }
    Ok(())
}

/// Delivers the bytes at `range` of the packet, which begin at `seq`, without those received
/// before, then the fragments of the reassembly queue that follow.
#[inline]
fn deliver_in_order(
    ctx: &mut Context,
    ep: &mut EndpointState,
    seq: u64,
    range: Range<usize>,
    flags: FragmentFlags,
    deliveries: &mut Vec<Delivery>,
) {
    skip_to(ctx, ep, seq);
    if ctx.rx.gap == Gap::DiscardingMessage {
        skip_to(ctx, ep, seq + range.len() as u64);
        ctx.rx.gap.record_discarded(flags.end_of_message);
        return;
    }
    let known = (ctx.rx.next_seq - seq) as usize;
    let bytes = Bytes::Packet(range.start + known..range.end);
    let tag = flags.begin_tag && known == 0;
    deliver(
        ctx,
        ep,
        bytes,
        FragmentFlags {
            begin_tag: tag,
            ..flags
        },
        deliveries,
    );
    if ctx.rx.reassembly.is_empty() {
        return;
    }
    while let Some(fragment) = ctx.rx.reassembly.pop_at(ctx.rx.next_seq) {
        deliver(
            ctx,
            ep,
            Bytes::Reassembled(fragment.bytes),
            fragment.flags,
            deliveries,
        );
    }
}

/// Bytes from this position on are not accepted.
fn receive_limit(ctx: &Context, ep: &EndpointState, options: Options) -> u64 {
    if options.has(Options::NOFLOW) || ep.config.flow == FlowControl::Off {
        let most = NOFLOW_WINDOWS * ep.config.window;
        ctx.rx.dseq() + ep.config.iqmax.map_or(most, |iqmax| iqmax.min(most))
    } else {
        ctx.rx.advertised_alloc
    }
}

/// Gives up the bytes before `seq` (0007, Repair).
pub(crate) fn skip_to(ctx: &mut Context, ep: &mut EndpointState, seq: u64) {
    if seq > ctx.rx.next_seq {
        let lost = seq - ctx.rx.next_seq;
        ep.counters.count_gap(lost);
        ctx.rx.next_seq = seq;
        // Lost bytes use up no posted buffers (0007, Services).
        ctx.rx.posted_alloc = ctx.rx.posted_alloc.saturating_add(lost).min(SEQ_MAX);
        ctx.rx.gap = Gap::opened(ep.config.framing);
    }
}

#[inline]
fn deliver(
    ctx: &mut Context,
    ep: &mut EndpointState,
    bytes: Bytes,
    flags: FragmentFlags,
    deliveries: &mut Vec<Delivery>,
) {
    let len = match &bytes {
        Bytes::Packet(range) => range.len(),
        Bytes::Reassembled(bytes) => bytes.len(),
    } as u64;
    ctx.rx.next_seq += len;
    ctx.rx.unread_bytes += len;
    ep.counters.bytes_delivered += len;
    deliveries.push(Delivery {
        note: engine::Note::default(),
        association: ctx.id,
        bytes,
        gap: std::mem::take(&mut ctx.rx.gap) != Gap::None,
        begin_tag: flags.begin_tag,
        end_tag: flags.end_tag,
        end_of_message: flags.end_of_message,
    });
}

/// Keeps out-of-order bytes, or drops them with go-back-n.
fn queue_out_of_order(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    bytes: &[u8],
    flags: FragmentFlags,
) -> Result<(), Reject> {
    let opens_gap = header.seq > ctx.rx.reassembly.end();
    if opens_gap && header.options.has(Options::FASTNAK) {
        schedule_fastnak(ctx, now);
    }
    if ep.config.error != ErrorControl::Selective {
        return Ok(());
    }
    let fragments_max = (ep.config.window / BYTES_PER_FRAGMENT) as usize;
    let kept = ctx
        .rx
        .reassembly
        .insert(header.seq, bytes, flags, fragments_max);
    let kept = kept.ok_or(Reject::BeyondWindow)?;
    ep.counters.bytes_copied += kept as u64;
    Ok(())
}

/// Reports a new gap without a status request, at most four times a round trip (0007, Answers).
fn schedule_fastnak(ctx: &mut Context, now: Instant) {
    let pause = ctx.tx.rtt.srtt() / 4;
    if ctx.rx.last_fastnak_at.is_none_or(|at| now >= at + pause) {
        ctx.rx.last_fastnak_at = Some(now);
        ctx.pending.control = true;
    }
}

/// The user consumed `bytes`. Advertises the window when a quarter of it opened (0007, Answers).
pub(crate) fn do_consume(ctx: &mut Context, ep: &mut EndpointState, bytes: u64) {
    ctx.rx.unread_bytes -= bytes.min(ctx.rx.unread_bytes);
    if ctx.rx.is_complete() && ctx.rx.delivery_report_at.is_none() {
        // A stream that is over needs no window.
        return;
    }
    let opened = next_alloc(ctx, ep).saturating_sub(ctx.rx.advertised_alloc);
    let delivered = ctx
        .rx
        .delivery_report_at
        .is_some_and(|at| ctx.rx.dseq() >= at);
    if delivered {
        ctx.rx.delivery_report_at = None;
    }
    let reopened = opened >= receive_window(ctx, ep) / 4 && !ctx.rx.is_complete();
    let with_data = delivered && ep.codec.data_carry_dseq();
    if with_data {
        ctx.pending.delivery_report = true;
        ctx.mark_ready(ep);
    }
    if (reopened && !is_reservation_mode(ctx, ep)) || delivered && !with_data {
        ctx.pending.control = true;
        ctx.mark_ready(ep);
    }
}

/// The user posted buffers for `bytes` more (reservation mode).
pub(crate) fn do_post(ctx: &mut Context, ep: &mut EndpointState, bytes: u64) {
    if !std::mem::replace(&mut ctx.rx.user_posts, true) {
        ctx.rx.posted_alloc = ctx.rx.posted_alloc.max(ctx.rx.dseq());
    }
    ctx.rx.posted_alloc = ctx.rx.posted_alloc.saturating_add(bytes).min(SEQ_MAX);
    if is_reservation_mode(ctx, ep) {
        ctx.pending.control = true;
        ctx.mark_ready(ep);
    }
}

/// The allocation that a control packet would advertise now. It never shrinks.
pub(crate) fn next_alloc(ctx: &Context, ep: &EndpointState) -> u64 {
    let open = if is_reservation_mode(ctx, ep) {
        ctx.rx.posted_alloc
    } else {
        ctx.rx.dseq() + receive_window(ctx, ep)
    };
    open.max(ctx.rx.advertised_alloc)
}

/// Whether only posted buffers are allocated: configured here, or requested by the sender (RES)
/// and the user posts (0007, Isochronous and bulk).
fn is_reservation_mode(ctx: &Context, ep: &EndpointState) -> bool {
    ep.config.flow == FlowControl::Reservation || ctx.rx.res_requested && ctx.rx.user_posts
}

fn receive_window(ctx: &Context, ep: &EndpointState) -> u64 {
    let mut window = ep.config.window.min(ep.config.iqmax.unwrap_or(u64::MAX));
    // 0007, Address validation.
    if !ctx.is_validated() || ctx.is_opening() {
        window = window.min(ep.config.initial_window);
    }
    match ctx.accepted_rate {
        Some(limit) if ctx.limits_report == LimitsReport::Pending => {
            window.min(u64::from(limit.burst_bytes))
        }
        _ => window,
    }
}
