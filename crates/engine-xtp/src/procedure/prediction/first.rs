//! FIRST that calls the same peer for the same service as the last one that was sent, with all bytes there are.
//!
//! Where a caller asks one service, its openings differ in their keys and user bytes alone: what stands between header and
//! user bytes was built just before, and its sum is known.

use super::{KeptSegments, SEGMENTS_MAX};
use crate::codec::internet_checksum;
use crate::context::Context;
use crate::endpoint_state::{EndpointState, plain_header};
use crate::opening::{ContextState, FirstPacket, OpenReport};
use crate::pdu::{Format, HEADER_LEN, Header, Service};
use crate::procedure::association_setup::{FIRST_DATA_MIN, first_options};
use crate::procedure::{data_send, path_mtu, status_request};
use engine::{Address, Batch, Instant, Store, checksum};

/// What the last FIRST of 4.0 that was sent had between its header and its user bytes: an address segment and a traffic
/// specifier without limits.
#[derive(Debug, Default)]
pub(crate) struct CalledSegments {
    /// Whom it called, and for what.
    called: Option<(Address, Service)>,
    segments: KeptSegments,
    /// Ones' complement sum of them.
    sum: u16,
}

impl CalledSegments {
    /// A FIRST to this peer, for this service, was built with these segments.
    pub(crate) fn record(&mut self, called: (Address, Service), segments: &[u8]) {
        self.called = self.segments.keep(segments).then_some(called);
        self.sum = checksum::sum(segments);
    }
}

/// Whether all that waits fits into such a FIRST, which was not sent before.
#[inline]
pub(super) fn may_open(ctx: &Context, ep: &EndpointState) -> bool {
    let first = FirstPacket::Due;
    let explicit = false;
    let queue = &ctx.tx.queue;
    let len = queue.submitted;
    ctx.state == ContextState::Opening { first, explicit }
        && ep.called_segments.called == Some((ctx.peer, ctx.service))
        && ctx.service != Service::Datagram
        && ctx.open_report != OpenReport::AwaitingAdmission
        && ctx.route.is_none()
        && ctx.tx.handshake.is_none()
        && !ctx.pending.is_any()
        && !ctx.pending.deferred
        && queue.message_ends.first().is_none()
        && queue.begin_tags.is_empty()
        && queue.end_tags.is_empty()
        && (FIRST_DATA_MIN..=queue.alloc).contains(&len)
        && HEADER_LEN + ep.called_segments.segments.len + len as usize
            <= path_mtu::first_len_max(ctx, ep)
}

/// Puts FIRST with all user bytes into `batch`.
#[inline]
pub(super) fn push(ctx: &mut Context, ep: &mut EndpointState, now: Instant, batch: &mut Batch) {
    let data_len = ctx.tx.queue.submitted;
    ctx.tx.queue.next_seq = data_len;
    let options = first_options(ctx, data_len);
    let sync = status_request::packet_sync(ctx, ep, now, options);
    let CalledSegments { segments, sum, .. } = &ep.called_segments;
    let len = HEADER_LEN + segments.len;
    let header = Header {
        options,
        sync,
        sort: ctx.sort.unwrap_or(0),
        dlen: (segments.len as u64 + data_len) as u32,
        ..plain_header(ctx.key.field(), Format::First)
    };
    let mut octets = [0; HEADER_LEN + SEGMENTS_MAX];
    octets[..HEADER_LEN].copy_from_slice(&header.emit_with_sum(*sum));
    octets[HEADER_LEN..].copy_from_slice(&segments.octets);
    batch.set_path(ctx.peer, Some(ctx.id));
    let user = 0..data_len;
    batch.push(
        &octets[..len],
        Store::Association(ctx.id),
        user,
        internet_checksum(true),
    );
    let first = FirstPacket::Sent(data_len);
    let explicit = false;
    ctx.state = ContextState::Opening { first, explicit };
    data_send::account_packet(ctx, ep, options, len, data_len, len as u64 + data_len);
}
