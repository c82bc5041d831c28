//! Building control packets. One answers a request, makes one, closes and ends, as it is due.

use crate::api::SpanMeaning;
use crate::pdu::three::PAIRS_MAX;
use crate::pdu::{
    Body, Common, HEADER_LEN, Header, Options, Packet, SPAN_LEN, Service, Span, Spans, TrafficSpec,
};
use crate::procedure::{close, receive, request, send, setup, three};
use crate::shared::{Shared, plain};
use crate::state::{Context, Due, Timer};
use engine::{Batch, Instant};

/// Octets of a CNTL, of what an ECNTL adds before its spans, and of what a TCNTL adds before its
/// traffic specifier.
const CNTL_LEN: usize = HEADER_LEN + 20;
const ECNTL_MORE: usize = 4;
const TCNTL_MORE: usize = 12;

/// The kinds of control packet.
enum Kind {
    Plain,
    Spans(Vec<u8>),
    Traffic(TrafficSpec),
    /// DATA without bytes, for a question alone.
    Null,
    /// A question that finds its way anew (third revision).
    Path,
}

/// The peer is owed a control packet: now, or for a transaction with its reply.
pub(crate) fn owe(ctx: &mut Context, sh: &mut Shared, now: Instant) {
    let reply_comes =
        ctx.service == Service::Transaction && !ctx.initiator && !ctx.close.wclose_sent;
    if !reply_comes {
        ctx.due.reply = true;
        ctx.wake(sh);
    } else if !ctx.is_armed(Timer::Reply) {
        ctx.arm(sh, Timer::Reply, now + sh.config.reply_delay);
    }
}

/// The reply of a transaction takes its time: answer without it.
pub(crate) fn handle_reply_late(ctx: &mut Context, sh: &mut Shared) {
    ctx.due.reply = true;
    ctx.wake(sh);
}

/// Puts a control packet into `batch`, behind the data there if it fits.
pub(crate) fn transmit_control(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    batch: &mut Batch,
) {
    let (kind, len) = choose(ctx, sh);
    if !fits(batch, len) {
        ctx.due.deferred = true;
        return;
    }
    // A starved sender saves what the peer sends until it can offer a key.
    let three = sh.config.dialect.is_three();
    let useless = ctx.starved && !three && !matches!(kind, Kind::Traffic(_));
    if !ctx.may_send(len) || useless {
        return;
    }
    let limits = matches!(kind, Kind::Traffic(TrafficSpec::Limits { .. }));
    let limits = limits || three && ctx.limits_due;
    let confirm = limits && (ctx.initiator || ctx.key_used) && !ctx.is_one_way();
    let options = options(ctx, confirm);
    let sync = request::sync(ctx, sh, now, options);
    if confirm && options.has(Options::SREQ) {
        ctx.limits_sync = Some(sync);
    }
    ctx.limits_due &= !three;
    push(ctx, sh, batch, &kind, options, sync);
    ctx.due = Due::default();
    ctx.disarm(Timer::Reply);
}

/// The options of the packet, as it stands between the two sides.
fn options(ctx: &Context, confirm: bool) -> Options {
    let datagram = ctx.service == Service::Datagram;
    let wclose = ctx.is_all_sent() && !datagram || close::is_wclose_due(ctx);
    let rclose = ctx.rx.is_complete() && !(ctx.is_one_way() && ctx.initiator);
    let last = close::is_done_with(ctx, wclose, rclose) || wclose && datagram;
    let ask = (ctx.due.probe || confirm || close::is_wclose_due(ctx)) && !datagram && !last;
    ctx.options
        .with(Options::SREQ, ask)
        .with(Options::WCLOSE, wclose)
        .with(Options::RCLOSE, rclose)
        .with(Options::END, last)
}

/// What the packet will be, and its length.
fn choose(ctx: &Context, sh: &Shared) -> (Kind, usize) {
    if sh.config.dialect.is_three() {
        return choose_three(ctx, sh);
    }
    let spans_max = (sh.config.packet_len - CNTL_LEN - ECNTL_MORE) / SPAN_LEN;
    if !ctx.rx.held.is_empty() && !ctx.rx.noerr && !ctx.starved {
        let received = ctx.rx.held.spans(spans_max);
        let spans = match sh.config.spans {
            SpanMeaning::Received => received,
            SpanMeaning::Missing => gaps(ctx.rx.next, &received),
        };
        let octets: Vec<u8> = spans.iter().flat_map(octets_of).collect();
        let len = CNTL_LEN + ECNTL_MORE + octets.len();
        if ctx.may_send(len) {
            return (Kind::Spans(octets), len);
        }
    }
    // The answer to a datagram that is whole ends its association.
    let ends = ctx.is_one_way() && ctx.rx.is_complete();
    let limits = ctx.limits_due || ctx.due.probe && ctx.limits_sync.is_some();
    if !ends && (limits || !ctx.initiator && !ctx.key_used) {
        for traffic in [setup::traffic_spec(ctx, sh, false), setup::plain_spec(ctx)] {
            let len = CNTL_LEN + TCNTL_MORE + traffic.len();
            if ctx.may_send(len) {
                return (Kind::Traffic(traffic), len);
            }
        }
    }
    // A question as long as the answer that brings the responder's key.
    if ctx.due.probe && ctx.initiator && ctx.remote.is_none() {
        return (Kind::Traffic(setup::plain_spec(ctx)), sh.key_len());
    }
    let asks = ctx.due.probe && !ctx.due.reply && !ctx.options.has(Options::NOERR);
    if sh.config.null_data && asks {
        return (Kind::Null, HEADER_LEN);
    }
    (Kind::Plain, CNTL_LEN)
}

