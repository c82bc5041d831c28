//! What a user asks of the paths and streams of an association (RFC 9260 section 11.1, RFC 6458 section
//! 8.2.1, RFC 6525 section 6).

use crate::association::Association;
use crate::association_table::AssociationTable;
use crate::endpoint::Sctp;
use crate::notice::{Notice, StreamDirection};
use crate::numbers::StreamId;
use crate::path::{PathParameters, PathStatus};
use crate::pdu::re_config::RE_CONFIG_LEN;
use crate::procedure::{heartbeat, reconfiguration};
use crate::reconfig::Request;
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
    /// Its variation.
    pub rttvar: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Octets of the longest SCTP packet that it is known to carry (PLPMTU, RFC 8899 section 2).
    pub path_mtu: usize,
    /// Octets of chunks that may be in flight.
    pub congestion_window: u64,
    /// Octets of chunks in flight.
    pub flight: u64,
    /// Timeouts in a row.
    pub errors: u32,
    /// What its user decided, or the endpoint's configuration.
    pub parameters: PathParameters,
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
            rttvar: path.rttvar(),
            rto: path.rto(),
            path_mtu: path.mtu.len(),
            congestion_window: path.control.window(),
            flight: path.flight,
            errors: path.errors,
            parameters: path.parameters,
        };
        let paths = a.paths.iter().enumerate();
        let live = paths.filter(|(_, path)| !path.is_removed);
        live.map(report).collect()
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
    /// Errors are those of [`Sctp::set_primary`], except that the path may be unconfirmed; also before the
    /// association is open.
    pub fn request_heartbeat(
        &mut self,
        now: Instant,
        id: AssociationId,
        path: Path,
    ) -> Result<(), CommandError> {
        let (a, index) = open_path(&mut self.associations, id, path)?;
        heartbeat::probe(a, &mut self.shared, now, index);
        self.shared.mark_ready(id);
        Ok(())
    }

    /// Decides heartbeats, timeouts and errors of one path (RFC 6458 section 8.1.12). Timers that run are not
    /// set anew, except that for a HEARTBEAT when the interval changes. Without an interval a path is looked at
    /// only after it failed to answer, until it does.
    /// Errors are those of [`Sctp::request_heartbeat`]; also [`CommandError::Unsupported`] for bounds that are not in
    /// order, or zero.
    pub fn set_path_parameters(
        &mut self,
        now: Instant,
        id: AssociationId,
        path: Path,
        parameters: PathParameters,
    ) -> Result<(), CommandError> {
        let (a, index) = open_path(&mut self.associations, id, path)?;
        if !parameters.is_in_order() {
            return Err(CommandError::Unsupported);
        }
        let before = core::mem::replace(&mut a.paths[index].parameters, parameters);
        if before.heartbeat_interval != parameters.heartbeat_interval {
            heartbeat::reschedule(a, &mut self.shared, now, index);
        }
        Ok(())
    }

    /// Streams that the user of an association may send on: 0 up to one less. None of an unknown one.
    pub fn outbound_streams(&self, id: AssociationId) -> Option<u16> {
        let a = self.associations.get(&id)?;
        Some(a.tx.messages.rules().streams)
    }

    /// Sets the priority of a stream with [`crate::Scheduler::Priority`], the lowest first, or its weight
    /// with [`crate::Scheduler::Weighted`]: of its next message on.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`]; [`CommandError::Unsupported`] for another scheduler, a stream
    /// that the association does not have, or a weight of 0.
    pub fn set_stream_value(
        &mut self,
        id: AssociationId,
        stream: u16,
        value: u16,
    ) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let messages = &mut a.tx.messages;
        let is_done = stream < messages.rules().streams && messages.set_stream_value(stream, value);
        is_done.then_some(()).ok_or(CommandError::Unsupported)
    }

    /// Whether the user of an association is told when nothing is left to send
    /// ([`Notice::SenderDry`]): at once if that is so now.
    pub fn set_reports_dry(&mut self, id: AssociationId, reports: bool) {
        let Some(a) = self.associations.get_mut(&id) else {
            return;
        };
        a.tx.reports_dry = reports;
        if reports && a.tx.is_empty() {
            self.shared.notify(Notice::SenderDry { association: id });
        }
    }

    /// Lets the messages of streams be counted anew (RFC 6525): the own ones that are submitted from now
    /// on, or those that the peer sends. Without streams, those of all. Own messages wait for the peer's
    /// answer, on all streams; a notice says what it was.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`]; [`CommandError::Unsupported`] when the peer cannot, the
    /// association is not open or ends, it is one message without end, a stream does not exist, the
    /// streams do not fit a packet, or four requests wait.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: StreamDirection,
        streams: &[StreamId],
    ) -> Result<(), CommandError> {
        let a = self.associations.get(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let room = a.control_room() - RE_CONFIG_LEN;
        if 2 * streams.len() > room {
            return Err(CommandError::Unsupported);
        }
        let streams = streams.to_vec();
        self.request(now, id, |a| match direction {
            StreamDirection::Outgoing => Request::ResetOutgoing {
                streams,
                response: None,
                from: a.tx.messages.whole_up_to(),
            },
            StreamDirection::Incoming => Request::ResetIncoming { streams },
        })
    }

    /// Asks for `count` more streams to send on, or for the peer to send on. A notice says how many there
    /// are then. Errors are those of [`Sctp::reset_streams`]; there are at most 65535 streams.
    pub fn add_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: StreamDirection,
        count: u16,
    ) -> Result<(), CommandError> {
        self.request(now, id, |_| match direction {
            StreamDirection::Outgoing => Request::AddOutgoing(count),
            StreamDirection::Incoming => Request::AddIncoming(count),
        })
    }

    fn request(
        &mut self,
        now: Instant,
        id: AssociationId,
        request: impl FnOnce(&Association) -> Request,
    ) -> Result<(), CommandError> {
        let a = self.associations.get_mut(&id);
        let a = a.ok_or(CommandError::UnknownAssociation)?;
        let request = request(a);
        reconfiguration::do_request(a, &mut self.shared, now, request)?;
        self.shared.mark_ready(id);
        Ok(())
    }

    /// The next notice.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.shared.notices.pop_front()
    }
}

/// A path of an association that is open, confirmed or not.
fn open_path(
    associations: &mut AssociationTable,
    id: AssociationId,
    path: Path,
) -> Result<(&mut Association, usize), CommandError> {
    let a = associations.get_mut(&id);
    let a = a.ok_or(CommandError::UnknownAssociation)?;
    let mut paths = a.paths.iter();
    let index = paths.position(|known| known.path == path && !known.is_removed);
    let index = index.filter(|_| a.may_send_data());
    Ok((a, index.ok_or(CommandError::Unsupported)?))
}
