//! Closing: WCLOSE and RCLOSE in each direction, END, abort, DIAG (0007, Close).

use crate::closing::SendingEnd;
use crate::codec::HeaderContext;
use crate::context::Context;
use crate::context_table::InactiveContext;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::{Key, SyncNumber};
use crate::pdu::{Body, CommonControl, Diag, DiagCode, Format, Header, Options, Packet, Reject};
use crate::procedure::association_setup;
use engine::{Address, CloseReason};

/// All data were sent, and WCLOSE was not.
pub(crate) fn is_wclose_due(ctx: &Context) -> bool {
    ctx.closing.sending == SendingEnd::Finishing
        && ctx.tx.queue.has_sent_all()
        && !ctx.waits_for_setup_answer()
}

/// Whether all four close bits are set.
pub(crate) fn is_fully_closed(ctx: &Context) -> bool {
    is_fully_closed_after(ctx, false, false)
}

/// Whether all four close bits are set after a packet with `wclose` and `rclose` is sent.
pub(crate) fn is_fully_closed_after(ctx: &Context, wclose: bool, rclose: bool) -> bool {
    let closing = ctx.closing;
    let sent = (closing.wclose_sent() || wclose) && (closing.rclose_sent() || rclose);
    sent && closing.rclose_received() && ctx.rx.is_complete()
}

/// The user will send no more data.
pub(crate) fn do_finish(ctx: &mut Context, ep: &mut EndpointState) {
    if ctx.closing.sending == SendingEnd::Absent {
        return;
    }
    ctx.closing.finish();
    ctx.tx.queue.pushed = ctx.tx.queue.submitted;
    association_setup::schedule_first_if_ready(ctx, ep);
    ctx.mark_ready(ep);
}

/// The user aborts.
pub(crate) fn do_abort(ctx: &mut Context, ep: &mut EndpointState) {
    if ctx.is_announced() && !ctx.is_closed() {
        let packet = end_packet(
            ctx.outgoing_key(),
            (ctx.tx.queue.next_seq, ctx.rx.next_seq),
            end_syncs(ep, ctx.tx.sync, ctx.rx.highest_sync),
            Options::END,
        );
        if ctx.within_amplification_limit(ep.control_len()) {
            let header_context = ctx.header_context(ep);
            ep.queue_reply(ctx.peer, &packet, &header_context);
            ep.count_packet_built(0);
        }
    }
    ctx.terminate(ep, CloseReason::Aborted, true);
}

/// Sync and echo of END: in 3.x they show which association it ends (0008, Names).
fn end_syncs(
    ep: &EndpointState,
    sync: SyncNumber,
    highest_sync: Option<SyncNumber>,
) -> (SyncNumber, SyncNumber) {
    match ep.codec.has_long_keys() {
        true => (SyncNumber::NONE, SyncNumber::NONE),
        false => (sync, highest_sync.unwrap_or_default()),
    }
}

fn end_packet(
    key: u64,
    (seq, rseq): (u64, u64),
    (sync, echo): (SyncNumber, SyncNumber),
    options: Options,
) -> Packet<'static> {
    let header = Header {
        options,
        seq,
        sync,
        ..plain_header(key, Format::Cntl)
    };
    let common = CommonControl {
        rseq,
        alloc: rseq,
        echo,
    };
    Packet {
        header,
        body: Body::Cntl(common),
    }
}

/// Answers a packet for a key in quarantine with END: its sender does not know of the close.
pub(crate) fn answer_inactive(
    inactive: &InactiveContext,
    ep: &mut EndpointState,
    from: Address,
    header: &Header,
    packet_len: usize,
) -> Result<(), Reject> {
    if from != inactive.peer {
        return Err(Reject::ForeignSource);
    }
    let expects_no_answer = header.options.has(Options::END) || header.format == Format::Diag;
    // 0007, Address validation.
    let allowed = inactive.validated || packet_len >= ep.control_len();
    if !expects_no_answer && allowed {
        let key = inactive.remote.map_or(inactive.key.field(), Key::returned);
        let graceful = inactive.graceful;
        let options = Options::END
            .with(Options::RCLOSE, graceful)
            .with(Options::WCLOSE, graceful);
        let header_context = HeaderContext {
            seq_base: inactive.seq_base,
            route: ep.routes.header_field(inactive.route),
            dseq: inactive.received_seq,
            ..HeaderContext::default()
        };
        let positions = (inactive.sent_seq, inactive.received_seq);
        let syncs = end_syncs(ep, inactive.sync, inactive.highest_sync);
        let packet = end_packet(key, positions, syncs, options);
        ep.queue_reply(from, &packet, &header_context);
        ep.count_packet_built(0);
    }
    Ok(())
}

/// Rejects a final position that differs from an earlier one or lies below received data.
pub(crate) fn check_wclose(ctx: &Context, last: u64) -> Result<(), Reject> {
    let moved = ctx.rx.final_seq.is_some_and(|known| known != last);
    if moved
        || last < ctx.rx.next_seq
        || last < ctx.rx.reassembly.end()
        || last > crate::numbers::SEQ_MAX
    {
        return Err(Reject::State);
    }
    Ok(())
}

/// Acts on a DIAG of the peer. A DIAG is never answered (0007, Setting up).
pub(crate) fn handle_diag(ctx: &mut Context, ep: &mut EndpointState, diag: &Diag<'_>) {
    let reason = match diag.code {
        DiagCode::REFUSED if ctx.is_opening() => CloseReason::Refused,
        DiagCode::REFUSED
        | DiagCode::ABANDONED
        | DiagCode::INVALID_CONTEXT
        | DiagCode::PROTOCOL_ERROR => CloseReason::Aborted,
        _ => return,
    };
    if reason == CloseReason::Refused {
        ep.refusals.record(ctx.id, diag.value);
    }
    ctx.terminate(ep, reason, false);
}
