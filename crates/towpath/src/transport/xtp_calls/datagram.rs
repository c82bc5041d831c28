//! An end of datagrams.

use super::arrivals::{Arrivals, ReceivedMessage};
use super::{
    CallAssociation, CircuitConfig, OUTSTANDING_MAX, SharedEndpoint, begin, counts, effective,
    would_block,
};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Part,
};
use crate::parts::{self, MessageRest, first_part, hand_out};
use engine::{Address, CloseReason};
use engine_xtp::pdu::Service;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Both ends send and receive; the listening one sends to the peer of the message that it received last.
pub(super) struct DatagramCircuit {
    arrivals: Arrivals,
    peer: Option<Address>,
    config: CircuitConfig,
    /// Messages that are not acknowledged, the oldest first.
    sent: VecDeque<CallAssociation>,
    /// A message that came before it was asked for.
    early: Option<ReceivedMessage>,
    rest: MessageRest,
}

impl DatagramCircuit {
    pub(super) fn new(
        end: Arc<SharedEndpoint>,
        peer: Option<Address>,
        config: CircuitConfig,
    ) -> DatagramCircuit {
        DatagramCircuit {
            arrivals: Arrivals::new(end, config),
            peer,
            config,
            sent: VecDeque::new(),
            early: None,
            rest: MessageRest::default(),
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

    fn next_message(&mut self, limit: Duration) -> io::Result<ReceivedMessage> {
        if let Some(message) = self.early.take() {
            return Ok(message);
        }
        let (association, message) = self.arrivals.next(limit)?;
        self.peer = Some(association.peer());
        Ok(message)
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let message = self.next_message(limit)?;
        let len = hand_out(message.octets(), buffer);
        self.arrivals.recycle(message);
        Ok(Some(len))
    }

    fn send_within(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.config.check_len(message.len())?;
        self.await_fewer(OUTSTANDING_MAX, limit)?;
        self.begin(message)
    }
}

impl Circuit for DatagramCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_within(message, Duration::ZERO)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, Duration::ZERO)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_within(message, BLOCKING_TIMEOUT)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, self.config.recv_timeout)
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let message = self.next_message(self.config.recv_timeout)?;
        Ok(Some(first_part(message.octets(), buffer, &mut self.rest)))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.await_fewer(1, BLOCKING_TIMEOUT)
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        let waited = match interest {
            Interest::Read if self.early.is_some() || !self.rest.is_empty() => return Ok(()),
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

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::TRANSACTIONS)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        effective(&self.arrivals.end.0)
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        counts(&self.arrivals.end.0)
    }
}
