//! Sending user data: which bytes a packet carries, when it may be sent, what it asks for.

use crate::closing::SendingEnd;
use crate::config::StatusRequestKind;
use crate::context::{Context, Timer};
use crate::endpoint_state::{EndpointState, plain_header};
use crate::opening::{ContextState, OpenReport};
use crate::pdu::{Format, Header, Options, Service};
use crate::procedure::{
    association_close, association_setup, control_send, prediction, status_request,
};
use crate::tx::{CutRules, PacketPlan, WaterMarks};
use engine::{Batch, CloseReason, Event, Instant, SendFlags, Store};

/// What a submission asks for, in the order in which its user means it.
#[inline]
pub(crate) fn do_submission(ctx: &mut Context, ep: &mut EndpointState, end: u64, flags: SendFlags) {
    if flags.end_of_message {
        ctx.tx.queue.message_ends.push(end);
    }
    let may_send = ctx.closing.sending == SendingEnd::Open;
    if flags.more && may_send {
        // What to send is decided at the last of several submissions.
        ctx.tx.queue.submitted = ctx.tx.queue.submitted.max(end);
        return;
    }
    if (flags.push || end > ctx.tx.queue.submitted) && may_send {
        do_submit(ctx, ep, end, flags.push);
    }
    if flags.request_ack {
        status_request::do_request_ack(ctx, ep);
    }
    if flags.fin {
        association_close::do_finish(ctx, ep);
    }
}

/// Data up to `end` are in the send buffer. The water marks decide whether they are sent now or
/// coalesced (0007, Coalescing).
pub(crate) fn do_submit(ctx: &mut Context, ep: &mut EndpointState, end: u64, push: bool) {
    let (high, slot) = (ep.high_water(), ep.payload_max());
    let marks = WaterMarks {
        low: ep.config.low_water,
        high,
        // Whole packets, if the mark is above one.
        multiple: Some(slot).filter(|_| high >= slot),
    };
    let push = push || ctx.service == Service::Isochronous || ep.config.coalesce_delay.is_zero();
    ctx.tx.queue.submit(end, push, &marks);
    association_setup::schedule_first_if_ready(ctx, ep);
    ctx.mark_ready(ep);
}

/// The coalescing delay is over: send what there is, an opening too.
pub(crate) fn handle_coalesce_timeout(ctx: &mut Context, ep: &mut EndpointState) {
    if ctx.waits_for_first_data() {
        ctx.schedule_first();
    }
    ctx.tx.queue.pushed = ctx.tx.queue.submitted;
    ctx.mark_ready(ep);
}

/// Fills `batch` with what the context may send now: FIRST, else a deferred control packet, else
/// data followed by a control packet if one is pending.
pub(crate) fn transmit(ctx: &mut Context, ep: &mut EndpointState, now: Instant, batch: &mut Batch) {
    if prediction::transmit(ctx, ep, now, batch)
        || ctx.is_closed()
        || ctx.open_report == OpenReport::AwaitingAdmission
    {
        return;
    }
    batch.set_path(ctx.peer, Some(ctx.id));
    if ctx.is_first_due() {
        association_setup::transmit_first(ctx, ep, now, batch);
        ctx.mark_ready(ep);
        return;
    }
    // A control packet gives way to data once only, then goes first.
    if ctx.pending.deferred {
        control_send::transmit_control(ctx, ep, now, batch);
    }
    if batch.is_empty() {
        transmit_data(ctx, ep, now, batch);
        update_coalesce_timer(ctx, ep, now);
        status_request::ensure_status_request(ctx, ep, now);
        ctx.pending.control |= ctx.pending.delivery_report;
        if ctx.pending.control
            || ctx.pending.status_request
            || association_close::is_wclose_due(ctx)
        {
            control_send::transmit_control(ctx, ep, now, batch);
        }
    }
    if !batch.is_empty() {
        ctx.mark_ready(ep);
    }
}

fn transmit_data(ctx: &mut Context, ep: &mut EndpointState, now: Instant, batch: &mut Batch) {
    let mut is_held = !is_forgotten(ctx);
    while batch.room() > 0
        && let Some(plan) = next_packet(ctx, ep)
    {
        let len = ep.packet_len(plan.bytes.end - plan.bytes.start);
        let short = !batch.is_empty() && len < batch.packet_len();
        let long = !batch.is_empty() && len > batch.packet_len();
        if long || !may_send_packet(ctx, ep, now, len) {
            break;
        }
        mark_sent(ctx, ep, &plan);
        is_held &= !plan.is_retransmission;
        push_data(ctx, ep, now, batch, &plan);
        if short {
            break;
        }
    }
    if is_held && !batch.is_empty() {
        batch.mark_held();
    }
}