/// The same in the third revision, where every control packet says everything.
fn choose_three(ctx: &Context, sh: &Shared) -> (Kind, usize) {
    if request::looks_for_path(ctx) {
        let address = setup::address_segment(setup::destination(ctx, sh), sh);
        return (Kind::Path, sh.packet_len(address.len() as u64));
    }
    let least = sh.control_len();
    let fixed = sh.config.fixed_pairs && ctx.budget.is_none();
    let room = (sh.config.packet_len - least) / 8;
    if !ctx.rx.held.is_empty() && !ctx.rx.noerr {
        let received = ctx.rx.held.spans(room.min(PAIRS_MAX));
        let spans = gaps(ctx.rx.next, &received);
        let octets: Vec<u8> = spans.iter().flat_map(octets_of).collect();
        let pairs = if fixed { PAIRS_MAX } else { spans.len() };
        if ctx.may_send(least + 8 * pairs) {
            return (Kind::Spans(octets), least + 8 * pairs);
        }
    }
    let keyless = ctx.initiator && ctx.remote.is_none();
    let asks = ctx.due.probe && !ctx.due.reply && !ctx.options.has(Options::NOERR);
    if sh.config.null_data && asks && !keyless {
        return (Kind::Null, sh.packet_len(0));
    }
    let pairs = if fixed { PAIRS_MAX } else { 0 };
    (Kind::Plain, least + 8 * pairs)
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

fn octets_of(span: &Span) -> [u8; SPAN_LEN] {
    let mut octets = [0; SPAN_LEN];
    octets[..8].copy_from_slice(&span.left.to_be_bytes());
    octets[8..].copy_from_slice(&span.right.to_be_bytes());
    octets
}

/// Whether a packet of `len` octets may be the next of `batch`: it will be the last, and a batch
/// ends with its first short packet.
fn fits(batch: &Batch, len: usize) -> bool {
    if batch.is_empty() {
        return true;
    }
    let last_len = batch.size_of_last();
    batch.room() > 0 && last_len == batch.segment_size() && len <= last_len
}

fn push(
    ctx: &mut Context,
    sh: &mut Shared,
    batch: &mut Batch,
    kind: &Kind,
    options: Options,
    sync: u32,
) {
    let common = Common {
        rseq: ctx.rx.next,
        alloc: receive::allocation(ctx, sh),
        echo: ctx.rx.sync.unwrap_or(0),
    };
    let body = body(ctx, kind, common);
    let header = Header {
        options,
        sync,
        sort: ctx.sort.unwrap_or(0),
        seq: ctx.tx.next,
        ..plain(ctx.wire_key(), body.format())
    };
    let link = three::link(ctx, sh);
    if matches!(kind, Kind::Path) {
        let address = setup::address_segment(setup::destination(ctx, sh), sh);
        sh.scratch = three::emit_path(sh, &header, address, &link);
    } else {
        sh.emit(&Packet { header, body }, &link);
    }
    batch.push(&sh.scratch, ctx.tx.next..ctx.tx.next);
    if !matches!(kind, Kind::Null | Kind::Path) {
        ctx.rx.told = common.alloc;
    }
    let len = sh.scratch.len();
    send::account(ctx, sh, options, len, 0, len as u64);
}

fn body<'a>(ctx: &mut Context, kind: &'a Kind, common: Common) -> Body<'a> {
    match kind {
        Kind::Plain | Kind::Path => Body::Cntl(common),
        Kind::Null => Body::Data { data: &[] },
        Kind::Spans(octets) => Body::Ecntl(common, Spans::new(octets).unwrap_or(Spans::EMPTY)),
        Kind::Traffic(traffic) => {
            ctx.limits_due &= !matches!(traffic, TrafficSpec::Limits { .. });
            Body::Tcntl {
                common,
                reserved: 0,
                xkey: ctx.key,
                traffic: *traffic,
            }
        }
    }
}
