//! An association that a peer opens: admission, the context, and what its user hears (0007, Setting
//! up; 0021).

use crate::closing::SendingEnd;
use crate::codec::Arrival;
use crate::config::{Config, FlowControl};
use crate::context::{AmplificationLimit, Context};
use crate::endpoint::Xtp;
use crate::endpoint_state::EndpointState;
use crate::numbers::{Key, SEQ_MAX};
use crate::opening::OpenReport;
use crate::pdu::{
    AddressSegment, Body, DiagCode, DiagValue, HEADER_LEN, Header, NamedAddress, Options, Reject,
    Service, TrafficSpec,
};
use crate::procedure::address_validation::{self, Admission};
use crate::procedure::association_setup::{apply_peer_limits, init_context};
use crate::route_values::RouteId;
use core::ops::Range;
use engine::{Address, Event, Instant};

/// An opening by a peer: FIRST, or the TCNTL that returns a cookie.
pub(crate) struct Opening<'a> {
    /// With the initiator's key, and the sequence number of its first byte.
    pub(crate) header: &'a Header,
    pub(crate) traffic: &'a TrafficSpec,
    pub(crate) route: Option<RouteId>,
    /// The peer has returned this side's key.
    pub(crate) is_validated: bool,
}

/// A FIRST without a context: creates one and returns its slot, and where the user bytes lie in the packet; answers
/// without one, or refuses with DIAG.
pub(crate) fn handle_first(
    xtp: &mut Xtp,
    now: Instant,
    from: Address,
    arrival: &Arrival<'_>,
) -> Result<Option<(usize, Range<usize>)>, Reject> {
    let header = &arrival.header;
    let Some(body) = arrival.body(0) else {
        return Err(refuse_malformed(xtp, now, from, arrival));
    };
    let Body::First {
        address,
        traffic,
        data,
        ..
    } = body
    else {
        return Err(Reject::Body);
    };
    let key = Key::stated(header.key).filter(|_| header.seq <= SEQ_MAX);
    let key = key.ok_or(Reject::Body)?;
    let len = arrival.octets.len();
    // A datagram with END expects no answer.
    let answer_len = if header.options.has(Options::END) {
        0
    } else {
        len
    };
    let service = traffic.service();
    check_admission(xtp, now, from, key, Some(&address), service, answer_len)?;
    if let Admission::Answered = address_validation::admit(xtp, now, from, header, len)? {
        return Ok(None);
    }
    let opening = Opening {
        header,
        traffic: &traffic,
        route: xtp.arrival_route,
        is_validated: false,
    };
    let slot = add(xtp, now, (from, key), &opening)?;
    let data = arrival.data_range(data);
    if arrival.v3().is_none() {
        let segments = &arrival.octets[HEADER_LEN..data.start];
        xtp.state.last_opening.record(segments, &traffic);
    }
    Ok(Some((slot, data)))
}

/// Makes the context of an `opening` with the initiator's key, which is admitted, and returns its slot.
#[inline]
pub(crate) fn add(
    xtp: &mut Xtp,
    now: Instant,
    (from, key): (Address, Key),
    opening: &Opening<'_>,
) -> Result<usize, Reject> {
    let added = xtp.table.add(from, now, &mut xtp.state);
    let slot = added.ok_or(Reject::NoRoom)?;
    xtp.table.index_peer(from, key, slot);
    let table = &mut xtp.table;
    let ctx = table.context(slot).ok_or(Reject::NoRoom)?;
    accept(ctx, &mut xtp.state, now, opening);
    let id = ctx.id;
    let is_live = |slot: usize, id| table.is_unvalidated(slot, id);
    xtp.unvalidated.push(slot, id, from, is_live);
    Ok(slot)
}

/// Answers a malformed FIRST with the DIAG value of its fault (0007, Addresses).
fn refuse_malformed(xtp: &mut Xtp, now: Instant, from: Address, arrival: &Arrival<'_>) -> Reject {
    let (header, len) = (&arrival.header, arrival.octets.len());
    let fits = len >= xtp.state.packet_len(8);
    let answers = xtp.state.listening && fits && !header.options.has(Options::END);
    if answers && xtp.state.stranger_replies.allows(now) {
        let (key, value) = (
            Key::in_field(header.key).returned(),
            Body::diagnose_first(arrival.segment()),
        );
        let (refused, back) = (DiagCode::REFUSED, xtp.state.reply_context());
        let ep = &mut xtp.state;
        ep.queue_diag(from, key, refused, value, len, &back);
    }
    Reject::Body
}

