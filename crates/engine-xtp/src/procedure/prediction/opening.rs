//! FIRST that asks for the same as the last one that was accepted.
//!
//! Where a service answers requests, openings differ in their keys and user bytes alone: whom they call and what they ask
//! for was found right just before. Beyond that, such a FIRST is accepted by what accepts others.

use super::{KeptSegments, PLAIN, deliver};
use crate::config::FlowControl;
use crate::endpoint::Xtp;
use crate::numbers::{Key, SEQ_MAX, SyncNumber};
use crate::pdu::{
    FIRST_WORD, Format, HEADER_LEN, Header, Options, TrafficSpec, first_key, has_right_check,
};
use crate::procedure::association_accept::{self, Opening};
use crate::procedure::close_and_requests;
use engine::{Deliveries, Instant, Received};

/// Options of a FIRST with the beginning of a stream, or with all of it.
const USUAL: u32 = PLAIN | Options::WCLOSE.0 | Options::SREQ.0;

/// What the last FIRST of 4.0 that was accepted had between its header and its user bytes: an address segment, which calls
/// this side, and a traffic specifier.
#[derive(Debug, Default)]
pub(crate) struct LastOpening {
    segments: KeptSegments,
    traffic: Option<TrafficSpec>,
}

impl LastOpening {
    /// A FIRST with these segments, of which `traffic` is the second, was accepted.
    pub(crate) fn record(&mut self, segments: &[u8], traffic: &TrafficSpec) {
        self.traffic = self.segments.keep(segments).then_some(*traffic);
    }

    /// The traffic specifier, and how many octets both segments have, if `body` begins with the same ones and has user
    /// bytes behind them.
    #[inline]
    fn matching(&self, body: &[u8]) -> Option<(TrafficSpec, usize)> {
        let traffic = self.traffic?;
        let KeptSegments { octets, len } = &self.segments;
        let is_same = body.len() > *len && body[..*len] == octets[..*len];
        is_same.then_some((traffic, *len))
    }
}

/// Handles `received` if it is such a FIRST; false if it is for the general way.
#[inline]
pub(super) fn handle_packet(
    xtp: &mut Xtp,
    now: Instant,
    received: &Received<'_>,
    deliveries: &mut Deliveries,
) -> bool {
    let (from, packet) = (received.path.remote, received.octets);
    let Some(key) = first_key(packet).and_then(Key::stated) else {
        return false;
    };
    xtp.table.prefetch_opening(from, key.field());
    let Some(header) = usual_header(packet, key) else {
        return false;
    };
    let Some((traffic, len)) = xtp.state.last_opening.matching(&packet[HEADER_LEN..]) else {
        return false;
    };
    let start = HEADER_LEN + len;
    // The general way sums the packet again: so only what has room. A damaged packet looks for no key, which is remembered.
    if !has_room(xtp, &header, packet.len() - start)
        || !is_intact(packet, &header)
        || xtp.table.find_key(from, key.field(), None).is_some()
    {
        return false;
    }
    let opening = Opening {
        header: &header,
        traffic: &traffic,
        route: None,
        is_validated: false,
    };
    let Ok(slot) = association_accept::add(xtp, now, (from, key), &opening) else {
        return false;
    };
    #[cfg(test)]
    {
        xtp.state.predictions.opened += 1;
    }
    let Some(ctx) = xtp.table.context(slot) else {
        return false;
    };
    let ep = &mut xtp.state;
    ep.counters.bytes_summed += ep.codec.summed_len(header.options, packet);
    if let Some(limit) = &mut ctx.amplification_limit {
        limit.received_octets += packet.len() as u64;
    }
    deliveries
        .bytes
        .push(deliver(ctx, ep, &header, start..packet.len()));
    let end = ctx.rx.next_seq;
    // The stream has no end yet, and nothing beyond these bytes: it may end with them.
    let _ = close_and_requests::handle_close_and_requests(ctx, ep, now, &header, end);
    true
}

/// Whether the check of `packet` is right, which has this header.
#[inline]
fn is_intact(packet: &[u8], header: &Header) -> bool {
    let octets = packet.first_chunk();
    octets.is_some_and(|octets| has_right_check(octets, packet, header.options))
}

/// The header of `packet`, with `key`, if it has no options but the usual ones; its check is not looked at.
#[inline]
fn usual_header(packet: &[u8], key: Key) -> Option<Header> {
    let header: &[u8; HEADER_LEN] = packet.first_chunk()?;
    let (words, _) = header.as_chunks::<8>();
    let word = |at: usize| u64::from_be_bytes(words[at]);
    let (kind, check) = (word(1), word(2));
    let options = Options((kind >> 40) as u32);
    let is_usual = (kind >> 32) as u32 & !(USUAL << 8) == FIRST_WORD
        && kind as u32 as usize == packet.len() - HEADER_LEN;
    is_usual.then_some(Header {
        key: key.field(),
        options,
        format: Format::First,
        dlen: kind as u32,
        check: (check >> 48) as u16,
        sort: (check >> 32) as u16,
        sync: SyncNumber(check as u32),
        seq: word(3),
    })
}

/// Whether an association that begins with `len` bytes may be remembered, and takes all of them.
#[inline]
fn has_room(xtp: &Xtp, header: &Header, len: usize) -> bool {
    let (ep, config) = (&xtp.state, &xtp.state.config);
    ep.predicts
        && ep.listening
        && config.flow != FlowControl::Off
        && config.early_accept
        && xtp.unvalidated.len() < config.unvalidated_max
        && xtp.table.active() < config.associations_max
        && header.seq.saturating_add(len as u64) <= SEQ_MAX
        && len as u64 <= association_accept::stateless_alloc(ep)
}
