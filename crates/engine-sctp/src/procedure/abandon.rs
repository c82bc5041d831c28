//! Messages that this end gives up, and how the peer learns it (RFC 3758 section 3.5, RFC 7496, RFC 8260
//! section 2.3).
//!
//! Whether a message is given up is asked before any of it is sent, and when a chunk of it was lost and
//! would be sent again; a chunk on its way is not called back.

use crate::association::{Association, Timer};
use crate::endpoint_state::EndpointState;
use crate::numbers::{LongTsn, StreamId};
use crate::pdu::ChunkType;
use crate::pdu::data::FLAG_UNORDERED;
use crate::pdu::forward_tsn::{FORWARD_TSN_LEN, SkippedStream, entry_len, push_forward_tsn};
use crate::procedure::{path_management, shutdown};
use crate::tx::{ChunkStatus, Tracked};
use engine::{AbandonedMessage, Event, Instant, Reliability};
use std::collections::BTreeMap;

/// Before packets are made: messages whose chunks are not to be sent again are given up, and the peer
/// is told.
pub(crate) fn before_transmit(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    a.tx.messages.set_time(now);
    if !a.extensions.partial_reliability {
        return;
    }
    if !a.tx.tracked.is_empty() {
        give_up_lost(a, ep, now);
        while let Some(start) = a.tx.messages.overdue() {
            let last = LongTsn(a.tx.outstanding.next().0 - 1);
            give_up(a, ep, (start, last));
        }
    }
    if a.tx.outstanding.abandoned_up_to() > Some(a.tx.forwarded) {
        send_forward_tsn(a, ep, now);
    }
}

/// After packets were made: what was not sent is reported, and waits for its time to end.
pub(crate) fn after_transmit(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    report_dropped(a, ep, now);
    if let Some(at) = a.tx.messages.next_deadline().filter(|at| *at > now) {
        ep.set_timer(a.id, Timer::Lifetime, at);
    }
}

/// Messages that were given up before anything of them was sent.
pub(crate) fn report_dropped(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let mut has_dropped = false;
    while let Some(dropped) = a.tx.messages.pop_dropped() {
        has_dropped = true;
        let message = AbandonedMessage {
            range: dropped.range,
            note: dropped.note,
            was_sent: false,
            is_whole: true,
        };
        ep.events.push_back(Event::Abandoned(a.id, message));
    }
    if has_dropped {
        shutdown::progress(a, ep, now);
    }
}

/// A message with this reliability was submitted: while the send buffer is full, messages of higher
/// values that wait are given up (RFC 7496 section 4.3).
pub(crate) fn make_room(a: &mut Association, ep: &mut EndpointState, now: Instant, value: u16) {
    if !a.extensions.partial_reliability {
        return;
    }
    while a.tx.bytes_unacknowledged() > ep.config.send_buffer && a.tx.messages.drop_above(value) {}
    report_dropped(a, ep, now);
}

/// Gives up the messages of lost chunks that are not to be sent again.
fn give_up_lost(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let mut from = a.tx.outstanding.next_marked();
    while let Some(tsn) = from {
        let chunk = a.tx.outstanding.get(tsn);
        let (start, retransmissions) = chunk.map_or((0, 0), |it| (it.start, it.retransmissions));
        let tracked = a.tx.tracked_of(start);
        if let Some(tracked) = tracked.filter(|it| is_over(it, retransmissions, now)) {
            let first = tracked.range.start;
            give_up(a, ep, (first, tsn));
        }
        from = a.tx.outstanding.next_marked_after(tsn);
    }
}

/// Whether a chunk of the message that was lost, and sent again so often, is not sent once more.
fn is_over(message: &Tracked, retransmissions: u16, now: Instant) -> bool {
    message.has_end
        && match message.note.reliability {
            Reliability::Lifetime(_) => message.deadline.is_some_and(|at| at <= now),
            Reliability::Retransmissions(limit) => u32::from(retransmissions) >= limit,
            Reliability::Full | Reliability::Priority(_) => false,
        }
}

/// The message at `start` of the store is given up. Its first chunk lies at `tsn` or before.
fn give_up(a: &mut Association, ep: &mut EndpointState, (start, tsn): (u64, LongTsn)) {
    let Some(message) = a.tx.tracked.remove(&start) else {
        return;
    };
    let mut first = None;
    for (tsn, chunk) in a.tx.outstanding.abandon(tsn, &message.range) {
        first.get_or_insert(chunk.start);
        let path = &mut a.paths[usize::from(chunk.path)];
        if chunk.status == ChunkStatus::InFlight {
            path.flight -= chunk.octets() as u64;
        }
        // Its acknowledgement would say that it was passed over.
        path.timed.take_if(|timed| timed.tsn == tsn);
    }
    let rest = a.tx.messages.drop_rest(start);
    if let Some(rest) = &rest {
        // The peer may get all that was sent, and wait for the rest: a TSN stands for it.
        a.tx.outstanding.push_abandoned(rest);
    }
    let rest_start = rest.map(|rest| rest.range.start);
    let from = first.or(rest_start).unwrap_or(message.range.end);
    let message = AbandonedMessage {
        range: from..message.range.end,
        note: message.note,
        was_sent: true,
        is_whole: from == message.range.start,
    };
    ep.events.push_back(Event::Abandoned(a.id, message));
}

