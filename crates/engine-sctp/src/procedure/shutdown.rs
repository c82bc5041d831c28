//! The graceful end: SHUTDOWN, SHUTDOWN-ACK, SHUTDOWN-COMPLETE (RFC 9260 section 9.2). There is no half
//! close: when either user ends, both stop sending.

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::numbers::Tsn;
use crate::pdu::chunk::{FLAG_T, push_chunk};
use crate::pdu::{Chunk, ChunkType, CommonHeader, u32_at};
use crate::procedure::{abort, path_management, sack_receive};
use engine::{CloseReason, Event, Instant};

/// The T5-shutdown-guard timer runs for so many times RTO.Max.
const GUARD_RTOS: u32 = 5;

/// The user ends the association after what was submitted.
pub(crate) fn do_shutdown(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    match a.state {
        State::CookieWait { .. } | State::CookieEchoed { .. } => a.wants_shutdown = true,
        State::Established => {
            a.state = State::ShutdownPending;
            a.tx.messages.end_tail();
            progress(a, ep, now);
        }
        _ => {}
    }
}

/// Bytes on their way; at least 1 while the end is.
pub(crate) fn bytes_in_flight(a: &Association) -> u64 {
    let ends = matches!(
        a.state,
        State::ShutdownPending | State::ShutdownSent { .. } | State::ShutdownAckSent { .. }
    );
    a.tx.bytes_unacknowledged()
        .max(u64::from(ends || a.wants_shutdown))
}

/// Once everything is acknowledged, the end goes on.
pub(crate) fn progress(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if !a.tx.is_empty() {
        return;
    }
    match a.state {
        State::ShutdownPending => {
            a.state = State::ShutdownSent { attempts: 1 };
            let guard = now + ep.config.rto.max * GUARD_RTOS;
            ep.set_timer(a.id, Timer::ShutdownGuard, guard);
            repeat_shutdown(a);
            start_timer(a, ep, now);
        }
        State::ShutdownReceived => answer(a, ep, now),
        _ => {}
    }
}

fn start_timer(a: &Association, ep: &mut EndpointState, now: Instant) {
    let at = now + a.rto(a.data_path());
    ep.set_timer(a.id, Timer::Shutdown, at);
}

/// Sends SHUTDOWN, again if need be.
pub(crate) fn repeat_shutdown(a: &mut Association) {
    let (mut chunk, cumulative) = (Vec::new(), a.rx.cumulative());
    push_chunk(
        &mut chunk,
        ChunkType::SHUTDOWN,
        0,
        &cumulative.0.to_be_bytes(),
    );
    a.control
        .retain(|waiting| waiting.octets[0] != ChunkType::SHUTDOWN.0);
    a.queue_control(a.data_path(), chunk);
}

/// Sends SHUTDOWN-ACK, again if need be.
pub(crate) fn repeat_ack(a: &mut Association) {
    let mut chunk = Vec::new();
    push_chunk(&mut chunk, ChunkType::SHUTDOWN_ACK, 0, &[]);
    a.control
        .retain(|waiting| waiting.octets[0] != ChunkType::SHUTDOWN_ACK.0);
    a.queue_control(a.data_path(), chunk);
}

fn answer(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    a.state = State::ShutdownAckSent { attempts: 1 };
    repeat_ack(a);
    start_timer(a, ep, now);
}

/// T2-shutdown expired.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let retries_max = ep.config.association_retries;
    let (State::ShutdownSent { attempts } | State::ShutdownAckSent { attempts }) = &mut a.state
    else {
        return;
    };
    *attempts += 1;
    if *attempts > retries_max + 1 {
        abort::do_abort_timed_out(a, ep);
        return;
    }
    path_management::count_path_error(a, ep, a.data_path());
    ep.counters.retransmissions += 1;
    match a.state {
        State::ShutdownSent { .. } => repeat_shutdown(a),
        _ => repeat_ack(a),
    }
    start_timer(a, ep, now);
}

/// A packet of the peer: it is there, however often it was asked.
pub(crate) fn note_packet(a: &mut Association) {
    if let State::ShutdownSent { attempts } = &mut a.state {
        *attempts = 1;
    }
}

/// The peer sends no more.
fn tell_finished(a: &mut Association, ep: &mut EndpointState) {
    if !core::mem::replace(&mut a.is_finished, true) {
        ep.events.push_back(Event::Finished(a.id));
    }
}

pub(crate) fn handle_shutdown(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    let tsn = u32_at(chunk.value, 0).ok_or(DiscardReason::Malformed)?;
    match a.state {
        State::Established | State::ShutdownPending => {
            a.state = State::ShutdownReceived;
            a.tx.messages.end_tail();
            tell_finished(a, ep);
        }
        State::ShutdownReceived => {}
        State::ShutdownSent { .. } => {
            tell_finished(a, ep);
            answer(a, ep, now);
            return Ok(());
        }
        _ => return Err(DiscardReason::State),
    }
    let taken = sack_receive::handle_cumulative(a, ep, now, Tsn(tsn));
    if !a.is_gone() {
        // A SACK that left after the SHUTDOWN may have overtaken it: then its TSN is an old one.
        progress(a, ep, now);
    }
    taken
}

pub(crate) fn handle_shutdown_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    header: &CommonHeader,
    path: usize,
) -> Result<(), DiscardReason> {
    let from = a.paths[path].path;
    let mut chunk = Vec::new();
    match a.state {
        State::ShutdownSent { .. } | State::ShutdownAckSent { .. } => {
            push_chunk(&mut chunk, ChunkType::SHUTDOWN_COMPLETE, 0, &[]);
            ep.reply(from, a.header(), &chunk);
            tell_finished(a, ep);
            a.state = State::Gone(CloseReason::Graceful);
            Ok(())
        }
        // Of an association before this one (section 8.4, rule 5).
        State::CookieWait { .. } | State::CookieEchoed { .. } => {
            push_chunk(&mut chunk, ChunkType::SHUTDOWN_COMPLETE, FLAG_T, &[]);
            ep.reply(from, header.reversed(header.tag), &chunk);
            Ok(())
        }
        _ => Err(DiscardReason::State),
    }
}

pub(crate) fn handle_shutdown_complete(
    a: &mut Association,
    ep: &mut EndpointState,
) -> Result<(), DiscardReason> {
    if !matches!(a.state, State::ShutdownAckSent { .. }) {
        return Err(DiscardReason::State);
    }
    tell_finished(a, ep);
    a.state = State::Gone(CloseReason::Graceful);
    Ok(())
}
