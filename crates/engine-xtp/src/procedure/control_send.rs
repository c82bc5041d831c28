//! Building control packets. One packet answers a status request, makes one, and carries the
//! close bits, whatever is pending.

use crate::codec::{Codec, CodecV3};
use crate::config::SpanMeaning;
use crate::context::{Context, PendingControl, Timer};
use crate::endpoint_state::{EndpointState, plain_header};
use crate::numbers::SyncNumber;
use crate::opening::LimitsReport;
use crate::pdu::v3::PAIRS_MAX;
use crate::pdu::{
    Body, CommonControl, Header, Options, Packet, SPAN_LEN, Service, Span, Spans, TrafficSpec,
    span_octets,
};
use crate::procedure::{
    association_close, association_setup, data_receive, data_send, path_mtu, status_request,
};
use engine::{Batch, Instant};

/// Octets that an ECNTL has besides those of a CNTL before its spans, and a TCNTL before its traffic specifier.
const ECNTL_EXTRA_LEN: usize = 4;
const TCNTL_EXTRA_LEN: usize = 12;

/// Octets of a resend pair of 3.x.
const PAIR_LEN: usize = 8;

/// The kinds of control packet.
enum ControlKind {
    Cntl,
    Ecntl(Vec<u8>),
    Tcntl(TrafficSpec),
    /// Empty DATA with a status request only (0007, Null data).
    NullData,
    /// A status request that finds a new path (0008, PATH).
    Path(CodecV3),
}

impl ControlKind {
    fn has_limits(&self) -> bool {
        matches!(self, ControlKind::Tcntl(TrafficSpec::Limits { .. }))
    }
}

/// Schedules a control packet: now, or in a transaction with the reply (0007, Services).
pub(crate) fn schedule_control(ctx: &mut Context, ep: &mut EndpointState, now: Instant) {
    let reply_comes = ctx.service == Service::Transaction
        && !ctx.initiator
        && !ctx.waits_for_validation()
        && !ctx.closing.wclose_sent();
    if !reply_comes {
        ctx.pending.control = true;
        ctx.mark_ready(ep);
    } else if !ctx.timers.is_armed(Timer::Reply) {
        ctx.arm(ep, Timer::Reply, now + ep.config.reply_delay);
    }
}

/// The reply of a transaction did not come in time: answer without it.
pub(crate) fn handle_reply_timeout(ctx: &mut Context, ep: &mut EndpointState) {
    ctx.pending.control = true;
    ctx.mark_ready(ep);
}

/// Puts a control packet into `batch`, behind its data if it fits.
pub(crate) fn transmit_control(
    ctx: &mut Context,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) {
    let (kind, len) = choose_kind(ctx, ep);
    if !fits(batch, len) {
        ctx.pending.deferred = true;
        return;
    }
    let is_saved = saves_limit_for_key(ctx, ep) && !matches!(kind, ControlKind::Tcntl(_));
    if is_saved || !ctx.within_amplification_limit(len) {
        return;
    }
    let states_limits = ep.codec.states_limits();
    let is_pending = ctx.limits_report == LimitsReport::Pending;
    let limits = kind.has_limits() || states_limits && is_pending;
    let confirm = limits && ctx.is_validated() && !ctx.is_one_way();
    let options = control_options(ctx, confirm);
    let sync = status_request::packet_sync(ctx, ep, now, options);
    if states_limits {
        ctx.limits_report.record_sent();
    }
    push_control(ctx, ep, batch, &kind, options, sync);
    if confirm && options.has(Options::SREQ) {
        ctx.limits_report = LimitsReport::AwaitingEcho(sync);
    }
    ctx.pending = PendingControl::default();
    ctx.timers.disarm(Timer::Reply);
}

/// Option bits of the packet. Close bits stay set once their condition holds; END goes with the
/// packet that completes them (0007, Close).
fn control_options(ctx: &Context, confirm: bool) -> Options {
    let datagram = ctx.service == Service::Datagram;
    let wclose = ctx.is_all_sent() && !datagram || association_close::is_wclose_due(ctx);
    let rclose = ctx.rx.is_complete() && !(ctx.is_one_way() && ctx.initiator);
    let last = association_close::is_fully_closed_after(ctx, wclose, rclose) || wclose && datagram;
    let awaits_echo = ctx
        .amplification_limit
        .is_some_and(|limit| limit.awaits_echo);
    let asks = ctx.pending.status_request || awaits_echo;
    let sreq = (asks || confirm || association_close::is_wclose_due(ctx)) && !datagram && !last;
    ctx.options
        .with(Options::SREQ, sreq)
        .with(Options::WCLOSE, wclose)
        .with(Options::RCLOSE, rclose)
        .with(Options::END, last)
}

