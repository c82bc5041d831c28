//! T3-rtx: what a path did not acknowledge in time is sent again (RFC 9260 sections 6.3 and 8).

use crate::association::{Association, Timer};
use crate::endpoint_state::EndpointState;
use crate::path::PathStatus;
use crate::procedure::{heartbeat, path_management, path_mtu};
use crate::tx::ChunkStatus;
use engine::Instant;

/// The retransmission timer of path `path` expired: everything in flight there is lost.
pub(crate) fn handle_timeout(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    path: usize,
) {
    if a.paths[path].flight == 0 || !a.may_send_data() {
        return;
    }
    path_management::count_path_error(a, ep, path);
    path_management::count_association_error(a, ep);
    if a.is_gone() {
        return;
    }
    if a.paths[path].status == PathStatus::PotentiallyFailed {
        heartbeat::probe(a, ep, now, path);
    }
    path_mtu::doubt(a, path);
    mark_lost(a, path);
    let state = &mut a.paths[path];
    state.after_timeout = true;
    state.control.on_rto();
    state.last_sent_at = now;
    a.tx.recovery = None;
    a.tx.fast_retransmit = false;
}

/// What is in flight on path `path` is to be sent again.
pub(crate) fn mark_lost(a: &mut Association, path: usize) {
    let lost: Vec<_> =
        a.tx.outstanding
            .iter_mut()
            .filter(|(_, chunk)| {
                chunk.status == ChunkStatus::InFlight && usize::from(chunk.path) == path
            })
            .map(|(tsn, chunk)| (tsn, chunk.octets() as u64))
            .collect();
    for (tsn, octets) in lost {
        a.tx.outstanding.mark(tsn);
        a.tx.rwnd += octets;
    }
    let state = &mut a.paths[path];
    state.flight = 0;
    state.timed = None;
}

/// Starts the timer of a path unless it runs.
pub(crate) fn start_timer(a: &Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let timer = Timer::Retransmission(path as u8);
    if !ep.timers.is_set((a.id, timer)) {
        restart_timer(a, ep, now, path);
    }
}

/// Starts the timer of a path anew.
pub(crate) fn restart_timer(a: &Association, ep: &mut EndpointState, now: Instant, path: usize) {
    let at = now + a.rto(path);
    ep.set_timer(a.id, Timer::Retransmission(path as u8), at);
}
