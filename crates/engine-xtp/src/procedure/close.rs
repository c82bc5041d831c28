//! Closing: WCLOSE and RCLOSE in each direction, END, abort, DIAG.

use crate::pdu::{Body, Common, Diag, DiagCode, Format, Header, Options, Packet, Reject, Service};
use crate::procedure::three::{self, Link};
use crate::procedure::{receive, reply, report, setup};
use crate::shared::{Shared, plain};
use crate::state::{Context, Phase};
use crate::table::Inactive;
use engine::{Address, CloseReason, Event, Instant};

/// All bytes left and the WCLOSE did not.
pub(crate) fn is_wclose_due(ctx: &Context) -> bool {
    ctx.is_all_sent() && !ctx.waits_for_answer() && !ctx.close.wclose_sent
}

/// Whether both directions are closed and both sides know.
pub(crate) fn is_done(ctx: &Context) -> bool {
    is_done_with(ctx, false, false)
}

/// The same once a packet with these bits left.
pub(crate) fn is_done_with(ctx: &Context, wclose: bool, rclose: bool) -> bool {
    let close = &ctx.close;
    let sent = (close.wclose_sent || wclose) && (close.rclose_sent || rclose);
    sent && close.rclose_received && ctx.rx.is_complete()
}

/// A packet left with these bits.
pub(crate) fn note_sent(ctx: &mut Context, wclose: bool, rclose: bool) {
    ctx.close.wclose_sent |= wclose;
    ctx.close.rclose_sent |= rclose;
}

/// The user will send no more.
pub(crate) fn do_finish(ctx: &mut Context, sh: &mut Shared) {
    if ctx.is_one_way() && !ctx.initiator {
        return;
    }
    ctx.tx.finishing = true;
    ctx.tx.pushed = ctx.tx.end;
    setup::start_if_due(ctx, sh);
    ctx.wake(sh);
}

/// The user gives up.
pub(crate) fn do_abort(ctx: &mut Context, sh: &mut Shared) {
    if ctx.phase == Phase::Active || ctx.first.sent {
        let packet = end_packet(ctx.wire_key(), ctx.tx.next, ctx.rx.next, Options::END);
        if ctx.may_send(sh.control_len()) {
            let link = three::link(ctx, sh);
            sh.answer(ctx.peer, &packet, &link);
            sh.count_built(0);
        }
    }
    ctx.end(sh, CloseReason::Aborted, true);
}

fn end_packet(key: u64, seq: u64, rseq: u64, options: Options) -> Packet<'static> {
    let header = Header {
        options,
        seq,
        ..plain(key, Format::Cntl)
    };
    let common = Common {
        rseq,
        alloc: rseq,
        echo: 0,
    };
    Packet {
        header,
        body: Body::Cntl(common),
    }
}

/// A packet for a key in quarantine: whoever sent it has not heard of the end.
pub(crate) fn answer_late(
    inactive: &Inactive,
    sh: &mut Shared,
    from: Address,
    header: &Header,
    packet_len: usize,
) -> Result<(), Reject> {
    if from != inactive.peer {
        return Err(Reject::ForeignSource);
    }
    let deaf = header.options.has(Options::END) || header.format == Format::Diag;
    let allowed = inactive.proven || packet_len >= sh.control_len();
    if !deaf && allowed {
        let key = inactive
            .remote
            .map_or(inactive.key, |key| key | crate::pdu::RTN);
        let graceful = inactive.graceful;
        let options = Options::END
            .with(Options::RCLOSE, graceful)
            .with(Options::WCLOSE, graceful);
        let link = Link {
            base: inactive.base,
            route: sh.routes.outgoing(inactive.route),
            taken: inactive.received,
            ..Link::default()
        };
        let packet = end_packet(key, inactive.sent, inactive.received, options);
        sh.answer(from, &packet, &link);
        sh.count_built(0);
    }
    Ok(())
}

/// Acts on the close bits of a packet whose data, up to `seq`, were taken in.
pub(crate) fn handle_bits(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    seq: u64,
) -> Result<(), Reject> {
    let options = header.options;
    if options.has(Options::WCLOSE) {
        handle_wclose(ctx, sh, seq)?;
    }
    note_complete(ctx, sh, now);
    if options.has(Options::RCLOSE) {
        handle_rclose(ctx, sh, header.format);
    }
    if options.has(Options::END) {
        let known = ctx.close.wclose_sent && ctx.close.rclose_received;
        let graceful = known && ctx.rx.is_complete();
        let reason = if graceful {
            CloseReason::Graceful
        } else {
            CloseReason::Aborted
        };
        ctx.end(sh, reason, !ctx.initiator);
    } else if is_done(ctx) {
        ctx.due.reply = true;
        ctx.wake(sh);
    }
    Ok(())
}

/// Whether a stream may end at `last`: it ends once, and not before what came already.
pub(crate) fn check_wclose(ctx: &Context, last: u64) -> Result<(), Reject> {
    let moved = ctx.rx.last.is_some_and(|known| known != last);
    if moved || last < ctx.rx.next || last < ctx.rx.held.end() || last > crate::types::SEQ_MAX {
        return Err(Reject::State);
    }
    Ok(())
}

fn handle_wclose(ctx: &mut Context, sh: &mut Shared, last: u64) -> Result<(), Reject> {
    check_wclose(ctx, last)?;
    if ctx.rx.noerr {
        receive::skip_to(ctx, sh, last);
    }
    ctx.rx.last = Some(last);
    Ok(())
}

/// Tells host and peer, once, that the peer's stream is whole.
fn note_complete(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let silent = ctx.is_one_way() && ctx.initiator;
    if ctx.rx.is_complete() && !ctx.close.finished && !silent {
        ctx.close.finished = true;
        sh.events.push_back(Event::Finished(ctx.id));
        if ctx.service != Service::Datagram {
            reply::owe(ctx, sh, now);
        }
    }
}

/// The peer wants no more. With everything received that is the answer to WCLOSE; else its
/// reader stopped, and nothing more can be said.
fn handle_rclose(ctx: &mut Context, sh: &mut Shared, format: Format) {
    let data = matches!(format, Format::Data | Format::First);
    let whole = data || ctx.tx.acknowledged >= ctx.tx.end;
    if ctx.close.wclose_sent && whole {
        report::acknowledge(ctx, sh, ctx.tx.next);
        ctx.close.rclose_received = true;
    } else if !data {
        do_abort(ctx, sh);
    }
}

/// The peer says that something went wrong.
pub(crate) fn handle_diag(ctx: &mut Context, sh: &mut Shared, diag: &Diag<'_>) {
    let reason = match diag.code {
        DiagCode::REFUSED if ctx.phase == Phase::Opening => CloseReason::Refused,
        DiagCode::REFUSED
        | DiagCode::ABANDONED
        | DiagCode::INVALID_CONTEXT
        | DiagCode::PROTOCOL_ERROR => CloseReason::Aborted,
        _ => return,
    };
    ctx.end(sh, reason, false);
}
