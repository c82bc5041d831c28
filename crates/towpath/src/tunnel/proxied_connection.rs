//! One connection of a tunnel: a local stream socket, usually TCP, and the circuit that carries it.

use super::{CircuitUser, LocalSocket, TunnelCounts};
use crate::port_probe::PortProbe;
use crate::push::PushedStream;
use engine::{AssociationId, CloseReason};
use rustix::event::epoll::EventFlags;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Passes of one connection before the others are served: up to 512 KiB each way.
const PASSES_PER_CALL: usize = 2;

/// Bytes for which room is taken in the circuit's send buffer before the socket is read, at least: as many as the last
/// read found, twice as many when that filled the room, and half as many when the buffer has no room for them.
const FILL_MIN: usize = 16 << 10;

/// Pieces that one system call reads into (IOV_MAX, readv(2)).
const PIECES_MAX: usize = 1024;

/// Outcome of serving a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PumpOutcome {
    /// Neither side is ready.
    Waiting,
    /// More data can be moved at once.
    MoreToDo,
    /// The handshake is complete, and the program may move the data itself.
    ForUser,
    /// Both directions have ended.
    Ended,
    /// One side was reset, or its handshake failed.
    Broken,
}

/// The socket of a circuit that its user has taken, and the user.
pub(super) type Lent = (Box<dyn LocalSocket>, Arc<dyn CircuitUser>);

/// A socket and its circuit.
pub(super) struct ProxiedConnection {
    socket: Box<dyn LocalSocket>,
    circuit: PushedStream,
    /// Whose share of the connections it takes.
    peer: Option<IpAddr>,
    /// Its priority, when it was added.
    sort: Option<u16>,
    /// When bytes last came or went.
    moved_at: Instant,
    /// The socket's connect is in progress.
    connecting: bool,
    /// Until when both handshakes must be complete; None once they are.
    handshake_deadline: Option<Instant>,
    /// Finds out that nothing listens at the peer's port, while the peer has not answered.
    probe: PortProbe,
    readable: bool,
    writable: bool,
    /// The socket's end, an error or urgent data may lie behind what a read returned.
    reads_to_end: bool,
    /// Bytes for which room is taken in the circuit next.
    fill_len: usize,
    /// Bytes from the socket that the circuit had no space for.
    unsent_to_circuit: Vec<u8>,
    /// Bytes from the circuit that the socket had no space for.
    unsent_to_socket: Vec<u8>,
    socket_finished: bool,
    circuit_finished: bool,
    /// Why it was reset.
    error: Option<io::Error>,
}

impl ProxiedConnection {
    pub(super) fn new(
        socket: Box<dyn LocalSocket>,
        circuit: PushedStream,
        connecting: bool,
        handshake_deadline: Instant,
        peer: Option<IpAddr>,
    ) -> ProxiedConnection {
        let probe = PortProbe::new(circuit.peer());
        ProxiedConnection {
            socket,
            circuit,
            peer,
            sort: None,
            moved_at: Instant::now(),
            connecting,
            handshake_deadline: Some(handshake_deadline),
            probe,
            readable: false,
            writable: false,
            reads_to_end: false,
            fill_len: FILL_MIN,
            unsent_to_circuit: Vec::new(),
            unsent_to_socket: Vec::new(),
            socket_finished: false,
            circuit_finished: false,
            error: None,
        }
    }

    /// The same with a priority.
    pub(super) fn sorted(mut self, sort: Option<u16>) -> ProxiedConnection {
        self.sort = sort;
        self
    }

    pub(super) fn sort(&self) -> Option<u16> {
        self.sort
    }

    pub(super) fn circuit_id(&self) -> AssociationId {
        self.circuit.id()
    }

