//! The third revision: its packets, made from and turned into what the procedures know.
//!
//! The procedures count bytes in 64 bits from 0 and know control packets of 4.0. Here positions
//! become 32-bit numbers that wrap around, and a control packet tells everything each time.

use crate::api::RateLimit;
use crate::pdu::three::{Body3, Control3, Header3, Kind, Packet3, Pairs, RTN3, padding};
use crate::pdu::{
    AddressSegment, Body, Common, Dialect, Format, Header, Options, Packet, RTN, Reject, SPAN_LEN,
    Spans, TrafficSpec, UNLIMITED,
};
use crate::procedure::{arrive, close, reply, report, setup};
use crate::shared::Shared;
use crate::state::{Context, Timer};
use core::ops::Range;
use engine::{Batch, Delivery, Instant};

/// What packets of the third revision say and those of 4.0 do not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// The number of the first byte, of both directions.
    pub(crate) base: u32,
    /// The route as it stands in the header.
    pub(crate) route: u32,
    /// The user took everything below.
    pub(crate) taken: u64,
    /// The own key.
    pub(crate) key: u64,
    /// What this side accepts.
    pub(crate) accepts: Option<RateLimit>,
    /// Control packets have all their pairs. An unproven address is spared the unused ones.
    pub(crate) fixed: bool,
}

impl Link {
    /// For an answer to the packet at hand, which belongs to no association.
    pub(crate) fn back(sh: &Shared) -> Link {
        Link {
            route: sh.came_by,
            ..Link::default()
        }
    }

    fn wire(&self, position: u64) -> u32 {
        self.base.wrapping_add(position as u32)
    }
}

/// What packets of `ctx` say besides.
pub(crate) fn link(ctx: &Context, sh: &Shared) -> Link {
    Link {
        base: ctx.base,
        route: sh.routes.outgoing(ctx.route),
        taken: ctx.rx.taken(),
        key: ctx.key,
        accepts: ctx.accepts,
        fixed: sh.config.fixed_pairs && ctx.budget.is_none(),
    }
}

/// A key in 32 bits.
fn narrow(key: u64) -> u32 {
    let value = key as u32 & !RTN3;
    if key & RTN != 0 { value | RTN3 } else { value }
}

/// A key of a packet in 64 bits, with the route it came by: initiators behind one neighbour may
/// have chosen the same.
pub(crate) fn wide(key: u32, route: u32) -> u64 {
    let value = u64::from(key & !RTN3);
    if key & RTN3 != 0 {
        value | RTN
    } else {
        value | u64::from(route & !RTN3) << 31
    }
}

/// The position with number `wire` that is nearest to `near`; None below zero.
fn nearest(base: u32, wire: u32, near: u64) -> Option<u64> {
    let ahead = wire.wrapping_sub(base.wrapping_add(near as u32)) as i32;
    near.checked_add_signed(i64::from(ahead))
}

/// The header of a packet as 4.0 has it, its `seq` as it stands on the wire. None for kinds that
/// belong to no association.
pub(crate) fn as_header(header: &Header3, route: u32) -> Option<Header> {
    let format = match header.kind {
        Kind::Data => Format::Data,
        Kind::Cntl | Kind::Path => Format::Cntl,
        Kind::First => Format::First,
        Kind::Diag => Format::Diag,
        Kind::Maint | Kind::Mgmt | Kind::Route | Kind::Rcntl => return None,
    };
    Some(Header {
        key: wide(header.key, route),
        options: header.options,
        format,
        dlen: header.dlen,
        check: 0,
        sort: u16::try_from(header.sort).unwrap_or(u16::MAX),
        sync: header.sync,
        seq: u64::from(header.seq),
    })
}

fn header3(sh: &Shared, header: &Header, kind: Kind, link: &Link) -> Header3 {
    Header3 {
        kind,
        options: header.options,
        front: 0,
        back: 0,
        key: narrow(header.key),
        route: link.route,
        seq: link.wire(header.seq),
        dseq: link.wire(link.taken),
        sync: header.sync,
        dlen: 0,
        sort: u32::from(header.sort),
        ttl: sh.config.hops,
    }
}

