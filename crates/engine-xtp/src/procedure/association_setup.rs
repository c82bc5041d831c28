//! Association set-up: FIRST, from both sides (0007, Setting up).

use crate::closing::ReceivingEnd;
use crate::config::{PACKET_LEN, RateLimit};
use crate::context::{Context, Timer};
use crate::endpoint::Xtp;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::SyncNumber;
use crate::opening::{ContextState, FirstPacket, LimitsReport, OpenReport};
use crate::pdu::{
    AddressSegment, Endpoints, Format, HEADER_LEN, Header, NamedAddress, Options, Service,
    TrafficSpec, UNLIMITED,
};
use crate::procedure::{data_receive, data_send, path_mtu, status_request};
use crate::tx::{CongestionControl, PathMtu, with_floor};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use engine::{Address, AssociationId, Batch, CommandError, Event, Instant, Store};

/// Opens an association. FIRST is sent at once, or with the first user data.
pub(crate) fn do_connect(
    xtp: &mut Xtp,
    now: Instant,
    to: Address,
    service: Service,
) -> Result<AssociationId, CommandError> {
    if xtp.table.active() >= xtp.state.config.associations_max {
        return Err(CommandError::TooManyAssociations);
    }
    let neighbour = xtp.state.config.gateway.unwrap_or(to);
    let added = xtp.table.add(neighbour, now, &mut xtp.state);
    let slot = added.ok_or(CommandError::TooManyAssociations)?;
    let ctx = xtp
        .table
        .context(slot)
        .ok_or(CommandError::UnknownAssociation)?;
    let ep = &mut xtp.state;
    ctx.initiator = true;
    ctx.service = service;
    ctx.state = ContextState::opening(ep.config.explicit && ctx.is_stream());
    if ep.config.routes {
        ctx.route = ep.routes.find_or_create(neighbour, to);
        if let Some(route) = ctx.route {
            ep.routes.add_user(route);
        }
    }
    init_context(ctx, ep, now);
    start(ctx, ep, now);
    Ok(ctx.id)
}

/// Explicit open sends FIRST alone; implicit open sends it with the first user data, for which that of
/// a stream waits as short data wait for others.
fn start(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if is_explicit(ctx) {
        ctx.mark_ready(ep);
    } else {
        ctx.open_report = OpenReport::Done;
        ep.events.push_back(Event::Connected(ctx.id));
        if ctx.waits_for_first_data() && !ep.config.coalesce_delay.is_zero() {
            ctx.arm(ep, Timer::Coalesce, now + ep.config.coalesce_delay);
        }
    }
    if ctx.is_one_way() {
        ctx.rx.final_seq = Some(0);
        ctx.closing.receiving = ReceivingEnd::RcloseSent;
        ep.events.push_back(Event::Finished(ctx.id));
    }
}

/// Gives a new context what all of an endpoint begin with: its configuration, which stays as it is but for what
/// [`live`](crate::live) changes.
pub(crate) fn prepare(ctx: &mut Context, ep: &EndpointState) {
    let config = &ep.config;
    ctx.sort = config.sort;
    ctx.accepted_rate = config.imposed_rate();
    ctx.tx.limits.own = config.own_rate();
    ctx.tx.queue.alloc = config.initial_window;
    ctx.tx.payload_max = ep.payload_max();
    ctx.tx.path = PathMtu::new(config.packet_len, ep.payload_max());
    ctx.tx.congestion = CongestionControl::new(config.congestion, ep.payload_max());
    schedule_limits(ctx, ep);
}

/// Initialises the context of either side before the first packet.
pub(super) fn init_context(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    if ctx.initiator {
        let random = || ep.rng.next_u64() as u32;
        ctx.seq_base = ep.codec.first_number(ep.config.initial_seq, random);
    }
    ctx.options = ep
        .service_options(ctx.service)
        .with(Options::SORT, ctx.sort.is_some());
    ep.uses_sort |= ctx.sort.is_some();
    ctx.tx.sync = SyncNumber(ep.rng.next_u64() as u32);
    ctx.tx.first_sync = ctx.tx.sync;
    ctx.tx.saved_sync = Some(ctx.tx.sync);
    ctx.rx.advertised_alloc = data_receive::next_alloc(ctx, ep);
    if ctx.tx.limits.own.is_some() {
        ctx.tx.apply_rate_limits(now);
    }
    status_request::start_ctimer(ctx, ep, now);
}

