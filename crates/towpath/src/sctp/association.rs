//! An association: messages on streams, its paths, and what its user is told of them.

use super::endpoint::EndpointWire;
use super::notice::{Inboxes, Notice};
use super::own_addresses::OwnAddresses;
use driver::Circuit;
use driver::timeout::finite;
use engine::{Address, AssociationId, Associations, Note, Reliability};
use engine_sctp::{PathParameters, PathStatus, PathSummary, Sctp};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What travels with a message (RFC 6458 sections 5.3.4 and 5.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageInfo {
    /// Its stream. Messages of one stream arrive in order, unless they are unordered.
    pub stream: u16,
    /// The payload protocol identifier, which SCTP passes on.
    pub ppid: u32,
    /// It may overtake others of its stream.
    pub unordered: bool,
    /// How hard the sender tries, if the peer knows that messages may be given up (RFC 7496). Not of
    /// messages received.
    pub reliability: Reliability,
    /// A number of the user's own, which comes back with a message that failed and is not sent.
    pub context: u64,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// The message ends with them; else the next receive continues it.
    pub end: bool,
    /// Parts of it came before, and its sender gave it up: nothing of it follows (SCTP_PARTIAL_DELIVERY_EVENT).
    pub is_aborted: bool,
    /// What came with the message.
    pub info: MessageInfo,
}

/// A message that was given up, or that the peer does not have for certain after the association ended
/// (RFC 6458 section 6.1.11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its bytes; without a front that the peer has, unless it is whole.
    pub bytes: Vec<u8>,
    /// They begin with its first.
    pub is_whole: bool,
    /// Something of it was sent: the peer may have it.
    pub was_sent: bool,
    /// What was sent with it.
    pub info: MessageInfo,
}

/// A path of an association (RFC 6458 section 8.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// This end's address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Whether it may carry data.
    pub status: PathStatus,
    /// It is preferred for data.
    pub is_primary: bool,
    /// Data leave by it now.
    pub carries_data: bool,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Octets of the longest SCTP packet that it is known to carry (PLPMTU).
    pub path_mtu: usize,
    /// Octets of chunks that may be in flight, and that are.
    pub congestion_window: u64,
    /// See there.
    pub flight: u64,
    /// Timeouts in a row.
    pub errors: u32,
    /// Its heartbeats, bounds of its timeout, and errors that it survives.
    pub parameters: PathParameters,
}

/// Bytes that are dropped at a time when an association ends.
const UNREAD_LEN: usize = 64 << 10;

/// How often an association that ends drops what has come: a window of 1 MiB a tick is 800 Mbit/s.
const UNREAD_TICK: Duration = Duration::from_millis(10);

/// How an association stands (RFC 9260 section 11.1, G).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationStatus {
    /// It can carry data.
    pub is_open: bool,
    /// Bytes sent that the peer has not acknowledged.
    pub unacknowledged: u64,
    /// Streams to send on: 0 up to one less.
    pub outbound_streams: u16,
    /// Streams that the peer may send on: 0 up to one less.
    pub inbound_streams: u16,
    /// Its paths, in the order in which they became known.
    pub paths: Vec<PathInfo>,
}

/// An association. Dropped, it ends after what was sent has arrived.
pub struct Association {
    pub(super) circuit: Circuit<Sctp, EndpointWire>,
    addresses: Arc<OwnAddresses>,
    inboxes: Arc<Inboxes>,
    message_max: usize,
}

impl Association {
    pub(super) fn new(
        circuit: Circuit<Sctp, EndpointWire>,
        addresses: Arc<OwnAddresses>,
        inboxes: Arc<Inboxes>,
        message_max: usize,
    ) -> Association {
        inboxes.open(circuit.id());
        Association {
            circuit,
            addresses,
            inboxes,
            message_max,
        }
    }

    /// The peer's address in the handshake.
    pub fn peer(&self) -> SocketAddr {
        socket_of(self.circuit.peer())
    }

    /// Sends a message, waiting for room up to `limit`. Short messages may wait about a millisecond for
    /// others while data are in flight.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an empty message, one longer than half the send buffer, or a stream that the
    /// peer does not accept; `TimedOut`, or `BrokenPipe` when the association has ended.
    pub fn send(&mut self, message: &[u8], info: &MessageInfo, limit: Duration) -> io::Result<()> {
        let note = self.note_of(message, info)?;
        self.circuit.send_noted(message, &note, finite(limit))
    }

    /// Sends a message if there is room; before the association is open, too.
    /// Errors are those of [`Association::send`], and `WouldBlock` instead of `TimedOut`.
    pub fn try_send(&mut self, message: &[u8], info: &MessageInfo) -> io::Result<()> {
        let note = self.note_of(message, info)?;
        self.circuit.try_send_noted(message, &note)
    }