/// `packet`, which has no user bytes, as octets of the third revision.
pub(crate) fn emit(sh: &Shared, packet: &Packet<'_>, link: &Link) -> Vec<u8> {
    let mut pairs = Vec::new();
    let body = match packet.body {
        Body::Data { data } => Body3::Data(data),
        Body::Diag(diag) => Body3::Diag(diag),
        Body::Ecntl(_, spans) => {
            for span in spans.iter() {
                pairs.extend(link.wire(span.left).to_be_bytes());
                pairs.extend(link.wire(span.right).to_be_bytes());
            }
            control(sh, packet, link, &pairs)
        }
        _ => control(sh, packet, link, &[]),
    };
    let header = header3(sh, &packet.header, body.kind(), link);
    Packet3 { header, body }.emit(sh.config.dialect)
}

/// A PATH to `address` as octets. No neighbour's value is trusted.
pub(crate) fn emit_path(
    sh: &Shared,
    header: &Header,
    address: AddressSegment<'_>,
    link: &Link,
) -> Vec<u8> {
    let header = header3(sh, header, Kind::Path, link);
    let body = Body3::Path(address);
    Packet3 { header, body }.emit(sh.config.dialect)
}

fn control<'a>(sh: &Shared, packet: &Packet<'_>, link: &Link, pairs: &'a [u8]) -> Body3<'a> {
    let none = Common {
        rseq: 0,
        alloc: 0,
        echo: 0,
    };
    let common = match packet.body {
        Body::Cntl(common) | Body::Ecntl(common, _) | Body::Tcntl { common, .. } => common,
        _ => none,
    };
    let (rate, burst) = link.accepts.map_or((UNLIMITED, UNLIMITED), |limit| {
        (limit.rate_bytes_per_s, limit.burst_bytes)
    });
    let control = Control3 {
        rseq: link.wire(common.rseq),
        alloc: link.wire(common.alloc),
        echo: common.echo,
        rate,
        burst,
        xkey: narrow(link.key),
        maxdata: sh.payload_max() as u16,
        reserved: [0; 4],
    };
    Body3::Cntl(
        control,
        Pairs::new(pairs, link.fixed).unwrap_or(Pairs::EMPTY),
    )
}

/// Puts a DATA packet with `bytes` into the batch.
pub(crate) fn push_data(
    ctx: &mut Context,
    sh: &Shared,
    batch: &mut Batch,
    header: &Header,
    bytes: Range<u64>,
) {
    push(ctx, sh, batch, header, &[], bytes, 0);
    // It tells how far the user is, which answers those who asked for that.
    ctx.due.delivered = false;
}

/// Puts a FIRST into the batch whose middle segment begins with `opening`. It is at least as long
/// as the control packet that brings the responder's key.
pub(crate) fn push_first(
    ctx: &Context,
    sh: &Shared,
    batch: &mut Batch,
    header: &Header,
    opening: &[u8],
    bytes: Range<u64>,
) {
    let middle = opening.len() + (bytes.end - bytes.start) as usize;
    let least = sh.config.dialect.control_len().saturating_sub(middle);
    push(ctx, sh, batch, header, opening, bytes, least.min(12));
}

fn push(
    ctx: &Context,
    sh: &Shared,
    batch: &mut Batch,
    header: &Header,
    opening: &[u8],
    bytes: Range<u64>,
    least: usize,
) {
    let dialect = sh.config.dialect;
    let kind = if opening.is_empty() {
        Kind::Data
    } else {
        Kind::First
    };
    let middle = opening.len() + (bytes.end - bytes.start) as usize;
    let back = padding(middle, least);
    let head = Header3 {
        back: back as u8,
        dlen: (middle + back) as u32,
        ..header3(sh, header, kind, &link(ctx, sh))
    };
    let mut octets = head.emit(dialect);
    octets.extend_from_slice(opening);
    let tail = [0; 20];
    let summed = !header.options.has(Options::NOCHECK);
    let from = summed.then_some(dialect.header_len() as u8);
    batch.push_with_trailer(&octets, bytes, &tail[..back + 4], from);
}

