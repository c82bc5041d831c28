//! Sending and receiving user bytes.

use crate::endpoint::Bare;
use crate::pdu::{BareHeader, HEADER_LEN, PacketType};
use crate::procedure::finish;
use crate::state::{Association, AssociationState, Timer};
use core::ops::Range;
use engine::{
    AssociationId, Batch, Bytes, CloseReason, Delivery, Event, Instant, Integrity, Note, Store,
};

/// Fills `batch` with the packets that association `id` may send now, or with an acknowledgement
/// alone if one is due.
pub(crate) fn do_transmit(bare: &mut Bare, now: Instant, id: AssociationId, batch: &mut Batch) {
    let payload_max = (bare.config.packet_len - HEADER_LEN) as u64;
    let window = bare.config.window;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    if association.state != AssociationState::Open {
        return;
    }
    batch.set_path(association.peer, Some(id));
    let released = association.tx.sent;
    while batch.room() > 0 {
        let Some(payload) = next_payload(association, payload_max, window) else {
            break;
        };
        // Packets end at segment boundaries of the store. A packet that begins between two
        // boundaries is short, and a short packet is the last of its batch (0002, Data).
        let whole = payload.end - payload.start == payload_max;
        let header = header(association, PacketType::Data, payload.start).emit();
        let store = Store::Association(id);
        batch.push(&header, store, payload.clone(), Integrity::None);
        association.tx.sent = payload.end;
        bare.counters.packets_built += 1;
        bare.counters.bytes_sent += payload.end - payload.start;
        if !whole {
            break;
        }
    }
    complete_batch(bare, now, id, released, batch);
}

/// The payload of the next packet: up to the next segment boundary of the store.
fn next_payload(association: &Association, payload_max: u64, window: u64) -> Option<Range<u64>> {
    let tx = &association.tx;
    let boundary = (tx.sent / payload_max + 1) * payload_max;
    let limit = tx.end.min(tx.acknowledged + window);
    let end = boundary.min(limit);
    let whole_segment = end == boundary;
    let pushed = end == tx.end && tx.pushed >= end;
    (end > tx.sent && (whole_segment || pushed)).then_some(tx.sent..end)
}

/// Ends a batch before which the store was released up to `released`.
fn complete_batch(
    bare: &mut Bare,
    now: Instant,
    id: AssociationId,
    released: u64,
    batch: &mut Batch,
) {
    let rto = bare.config.rto;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    let sent = association.tx.sent;
    if batch.is_empty() {
        if finish::is_final_due(association) {
            return finish::do_final(bare, now, id, batch);
        }
        if !association.rx.ack_due {
            return;
        }
        batch.push_own(&header(association, PacketType::Data, sent).emit());
        bare.count_built(sent..sent);
    } else {
        // Data are never retransmitted, so the store may drop them at once.
        bare.events.push_back(Event::Released(id, released..sent));
        if !bare.timers.is_set((id, Timer::Loss)) {
            bare.set_timer(id, Timer::Loss, now + rto);
        }
    }
    record_ack_sent(bare, id);
    bare.mark_ready(id);
    finish::close_if_done(bare, id);
}

/// Notes that a packet was sent: every packet carries an acknowledgement.
pub(crate) fn record_ack_sent(bare: &mut Bare, id: AssociationId) {
    if let Some(association) = bare.associations.get_mut(&id) {
        association.rx.last_acknowledged = association.rx.position();
        association.rx.ack_due = false;
        bare.timers.cancel((id, Timer::Ack));
    }
}

pub(crate) fn header(association: &Association, kind: PacketType, position: u64) -> BareHeader {
    BareHeader {
        packet_type: kind,
        receiver_id: association.peer_id,
        position,
        acknowledged: association.rx.position(),
    }
}

/// Largest position: 2^62 bytes are 46 years at 25 Gbit/s, and sums of two positions still fit into
/// 64 bits.
const POSITION_MAX: u64 = 1 << 62;

/// Processes the user bytes of a packet. Bytes below the expected position are late or duplicates:
/// they were counted as lost when the gap was seen (0002, Receiving).
pub(crate) fn handle_data(
    bare: &mut Bare,
    now: Instant,
    header: &BareHeader,
    payload_len: usize,
    deliveries: &mut Vec<Delivery>,
) -> Option<()> {
    let id = AssociationId(header.receiver_id);
    let ack_at = now + bare.config.ack_delay;
    let window = bare.config.window;
    let association = bare.associations.get_mut(&id)?;
    let is_final = header.packet_type == PacketType::Final;
    if payload_len == 0 && !is_final {
        return Some(());
    }
    let end = header.position.checked_add(payload_len as u64)?;
    if end > POSITION_MAX {
        return None;
    }
    if association.rx.is_full {
        return None;
    }
    // A peer that ignores the window must not fill memory: 0002, Receiving.
    if association.rx.unread + payload_len as u64 > 2 * window {
        return None;
    }
    if header.position < association.rx.expected || association.rx.finished {
        association.rx.ack_due = true;
        bare.mark_ready(id);
        return if is_final { Some(()) } else { None };
    }
    let gap = header.position - association.rx.expected;
    association.rx.expected = end;
    association.rx.unread += payload_len as u64;
    bare.counters.count_gap(gap);
    if payload_len > 0 {
        bare.counters.bytes_delivered += payload_len as u64;
        deliveries.push(Delivery {
            association: id,
            bytes: Bytes::Packet(HEADER_LEN..HEADER_LEN + payload_len),
            begin_tag: false,
            end_tag: false,
            gap: gap > 0,
            end_of_message: false,
            note: Note::default(),
        });
        if !bare.timers.is_set((id, Timer::Ack)) {
            bare.set_timer(id, Timer::Ack, ack_at);
        }
    }
    if is_final {
        finish::handle_final(bare, id);
    }
    Some(())
}

/// The loss timer expired: without a packet of the peer for an RTO, bytes in flight are considered
/// lost and the window opens again (0002, Loss timeout).
pub(crate) fn handle_loss_timeout(bare: &mut Bare, now: Instant, id: AssociationId) {
    let rto = bare.config.rto;
    let retries_max = bare.config.retries_max;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    if association.tx.bytes_in_flight() == 0 {
        return;
    }
    if now.since(association.last_received_at) >= rto {
        association.tx.acknowledged = association.tx.sent;
        association.tx.retries += 1;
        if association.tx.retries > retries_max {
            return bare.remove(id, CloseReason::TimedOut);
        }
        return bare.mark_ready(id);
    }
    let at = association.last_received_at + rto;
    bare.set_timer(id, Timer::Loss, at);
}