/// Puts FIRST into `batch`. A retransmission carries the same user data.
pub(crate) fn transmit_first(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) {
    let ContextState::Opening { first, explicit } = ctx.state else {
        return;
    };
    let traffic = traffic_spec(ctx, ep, true);
    if matches!(traffic, TrafficSpec::Limits { .. }) {
        ctx.limits_report.record_sent();
    }
    let named = ep.config.address.clone();
    let address = called_segment(named.as_ref(), ctx, ep);
    let segments_len = (address.len() + traffic.len()) as u64;
    let room = ep.payload_of(path_mtu::first_len_max(ctx, ep)) - segments_len;
    let data_len = choose_first_data(ctx, ep, first, room);
    let options = first_options(ctx, data_len);
    let header = Header {
        options,
        sync: status_request::packet_sync(ctx, ep, now, options),
        sort: ctx.sort.unwrap_or(0),
        dlen: (segments_len + data_len) as u32,
        ..plain_header(ctx.key.field(), Format::First)
    };
    let context = ctx.header_context(ep);
    let user = (Store::Association(ctx.id), 0..data_len);
    let scratch = &mut ep.scratch;
    ep.codec
        .push_first(batch, &header, &context, (address, traffic), user, scratch);
    // Without limits it is of 4.0, and stands in the scratch buffer.
    if matches!(traffic, TrafficSpec::Plain(..)) && ctx.route.is_none() {
        let segments = &ep.scratch[HEADER_LEN..];
        ep.called_segments.record((ctx.peer, ctx.service), segments);
    }
    let first = FirstPacket::Sent(data_len);
    ctx.state = ContextState::Opening { first, explicit };
    let octets = batch.len_of_last() as u64;
    let header_len = (octets - data_len) as usize;
    data_send::account_packet(ctx, ep, options, header_len, data_len, octets);
}

/// Chooses how many user bytes FIRST carries. Retransmissions keep the choice, as far as it has room.
fn choose_first_data(
    ctx: &mut Context,
    ep: &mut EndpointState,
    first: FirstPacket,
    room: u64,
) -> u64 {
    if let Some(data_len) = first.data_len() {
        ctx.tx.retransmissions += 1;
        ep.counters.retransmissions += 1;
        return data_len.min(room);
    }
    ctx.tx.queue.next_seq = first_data_len(ctx).min(room);
    ctx.tx.queue.next_seq
}

/// User bytes that FIRST may carry if it has room.
fn first_data_len(ctx: &Context) -> u64 {
    if is_explicit(ctx) {
        return 0;
    }
    let tx = &ctx.tx;
    let message_end = tx.queue.message_ends.first().unwrap_or(u64::MAX);
    let allowed = if ctx.options.has(Options::NOFLOW) {
        u64::MAX
    } else {
        tx.queue.alloc
    };
    // FIRST carries no tags (0007, Tags).
    let tag = tx.queue.begin_tags.first().unwrap_or(u64::MAX);
    let end_tag = tx.queue.end_tags.first().map_or(u64::MAX, |end| end - 8);
    tx.queue
        .submitted
        .min(allowed)
        .min(message_end)
        .min(tag)
        .min(end_tag)
}

fn is_explicit(ctx: &Context) -> bool {
    matches!(ctx.state, ContextState::Opening { explicit: true, .. })
}

pub(super) fn first_options(ctx: &mut Context, len: u64) -> Options {
    let wclose = ctx.closing.is_finishing() && len == ctx.tx.queue.submitted && !is_explicit(ctx);
    let datagram = ctx.service == Service::Datagram;
    let message = len > 0 && ctx.tx.queue.message_ends.next_after(len - 1) == Some(len);
    ctx.options
        .with(Options::SREQ, !datagram)
        .with(Options::EOM, message || wclose && !ctx.is_stream())
        .with(Options::WCLOSE, wclose)
        .with(Options::END, wclose && datagram)
}

/// Schedules FIRST of an implicit open when data for it are ready.
pub(crate) fn schedule_first_if_ready(ctx: &mut Context, ep: &EndpointState) {
    if ctx.is_announced() {
        return;
    }
    let some = ctx.tx.queue.submitted > 0 && !ctx.waits_for_finish() || ctx.closing.is_finishing();
    let full = ctx.tx.queue.submitted >= ep.payload_max();
    if some || full {
        ctx.schedule_first();
    }
}

/// Final destination of an association opened here, which may lie behind the neighbour.
pub(crate) fn destination(ctx: &Context, ep: &EndpointState) -> Address {
    let shared = ctx.route.and_then(|route| ep.routes.destination(route));
    shared.unwrap_or(ctx.peer)
}

/// What FIRST and PATH call: `named`, or the association's destination.
pub(crate) fn called_segment<'a>(
    named: Option<&'a NamedAddress>,
    ctx: &Context,
    ep: &EndpointState,
) -> AddressSegment<'a> {
    match named.filter(|_| ctx.initiator) {
        Some(named) => named.segment(),
        None => address_segment(destination(ctx, ep), ep),
    }
}

