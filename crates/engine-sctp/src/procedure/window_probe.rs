//! Zero window probes: one chunk now and then while the peer's window is shut (RFC 9260 section 6.1,
//! A).

use crate::association::{Association, Timer};
use crate::endpoint_state::EndpointState;
use engine::Instant;

/// Probes double their distance at most so often: 2^8 times 200 ms is about a minute.
const DOUBLINGS_MAX: u32 = 8;

/// The window is shut and nothing is in flight: a probe leaves after an RTO, or twice as long as
/// after the last.
pub(crate) fn schedule(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if ep.timers.is_set((a.id, Timer::WindowProbe)) {
        return;
    }
    let doublings = a.tx.window_probes.min(DOUBLINGS_MAX);
    let path = &a.paths[a.data_path()];
    let wait = path.rto() * (1 << doublings);
    ep.set_timer(
        a.id,
        Timer::WindowProbe,
        now + wait.min(path.parameters.rto.max),
    );
    a.tx.awaits_probe = true;
}

/// The window is open: no probe is to leave.
#[inline]
pub(crate) fn cancel(a: &mut Association, ep: &mut EndpointState) {
    a.tx.window_probes = 0;
    if core::mem::take(&mut a.tx.awaits_probe) {
        ep.cancel_timer(a.id, Timer::WindowProbe);
    }
}

/// A probe may leave.
pub(crate) fn handle_timeout(a: &mut Association) {
    a.tx.probes_window = true;
    a.tx.window_probes = a.tx.window_probes.saturating_add(1);
}
