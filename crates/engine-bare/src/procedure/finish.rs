//! Close of a direction: a Final packet, retransmitted until acknowledged (0002, Ending).

use crate::endpoint::Bare;
use crate::pdu::PacketType;
use crate::procedure::data;
use crate::state::{Association, Timer};
use engine::{AssociationId, Batch, CloseReason, Event, Instant};

/// Whether all user bytes were sent, but not the Final.
pub(crate) fn is_final_due(association: &Association) -> bool {
    let tx = &association.tx;
    tx.finishing && !tx.final_sent && tx.sent == tx.end
}

/// Puts the Final packet, which has no user bytes, into `batch`.
pub(crate) fn do_final(bare: &mut Bare, now: Instant, id: AssociationId, batch: &mut Batch) {
    let at = now + bare.config.rto;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    let sent = association.tx.sent;
    association.tx.final_sent = true;
    batch.push_own(&data::header(association, PacketType::Final, sent).emit());
    bare.count_built(sent..sent);
    bare.set_timer(id, Timer::Final, at);
    data::record_ack_sent(bare, id);
}

/// The peer's Final arrived: it is acknowledged at once.
pub(crate) fn handle_final(bare: &mut Bare, id: AssociationId) {
    if let Some(association) = bare.associations.get_mut(&id) {
        association.rx.finished = true;
        association.rx.ack_due = true;
        bare.events.push_back(Event::Finished(id));
        bare.mark_ready(id);
    }
    close_if_done(bare, id);
}

pub(crate) fn handle_final_acknowledged(bare: &mut Bare, id: AssociationId) {
    bare.timers.cancel((id, Timer::Final));
    if let Some(association) = bare.associations.get_mut(&id) {
        association.tx.final_acknowledged = true;
    }
    close_if_done(bare, id);
}

/// The Final was not acknowledged in time: it is sent again, up to `retries_max` times.
pub(crate) fn handle_final_timeout(bare: &mut Bare, id: AssociationId) {
    let retries_max = bare.config.retries_max;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    association.tx.retries += 1;
    if association.tx.retries > retries_max {
        return bare.remove(id, CloseReason::TimedOut);
    }
    association.tx.final_sent = false;
    bare.counters.retransmissions += 1;
    bare.mark_ready(id);
}

/// Reports the close once both Finals are acknowledged.
///
/// The association then stays in TIME_WAIT until three RTOs after the peer's last packet: if the
/// last acknowledgement is lost, the peer retransmits its Final, which must be acknowledged again.
pub(crate) fn close_if_done(bare: &mut Bare, id: AssociationId) {
    let time_wait = bare.config.rto * 3;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    let done =
        association.tx.final_acknowledged && association.rx.finished && !association.rx.ack_due;
    if !done || association.closed {
        return;
    }
    association.closed = true;
    let at = association.last_received_at + time_wait;
    bare.set_timer(id, Timer::TimeWait, at);
    bare.events
        .push_back(Event::Closed(id, CloseReason::Graceful));
}
