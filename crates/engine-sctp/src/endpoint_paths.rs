//! What a user asks of the paths of an association (RFC 9260 section 11.1, RFC 6458 section 8.2.1).

use crate::endpoint::Sctp;
use crate::notice::Notice;
use crate::path::PathStatus;
use crate::procedure::heartbeat;
use core::time::Duration;
use engine::{AssociationId, CommandError, Instant, Path};

/// How a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSummary {
    /// Its addresses.
    pub path: Path,
    /// Whether it may carry user data.
    pub status: PathStatus,
    /// It is preferred for data.
    pub is_primary: bool,
    /// Data leave by it now.
    pub carries_data: bool,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Octets of chunks that may be in flight.
    pub congestion_window: u64,
    /// Octets of chunks in flight.
    pub flight: u64,
    /// Timeouts in a row.
    pub errors: u32,
}

impl Sctp {
    /// The paths of an association, in the order in which they became known; none of an unknown one.
    pub fn paths(&self, id: AssociationId) -> Vec<PathSummary> {
        let Some(a) = self.associations.get(&id) else {
            return Vec::new();
        };
        let data_path = a.data_path();
        let report = |(index, path): (usize, &crate::path::PathState)| PathSummary {
            path: path.path,
            status: path.status,
            is_primary: index == a.primary,
            carries_data: index == data_path,
            srtt: path.srtt(),
            rto: path.rto(&self.shared.config.rto),
            congestion_window: path.control.window(),
            flight: path.flight,
            errors: path.errors,
        };
        a.paths.iter().enumerate().map(report).collect()
    }

    /// Makes a path the one of new data while it answers.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`]; [`CommandError::Unsupported`] for a path that it does not
    /// have, or that is not confirmed yet.
    pub fn set_primary(&mut self, id: AssociationId, path: Path) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let index = a
            .paths
            .iter()
            .position(|known| known.path == path && known.status != PathStatus::Unconfirmed);
        a.primary = index.ok_or(CommandError::Unsupported)?;
        self.shared.mark_ready(id);
        Ok(())
    }

    /// Sends a HEARTBEAT on a path now (RFC 9260 section 11.1, H).
    ///
    /// # Errors
    ///
    /// As [`Sctp::set_primary`], except that the path may be unconfirmed; also before the association
    /// is open.
    pub fn request_heartbeat(
        &mut self,
        now: Instant,
        id: AssociationId,
        path: Path,
    ) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let index = a.paths.iter().position(|known| known.path == path);
        let index = index.filter(|_| a.may_send_data());
        let index = index.ok_or(CommandError::Unsupported)?;
        heartbeat::probe(a, &mut self.shared, now, index);
        self.shared.mark_ready(id);
        Ok(())
    }

    /// Streams that the user of an association may send on: 0 up to one less. None of an unknown one.
    pub fn outbound_streams(&self, id: AssociationId) -> Option<u16> {
        let a = self.associations.get(&id)?;
        Some(a.tx.messages.rules.streams)
    }

    /// The next notice.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.shared.notices.pop_front()
    }
}
