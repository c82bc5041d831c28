//! Asking for an acknowledgement at once, by flag I of user data (RFC 9260 section 6.1, RFC 7053).

use crate::association::{Association, State};
use crate::pdu::data::FLAG_IMMEDIATE;

/// Full packets between two requests of a sender that need not wait, at least: a peer acknowledges two
/// packets unasked, and two arrivals of many.
const ASKED_MIN: u64 = 16;

/// The flag of the chunk that was just sent by path `path`, with `full` octets of chunks in a full packet.
/// `window` is that of congestion control, `limit` what may be unacknowledged besides the peer's window.
///
/// It is set where the sender has to wait for the acknowledgement, and where half of what may be
/// unacknowledged left without one: a full store blocks its user too, of which the engine knows nothing. A
/// congestion control that measures by acknowledgements asks more often.
pub(super) fn flag(a: &mut Association, path: usize, (window, limit): (u64, u64), full: u64) -> u8 {
    let flight = a.paths[path].flight;
    let measures = a.paths[path].control.measures();
    let tx = &mut a.tx;
    let is_blocked = flight >= window || tx.rwnd < full;
    let waits = is_blocked && tx.messages.unsent() > 0;
    let ends = a.state == State::ShutdownPending && tx.messages.unsent() == 0;
    let half = limit.min(tx.rwnd.saturating_add(flight)) / 2;
    let due = match measures {
        true => ASKED_MIN * full / 2,
        false => half.max(ASKED_MIN * full),
    };
    if !waits && !ends && tx.unasked < due {
        return 0;
    }
    tx.unasked = 0;
    FLAG_IMMEDIATE
}
