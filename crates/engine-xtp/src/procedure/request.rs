//! Status requests, WTIMER and the synchronizing handshake.

use crate::pdu::{DiagCode, DiagValue, Options, Service};
use crate::procedure::{send, three};
use crate::shared::Shared;
use crate::state::{Context, Phase, Timer};
use crate::tx::Handshake;
use core::time::Duration;
use engine::{CloseReason, Instant};

/// WTIMER for the `tries`-th attempt. Associations on a route share what they know of it.
#[inline]
pub(crate) fn wait(ctx: &Context, sh: &Shared, tries: u32) -> Duration {
    let own = &ctx.tx.rtt;
    if ctx.route == 0 {
        return own.wait(&sh.config, tries);
    }
    let shared = sh.routes.round_trip(ctx.route).unwrap_or(own);
    shared.wait(&sh.config, tries)
}

/// Makes a status request: the sync of the packet that is to carry it.
fn ask(ctx: &mut Context, sh: &mut Shared, now: Instant, delivered: bool) -> u32 {
    let first = ctx.tx.requests.is_empty();
    let sync = ctx.tx.ask(now, delivered);
    let tries = ctx.tx.handshake.map_or(0, |handshake| handshake.tries);
    ctx.disarm(Timer::Status);
    if first || tries > 0 {
        let at = now + wait(ctx, sh, tries);
        ctx.arm(sh, Timer::Wait, at);
    }
    sync
}

/// The sync of a packet with `options`: a new one if it makes a request.
#[inline]
pub(crate) fn sync(ctx: &mut Context, sh: &mut Shared, now: Instant, options: Options) -> u32 {
    let asks = options.0 & (Options::SREQ | Options::DREQ).0;
    if asks != 0 {
        ask(ctx, sh, now, asks == Options::DREQ.0)
    } else {
        ctx.tx.sync
    }
}

/// Sees to it that somebody will ask about what is on its way, or about a closed window.
pub(crate) fn settle(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let quiet = ctx.tx.requests.is_empty() && ctx.tx.handshake.is_none();
    let silent = ctx.due.probe || ctx.service == Service::Datagram;
    // What is known to be lost is sent when the rate allows it, and the last of it asks. To ask
    // meanwhile would use the rate up.
    let repairs = !ctx.tx.lost.is_empty() && ctx.is_armed(Timer::Rate);
    if !quiet || silent || repairs || ctx.is_armed(Timer::Status) {
        return;
    }
    if ctx.tx.in_flight() > 0 {
        ctx.arm(sh, Timer::Status, now + sh.config.status_delay);
    } else if is_waiting(ctx, sh) {
        let wait = wait(ctx, sh, ctx.probes);
        ctx.arm(sh, Timer::Status, now + wait);
    }
}

/// Whether nothing goes on before the peer says something it may have said already.
fn is_waiting(ctx: &Context, sh: &Shared) -> bool {
    let unanswered = ctx.close.wclose_sent && !ctx.close.rclose_received;
    unanswered || send::is_blocked(ctx, sh) || is_keyless(ctx, sh)
}

/// Whether the responder answered, but its key did not arrive. It may be unable to say more until
/// it hears from here: an unproven address gets no more than it sent.
fn is_keyless(ctx: &Context, sh: &Shared) -> bool {
    let waits = ctx.initiator && ctx.remote.is_none() && ctx.phase == Phase::Active;
    waits && ctx.probes < sh.config.retries_max
}

/// Nobody asked about what is on its way: the next data do, or if none come, a CNTL.
pub(crate) fn handle_status(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let waiting = is_waiting(ctx, sh);
    if !waiting && !ctx.tx.ask_next && ctx.tx.in_flight() > 0 {
        ctx.tx.ask_next = true;
        ctx.arm(sh, Timer::Status, now + sh.config.status_delay);
    } else if ctx.tx.requests.is_empty() && (ctx.tx.in_flight() > 0 || waiting) {
        ctx.probes += u32::from(waiting);
        ctx.due.probe = true;
        ctx.wake(sh);
    }
}

