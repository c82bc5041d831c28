//! Packets of a group in XTP 3.5 and 3.6: MULTI on all of them, status requests in CNTL alone, no exchange of keys.

use super::config::Config;
use crate::codec::v3::{key_to_wire32, push_segment};
use crate::pdu::v3::{BodyV3, ControlSegmentV3, HeaderV3, PacketKind, PacketV3, ResendPairs};
use crate::pdu::{Body, CommonControl, Header, UNLIMITED};
use core::ops::Range;
use engine::{Batch, Store};

/// Routers that a packet may pass: none, as no intermediate system forwards groups.
const HOP_LIMIT: u8 = 1;

/// The octets of a packet without user bytes; `dseq` is that of its sender as a receiver.
pub(super) fn control_octets(
    config: &Config,
    header: &Header,
    dseq: u64,
    body: &Body<'_>,
) -> Vec<u8> {
    let body = match *body {
        Body::Data { data } => BodyV3::Data(data),
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
        Body::Diag(diag) => BodyV3::Diag(diag),
        Body::Cntl(common)
        | Body::Ecntl(common, _)
        | Body::Tcntl { common, .. }
        | Body::Jcntl { common, .. } => control_segment(config, &common),
    };
    let header = HeaderV3 {
        dseq: dseq as u32,
        ..header_of(body.kind(), header)
    };
    PacketV3 { header, body }.emit(config.version)
}

fn header_of(kind: PacketKind, header: &Header) -> HeaderV3 {
    HeaderV3 {
        options: header.options,
        key: key_to_wire32(header.key),
        seq: header.seq as u32,
        sync: header.sync,
        ..HeaderV3::plain(kind, 0, HOP_LIMIT)
    }
}

fn control_segment<'a>(config: &Config, common: &CommonControl) -> BodyV3<'a> {
    let (rate, burst) = config.rate.map_or((UNLIMITED, UNLIMITED), |limit| {
        (limit.rate_bytes_per_s, limit.burst_bytes)
    });
    let control = ControlSegmentV3 {
        rseq: common.rseq as u32,
        alloc: common.alloc as u32,
        echo: common.echo,
        rate,
        burst,
        // Keys are not exchanged in a group.
        xkey: 0,
        maxdata: config.version.payload_max(config.packet_len) as u16,
        reserved: [0; 4],
    };
    BodyV3::Cntl(control, ResendPairs::EMPTY)
}

/// Puts a DATA packet with `bytes` of `store` into the batch.
pub(super) fn push_data(
    config: &Config,
    batch: &mut Batch,
    header: &Header,
    store: Store,
    bytes: Range<u64>,
) {
    let head = header_of(PacketKind::Data, header);
    push_segment(batch, config.version, head, &[], (store, bytes), 0);
}
