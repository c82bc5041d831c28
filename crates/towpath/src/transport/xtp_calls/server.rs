//! The end of a circuit that is called.

use super::arrivals::{Arrivals, ReceivedMessage};
use super::{CallAssociation, CircuitConfig, SharedEndpoint, counts, effective};
use crate::connection_info;
use crate::contract::{Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, Part};
use crate::parts::{self, MessageRest, first_part, hand_out};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A receive takes a request, a send answers it.
pub(super) struct ServerCircuit {
    arrivals: Arrivals,
    config: CircuitConfig,
    /// A request that came before it was asked for.
    early: Option<(CallAssociation, ReceivedMessage)>,
    /// The association of the request that was received and is not answered.
    open: Option<CallAssociation>,
    rest: MessageRest,
}

impl ServerCircuit {
    pub(super) fn new(end: Arc<SharedEndpoint>, config: CircuitConfig) -> ServerCircuit {
        ServerCircuit {
            arrivals: Arrivals::new(end, config),
            config,
            early: None,
            open: None,
            rest: MessageRest::default(),
        }
    }

    /// Ends the open request without a reply.
    fn release_open(&mut self) {
        if let Some(mut association) = self.open.take() {
            // One that broke has nobody who waits.
            let _ = association.finish();
        }
    }

    fn next_request(&mut self, limit: Duration) -> io::Result<ReceivedMessage> {
        self.release_open();
        let (association, request) = match self.early.take() {
            Some(call) => call,
            None => self.arrivals.next(limit)?,
        };
        self.open = Some(association);
        Ok(request)
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let request = self.next_request(limit)?;
        let len = hand_out(request.octets(), buffer);
        self.arrivals.recycle(request);
        Ok(Some(len))
    }
}

impl Circuit for ServerCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.config.check_len(message.len())?;
        let mut association = self.open.take().ok_or_else(|| {
            let text =
                "no request is open; a server of xtp-transaction sends only in answer to one";
            io::Error::new(io::ErrorKind::NotConnected, text)
        })?;
        association.try_send_last(message)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, Duration::ZERO)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.try_send(message)
    }

    fn send_run(&mut self, message: &[u8], _count: usize) -> io::Result<usize> {
        self.try_send(message).map(|()| 1)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, self.config.recv_timeout)
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.try_send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let request = self.next_request(self.config.recv_timeout)?;
        Ok(Some(first_part(request.octets(), buffer, &mut self.rest)))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.release_open();
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let is_ready = self.early.is_some() || !self.rest.is_empty();
        if interest == Interest::Write || is_ready {
            return Ok(());
        }
        self.release_open();
        let limit = deadline.saturating_duration_since(Instant::now());
        match self.arrivals.next(limit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(|call| self.early = Some(call)),
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

impl Drop for ServerCircuit {
    fn drop(&mut self) {
        self.release_open();
    }
}