/// Whether sent bytes are released at once: without error control (0007, Repair).
fn is_forgotten(ctx: &Context) -> bool {
    let forget = ctx.options.has(Options::NOERR) && ctx.state == ContextState::Active;
    forget || ctx.service == Service::Datagram
}

/// Arms or disarms the coalescing timer.
#[inline]
fn update_coalesce_timer(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if ctx.waits_for_first_data() {
        // Armed with the opening.
    } else if !ctx.tx.queue.is_coalescing() {
        ctx.timers.disarm(Timer::Coalesce);
    } else if !ctx.timers.is_armed(Timer::Coalesce) {
        ctx.arm(ep, Timer::Coalesce, now + ep.config.coalesce_delay);
    }
}

/// Whether amplification limit, rate limits and pacing allow a packet of `len` octets. If not,
/// arranges for sending to resume.
fn may_send_packet(ctx: &mut Context, ep: &mut EndpointState, now: Instant, len: usize) -> bool {
    let whole = ctx.closing.is_finishing() && ctx.tx.queue.unsent_bytes() < len as u64;
    let spare = if whole { 0 } else { ep.key_packet_len() };
    if !ctx.within_amplification_limit(len + spare)
        && let Some(limit) = &mut ctx.amplification_limit
    {
        // Send a TCNTL: the peer that returns its key validates the address.
        ctx.pending.status_request |= !limit.is_blocked;
        limit.is_blocked = true;
        return false;
    }
    if let Some(route) = ctx.route
        && let Some(at) = ep.routes.blocked_until(route, now)
    {
        ctx.arm(ep, Timer::Rtimer, at);
        return false;
    }
    let nothing_in_flight = ctx.tx.queue.bytes_in_flight() == 0;
    if let Some(congestion) = &mut ctx.tx.congestion
        && let Some(at) = congestion.blocked_until(now, nothing_in_flight)
    {
        ctx.arm(ep, Timer::Rtimer, at);
        return false;
    }
    let Some(credit) = &mut ctx.tx.rate_credit else {
        return true;
    };
    if credit.allows(now) {
        return true;
    }
    let at = credit.next_refill();
    ctx.arm(ep, Timer::Rtimer, at);
    false
}

/// The next DATA packet: retransmissions first, then new data.
#[inline]
fn next_packet(ctx: &mut Context, ep: &EndpointState) -> Option<PacketPlan> {
    // A synchronizing handshake stops data (0007, WTIMER), except isochronous data, which are
    // worthless later.
    let waits = ctx.tx.handshake.is_some() && ctx.service != Service::Isochronous;
    if waits || ctx.waits_for_setup_answer() {
        return None;
    }
    let rules = cut_rules(ctx, ep);
    if let Some(plan) = ctx.tx.queue.next_lost(&rules) {
        return Some(plan);
    }
    if ctx.waits_for_finish() && ctx.tx.queue.unsent_bytes() < ep.payload_max() {
        return None;
    }
    let limit = send_limit(ctx, ep);
    ctx.tx.queue.next_new(limit, &rules)
}

/// How data are cut into packets.
#[inline]
pub(super) fn cut_rules(ctx: &Context, ep: &EndpointState) -> CutRules {
    CutRules {
        framing: ep.config.framing,
        slot: ctx.tx.path.slot,
        payload_max: ctx.tx.payload_max,
        low_water: ep.config.low_water,
        sends_full: ep.high_water() <= ep.payload_max(),
    }
}

/// Bytes below this may be sent: allocation, `oqmax` and congestion window.
fn send_limit(ctx: &Context, ep: &EndpointState) -> u64 {
    let tx = &ctx.tx;
    let mut limit = tx.queue.submitted;
    if let Some(most) = ep.config.oqmax {
        limit = limit.min(tx.queue.acknowledged.saturating_add(most));
    }
    if !ctx.options.has(Options::NOFLOW) {
        limit = limit.min(tx.queue.alloc);
    }
    if let Some(congestion) = &tx.congestion {
        limit = limit.min(congestion.send_limit(tx.queue.acknowledged));
    }
    limit
}

/// Whether the send limit blocks data that are ready.
pub(crate) fn is_send_blocked(ctx: &Context, ep: &EndpointState) -> bool {
    ctx.tx.queue.next_seq < ctx.tx.queue.submitted && send_limit(ctx, ep) <= ctx.tx.queue.next_seq
}

/// Whether the packet that was sent last, with nothing to repeat behind it, closes the window, and no answer is due.
fn is_last_unasked(ctx: &Context, ep: &EndpointState) -> bool {
    ctx.tx.outstanding_requests.is_empty() && is_send_blocked(ctx, ep)
}