    /// Whether a message of so many bytes has room now.
    pub fn has_room(&mut self, len: usize) -> bool {
        // A reservation lasts until the next message.
        self.circuit.reserve(len, Duration::ZERO).is_ok()
    }

    /// Bytes of the longest message that can be sent.
    pub fn message_max(&self) -> usize {
        self.message_max
    }

    /// The note of a message that can be sent.
    fn note_of(&self, message: &[u8], info: &MessageInfo) -> io::Result<Note> {
        if message.is_empty() {
            let text = "SCTP carries no empty messages; send at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.check_stream(info.stream)?;
        Ok(Note {
            stream: info.stream,
            tag: (info.ppid != 0).then_some(u64::from(info.ppid)),
            unordered: info.unordered,
            reliability: info.reliability,
            context: info.context,
            ..Note::default()
        })
    }

    fn check_stream(&self, stream: u16) -> io::Result<()> {
        // Every peer accepts stream 0.
        if stream == 0 {
            return Ok(());
        }
        match self.engine(|engine, id| engine.outbound_streams(id)) {
            Some(streams) if stream >= streams => {
                let last = streams.saturating_sub(1);
                let text = format!("there is no stream {stream}; use 0 to {last}");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
            _ => Ok(()),
        }
    }

    /// Sends what waits for others now. Errors are those of the sockets.
    pub fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    /// Waits up to `limit` until the peer has acknowledged everything that was sent.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or `ConnectionReset` when the association was aborted.
    pub fn wait_acknowledged(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.drain(finite(limit))
    }

    /// Receives a message, or as much of it as `buffer` takes; waits up to `limit`. None when the peer
    /// has ended the association.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or `ConnectionReset` when the association was aborted.
    pub fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<Received>> {
        let part = self.circuit.receive_part(buffer, finite(limit))?;
        Ok(part.map(|part| Received {
            len: part.len,
            end: part.end,
            // SCTP has no empty messages.
            is_aborted: part.end && part.len == 0,
            info: info_of(&part.note),
        }))
    }

    /// From now on parts of a message are received before its end has come, once `bytes` of it are here (partial
    /// delivery, RFC 6458 section 8.1.21): a message may be longer than any buffer then. Until it ends, parts and
    /// messages of other streams may come between its own. Without this call messages are whole, up to 16 MiB.
    pub fn set_partial_delivery_point(&mut self, bytes: usize) {
        self.circuit.set_parts_from(bytes);
    }

    /// The next notice, if there is one.
    pub fn next_notice(&self) -> Option<Notice> {
        let inboxes = &self.inboxes;
        let notice = self.engine(|engine, id| inboxes.take(engine, id))?;
        Some(self.notice_of(notice))
    }

    /// From now on keeps messages that are given up, and those that the peer does not have for certain when
    /// the association ends, for [`Association::next_failed`]: 64 MiB of them.
    pub fn keep_failed(&mut self) {
        self.circuit.keep_failed();
    }

    /// The oldest message that failed, also after the association has ended.
    pub fn next_failed(&mut self) -> Option<FailedMessage> {
        let message = self.circuit.next_failed()?;
        Some(FailedMessage {
            info: info_of(&message.note),
            bytes: message.bytes,
            is_whole: message.is_whole,
            was_sent: message.was_sent,
        })
    }

    /// Whether [`Notice::SenderDry`] tells when nothing is left to send: at once, if that is so now.
    pub fn report_dry(&mut self, reports: bool) {
        self.engine(|engine, id| engine.set_reports_dry(id, reports));
    }

    /// Sets the priority of a stream, the lowest first, or its weight: with `scheduler=priority` and
    /// `scheduler=wfq` (RFC 8260 section 4.3.3).
    ///
    /// # Errors
    ///
    /// `InvalidInput` with another scheduler, for a stream that does not exist, or for a weight of 0.
    pub fn set_stream_value(&mut self, stream: u16, value: u16) -> io::Result<()> {
        let set = self.engine(|engine, id| engine.set_stream_value(id, stream, value));
        set.map_err(|_| {
            let text = format!(
                "stream {stream} cannot have the value {value}; use scheduler=priority, or \
                 scheduler=wfq and a weight from 1 on, and a stream that the status counts"
            );
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }

    /// How it stands.
    pub fn status(&self) -> AssociationStatus {
        let (reports, streams, in_flight) = self.engine(|engine, id| {
            let streams = engine.outbound_streams(id).zip(engine.inbound_streams(id));
            (engine.paths(id), streams, engine.status(id).bytes_in_flight)
        });
        let (outbound_streams, inbound_streams) = streams.unwrap_or_default();
        let status = self.circuit.status();
        AssociationStatus {
            is_open: status.connected && status.closed.is_none(),
            unacknowledged: in_flight,
            outbound_streams,
            inbound_streams,
            paths: reports
                .iter()
                .map(|report| self.path_info(report))
                .collect(),
        }
    }

    /// Prefers the path to the peer's address `remote` for data.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that it does not have, or that has not answered yet.
    pub fn set_primary(&mut self, remote: SocketAddr) -> io::Result<()> {
        self.on_path(remote, |engine, _, id, path| engine.set_primary(id, path))
    }

    /// Sends a HEARTBEAT to the peer's address `remote`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that it does not have.
    pub fn request_heartbeat(&mut self, remote: SocketAddr) -> io::Result<()> {
        self.on_path(remote, |engine, now, id, path| {
            engine.request_heartbeat(now, id, path)
        })
    }

    /// Decides heartbeats, timeouts and errors of the path to the peer's address `remote`, where all paths begin
    /// with the endpoint's (RFC 6458 section 8.1.12). Those that there are now are in [`PathInfo::parameters`].
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that it does not have, or bounds that are not in order.
    pub fn set_path_parameters(
        &mut self,
        remote: SocketAddr,
        parameters: PathParameters,
    ) -> io::Result<()> {
        if !parameters.is_in_order() {
            let rto = parameters.rto;
            let text = format!(
                "timeouts of {:?} to {:?}, at first {:?}, are out of order or zero",
                rto.min, rto.max, rto.initial
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.on_path(remote, |engine, now, id, path| {
            engine.set_path_parameters(now, id, path, parameters)
        })
    }

    fn on_path(
        &mut self,
        remote: SocketAddr,
        act: impl FnOnce(
            &mut Sctp,
            engine::Instant,
            AssociationId,
            engine::Path,
        ) -> Result<(), engine::CommandError>,
    ) -> io::Result<()> {
        let id = self.circuit.id();
        let mut done = None;
        self.circuit.command(|engine, now| {
            let reports = engine.paths(id);
            let wanted = Address::Socket(remote);
            let path = reports.iter().find(|report| report.path.remote == wanted);
            done = path.and_then(|report| act(engine, now, id, report.path).ok());
        })?;
        done.ok_or_else(|| {
            let text = format!("{remote} is no confirmed address of the peer; see its status");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })
    }

    /// Ends the association after everything that was sent has arrived; waits for that up to `limit`.
    /// The peer's user can send no more; what it has sent is acknowledged, and dropped here, or a shut
    /// window would keep the peer from ending (RFC 9260 section 9.2).
    ///
    /// # Errors
    ///
    /// `TimedOut`, or `ConnectionReset` when the peer aborted it.
    pub fn shutdown(mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
        self.circuit.finish()?;
        let mut unread = vec![0; UNREAD_LEN];
        loop {
            while let Ok(Some(_)) = self.circuit.receive_part(&mut unread, Duration::ZERO) {}
            let left = end.saturating_duration_since(Instant::now());
            match self.circuit.drain(left.min(UNREAD_TICK)) {
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut
                        && left > UNREAD_TICK
                        && self.circuit.status().closed.is_none() => {}
                other => return other,
            }
        }
    }

    /// Ends the association at once, in both directions. Errors are those of the sockets.
    pub fn abort(mut self) -> io::Result<()> {
        self.circuit.abort()
    }

    pub(super) fn engine<R>(&self, run: impl FnOnce(&mut Sctp, AssociationId) -> R) -> R {
        let id = self.circuit.id();
        self.circuit.with_pump(|pump| run(pump.engine(), id))
    }

    /// Which of the endpoint's addresses this is.
    pub(super) fn local_index(&self, address: IpAddr) -> Option<engine::LocalAddress> {
        self.addresses.index_of(address)
    }

    pub(super) fn local(&self, index: engine::LocalAddress) -> SocketAddr {
        self.addresses.at(index)
    }

    fn path_info(&self, report: &PathSummary) -> PathInfo {
        PathInfo {
            local: self.local(report.path.local),
            remote: socket_of(report.path.remote),
            status: report.status,
            is_primary: report.is_primary,
            carries_data: report.carries_data,
            srtt: report.srtt,
            rto: report.rto,
            path_mtu: report.path_mtu,
            congestion_window: report.congestion_window,
            flight: report.flight,
            errors: report.errors,
            parameters: report.parameters,
        }
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.inboxes.close(self.circuit.id());
    }
}

/// What a note says of a message.
fn info_of(note: &Note) -> MessageInfo {
    MessageInfo {
        stream: note.stream,
        ppid: note.tag.unwrap_or(0) as u32,
        unordered: note.unordered,
        reliability: note.reliability,
        context: note.context,
    }
}

/// The Internet address of an address; wires of UDP have no others.
pub(super) fn socket_of(address: Address) -> SocketAddr {
    match address {
        Address::Socket(socket) => socket,
        Address::Station(_) | Address::Ether(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}
