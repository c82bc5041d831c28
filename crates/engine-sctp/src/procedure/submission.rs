//! What the user submits waits to be sent.

use crate::association::{Association, State};
use crate::endpoint_state::EndpointState;
use crate::procedure::{abandon, association_setup, shutdown};
use crate::tx::Submission;
use engine::{Instant, Note, Reliability, SendFlags};

/// As [`do_submit`] of each message that ends at `ends`, without notes and with more to follow.
pub(crate) fn do_submit_all(a: &mut Association, ep: &EndpointState, now: Instant, ends: &[u64]) {
    if may_submit(a) {
        let pushes = ep.config.coalesce_delay.is_zero();
        a.tx.messages.submit_all(now, ends, pushes);
    }
}

fn may_submit(a: &Association) -> bool {
    let is_open = matches!(
        a.state,
        State::CookieWait { .. } | State::CookieEchoed { .. } | State::Established
    );
    is_open && !a.wants_shutdown
}

pub(crate) fn do_submit(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (end, flags): (u64, SendFlags),
    note: &Note,
) {
    if !may_submit(a) {
        return;
    }
    let pushes = flags.push || flags.request_ack || flags.fin || ep.config.coalesce_delay.is_zero();
    a.tx.messages.submit(&Submission {
        now,
        end,
        is_end: flags.end_of_message,
        push: pushes,
        note,
    });
    if flags.more && note.reliability == Reliability::Full {
        // The last submission of the run does the rest.
        return;
    }
    association_setup::send_first_cookie_echo(a, ep, now);
    if let Reliability::Priority(value) = note.reliability {
        abandon::make_room(a, ep, now, value);
    }
    if flags.fin {
        shutdown::do_shutdown(a, ep, now);
    }
}
