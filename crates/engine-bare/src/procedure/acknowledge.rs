//! Acknowledgements slide the sender's window (0002, Acknowledging).
//!
//! They count bytes that the receiving *user* has read, so a slow user closes the window instead of
//! overflowing a buffer.

use crate::endpoint::Bare;
use crate::pdu::BareHeader;
use crate::procedure::finish;
use crate::state::{AssociationState, Timer};
use engine::{Address, AssociationId, Instant};

/// Slides the send window. None when the packet belongs to no open association of that peer.
pub(crate) fn handle_acknowledged(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &BareHeader,
) -> Option<()> {
    let id = AssociationId(header.receiver_id);
    let association = bare.associations.get_mut(&id)?;
    if association.peer != from || association.state != AssociationState::Open {
        return None;
    }
    association.last_received_at = now;
    association.tx.retries = 0;
    let tx = &mut association.tx;
    let final_acknowledged = tx.final_sent && header.acknowledged > tx.sent;
    let new_left_edge = header.acknowledged.min(tx.sent);
    if new_left_edge > tx.acknowledged {
        tx.acknowledged = new_left_edge;
        bare.mark_ready(id);
    }
    if final_acknowledged {
        finish::handle_final_acknowledged(bare, id);
    }
    Some(())
}

/// The user has read `bytes`. An acknowledgement is sent at once when an eighth of the window has
/// opened, else after the ACK delay.
pub(crate) fn do_consume(bare: &mut Bare, now: Instant, id: AssociationId, bytes: u64) {
    let eighth = bare.config.window / 8;
    let ack_at = now + bare.config.ack_delay;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    let rx = &mut association.rx;
    rx.unread -= bytes.min(rx.unread);
    let unacknowledged = rx.position() - rx.last_acknowledged.min(rx.position());
    if unacknowledged >= eighth {
        rx.ack_due = true;
        bare.mark_ready(id);
    } else if unacknowledged > 0 && !bare.timers.is_set((id, Timer::Ack)) {
        bare.set_timer(id, Timer::Ack, ack_at);
    }
    finish::close_if_done(bare, id);
}

pub(crate) fn handle_ack_timeout(bare: &mut Bare, id: AssociationId) {
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    if association.rx.position() > association.rx.last_acknowledged {
        association.rx.ack_due = true;
        bare.mark_ready(id);
    }
}
