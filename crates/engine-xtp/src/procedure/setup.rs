//! Setting up: FIRST, from both sides.

use crate::api::{PACKET_LEN, RateLimit};
use crate::association::Xtp;
use crate::pdu::three as three_octets;
use crate::pdu::{
    AddressSegment, Body, CHECK_AT, DiagCode, DiagValue, Endpoints, Format, HEADER_LEN, Header,
    Options, Packet, RTN, Reject, Service, TrafficSpec, UNLIMITED,
};
use crate::procedure::three::{self, Link};
use crate::procedure::{receive, request, send};
use crate::shared::{Shared, plain};
use crate::state::{Budget, Context, Phase};
use crate::tx::Controller;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use engine::{Address, Batch, AssociationId, CommandError, Event, Instant, checksum};

/// Opens an association: FIRST goes at once, or with the first user bytes.
pub(crate) fn do_connect(
    xtp: &mut Xtp,
    now: Instant,
    to: Address,
    service: Service,
) -> Result<AssociationId, CommandError> {
    if xtp.table.active() >= xtp.shared.config.circuits_max {
        return Err(CommandError::TooManyAssociations);
    }
    let neighbour = xtp.shared.config.gateway.unwrap_or(to);
    let added = xtp.table.add(neighbour, now, &mut xtp.shared.random);
    let slot = added.ok_or(CommandError::TooManyAssociations)?;
    let ctx = xtp
        .table
        .context(slot)
        .ok_or(CommandError::UnknownAssociation)?;
    let sh = &mut xtp.shared;
    ctx.initiator = true;
    ctx.service = service;
    ctx.phase = Phase::Opening;
    if sh.config.dialect.is_three() && sh.config.routes {
        ctx.route = sh.routes.make(neighbour, to);
        sh.routes.join(ctx.route);
    }
    prepare(ctx, sh, now);
    start(ctx, sh);
    Ok(ctx.id)
}

/// Sends FIRST alone, or leaves it to the first user bytes.
fn start(ctx: &mut Context, sh: &mut Shared) {
    let explicit = sh.config.explicit && ctx.is_stream();
    ctx.first.explicit = explicit;
    ctx.first.due = explicit;
    if explicit {
        ctx.wake(sh);
    } else {
        ctx.connected = true;
        sh.events.push_back(Event::Connected(ctx.id));
    }
    if ctx.is_one_way() {
        ctx.rx.last = Some(0);
        ctx.close.rclose_sent = true;
        sh.events.push_back(Event::Finished(ctx.id));
    }
}

/// What both sides set before the first packet.
fn prepare(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    if ctx.initiator {
        ctx.base = sh.config.sequence_start;
    }
    ctx.sort = ctx.sort.or(sh.config.sort);
    ctx.options = sh
        .options(ctx.service)
        .with(Options::SORT, ctx.sort.is_some());
    sh.sorted |= ctx.sort.is_some();
    ctx.accepts = sh.config.rate;
    ctx.tx.limits.own = sh.config.rate;
    ctx.tx.sync = sh.random.next_u64() as u32;
    ctx.tx.saved_sync = ctx.tx.sync;
    ctx.tx.alloc = sh.config.initial_window;
    ctx.tx.payload_max = sh.payload_max();
    ctx.limits_due = has_limits(sh);
    ctx.rx.told = receive::allocation(ctx, sh);
    ctx.tx.congestion = Controller::new(sh.config.congestion, sh.payload_max());
    ctx.tx.limit(now);
    request::watch(ctx, sh, now);
}

