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
    Body, CommonControl, HEADER_LEN, Header, Options, Packet, SPAN_LEN, Service, Span, Spans,
    TrafficSpec, span_octets,
};
use crate::procedure::{
    association_close, association_setup, data_receive, data_send, path_mtu, status_request,
};
use engine::{Batch, Instant};

/// Octets of a CNTL, of what an ECNTL adds before its spans, and of what a TCNTL adds before its
/// traffic specifier.
const CNTL_LEN: usize = HEADER_LEN + 20;
const ECNTL_EXTRA_LEN: usize = 4;
const TCNTL_EXTRA_LEN: usize = 12;

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
    // A sender blocked by the amplification limit saves it for the TCNTL with its key, whose
    // return validates the address (0007, Address validation).
    let states_limits = ep.codec.states_limits();
    let states_key = states_limits || matches!(kind, ControlKind::Tcntl(_));
    let useless = ctx.is_amplification_blocked() && !states_key;
    if !ctx.within_amplification_limit(len) || useless {
        return;
    }
    let limits = matches!(kind, ControlKind::Tcntl(TrafficSpec::Limits { .. }));
    let limits = limits || states_limits && ctx.limits_report == LimitsReport::Pending;
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

/// Kind and length of the packet.
fn choose_kind(ctx: &Context, ep: &EndpointState) -> (ControlKind, usize) {
    if let Codec::V3(codec) = ep.codec {
        return choose_kind_v3(ctx, ep, codec);
    }
    let len_max = path_mtu::control_len_max(ctx, ep);
    let spans_max = (len_max - CNTL_LEN - ECNTL_EXTRA_LEN) / SPAN_LEN;
    // Gaps: an ECNTL, else a CNTL (0007, Answers).
    if !ctx.rx.reassembly.is_empty() && !ctx.rx.error_control_off && !ctx.is_amplification_blocked()
    {
        let received = ctx.rx.reassembly.spans(spans_max);
        let spans = match ep.config.spans {
            SpanMeaning::Received => received,
            SpanMeaning::Missing => gaps(ctx.rx.next_seq, &received),
        };
        let octets = span_octets(&spans);
        let len = CNTL_LEN + ECNTL_EXTRA_LEN + octets.len();
        if ctx.within_amplification_limit(len) {
            return (ControlKind::Ecntl(octets), len);
        }
    }
    // The answer to a complete datagram carries END, so a key is of no use.
    let ends = ctx.is_one_way() && ctx.rx.is_complete();
    let limits = match ctx.limits_report {
        LimitsReport::Done => false,
        LimitsReport::Pending => true,
        LimitsReport::AwaitingEcho(_) => ctx.pending.status_request,
    };
    // TCNTL until the key comes back, and for limits until they are echoed (0007, Keys; Rates).
    let states_key = ctx.returns_cookie || !ctx.is_validated();
    if ctx.returns_cookie || !ends && (limits || states_key) {
        for traffic in [
            association_setup::traffic_spec(ctx, ep, false),
            association_setup::plain_spec(ctx),
        ] {
            let len = CNTL_LEN + TCNTL_EXTRA_LEN + traffic.len();
            if ctx.within_amplification_limit(len) {
                return (ControlKind::Tcntl(traffic), len);
            }
        }
    }
    // A status request as long as the TCNTL that answers it with the responder's key
    // (0007, Address validation).
    if ctx.pending.status_request && ctx.initiator && ctx.remote_key.is_none() {
        return (
            ControlKind::Tcntl(association_setup::plain_spec(ctx)),
            ep.key_packet_len(),
        );
    }
    let bare_request =
        ctx.pending.status_request && !ctx.pending.control && !ctx.options.has(Options::NOERR);
    if ep.config.null_data && bare_request {
        return (ControlKind::NullData, HEADER_LEN);
    }
    (ControlKind::Cntl, CNTL_LEN)
}

/// Kind and length in XTP 3.x, where every control packet carries key, rate and resend pairs
/// (0008, The packets).
fn choose_kind_v3(ctx: &Context, ep: &EndpointState, codec: CodecV3) -> (ControlKind, usize) {
    if status_request::needs_path_packet(ctx) {
        let address = association_setup::called_segment(ep.config.address.as_ref(), ctx, ep);
        return (
            ControlKind::Path(codec),
            ep.packet_len(address.len() as u64),
        );
    }
    let least = ep.control_len();
    let fixed = ep.config.fixed_pairs && ctx.is_validated();
    let room = (path_mtu::control_len_max(ctx, ep) - least) / 8;
    if !ctx.rx.reassembly.is_empty() && !ctx.rx.error_control_off {
        let received = ctx.rx.reassembly.spans(room.min(PAIRS_MAX));
        let spans = gaps(ctx.rx.next_seq, &received);
        let octets = span_octets(&spans);
        let pairs = if fixed { PAIRS_MAX } else { spans.len() };
        if ctx.within_amplification_limit(least + 8 * pairs) {
            return (ControlKind::Ecntl(octets), least + 8 * pairs);
        }
    }
    let keyless = ctx.initiator && ctx.remote_key.is_none();
    let bare_request =
        ctx.pending.status_request && !ctx.pending.control && !ctx.options.has(Options::NOERR);
    if ep.config.null_data && bare_request && !keyless {
        return (ControlKind::NullData, ep.packet_len(0));
    }
    let pairs = if fixed { PAIRS_MAX } else { 0 };
    (ControlKind::Cntl, least + 8 * pairs)
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
        seq: ctx.tx.next_seq,
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
