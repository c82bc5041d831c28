//! Header prediction: the packet that comes next where requests and replies alternate, in few steps and one place.
//!
//! A packet of an open association with one path, with one whole message behind an acknowledgement of all that is in
//! flight, differs from the one before in numbers that are known beforehand (the idea is Van Jacobson's, for TCP).
//! What is as predicted does here what the general way does; whatever is not is left to that, before anything changed.

use crate::association::{Association, State, Timer};
use crate::congestion::PathAck;
use crate::endpoint_state::{EndpointState, chunk_checksum};
use crate::numbers::Tsn;
use crate::path::{PathStatus, TimedChunk};
use crate::pdu::header::{PacketCheck, check_packet};
use crate::pdu::sack::{SACK_LEN, sack_bits};
use crate::pdu::{COMMON_HEADER_LEN, ChunkType, DATA_HEADER_LEN, I_DATA_HEADER_LEN};
use crate::procedure::data_receive::{self, PacketData};
use crate::procedure::{AckRequest, data_send, path_mtu, retransmission, window_probe};
use crate::tx::{ChunkStatus, OutChunk};
use congestion::{AckSample, PacketState, RttSample};
use core::ops::Range;
use engine::{Batch, Deliveries, Event, Framing, Instant, Integrity, Received, Store};

/// What a predicted packet says.
struct Predicted {
    /// Room at the peer, if it acknowledges what is in flight.
    acknowledged: Option<u32>,
    /// Where its user bytes lie.
    user: Range<usize>,
}

/// Handles `received` if it is the predicted packet of `a`; false if it is for the general way.
#[inline]
pub(crate) fn handle_packet(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    received: &Received<'_>,
    deliveries: &mut Deliveries,
) -> bool {
    #[cfg(test)]
    if ep.predictions.is_off {
        return false;
    }
    let packet = received.octets;
    if !is_usual(a) || a.paths[0].path != received.path || ep.config.framing != Framing::Messages {
        return false;
    }
    let Some(predicted) = parse(a, packet) else {
        return false;
    };
    let check = check_packet(packet, a.zero_checksum);
    if check != PacketCheck::Right && !(a.zero_checksum && check == PacketCheck::Zero) {
        return false;
    }
    let Some(ranges) = deliveries.whole_of(a.id) else {
        return false;
    };
    #[cfg(test)]
    {
        ep.predictions.received += 1;
    }
    ranges.push(predicted.user.start as u32..predicted.user.end as u32);
    if check == PacketCheck::Right {
        ep.counters.bytes_summed += packet.len() as u64;
    }
    if let Some(rwnd) = predicted.acknowledged {
        acknowledge(a, ep, now, rwnd);
    }
    let bytes = predicted.user.len() as u64;
    a.rx.take_expected(bytes);
    ep.counters.bytes_delivered += bytes;
    data_receive::end_packet(a, ep, now, &PacketData::of_message());
    data_send::mark_if_ready(a, ep);
    true
}

/// Whether the association is open, has one path, and neither authenticates nor interleaves.
fn is_usual(a: &Association) -> bool {
    a.state == State::Established
        && a.paths.len() == 1
        && a.auth.is_none()
        && !a.extensions.interleave
        && a.peer_is_open
}

/// The packet, if it is a SACK of all that is in flight, or none, and one message, the next of stream 0.
fn parse(a: &mut Association, packet: &[u8]) -> Option<Predicted> {
    let header =
        u64::from(a.peer_port.0) << 48 | u64::from(a.local_port.0) << 32 | u64::from(a.local_tag.0);
    if u64::from_be_bytes(*packet.first_chunk()?) != header {
        return None;
    }
    let mut at = COMMON_HEADER_LEN;
    let mut chunk = u128_at(packet, at)?;
    let mut acknowledged = None;
    if (chunk >> 120) as u8 == ChunkType::SACK.0 {
        let rwnd = (chunk >> 32) as u32;
        if rwnd == 0 || chunk != sack_bits(lone_in_flight(a)?, rwnd) {
            return None;
        }
        acknowledged = Some(rwnd);
        at += SACK_LEN;
        chunk = u128_at(packet, at)?;
    }
    let len = usize::from((chunk >> 96) as u16);
    let user_len = len.checked_sub(DATA_HEADER_LEN).filter(|len| *len > 0)?;
    let expected = a.rx.expected()?;
    let is_last = at + len <= packet.len() && at + len.next_multiple_of(4) >= packet.len();
    (is_last && chunk == expected.bits(user_len)).then_some(Predicted {
        acknowledged,
        user: at + DATA_HEADER_LEN..at + len,
    })
}

