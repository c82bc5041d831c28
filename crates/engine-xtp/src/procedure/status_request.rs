//! Status requests, WTIMER, the synchronizing handshake, CTIMER.

use crate::closing::SendingEnd;
use crate::context::{Context, Timer};
use crate::endpoint_state::EndpointState;
use crate::numbers::SyncNumber;
use crate::opening::ContextState;
use crate::pdu::{DiagCode, DiagValue, Options, Service};
use crate::procedure::data_send;
use crate::tx::{self, SyncHandshake};
use core::time::Duration;
use engine::{CloseReason, Instant};

/// WTIMER for the `tries`-th attempt. Associations on a route share its RTT (0008, Sharing).
#[inline]
pub(crate) fn wtimer(ctx: &Context, ep: &EndpointState, tries: u32) -> Duration {
    let own = &ctx.tx.rtt;
    let shared = ctx.route.and_then(|route| ep.routes.rtt(route));
    tx::wtimer(shared.unwrap_or(own), &ep.config, tries)
}

/// When WTIMER expires that is armed now: a handshake lasts no longer than CTIMEOUT (0007, WTIMER).
pub(crate) fn wtimer_deadline(ctx: &Context, ep: &EndpointState, now: Instant) -> Instant {
    let Some(handshake) = ctx.tx.handshake else {
        return now + wtimer(ctx, ep, 0);
    };
    let end = handshake.started_at + ep.config.handshake_max;
    end.min(now + wtimer(ctx, ep, handshake.tries))
}

/// Makes a status request. Returns the sync of the packet that carries it.
fn make_request(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    delivered: bool,
) -> SyncNumber {
    let first = ctx.tx.outstanding_requests.is_empty();
    let sync = ctx.tx.new_status_request(now, delivered);
    ctx.timers.disarm(Timer::Status);
    if first || handshake_tries(ctx) > 0 {
        let at = wtimer_deadline(ctx, ep, now);
        ctx.arm(ep, Timer::Wtimer, at);
    }
    sync
}

/// The sync of a packet with `options`: a new one if it carries a status request.
#[inline]
pub(crate) fn packet_sync(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    options: Options,
) -> SyncNumber {
    let makes_request = options.0 & (Options::SREQ | Options::DREQ).0;
    if makes_request != 0 {
        make_request(ctx, ep, now, makes_request == Options::DREQ.0)
    } else {
        ctx.tx.sync
    }
}

/// Arms the status timer when bytes are in flight, or the peer blocks progress, without an
/// outstanding status request (0007, Status requests).
pub(crate) fn ensure_status_request(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let quiet = ctx.tx.outstanding_requests.is_empty() && ctx.tx.handshake.is_none();
    let silent = ctx.pending.status_request || ctx.service == Service::Datagram;
    // The last retransmission carries a status request. Another one meanwhile would use up the
    // rate that the retransmissions wait for.
    let repairs =
        !ctx.tx.queue.retransmission_queue.is_empty() && ctx.timers.is_armed(Timer::Rtimer);
    if !quiet || silent || repairs || ctx.timers.is_armed(Timer::Status) {
        return;
    }
    if ctx.tx.queue.bytes_in_flight() > 0 {
        ctx.arm(ep, Timer::Status, now + ep.config.status_delay);
    } else if is_waiting_for_peer(ctx, ep) {
        let wait = wtimer(ctx, ep, ctx.unanswered_probes);
        ctx.arm(ep, Timer::Status, now + wait);
    }
}

/// Whether progress depends on a packet of the peer that may have been lost.
fn is_waiting_for_peer(ctx: &Context, ep: &EndpointState) -> bool {
    let unanswered = ctx.closing.sending == SendingEnd::WcloseSent;
    unanswered || data_send::is_send_blocked(ctx, ep) || is_waiting_for_key(ctx, ep)
}

/// Whether the responder answered but its key was lost. Its amplification limit may forbid it to
/// send more until it receives a packet (0007, Address validation).
fn is_waiting_for_key(ctx: &Context, ep: &EndpointState) -> bool {
    let waits = ctx.initiator && ctx.remote_key.is_none() && ctx.state == ContextState::Active;
    waits && ctx.unanswered_probes < ep.config.retries_max
}

/// Bytes are in flight without a status request: the next DATA packet carries one, or without
/// data a CNTL (0007, Status requests).
pub(crate) fn handle_status_timeout(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let waiting = is_waiting_for_peer(ctx, ep);
    if !waiting && !ctx.tx.queue.request_with_next_data && ctx.tx.queue.bytes_in_flight() > 0 {
        ctx.tx.queue.request_with_next_data = true;
        ctx.arm(ep, Timer::Status, now + ep.config.status_delay);
    } else if ctx.tx.outstanding_requests.is_empty()
        && (ctx.tx.queue.bytes_in_flight() > 0 || waiting)
    {
        ctx.unanswered_probes += u32::from(waiting);
        ctx.pending.status_request = true;
        ctx.mark_ready(ep);
    }
}