/// A sender blocked by the amplification limit saves it for the TCNTL with its key, whose return validates the address
/// (0007, Address validation).
fn saves_limit_for_key(ctx: &Context, ep: &EndpointState) -> bool {
    ctx.is_amplification_blocked() && !ep.codec.states_limits()
}

/// Kind and length of the packet: the first row that applies, as far as the amplification limit allows its length.
///
/// | version | state | packet |
/// | --- | --- | --- |
/// | 3.x | a status request was not answered on a route | PATH (0008, PATH) |
/// | all | there are bytes beyond a gap | ECNTL with spans, or CNTL with resend pairs (0007, Answers) |
/// | 4.0 | a cookie is to be returned, or the peer has not returned the key | TCNTL (0007, Keys) |
/// | 4.0 | the peer does not have the limits of this side | TCNTL (0007, Rates) |
/// | 4.0 | a status request, and the responder's key is unknown | TCNTL (0007, Address validation) |
/// | all | nothing but a status request, and null data are chosen | empty DATA (0007, Null data) |
/// | all | any other | CNTL |
fn choose_kind(ctx: &Context, ep: &EndpointState) -> (ControlKind, usize) {
    path_request(ctx, ep)
        .or_else(|| gap_report(ctx, ep))
        .or_else(|| key_or_limits(ctx, ep))
        .or_else(|| request_for_key(ctx, ep))
        .or_else(|| null_data(ctx, ep))
        .unwrap_or_else(|| (ControlKind::Cntl, cntl_len(ctx, ep, 0)))
}

fn path_request(ctx: &Context, ep: &EndpointState) -> Option<(ControlKind, usize)> {
    let Codec::V3(codec) = ep.codec else {
        return None;
    };
    if !status_request::needs_path_packet(ctx) {
        return None;
    }
    let address = association_setup::called_segment(ep.config.address.as_ref(), ctx, ep);
    let len = ep.packet_len(address.len() as u64);
    Some((ControlKind::Path(codec), len))
}

fn gap_report(ctx: &Context, ep: &EndpointState) -> Option<(ControlKind, usize)> {
    let has_gap = !ctx.rx.reassembly.is_empty() && !ctx.rx.error_control_off;
    if !has_gap || saves_limit_for_key(ctx, ep) {
        return None;
    }
    let room = path_mtu::control_len_max(ctx, ep) - ep.control_len();
    let spans_max = match ep.codec {
        Codec::V40 => (room - ECNTL_EXTRA_LEN) / SPAN_LEN,
        Codec::V3(_) => (room / PAIR_LEN).min(PAIRS_MAX),
    };
    let received = ctx.rx.reassembly.spans(spans_max);
    let spans = match ep.config.spans {
        SpanMeaning::Received => received,
        SpanMeaning::Missing => gaps(ctx.rx.next_seq, &received),
    };
    let octets = span_octets(&spans);
    let len = match ep.codec {
        Codec::V40 => ep.control_len() + ECNTL_EXTRA_LEN + octets.len(),
        Codec::V3(_) => cntl_len(ctx, ep, spans.len()),
    };
    let is_allowed = ctx.within_amplification_limit(len);
    is_allowed.then_some((ControlKind::Ecntl(octets), len))
}

/// Octets of a CNTL with `pairs`, of which 3.x may have a fixed number (0008, The packets).
fn cntl_len(ctx: &Context, ep: &EndpointState, pairs: usize) -> usize {
    let is_fixed = ep.codec.states_limits() && ep.config.fixed_pairs && ctx.is_validated();
    ep.control_len() + PAIR_LEN * if is_fixed { PAIRS_MAX } else { pairs }
}

