//! Ending an association at once, and reports of errors (RFC 9260 sections 9.1, 3.3.7 and 3.3.10).

use crate::association::{Association, State};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::numbers::Tag;
use crate::pdu::cause::{Cause, CauseCode, causes};
use crate::pdu::chunk::push_chunk;
use crate::pdu::{Chunk, ChunkType, u32_at};
use crate::procedure::association_setup;
use engine::{CloseReason, Instant};

/// The user ends the association.
pub(crate) fn do_abort(a: &mut Association, ep: &mut EndpointState) {
    let cause = Cause::plain(CauseCode::USER_ABORT);
    end(a, ep, Some(&cause), CloseReason::Aborted);
}

/// A rule was broken: the association ends with this cause.
pub(crate) fn do_abort_for(a: &mut Association, ep: &mut EndpointState, cause: &Cause<'_>) {
    end(a, ep, Some(cause), CloseReason::Aborted);
}

/// A rule without a cause of its own was broken.
pub(crate) fn do_abort_violation(a: &mut Association, ep: &mut EndpointState) {
    do_abort_for(a, ep, &Cause::plain(CauseCode::PROTOCOL_VIOLATION));
}

/// The peer does not answer (RFC 9260 section 8.1), or never ended (T5-shutdown-guard). It is told, as perhaps
/// only its packets are lost.
pub(crate) fn do_abort_timed_out(a: &mut Association, ep: &mut EndpointState) {
    end(a, ep, None, CloseReason::TimedOut);
}

fn end(
    a: &mut Association,
    ep: &mut EndpointState,
    cause: Option<&Cause<'_>>,
    reason: CloseReason,
) {
    if a.is_gone() {
        return;
    }
    if a.peer_tag != Tag::NONE {
        let mut value = Vec::new();
        if let Some(cause) = cause {
            cause.push(&mut value);
        }
        ep.send_last(a, a.data_path(), ChunkType::ABORT, &value);
    }
    a.state = State::Gone(reason);
}

/// The peer ended the association, or refused to open it.
pub(crate) fn handle_abort(a: &mut Association) -> Result<(), DiscardReason> {
    let reason = match a.state {
        State::CookieWait { .. } | State::CookieEchoed { .. } => CloseReason::Refused,
        _ => CloseReason::Aborted,
    };
    a.state = State::Gone(reason);
    Ok(())
}

pub(crate) fn handle_error(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    if let State::CookieWait { .. } = a.state {
        return Err(DiscardReason::State);
    }
    let stale = causes(chunk.value).find(|cause| cause.code == CauseCode::STALE_COOKIE);
    if let Some(stale_us) = stale.and_then(|cause| u32_at(cause.value, 0)) {
        association_setup::handle_stale_cookie(a, ep, now, stale_us);
    }
    Ok(())
}

/// Octets of an unknown chunk that are reported.
const REPORT_MAX: usize = 256;

/// Tells the peer that a chunk of it is not known.
pub(crate) fn report_unknown(a: &mut Association, path: usize, octets: &[u8]) {
    let (mut cause, mut chunk) = (Vec::new(), Vec::new());
    Cause {
        code: CauseCode::UNRECOGNIZED_CHUNK,
        value: &octets[..octets.len().min(REPORT_MAX)],
    }
    .push(&mut cause);
    push_chunk(&mut chunk, ChunkType::ERROR, 0, &cause);
    a.queue_control(path, chunk);
}