/// Puts FIRST into `batch`, with the user bytes there are, or with those of the last time.
pub(crate) fn transmit_first(ctx: &mut Context, sh: &mut Shared, now: Instant, batch: &mut Batch) {
    let traffic = traffic_spec(ctx, sh, true);
    ctx.limits_due &= !matches!(traffic, TrafficSpec::Limits { .. });
    let address = address_segment(destination(ctx, sh), sh);
    let segments_len = (address.len() + traffic.len()) as u64;
    choose_data(ctx, sh, sh.payload_max() - segments_len);
    let data_len = ctx.first.data_len;
    let options = first_options(ctx);
    let header = Header {
        options,
        sync: request::sync(ctx, sh, now, options),
        sort: ctx.sort.unwrap_or(0),
        dlen: (segments_len + data_len) as u32,
        ..plain(ctx.key, Format::First)
    };
    let body = Body::First {
        domain: 0,
        address,
        traffic,
        data: &[],
    };
    let mut octets = std::mem::take(&mut sh.scratch);
    if sh.config.dialect.is_three() {
        octets.clear();
        three_octets::emit_opening(&address, &traffic, &mut octets);
        three::push_first(ctx, sh, batch, &header, &octets, 0..data_len);
    } else {
        Packet { header, body }.emit_into(&mut octets);
        let check = checksum::checksum(&octets);
        octets[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        batch.push_with_checksum(&octets, 0..data_len, (data_len > 0).then_some(CHECK_AT));
    }
    sh.scratch = octets;
    ctx.first.due = false;
    ctx.first.sent = true;
    let octets = batch.size_of_last() as u64;
    let header_len = (octets - data_len) as usize;
    send::account(ctx, sh, options, header_len, data_len, octets);
}

/// Chooses the user bytes that travel with FIRST, once and for all.
fn choose_data(ctx: &mut Context, sh: &mut Shared, room: u64) {
    if ctx.first.sent {
        ctx.tx.retransmissions += 1;
        sh.counters.retransmissions += 1;
    } else {
        ctx.first.data_len = first_data(ctx).min(room);
        ctx.tx.next = ctx.first.data_len;
    }
}

/// User bytes that may travel with FIRST if it has room for them.
fn first_data(ctx: &Context) -> u64 {
    if ctx.first.explicit {
        return 0;
    }
    let tx = &ctx.tx;
    let message_end = tx.ends.first().unwrap_or(u64::MAX);
    let allowed = if ctx.options.has(Options::NOFLOW) {
        u64::MAX
    } else {
        tx.alloc
    };
    // A tag begins a DATA packet of its own, or ends one.
    let tag = tx.tags.first().unwrap_or(u64::MAX);
    let end_tag = tx.end_tags.first().map_or(u64::MAX, |end| end - 8);
    tx.end.min(allowed).min(message_end).min(tag).min(end_tag)
}

fn first_options(ctx: &mut Context) -> Options {
    let len = ctx.first.data_len;
    let wclose = ctx.tx.finishing && len == ctx.tx.end && !ctx.first.explicit;
    let datagram = ctx.service == Service::Datagram;
    let message = len > 0 && ctx.tx.ends.after(len - 1) == Some(len);
    ctx.options
        .with(Options::SREQ, !datagram)
        .with(Options::EOM, message || wclose && !ctx.is_stream())
        .with(Options::WCLOSE, wclose)
        .with(Options::END, wclose && datagram)
}

/// Bytes of FIRST were not sent yet and are there now.
pub(crate) fn start_if_due(ctx: &mut Context, sh: &Shared) {
    let some = ctx.tx.end > 0 && !ctx.waits_for_finish() || ctx.tx.finishing;
    let full = ctx.tx.end >= sh.payload_max();
    if ctx.phase == Phase::Opening && !ctx.first.sent && (some || full) {
        ctx.first.due = true;
    }
}

/// Where an association made here leads: to its neighbour, or beyond it.
pub(crate) fn destination(ctx: &Context, sh: &Shared) -> Address {
    sh.routes.destination(ctx.route).unwrap_or(ctx.peer)
}

pub(crate) fn address_segment(to: Address, sh: &Shared) -> AddressSegment<'static> {
    let (dst_port, src_port) = (sh.config.port, sh.config.source_port);
    let v4 = |dst_host: Ipv4Addr| {
        AddressSegment::V4(Endpoints {
            dst_host,
            src_host: Ipv4Addr::UNSPECIFIED,
            dst_port,
            src_port,
        })
    };
    match to {
        Address::Station(station) => v4(Ipv4Addr::from(station)),
        // The frame says which host; the segment says which port.
        Address::Ether(_) => v4(Ipv4Addr::UNSPECIFIED),
        Address::Socket(socket) => match socket.ip() {
            IpAddr::V4(host) => v4(host),
            IpAddr::V6(dst_host) => AddressSegment::V6(Endpoints {
                dst_host,
                src_host: Ipv6Addr::UNSPECIFIED,
                dst_port,
                src_port,
            }),
        },
    }
}

/// A FIRST with fewer user bytes is shorter than the TCNTL that answers it.
const SHORT_DATA: u64 = 16;

