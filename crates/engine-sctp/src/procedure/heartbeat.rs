//! HEARTBEAT: whether a silent path still carries packets (RFC 9260 section 8.3).

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::path::{Heartbeat, PathStatus};
use crate::pdu::chunk::push_chunk;
use crate::pdu::parameter::{ParameterType, parameters, push_parameter};
use crate::pdu::{Chunk, ChunkType, u64_at};
use crate::procedure::retransmission;
use core::time::Duration;
use engine::Instant;

/// Answers the peer's HEARTBEAT with its own contents.
pub(crate) fn handle_heartbeat(
    a: &mut Association,
    path: usize,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
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
    let interval = ep.config.heartbeat_interval;
    if interval.is_zero() {
        return;
    }
    let rto = a.rto(&ep.config, path);
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
        retransmission::count_error(a, ep, path);
        if a.is_gone() {
            return;
        }
    } else if core::mem::take(&mut a.paths[path].is_in_use) {
        return schedule(a, ep, now, path);
    }
    send(a, ep, now, path);
}

/// Sends a HEARTBEAT with a nonce that only its receiver knows.
fn send(a: &mut Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let nonce = ep.nonce();
    let mut info = nonce.to_be_bytes().to_vec();
    info.extend((path as u32).to_be_bytes());
    let (mut value, mut chunk) = (Vec::new(), Vec::new());
    push_parameter(&mut value, ParameterType::HEARTBEAT_INFO, &info);
    push_chunk(&mut chunk, ChunkType::HEARTBEAT, 0, &value);
    a.queue_control(path, chunk);
    a.paths[path].heartbeat = Some(Heartbeat {
        nonce,
        sent_at: now,
    });
    let at = now + a.rto(&ep.config, path);
    ep.set_timer(a.id, Timer::Heartbeat(path as u8), at);
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
    let answered = |path: &crate::path::PathState| {
        path.heartbeat
            .is_some_and(|heartbeat| heartbeat.nonce == nonce)
    };
    let path = a.paths.iter().position(answered);
    let path = path.ok_or(DiscardReason::State)?;
    if let Some(heartbeat) = a.paths[path].heartbeat.take() {
        a.paths[path].sample(now.since(heartbeat.sent_at));
    }
    a.paths[path].errors = 0;
    a.paths[path].status = PathStatus::Active;
    a.errors = 0;
    schedule(a, ep, now, path);
    Ok(())
}
