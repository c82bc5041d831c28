//! Opening: an Open with a token, an Opened that echoes it.
//!
//! The answer is as long as the question, so an endpoint cannot be used to multiply traffic.

use crate::association::Bare;
use crate::pdu::{Header, Kind};
use crate::state::{Circuit, Phase, Receiving, Sending, Timer};
use engine::{Address, AssociationId, CloseReason, CommandError, Event, Instant};

pub(crate) fn do_open(
    bare: &mut Bare,
    now: Instant,
    to: Address,
) -> Result<AssociationId, CommandError> {
    let token = bare.random.next_u64();
    let phase = Phase::Opening { token, tries: 1 };
    let id = bare.add(new_circuit(now, to, 0, token, phase))?;
    send_open(bare, now, id, to, token);
    Ok(id)
}

pub(crate) fn handle_open(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &Header,
) -> Option<()> {
    let token = header.acknowledged;
    let remote = u32::try_from(header.position).ok()?;
    if let Some(&known) = bare.accepted.get(&(from, token)) {
        grant(bare, known, from, remote, token);
        return Some(());
    }
    let added = if bare.listening {
        bare.add(new_circuit(now, from, remote, token, Phase::Open))
            .ok()
    } else {
        None
    };
    match added {
        Some(id) => {
            bare.accepted.insert((from, token), id);
            bare.events.push_back(Event::Accepted(id, from));
            grant(bare, id, from, remote, token);
        }
        None => refuse(bare, from, remote, token),
    }
    Some(())
}

pub(crate) fn handle_opened(
    bare: &mut Bare,
    now: Instant,
    from: Address,
    header: &Header,
) -> Option<()> {
    let id = AssociationId(header.circuit);
    let circuit = opening(bare, id, from, header.acknowledged)?;
    circuit.remote = u32::try_from(header.position).ok()?;
    circuit.phase = Phase::Open;
    circuit.heard = now;
    bare.timers.cancel((id, Timer::Open));
    bare.events.push_back(Event::Connected(id));
    bare.mark_ready(id);
    Some(())
}

pub(crate) fn handle_refused(bare: &mut Bare, from: Address, header: &Header) -> Option<()> {
    let id = AssociationId(header.circuit);
    opening(bare, id, from, header.acknowledged)?;
    bare.remove(id, CloseReason::Refused);
    Some(())
}

pub(crate) fn handle_open_timeout(bare: &mut Bare, now: Instant, id: AssociationId) {
    let retries_max = bare.config.retries_max;
    let Some(circuit) = bare.circuits.get_mut(&id) else {
        return;
    };
    let Phase::Opening { token, tries } = circuit.phase else {
        return;
    };
    if tries >= retries_max {
        return bare.remove(id, CloseReason::TimedOut);
    }
    circuit.phase = Phase::Opening {
        token,
        tries: tries + 1,
    };
    let to = circuit.peer;
    bare.counters.retransmissions += 1;
    send_open(bare, now, id, to, token);
}

/// The circuit `id` if it is being opened towards `from` with `token`.
fn opening(bare: &mut Bare, id: AssociationId, from: Address, token: u64) -> Option<&mut Circuit> {
    let circuit = bare.circuits.get_mut(&id)?;
    let awaited = matches!(circuit.phase, Phase::Opening { token: t, .. } if t == token);
    (awaited && circuit.peer == from).then_some(circuit)
}

fn send_open(bare: &mut Bare, now: Instant, id: AssociationId, to: Address, token: u64) {
    let header = Header {
        kind: Kind::Open,
        circuit: 0,
        position: u64::from(id.0),
        acknowledged: token,
    };
    bare.answer(id, to, header);
    let at = now + bare.config.stall;
    bare.set_timer(id, Timer::Open, at);
}

fn grant(bare: &mut Bare, id: AssociationId, to: Address, remote: u32, token: u64) {
    let header = Header {
        kind: Kind::Opened,
        circuit: remote,
        position: u64::from(id.0),
        acknowledged: token,
    };
    bare.answer(id, to, header);
}

fn refuse(bare: &mut Bare, to: Address, remote: u32, token: u64) {
    let header = Header {
        kind: Kind::Refused,
        circuit: remote,
        position: 0,
        acknowledged: token,
    };
    bare.answer(AssociationId(0), to, header);
}

fn new_circuit(now: Instant, peer: Address, remote: u32, token: u64, phase: Phase) -> Circuit {
    Circuit {
        peer,
        remote,
        token,
        phase,
        tx: Sending::default(),
        rx: Receiving::default(),
        heard: now,
        closed: false,
    }
}
