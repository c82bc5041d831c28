//! XTP 3.x: translation between its packets and those of 4.0, which the procedures use.
//!
//! The procedures use 64-bit positions from 0 and the control packets of 4.0. On the wire, 3.x has
//! 32-bit sequence numbers that wrap, and control packets that carry everything each time (0008).

use crate::config::RateLimit;
use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::pdu::v3::{
    BodyV3, ControlSegmentV3, HeaderV3, PacketKind, PacketV3, RTN_V3, ResendPairs, padding_len,
};
use crate::pdu::{
    AddressSegment, Body, CommonControl, Format, Header, Options, Packet, RTN, UNLIMITED, Version,
};
use core::ops::Range;
use engine::{Batch, Integrity, Store};

/// Header and control fields that 3.x has in addition to 4.0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderContext {
    /// Wire number of the first byte, in both directions.
    pub(crate) seq_base: u32,
    /// The route field of the header.
    pub(crate) route: u32,
    /// The user consumed everything below.
    pub(crate) dseq: u64,
    /// The key of this side.
    pub(crate) key: u64,
    /// The sync that a DIAG returns: the last one received, or this side's before the first.
    pub(crate) returned_sync: u32,
    /// The rate that this side accepts.
    pub(crate) accepted_rate: Option<RateLimit>,
    /// Control packets carry all sixteen resend pairs; not to an unvalidated address.
    pub(crate) fixed_pairs: bool,
}

impl HeaderContext {
    /// For a reply to the current packet, which belongs to no association.
    pub(crate) fn for_reply(ep: &EndpointState) -> HeaderContext {
        HeaderContext {
            route: ep.reply_route,
            returned_sync: ep.reply_sync,
            ..HeaderContext::default()
        }
    }

    fn wire_seq(&self, position: u64) -> u32 {
        self.seq_base.wrapping_add(position as u32)
    }
}

/// The fields for packets of `ctx`.
pub(crate) fn header_context(ctx: &Context, ep: &EndpointState) -> HeaderContext {
    HeaderContext {
        seq_base: ctx.seq_base,
        route: ep.routes.header_value(ctx.route),
        dseq: ctx.rx.dseq(),
        key: ctx.key,
        returned_sync: ctx.rx.highest_sync.unwrap_or(ctx.tx.sync),
        accepted_rate: ctx.accepted_rate,
        fixed_pairs: ep.config.fixed_pairs && ctx.amplification_limit.is_none(),
    }
}

/// A key in 32 bits, with RTN in the top bit.
pub(crate) fn key_to_wire32(key: u64) -> u32 {
    let value = key as u32 & !RTN_V3;
    if key & RTN != 0 {
        value | RTN_V3
    } else {
        value
    }
}

/// A received key in 64 bits. An initiator's key includes the arrival route, since initiators
/// behind one neighbour may have chosen the same key (0008, Names).
pub(crate) fn key_from_wire32(key: u32, route: u32) -> u64 {
    let value = u64::from(key & !RTN_V3);
    if key & RTN_V3 != 0 {
        value | RTN
    } else {
        value | u64::from(route & !RTN_V3) << 31
    }
}

/// The position with wire number `wire` nearest to `near`; None below zero (0008, Numbers).
pub(crate) fn unwrap_seq(base: u32, wire: u32, near: u64) -> Option<u64> {
    let ahead = wire.wrapping_sub(base.wrapping_add(near as u32)) as i32;
    near.checked_add_signed(i64::from(ahead))
}

/// Translates a header to 4.0; `seq` stays as on the wire. None for kinds that belong to no
/// association.
pub(crate) fn to_v4_header(header: &HeaderV3, route: u32) -> Option<Header> {
    let format = match header.kind {
        PacketKind::Data => Format::Data,
        PacketKind::Cntl | PacketKind::Path => Format::Cntl,
        PacketKind::First => Format::First,
        PacketKind::Diag => Format::Diag,
        PacketKind::Maint | PacketKind::Mgmt | PacketKind::Route | PacketKind::Rcntl => {
            return None;
        }
    };
    Some(Header {
        key: key_from_wire32(header.key, route),
        options: header.options,
        format,
        dlen: header.dlen,
        check: 0,
        sort: u16::try_from(header.sort).unwrap_or(u16::MAX),
        sync: header.sync,
        seq: u64::from(header.seq),
    })
}

fn to_v3_header(
    ep: &EndpointState,
    header: &Header,
    kind: PacketKind,
    header_context: &HeaderContext,
) -> HeaderV3 {
    HeaderV3 {
        options: header.options,
        key: key_to_wire32(header.key),
        seq: header_context.wire_seq(header.seq),
        dseq: header_context.wire_seq(header_context.dseq),
        sync: header.sync,
        sort: u32::from(header.sort),
        ..HeaderV3::plain(kind, header_context.route, ep.config.hop_limit)
    }
}

/// Encodes `packet`, which has no user bytes, for 3.x.
pub(crate) fn emit(
    ep: &EndpointState,
    packet: &Packet<'_>,
    header_context: &HeaderContext,
) -> Vec<u8> {
    let mut pairs = Vec::new();
    let body = match packet.body {
        Body::Data { data } => BodyV3::Data(data),
        Body::Diag(diag) => BodyV3::Diag(diag),
        Body::Ecntl(_, spans) => {
            for span in spans.iter() {
                pairs.extend(header_context.wire_seq(span.left).to_be_bytes());
                pairs.extend(header_context.wire_seq(span.right).to_be_bytes());
            }
            control_segment(ep, packet, header_context, &pairs)
        }
        _ => control_segment(ep, packet, header_context, &[]),
    };
    let mut header = to_v3_header(ep, &packet.header, body.kind(), header_context);
    if header.kind == PacketKind::Diag {
        header.sync = header_context.returned_sync;
    }
    PacketV3 { header, body }.emit(ep.config.version)
}

