//! Receiving control packets: acknowledgement, allocation, RTT, retransmission decisions.

use crate::config::{ErrorControl, SpanMeaning};
use crate::context::{Context, Timer};
use crate::endpoint_state::EndpointState;
use crate::numbers::{Key, SyncNumber};
use crate::pdu::{CommonControl, Options, Reject, Span, TrafficSpec};
use crate::procedure::{
    address_validation, association_close, association_setup, path_mtu, status_request,
};
use crate::tx::{self, StatusRequest};
use congestion::{AckSample, RttSample};
use core::ops::Range;
use engine::{Event, Instant};
use std::collections::VecDeque;

/// Processes the common control segment and the spans of a control packet.
pub(crate) fn handle_acknowledgment(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    common: &CommonControl,
    spans: &[Span],
) -> Result<(), Reject> {
    if common.rseq > ctx.tx.queue.next_seq
        || !tx::spans_are_valid(common.rseq, ctx.tx.queue.next_seq, spans)
    {
        return Err(Reject::NeverSent);
    }
    // The echo of a sync that was never used.
    if ctx.tx.sync.is_before(common.echo) && common.echo != SyncNumber::NONE {
        return Err(Reject::NeverSent);
    }
    if has_lost_state(ctx, common) {
        association_close::do_abort(ctx, ep);
        return Err(Reject::Released);
    }
    ctx.limits_report.record_echo(common.echo);
    note_receiver_mode(ctx, common, spans);
    let (sent_before_request, rtt_sample) = resolve_requests(ctx, ep, now, common.echo);
    // Spans below released bytes request a retransmission that is impossible.
    if common.rseq < ctx.tx.queue.acknowledged && !spans.is_empty() {
        return Err(Reject::Released);
    }
    // The first allocation replaces the assumed one, even if lower. Later ones only grow.
    if common.alloc > ctx.tx.queue.alloc || !ctx.tx.alloc_received {
        ctx.tx.queue.alloc = common.alloc;
        ctx.tx.alloc_received = true;
        ctx.unanswered_probes = 0;
    }
    let acked = release(ctx, ep, common.rseq);
    if let Some(congestion) = &mut ctx.tx.congestion {
        let delivered = delivered_bytes(ep, common.rseq, spans, sent_before_request.unwrap_or(0));
        let sent = ctx.tx.queue.next_seq;
        let sample = AckSample {
            acked_bytes: acked,
            delivered_bytes: delivered.min(sent),
            sent_bytes: sent,
            inflight_bytes: sent.saturating_sub(delivered),
            rtt: rtt_sample,
        };
        congestion.on_ack(now, &sample);
    }
    // NOERR: everything sent before the answered request is released (0007, Repair).
    if ctx.options.has(Options::NOERR) {
        acknowledge(ctx, ep, now, sent_before_request.unwrap_or(0));
    } else {
        queue_retransmissions(ctx, ep, common, spans, sent_before_request);
    }
    ctx.mark_ready(ep);
    Ok(())
}

/// Whether the peer acknowledges less than it did before it got the request that it answers. It was
/// restarted, and a copy of FIRST gave it a new context: the bytes released since are gone
/// (0007, Repair).
fn has_lost_state(ctx: &Context, common: &CommonControl) -> bool {
    let requests = ctx.tx.outstanding_requests.iter();
    let answered = requests.take_while(|request| !common.echo.is_before(request.sync));
    let forgets = |request: &StatusRequest| common.rseq < request.acknowledged;
    !ctx.options.has(Options::NOERR) && answered.last().is_some_and(forgets)
}

/// Finds out whether the peer keeps what arrives beyond a gap. The packet with the echoed sync arrived:
/// if its bytes lie beyond the gap and nothing there is listed, they were dropped (0007, Repair).
fn note_receiver_mode(ctx: &mut Context, common: &CommonControl, spans: &[Span]) {
    let mut requests = ctx.tx.outstanding_requests.iter();
    let echoed = requests.find(|request| request.sync == common.echo);
    let start = echoed.and_then(|request| request.data_start);
    if !spans.is_empty() {
        ctx.tx.peer_drops_beyond_gap = false;
    } else if start.is_some_and(|start| start > common.rseq) {
        ctx.tx.peer_drops_beyond_gap = true;
    }
}

/// Bytes that the peer has, of those sent before the echoed request.
fn delivered_bytes(ep: &EndpointState, rseq: u64, spans: &[Span], sent_before_request: u64) -> u64 {
    let listed: u64 = spans.iter().map(|span| span.right - span.left).sum();
    match ep.config.spans {
        SpanMeaning::Received => rseq + listed,
        SpanMeaning::Missing if spans.is_empty() => rseq,
        SpanMeaning::Missing => sent_before_request.saturating_sub(listed).max(rseq),
    }
}

