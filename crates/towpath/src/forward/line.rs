//! One connection: a socket, of TCP in most cases, and a circuit.

use super::{Counts, Plug};
use crate::xtp::Circuit;
use engine::{AssociationId, CloseReason};
use rustix::event::epoll::EventFlags;
use std::io::{self, ErrorKind};
use std::time::Instant;

/// Turns in which one connection moves bytes before others have theirs: half a megabyte each way.
const TURNS: usize = 8;

/// What serving a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for either side.
    Waits,
    /// There is more to do at once.
    Again,
    /// Both directions have ended.
    Ended,
    /// One side broke, or never answered.
    Broken,
}

/// A connection.
pub(super) struct Line {
    tcp: Box<dyn Plug>,
    circuit: Circuit,
    /// The TCP side has not answered yet.
    connecting: bool,
    /// Until when both sides must have answered; None once they have.
    deadline: Option<Instant>,
    readable: bool,
    writable: bool,
    /// Bytes from TCP that the circuit had no room for.
    up: Vec<u8>,
    /// Bytes from the circuit that TCP had no room for.
    down: Vec<u8>,
    up_ended: bool,
    down_ended: bool,
    /// Why it broke.
    error: Option<io::Error>,
}

impl Line {
    pub(super) fn new(
        tcp: Box<dyn Plug>,
        circuit: Circuit,
        connecting: bool,
        deadline: Instant,
    ) -> Line {
        Line {
            tcp,
            circuit,
            connecting,
            deadline: Some(deadline),
            readable: false,
            writable: false,
            up: Vec::new(),
            down: Vec::new(),
            up_ended: false,
            down_ended: false,
            error: None,
        }
    }

    pub(super) fn circuit_id(&self) -> AssociationId {
        self.circuit.id()
    }

    /// Whether a side has not answered yet.
    pub(super) fn is_opening(&self) -> bool {
        self.deadline.is_some()
    }

    /// What the socket is ready for.
    pub(super) fn note(&mut self, flags: EventFlags) {
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        self.readable |= broken || flags.contains(EventFlags::IN);
        self.writable |= broken || flags.contains(EventFlags::OUT);
    }

    /// Moves what can be moved.
    pub(super) fn pump(&mut self, buffer: &mut [u8], counts: &mut Counts) -> Step {
        self.try_pump(buffer, counts).unwrap_or_else(|error| {
            self.error = Some(error);
            Step::Broken
        })
    }

    fn try_pump(&mut self, buffer: &mut [u8], counts: &mut Counts) -> io::Result<Step> {
        self.look_at_opening()?;
        if self.connecting {
            return Ok(Step::Waits);
        }
        let (mut sent, mut more) = (false, true);
        for _ in 0..TURNS {
            let up = self.move_up(buffer, counts)?;
            let down = self.move_down(buffer, counts)?;
            sent |= up;
            more = up || down;
            if !more {
                break;
            }
        }
        if sent && !self.up_ended {
            self.circuit.flush()?;
        }
        Ok(match (self.up_ended && self.down_ended, more) {
            (true, _) => Step::Ended,
            (false, true) => Step::Again,
            (false, false) => Step::Waits,
        })
    }

    /// Sees whether both sides have answered, in time.
    fn look_at_opening(&mut self) -> io::Result<()> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        if self.connecting && self.writable {
            if let Some(error) = self.tcp.take_error()? {
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
            self.deadline = None;
            self.readable = true;
            self.tcp.opened()?;
        } else if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Moves one piece from TCP to the circuit; true when it did.
    fn move_up(&mut self, buffer: &mut [u8], counts: &mut Counts) -> io::Result<bool> {
        if self.up_ended {
            return Ok(false);
        }
        if !self.up.is_empty() {
            if !offer(&mut self.circuit, &self.up)? {
                return Ok(false);
            }
            self.up.clear();
        }
        if !self.readable {
            return Ok(false);
        }
        match self.tcp.read(buffer) {
            Ok(0) => {
                self.circuit.finish()?;
                self.up_ended = true;
                Ok(true)
            }
            Ok(len) => {
                counts.sent_bytes += len as u64;
                if offer(&mut self.circuit, &buffer[..len])? {
                    return Ok(true);
                }
                self.up.extend_from_slice(&buffer[..len]);
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

    /// Moves one piece from the circuit to TCP; true when it did.
    fn move_down(&mut self, buffer: &mut [u8], counts: &mut Counts) -> io::Result<bool> {
        if self.down_ended || !self.write_rest()? {
            return Ok(false);
        }
        let len = match self.circuit.try_recv(buffer) {
            Ok(Some(len)) => len.min(buffer.len()),
            Ok(None) => {
                self.down_ended = true;
                self.tcp.end()?;
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        counts.received_bytes += len as u64;
        let written = write(&mut *self.tcp, &mut self.writable, &buffer[..len])?;
        self.down.extend_from_slice(&buffer[written..len]);
        Ok(self.down.is_empty())
    }

    /// Writes what TCP had no room for; true when nothing is left.
    fn write_rest(&mut self) -> io::Result<bool> {
        let at = write(&mut *self.tcp, &mut self.writable, &self.down)?;
        self.down.drain(..at);
        Ok(self.down.is_empty())
    }

    /// Lets go of both sides; `broken` tells both.
    pub(super) fn close(self, broken: bool) {
        if broken {
            self.tcp.reset(self.error.as_ref());
            // Nobody is left to tell about an error.
            let _ = self.circuit.abort();
        }
    }
}

/// Writes as much as TCP has room for, as long as it is `writable`; gives how much.
fn write(tcp: &mut dyn Plug, writable: &mut bool, bytes: &[u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < bytes.len() && *writable {
        match tcp.write(&bytes[at..]) {
            Ok(len) => at += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => *writable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

/// Gives bytes to the circuit; false when it has no room.
fn offer(circuit: &mut Circuit, bytes: &[u8]) -> io::Result<bool> {
    match circuit.try_send(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