/// Encodes a PATH to `address`.
pub(crate) fn emit_path(
    ep: &EndpointState,
    header: &Header,
    address: AddressSegment<'_>,
    header_context: &HeaderContext,
) -> Vec<u8> {
    let header = to_v3_header(ep, header, PacketKind::Path, header_context);
    let body = BodyV3::Path(address);
    PacketV3 { header, body }.emit(ep.config.version)
}

fn control_segment<'a>(
    ep: &EndpointState,
    packet: &Packet<'_>,
    header_context: &HeaderContext,
    pairs: &'a [u8],
) -> BodyV3<'a> {
    let common = match packet.body {
        Body::Cntl(common) | Body::Ecntl(common, _) | Body::Tcntl { common, .. } => common,
        _ => CommonControl::default(),
    };
    let (rate, burst) = header_context
        .accepted_rate
        .map_or((UNLIMITED, UNLIMITED), |limit| {
            (limit.rate_bytes_per_s, limit.burst_bytes)
        });
    let control = ControlSegmentV3 {
        rseq: header_context.wire_seq(common.rseq),
        alloc: header_context.wire_seq(common.alloc),
        echo: common.echo,
        rate,
        burst,
        xkey: key_to_wire32(header_context.key),
        maxdata: ep.payload_max() as u16,
        reserved: [0; 4],
    };
    BodyV3::Cntl(
        control,
        ResendPairs::new(pairs, header_context.fixed_pairs).unwrap_or(ResendPairs::EMPTY),
    )
}

/// Puts a DATA packet with `bytes` into the batch.
pub(crate) fn push_data(
    ctx: &mut Context,
    ep: &EndpointState,
    batch: &mut Batch,
    header: &Header,
    bytes: Range<u64>,
) {
    push(ctx, ep, batch, header, &[], bytes, 0);
    // Its dseq answers a DREQ (0008, dseq).
    ctx.pending.delivery_report = false;
}

/// Puts a FIRST into the batch whose middle segment begins with `opening`. It is padded to the
/// length of the control packet that answers it (0008, The packets).
pub(crate) fn push_first(
    ctx: &Context,
    ep: &EndpointState,
    batch: &mut Batch,
    header: &Header,
    opening: &[u8],
    bytes: Range<u64>,
) {
    let segment_len = opening.len() + (bytes.end - bytes.start) as usize;
    let least = ep.config.version.control_len().saturating_sub(segment_len);
    push(ctx, ep, batch, header, opening, bytes, least.min(12));
}

fn push(
    ctx: &Context,
    ep: &EndpointState,
    batch: &mut Batch,
    header: &Header,
    opening: &[u8],
    bytes: Range<u64>,
    least: usize,
) {
    let kind = if opening.is_empty() {
        PacketKind::Data
    } else {
        PacketKind::First
    };
    let head = to_v3_header(ep, header, kind, &header_context(ctx, ep));
    let user = (Store::Association(ctx.id), bytes);
    push_segment(batch, ep.config.version, head, opening, user, least);
}

/// Puts a packet into the batch whose middle segment is `opening` and the bytes of a store, padded by `least` octets
/// at least.
pub(crate) fn push_segment(
    batch: &mut Batch,
    version: Version,
    header: HeaderV3,
    opening: &[u8],
    (store, bytes): (Store, Range<u64>),
    least: usize,
) {
    let segment_len = opening.len() + (bytes.end - bytes.start) as usize;
    let back = padding_len(segment_len, least);
    let head = HeaderV3 {
        pad_back: back as u8,
        dlen: (segment_len + back) as u32,
        ..header
    };
    let mut octets = head.emit(version);
    octets.extend_from_slice(opening);
    let tail = [0; 20];
    let summed = !header.options.has(Options::NOCHECK);
    let from = summed.then_some(version.header_len() as u8);
    let integrity = from.map_or(Integrity::None, |from| Integrity::Cxor { from });
    let builder = batch.begin().own(&octets).user(store, bytes);
    builder.own(&tail[..back + 4]).end(integrity);
}

/// Whether DATA packets of `version` carry dseq.
pub(crate) fn data_carries_dseq(version: Version) -> bool {
    version.is_v3()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_unwrap_near_expected() {
        let base = u32::MAX - 10;
        assert_eq!(unwrap_seq(base, base, 0), Some(0));
        assert_eq!(unwrap_seq(base, 5, 0), Some(16));
        assert_eq!(unwrap_seq(base, base.wrapping_sub(1), 0), None);
        let near = (7u64 << 32) + 3;
        assert_eq!(unwrap_seq(0, 1, near), Some((7 << 32) + 1));
        assert_eq!(unwrap_seq(0, 0xffff_fff0, near), Some((7 << 32) - 16));
    }

    #[test]
    fn wire_keys_keep_rtn_bit() {
        assert_eq!(key_to_wire32(key_from_wire32(RTN_V3 | 77, 9)), RTN_V3 | 77);
        assert_eq!(key_to_wire32(key_from_wire32(77, 9)), 77);
        assert_ne!(key_from_wire32(77, 9), key_from_wire32(77, 8));
        assert_eq!(key_from_wire32(77, u32::MAX) & RTN, 0);
    }
}
