//! The end of a circuit that calls.

use super::arrivals::{IncomingMessage, ReceivedMessage};
use super::circuit::CallEnd;
use super::{CallEndpoint, CircuitConfig, OUTSTANDING_MAX, begin, would_block};
use crate::contract::{BLOCKING_TIMEOUT, Interest};
use crate::medium::UdpMedium;
use crate::spare_endpoint::Spare;
use engine_xtp::Xtp as Engine;
use engine_xtp::pdu::Service;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// A send begins a transaction, a receive takes a reply.
pub(super) struct ClientEnd {
    /// None once it is dropped.
    spare: Option<Spare<UdpMedium, Engine>>,
    config: CircuitConfig,
    /// Calls that are not answered, the oldest first.
    calls: VecDeque<IncomingMessage>,
    /// A reply that came before it was asked for.
    early: Option<ReceivedMessage>,
    /// A reply that was handed out, whose memory is used again.
    earlier: ReceivedMessage,
}

impl ClientEnd {
    pub(super) fn new(spare: Spare<UdpMedium, Engine>, config: CircuitConfig) -> ClientEnd {
        ClientEnd {
            spare: Some(spare),
            config,
            calls: VecDeque::new(),
            early: None,
            earlier: ReceivedMessage::default(),
        }
    }

    fn spare(&self) -> &Spare<UdpMedium, Engine> {
        self.spare.as_ref().expect("it is there until the drop")
    }

    fn begin(&mut self, message: &[u8]) -> io::Result<()> {
        let spare = self.spare();
        let association = begin(spare.end(), spare.peer(), Service::Transaction, message)?;
        let earlier = std::mem::take(&mut self.earlier);
        self.calls
            .push_back(IncomingMessage::new(association, earlier));
        Ok(())
    }

    /// Waits up to `limit` for the end of the oldest call; its reply, unless it was ended without one.
    /// Fails with `WouldBlock` while it is under config, else why it failed.
    fn end_oldest(&mut self, limit: Duration) -> io::Result<Option<ReceivedMessage>> {
        let Some(call) = self.calls.front_mut() else {
            return Err(would_block());
        };
        match call.complete(limit, self.config.message_max) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
            Err(error) => {
                self.calls.pop_front();
                return Err(error);
            }
            Ok(()) => {}
        }
        let reply = self.calls.pop_front().map(|call| call.into_parts().1);
        Ok(reply.filter(|reply| !reply.octets().is_empty()))
    }

    /// Makes room for a call: waits up to `limit` until the oldest of too many has ended.
    fn make_room(&mut self, limit: Duration) -> io::Result<()> {
        if self.calls.len() < OUTSTANDING_MAX {
            return Ok(());
        }
        if self.early.is_some() {
            return Err(would_block());
        }
        self.early = self.end_oldest(limit)?;
        Ok(())
    }
}

impl CallEnd for ClientEnd {
    const RUN_MAX: usize = usize::MAX;

    fn endpoint(&self) -> &CallEndpoint {
        self.spare().end()
    }

    fn recv_timeout(&self) -> Duration {
        self.config.recv_timeout
    }

    fn send_within(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.config.check_len(message.len())?;
        self.make_room(limit)?;
        self.begin(message)
    }

    fn next_message(&mut self, limit: Duration) -> io::Result<ReceivedMessage> {
        if let Some(reply) = self.early.take() {
            return Ok(reply);
        }
        loop {
            if self.calls.is_empty() {
                std::thread::sleep(limit);
            }
            if let Some(reply) = self.end_oldest(limit)? {
                return Ok(reply);
            }
        }
    }

    fn recycle(&mut self, message: ReceivedMessage) {
        self.earlier = message;
    }

    fn finish(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        for call in &mut self.calls {
            // What the server has is acknowledged, or answered.
            if !call.association.is_acknowledged() {
                let left = deadline.saturating_duration_since(Instant::now());
                call.drain(left)?;
            }
        }
        Ok(())
    }

    fn wait(&mut self, interest: Interest, limit: Duration) -> io::Result<()> {
        let is_ready = match interest {
            Interest::Read => self.early.is_some(),
            Interest::Write => self.calls.len() < OUTSTANDING_MAX,
        };
        match self.calls.front_mut() {
            _ if is_ready => Ok(()),
            Some(call) => call.association.wait(limit),
            None => {
                std::thread::sleep(limit);
                Ok(())
            }
        }
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        self.calls.clear();
        // One that is not kept waits for the ends of its associations.
        if let Some(spare) = self.spare.take().filter(|_| self.config.keeps_endpoint) {
            spare.keep();
        }
    }
}
