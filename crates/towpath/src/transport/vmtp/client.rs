//! The end of a circuit that calls.

use super::end::{End, NOT_ANSWERED, OUTSTANDING_MAX, no_way_back, would_block};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo, Note, Part,
};
use crate::parts::{self, MessageRest, first_part, hand_out};
use crate::runs::send_each;
use driver::transactions::{Call, Message, Reply};
use engine::{EntityId, Reliability};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Wire;

/// How long the last copies of datagrams may take: eight, 10 ms apart, take 70 ms.
const LAST_COPIES_WAIT: Duration = Duration::from_secs(2);

/// An entity that calls: a send begins a transaction, a receive takes a reply.
pub(super) struct ClientCircuit<W: Wire> {
    end: End<W>,
    server: EntityId,
    /// The message that was sent last: it becomes a call with the next flush, send or wait.
    unsent: Option<Message>,
    /// Memory of a reply that was received, for the next message.
    spare: Vec<u8>,
    /// Calls that are not answered, the oldest first.
    calls: VecDeque<Call>,
    /// Replies that were not received, in the order of their calls.
    replies: VecDeque<Vec<u8>>,
    rest: MessageRest,
}

impl<W: Wire + Send + 'static> ClientCircuit<W> {
    pub(super) fn new(end: End<W>, server: EntityId) -> Self {
        ClientCircuit {
            end,
            server,
            unsent: None,
            spare: Vec::new(),
            calls: VecDeque::new(),
            replies: VecDeque::new(),
            rest: MessageRest::default(),
        }
    }

    /// Takes the replies that have come, as far as those of the oldest calls have.
    fn reap(&mut self) -> io::Result<()> {
        while let Some(call) = self.calls.front() {
            let Some(outcome) = self.end.endpoint.try_take(call) else {
                return Ok(());
            };
            self.calls.pop_front();
            self.keep(outcome)?;
        }
        Ok(())
    }

    /// Keeps a reply, unless it says only that its request was received. A datagram ends without one
    /// when its last copy has left.
    fn keep(&mut self, outcome: io::Result<Reply>) -> io::Result<()> {
        let reply = match outcome {
            Err(error) if self.end.is_one_way && error.kind() == ErrorKind::UnexpectedEof => {
                return Ok(());
            }
            other => other?,
        };
        if reply.note.tag != Some(u64::from(NOT_ANSWERED)) {
            self.replies.push_back(reply.octets);
        }
        Ok(())
    }

    /// Copies a reply into the user's buffer.
    fn hand_out(&mut self, reply: Vec<u8>, buffer: &mut [u8]) -> usize {
        let len = hand_out(&reply, buffer);
        self.end.keep_spare(&mut self.spare, reply);
        len
    }

    fn is_full(&self) -> bool {
        let unsent = usize::from(self.unsent.is_some());
        self.calls.len() + self.replies.len() + unsent >= OUTSTANDING_MAX
    }

    /// What travels with a call.
    fn note(&self) -> Note {
        Note {
            // The only stream of its entity to that server, which goes on to the end.
            stream: u16::from(self.end.is_stream),
            reliability: match self.end.is_one_way {
                true => Reliability::Retransmissions(0),
                false => Reliability::default(),
            },
            ..Note::default()
        }
    }

    /// Begins the call of the message that was sent last.
    fn begin_unsent(&mut self) {
        if let Some(message) = self.unsent.take() {
            let (from, to) = (self.end.entity, self.server);
            let call = self.end.endpoint.begin(from, to, message, &self.note());
            self.calls.push_back(call);
        }
    }

    /// Takes a message to send.
    fn take_in(&mut self, message: Message) {
        self.begin_unsent();
        self.unsent = Some(message);
    }

    fn send_message(&mut self, message: Message) -> io::Result<()> {
        self.end.check_len(message.len())?;
        if self.is_full() {
            self.await_oldest(BLOCKING_TIMEOUT)?;
        }
        if self.is_full() {
            return Err(would_block());
        }
        self.take_in(message);
        Ok(())
    }

    /// Waits up to `limit` until all calls are answered, and the copies of all datagrams have left; fails with `late` when
    /// they are not.
    fn await_all(&mut self, limit: Duration, late: ErrorKind) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        while !self.calls.is_empty() {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(late.into());
            }
            self.await_oldest(rest)?;
        }
        Ok(())
    }

    /// Waits for the reply to the oldest call; whether that is over.
    fn await_oldest(&mut self, limit: Duration) -> io::Result<bool> {
        self.begin_unsent();
        let Some(call) = self.calls.front() else {
            return Ok(false);
        };
        let outcome = self.end.endpoint.take(call, limit);
        let is_over = outcome.is_some();
        if let Some(outcome) = outcome {
            self.calls.pop_front();
            self.keep(outcome)?;
        }
        self.reap()?;
        Ok(is_over)
    }

    /// The next reply, waiting for it.
    fn await_reply(&mut self) -> io::Result<Vec<u8>> {
        if self.end.is_one_way {
            return Err(no_way_back());
        }
        let limit = self.end.recv_timeout;
        loop {
            if let Some(reply) = self.replies.pop_front() {
                return Ok(reply);
            }
            if self.calls.is_empty() && self.unsent.is_none() {
                std::thread::sleep(limit);
                return Err(would_block());
            }
            // The time runs anew when a call is answered with nothing, so that no wait reads the clock for it.
            let is_late = limit.is_zero() || !self.await_oldest(limit)?;
            if is_late && self.replies.is_empty() {
                return Err(would_block());
            }
        }
    }
}