fn mark_sent(ctx: &mut Context, ep: &mut EndpointState, plan: &PacketPlan) {
    ctx.tx.queue.mark_sent(plan);
    if plan.is_retransmission {
        ctx.tx.saved_sync = None;
        ctx.tx.retransmissions += 1;
        ep.counters.retransmissions += 1;
    }
}

fn push_data(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
    plan: &PacketPlan,
) {
    let len = plan.bytes.end - plan.bytes.start;
    ctx.tx.queue.bytes_since_request += len;
    let options = data_options(ctx, ep, plan);
    let sync = status_request::packet_sync(ctx, ep, now, options);
    // Without a returned key the answer may be too short for spans (0007, Address validation).
    if options.0 & (Options::SREQ | Options::DREQ).0 != 0 && ctx.remote_key.is_some() {
        ctx.tx.note_request_data(plan.bytes.start);
    }
    let header = Header {
        options,
        dlen: len as u32,
        sort: ctx.sort.unwrap_or(0),
        sync,
        seq: plan.bytes.start,
        ..plain_header(ctx.outgoing_key(), Format::Data)
    };
    let user = (Store::Association(ctx.id), plan.bytes.clone());
    let context = || ctx.header_context(ep);
    ep.codec.push_data(batch, &header, context, user);
    // Its dseq answers a DREQ (0008, dseq).
    ctx.pending.delivery_report = false;
    let header_len = ep.packet_len(len) - len as usize;
    let summed = header_len as u64 + if ep.config.checksum { len } else { 0 };
    if is_forgotten(ctx) {
        let released = ctx.tx.newly_released(ctx.tx.queue.next_seq);
        ep.events.push_back(Event::Released(ctx.id, released));
    }
    account_packet(ctx, ep, options, header_len, len, summed);
}

/// Option bits of the planned DATA packet.
#[inline]
fn data_options(ctx: &Context, ep: &EndpointState, plan: &PacketPlan) -> Options {
    let wclose = ctx.closing.is_finishing() && plan.bytes.end == ctx.tx.queue.submitted;
    let complete = ctx.rx.is_complete() && !ctx.is_one_way();
    let datagram = ctx.service == Service::Datagram;
    let sreq = !datagram && needs_status_request(ctx, ep, plan, wclose);
    let delivered = ep.config.status_request_kind == StatusRequestKind::Delivered && !wclose;
    let eom = plan.eom || wclose && !ctx.is_stream();
    ctx.options
        .with(Options::NOCHECK, !ep.config.checksum)
        .with(Options::SREQ, sreq && !delivered)
        .with(Options::DREQ, sreq && delivered)
        .with(Options::EOM, eom)
        .with(Options::BTAG, plan.begin_tag)
        .with(Options::ETAG, plan.end_tag)
        .with(Options::WCLOSE, wclose)
        .with(Options::RCLOSE, complete)
        .with(Options::END, wclose && datagram)
}

/// Accounts a packet with `len` user bytes that was put into the batch.
#[inline]
pub(crate) fn account_packet(
    ctx: &mut Context,
    ep: &mut EndpointState,
    options: Options,
    header_len: usize,
    len: u64,
    summed: u64,
) {
    ctx.on_packet_sent(header_len + len as usize, len);
    if let Some(route) = ctx.route {
        ep.routes.spend_credit(route, header_len + len as usize);
    }
    ep.count_packet_built(len);
    ep.counters.bytes_summed += summed;
    let (wclose, rclose) = (options.has(Options::WCLOSE), options.has(Options::RCLOSE));
    ctx.closing.record_sent(wclose, rclose);
    if options.has(Options::END) {
        ctx.terminate(ep, CloseReason::Graceful, ctx.service != Service::Datagram);
    }
}

/// Policy for status requests: one every `status_interval_bytes` or quarter of the window, with
/// the last retransmission, with WCLOSE, with the last packet before the window closes, and with the
/// last one before a user who waits for all to be acknowledged (0007, Status requests).
fn needs_status_request(
    ctx: &Context,
    ep: &EndpointState,
    plan: &PacketPlan,
    wclose: bool,
) -> bool {
    let tx = &ctx.tx;
    let mut every = ep.config.status_interval_bytes;
    if !ctx.options.has(Options::NOFLOW) {
        every = tx.queue.request_interval(every, ep.payload_max());
    }
    if let Some(congestion) = &tx.congestion {
        every = every.min(congestion.status_interval_bytes().max(ep.payload_max()));
    }
    tx.queue.is_request_due(&plan.bytes, every)
        || wclose && !plan.is_retransmission
        || tx.queue.retransmission_queue.is_empty()
            && (plan.is_retransmission || is_last_unasked(ctx, ep))
}
