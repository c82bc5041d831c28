//! What a control packet says about the bytes that were sent.

use crate::api::{ErrorControl, SpanMeaning};
use crate::pdu::{Common, Reject, Span, Spans, TrafficSpec};
use crate::procedure::{request, setup};
use crate::shared::Shared;
use crate::state::{Context, Timer};
use crate::tx::{Sight, Trip};
use crate::types::is_before;
use core::ops::Range;
use engine::{Event, Instant};
use std::collections::VecDeque;

/// Takes in the common part and the spans of a control packet.
pub(crate) fn handle_report(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    common: &Common,
    spans: Spans<'_>,
) -> Result<(), Reject> {
    if common.rseq > ctx.tx.next || !are_sane(ctx, common, spans) {
        return Err(Reject::NeverSent);
    }
    if is_before(ctx.tx.sync, common.echo) && common.echo != 0 {
        return Err(Reject::NeverSent);
    }
    if ctx
        .limits_sync
        .is_some_and(|sync| !is_before(common.echo, sync))
    {
        ctx.limits_sync = None;
    }
    let (horizon, trip) = settle_requests(ctx, sh, now, common.echo);
    if common.rseq < ctx.tx.acknowledged && !spans.is_empty() {
        return Err(Reject::Released);
    }
    // What was assumed before anything was heard does not count against the peer's word.
    if common.alloc > ctx.tx.alloc || !ctx.tx.alloc_heard {
        ctx.tx.alloc = common.alloc;
        ctx.tx.alloc_heard = true;
        ctx.probes = 0;
    }
    acknowledge(ctx, sh, common.rseq);
    if let Some(congestion) = &mut ctx.tx.congestion {
        let delivered = delivered(sh, common.rseq, spans, horizon.unwrap_or(0));
        let sent = ctx.tx.next;
        let sight = Sight {
            delivered: delivered.min(sent),
            sent,
            trip,
        };
        congestion.on_report(now, &sight);
    }
    if ctx.options.has(crate::pdu::Options::NOERR) {
        acknowledge(ctx, sh, horizon.unwrap_or(0));
    } else {
        repair(ctx, sh, common, spans, horizon);
    }
    ctx.wake(sh);
    Ok(())
}

/// Honest spans are ascending, disjoint, beyond `rseq` and within what was sent.
fn are_sane(ctx: &Context, common: &Common, spans: Spans<'_>) -> bool {
    let mut at = common.rseq;
    spans.iter().all(|span| {
        let sane = span.left >= at && span.right > span.left && span.right <= ctx.tx.next;
        at = span.right;
        sane
    })
}

/// Bytes the peer has, of those up to `horizon`.
fn delivered(sh: &Shared, rseq: u64, spans: Spans<'_>, horizon: u64) -> u64 {
    let listed: u64 = spans.iter().map(|span| span.right - span.left).sum();
    match sh.config.spans {
        SpanMeaning::Received => rseq + listed,
        SpanMeaning::Missing if spans.is_empty() => rseq,
        SpanMeaning::Missing => horizon.saturating_sub(listed).max(rseq),
    }
}

/// Forgets the requests this answers: everything below the first result was sent before the last.
/// The second is the round trip, if the answer shows one.
fn settle_requests(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    echo: u32,
) -> (Option<u64>, Option<Trip>) {
    let (mut horizon, mut trip) = (None, None);
    while let Some(request) = ctx.tx.requests.front().copied() {
        if is_before(echo, request.sync) {
            break;
        }
        ctx.tx.requests.pop_front();
        horizon = Some(request.sent);
        if request.sync == echo && !request.delivered {
            let rtt = now.since(request.at);
            trip = Some(Trip {
                took: rtt,
                sent: request.sent,
                sync: request.sync,
            });
            let queued = ctx.tx.rtt.is_queued(rtt);
            ctx.tx.rtt.sample(rtt);
            if ctx.route != 0 {
                sh.routes.sample(ctx.route, rtt);
            }
            if let Some(congestion) = &mut ctx.tx.congestion {
                congestion.on_round_trip(queued);
            }
        }
    }
    if horizon.is_some() {
        if ctx
            .tx
            .handshake
            .is_some_and(|handshake| !is_before(echo, handshake.sync))
        {
            ctx.tx.handshake = None;
        }
        restart_wait(ctx, sh, now);
    }
    (horizon, trip)
}

fn restart_wait(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    if ctx.tx.requests.is_empty() && ctx.tx.handshake.is_none() {
        ctx.disarm(Timer::Wait);
    } else {
        let tries = ctx.tx.handshake.map_or(0, |handshake| handshake.tries);
        let at = now + request::wait(ctx, sh, tries);
        ctx.arm(sh, Timer::Wait, at);
    }
}

/// Everything below `position` needs no keeping any longer.
pub(crate) fn acknowledge(ctx: &mut Context, sh: &mut Shared, position: u64) {
    let position = position.min(ctx.tx.next);
    let Some(bytes) = position
        .checked_sub(ctx.tx.acknowledged)
        .filter(|&bytes| bytes > 0)
    else {
        return;
    };
    ctx.tx.release(position);
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_acknowledged(bytes);
    }
    sh.events.push_back(Event::Released(ctx.id, position));
}

/// Decides what to send again. A report made before the last retransmission arrived is not
/// listened to: it would have everything sent twice.
fn repair(ctx: &mut Context, sh: &Shared, common: &Common, spans: Spans<'_>, horizon: Option<u64>) {
    let stale = is_before(common.echo, ctx.tx.saved_sync) || ctx.tx.resent;
    if stale || !ctx.tx.lost.is_empty() || common.rseq < ctx.tx.acknowledged {
        return;
    }
    let mut lost = missing(sh, common.rseq, spans, horizon.unwrap_or(0));
    if lost.is_empty() {
        return;
    }
    if sh.config.error == ErrorControl::GoBackN {
        lost.clear();
        lost.push_back(common.rseq..ctx.tx.next);
    }
    let bytes = lost.iter().map(|range| range.end - range.start).sum();
    ctx.tx.lost = lost;
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_loss(bytes);
    }
}

/// The ranges between `rseq` and `horizon`, or the highest span, that did not arrive.
fn missing(sh: &Shared, rseq: u64, spans: Spans<'_>, horizon: u64) -> VecDeque<Range<u64>> {
    let mut lost = VecDeque::new();
    if sh.config.spans == SpanMeaning::Missing && !spans.is_empty() {
        lost.extend(spans.iter().map(|Span { left, right }| left..right));
        return lost;
    }
    let mut at = rseq;
    for span in spans.iter() {
        if span.left > at {
            lost.push_back(at..span.left);
        }
        at = span.right;
    }
    if horizon > at {
        lost.push_back(at..horizon);
    }
    lost
}

/// Takes in what only a TCNTL says: the peer's key and limits.
pub(crate) fn handle_traffic(ctx: &mut Context, now: Instant, xkey: u64, traffic: &TrafficSpec) {
    setup::obey(ctx, now, traffic);
    learn_key(ctx, xkey);
}

/// The responder's key is `xkey`; 0 for none.
pub(crate) fn learn_key(ctx: &mut Context, xkey: u64) {
    if !ctx.initiator || ctx.remote.is_some() || xkey == 0 || xkey & crate::pdu::RTN != 0 {
        return;
    }
    ctx.remote = Some(xkey);
    // The next packet shows the peer that its answers arrive here. Data will do; without any, a
    // request is repeated until it is known to have arrived.
    ctx.due.probe |= ctx.tx.next == ctx.tx.end;
}
