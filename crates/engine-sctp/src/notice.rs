//! What an association's user is told besides data and its beginning and end.

use crate::numbers::StreamId;
use crate::path::PathStatus;
use engine::{AssociationId, LocalAddress, Path};
use std::net::IpAddr;

/// Something that happened to an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A path changed (RFC 9260 section 11.2.4 D, RFC 6458 section 6.1.2).
    PathStatus {
        /// Whose.
        association: AssociationId,
        /// Which.
        path: Path,
        /// How it stands now.
        status: PathStatus,
    },
    /// Everything that was submitted is acknowledged or given up (RFC 6458 section 6.1.9). Only where it
    /// was asked for: [`crate::Sctp::set_reports_dry`].
    SenderDry {
        /// Whose.
        association: AssociationId,
    },
    /// The peer forgot `old` and opened `new` in its place (RFC 9260 section 11.2.4 F).
    Restarted {
        /// The association that ended.
        old: AssociationId,
        /// The one that began.
        new: AssociationId,
    },
    /// Streams of one direction began anew, or a request of this end for it was refused (RFC 6525, RFC
    /// 6458 section 6.1.11).
    StreamsReset {
        /// Whose.
        association: AssociationId,
        /// Which direction.
        direction: StreamDirection,
        /// Which; none of them stands for all.
        streams: Vec<StreamId>,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
    /// The peer's user gave a number for this one, in the handshake (RFC 5061 section 4.2.6, RFC 6458
    /// section 6.1.7).
    Adaptation {
        /// Whose.
        association: AssociationId,
        /// The number.
        value: u32,
    },
    /// The peer changed its addresses (RFC 6458 section 6.1.2).
    PeerAddress {
        /// Whose.
        association: AssociationId,
        /// Which.
        address: IpAddr,
        /// How.
        change: AddressChange,
    },
    /// A request of this end for an own address was answered (RFC 5061).
    OwnAddress {
        /// Whose.
        association: AssociationId,
        /// Which.
        address: LocalAddress,
        /// What was asked for.
        change: AddressChange,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
    /// This end authenticates, and the peer cannot: nothing is authenticated (RFC 6458 section 6.1.8).
    NoAuthentication {
        /// Whose.
        association: AssociationId,
    },
    /// There are more streams, or a request of this end for it was refused (RFC 6525).
    StreamsAdded {
        /// Whose.
        association: AssociationId,
        /// Which direction.
        direction: StreamDirection,
        /// How many there are in that direction now.
        streams: u16,
        /// What became of it.
        outcome: ReconfigOutcome,
    },
}

impl Notice {
    /// The association that it is of; after a restart the one that ended.
    pub fn association(&self) -> AssociationId {
        match self {
            Notice::PathStatus { association, .. }
            | Notice::SenderDry { association }
            | Notice::StreamsReset { association, .. }
            | Notice::Adaptation { association, .. }
            | Notice::PeerAddress { association, .. }
            | Notice::OwnAddress { association, .. }
            | Notice::NoAuthentication { association }
            | Notice::StreamsAdded { association, .. } => *association,
            Notice::Restarted { old, .. } => *old,
        }
    }
}

/// The streams that an end sends on, or those that its peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamDirection {
    /// This end sends on them.
    Outgoing,
    /// The peer sends on them.
    Incoming,
}

/// What became of an address of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// It belongs to the association now.
    Added,
    /// It does not any more.
    Deleted,
    /// Data go there while it answers.
    Preferred,
}

/// What became of a request to change streams or addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigOutcome {
    /// It was done.
    Done,
    /// The peer does not want it, or its limits do not allow it.
    Denied,
    /// The peer could not: a number was wrong, or another request came first.
    Failed,
}

/// Notices that wait; of a user that takes none the oldest are forgotten. 64 KiB, and 1.4 MiB if each
/// names as many streams as fit a packet of 1500 octets.
pub(crate) const NOTICES_MAX: usize = 1024;