fn u128_at(packet: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?))
}

/// The TSN of the only chunk outstanding, if its acknowledgement means no more than that it arrived.
fn lone_in_flight(a: &Association) -> Option<Tsn> {
    let (tx, path) = (&a.tx, &a.paths[0]);
    let chunk = tx.outstanding.only()?;
    let is_plain = chunk.status == ChunkStatus::InFlight
        && !chunk.was_moved
        && tx.tracked.is_empty()
        && tx.recovery.is_none()
        && !tx.awaits_forward
        && !tx.reports_dry
        && tx.outstanding.highest_gap_acked <= tx.outstanding.first();
    let is_usual = path.status == PathStatus::Active
        && !path.control.measures()
        && a.addresses.wanted_primary.is_none();
    (is_plain && is_usual).then(|| tx.outstanding.first().tsn())
}

/// The peer has the only chunk outstanding, and room for `rwnd` octets.
fn acknowledge(a: &mut Association, ep: &mut EndpointState, now: Instant, rwnd: u32) {
    let tsn = a.tx.outstanding.first();
    let Some(chunk) = a.tx.outstanding.pop() else {
        return;
    };
    let octets = chunk.octets() as u64;
    let path = &mut a.paths[0];
    path.flight_before = path.flight;
    path.flight -= octets;
    path.newly_acked = octets;
    path.is_answered = true;
    path.highest_new = tsn;
    path.errors = 0;
    path.mtu.begin();
    path.is_in_use = true;
    path.after_timeout = false;
    path.delivered += octets;
    let sample = path.timed.take().map(|timed| RttSample {
        rtt: now.since(timed.sent_at),
        packet: timed.packet,
    });
    if let Some(sample) = sample {
        path.sample(sample.rtt);
    }
    let ack = PathAck {
        acked: octets,
        flight_before: path.flight_before,
        advances: true,
        in_recovery: false,
        all_acked: true,
    };
    let sample = AckSample {
        acked_bytes: octets,
        delivered_bytes: path.delivered,
        sent_bytes: path.sent,
        inflight_bytes: path.flight,
        rtt: sample,
    };
    path.control.on_ack(now, &ack, &sample);
    a.errors = 0;
    a.tx.rwnd = u64::from(rwnd).saturating_sub(path.flight);
    window_probe::cancel(a, ep);
    ep.cancel_timer(a.id, Timer::Retransmission(0));
    ep.events.push_back(Event::Released(a.id, chunk.range()));
}

/// Sends the only message that waits, if nothing is in flight, with an acknowledgement if one may travel; false if what
/// there is to send is for the general way.
#[inline]
pub(crate) fn transmit(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) -> bool {
    #[cfg(test)]
    if ep.predictions.is_off {
        return false;
    }
    let Some(message_len) = a.tx.lone_message() else {
        return false;
    };
    let header_len = a.tx.messages.rules().header_len;
    let octets = (header_len as u64 + message_len).next_multiple_of(4);
    let has_sack = a.rx.has_unsacked();
    let sack_len = if has_sack { SACK_LEN } else { 0 };
    if !may_leave(a, ep, now) || a.rx.has_gap() || !a.rx.duplicates().is_empty() {
        return false;
    }
    let full = a.pmdcs() as u64;
    if octets + sack_len as u64 > full || octets > a.tx.rwnd {
        return false;
    }
    let headers = (COMMON_HEADER_LEN + header_len) as u64;
    a.paths[0].mtu.want(message_len + headers);
    if path_mtu::due_path(a).is_some() {
        return false;
    }
    #[cfg(test)]
    {
        ep.predictions.sent += 1;
    }
    a.tx.messages.set_time(now);
    batch.set_path(a.paths[0].path, Some(a.id));
    let mut front = Front::new(&a.header().emit());
    if has_sack {
        front.push(&sack_bits(a.rx.cumulative(), a.rx.window()).to_be_bytes());
        a.rx.record_sack();
        ep.cancel_timer(a.id, Timer::Sack);
    }
    add_message(a, ep, now, (octets, full), (front, batch));
    ep.counters.packets_built += 1;
    retransmission::start_timer(a, ep, now, 0);
    true
}

