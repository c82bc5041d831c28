//! A packet for a context in use.

use crate::pdu::{Body, Format, HEADER_LEN, Header, Options, RTN, Reject, Spans};
use crate::procedure::{close, receive, reply, report, request, three};
use crate::shared::Shared;
use crate::state::{Context, Phase, Timer};
use core::ops::Range;
use engine::{Delivery, Event, Instant};

/// Takes in `packet`, whose header was checked, for the context its key names.
pub(crate) fn handle_packet(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    packet: &[u8],
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    if sh.config.dialect.is_three() {
        return three::handle_packet(ctx, sh, now, header, packet, deliveries);
    }
    note(ctx, sh, now, header, packet.len());
    if header.format == Format::Data {
        let tagged = header.options.has(Options::BTAG);
        if tagged && packet.len() < HEADER_LEN + 8 {
            return Err(Reject::Body);
        }
        note_active(ctx, sh);
        return handle_data(
            ctx,
            sh,
            now,
            header,
            packet,
            HEADER_LEN..packet.len(),
            deliveries,
        );
    }
    match Body::parse(header, &packet[HEADER_LEN..]).ok_or(Reject::Body)? {
        Body::First { data, .. } => {
            let range = packet.len() - data.len()..packet.len();
            handle_data(ctx, sh, now, header, packet, range, deliveries)
        }
        Body::Diag(diag) => {
            close::handle_diag(ctx, sh, &diag);
            Ok(())
        }
        body => handle_control(ctx, sh, now, header, &body),
    }
}

fn handle_control(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    body: &Body<'_>,
) -> Result<(), Reject> {
    match body {
        Body::Cntl(common) => report::handle_report(ctx, sh, now, common, Spans::EMPTY)?,
        Body::Ecntl(common, spans) => report::handle_report(ctx, sh, now, common, *spans)?,
        Body::Tcntl {
            common,
            xkey,
            traffic,
            ..
        } => {
            report::handle_report(ctx, sh, now, common, Spans::EMPTY)?;
            report::handle_traffic(ctx, now, *xkey, traffic);
        }
        _ => return Err(Reject::Multicast),
    }
    finish_control(ctx, sh, now, header)
}

/// Acts on the options of a control packet whose report was taken in.
pub(crate) fn finish_control(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
) -> Result<(), Reject> {
    note_active(ctx, sh);
    ctx.rx.reserved |= header.options.has(Options::RES);
    if header.options.has(Options::NOERR) && header.seq <= crate::types::SEQ_MAX {
        receive::skip_to(ctx, sh, header.seq);
    }
    close_and_answer(ctx, sh, now, header, header.seq)
}

/// The peer was heard.
#[inline]
pub(crate) fn note(ctx: &mut Context, sh: &mut Shared, now: Instant, header: &Header, len: usize) {
    note_heard(ctx, header, now, len);
    request::note_alive(ctx, sh, now);
}

fn note_heard(ctx: &mut Context, header: &Header, now: Instant, len: usize) {
    ctx.heard = now;
    if let Some(budget) = &mut ctx.budget {
        budget.received += len as u64;
    }
    if header.key & RTN != 0 && !ctx.initiator && !ctx.key_used {
        ctx.key_used = true;
        ctx.budget = None;
        ctx.starved = false;
        // Limits did not fit into what an unproven address may be sent.
        ctx.due.reply |= ctx.limits_due;
    }
}

/// The first packet of the responder: FIRST need not be sent again.
pub(crate) fn note_active(ctx: &mut Context, sh: &mut Shared) {
    if ctx.phase != Phase::Opening {
        return;
    }
    ctx.phase = Phase::Active;
    ctx.first.due = false;
    ctx.tx.handshake = None;
    if ctx.tx.requests.is_empty() {
        ctx.disarm(Timer::Wait);
    }
    if !ctx.connected {
        ctx.connected = true;
        sh.events.push_back(Event::Connected(ctx.id));
    }
    ctx.wake(sh);
}

/// Takes in the user bytes at `range` of `packet`, and acts on its options.
pub(crate) fn handle_data(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    packet: &[u8],
    range: Range<usize>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let seq = header.seq.saturating_add(range.len() as u64);
    if header.options.has(Options::WCLOSE) {
        close::check_wclose(ctx, seq)?;
    }
    if let Err(reason) = receive::handle_data(ctx, sh, now, header, packet, range, deliveries) {
        ctx.rx.see_sync(header.sync);
        if header.options.has(Options::SREQ) {
            reply::owe(ctx, sh, now);
        }
        return Err(reason);
    }
    close_and_answer(ctx, sh, now, header, seq)
}

#[inline]
fn close_and_answer(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    seq: u64,
) -> Result<(), Reject> {
    let options = header.options;
    ctx.rx.see_sync(header.sync);
    let closes = options.0 & (Options::WCLOSE | Options::RCLOSE | Options::END).0 != 0;
    if closes || ctx.rx.last.is_some() {
        close::handle_bits(ctx, sh, now, header, seq)?;
    }
    let asked = options.has(Options::SREQ);
    let repeated = options.has(Options::EDGE) && ctx.rx.asked;
    ctx.rx.asked = asked;
    if asked && !repeated && !options.has(Options::END) {
        reply::owe(ctx, sh, now);
    }
    if options.has(Options::DREQ) && ctx.rx.taken() >= seq {
        if three::tells_with_data(sh.config.dialect) {
            ctx.due.delivered = true;
        } else {
            reply::owe(ctx, sh, now);
        }
    } else if options.has(Options::DREQ) {
        ctx.rx.report_at = Some(seq);
    }
    if ctx.due.reply || ctx.due.probe || ctx.due.delivered {
        ctx.wake(sh);
    }
    Ok(())
}
