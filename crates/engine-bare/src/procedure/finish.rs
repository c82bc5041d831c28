//! The end of a direction: a Final packet, repeated until acknowledged.

use crate::association::Bare;
use crate::pdu::Kind;
use crate::procedure::data;
use crate::state::{Circuit, Timer};
use engine::{Batch, AssociationId, CloseReason, Event, Instant};

/// All user bytes left and the Final did not.
pub(crate) fn is_final_due(circuit: &Circuit) -> bool {
    let tx = &circuit.tx;
    tx.finishing && !tx.final_sent && tx.sent == tx.end
}

/// Puts the Final packet, which has no user bytes, into `batch`.
pub(crate) fn do_final(bare: &mut Bare, now: Instant, id: AssociationId, batch: &mut Batch) {
    let at = now + bare.config.stall;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    let sent = circuit.tx.sent;
    circuit.tx.final_sent = true;
    batch.push(&data::header(circuit, Kind::Final, sent).emit(), sent..sent);
    bare.count_built(sent..sent);
    bare.set_timer(id, Timer::Final, at);
    data::told(bare, id);
}

/// The peer's Final arrived: acknowledge it at once.
pub(crate) fn handle_final(bare: &mut Bare, id: AssociationId) {
    if let Some(circuit) = bare.circuits.get_mut(&id) {
        circuit.rx.finished = true;
        circuit.rx.ack_due = true;
        bare.events.push_back(Event::Finished(id));
        bare.mark_ready(id);
    }
    close_if_done(bare, id);
}

pub(crate) fn handle_final_acknowledged(bare: &mut Bare, id: AssociationId) {
    bare.timers.cancel((id, Timer::Final));
    if let Some(circuit) = bare.circuits.get_mut(&id) {
        circuit.tx.final_acknowledged = true;
    }
    close_if_done(bare, id);
}

/// The Final was not acknowledged in time: send it again, within the limit.
pub(crate) fn handle_final_timeout(bare: &mut Bare, id: AssociationId) {
    let retries_max = bare.config.retries_max;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    circuit.tx.tries += 1;
    if circuit.tx.tries > retries_max {
        return bare.remove(id, CloseReason::TimedOut);
    }
    circuit.tx.final_sent = false;
    bare.counters.retransmissions += 1;
    bare.mark_ready(id);
}

/// Reports the end once both directions ended and both Finals are acknowledged.
///
/// The circuit lingers for three stall limits after the peer was last heard: if the last
/// acknowledgement is lost, the peer repeats its Final and must find somebody to answer it.
pub(crate) fn close_if_done(bare: &mut Bare, id: AssociationId) {
    let linger = bare.config.stall * 3;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    let done = circuit.tx.final_acknowledged && circuit.rx.finished && !circuit.rx.ack_due;
    if !done || circuit.closed {
        return;
    }
    circuit.closed = true;
    let at = circuit.heard + linger;
    bare.set_timer(id, Timer::Linger, at);
    bare.events
        .push_back(Event::Closed(id, CloseReason::Graceful));
}