/// Takes in `packet`, whose checks were right, for the context its key names.
pub(crate) fn handle_packet(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    header: &Header,
    packet: &[u8],
    deliveries: &mut Vec<Delivery>,
) -> Result<(), Reject> {
    let dialect = sh.config.dialect;
    let header3 = Header3::read(dialect, packet);
    let seq = nearest(ctx.base, header3.seq, ctx.rx.next).ok_or(Reject::State)?;
    let header = &Header { seq, ..*header };
    arrive::note(ctx, sh, now, header, packet.len());
    let body = Body3::parse(dialect, &header3, packet).ok_or(Reject::Body)?;
    let end = dialect.header_len() + header3.dlen as usize - usize::from(header3.back);
    let data = match body {
        Body3::Data(data) => {
            arrive::note_active(ctx, sh);
            data
        }
        Body3::First { data, .. } => data,
        Body3::Diag(diag) => {
            close::handle_diag(ctx, sh, &diag);
            return Ok(());
        }
        Body3::Cntl(control, pairs) => {
            handle_control(ctx, sh, now, &control, pairs)?;
            note_taken(ctx, sh, header3.dseq);
            return arrive::finish_control(ctx, sh, now, header);
        }
        // Whoever looks for a path is told that there is one.
        Body3::Path(_) => {
            ctx.rx.see_sync(header.sync);
            reply::owe(ctx, sh, now);
            return Ok(());
        }
        _ => return Err(Reject::State),
    };
    let tags = [Options::BTAG, Options::ETAG].map(|tag| header.options.has(tag));
    if data.len() < 8 * tags.iter().filter(|set| **set).count() {
        return Err(Reject::Body);
    }
    if header3.kind == Kind::Data {
        note_taken(ctx, sh, header3.dseq);
    }
    let range = end - data.len()..end;
    arrive::handle_data(ctx, sh, now, header, packet, range, deliveries)
}

fn handle_control(
    ctx: &mut Context,
    sh: &mut Shared,
    now: Instant,
    control: &Control3,
    pairs: Pairs<'_>,
) -> Result<(), Reject> {
    let (base, near) = (ctx.base, ctx.tx.acknowledged);
    let at = |wire: u32| nearest(base, wire, near).ok_or(Reject::NeverSent);
    let common = Common {
        rseq: at(control.rseq)?,
        alloc: at(control.alloc)?,
        echo: control.echo,
    };
    let mut octets = Vec::with_capacity(pairs.len() * SPAN_LEN);
    for pair in pairs.iter() {
        octets.extend(at(pair.left)?.to_be_bytes());
        octets.extend(at(pair.right)?.to_be_bytes());
    }
    let spans = Spans::new(&octets).unwrap_or(Spans::EMPTY);
    report::handle_report(ctx, sh, now, &common, spans)?;
    let limits = TrafficSpec::Limits {
        service: ctx.service,
        maxdata: u32::from(control.maxdata),
        inrate: control.rate,
        inburst: control.burst,
        outrate: UNLIMITED,
        outburst: UNLIMITED,
    };
    setup::obey(ctx, now, &limits);
    if control.xkey & RTN3 == 0 {
        report::learn_key(ctx, u64::from(control.xkey));
    }
    Ok(())
}

/// The peer's user took everything below `dseq`, so it arrived too. That answers requests about
/// delivery; how long it took says nothing of the path.
fn note_taken(ctx: &mut Context, sh: &mut Shared, dseq: u32) {
    let position = nearest(ctx.base, dseq, ctx.tx.acknowledged);
    let Some(position) = position.filter(|at| *at <= ctx.tx.next) else {
        return;
    };
    report::acknowledge(ctx, sh, position);
    let told = |request: &crate::tx::Request| request.delivered && request.sent <= position;
    while ctx.tx.requests.front().is_some_and(told) {
        ctx.tx.requests.pop_front();
    }
    if ctx.tx.requests.is_empty() && ctx.tx.handshake.is_none() && ctx.first.sent {
        ctx.disarm(Timer::Wait);
    }
}

/// Whether `dialect` lets data say how far its user is.
pub(crate) fn tells_with_data(dialect: Dialect) -> bool {
    dialect.is_three()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        let base = u32::MAX - 10;
        assert_eq!(nearest(base, base, 0), Some(0));
        assert_eq!(nearest(base, 5, 0), Some(16));
        assert_eq!(nearest(base, base.wrapping_sub(1), 0), None);
        let near = (7u64 << 32) + 3;
        assert_eq!(nearest(0, 1, near), Some((7 << 32) + 1));
        assert_eq!(nearest(0, 0xffff_fff0, near), Some((7 << 32) - 16));
    }

    #[test]
    fn keys_keep_their_return_bit() {
        assert_eq!(narrow(wide(RTN3 | 77, 9)), RTN3 | 77);
        assert_eq!(narrow(wide(77, 9)), 77);
        assert_ne!(wide(77, 9), wide(77, 8));
        assert_eq!(wide(77, u32::MAX) & RTN, 0);
    }
}
