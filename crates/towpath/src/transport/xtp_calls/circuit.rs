//! A circuit whose messages are associations.

use super::arrivals::ReceivedMessage;
use super::{CallEndpoint, counts, effective};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Part,
};
use crate::parts::{self, MessageRest, first_part, hand_out};
use crate::runs::send_each;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// What the ends of these circuits differ in.
pub(super) trait CallEnd: Send + 'static {
    /// Messages of a run, at most.
    const RUN_MAX: usize;

    fn endpoint(&self) -> &CallEndpoint;

    /// Longest wait of a receive.
    fn recv_timeout(&self) -> Duration;

    /// Sends a message, for whose room it waits up to `limit`.
    fn send_within(&mut self, message: &[u8], limit: Duration) -> io::Result<()>;

    /// The next message, for which it waits up to `limit`.
    fn next_message(&mut self, limit: Duration) -> io::Result<ReceivedMessage>;

    /// Takes a message that was handed out, whose memory is used again.
    fn recycle(&mut self, message: ReceivedMessage);

    fn finish(&mut self) -> io::Result<()>;

    /// Waits up to `limit` until it may be ready.
    fn wait(&mut self, interest: Interest, limit: Duration) -> io::Result<()>;
}

/// One end of a circuit, with the rest of a message that was received in parts.
pub(super) struct CallCircuit<E> {
    end: E,
    rest: MessageRest,
}

impl<E: CallEnd> CallCircuit<E> {
    pub(super) fn boxed(end: E) -> Box<dyn Circuit> {
        let rest = MessageRest::default();
        Box::new(CallCircuit { end, rest })
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let message = self.end.next_message(limit)?;
        let len = hand_out(message.octets(), buffer);
        self.end.recycle(message);
        Ok(Some(len))
    }
}

impl<E: CallEnd> Circuit for CallCircuit<E> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.end.send_within(message, Duration::ZERO)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, Duration::ZERO)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.end.send_within(message, BLOCKING_TIMEOUT)
    }

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        send_each(count.min(E::RUN_MAX), || self.send(message))
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, self.end.recv_timeout())
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let message = self.end.next_message(self.end.recv_timeout())?;
        Ok(Some(first_part(message.octets(), buffer, &mut self.rest)))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.end.finish()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        if interest == Interest::Read && !self.rest.is_empty() {
            return Ok(());
        }
        let limit = deadline.saturating_duration_since(Instant::now());
        self.end.wait(interest, limit)
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::TRANSACTIONS)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        effective(self.end.endpoint())
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        counts(self.end.endpoint())
    }

    crate::usual_circuit! { send_shared_run recv_run flush descriptor next_deadline }
}