fn address_segment(to: Address, ep: &EndpointState) -> AddressSegment<'static> {
    let (dst_port, src_port) = (ep.config.port, ep.config.source_port);
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
        // The frame addresses the host; the segment names the port.
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

/// With fewer user bytes FIRST is shorter than the TCNTL that answers it.
pub(super) const FIRST_DATA_MIN: u64 = 16;

/// Whether FIRST would be shorter than the TCNTL that answers it.
fn is_first_short(ctx: &Context) -> bool {
    let sent_len = ctx.state.first().and_then(FirstPacket::data_len);
    let data_len = sent_len.unwrap_or_else(|| first_data_len(ctx));
    let whole = ctx.closing.is_finishing() && data_len == ctx.tx.queue.submitted;
    data_len < FIRST_DATA_MIN && !(ctx.is_one_way() && whole)
}

/// The traffic specifier of this side. A short FIRST carries the long form, so that the
/// amplification limit allows the TCNTL that answers it (0007, Address validation).
pub(crate) fn traffic_spec(ctx: &Context, ep: &EndpointState, first: bool) -> TrafficSpec {
    let short = first && (is_first_short(ctx) || ep.codec.states_limits());
    if !short && !has_limits(ep) && (first || ctx.limits_report == LimitsReport::Done) {
        return plain_spec(ctx);
    }
    let pair = |limit: Option<RateLimit>| {
        limit.map_or((UNLIMITED, UNLIMITED), |limit| {
            (limit.rate_bytes_per_s, limit.burst_bytes)
        })
    };
    let ((inrate, inburst), (outrate, outburst)) =
        (pair(ctx.accepted_rate), pair(ctx.tx.limits.own));
    TrafficSpec::Limits {
        service: ctx.service,
        maxdata: ep.payload_max() as u32,
        inrate,
        inburst,
        outrate,
        outburst,
    }
}

/// A traffic specifier with the service only.
pub(crate) fn plain_spec(ctx: &Context) -> TrafficSpec {
    TrafficSpec::Plain(ctx.service, [0; 4])
}

/// Schedules the limits of this side, if there are any, for a peer that does not have them.
pub(crate) fn schedule_limits(ctx: &mut Context, ep: &EndpointState) {
    if has_limits(ep) || ctx.accepted_rate.is_some() {
        ctx.limits_report = LimitsReport::Pending;
    }
}

fn has_limits(ep: &EndpointState) -> bool {
    let config = &ep.config;
    let has_rate = config.own_rate().or(config.imposed_rate()).is_some();
    has_rate || config.packet_len != PACKET_LEN
}

/// Lower limits of a peer are ignored: it could have a megabyte sent byte by byte (0007, Packets).
/// The shortest full packet that can be configured has 128 octets.
const MAXDATA_MIN: u32 = 96;

/// Applies the packet and rate limits of the peer (0007, Traffic specifiers).
pub(crate) fn apply_peer_limits(
    ctx: &mut Context,
    ep: &EndpointState,
    now: Instant,
    traffic: &TrafficSpec,
) {
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
    let limit = RateLimit {
        rate_bytes_per_s: inrate,
        burst_bytes: inburst,
    };
    let asked = (inrate != UNLIMITED).then_some(limit);
    let packet_len = ep.packet_len(ctx.tx.payload_max);
    ctx.tx.limits.peer = asked.map(|limit| with_floor(limit, packet_len));
    ctx.tx.apply_rate_limits(now);
}

/// Sets the rate limit of this side.
pub(crate) fn do_set_rate(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    rate: Option<RateLimit>,
) {
    ctx.tx.limits.own = rate;
    ctx.tx.apply_rate_limits(now);
    ctx.mark_ready(ep);
}

/// Sets the rate limit of the peer and schedules the TCNTL that carries it (0007, Rates).
pub(crate) fn do_impose_rate(ctx: &mut Context, ep: &mut EndpointState, rate: Option<RateLimit>) {
    ctx.accepted_rate = rate;
    ctx.limits_report = LimitsReport::Pending;
    ctx.pending.control |= ctx.is_announced();
    ctx.mark_ready(ep);
}

/// Sets the priority among the associations of the endpoint.
pub(crate) fn do_set_sort(ctx: &mut Context, ep: &mut EndpointState, sort: Option<u16>) {
    ctx.sort = sort;
    ctx.options = Options(ctx.options.0 & !Options::SORT.0).with(Options::SORT, sort.is_some());
    ep.uses_sort |= sort.is_some();
}
