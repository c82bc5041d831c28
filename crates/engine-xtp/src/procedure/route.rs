//! Routes and paths: what neighbours say to each other, and packets that belong to no association.

use crate::api::RateLimit;
use crate::pdu::three::{Body3, Header3, Information, Kind, Packet3, RTN3};
use crate::pdu::{DiagCode, DiagValue, Header, Options, RTN, Reject, UNLIMITED};
use crate::procedure::three::{Link, wide};
use crate::routes::Leave;
use crate::shared::Shared;
use crate::state::Context;
use engine::{Address, Instant};

/// What a ROUTE packet is about.
pub(crate) const ASSIGN: u32 = 1;
pub(crate) const RELEASE: u32 = 2;
pub(crate) const RELEASED: u32 = 3;

/// MAINT and MGMT: a question, and its answer.
pub(crate) const ASKS: u32 = 1;
pub(crate) const ANSWERS: u32 = 2;

/// The own value of the route a packet came by. A FIRST or PATH makes one, and the neighbour is told
/// the value; told again as long as it asks by its own.
pub(crate) fn arrive(sh: &mut Shared, now: Instant, from: Address, header: &Header3) -> u32 {
    if !sh.config.routes || header.route == 0 {
        sh.came_by = 0;
        return 0;
    }
    let makes = matches!(header.kind, Kind::First | Kind::Path);
    let route = if makes {
        sh.routes.learn(from, header.route, now)
    } else {
        sh.routes.find(from, header.route)
    };
    sh.came_by = sh.routes.outgoing(route);
    let asks = makes || header.options.has(Options::SREQ);
    if route != 0 && header.route & RTN3 == 0 && asks {
        tell(sh, from, sh.came_by, ASSIGN, route);
    }
    route
}

/// An association's packets come by another route: its peer found a new path.
pub(crate) fn follow(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    route: u32,
) {
    // Whoever returns the key gets what is sent to it, so the path leads there.
    if route != 0 && header.key & RTN != 0 && !ctx.initiator {
        sh.routes.leave(ctx.route, now, sh.config.quarantine);
        sh.routes.join(route);
        ctx.route = route;
    }
}

/// Sends a ROUTE packet to a neighbour.
fn tell(sh: &mut Shared, to: Address, outgoing: u32, op: u32, route: u32) {
    let body = Body3::Route { op, route };
    answer(sh, to, outgoing, 0, body);
}

fn answer(sh: &mut Shared, to: Address, route: u32, key: u32, body: Body3<'_>) {
    let header = Header3 {
        kind: body.kind(),
        options: Options::NONE,
        front: 0,
        back: 0,
        key,
        route,
        seq: 0,
        dseq: 0,
        sync: 0,
        dlen: 0,
        sort: 0,
        ttl: sh.config.hops,
    };
    let octets = Packet3 { header, body }.emit(sh.config.dialect);
    sh.count_built(0);
    sh.queue(to, octets);
}

/// Takes in a packet that belongs to no association.
pub(crate) fn handle(
    sh: &mut Shared,
    now: Instant,
    from: Address,
    header: &Header3,
    packet: &[u8],
) -> Result<(), Reject> {
    let body = Body3::parse(sh.config.dialect, header, packet).ok_or(Reject::Body)?;
    match body {
        Body3::Route { op, route } if sh.config.routes => {
            handle_route(sh, from, header.route, op, route)
        }
        Body3::Rcntl { rate, burst } if sh.config.routes => {
            let route = sh.routes.find(from, header.route);
            let limit = (rate != UNLIMITED).then_some(RateLimit {
                rate_bytes_per_s: rate,
                burst_bytes: burst,
            });
            sh.routes.impose(route, limit, now);
            Ok(())
        }
        Body3::Maint(Information { op: ASKS, octets }) => {
            let info = Information {
                op: ANSWERS,
                octets,
            };
            answer(
                sh,
                from,
                back(header.route),
                header.key ^ RTN3,
                Body3::Maint(info),
            );
            Ok(())
        }
        Body3::Mgmt(Information { op: ASKS, .. }) => {
            let link = Link {
                route: back(header.route),
                ..Link::default()
            };
            let key = wide(header.key, 0) ^ RTN;
            let (code, why) = (DiagCode::REQUEST_REFUSED, DiagValue::NO_PROVIDER);
            sh.diagnose(from, key, code, why, packet.len(), &link);
            Ok(())
        }
        _ => Err(Reject::State),
    }
}

/// The route of an answer to a packet with `route`, whose neighbour's value may be unknown.
fn back(route: u32) -> u32 {
    if route == 0 { 0 } else { route ^ RTN3 }
}

fn handle_route(
    sh: &mut Shared,
    from: Address,
    value: u32,
    op: u32,
    theirs: u32,
) -> Result<(), Reject> {
    let route = sh.routes.find(from, value);
    if theirs == 0 || theirs & RTN3 != 0 {
        return Err(Reject::Body);
    }
    match op {
        ASSIGN if route != 0 => sh.routes.assign(route, theirs),
        RELEASE => {
            // Whoever asks is told so, also when it was released before.
            let own = if route == 0 { 1 } else { route };
            sh.routes.release(route);
            tell(sh, from, theirs | RTN3, RELEASED, own);
        }
        RELEASED if route != 0 => sh.routes.release(route),
        _ => return Err(Reject::State),
    }
    Ok(())
}

/// Releases routes that nobody used for a while.
pub(crate) fn handle_timeout(sh: &mut Shared, now: Instant) {
    let (wait, tries) = (sh.config.wait_initial, sh.config.retries_max);
    while let Some(leave) = sh.routes.take_due(now, wait, tries) {
        let Leave::Release(route) = leave else {
            continue;
        };
        if let Some(neighbour) = sh.routes.neighbour(route) {
            let outgoing = sh.routes.outgoing(route);
            tell(sh, neighbour, outgoing, RELEASE, route);
        }
    }
}
