//! Acknowledgements: how far the sender's window may slide.
//!
//! They speak of bytes the receiving *user* took, so a slow user closes the window instead of
//! overflowing a buffer.

use crate::association::Bare;
use crate::pdu::Header;
use crate::procedure::finish;
use crate::state::{Phase, Timer};
use engine::{Address, AssociationId, Instant};

/// Slides the window. None when the packet belongs to no open circuit of that peer.
pub(crate) fn handle_acknowledged(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &Header,
) -> Option<()> {
    let id = AssociationId(header.circuit);
    let circuit = bare.circuits.get_mut(&id)?;
    if circuit.peer != from || circuit.phase != Phase::Open {
        return None;
    }
    circuit.heard = now;
    circuit.tx.tries = 0;
    let tx = &mut circuit.tx;
    let final_acknowledged = tx.final_sent && header.acknowledged > tx.sent;
    let slid = header.acknowledged.min(tx.sent);
    if slid > tx.acknowledged {
        tx.acknowledged = slid;
        bare.mark_ready(id);
    }
    if final_acknowledged {
        finish::handle_final_acknowledged(bare, id);
    }
    Some(())
}

/// The user took `bytes`. Tells the peer at once when an eighth of the window is open again.
pub(crate) fn do_consume(bare: &mut Bare, now: Instant, id: AssociationId, bytes: u64) {
    let eighth = bare.config.window / 8;
    let ack_at = now + bare.config.ack_delay;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    let rx = &mut circuit.rx;
    rx.unread -= bytes.min(rx.unread);
    let untold = rx.position() - rx.told.min(rx.position());
    if untold >= eighth {
        rx.ack_due = true;
        bare.mark_ready(id);
    } else if untold > 0 && !bare.timers.is_set((id, Timer::Ack)) {
        bare.set_timer(id, Timer::Ack, ack_at);
    }
    finish::close_if_done(bare, id);
}

pub(crate) fn handle_ack_timeout(bare: &mut Bare, id: AssociationId) {
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    if circuit.rx.position() > circuit.rx.told {
        circuit.rx.ack_due = true;
        bare.mark_ready(id);
    }
}
