//! What the close bits and the requests in a packet demand, after its acknowledgement and its user bytes, which end at
//! `seq`, were processed (XTP 4.0 s. 5, 6.6, 6.10; 0007, Close; Answers; 0008, dseq).
//!
//! Rows are done from above, a function an event; its branches are the states. Of each direction where it stands is in
//! [`closing`](crate::closing). Close bits wait for the validation of the peer's address, and are repeated (0021).
//!
//! | event | state | act |
//! | --- | --- | --- |
//! | WCLOSE | bytes beyond `seq` were received, or another end | the packet is rejected |
//! | WCLOSE | NOERR | missing bytes are given up; the end is known |
//! | WCLOSE | any other | the end is known |
//! | all was received up to the end | it was not reported | Finished; a control packet, not of a datagram, has RCLOSE |
//! | all was received up to the end | it was reported, or only this side sends | nothing |
//! | RCLOSE | WCLOSE sent, and all acknowledged or a packet with data | all is acknowledged |
//! | RCLOSE in a control packet | any other: the peer's reader stopped | abort |
//! | RCLOSE in a packet with data | any other | nothing |
//! | END | all four close bits | closed gracefully |
//! | END | any other | closed as aborted |
//! | no END | all four close bits | a control packet carries END |
//! | SREQ | END, or EDGE and the previous packet had SREQ | nothing |
//! | SREQ | any other | a control packet answers at once |
//! | DREQ | the user consumed all up to `seq`, 3.x | the next data answer, else a control packet |
//! | DREQ | the user consumed all up to `seq`, 4.0 | a control packet answers at once |
//! | DREQ | any other | it is answered when the user has consumed all up to `seq` |

use crate::closing::ReceivingEnd;
use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::pdu::{Format, Header, Options, Reject, Service};
use crate::procedure::association_close::{check_wclose, do_abort, is_fully_closed};
use crate::procedure::{control_receive, control_send, data_receive};
use engine::{CloseReason, Event, Instant};

/// Acts on the option bits of a packet whose user bytes end at `seq`.
#[inline]
pub(crate) fn handle_close_and_requests(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    seq: u64,
) -> Result<(), Reject> {
    let options = header.options;
    ctx.rx.record_sync(header.sync);
    // Once the end is known, the packet may have filled the last gap.
    let close_bits = Options::WCLOSE | Options::RCLOSE | Options::END;
    let closes = options.0 & close_bits.0 != 0 || ctx.rx.final_seq.is_some();
    if closes && !ctx.waits_for_validation() {
        handle_close_bits(ctx, ep, now, header, seq)?;
    }
    handle_sreq(ctx, ep, now, options);
    if options.has(Options::DREQ) {
        handle_dreq(ctx, ep, now, seq);
    }
    if ctx.pending.is_any() {
        ctx.mark_ready(ep);
    }
    Ok(())
}

fn handle_close_bits(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    seq: u64,
) -> Result<(), Reject> {
    if header.options.has(Options::WCLOSE) {
        handle_wclose(ctx, ep, seq)?;
    }
    if ctx.rx.is_complete() {
        report_stream_complete(ctx, ep, now);
    }
    if header.options.has(Options::RCLOSE) {
        handle_rclose(ctx, ep, now, header.format);
    }
    if header.options.has(Options::END) {
        handle_end(ctx, ep);
    } else if is_fully_closed(ctx) {
        ctx.pending.control = true;
        ctx.mark_ready(ep);
    }
    Ok(())
}

fn handle_wclose(ctx: &mut Context, ep: &mut EndpointState, seq: u64) -> Result<(), Reject> {
    check_wclose(ctx, seq)?;
    if ctx.rx.error_control_off {
        data_receive::skip_to(ctx, ep, seq);
    }
    ctx.rx.final_seq = Some(seq);
    Ok(())
}

fn report_stream_complete(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if ctx.closing.receiving != ReceivingEnd::Open {
        return;
    }
    ctx.closing.receiving = ReceivingEnd::Reported;
    ep.events.push_back(Event::Finished(ctx.id));
    if ctx.service != Service::Datagram {
        control_send::schedule_control(ctx, ep, now);
    }
}

fn handle_rclose(ctx: &mut Context, ep: &mut EndpointState, now: Instant, format: Format) {
    let has_data = matches!(format, Format::Data | Format::First);
    let has_all = has_data || ctx.tx.queue.acknowledged >= ctx.tx.queue.submitted;
    if ctx.closing.wclose_sent() && has_all {
        control_receive::acknowledge(ctx, ep, now, ctx.tx.queue.next_seq);
        ctx.closing.record_rclose();
    } else if !has_data {
        do_abort(ctx, ep);
    }
}

fn handle_end(ctx: &mut Context, ep: &mut EndpointState) {
    let reason = match ctx.closing.rclose_received() && ctx.rx.is_complete() {
        true => CloseReason::Graceful,
        false => CloseReason::Aborted,
    };
    ctx.terminate(ep, reason, !ctx.initiator);
}

fn handle_sreq(ctx: &mut Context, ep: &mut EndpointState, now: Instant, options: Options) {
    let has_sreq = options.has(Options::SREQ);
    let had_sreq = std::mem::replace(&mut ctx.rx.previous_had_sreq, has_sreq);
    let is_repeated = options.has(Options::EDGE) && had_sreq;
    if has_sreq && !is_repeated && !options.has(Options::END) {
        control_send::schedule_control(ctx, ep, now);
    }
}

fn handle_dreq(ctx: &mut Context, ep: &mut EndpointState, now: Instant, seq: u64) {
    if ctx.rx.dseq() < seq {
        ctx.rx.delivery_report_at = Some(seq);
    } else if ep.codec.data_carry_dseq() {
        ctx.pending.delivery_report = true;
    } else {
        control_send::schedule_control(ctx, ep, now);
    }
}
