//! Associations as a report shows them.

use crate::association::State;
use crate::endpoint::Sctp;
use crate::endpoint_paths::PathSummary;
use crate::numbers::{Port, Tag};
use engine::AssociationId;

/// An association (RFC 9260 section 11.1, G).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationView {
    /// Its number.
    pub association: AssociationId,
    /// Its state in RFC 9260's words (section 4), in small letters.
    pub state: &'static str,
    /// The user of this end opened it.
    pub opened_here: bool,
    /// The ports of SCTP: the own one, and the peer's.
    pub ports: (Port, Port),
    /// The verification tags: the own one, and the peer's.
    pub tags: (Tag, Tag),
    /// Streams to send on.
    pub outbound_streams: u16,
    /// User bytes sent that the peer has not acknowledged.
    pub unacknowledged_bytes: u64,
    /// Octets that the own window allows the peer now (a_rwnd).
    pub receive_window: u32,
    /// Timeouts in a row.
    pub errors: u32,
    /// Its paths, in the order in which they became known.
    pub paths: Vec<PathSummary>,
}

impl Sctp {
    /// The first `most` associations, by number.
    pub fn association_views(&self, most: usize) -> Vec<AssociationView> {
        let first = self.associations.iter().take(most);
        let view = first.map(|(&id, a)| AssociationView {
            association: id,
            state: state_name(&a.state),
            opened_here: a.opened_here,
            ports: (a.local_port, a.peer_port),
            tags: (a.local_tag, a.peer_tag),
            outbound_streams: self.outbound_streams(id).unwrap_or(0),
            unacknowledged_bytes: a.tx.bytes_unacknowledged(),
            receive_window: a.rx.window(),
            errors: a.errors,
            paths: self.paths(id),
        });
        view.collect()
    }
}

fn state_name(state: &State) -> &'static str {
    match state {
        State::CookieWait { .. } => "cookie-wait",
        State::CookieEchoed { .. } => "cookie-echoed",
        State::Established => "established",
        State::ShutdownPending => "shutdown-pending",
        State::ShutdownSent { .. } => "shutdown-sent",
        State::ShutdownReceived => "shutdown-received",
        State::ShutdownAckSent { .. } => "shutdown-ack-sent",
        State::Gone(_) => "closed",
    }
}
