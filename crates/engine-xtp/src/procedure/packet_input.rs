//! Input of a packet for a context in use.

use crate::codec::Arrival;
use crate::context::{Context, Timer};
use crate::endpoint_state::EndpointState;
use crate::opening::{ContextState, OpenReport};
use crate::pdu::{Body, Format, HEADER_LEN, Header, Options, Reject, Span};
use crate::procedure::{
    address_validation, association_close, close_and_requests, control_receive, control_send,
    data_receive, status_request, v3_input,
};
use core::ops::Range;
use engine::{Delivery, Event, Instant};

/// Processes a packet, whose header was checked, for the context that its key names; `first_data` are the user bytes of a
/// FIRST whose body was checked too.
pub(crate) fn handle_packet(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    arrival: &Arrival<'_>,
    first_data: Option<Range<usize>>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    if let Some(v3) = arrival.v3() {
        return v3_input::handle_packet(ctx, ep, now, arrival, v3, deliveries);
    }
    let (header, packet) = (&arrival.header, arrival.octets);
    on_packet_received(ctx, ep, now, header, packet.len());
    if let Some(range) = first_data {
        return handle_data(ctx, ep, now, header, packet, range, deliveries);
    }
    // Whatever else the responder sends, it remembers the association.
    ctx.returns_cookie &= header.format == Format::Tcntl;
    if header.format == Format::Data {
        let tagged = header.options.has(Options::BTAG);
        if tagged && packet.len() < HEADER_LEN + 8 {
            return Err(Reject::Body);
        }
        on_setup_answered(ctx, ep);
        return handle_data(
            ctx,
            ep,
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
            handle_data(ctx, ep, now, header, packet, range, deliveries)
        }
        Body::Diag(diag) => {
            association_close::handle_diag(ctx, ep, &diag);
            Ok(())
        }
        body => handle_control(ctx, ep, now, header, &body),
    }
}

fn handle_control(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    body: &Body<'_>,
) -> Result<(), Reject> {
    match body {
        Body::Cntl(common) => control_receive::handle_acknowledgment(ctx, ep, now, common, &[])?,
        Body::Ecntl(common, spans) => {
            let spans: Vec<Span> = spans.iter().collect();
            control_receive::handle_acknowledgment(ctx, ep, now, common, &spans)?
        }
        Body::Tcntl {
            common,
            xkey,
            traffic,
            ..
        } => {
            control_receive::handle_acknowledgment(ctx, ep, now, common, &[])?;
            control_receive::handle_traffic_control(ctx, ep, now, *xkey, traffic);
        }
        _ => return Err(Reject::Multicast),
    }
    handle_control_options(ctx, ep, now, header)
}

/// Acts on the options of a control packet after its acknowledgement was processed.
pub(crate) fn handle_control_options(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
) -> Result<(), Reject> {
    on_setup_answered(ctx, ep);
    ctx.rx.res_requested |= header.options.has(Options::RES);
    if header.options.has(Options::NOERR) && header.seq <= crate::numbers::SEQ_MAX {
        data_receive::skip_to(ctx, ep, header.seq);
    }
    close_and_requests::handle_close_and_requests(ctx, ep, now, header, header.seq)
}

/// Records that a packet of the peer was received.
#[inline]
pub(crate) fn on_packet_received(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    len: usize,
) {
    ctx.last_received_at = now;
    address_validation::on_packet_received(ctx, ep, header, len);
    status_request::on_peer_alive(ctx, ep, now);
}

/// The responder answered: FIRST is not retransmitted any more (0007, Setting up).
pub(crate) fn on_setup_answered(ctx: &mut Context, ep: &mut EndpointState) {
    if !ctx.is_opening() {
        return;
    }
    ctx.state = ContextState::Active;
    ctx.tx.handshake = None;
    if ctx.tx.outstanding_requests.is_empty() {
        ctx.timers.disarm(Timer::Wtimer);
    }
    if ctx.open_report == OpenReport::Pending {
        ctx.open_report = OpenReport::Done;
        ep.events.push_back(Event::Connected(ctx.id));
    }
    ctx.mark_ready(ep);
}

/// Processes the user bytes at `range` of `packet` and its options.
pub(crate) fn handle_data(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    packet: &[u8],
    range: Range<usize>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let seq = header.seq.saturating_add(range.len() as u64);
    if header.options.has(Options::WCLOSE) {
        association_close::check_wclose(ctx, seq)?;
    }
    // The peer repeats what it sends before its address is validated (0021).
    let taken = match ctx.waits_for_validation() {
        true => Err(Reject::State),
        false => data_receive::handle_data(ctx, ep, now, header, packet, range, deliveries),
    };
    if let Err(reason) = taken {
        ctx.rx.record_sync(header.sync);
        if header.options.has(Options::SREQ) {
            control_send::schedule_control(ctx, ep, now);
        }
        return Err(reason);
    }
    close_and_requests::handle_close_and_requests(ctx, ep, now, header, seq)
}