/// Whether FIRST would be shorter than the TCNTL that answers it.
fn is_short(ctx: &Context) -> bool {
    let data_len = if ctx.first.sent {
        ctx.first.data_len
    } else {
        first_data(ctx)
    };
    let whole = ctx.tx.finishing && data_len == ctx.tx.end;
    data_len < SHORT_DATA && !(ctx.is_one_way() && whole)
}

/// What this side says about its traffic. A short opening says it in full, which makes it long
/// enough to be answered with a key: an unproven address gets no more than it sent.
pub(crate) fn traffic_spec(ctx: &Context, sh: &Shared, first: bool) -> TrafficSpec {
    let config = &sh.config;
    let short = first && (is_short(ctx) || config.dialect.is_three());
    if !short && !has_limits(sh) && (first || !ctx.limits_due && ctx.limits_sync.is_none()) {
        return plain_spec(ctx);
    }
    let pair = |limit: Option<RateLimit>| {
        limit.map_or((UNLIMITED, UNLIMITED), |limit| {
            (limit.rate_bytes_per_s, limit.burst_bytes)
        })
    };
    let ((inrate, inburst), (outrate, outburst)) = (pair(ctx.accepts), pair(ctx.tx.limits.own));
    TrafficSpec::Limits {
        service: ctx.service,
        maxdata: sh.payload_max() as u32,
        inrate,
        inburst,
        outrate,
        outburst,
    }
}

/// The service and nothing else.
pub(crate) fn plain_spec(ctx: &Context) -> TrafficSpec {
    TrafficSpec::Plain(ctx.service, [0; 4])
}

fn has_limits(sh: &Shared) -> bool {
    sh.config.rate.is_some() || sh.config.packet_len != PACKET_LEN
}

/// A peer that wants shorter packets is not heeded: it could have a megabyte sent byte by byte.
/// The shortest full packet an endpoint can be configured to is 128 octets.
const MAXDATA_MIN: u32 = 96;

/// Keeps to what the peer accepts.
pub(crate) fn obey(ctx: &mut Context, now: Instant, traffic: &TrafficSpec) {
    let TrafficSpec::Limits {
        maxdata,
        inrate,
        inburst,
        ..
    } = *traffic
    else {
        return;
    };
    ctx.tx.payload_max = ctx.tx.payload_max.min(u64::from(maxdata.max(MAXDATA_MIN)));
    ctx.tx.limits.peer = (inrate != UNLIMITED).then_some(RateLimit {
        rate_bytes_per_s: inrate,
        burst_bytes: inburst,
    });
    ctx.tx.limit(now);
}

/// Sets the rate this side keeps to.
pub(crate) fn do_set_rate(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    rate: Option<RateLimit>,
) {
    ctx.tx.limits.own = rate;
    ctx.tx.limit(now);
    ctx.wake(sh);
}

/// Sets the rate the peer is to keep to, and has it told.
pub(crate) fn do_impose_rate(ctx: &mut Context, sh: &mut Shared, rate: Option<RateLimit>) {
    ctx.accepts = rate;
    ctx.limits_due = true;
    ctx.due.reply |= ctx.first.sent || !ctx.initiator;
    ctx.wake(sh);
}

/// Sets the priority among the associations of the endpoint.
pub(crate) fn do_set_sort(ctx: &mut Context, sh: &mut Shared, sort: Option<u16>) {
    ctx.sort = sort;
    ctx.options = Options(ctx.options.0 & !Options::SORT.0).with(Options::SORT, sort.is_some());
    sh.sorted |= sort.is_some();
}

/// A FIRST for no context yet: makes one, or says why not. The slot of the new context.
pub(crate) fn handle_first(
    xtp: &mut Xtp,
    now: Instant,
    from: Address,
    header: &Header,
    packet: &[u8],
) -> Result<usize, Reject> {
    let Some(body) = opening(xtp, header, packet) else {
        return Err(refuse_malformed(xtp, from, header, packet));
    };
    let Body::First {
        address, traffic, ..
    } = body
    else {
        return Err(Reject::Body);
    };
    if header.key == 0 || header.key & RTN != 0 || header.seq > crate::types::SEQ_MAX {
        return Err(Reject::Body);
    }
    if let Err((value, reason)) = admissible(xtp, &address, traffic.service()) {
        if !header.options.has(Options::END) && !xtp.shared.config.shares_address {
            let (key, back) = (header.key | RTN, Link::back(&xtp.shared));
            xtp.shared
                .diagnose(from, key, DiagCode::REFUSED, value, packet.len(), &back);
        }
        return Err(reason);
    }
    let added = xtp.table.add(from, now, &mut xtp.shared.random);
    let slot = added.ok_or(Reject::NoRoom)?;
    xtp.table.name(from, header.key, slot);
    xtp.unproven += 1;
    let ctx = xtp.table.context(slot).ok_or(Reject::NoRoom)?;
    let route = xtp.route;
    accept(ctx, &mut xtp.shared, now, header, &traffic, route);
    Ok(slot)
}

