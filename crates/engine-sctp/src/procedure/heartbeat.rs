//! HEARTBEAT: whether a silent path still carries packets (RFC 9260 section 8.3).

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::path::{Heartbeat, PathStatus};
use crate::pdu::chunk::{CHUNK_HEADER_LEN, push_chunk};
use crate::pdu::parameter::{ParameterType, parameters, push_parameter};
use crate::pdu::{Chunk, ChunkType, u64_at};
use crate::procedure::{path_management, path_mtu};
use core::time::Duration;
use engine::Instant;

/// Answers the peer's HEARTBEAT with its own contents.
pub(crate) fn handle_heartbeat(
    a: &mut Association,
    path: usize,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    if chunk.value.len() + CHUNK_HEADER_LEN > a.control_room() {
        return Err(DiscardReason::Full);
    }
    if let State::CookieWait { .. } | State::ShutdownAckSent { .. } = a.state {
        return Err(DiscardReason::State);
    }
    let mut answer = Vec::new();
    push_chunk(&mut answer, ChunkType::HEARTBEAT_ACK, 0, chunk.value);
    match a.queue_control(path, answer) {
        true => Ok(()),
        false => Err(DiscardReason::Full),
    }
}

/// When path `path` is looked at next: after an interval and an RTO, half more or less at random.
pub(crate) fn schedule(a: &mut Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let interval = a.paths[path].parameters.heartbeat_interval;
    if interval.is_zero() {
        // The timer of the one that was answered would send another.
        return ep.cancel_timer(a.id, Timer::Heartbeat(path as u8));
    }
    let rto = a.rto(path);
    let jitter = ep.below(rto.as_nanos() as u64);
    let at = now + interval + rto / 2 + Duration::from_nanos(jitter);
    ep.set_timer(a.id, Timer::Heartbeat(path as u8), at);
}

/// A path was silent long enough, or did not answer in time.
pub(crate) fn handle_timeout(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    path: usize,
) {
    if !a.may_send_data() && !matches!(a.state, State::ShutdownSent { .. }) {
        return;
    }
    if a.paths[path].heartbeat.take().is_some() {
        count_unanswered(a, ep, path);
        if a.is_gone() {
            return;
        }
        if rests(a, path) {
            return schedule(a, ep, now, path);
        }
    } else if core::mem::take(&mut a.paths[path].is_in_use) {
        return schedule(a, ep, now, path);
    }
    send(a, ep, now, path);
}

/// A HEARTBEAT was not answered. The association counts those of the path of its data, unless their own
/// timer runs there (RFC 9260 section 8.1).
fn count_unanswered(a: &mut Association, ep: &mut EndpointState, path: usize) {
    let counts = !a.has_several_paths() || path == a.data_path() && a.paths[path].flight == 0;
    path_management::count_path_error(a, ep, path);
    if counts {
        path_management::count_association_error(a, ep);
    }
}

/// Whether a path failed so often that it is looked at after an interval only. The last one of an
/// association is not left alone, and neither is one without an interval: nothing else finds out that
/// it is back.
fn rests(a: &Association, path: usize) -> bool {
    let state = &a.paths[path];
    let has_interval = !state.parameters.heartbeat_interval.is_zero();
    has_interval && a.has_several_paths() && state.errors > state.parameters.retries
}

/// The interval of a path is another one from here on. One that is being looked at is scheduled by its answer.
pub(crate) fn reschedule(a: &mut Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let state = &a.paths[path];
    if state.heartbeat.is_none() && state.status != PathStatus::Unconfirmed {
        schedule(a, ep, now, path);
    }
}

/// Looks at a path now, unless it is being looked at.
pub(crate) fn probe(a: &mut Association, ep: &mut EndpointState, now: Instant, path: usize) {
    if a.paths[path].heartbeat.is_none() {
        send(a, ep, now, path);
    }
}

/// Begins to look at the paths of a new association: at those besides the one of the handshake at once,
/// one in an RTO (HB.Max.Burst).
pub(crate) fn begin(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    path_mtu::begin(a);
    let rto = a.rto(a.primary);
    let mut at = now;
    for path in 0..a.paths.len() {
        if path == a.primary {
            schedule(a, ep, now, path);
        } else {
            ep.set_timer(a.id, Timer::Heartbeat(path as u8), at);
            at = at + rto;
        }
    }
}

/// Sends a HEARTBEAT with a nonce that only its receiver knows.
fn send(a: &mut Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let nonce = ep.nonce();
    a.queue_control(path, chunk(nonce, path));
    a.paths[path].heartbeat = Some(Heartbeat {
        nonce,
        sent_at: now,
    });
    let at = now + a.rto(path);
    ep.set_timer(a.id, Timer::Heartbeat(path as u8), at);
}

/// A HEARTBEAT for path `path`, whose answer carries `nonce`.
pub(super) fn chunk(nonce: u64, path: usize) -> Vec<u8> {
    let mut info = nonce.to_be_bytes().to_vec();
    info.extend((path as u32).to_be_bytes());
    let (mut value, mut chunk) = (Vec::new(), Vec::new());
    push_parameter(&mut value, ParameterType::HEARTBEAT_INFO, &info);
    push_chunk(&mut chunk, ChunkType::HEARTBEAT, 0, &value);
    chunk
}

pub(crate) fn handle_heartbeat_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    let info = parameters(chunk.value).find(|one| one.kind == ParameterType::HEARTBEAT_INFO);
    let nonce = info.and_then(|info| u64_at(info.value, 0));
    let nonce = nonce.ok_or(DiscardReason::Malformed)?;
    if path_mtu::handle_answer(a, ep, now, nonce) {
        return Ok(());
    }
    let answered = |path: &crate::path::PathState| {
        path.heartbeat
            .is_some_and(|heartbeat| heartbeat.nonce == nonce)
    };
    let path = a.paths.iter().position(answered);
    let path = path.ok_or(DiscardReason::State)?;
    if let Some(heartbeat) = a.paths[path].heartbeat.take() {
        a.paths[path].sample(now.since(heartbeat.sent_at));
    }
    path_management::activate(a, ep, path);
    a.errors = 0;
    schedule(a, ep, now, path);
    Ok(())
}
