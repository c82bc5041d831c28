//! Messages that peers send, an association each.

use super::{CallAssociation, CircuitConfig, OUTSTANDING_MAX, SharedEndpoint, would_block};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Octets of memory of a message at first.
const MEMORY_LEN: usize = 16 << 10;

/// How long one message is waited for while others may come.
const TURN: Duration = Duration::from_millis(1);

/// A message that was received, in memory that may be longer.
#[derive(Default)]
pub(super) struct ReceivedMessage {
    memory: Vec<u8>,
    len: usize,
}

impl ReceivedMessage {
    pub(super) fn octets(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Room for what comes next.
    fn room(&mut self) -> &mut [u8] {
        if self.len == self.memory.len() {
            let longer = (2 * self.len).max(MEMORY_LEN);
            self.memory.resize(longer, 0);
        }
        &mut self.memory[self.len..]
    }
}

/// A message that arrives in an association, up to the end of the peer's direction.
pub(super) struct IncomingMessage {
    pub(super) association: CallAssociation,
    message: ReceivedMessage,
}

impl IncomingMessage {
    /// A message of `association`, kept in the memory of an earlier one.
    pub(super) fn new(association: CallAssociation, earlier: ReceivedMessage) -> IncomingMessage {
        let message = ReceivedMessage { len: 0, ..earlier };
        IncomingMessage {
            association,
            message,
        }
    }

    /// Receives to the end, for which it waits up to `limit`.
    /// Fails with `WouldBlock` while there is more to come, `InvalidData` for a message beyond `max`, else why the
    /// association broke.
    pub(super) fn complete(&mut self, limit: Duration, max: usize) -> io::Result<()> {
        loop {
            let room = self.message.room();
            let received = match limit.is_zero() {
                true => self.association.try_recv(room),
                false => self.association.recv(room, limit),
            };
            match received {
                Ok(None) => return Ok(()),
                Ok(Some(more)) => {
                    self.message.len += more;
                    if self.message.len > max {
                        return Err(ErrorKind::InvalidData.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut && !self.has_ended() => {
                    return Err(would_block());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits up to `limit` until the peer has acknowledged what was sent.
    /// Fails with `WouldBlock` while it has not, else why the association broke.
    pub(super) fn drain(&mut self, limit: Duration) -> io::Result<()> {
        match self.association.drain(limit) {
            Err(error) if error.kind() == ErrorKind::TimedOut && !self.has_ended() => {
                Err(would_block())
            }
            other => other,
        }
    }

    /// Whether the association is over, so that nothing more can come.
    fn has_ended(&self) -> bool {
        self.association.status().closed.is_some()
    }

    /// The message and its association.
    pub(super) fn into_parts(self) -> (CallAssociation, ReceivedMessage) {
        (self.association, self.message)
    }
}

/// What arrives at an endpoint.
pub(super) struct Arrivals {
    pub(super) end: Arc<SharedEndpoint>,
    config: CircuitConfig,
    /// Messages of which a part is here, the oldest first.
    incoming: VecDeque<IncomingMessage>,
    /// A message that was handed out, whose memory is used again.
    earlier: ReceivedMessage,
}

impl Arrivals {
    pub(super) fn new(end: Arc<SharedEndpoint>, config: CircuitConfig) -> Arrivals {
        Arrivals {
            end,
            config,
            incoming: VecDeque::new(),
            earlier: ReceivedMessage::default(),
        }
    }

    /// The next whole message, and its association; waits for one up to `limit`. An association that breaks is forgotten, and
    /// so is the oldest of too many whose messages are not whole.
    /// Fails with `WouldBlock` without one, or errors of the wire.
    pub(super) fn next(
        &mut self,
        limit: Duration,
    ) -> io::Result<(CallAssociation, ReceivedMessage)> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(whole) = self.take_whole() {
                return Ok(whole.into_parts());
            }
            if self.try_accept()? {
                continue;
            }
            let left = deadline.map_or(limit, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(would_block());
            }
            self.wait(left)?;
        }
    }

    /// Waits until a message may be whole.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        match self.incoming.front_mut() {
            Some(incoming) => incoming.association.wait(limit.min(TURN)),
            None => match self.end.0.endpoint.accept(limit) {
                Ok(association) => {
                    self.add(association);
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    /// Gives back the memory of a message.
    pub(super) fn recycle(&mut self, message: ReceivedMessage) {
        self.earlier = message;
    }

    /// Accepts one association, if one waits: others stay with the engine, which limits them.
    fn try_accept(&mut self) -> io::Result<bool> {
        match self.end.0.endpoint.try_accept() {
            Ok(association) => {
                self.add(association);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, mut association: CallAssociation) {
        association.set_delayed_ack();
        if self.incoming.len() == OUTSTANDING_MAX {
            self.incoming.pop_front();
        }
        let earlier = std::mem::take(&mut self.earlier);
        self.incoming
            .push_back(IncomingMessage::new(association, earlier));
    }

    fn take_whole(&mut self) -> Option<IncomingMessage> {
        let mut at = 0;
        while let Some(incoming) = self.incoming.get_mut(at) {
            match incoming.complete(Duration::ZERO, self.config.message_max) {
                Ok(()) => return self.incoming.remove(at),
                Err(error) if error.kind() == ErrorKind::WouldBlock => at += 1,
                Err(_) => drop(self.incoming.remove(at)),
            }
        }
        None
    }
}