impl<W: Wire + Send + 'static> Circuit for ClientCircuit<W> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.end.check_len(message.len())?;
        if self.is_full() {
            self.begin_unsent();
            self.end.endpoint.poll_once();
            self.reap()?;
        }
        if self.is_full() {
            return Err(would_block());
        }
        let message = self.end.message(&mut self.spare, message);
        self.take_in(message);
        Ok(())
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        if self.end.is_one_way {
            return Err(no_way_back());
        }
        if self.replies.is_empty() {
            self.begin_unsent();
            self.end.endpoint.poll_once();
            self.reap()?;
        }
        let reply = self.replies.pop_front().ok_or_else(would_block)?;
        Ok(Some(self.hand_out(reply, buffer)))
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let message = self.end.message(&mut self.spare, message);
        self.send_message(message)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        send_each(count, || self.send_message(Arc::clone(message).into()))
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        let reply = self.await_reply()?;
        Ok(Some(self.hand_out(reply, buffer)))
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        let reply = self.await_reply()?;
        Ok(Some(first_part(&reply, buffer, &mut self.rest)))
    }

    parts::lends_nothing! {}

    fn flush(&mut self) -> io::Result<()> {
        match self.unsent.take() {
            Some(message) => {
                let (from, to, note) = (self.end.entity, self.server, self.note());
                let call = self.end.endpoint.begin_now(from, to, message, &note);
                self.calls.push_back(call);
            }
            None => self.end.endpoint.flush_calls(),
        }
        self.reap()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin_unsent();
        self.end.endpoint.flush();
        self.reap()?;
        match self.end.is_one_way {
            true => self.await_all(LAST_COPIES_WAIT, ErrorKind::TimedOut),
            false => self.await_all(BLOCKING_TIMEOUT, ErrorKind::WouldBlock),
        }
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.flush()?;
        let is_ready = match interest {
            Interest::Read => !self.replies.is_empty(),
            Interest::Write => !self.is_full(),
        };
        let rest = deadline.saturating_duration_since(Instant::now());
        match self.calls.is_empty() {
            _ if is_ready => Ok(()),
            true => {
                std::thread::sleep(rest);
                Ok(())
            }
            false => self.await_oldest(rest).map(drop),
        }
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::TRANSACTIONS)
    }

    engine::forward! { self.end;
        fn effective(&self) -> BTreeMap<String, String>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    crate::usual_circuit! { send_run recv_run descriptor next_deadline }
}