/// After an acknowledgement: a peer that does not know yet what was given up is told again, once a
/// round trip.
pub(crate) fn after_sack(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let Some(up_to) = a.tx.outstanding.abandoned_up_to() else {
        if core::mem::take(&mut a.tx.awaits_forward) {
            ep.cancel_timer(a.id, Timer::ForwardTsn);
        }
        return;
    };
    let srtt = a.paths[a.data_path()].srtt();
    if up_to > a.tx.forwarded || now.since(a.tx.forwarded_at) >= srtt {
        send_forward_tsn(a, ep, now);
    }
}

/// The peer did not answer in time.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if a.tx.outstanding.abandoned_up_to().is_none() || !a.may_send_data() {
        return;
    }
    path_management::count_path_error(a, ep, a.data_path());
    path_management::count_association_error(a, ep);
    if !a.is_gone() {
        ep.counters.retransmissions += 1;
        send_forward_tsn(a, ep, now);
    }
}

/// Tells the peer which chunks it is not to wait for.
fn send_forward_tsn(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let interleaved = a.extensions.interleave;
    let room = a.pmdcs() - FORWARD_TSN_LEN;
    let Some((up_to, streams)) = skipped(a, room / entry_len(interleaved)) else {
        return;
    };
    let mut chunk = Vec::new();
    push_forward_tsn(&mut chunk, interleaved, up_to.tsn(), streams.into_iter());
    let kinds = [ChunkType::FORWARD_TSN, ChunkType::I_FORWARD_TSN];
    a.control
        .retain(|waiting| !kinds.contains(&ChunkType(waiting.octets[0])));
    let path = a.data_path();
    if a.queue_control(path, chunk) {
        a.tx.forwarded = up_to;
        a.tx.forwarded_at = now;
    }
    a.tx.awaits_forward = true;
    ep.set_timer(a.id, Timer::ForwardTsn, now + a.rto(path));
    ep.mark_ready(a.id);
}

/// The chunks given up in front of all others: the last of them, and the last message of each stream
/// among them, of as many streams as fit. Unordered messages in DATA have no number.
fn skipped(a: &Association, entries_max: usize) -> Option<(LongTsn, Vec<SkippedStream>)> {
    let interleaved = a.extensions.interleave;
    let mut streams = BTreeMap::new();
    let mut up_to = None;
    for (tsn, chunk) in a.tx.outstanding.abandoned_in_front() {
        let unordered = chunk.flags & FLAG_UNORDERED != 0;
        let key = (chunk.stream.0, unordered);
        let is_named = interleaved || !unordered;
        if is_named && streams.len() >= entries_max && !streams.contains_key(&key) {
            break;
        }
        if is_named {
            streams.insert(key, chunk.number);
        }
        up_to = Some(tsn);
    }
    let streams = streams.into_iter();
    let entries = streams.map(|((stream, unordered), number)| SkippedStream {
        stream: StreamId(stream),
        unordered,
        number,
    });
    Some((up_to?, entries.collect()))
}

/// The association ended: each message that the peer does not have for certain is reported, in the
/// order of the store (RFC 9260 section 11.1, L and M).
pub(crate) fn report_unacknowledged(a: &mut Association, ep: &mut EndpointState) {
    let mut sent: BTreeMap<u64, AbandonedMessage> = BTreeMap::new();
    for chunk in a.tx.outstanding.take_chunks() {
        if chunk.status == ChunkStatus::Abandoned {
            continue;
        }
        let known = a.tx.tracked_of(chunk.start);
        let note = known.map_or_else(|| chunk.note(), |tracked| tracked.note);
        let range = chunk.range();
        let before = sent.range_mut(..range.start).next_back();
        match before.filter(|(_, message)| message.range.end == range.start && !chunk.is_begin()) {
            Some((_, message)) => message.range.end = range.end,
            None => {
                let message = AbandonedMessage {
                    range: range.clone(),
                    note,
                    was_sent: true,
                    is_whole: chunk.is_begin(),
                };
                sent.insert(range.start, message);
            }
        }
    }
    for (dropped, begun) in a.tx.messages.take_unsent() {
        let known = a.tx.tracked_of(dropped.range.start).filter(|_| begun);
        let known = known.map(|tracked| tracked.note);
        let before = sent.range_mut(..dropped.range.start).next_back();
        match before.filter(|(_, it)| begun && it.range.end == dropped.range.start) {
            Some((_, message)) => message.range.end = dropped.range.end,
            None => {
                let message = AbandonedMessage {
                    range: dropped.range.clone(),
                    note: known.unwrap_or(dropped.note),
                    was_sent: begun,
                    is_whole: !begun,
                };
                sent.insert(dropped.range.start, message);
            }
        }
    }
    let messages = sent.into_values();
    ep.events
        .extend(messages.map(|message| Event::Abandoned(a.id, message)));
}
