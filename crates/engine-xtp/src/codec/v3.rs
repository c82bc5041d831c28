//! XTP 3.x: translation between its packets and those of 4.0, which the procedures use.
//!
//! The procedures use 64-bit positions from 0 and the control packets of 4.0. On the wire, 3.x has
//! 32-bit sequence numbers that wrap, and control packets that carry everything each time (0008).

use crate::config::RateLimit;
use crate::numbers::SyncNumber;
use crate::pdu::v3::{
    BodyV3, ControlSegmentV3, HeaderV3, PacketKind, PacketV3, RTN_V3, ResendPairs,
    emit_first_segment, padding_len,
};
use crate::pdu::{
    AddressSegment, Body, CommonControl, Format, Header, Options, Packet, RTN, TrafficSpec,
    UNLIMITED, Version,
};
use core::ops::Range;
use engine::{Batch, Integrity, Store};

/// Writes the packets of an endpoint's version of 3.x.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodecV3 {
    pub(super) version: Version,
    /// Routers that a packet may pass.
    pub(super) hop_limit: u8,
    /// Longest user data that this side accepts in a packet.
    pub(super) maxdata: u16,
}

/// Header and control fields that 3.x has in addition to 4.0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderContext {
    /// Wire number of the first byte, in both directions.
    pub(crate) seq_base: u32,
    /// The route field of the header.
    pub(crate) route: u32,
    /// The user consumed everything below.
    pub(crate) dseq: u64,
    /// The key of this side; 0 in groups, where keys are not exchanged.
    pub(crate) key: u64,
    /// The sync that a DIAG returns: the last one received, or this side's before the first.
    pub(crate) returned_sync: SyncNumber,
    /// The rate that this side accepts.
    pub(crate) accepted_rate: Option<RateLimit>,
    /// Control packets carry all sixteen resend pairs; not to an unvalidated address.
    pub(crate) fixed_pairs: bool,
}

impl HeaderContext {
    fn wire_seq(&self, position: u64) -> u32 {
        self.seq_base.wrapping_add(position as u32)
    }
}

/// A key in 32 bits, with RTN in the top bit.
fn key_to_wire32(key: u64) -> u32 {
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
pub(super) fn to_v4_header(header: &HeaderV3) -> Option<Header> {
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
        key: key_from_wire32(header.key, header.route),
        options: header.options,
        format,
        dlen: header.dlen - u32::from(header.pad_front) - u32::from(header.pad_back),
        check: 0,
        sort: u16::try_from(header.sort).unwrap_or(u16::MAX),
        sync: header.sync,
        seq: u64::from(header.seq),
    })
}

impl CodecV3 {
    fn header(&self, header: &Header, kind: PacketKind, context: &HeaderContext) -> HeaderV3 {
        HeaderV3 {
            options: header.options,
            key: key_to_wire32(header.key),
            seq: context.wire_seq(header.seq),
            dseq: context.wire_seq(context.dseq),
            sync: header.sync,
            sort: u32::from(header.sort),
            ..HeaderV3::plain(kind, context.route, self.hop_limit)
        }
    }

    /// Encodes `packet`, which has no user bytes.
    pub(super) fn emit(&self, packet: &Packet<'_>, context: &HeaderContext) -> Vec<u8> {
        let mut pairs = Vec::new();
        let body = match packet.body {
            Body::Data { data } => BodyV3::Data(data),
            Body::Diag(diag) => BodyV3::Diag(diag),
            Body::First {
                address,
                traffic,
                data,
                ..
            } => BodyV3::First {
                address,
                traffic,
                data,
            },
            Body::Ecntl(common, spans) => {
                for span in spans.iter() {
                    pairs.extend(context.wire_seq(span.left).to_be_bytes());
                    pairs.extend(context.wire_seq(span.right).to_be_bytes());
                }
                self.control_segment(&common, context, &pairs)
            }
            Body::Cntl(common) | Body::Tcntl { common, .. } | Body::Jcntl { common, .. } => {
                self.control_segment(&common, context, &[])
            }
        };
        let mut header = self.header(&packet.header, body.kind(), context);
        if header.kind == PacketKind::Diag {
            header.sync = context.returned_sync;
        }
        PacketV3 { header, body }.emit(self.version)
    }

    /// Encodes a PATH to `address`.
    pub(crate) fn emit_path(
        &self,
        header: &Header,
        address: AddressSegment<'_>,
        context: &HeaderContext,
    ) -> Vec<u8> {
        let header = self.header(header, PacketKind::Path, context);
        let body = BodyV3::Path(address);
        PacketV3 { header, body }.emit(self.version)
    }

    fn control_segment<'a>(
        &self,
        common: &CommonControl,
        context: &HeaderContext,
        pairs: &'a [u8],
    ) -> BodyV3<'a> {
        let rate = context.accepted_rate;
        let (rate, burst) = rate.map_or((UNLIMITED, UNLIMITED), |limit| {
            (limit.rate_bytes_per_s, limit.burst_bytes)
        });
        let control = ControlSegmentV3 {
            rseq: context.wire_seq(common.rseq),
            alloc: context.wire_seq(common.alloc),
            echo: common.echo,
            rate,
            burst,
            xkey: key_to_wire32(context.key),
            maxdata: self.maxdata,
            reserved: [0; 4],
        };
        let pairs = ResendPairs::new(pairs, context.fixed_pairs).unwrap_or(ResendPairs::EMPTY);
        BodyV3::Cntl(control, pairs)
    }

    /// Puts a DATA packet with the bytes of a store into the batch.
    pub(super) fn push_data(
        &self,
        batch: &mut Batch,
        header: &Header,
        context: &HeaderContext,
        user: (Store, Range<u64>),
    ) {
        let header = self.header(header, PacketKind::Data, context);
        self.push(batch, header, &[], user, 0);
    }

    /// Puts a FIRST into the batch. It is padded to the length of the control packet that answers it
    /// (0008, The packets).
    pub(super) fn push_first(
        &self,
        batch: &mut Batch,
        header: &Header,
        context: &HeaderContext,
        (address, traffic): (&AddressSegment<'_>, &TrafficSpec),
        (store, bytes): (Store, Range<u64>),
    ) {
        let mut opening = Vec::new();
        emit_first_segment(address, traffic, &mut opening);
        let segment_len = opening.len() + (bytes.end - bytes.start) as usize;
        let least = self.version.control_len().saturating_sub(segment_len);
        let header = self.header(header, PacketKind::First, context);
        self.push(batch, header, &opening, (store, bytes), least.min(12));
    }

    /// Puts a packet into the batch whose middle segment is `opening` and the bytes of a store, padded by `least` octets
    /// at least.
    fn push(
        &self,
        batch: &mut Batch,
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
        let mut octets = head.emit(self.version);
        octets.extend_from_slice(opening);
        let tail = [0; 20];
        let summed = !header.options.has(Options::NOCHECK);
        let from = summed.then_some(self.version.header_len() as u8);
        let integrity = from.map_or(Integrity::None, |from| Integrity::Cxor { from });
        let builder = batch.begin().own(&octets).user(store, bytes);
        builder.own(&tail[..back + 4]).end(integrity);
    }
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
