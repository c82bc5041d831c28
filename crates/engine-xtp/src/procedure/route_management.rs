//! ROUTE, RCNTL, MAINT and MGMT: packets between neighbours that belong to no association
//! (0008, Routes and paths).

use crate::codec::{HeaderContext, key_from_wire32};
use crate::config::RateLimit;
use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::pdu::v3::{
    BodyV3, HeaderV3, InformationSegment, OP_REQUEST, OP_RESPONSE, PacketKind, PacketV3, RTN_V3,
};
use crate::pdu::{DiagCode, DiagValue, Header, Options, RTN, Reject, UNLIMITED};
use crate::route_values::{RouteId, returned_field};
use crate::routes::RouteExpiry;
use crate::tx::with_floor;
use engine::{Address, Instant};

/// Operations of a ROUTE packet: assign a value, request a release, confirm it.
pub(crate) const ROUTE_ASSIGN: u32 = 1;
pub(crate) const ROUTE_RELEASE: u32 = 2;
pub(crate) const ROUTE_RELEASED: u32 = 3;

/// This side's value of the route by which a packet arrived. FIRST and PATH create a route. The
/// value is sent to the neighbour in a ROUTE packet, and again with each status request that
/// still carries the neighbour's own value (0008, Routes).
pub(crate) fn resolve_arrival_route(
    ep: &mut EndpointState,
    now: Instant,
    from: Address,
    header: &HeaderV3,
) -> Option<RouteId> {
    if !ep.config.routes || header.route == 0 {
        ep.reply_route = 0;
        return None;
    }
    let creates_route = matches!(header.kind, PacketKind::First | PacketKind::Path);
    let route = if creates_route {
        ep.routes.learn(from, header.route, now)
    } else {
        ep.routes.find(from, header.route)
    };
    ep.reply_route = ep.routes.header_field(route);
    let assigns = creates_route || header.options.has(Options::SREQ);
    if let Some(route) = route
        && header.route & RTN_V3 == 0
        && assigns
    {
        send_route(ep, from, ep.reply_route, ROUTE_ASSIGN, route.value());
    }
    route
}

/// An association's packets arrive by another route: its peer found a new path (0008, PATH).
pub(crate) fn follow_new_route(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    header: &Header,
    route: Option<RouteId>,
) {
    // The returned key shows that the peer receives what is sent to it, so the path is valid.
    if let Some(found) = route
        && header.key & RTN != 0
        && !ctx.initiator
    {
        if let Some(left) = ctx.route {
            ep.routes.remove_user(left, now, ep.config.quarantine);
        }
        ep.routes.add_user(found);
        ctx.route = route;
    }
}

/// Sends a ROUTE packet to a neighbour.
fn send_route(ep: &mut EndpointState, to: Address, outgoing: u32, op: u32, route: u32) {
    let body = BodyV3::Route { op, route };
    send_reply(ep, to, outgoing, 0, body);
}

fn send_reply(ep: &mut EndpointState, to: Address, route: u32, key: u32, body: BodyV3<'_>) {
    let header = HeaderV3 {
        key,
        ..HeaderV3::plain(body.kind(), route, ep.config.hop_limit)
    };
    let octets = PacketV3 { header, body }.emit(ep.config.version);
    ep.count_packet_built(0);
    ep.queue_octets(to, octets);
}

/// Processes a packet that belongs to no association. MAINT is echoed, MGMT refused
/// (0008, RCNTL; MAINT).
pub(crate) fn handle_packet(
    ep: &mut EndpointState,
    now: Instant,
    from: Address,
    header: &HeaderV3,
    packet: &[u8],
) -> Result<(), Reject> {
    let body = BodyV3::parse(ep.config.version, header, packet).ok_or(Reject::Body)?;
    match body {
        BodyV3::Route { op, route } if ep.config.routes => {
            handle_route(ep, from, header.route, op, route)
        }
        BodyV3::Rcntl { rate, burst } if ep.config.routes => {
            let route = ep.routes.find(from, header.route);
            let limit = (rate != UNLIMITED).then_some(RateLimit {
                rate_bytes_per_s: rate,
                burst_bytes: burst,
            });
            let limit = limit.map(|limit| with_floor(limit, ep.config.packet_len));
            if let Some(route) = route {
                ep.routes.set_rate_limit(route, limit, now);
            }
            Ok(())
        }
        BodyV3::Maint(InformationSegment {
            op: OP_REQUEST,
            octets,
        }) if ep.stranger_replies.allows(now) => {
            let info = InformationSegment {
                op: OP_RESPONSE,
                octets,
            };
            send_reply(
                ep,
                from,
                returned_field(header.route),
                header.key ^ RTN_V3,
                BodyV3::Maint(info),
            );
            Ok(())
        }
        BodyV3::Mgmt(InformationSegment { op: OP_REQUEST, .. })
            if ep.stranger_replies.allows(now) =>
        {
            let header_context = HeaderContext {
                route: returned_field(header.route),
                ..HeaderContext::default()
            };
            let key = key_from_wire32(header.key, 0) ^ RTN;
            let (code, why) = (DiagCode::REQUEST_REFUSED, DiagValue::NO_PROVIDER);
            ep.queue_diag(from, key, code, why, packet.len(), &header_context);
            Ok(())
        }
        _ => Err(Reject::State),
    }
}

fn handle_route(
    ep: &mut EndpointState,
    from: Address,
    value: u32,
    op: u32,
    theirs: u32,
) -> Result<(), Reject> {
    let route = ep.routes.find(from, value);
    if theirs == 0 || theirs & RTN_V3 != 0 {
        return Err(Reject::Body);
    }
    match (op, route) {
        (ROUTE_ASSIGN, Some(route)) => ep.routes.set_value(route, theirs),
        (ROUTE_RELEASE, _) => {
            if let Some(route) = route {
                ep.routes.release(route);
            }
            // A repeated request is confirmed as well.
            let own = route.map_or(1, RouteId::value);
            send_route(ep, from, theirs | RTN_V3, ROUTE_RELEASED, own);
        }
        (ROUTE_RELEASED, Some(route)) => ep.routes.release(route),
        _ => return Err(Reject::State),
    }
    Ok(())
}

/// Requests the release of unused routes.
pub(crate) fn handle_timeout(ep: &mut EndpointState, now: Instant) {
    let (wait, tries) = (ep.config.wtimer_initial, ep.config.retries_max);
    while let Some(expiry) = ep.routes.take_expired(now, wait, tries) {
        let RouteExpiry::RequestRelease(route) = expiry else {
            continue;
        };
        if let Some(neighbour) = ep.routes.neighbour(route) {
            let outgoing = ep.routes.header_field(Some(route));
            send_route(ep, neighbour, outgoing, ROUTE_RELEASE, route.value());
        }
    }
}
