//! What an association's user is told besides data and its beginning and end.

use crate::path::PathStatus;
use engine::{AssociationId, Path};

/// Something that happened to an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The peer forgot `old` and opened `new` in its place (RFC 9260 section 11.2.4 F).
    Restarted {
        /// The association that ended.
        old: AssociationId,
        /// The one that began.
        new: AssociationId,
    },
}

/// Notices that wait; of a user that takes none the oldest are forgotten. 64 KiB.
pub(crate) const NOTICES_MAX: usize = 1024;
