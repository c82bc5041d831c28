//! The end of a circuit that is called.

use super::arrivals::{Arrivals, ReceivedMessage};
use super::circuit::CallEnd;
use super::{CallAssociation, CallEndpoint, CircuitConfig, SharedEndpoint};
use crate::contract::Interest;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A receive takes a request, a send answers it.
pub(super) struct ServerEnd {
    arrivals: Arrivals,
    config: CircuitConfig,
    /// A request that came before it was asked for.
    early: Option<(CallAssociation, ReceivedMessage)>,
    /// The association of the request that was received and is not answered.
    open: Option<CallAssociation>,
}

impl ServerEnd {
    pub(super) fn new(end: Arc<SharedEndpoint>, config: CircuitConfig) -> ServerEnd {
        ServerEnd {
            arrivals: Arrivals::new(end, config),
            config,
            early: None,
            open: None,
        }
    }

    /// Ends the open request without a reply.
    fn release_open(&mut self) {
        if let Some(mut association) = self.open.take() {
            // One that broke has nobody who waits.
            let _ = association.finish();
        }
    }
}

impl CallEnd for ServerEnd {
    const RUN_MAX: usize = 1;

    fn endpoint(&self) -> &CallEndpoint {
        &self.arrivals.end.0
    }

    fn recv_timeout(&self) -> Duration {
        self.config.recv_timeout
    }

    fn send_within(&mut self, message: &[u8], _limit: Duration) -> io::Result<()> {
        self.config.check_len(message.len())?;
        let mut association = self.open.take().ok_or_else(|| {
            let text =
                "no request is open; a server of xtp-transaction sends only in answer to one";
            io::Error::new(io::ErrorKind::NotConnected, text)
        })?;
        association.try_send_last(message)
    }

    fn next_message(&mut self, limit: Duration) -> io::Result<ReceivedMessage> {
        self.release_open();
        let (association, request) = match self.early.take() {
            Some(call) => call,
            None => self.arrivals.next(limit)?,
        };
        self.open = Some(association);
        Ok(request)
    }

    fn recycle(&mut self, message: ReceivedMessage) {
        self.arrivals.recycle(message);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.release_open();
        Ok(())
    }

    fn wait(&mut self, interest: Interest, limit: Duration) -> io::Result<()> {
        if interest == Interest::Write || self.early.is_some() {
            return Ok(());
        }
        self.release_open();
        match self.arrivals.next(limit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(|call| self.early = Some(call)),
        }
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        self.release_open();
    }
}