/// What is behind the header of `packet`, as far as it is not padding.
fn segments<'a>(xtp: &Xtp, packet: &'a [u8]) -> &'a [u8] {
    let dialect = xtp.shared.config.dialect;
    if dialect.is_three() {
        three_octets::middle(dialect, packet)
    } else {
        &packet[HEADER_LEN..]
    }
}

/// The body of a FIRST.
fn opening<'a>(xtp: &Xtp, header: &Header, packet: &'a [u8]) -> Option<Body<'a>> {
    let body = segments(xtp, packet);
    if !xtp.shared.config.dialect.is_three() {
        return Body::parse(header, body);
    }
    let (address, traffic, data) = three_octets::opening(body)?;
    Some(Body::First {
        domain: 0,
        address,
        traffic,
        data,
    })
}

/// Says what is wrong with a FIRST that cannot be read.
fn refuse_malformed(xtp: &mut Xtp, from: Address, header: &Header, packet: &[u8]) -> Reject {
    let fits = packet.len() >= xtp.shared.packet_len(8);
    if xtp.shared.listening && fits && !header.options.has(Options::END) {
        let (key, value) = (
            header.key | RTN,
            Body::fault_of_first(segments(xtp, packet)),
        );
        let (refused, back) = (DiagCode::REFUSED, Link::back(&xtp.shared));
        let sh = &mut xtp.shared;
        sh.diagnose(from, key, refused, value, packet.len(), &back);
    }
    Reject::Body
}

fn accept(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    traffic: &TrafficSpec,
    route: u32,
) {
    ctx.remote = Some(header.key);
    ctx.service = match traffic.service() {
        Service::Unspecified => Service::Stream,
        service => service,
    };
    ctx.connected = true;
    ctx.supervised = sh.config.supervised;
    ctx.budget = Some(Budget::default());
    if sh.config.dialect.is_three() {
        ctx.base = header.seq as u32;
        ctx.route = route;
        sh.routes.join(route);
    } else {
        ctx.rx.next = header.seq;
    }
    ctx.rx.reserved = header.options.has(Options::RES);
    // What a peer calls urgent is answered as such.
    let asked = header.options.has(Options::SORT).then_some(header.sort);
    ctx.sort = sh.config.sort.or(asked);
    prepare(ctx, sh, now);
    obey(ctx, now, traffic);
    if ctx.is_one_way() {
        ctx.close.wclose_sent = true;
        ctx.close.rclose_received = true;
    }
    sh.events.push_back(Event::Accepted(ctx.id, ctx.peer));
}

/// Whether an opening may be accepted; if not, what to tell the peer and what to count.
fn admissible(
    xtp: &Xtp,
    address: &AddressSegment<'_>,
    service: Service,
) -> Result<(), (DiagValue, Reject)> {
    let config = &xtp.shared.config;
    if !xtp.shared.listening {
        return Err((DiagValue::NO_LISTENER, Reject::Refused));
    }
    match address.service_port() {
        None if !matches!(address, AddressSegment::Null(_) | AddressSegment::Direct(_)) => {
            return Err((DiagValue::ADDRESS_FORMAT, Reject::Refused));
        }
        Some(port) if port != config.port => return Err((DiagValue::NO_LISTENER, Reject::Refused)),
        _ => {}
    }
    if matches!(service, Service::Other(_)) {
        return Err((DiagValue::NO_PROVIDER, Reject::Refused));
    }
    if xtp.table.active() >= config.circuits_max || xtp.unproven >= config.unproven_max {
        return Err((DiagValue::NO_RESOURCE, Reject::NoRoom));
    }
    Ok(())
}