/// The user waits for the peer to have everything: what left without a request is asked about now.
pub(crate) fn do_hurry(ctx: &mut Context, sh: &mut Shared) {
    let quiet = ctx.tx.requests.is_empty() && ctx.tx.handshake.is_none();
    let unasked = quiet && ctx.tx.in_flight() > 0 && ctx.tx.next == ctx.tx.end;
    if unasked && ctx.phase == Phase::Active && ctx.service != Service::Datagram {
        ctx.due.probe = true;
        ctx.wake(sh);
    }
}

/// A request was not answered: stop sending and ask until somebody answers or it is too late.
pub(crate) fn handle_wait(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    if ctx.tx.requests.is_empty() && ctx.phase != Phase::Opening {
        return;
    }
    let fresh = Handshake {
        since: now,
        tries: 0,
        sync: ctx.tx.sync.wrapping_add(1),
    };
    let handshake = ctx.tx.handshake.get_or_insert(fresh);
    handshake.tries += 1;
    let late = now.since(handshake.since) >= sh.config.handshake_max;
    if late || handshake.tries > sh.config.retries_max {
        return give_up(ctx, sh);
    }
    if let Some(congestion) = &mut ctx.tx.congestion {
        congestion.on_silence();
    }
    if ctx.initiator && handshake_tries(ctx) >= PATH_FROM {
        // The neighbour may have forgotten the route.
        sh.routes.forget_value(ctx.route);
    }
    ctx.first.due = ctx.phase == Phase::Opening;
    ctx.due.probe = !ctx.first.due;
    ctx.wake(sh);
}

/// From this try on a handshake looks for the path anew: one loss is no sign of a lost path.
const PATH_FROM: u32 = 2;

fn handshake_tries(ctx: &Context) -> u32 {
    ctx.tx.handshake.map_or(0, |handshake| handshake.tries)
}

/// Whether the next question is to be a PATH.
pub(crate) fn looks_for_path(ctx: &Context) -> bool {
    let knows = ctx.route != 0 && ctx.initiator && ctx.remote.is_some();
    knows && ctx.due.probe && handshake_tries(ctx) >= PATH_FROM
}

/// The peer was heard during a handshake: the path works again, so the next try need not wait as
/// long as the last, and counts anew.
#[inline]
pub(crate) fn note_alive(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let Some(handshake) = &mut ctx.tx.handshake else {
        return;
    };
    (handshake.tries, handshake.since) = (1, now);
    let at = now + wait(ctx, sh, 0);
    if ctx.is_armed_beyond(Timer::Wait, at) {
        ctx.arm(sh, Timer::Wait, at);
    }
}

/// Nothing was heard for a while: ask whether the peer is there.
pub(crate) fn handle_idle(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let unproven = ctx.budget.is_some();
    let span = idle_span(ctx, sh);
    if span.is_zero() {
        return;
    }
    let at = ctx.heard + span;
    if at > now {
        return ctx.arm(sh, Timer::Idle, at);
    }
    if unproven || ctx.service == Service::Datagram {
        return ctx.end(sh, CloseReason::TimedOut, false);
    }
    if ctx.tx.requests.is_empty() && ctx.phase == Phase::Active {
        ctx.due.probe = true;
        ctx.wake(sh);
    }
    ctx.arm(sh, Timer::Idle, now + span);
}

/// Starts the CTIMER, if there is one.
pub(crate) fn watch(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let span = idle_span(ctx, sh);
    if !span.is_zero() {
        ctx.arm(sh, Timer::Idle, now + span);
    }
}

fn idle_span(ctx: &Context, sh: &Shared) -> core::time::Duration {
    if ctx.budget.is_some() || ctx.service == Service::Datagram {
        sh.config.handshake_max
    } else {
        sh.config.keep_alive
    }
}

fn give_up(ctx: &mut Context, sh: &mut Shared) {
    let (peer, key) = (ctx.peer, ctx.wire_key());
    let link = three::link(ctx, sh);
    let (code, value) = (DiagCode::ABANDONED, DiagValue::UNSPECIFIED);
    sh.diagnose(peer, key, code, value, 0, &link);
    ctx.end(sh, CloseReason::TimedOut, true);
}
