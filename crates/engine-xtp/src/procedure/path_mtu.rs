//! How long the packets of an association may be (RFC 1191, RFC 4821, RFC 8899).
//!
//! The host names the MTU of the route when an association begins, and again when it refused a
//! packet. What neither route nor host knows, losses tell: packets become shorter when the first
//! missing one was lost again and again, while short packets and their answers passed. They never
//! become longer again, and never shorter than every path must carry.

use crate::context::Context;
use crate::endpoint::Xtp;
use crate::endpoint_state::EndpointState;
use crate::pdu::Span;
use core::net::SocketAddr;
use core::ops::Range;
use engine::{Address, PathError, PathFault};
use std::collections::VecDeque;

/// UDP payload that every path of IPv6 carries in one piece: 1,280 octets (RFC 8200 section 5) less
/// 48 of headers. Of IPv4 nearly every path does.
const LEN_MIN_V6: usize = 1232;

/// UDP payload that every host takes over IPv4: 576 octets (RFC 1122 section 3.3.2) less 28.
const LEN_MIN_V4: usize = 548;

/// Lengths that are tried in black holes: a tunnel's over an Ethernet, of either family, then those
/// that must pass.
const PROBE_LENS: [usize; 3] = [1352, LEN_MIN_V6, LEN_MIN_V4];

/// Losses in a row of one packet after which its length is the likely reason. A path that loses one
/// packet in twenty at random does that to one in 160,000.
const LOSSES_MAX: u32 = 4;

/// The same while other long packets may have arrived: nearly never at random.
const LOSSES_MAX_BESIDE_LONG: u32 = 8;

/// From this try on FIRST has no more data than every path carries.
const SHORT_FIRST_FROM_TRY: u32 = 2;

/// Long reports of gaps in a row, without data between them, after which they become short. A report
/// is lost now and then; each brings retransmissions.
const REPORTS_WITHOUT_DATA_MAX: u32 = 2;

/// Octets of the longest packet that every path to `peer` carries.
fn packet_len_min(peer: Address) -> usize {
    match peer {
        Address::Socket(SocketAddr::V6(_)) => LEN_MIN_V6,
        Address::Socket(SocketAddr::V4(_)) | Address::Station(_) | Address::Ether(_) => LEN_MIN_V4,
    }
}

/// A path did not carry a packet. A report from the network can be forged, and timers find out what is
/// lost; that it was too long is acted on if this host says so.
pub(crate) fn handle_path_error(xtp: &mut Xtp, fault: PathFault<'_>) {
    let PathError::TooBig(octets) = fault.error else {
        return;
    };
    if !fault.quoted.is_empty() {
        return;
    }
    for ctx in xtp.table.contexts_mut() {
        if ctx.peer == fault.path.remote {
            lower(ctx, &xtp.state, usize::from(octets));
        }
    }
}

/// The host knows how long packets may be. The store is cut accordingly before its first byte.
pub(crate) fn do_set(ctx: &mut Context, ep: &EndpointState, octets: usize) {
    lower(ctx, ep, octets);
    if ctx.tx.queue.submitted == 0 {
        ctx.tx.path.slot = ep.payload_of(ctx.tx.path.packet_len);
    }
}

/// The path carries packets of `octets` in one piece.
fn lower(ctx: &mut Context, ep: &EndpointState, octets: usize) {
    let octets = octets.max(packet_len_min(ctx.peer));
    let path = &mut ctx.tx.path;
    if octets >= path.packet_len {
        return;
    }
    path.packet_len = octets;
    path.forget_losses();
    ctx.tx.payload_max = ctx.tx.payload_max.min(ep.payload_of(octets));
}

/// The peer lacks the ranges `lost`; beyond them it has `spans`.
pub(crate) fn on_loss(
    ctx: &mut Context,
    ep: &EndpointState,
    lost: &VecDeque<Range<u64>>,
    spans: &[Span],
) {
    let least = packet_len_min(ctx.peer);
    let first = lost.front().cloned().unwrap_or_default();
    let longest = ctx.tx.payload_max;
    let lost_len = ep.packet_len(longest.min(first.end - first.start));
    if !ep.config.black_hole_detection || lost_len <= least {
        return;
    }
    let shorter = PROBE_LENS.iter().find(|len| **len < lost_len);
    let shorter = shorter.map_or(least, |len| (*len).max(least));
    let others_arrive = spans.iter().any(|span| span.right - span.left >= longest);
    let losses_max = match others_arrive {
        true => LOSSES_MAX_BESIDE_LONG,
        false => LOSSES_MAX,
    };
    if ctx.tx.path.count_loss(first.start) >= losses_max {
        lower(ctx, ep, shorter);
    }
}

/// Octets of the longest FIRST. When FIRST is not answered, its length may be the reason; what it
/// loses of its data is sent later.
pub(crate) fn first_len_max(ctx: &Context, ep: &EndpointState) -> usize {
    let tries = ctx.tx.handshake.map_or(0, |handshake| handshake.tries);
    let doubtful = ep.config.black_hole_detection && tries >= SHORT_FIRST_FROM_TRY;
    match doubtful && !ctx.is_one_way() {
        true => ctx.tx.path.packet_len.min(packet_len_min(ctx.peer)),
        false => ctx.tx.path.packet_len,
    }
}

/// Octets of the longest control packet. When reports of gaps bring no data, their length may be the
/// reason.
pub(crate) fn control_len_max(ctx: &Context, ep: &EndpointState) -> usize {
    let doubtful = ctx.rx.reports_without_data >= REPORTS_WITHOUT_DATA_MAX;
    match ep.config.black_hole_detection && doubtful {
        true => ctx.tx.path.packet_len.min(packet_len_min(ctx.peer)),
        false => ctx.tx.path.packet_len,
    }
}

/// A control packet of `len` octets leaves.
pub(crate) fn on_control_sent(ctx: &mut Context, len: usize) {
    if len > packet_len_min(ctx.peer) {
        ctx.rx.reports_without_data = ctx.rx.reports_without_data.saturating_add(1);
    }
}
