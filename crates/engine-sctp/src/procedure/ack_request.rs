//! Asking for an acknowledgement at once, by flag I of user data (RFC 9260 section 6.1, RFC 7053).

use crate::association::{Association, State};
use crate::pdu::data::FLAG_IMMEDIATE;

/// Full packets between two requests of a sender that need not wait, at least: a peer acknowledges two
/// packets unasked, and two arrivals of many.
const ASKED_MIN: u64 = 16;

/// When a sender asks.
///
/// It does where it has to wait for the acknowledgement, and where half of what may be
/// unacknowledged left without one: a full store blocks its user too, of which the engine knows nothing. A
/// congestion control that measures by acknowledgements asks more often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckRequest {
    /// What congestion control allows in flight.
    window: u64,
    /// Octets of chunks in a full packet.
    full: u64,
    /// So many octets of chunks may leave unasked.
    due: u64,
    /// The last chunk asks: an end follows.
    is_ending: bool,
}

impl AckRequest {
    /// For chunks sent by path `path`, with `full` octets of chunks in a full packet. `window` is that of congestion
    /// control, `limit` what may be unacknowledged besides the peer's window. What is in flight and the peer's window
    /// are the same together before and after each chunk.
    pub(crate) fn new(
        a: &Association,
        path: usize,
        (window, limit): (u64, u64),
        full: u64,
    ) -> AckRequest {
        let path = &a.paths[path];
        let half = limit.min(a.tx.rwnd.saturating_add(path.flight)) / 2;
        let due = match path.control.measures() {
            true => ASKED_MIN * full / 2,
            false => half.max(ASKED_MIN * full),
        };
        AckRequest {
            window,
            full,
            due,
            is_ending: a.state == State::ShutdownPending,
        }
    }

    /// The flag of a chunk that was just sent: with it `flight` octets are in flight, the peer has room for `rwnd`, and
    /// `unasked` left since the last request, which counts anew. `has_more` bytes wait.
    #[inline]
    pub(crate) fn flag(&self, (flight, rwnd): (u64, u64), unasked: &mut u64, has_more: bool) -> u8 {
        let is_blocked = flight >= self.window || rwnd < self.full;
        let waits = is_blocked && has_more;
        let ends = self.is_ending && !has_more;
        if !waits && !ends && *unasked < self.due {
            return 0;
        }
        *unasked = 0;
        FLAG_IMMEDIATE
    }
}
