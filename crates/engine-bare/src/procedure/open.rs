//! The handshake: an Open with a token, an Opened that echoes it (0002, Opening).
//!
//! The answer is as long as the Open, so an endpoint cannot amplify traffic.

use crate::endpoint::Bare;
use crate::pdu::{BareHeader, PacketType};
use crate::state::{Association, AssociationState, ReceiveState, SendState, Timer};
use engine::{Address, AssociationId, CloseReason, CommandError, Event, Instant};

pub(crate) fn do_open(
    bare: &mut Bare,
    now: Instant,
    to: Address,
) -> Result<AssociationId, CommandError> {
    let token = bare.tokens.next_u64();
    let phase = AssociationState::Opening { token, attempts: 1 };
    let id = bare.add(new_association(now, to, 0, token, phase))?;
    send_open(bare, now, id, to, token);
    Ok(id)
}

pub(crate) fn handle_open(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &BareHeader,
) -> Option<()> {
    let token = header.acknowledged;
    let remote = u32::try_from(header.position).ok()?;
    if let Some(&known) = bare.accepted.get(&(from, token)) {
        send_opened(bare, known, from, remote, token);
        return Some(());
    }
    let added = if bare.listening {
        bare.add(new_association(
            now,
            from,
            remote,
            token,
            AssociationState::Open,
        ))
        .ok()
    } else {
        None
    };
    match added {
        Some(id) => {
            bare.accepted.insert((from, token), id);
            bare.events.push_back(Event::Accepted(id, from));
            send_opened(bare, id, from, remote, token);
        }
        None => send_refused(bare, from, remote, token),
    }
    Some(())
}

pub(crate) fn handle_opened(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &BareHeader,
) -> Option<()> {
    let id = AssociationId(header.receiver_id);
    let association = opening_association(bare, id, from, header.acknowledged)?;
    association.peer_id = u32::try_from(header.position).ok()?;
    association.state = AssociationState::Open;
    association.last_received_at = now;
    bare.timers.cancel((id, Timer::Open));
    bare.events.push_back(Event::Connected(id));
    bare.mark_ready(id);
    Some(())
}

pub(crate) fn handle_refused(bare: &mut Bare, from: Address, header: &BareHeader) -> Option<()> {
    let id = AssociationId(header.receiver_id);
    opening_association(bare, id, from, header.acknowledged)?;
    bare.remove(id, CloseReason::Refused);
    Some(())
}

pub(crate) fn handle_open_timeout(bare: &mut Bare, now: Instant, id: AssociationId) {
    let retries_max = bare.config.retries_max;
    let Some(association) = bare.associations.get_mut(&id) else {
        return;
    };
    let AssociationState::Opening {
        token,
        attempts: tries,
    } = association.state
    else {
        return;
    };
    if tries >= retries_max {
        return bare.remove(id, CloseReason::TimedOut);
    }
    association.state = AssociationState::Opening {
        token,
        attempts: tries + 1,
    };
    let to = association.peer;
    bare.counters.retransmissions += 1;
    send_open(bare, now, id, to, token);
}

/// The association `id`, if it is being opened to `from` with `token`.
fn opening_association(
    bare: &mut Bare,
    id: AssociationId,
    from: Address,
    token: u64,
) -> Option<&mut Association> {
    let association = bare.associations.get_mut(&id)?;
    let awaited =
        matches!(association.state, AssociationState::Opening { token: t, .. } if t == token);
    (awaited && association.peer == from).then_some(association)
}

fn send_open(bare: &mut Bare, now: Instant, id: AssociationId, to: Address, token: u64) {
    let header = BareHeader {
        packet_type: PacketType::Open,
        receiver_id: 0,
        position: u64::from(id.0),
        acknowledged: token,
    };
    bare.queue_control(id, to, header);
    let at = now + bare.config.rto;
    bare.set_timer(id, Timer::Open, at);
}

fn send_opened(bare: &mut Bare, id: AssociationId, to: Address, remote: u32, token: u64) {
    let header = BareHeader {
        packet_type: PacketType::Opened,
        receiver_id: remote,
        position: u64::from(id.0),
        acknowledged: token,
    };
    bare.queue_control(id, to, header);
}

fn send_refused(bare: &mut Bare, to: Address, remote: u32, token: u64) {
    let header = BareHeader {
        packet_type: PacketType::Refused,
        receiver_id: remote,
        position: 0,
        acknowledged: token,
    };
    bare.queue_control(AssociationId(0), to, header);
}

fn new_association(
    now: Instant,
    peer: Address,
    remote: u32,
    token: u64,
    phase: AssociationState,
) -> Association {
    Association {
        peer,
        peer_id: remote,
        token,
        state: phase,
        tx: SendState::default(),
        rx: ReceiveState::default(),
        last_received_at: now,
        closed: false,
    }
}