    /// When a module of its stream has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.circuit.next_deadline()
    }

    /// What the modules of its stream counted.
    pub(super) fn module_counts(&self) -> BTreeMap<String, u64> {
        self.circuit.counts()
    }

    /// Whose share of the connections it takes.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// How long no bytes came or went.
    pub(super) fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved_at)
    }

    /// What its user needs to know of why it broke: that the target refused, or that the ends have other
    /// modules.
    pub(super) fn failure(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        match error.kind() {
            _ if self.connecting => Some(format!("cannot connect to the target: {error}")),
            ErrorKind::InvalidData => Some(format!("a connection was reset: {error}")),
            _ => None,
        }
    }

    /// Whether one direction has ended, and the other has not.
    pub(super) fn is_half_closed(&self) -> bool {
        self.socket_finished != self.circuit_finished
    }

    /// Whether a handshake is incomplete.
    pub(super) fn is_handshaking(&self) -> bool {
        self.handshake_deadline.is_some()
    }

    /// Notes the socket's readiness (edge-triggered).
    pub(super) fn set_readiness(&mut self, flags: EventFlags) {
        let ends_early = EventFlags::RDHUP | EventFlags::PRI;
        self.reads_to_end |= flags.intersects(ends_early | EventFlags::ERR | EventFlags::HUP);
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        self.readable |= broken || flags.contains(EventFlags::IN);
        self.writable |= broken || flags.contains(EventFlags::OUT);
    }

    /// Moves data in both directions.
    pub(super) fn pump(&mut self, buffer: &mut [u8], counts: &mut TunnelCounts) -> PumpOutcome {
        self.try_pump(buffer, counts).unwrap_or_else(|error| {
            self.error = Some(error);
            PumpOutcome::Broken
        })
    }

    fn try_pump(
        &mut self,
        buffer: &mut [u8],
        counts: &mut TunnelCounts,
    ) -> io::Result<PumpOutcome> {
        if self.check_handshake()? && self.socket.user().is_some() {
            return Ok(PumpOutcome::ForUser);
        }
        if self.connecting {
            return Ok(PumpOutcome::Waiting);
        }
        self.circuit.carry_on()?;
        // A reader of the socket who takes long would learn it when all that had come before is read.
        if self.circuit.status().closed == Some(CloseReason::TimedOut) {
            return Err(ErrorKind::TimedOut.into());
        }
        let moved_before = counts.sent_bytes + counts.received_bytes;
        let (mut sent, mut more) = (false, true);
        for _ in 0..PASSES_PER_CALL {
            let up = self.socket_to_circuit(buffer, counts)?;
            let down = self.circuit_to_socket(buffer, counts)?;
            sent |= up;
            more = up || down;
            if !more {
                break;
            }
        }
        if counts.sent_bytes + counts.received_bytes != moved_before {
            self.moved_at = Instant::now();
        }
        if sent && !self.socket_finished {
            self.circuit.flush()?;
        }
        Ok(
            match (self.socket_finished && self.circuit_finished, more) {
                (true, _) => PumpOutcome::Ended,
                (false, true) => PumpOutcome::MoreToDo,
                (false, false) => PumpOutcome::Waiting,
            },
        )
    }

    /// Checks whether both handshakes are complete, or have timed out. True when this look is the one that found them
    /// complete.
    fn check_handshake(&mut self) -> io::Result<bool> {
        let Some(handshake_deadline) = self.handshake_deadline else {
            return Ok(false);
        };
        if self.connecting && self.writable {
            if let Some(error) = self.socket.take_error()? {
                return Err(error);
            }
            self.connecting = false;
        }
        let status = self.circuit.status();
        if let Some(reason) = status.closed.filter(|_| !status.connected) {
            return Err(match reason {
                CloseReason::TimedOut => ErrorKind::TimedOut.into(),
                _ => ErrorKind::ConnectionRefused.into(),
            });
        }
        if status.connected && !self.connecting {
            self.handshake_deadline = None;
            self.readable = true;
            if self.socket.user().is_none() {
                self.socket.on_connected()?;
            }
            return Ok(true);
        }
        if !status.connected && self.probe.is_closed() {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        if Instant::now() >= handshake_deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(false)
    }

    /// Offers the circuit to the socket's user: the socket and the user if it takes it, else the connection.
    pub(super) fn offer(self) -> Result<Lent, Box<Self>> {
        let Some(user) = self.socket.user() else {
            return Err(Box::new(self));
        };
        match self.circuit.offer(|circuit| user.take(circuit)) {
            None => Ok((self.socket, user)),
            Some(circuit) => Err(Box::new(ProxiedConnection { circuit, ..self })),
        }
    }

    /// Carries the data here after all, when the socket's user has not taken the circuit.
    pub(super) fn go_on(mut self) -> (ProxiedConnection, PumpOutcome) {
        match self.socket.on_connected() {
            Ok(()) => (self, PumpOutcome::MoreToDo),
            Err(error) => {
                self.error = Some(error);
                (self, PumpOutcome::Broken)
            }
        }
    }

    /// Moves one chunk from the socket to the circuit; true if it did.
    fn socket_to_circuit(
        &mut self,
        buffer: &mut [u8],
        counts: &mut TunnelCounts,
    ) -> io::Result<bool> {
        if self.socket_finished {
            return Ok(false);
        }
        if !self.unsent_to_circuit.is_empty() {
            if !try_send(&mut self.circuit, &self.unsent_to_circuit)? {
                return Ok(false);
            }
            self.unsent_to_circuit.clear();
        }
        if !self.readable {
            return Ok(false);
        }
        if self.circuit.is_plain() {
            return self.socket_to_store(buffer.len(), counts);
        }
        match self.socket.read(buffer) {
            Ok(0) => self.finish_circuit(),
            Ok(len) => {
                // The next edge says that there is more (epoll(7)).
                self.readable = len == buffer.len() || self.reads_to_end;
                counts.sent_bytes += len as u64;
                if try_send(&mut self.circuit, &buffer[..len])? {
                    return Ok(true);
                }
                self.unsent_to_circuit.extend_from_slice(&buffer[..len]);
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads the socket where the circuit sends from, at most `len_max` bytes; true if it did.
    fn socket_to_store(&mut self, len_max: usize, counts: &mut TunnelCounts) -> io::Result<bool> {
        let socket = &mut *self.socket;
        let mut room = 0;
        let filled = self.circuit.try_fill(self.fill_len.min(len_max), |store| {
            let mut pieces: Vec<_> = store.take(PIECES_MAX).map(IoSliceMut::new).collect();
            room = pieces.iter().map(|piece| piece.len()).sum();
            socket.read_pieces(&mut pieces)
        });
        match filled {
            Ok(0) => self.finish_circuit(),
            Ok(len) => {
                // The next edge says that there is more (epoll(7)).
                self.readable = len == room || self.reads_to_end;
                let next_len = if len == room { 2 * len } else { len };
                self.fill_len = next_len.max(FILL_MIN);
                counts.sent_bytes += len as u64;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Either the circuit has no room for so much, or the socket is empty.
                self.readable = room == 0;
                let next_len = if room == 0 { self.fill_len / 2 } else { 0 };
                self.fill_len = next_len.max(FILL_MIN);
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The socket's peer sends no more: nor does the circuit; true if it was told.
    fn finish_circuit(&mut self) -> io::Result<bool> {
        match self.circuit.finish() {
            // Bytes read before have no room yet; the next read returns 0 again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            finished => {
                finished?;
                self.socket_finished = true;
                Ok(true)
            }
        }
    }

    /// Moves one chunk from the circuit to the socket; true if it did.
    fn circuit_to_socket(
        &mut self,
        buffer: &mut [u8],
        counts: &mut TunnelCounts,
    ) -> io::Result<bool> {
        if self.circuit_finished || !self.flush_to_socket()? {
            return Ok(false);
        }
        let len = match self.circuit.try_recv(buffer) {
            Ok(Some(len)) => len,
            Ok(None) => {
                self.circuit_finished = true;
                self.socket.shutdown_write()?;
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        counts.received_bytes += len as u64;
        let written = write_available(&mut *self.socket, &mut self.writable, &buffer[..len])?;
        self.unsent_to_socket
            .extend_from_slice(&buffer[written..len]);
        Ok(self.unsent_to_socket.is_empty())
    }

    /// Writes the bytes unsent to the socket; true if none are left.
    fn flush_to_socket(&mut self) -> io::Result<bool> {
        let at = write_available(
            &mut *self.socket,
            &mut self.writable,
            &self.unsent_to_socket,
        )?;
        self.unsent_to_socket.drain(..at);
        Ok(self.unsent_to_socket.is_empty())
    }

    /// Resets both sides because of an error of this kind.
    pub(super) fn fail(mut self, kind: ErrorKind) {
        self.error = Some(kind.into());
        self.close(true);
    }

    /// Drops both sides; `broken` resets both.
    pub(super) fn close(self, broken: bool) {
        if broken {
            self.socket.reset(self.error.as_ref());
            // There is no caller to report an error to.
            let _ = self.circuit.abort();
        }
    }
}

/// Writes as much as the socket takes while it is `writable`; returns how much.
fn write_available(
    socket: &mut dyn LocalSocket,
    writable: &mut bool,
    bytes: &[u8],
) -> io::Result<usize> {
    let mut at = 0;
    while at < bytes.len() && *writable {
        match socket.write(&bytes[at..]) {
            Ok(len) => at += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => *writable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// Sends bytes on the circuit; false when it has no space.
fn try_send(circuit: &mut PushedStream, bytes: &[u8]) -> io::Result<bool> {
    match circuit.try_send(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