/// The octets of a packet in front of its user bytes, in one piece.
struct Front {
    octets: [u8; COMMON_HEADER_LEN + SACK_LEN + I_DATA_HEADER_LEN],
    len: usize,
}

impl Front {
    fn new(header: &[u8; COMMON_HEADER_LEN]) -> Front {
        let mut octets = [0; COMMON_HEADER_LEN + SACK_LEN + I_DATA_HEADER_LEN];
        octets[..COMMON_HEADER_LEN].copy_from_slice(header);
        Front {
            octets,
            len: COMMON_HEADER_LEN,
        }
    }

    #[inline]
    fn push<const N: usize>(&mut self, octets: &[u8; N]) {
        self.octets[self.len..self.len + N].copy_from_slice(octets);
        self.len += N;
    }
}

/// Whether nothing but the peer's window could hold back data, and nothing else is to be sent.
fn may_leave(a: &Association, ep: &EndpointState, now: Instant) -> bool {
    let path = &a.paths[0];
    let bounds = &path.parameters.rto;
    let idle = now.since(path.last_sent_at);
    a.state == State::Established
        && a.paths.len() == 1
        && a.auth.is_none()
        && a.control.is_empty()
        && a.reconfig.is_idle()
        && ep.config.bundle
        && path.flight == 0
        && path.timed.is_none()
        && path.control.window() > 0
        && !path.control.measures()
        && idle < bounds.min.min(bounds.initial).min(bounds.max)
}

/// Cuts the message, which takes `octets` of the `full` ones of a packet, and puts it into `batch` behind `front`.
fn add_message(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (octets, full): (u64, u64),
    (mut front, batch): (Front, &mut Batch),
) {
    let window = data_send::window(a, ep, 0);
    let request = AckRequest::new(a, 0, (window, window.min(ep.config.send_buffer)), full);
    let tx = &mut a.tx;
    let header_len = tx.messages.rules().header_len;
    let Some(cut) = tx.messages.cut_whole(octets as usize) else {
        return;
    };
    let len = cut.range.end - cut.range.start;
    let tsn = tx.outstanding.next();
    let chunk = OutChunk::new(&cut, tsn, 0, header_len);
    tx.rwnd -= octets;
    tx.unasked += octets;
    let asks = request.flag((octets, tx.rwnd), &mut tx.unasked, false);
    let header = chunk.header(tsn, asks);
    front.push(&header.front.to_be_bytes());
    if let Some(back) = header.back {
        front.push(&back.to_be_bytes());
    }
    let padding = (octets - header_len as u64 - len) as usize;
    let mut packet = batch.begin();
    packet.add_own(&front.octets[..front.len]);
    packet.add_user(Store::Association(a.id), cut.range);
    packet.add_own(&[0; 3][..padding]);
    packet.end(match a.zero_checksum {
        true => Integrity::None,
        false => Integrity::Crc32c {
            at: chunk_checksum(),
        },
    });
    tx.outstanding.push(chunk);
    tx.probes_window = false;
    let path = &mut a.paths[0];
    path.flight = octets;
    path.sent += octets;
    path.last_sent_at = now;
    path.timed = Some(TimedChunk {
        tsn,
        is_acked: false,
        sent_at: now,
        packet: PacketState::default(),
    });
    ep.counters.bytes_sent += len;
}

#[cfg(test)]
mod tests;

/// What tests want of it, and know.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Predictions {
    /// Everything goes the general way.
    is_off: bool,
    /// Packets that came, and that left, as predicted.
    received: u64,
    sent: u64,
}