/// Removes the status requests that `echo` answers. Returns the position below which everything
/// was sent before the last of them, and an RTT sample if there is one. Answers to DREQ give no
/// sample: they wait for the user (0007, DREQ).
fn resolve_requests(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    echo: SyncNumber,
) -> (Option<u64>, Option<RttSample>) {
    let (mut sent_before_request, mut rtt_sample) = (None, None);
    while let Some(request) = ctx.tx.outstanding_requests.front().copied() {
        if echo.is_before(request.sync) {
            break;
        }
        ctx.tx.outstanding_requests.pop_front();
        sent_before_request = Some(request.highest_sent);
        if request.sync == echo && !request.asks_delivery {
            let rtt = now.since(request.sent_at);
            rtt_sample = Some(RttSample {
                rtt,
                packet: request.state,
            });
            ctx.tx.rtt.sample(rtt);
            if let Some(route) = ctx.route {
                ep.routes.sample_rtt(route, rtt);
            }
        }
    }
    if sent_before_request.is_some() {
        if ctx
            .tx
            .handshake
            .is_some_and(|handshake| !echo.is_before(handshake.sync))
        {
            ctx.tx.handshake = None;
        }
        restart_wtimer(ctx, ep, now);
    }
    (sent_before_request, rtt_sample)
}

fn restart_wtimer(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if ctx.tx.outstanding_requests.is_empty() && ctx.tx.handshake.is_none() {
        ctx.timers.disarm(Timer::Wtimer);
    } else {
        let at = status_request::wtimer_deadline(ctx, ep, now);
        ctx.arm(ep, Timer::Wtimer, at);
    }
}

/// Everything below `position` is acknowledged, other than by the rseq of a control packet.
pub(crate) fn acknowledge(ctx: &mut Context, ep: &mut EndpointState, now: Instant, position: u64) {
    let bytes = release(ctx, ep, position);
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_released(now, bytes);
    }
}

/// Releases everything below `position`. Returns how many bytes left the flight.
fn release(ctx: &mut Context, ep: &mut EndpointState, position: u64) -> u64 {
    let position = position.min(ctx.tx.queue.next_seq);
    let bytes = position.saturating_sub(ctx.tx.queue.acknowledged);
    if bytes > 0 {
        ctx.tx.queue.release(position);
        // Without error control the range may be empty: it tells that less is in flight.
        let released = ctx.tx.newly_released(position);
        ep.events.push_back(Event::Released(ctx.id, released));
    }
    bytes
}

/// Queues lost bytes for retransmission. A control packet whose echo is older than the last
/// retransmission is ignored: it would cause a duplicate retransmission (0007, Repair).
fn queue_retransmissions(
    ctx: &mut Context,
    ep: &EndpointState,
    common: &CommonControl,
    spans: &[Span],
    sent_before_request: Option<u64>,
) {
    let saved_sync = ctx.tx.saved_sync;
    let is_stale = saved_sync.is_none_or(|saved| common.echo.is_before(saved));
    if is_stale
        || !ctx.tx.queue.retransmission_queue.is_empty()
        || common.rseq < ctx.tx.queue.acknowledged
    {
        return;
    }
    let mut lost = lost_ranges(ep, common.rseq, spans, sent_before_request.unwrap_or(0));
    if lost.is_empty() {
        return;
    }
    path_mtu::on_loss(ctx, ep, &lost, spans);
    if ep.config.error == ErrorControl::GoBackN || ctx.tx.peer_drops_beyond_gap {
        lost.clear();
        lost.push_back(common.rseq..ctx.tx.queue.next_seq);
    }
    let bytes = lost.iter().map(|range| range.end - range.start).sum();
    ctx.tx.queue.retransmission_queue = tx::RetransmissionQueue::of(lost);
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_loss(bytes);
    }
}

/// The missing ranges below the highest span, or below the bytes sent before the echoed request
/// (0007, Repair).
fn lost_ranges(
    ep: &EndpointState,
    rseq: u64,
    spans: &[Span],
    sent_before_request: u64,
) -> VecDeque<Range<u64>> {
    if ep.config.spans == SpanMeaning::Missing && !spans.is_empty() {
        return spans.iter().map(|span| span.left..span.right).collect();
    }
    tx::missing_ranges(rseq, sent_before_request, spans).collect()
}

/// Processes the part that only a TCNTL has: the peer's key and limits.
pub(crate) fn handle_traffic_control(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    xkey: u64,
    traffic: &TrafficSpec,
) {
    association_setup::apply_peer_limits(ctx, ep, now, traffic);
    learn_key(ctx, xkey, false);
    address_validation::return_cookie(ctx, ep, traffic);
}

/// Records the responder's key `xkey`; 0 for none. With `needs_echo` the key alone does not validate
/// this address (XTP 3.x).
pub(crate) fn learn_key(ctx: &mut Context, xkey: u64, needs_echo: bool) {
    let key = Key::stated(xkey);
    if !ctx.initiator || ctx.remote_key.is_some() || key.is_none() {
        return;
    }
    ctx.remote_key = key;
    // The next packet returns the key and validates this address at the peer. Without data to
    // send, a status request does it (0007, Keys); in 3.x with its echo, in any case (0021).
    ctx.pending.status_request |= needs_echo || ctx.tx.queue.has_sent_all();
}
