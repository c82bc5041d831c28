//! What the user of an association is told besides messages.

use super::association::{Association, socket_of};
use engine::AssociationId;
use engine_sctp::{AddressChange, PathStatus, ReconfigOutcome, Sctp, StreamDirection};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// What the user of an association is told of it (RFC 9260 section 11.2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A path changed.
    Path {
        /// This end's address.
        local: SocketAddr,
        /// The peer's.
        remote: SocketAddr,
        /// How it stands now.
        status: PathStatus,
    },
    /// The peer forgot this association and opened another one, which the endpoint accepts.
    Restarted {
        /// The other one's [`Association::id`].
        new: u32,
    },
    /// Streams began anew, or a request for it was refused (RFC 6525).
    StreamsReset {
        /// Those that this end sends on, or those of the peer.
        direction: StreamDirection,
        /// Which; none of them stands for all.
        streams: Vec<u16>,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
    /// There are more streams, or a request for it was refused (RFC 6525).
    StreamsAdded {
        /// Those that this end sends on, or those of the peer.
        direction: StreamDirection,
        /// How many there are now.
        streams: u16,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
    /// Everything that was sent is acknowledged or given up: see [`Association::report_dry`].
    SenderDry,
    /// The peer's user gave this number in the handshake, with option `adaptation` (RFC 5061 section
    /// 4.2.6).
    Adaptation(u32),
    /// The peer changed its addresses (RFC 5061).
    PeerAddress {
        /// Which.
        address: IpAddr,
        /// How.
        change: AddressChange,
    },
    /// A request for an own address was answered (RFC 5061).
    OwnAddress {
        /// Which.
        address: IpAddr,
        /// What was asked for.
        change: AddressChange,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
    /// Option `auth` asks for authentication, and the peer cannot: nothing is authenticated.
    NoAuthentication,
}

impl Association {
    /// The notice that the engine's stands for.
    pub(super) fn notice_of(&self, notice: engine_sctp::Notice) -> Notice {
        match notice {
            engine_sctp::Notice::PathStatus { path, status, .. } => Notice::Path {
                local: self.local(path.local),
                remote: socket_of(path.remote),
                status,
            },
            engine_sctp::Notice::Restarted { new, .. } => Notice::Restarted { new: new.0 },
            engine_sctp::Notice::StreamsReset {
                direction,
                streams,
                outcome,
                ..
            } => Notice::StreamsReset {
                direction,
                streams: streams.iter().map(|stream| stream.0).collect(),
                outcome,
            },
            engine_sctp::Notice::StreamsAdded {
                direction,
                streams,
                outcome,
                ..
            } => Notice::StreamsAdded {
                direction,
                streams,
                outcome,
            },
            engine_sctp::Notice::SenderDry { .. } => Notice::SenderDry,
            engine_sctp::Notice::Adaptation { value, .. } => Notice::Adaptation(value),
            engine_sctp::Notice::PeerAddress {
                address, change, ..
            } => Notice::PeerAddress { address, change },
            engine_sctp::Notice::OwnAddress {
                address,
                change,
                outcome,
                ..
            } => Notice::OwnAddress {
                address: self.local(address).ip(),
                change,
                outcome,
            },
            engine_sctp::Notice::NoAuthentication { .. } => Notice::NoAuthentication,
        }
    }
}

/// Notices of an association that wait for its user; further ones take the place of the oldest.
const NOTICES_MAX: usize = 64;

/// Notices of all associations of an endpoint that have a user, each in its own list.
#[derive(Default)]
pub(super) struct Inboxes(Mutex<BTreeMap<AssociationId, VecDeque<engine_sctp::Notice>>>);

impl Inboxes {
    pub(super) fn open(&self, id: AssociationId) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.entry(id).or_default();
    }

    pub(super) fn close(&self, id: AssociationId) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.remove(&id);
    }

    /// The next notice of `id`. What the engine has for others goes into their lists.
    pub(super) fn take(&self, engine: &mut Sctp, id: AssociationId) -> Option<engine_sctp::Notice> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(notice) = engine.poll_notice() {
            let of = notice.association();
            if let Some(list) = lists.get_mut(&of) {
                if list.len() >= NOTICES_MAX {
                    list.pop_front();
                }
                list.push_back(notice);
            }
        }
        lists.get_mut(&id)?.pop_front()
    }
}