/// The user blocks until everything is acknowledged: request an ACK with the last DATA packet, or now
/// if that has left.
pub(crate) fn do_request_ack(ctx: &mut Context, ep: &mut EndpointState) {
    if ctx.tx.queue.next_seq < ctx.tx.queue.submitted {
        ctx.tx.queue.request_at = ctx.tx.queue.submitted;
    }
    let quiet = ctx.tx.outstanding_requests.is_empty() && ctx.tx.handshake.is_none();
    let unasked = quiet && ctx.tx.queue.bytes_in_flight() > 0 && ctx.tx.queue.has_sent_all();
    if unasked && ctx.state == ContextState::Active && ctx.service != Service::Datagram {
        ctx.pending.status_request = true;
        ctx.mark_ready(ep);
    }
}

/// WTIMER expired: enter the synchronizing handshake. Data stop, and the status request is
/// repeated until it is answered or the association is abandoned (0007, WTIMER).
pub(crate) fn handle_wtimer(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if ctx.tx.outstanding_requests.is_empty() && !ctx.is_opening() {
        return;
    }
    let fresh = SyncHandshake {
        started_at: now,
        tries: 0,
        sync: ctx.tx.sync.next(),
    };
    let handshake = ctx.tx.handshake.get_or_insert(fresh);
    handshake.tries += 1;
    let late = now.since(handshake.started_at) >= ep.config.handshake_max;
    if late || handshake.tries > ep.config.retries_max {
        return abandon(ctx, ep);
    }
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_wtimer_expired();
    }
    if let Some(route) = ctx.route
        && ctx.initiator
        && handshake_tries(ctx) >= PATH_FROM_TRY
    {
        // The neighbour may have forgotten the route.
        ep.routes.forget_value(route);
    }
    ctx.pending.status_request = !ctx.schedule_first();
    ctx.mark_ready(ep);
}

/// From this try on a handshake sends PATH: one loss is no sign of a lost path (0008, PATH).
const PATH_FROM_TRY: u32 = 2;

fn handshake_tries(ctx: &Context) -> u32 {
    ctx.tx.handshake.map_or(0, |handshake| handshake.tries)
}

/// Whether the next status request is a PATH.
pub(crate) fn needs_path_packet(ctx: &Context) -> bool {
    let has_path = ctx.route.is_some() && ctx.initiator && ctx.remote_key.is_some();
    has_path && ctx.pending.status_request && handshake_tries(ctx) >= PATH_FROM_TRY
}

/// A packet arrived during a handshake: the path works again. Backoff and tries restart, so the
/// next try comes as soon as the first (0007, WTIMER).
#[inline]
pub(crate) fn on_peer_alive(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let Some(handshake) = &mut ctx.tx.handshake else {
        return;
    };
    (handshake.tries, handshake.started_at) = (1, now);
    let at = now + wtimer(ctx, ep, 0);
    if ctx
        .timers
        .deadline(Timer::Wtimer)
        .is_some_and(|set| set > at)
    {
        ctx.arm(ep, Timer::Wtimer, at);
    }
}

/// CTIMER expired: send a keepalive, or close an association that was not validated in time
/// (0007, CTIMER).
pub(crate) fn handle_ctimer(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let span = ctimer(ctx, ep);
    if span.is_zero() {
        return;
    }
    let at = ctx.last_received_at + span;
    if at > now {
        return ctx.arm(ep, Timer::Ctimer, at);
    }
    if !ctx.is_validated() || ctx.service == Service::Datagram {
        return ctx.terminate(ep, CloseReason::TimedOut, false);
    }
    if ctx.tx.outstanding_requests.is_empty() && ctx.state == ContextState::Active {
        ctx.pending.status_request = true;
        ctx.mark_ready(ep);
    }
    ctx.arm(ep, Timer::Ctimer, now + span);
}

/// Starts CTIMER, if it is configured.
pub(crate) fn start_ctimer(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let span = ctimer(ctx, ep);
    if !span.is_zero() {
        ctx.arm(ep, Timer::Ctimer, now + span);
    }
}

fn ctimer(ctx: &Context, ep: &EndpointState) -> core::time::Duration {
    if !ctx.is_validated() || ctx.service == Service::Datagram {
        ep.config.handshake_max
    } else {
        ep.config.keepalive
    }
}

fn abandon(ctx: &mut Context, ep: &mut EndpointState) {
    let (peer, key) = (ctx.peer, ctx.outgoing_key());
    let header_context = ctx.header_context(ep);
    let (code, value) = (DiagCode::ABANDONED, DiagValue::UNSPECIFIED);
    ep.queue_diag(peer, key, code, value, 0, &header_context);
    ctx.terminate(ep, CloseReason::TimedOut, true);
}
