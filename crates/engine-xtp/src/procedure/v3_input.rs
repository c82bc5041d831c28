//! Packets of XTP 3.x for a context in use: control packets carry everything each time, and DATA acknowledge (0008).

use crate::codec::{Arrival, unwrap_seq};
use crate::context::{Context, Timer};
use crate::endpoint_state::EndpointState;
use crate::numbers::SyncNumber;
use crate::pdu::v3::{BodyV3, ControlSegmentV3, HeaderV3, PacketKind, RTN_V3, ResendPairs};
use crate::pdu::{CommonControl, Diag, Header, Options, Reject, Span, TrafficSpec, UNLIMITED};
use crate::procedure::{
    address_validation, association_close, association_setup, control_receive, control_send,
    packet_input,
};
use engine::{Delivery, Instant};

/// Processes `packet`, whose checks were right, for the context that its key names.
pub(crate) fn handle_packet(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    arrival: &Arrival<'_>,
    header3: &HeaderV3,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let (header, packet) = (&arrival.header, arrival.octets);
    let body = arrival.body_v3().ok_or(Reject::Body)?;
    if let BodyV3::Diag(diag) = body {
        return handle_diag(ctx, ep, header, &diag);
    }
    let seq = unwrap_seq(ctx.seq_base, header3.seq, ctx.rx.next_seq).ok_or(Reject::State)?;
    let header = &Header { seq, ..*header };
    if ctx.initiator && ctx.rx.highest_sync.is_none() && !answers_first(ctx, header3, seq, &body) {
        return Err(Reject::NeverSent);
    }
    packet_input::on_packet_received(ctx, ep, now, header, packet.len());
    let data = match body {
        BodyV3::Data(data) => {
            packet_input::on_setup_answered(ctx, ep);
            data
        }
        BodyV3::First { data, .. } => data,
        BodyV3::Cntl(control, pairs) => {
            handle_control(ctx, ep, now, &control, pairs)?;
            address_validation::validate_by_echo(ctx, ep, header, control.echo);
            handle_dseq(ctx, ep, now, header3.dseq);
            return packet_input::handle_control_options(ctx, ep, now, header);
        }
        // A PATH request is acknowledged like a status request.
        BodyV3::Path(_) => {
            ctx.rx.record_sync(header.sync);
            control_send::schedule_control(ctx, ep, now);
            return Ok(());
        }
        _ => return Err(Reject::State),
    };
    let tags = [Options::BTAG, Options::ETAG].map(|tag| header.options.has(tag));
    if data.len() < 8 * tags.iter().filter(|set| **set).count() {
        return Err(Reject::Body);
    }
    if header3.kind == PacketKind::Data {
        handle_dseq(ctx, ep, now, header3.dseq);
    }
    let range = arrival.data_range(data);
    packet_input::handle_data(ctx, ep, now, header, packet, range, deliveries)
}

/// Whether the first packet from the peer is of this association, and not of an earlier one with the
/// same key: a control packet echoes a sync of this side, data are within what was allocated, and
/// acknowledge what was sent (0008, Names).
fn answers_first(ctx: &Context, header: &HeaderV3, seq: u64, body: &BodyV3<'_>) -> bool {
    match body {
        BodyV3::Cntl(control, _) => ctx.tx.has_used(control.echo),
        BodyV3::Data(_) => {
            let sent = ctx.tx.queue.next_seq;
            let dseq = unwrap_seq(ctx.seq_base, header.dseq, 0);
            dseq.is_some_and(|dseq| dseq <= sent) && seq <= ctx.rx.advertised_alloc
        }
        _ => false,
    }
}

/// A DIAG returns a sync of the side that it is sent to. One that was sent before anything arrived has
/// its sender's (0008, Names).
fn handle_diag(
    ctx: &mut Context,
    ep: &mut EndpointState,
    header: &Header,
    diag: &Diag<'_>,
) -> Result<(), Reject> {
    let of_peer = |highest: SyncNumber| highest.is_near(header.sync);
    if !ctx.tx.has_used(header.sync) && !ctx.rx.highest_sync.is_some_and(of_peer) {
        return Err(Reject::NeverSent);
    }
    association_close::handle_diag(ctx, ep, diag);
    Ok(())
}

fn handle_control(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    control: &ControlSegmentV3,
    pairs: ResendPairs<'_>,
) -> Result<(), Reject> {
    // 0 is echoed before anything arrived.
    if control.echo != SyncNumber::NONE && !ctx.tx.has_used(control.echo) {
        return Err(Reject::NeverSent);
    }
    let (base, near) = (ctx.seq_base, ctx.tx.queue.acknowledged);
    let at = |wire: u32| unwrap_seq(base, wire, near).ok_or(Reject::NeverSent);
    let common = CommonControl {
        rseq: at(control.rseq)?,
        alloc: at(control.alloc)?,
        echo: control.echo,
    };
    let mut spans = Vec::with_capacity(pairs.len());
    for pair in pairs.iter() {
        spans.push(Span {
            left: at(pair.left)?,
            right: at(pair.right)?,
        });
    }
    control_receive::handle_acknowledgment(ctx, ep, now, &common, &spans)?;
    let limits = TrafficSpec::Limits {
        service: ctx.service,
        maxdata: u32::from(control.maxdata),
        inrate: control.rate,
        inburst: control.burst,
        outrate: UNLIMITED,
        outburst: UNLIMITED,
    };
    association_setup::apply_peer_limits(ctx, ep, now, &limits);
    if control.xkey & RTN_V3 == 0 {
        control_receive::learn_key(ctx, u64::from(control.xkey), true);
    }
    Ok(())
}

/// The peer's user consumed everything below `dseq`, which acknowledges it and answers DREQ. It
/// gives no RTT sample (0008, dseq).
fn handle_dseq(ctx: &mut Context, ep: &mut EndpointState, now: Instant, dseq: u32) {
    let position = unwrap_seq(ctx.seq_base, dseq, ctx.tx.queue.acknowledged);
    let Some(position) = position.filter(|at| *at <= ctx.tx.queue.next_seq) else {
        return;
    };
    control_receive::acknowledge(ctx, ep, now, position);
    let answered = |request: &crate::tx::StatusRequest| {
        request.asks_delivery && request.highest_sent <= position
    };
    while ctx.tx.outstanding_requests.front().is_some_and(answered) {
        ctx.tx.outstanding_requests.pop_front();
    }
    if ctx.tx.outstanding_requests.is_empty() && ctx.tx.handshake.is_none() && ctx.initiator {
        ctx.timers.disarm(Timer::Wtimer);
    }
}
