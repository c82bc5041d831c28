//! Requests in control chunks that the peer answers: RE-CONFIG and ASCONF. One of each is under way, and
//! goes again until it is answered.

use crate::association::{Association, Timer};
use crate::endpoint_state::EndpointState;
use crate::procedure::{abort, path_management};
use engine::Instant;

/// A request that was sent and not answered.
#[derive(Debug)]
pub(crate) struct ControlRequest {
    /// The chunk, for repeats.
    octets: Vec<u8>,
    /// The path it left by.
    pub(crate) path: usize,
    /// How often it was sent since the peer last said anything of it.
    pub(crate) attempts: u32,
}

/// Queues the chunk for the path of data, and starts `timer`.
pub(crate) fn begin(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (timer, octets): (Timer, Vec<u8>),
) -> ControlRequest {
    let path = a.data_path();
    a.queue_control(path, octets.clone());
    start_timer(a, ep, now, (timer, path));
    ControlRequest {
        octets,
        path,
        attempts: 1,
    }
}

/// Starts the timer of a request that left by `path`.
pub(crate) fn start_timer(
    a: &Association,
    ep: &mut EndpointState,
    now: Instant,
    (timer, path): (Timer, usize),
) {
    let at = now + a.rto(path);
    ep.set_timer(a.id, timer, at);
}

/// A request was not answered in time. It counts as lost data do, and goes again with its number, by
/// another path if there is one (RFC 5061 section 5.1, B; RFC 6525 section 5.1.1). `find` is the request
/// of `timer`. An association that gives up is at its end: the peer answers other packets, but not this
/// one, and both ends may differ now. A peer that waits for a COOKIE-ACK answers none, which counts as no
/// loss: it would open the association anew with its cookie. Heartbeats tell whether it is there.
pub(crate) fn handle_timeout(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (timer, find): (Timer, fn(&mut Association) -> Option<&mut ControlRequest>),
) {
    let (retries_max, peer_is_open) = (ep.config.association_retries, a.peer_is_open);
    let Some(request) = find(a) else {
        return;
    };
    request.attempts += 1;
    let (is_lost, path) = (request.attempts > retries_max + 1, request.path);
    if peer_is_open {
        path_management::count_path_error(a, ep, path);
        path_management::count_association_error(a, ep);
        if is_lost {
            abort::do_abort_timed_out(a, ep);
        }
    } else {
        a.paths[path].back_off();
    }
    if a.is_gone() {
        return;
    }
    ep.counters.retransmissions += 1;
    let path = a.data_path();
    if let Some(request) = find(a) {
        request.path = path;
        let octets = request.octets.clone();
        a.control.retain(|waiting| waiting.octets != octets);
        a.queue_control(path, octets);
    }
    start_timer(a, ep, now, (timer, path));
}
