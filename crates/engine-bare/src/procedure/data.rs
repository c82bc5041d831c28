//! Sending and receiving user bytes.

use crate::association::Bare;
use crate::pdu::{HEADER_LEN, Header, Kind};
use crate::procedure::finish;
use crate::state::{Circuit, Phase, Timer};
use core::ops::Range;
use engine::{Batch, Bytes, AssociationId, CloseReason, Delivery, Event, Instant};

/// Fills `batch` with what circuit `id` may send now, at least its acknowledgement if one is due.
pub(crate) fn do_transmit(bare: &mut Bare, now: Instant, id: AssociationId, batch: &mut Batch) {
    let payload_max = (bare.config.packet_len - HEADER_LEN) as u64;
    let window = bare.config.window;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    if circuit.phase != Phase::Open {
        return;
    }
    batch.set_destination(id, circuit.peer);
    while batch.room() > 0 {
        let Some(payload) = next_payload(circuit, payload_max, window) else {
            break;
        };
        // Packets end where store segments end. One that begins between two borders is short,
        // and a short packet is the last of its batch.
        let whole = payload.end - payload.start == payload_max;
        batch.push(
            &header(circuit, Kind::Data, payload.start).emit(),
            payload.clone(),
        );
        circuit.tx.sent = payload.end;
        bare.counters.packets_built += 1;
        bare.counters.bytes_sent += payload.end - payload.start;
        if !whole {
            break;
        }
    }
    finish_batch(bare, now, id, batch);
}

/// The positions of the next packet: up to the next segment border of the store.
fn next_payload(circuit: &Circuit, payload_max: u64, window: u64) -> Option<Range<u64>> {
    let tx = &circuit.tx;
    let border = (tx.sent / payload_max + 1) * payload_max;
    let limit = tx.end.min(tx.acknowledged + window);
    let end = border.min(limit);
    let whole_segment = end == border;
    let pushed = end == tx.end && tx.pushed >= end;
    (end > tx.sent && (whole_segment || pushed)).then_some(tx.sent..end)
}

fn finish_batch(bare: &mut Bare, now: Instant, id: AssociationId, batch: &mut Batch) {
    let stall = bare.config.stall;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    let sent = circuit.tx.sent;
    if batch.is_empty() {
        if finish::is_final_due(circuit) {
            return finish::do_final(bare, now, id, batch);
        }
        if !circuit.rx.ack_due {
            return;
        }
        batch.push(&header(circuit, Kind::Data, sent).emit(), sent..sent);
        bare.count_built(sent..sent);
    } else {
        // Nothing is ever sent twice, so the store may forget at once.
        bare.events.push_back(Event::Released(id, sent));
        if !bare.timers.is_set((id, Timer::Stall)) {
            bare.set_timer(id, Timer::Stall, now + stall);
        }
    }
    told(bare, id);
    bare.mark_ready(id);
    finish::close_if_done(bare, id);
}

/// Every packet carries an acknowledgement, so none is owed now.
pub(crate) fn told(bare: &mut Bare, id: AssociationId) {
    if let Some(circuit) = bare.circuits.get_mut(&id) {
        circuit.rx.told = circuit.rx.position();
        circuit.rx.ack_due = false;
        bare.timers.cancel((id, Timer::Ack));
    }
}

pub(crate) fn header(circuit: &Circuit, kind: Kind, position: u64) -> Header {
    Header {
        kind,
        circuit: circuit.remote,
        position,
        acknowledged: circuit.rx.position(),
    }
}

/// The last position a circuit may reach: 2^62 bytes are 46 years at 25 Gbit/s, and sums of two
/// positions still fit into 64 bits.
const POSITION_MAX: u64 = 1 << 62;

/// Takes in the user bytes of a packet. Bytes before the expected position came too late: they
/// were counted as lost when the gap was seen, or they are a duplicate.
pub(crate) fn handle_data(
    bare: &mut Bare,
    now: Instant,
    header: &Header,
    payload_len: usize,
    deliveries: &mut Vec<Delivery>,
) -> Option<()> {
    let id = AssociationId(header.circuit);
    let ack_at = now + bare.config.ack_delay;
    let window = bare.config.window;
    let circuit = bare.circuits.get_mut(&id)?;
    let is_final = header.kind == Kind::Final;
    if payload_len == 0 && !is_final {
        return Some(());
    }
    let end = header.position.checked_add(payload_len as u64)?;
    if end > POSITION_MAX {
        return None;
    }
    // A peer that ignores the window is not given memory without bound.
    if circuit.rx.unread + payload_len as u64 > 2 * window {
        return None;
    }
    if header.position < circuit.rx.expected || circuit.rx.finished {
        circuit.rx.ack_due = true;
        bare.mark_ready(id);
        return if is_final { Some(()) } else { None };
    }
    let gap = header.position - circuit.rx.expected;
    circuit.rx.expected = end;
    circuit.rx.unread += payload_len as u64;
    bare.counters.bytes_lost = bare.counters.bytes_lost.saturating_add(gap);
    if payload_len > 0 {
        bare.counters.bytes_delivered += payload_len as u64;
        deliveries.push(Delivery {
            association: id,
            bytes: Bytes::Packet(HEADER_LEN..HEADER_LEN + payload_len),
            tag: false,
            end_tag: false,
            gap: gap > 0,
            end: false,
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

/// Nothing was heard for the stall limit: either nothing is in flight, or it is taken for lost.
pub(crate) fn handle_stall(bare: &mut Bare, now: Instant, id: AssociationId) {
    let stall = bare.config.stall;
    let retries_max = bare.config.retries_max;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    if circuit.tx.in_flight() == 0 {
        return;
    }
    if now.since(circuit.heard) >= stall {
        circuit.tx.acknowledged = circuit.tx.sent;
        circuit.tx.tries += 1;
        if circuit.tx.tries > retries_max {
            return bare.remove(id, CloseReason::TimedOut);
        }
        return bare.mark_ready(id);
    }
    let at = circuit.heard + stall;
    bare.set_timer(id, Timer::Stall, at);
}