/// A TCNTL with the limits if they are to be stated and may be that long, else with the service.
fn key_or_limits(ctx: &Context, ep: &EndpointState) -> Option<(ControlKind, usize)> {
    if ep.codec.states_limits() {
        return None;
    }
    let limits = match ctx.limits_report {
        LimitsReport::Done => false,
        LimitsReport::Pending => true,
        LimitsReport::AwaitingEcho(_) => ctx.pending.status_request,
    };
    // The answer to a complete datagram carries END, so a key is of no use.
    let ends = ctx.is_one_way() && ctx.rx.is_complete();
    let states_key = !ctx.is_validated() || limits;
    if !ctx.returns_cookie && (ends || !states_key) {
        return None;
    }
    let with_len = |traffic: TrafficSpec| {
        let len = ep.control_len() + TCNTL_EXTRA_LEN + traffic.len();
        (ControlKind::Tcntl(traffic), len)
    };
    let specs = [
        association_setup::traffic_spec(ctx, ep, false),
        association_setup::plain_spec(ctx),
    ];
    let mut packets = specs.into_iter().map(with_len);
    packets.find(|(_, len)| ctx.within_amplification_limit(*len))
}

/// A status request as long as the TCNTL that answers it with the responder's key.
fn request_for_key(ctx: &Context, ep: &EndpointState) -> Option<(ControlKind, usize)> {
    let traffic = association_setup::plain_spec(ctx);
    let requests = ctx.pending.status_request && waits_for_key(ctx) && !ep.codec.states_limits();
    requests.then_some((ControlKind::Tcntl(traffic), ep.key_packet_len()))
}

fn waits_for_key(ctx: &Context) -> bool {
    ctx.initiator && ctx.remote_key.is_none()
}

fn null_data(ctx: &Context, ep: &EndpointState) -> Option<(ControlKind, usize)> {
    let only_requests = ctx.pending.status_request && !ctx.pending.control;
    let may_be_null = !ctx.options.has(Options::NOERR) && !waits_for_key(ctx);
    let is_null = ep.config.null_data && only_requests && may_be_null;
    is_null.then_some((ControlKind::NullData, ep.packet_len(0)))
}

fn gaps(next: u64, received: &[Span]) -> Vec<Span> {
    let mut left = next;
    let gap = |span: &Span| {
        let gap = Span {
            left,
            right: span.left,
        };
        left = span.right;
        gap
    };
    received.iter().map(gap).collect()
}

/// Whether a packet of `len` octets may end `batch`: only the last may be shorter than a segment.
fn fits(batch: &Batch, len: usize) -> bool {
    if batch.is_empty() {
        return true;
    }
    let last_len = batch.len_of_last();
    batch.room() > 0 && last_len == batch.packet_len() && len <= last_len
}

fn push_control(
    ctx: &mut Context,
    ep: &mut EndpointState,
    batch: &mut Batch,
    kind: &ControlKind,
    options: Options,
    sync: SyncNumber,
) {
    let common = CommonControl {
        rseq: ctx.rx.next_seq,
        alloc: data_receive::next_alloc(ctx, ep),
        echo: ctx.rx.highest_sync.unwrap_or_default(),
    };
    let body = control_body(ctx, kind, common);
    let header = Header {
        options,
        sync,
        sort: ctx.sort.unwrap_or(0),
        seq: ctx.tx.queue.next_seq,
        ..plain_header(ctx.outgoing_key(), body.format())
    };
    let header_context = ctx.header_context(ep);
    if let ControlKind::Path(codec) = kind {
        let address = association_setup::called_segment(ep.config.address.as_ref(), ctx, ep);
        ep.scratch = codec.emit_path(&header, address, &header_context);
    } else {
        ep.emit(&Packet { header, body }, &header_context);
    }
    batch.push_own(&ep.scratch);
    if !matches!(kind, ControlKind::NullData | ControlKind::Path(_)) {
        ctx.rx.advertised_alloc = common.alloc;
    }
    let len = ep.scratch.len();
    path_mtu::on_control_sent(ctx, len);
    data_send::account_packet(ctx, ep, options, len, 0, len as u64);
}

fn control_body<'a>(ctx: &mut Context, kind: &'a ControlKind, common: CommonControl) -> Body<'a> {
    match kind {
        ControlKind::Cntl | ControlKind::Path(_) => Body::Cntl(common),
        ControlKind::NullData => Body::Data { data: &[] },
        ControlKind::Ecntl(octets) => {
            Body::Ecntl(common, Spans::new(octets).unwrap_or(Spans::EMPTY))
        }
        ControlKind::Tcntl(traffic) => {
            if matches!(traffic, TrafficSpec::Limits { .. }) {
                ctx.limits_report.record_sent();
            }
            Body::Tcntl {
                common,
                reserved: 0,
                xkey: ctx.key.field(),
                traffic: *traffic,
            }
        }
    }
}
