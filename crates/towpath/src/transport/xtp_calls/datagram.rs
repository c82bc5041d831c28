//! An end of datagrams.

use super::arrivals::{Arrivals, ReceivedMessage};
use super::circuit::CallEnd;
use super::{
    CallAssociation, CallEndpoint, CircuitConfig, OUTSTANDING_MAX, SharedEndpoint, begin,
    would_block,
};
use crate::contract::{BLOCKING_TIMEOUT, Interest};
use engine::{Address, CloseReason};
use engine_xtp::pdu::Service;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Both ends send and receive; the listening one sends to the peer of the message that it received last.
pub(super) struct DatagramEnd {
    arrivals: Arrivals,
    peer: Option<Address>,
    config: CircuitConfig,
    /// Messages that are not acknowledged, the oldest first.
    sent: VecDeque<CallAssociation>,
    /// A message that came before it was asked for.
    early: Option<ReceivedMessage>,
}

impl DatagramEnd {
    pub(super) fn new(
        end: Arc<SharedEndpoint>,
        peer: Option<Address>,
        config: CircuitConfig,
    ) -> DatagramEnd {
        DatagramEnd {
            arrivals: Arrivals::new(end, config),
            peer,
            config,
            sent: VecDeque::new(),
            early: None,
        }
    }

    fn peer(&self) -> io::Result<Address> {
        self.peer.ok_or_else(|| {
            let text = "nobody has sent to this end of xtp-datagram yet; receive a message first";
            io::Error::new(io::ErrorKind::NotConnected, text)
        })
    }

    fn begin(&mut self, message: &[u8]) -> io::Result<()> {
        let service = match self.config.acknowledged {
            true => Service::AckedDatagram,
            false => Service::Datagram,
        };
        let association = begin(&self.arrivals.end.0, self.peer()?, service, message)?;
        if self.config.acknowledged {
            self.sent.push_back(association);
        }
        Ok(())
    }

    /// Forgets the oldest messages that were acknowledged. Errors: why one was not.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(oldest) = self.sent.front() {
            match oldest.status().closed {
                Some(CloseReason::Graceful) => {}
                Some(_) => {
                    let mut failed = self.sent.pop_front();
                    let drained = failed.as_mut().map(|failed| failed.drain(Duration::ZERO));
                    return drained.unwrap_or(Ok(()));
                }
                None if oldest.is_acknowledged() => {}
                None => return Ok(()),
            }
            self.sent.pop_front();
        }
        Ok(())
    }

    /// Waits up to `limit` until fewer than `count` messages, one at least, are not acknowledged.
    fn await_fewer(&mut self, count: usize, limit: Duration) -> io::Result<()> {
        if self.sent.len() < count {
            return Ok(());
        }
        let deadline = Instant::now() + limit;
        loop {
            // Takes in what arrived.
            self.sent[0].drive()?;
            self.reap()?;
            if self.sent.len() < count {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(would_block());
            }
            self.sent[0].wait(left)?;
        }
    }
}

impl CallEnd for DatagramEnd {
    const RUN_MAX: usize = usize::MAX;

    fn endpoint(&self) -> &CallEndpoint {
        &self.arrivals.end.0
    }

    fn recv_timeout(&self) -> Duration {
        self.config.recv_timeout
    }

    fn send_within(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.config.check_len(message.len())?;
        self.await_fewer(OUTSTANDING_MAX, limit)?;
        self.begin(message)
    }

    fn next_message(&mut self, limit: Duration) -> io::Result<ReceivedMessage> {
        if let Some(message) = self.early.take() {
            return Ok(message);
        }
        let (association, message) = self.arrivals.next(limit)?;
        self.peer = Some(association.peer());
        Ok(message)
    }

    fn recycle(&mut self, message: ReceivedMessage) {
        self.arrivals.recycle(message);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.await_fewer(1, BLOCKING_TIMEOUT)
    }

    fn wait(&mut self, interest: Interest, limit: Duration) -> io::Result<()> {
        let waited = match interest {
            Interest::Read if self.early.is_some() => return Ok(()),
            Interest::Read => self
                .next_message(limit)
                .map(|message| self.early = Some(message)),
            Interest::Write => self.await_fewer(OUTSTANDING_MAX, limit),
        };
        match waited {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }
}