/// Initialises the context of an opening by a peer, and reports it to the host.
pub(crate) fn accept(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    opening: &Opening<'_>,
) {
    let header = opening.header;
    ctx.remote_key = Key::stated(header.key);
    ctx.service = match opening.traffic.service() {
        Service::Unspecified => Service::Stream,
        service => service,
    };
    ctx.amplification_limit = (!opening.is_validated).then(AmplificationLimit::default);
    (ctx.seq_base, ctx.rx.next_seq) = ep.codec.beginning(header);
    ctx.route = opening.route;
    if let Some(route) = opening.route {
        ep.routes.add_user(route);
    }
    ctx.rx.res_requested = header.options.has(Options::RES);
    // Without a value of its own, a responder takes the peer's priority (0007, Priority).
    let asked = header.options.has(Options::SORT).then_some(header.sort);
    ctx.sort = ctx.sort.or(asked);
    init_context(ctx, ep, now);
    apply_peer_limits(ctx, ep, now, opening.traffic);
    if ctx.is_one_way() {
        ctx.closing.sending = SendingEnd::Absent;
    }
    if opening.is_validated || ep.config.early_accept {
        report_accepted(ctx, ep);
    }
}

/// Reports an opening by a peer to the host.
pub(crate) fn report_accepted(ctx: &mut Context, ep: &mut EndpointState) {
    ctx.open_report = match ep.config.supervised {
        true => OpenReport::AwaitingAdmission,
        false => OpenReport::Done,
    };
    ep.events.push_back(Event::Accepted(ctx.id, ctx.peer));
}

/// The allocation of an opening that is not remembered, from position 0: no more than the context
/// will have that its return makes.
pub(crate) fn stateless_alloc(ep: &EndpointState) -> u64 {
    let config = &ep.config;
    if config.flow == FlowControl::Reservation {
        return 0;
    }
    let window = config.window.min(config.initial_window);
    let burst = config
        .imposed_rate()
        .map_or(u64::MAX, |rate| u64::from(rate.burst_bytes));
    window.min(config.iqmax.unwrap_or(u64::MAX)).min(burst)
}

/// Whether an opening with the initiator's `key` may be accepted. If not, it is refused with a DIAG
/// of up to `answer_len` octets, 0 for none. One that returns a cookie was for an `address` of this
/// side when it was answered.
pub(crate) fn check_admission(
    xtp: &mut Xtp,
    now: Instant,
    from: Address,
    key: Key,
    address: Option<&AddressSegment<'_>>,
    service: Service,
    answer_len: usize,
) -> Result<(), Reject> {
    let Err((value, reason)) = judge_opening(xtp, address, service) else {
        return Ok(());
    };
    // On a shared address another endpoint may accept.
    let ep = &mut xtp.state;
    if answer_len > 0 && !ep.config.shared_address && ep.stranger_replies.allows(now) {
        let (key, back) = (key.returned(), ep.reply_context());
        ep.queue_diag(from, key, DiagCode::REFUSED, value, answer_len, &back);
    }
    Err(reason)
}

/// Whether a FIRST calls this side (0007, Addresses; 0123).
fn judge_address(config: &Config, address: &AddressSegment<'_>) -> Result<(), DiagValue> {
    let own = config.address.as_ref().map(NamedAddress::segment);
    if own.as_ref() == Some(address) {
        return Ok(());
    }
    match (address, address.service_port()) {
        _ if own.is_some_and(|own| own.format() == address.format()) => Err(DiagValue::NO_LISTENER),
        (AddressSegment::Null(_) | AddressSegment::Direct(_), _) => Ok(()),
        (_, None) => Err(DiagValue::ADDRESS_FORMAT),
        (_, Some(port)) if port != config.port => Err(DiagValue::NO_LISTENER),
        _ => Ok(()),
    }
}

/// The DIAG value and the reason to count for an opening that is not accepted.
fn judge_opening(
    xtp: &Xtp,
    address: Option<&AddressSegment<'_>>,
    service: Service,
) -> Result<(), (DiagValue, Reject)> {
    let config = &xtp.state.config;
    if !xtp.state.listening {
        return Err((DiagValue::NO_LISTENER, Reject::Refused));
    }
    if let Some(address) = address {
        judge_address(config, address).map_err(|value| (value, Reject::Refused))?;
    }
    if matches!(service, Service::Other(_)) {
        return Err((DiagValue::NO_PROVIDER, Reject::Refused));
    }
    if xtp.table.active() >= config.associations_max {
        return Err((DiagValue::NO_RESOURCE, Reject::NoRoom));
    }
    Ok(())
}
