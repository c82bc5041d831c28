//! Streams at the client: a run of transactions of one client, of which several are in flight, served
//! and answered in order (RFC 1045 section 2.14).
//!
//! Each call has an entry among the clients, under a key that no packet can name. Only the oldest has
//! a timer: what is missing of later ones shows when they become the oldest.
//!
//! A run begins when the one before it is over: to its server the first Request of a run says that the
//! client has all Responses to what came before.

use super::Asked;
use crate::client::{Client, ClientCall, Current, Responder, skips_transactions};
use crate::endpoint::{Key, Vmtp};
use crate::outgoing::Outgoing;
use crate::shared::NEVER;
use engine::{
    CallFlags, CommandError, EntityId, Event, OutgoingMessage, Path, TransactionEnd,
    TransactionEvent, TransactionId,
};
use std::collections::VecDeque;

/// Calls of a stream that are not answered, at most: as many as a server queues.
pub(crate) const RUN_MAX: usize = 64;

/// Keys of calls in streams: identifiers with all flags, which none has.
const KEYS: u64 = 0xf << 60;

/// A stream of calls from an entity to another.
#[derive(Debug)]
pub(crate) struct Stream {
    name: (EntityId, EntityId, u16),
    /// The client's next number.
    next: u32,
    /// Keys of the calls that are not over, the oldest first.
    pub(crate) calls: VecDeque<EntityId>,
    /// Calls among them, the newest, whose runs wait for the oldest one's to be over.
    waiting: usize,
    /// A call of the run has begun, and none has ended it.
    is_begun: bool,
    /// The server takes one call at a time.
    is_refused: bool,
}

/// Where a call stands in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace {
    /// The stream's client.
    pub(crate) stream: EntityId,
    /// Other calls of the run come before it (NSR).
    pub(crate) not_start: bool,
    /// Others may follow (NER).
    pub(crate) not_end: bool,
}

impl Stream {
    /// Whether a call does not leave yet.
    fn holds_back(&self, key: EntityId) -> bool {
        if self.is_refused {
            return self.calls.front() != Some(&key);
        }
        let begun = self.calls.len() - self.waiting;
        self.waiting > 0 && self.calls.iter().skip(begun).any(|other| *other == key)
    }

    /// Removes a call; the one behind it, if both wait for their runs to begin.
    fn remove_call(&mut self, key: EntityId) -> Option<EntityId> {
        let at = self.calls.iter().position(|other| *other == key)?;
        let begun = self.calls.len() - self.waiting;
        self.calls.remove(at);
        if at < begun {
            return None;
        }
        self.waiting -= 1;
        self.calls.get(at).copied()
    }
}

impl Vmtp {
    /// Begins a call in the stream with a number.
    pub(super) fn begin_stream_call(
        &mut self,
        (from, to): (EntityId, EntityId),
        number: u16,
        request: (OutgoingMessage, u64),
        asked: &Asked,
    ) -> Result<TransactionId, CommandError> {
        let place = self.places.get(&to);
        let path = Path::to(*place.ok_or(CommandError::UnknownAssociation)?);
        let id = self.take_stream((from, to, number))?;
        let skips = skips_transactions(&self.sh.config);
        let transaction = TransactionId(self.next_number());
        let key = EntityId(KEYS | transaction.0 & (u64::MAX >> 4));
        let window = self.sh.config.groups_in_flight;
        let called = Responder {
            path,
            server: self.sh.config.identifier(to),
        };
        let stream = self
            .streams
            .get_mut(&id)
            .ok_or(CommandError::UnknownAssociation)?;
        if stream.calls.len() >= RUN_MAX {
            return Err(CommandError::TooManyAssociations);
        }
        let outgoing = Outgoing::new(request, window, asked.call);
        let mut call =
            ClientCall::new((transaction, id), called, stream.next, asked.code, outgoing);
        let is_last = asked.call.flags.has(CallFlags::END_OF_STREAM);
        let follows_a_run = !stream.is_begun && !stream.calls.is_empty();
        if !stream.is_refused && (stream.waiting > 0 || follows_a_run) {
            stream.waiting += 1;
        }
        call.run = Some(RunPlace {
            stream: id,
            not_start: stream.is_begun,
            not_end: !is_last,
        });
        stream.next = call.last().wrapping_add(if skips { 256 } else { 1 });
        stream.is_begun = !is_last;
        stream.calls.push_back(key);
        let client = Client {
            owner: from,
            next: 0,
            armed: NEVER,
            current: Current::Call(Box::new(call)),
        };
        self.clients.insert(key, client);
        self.transactions.insert(transaction, Key::Client(key));
        self.sh.peers.get(path).is_valid = true;
        self.send_stream_call(key);
        Ok(transaction)
    }

    /// The client of a stream: a new stream takes one of its entity's.
    fn take_stream(&mut self, name: (EntityId, EntityId, u16)) -> Result<EntityId, CommandError> {
        if let Some(id) = self.stream_names.get(&name) {
            return Ok(*id);
        }
        let id = self.take_client(name.0)?;
        let next = self.clients.get(&id).map_or(0, |client| client.next);
        let stream = Stream {
            name,
            next,
            calls: VecDeque::new(),
            waiting: 0,
            is_begun: false,
            is_refused: false,
        };
        self.streams.insert(id, stream);
        self.stream_names.insert(name, id);
        Ok(id)
    }

    /// The key of the call that a packet for a client is about: of a stream's, by its transaction.
    pub(crate) fn call_key(
        &self,
        client: EntityId,
        transaction: u32,
        is_response: bool,
    ) -> EntityId {
        let Some(stream) = self.streams.get(&client) else {
            return client;
        };
        let is_meant = |key: &&EntityId| match self.clients.get(key).map(|client| &client.current) {
            Some(Current::Call(call)) if is_response => transaction.wrapping_sub(call.last()) < 256,
            Some(Current::Call(call)) => {
                transaction.wrapping_sub(call.first) < u32::from(call.request.groups())
            }
            _ => false,
        };
        // Numbers of the Response's groups are those that the Request has skipped: the last call that
        // begins before it.
        let found = stream.calls.iter().rev().find(is_meant);
        found.copied().unwrap_or(client)
    }

    /// The last number of a stream's client that its server may have seen: that of the newest call that
    /// does not wait.
    pub(crate) fn stream_transaction(&self, client: EntityId) -> Option<u32> {
        let stream = self.streams.get(&client)?;
        let begun = match stream.is_refused {
            true => 1,
            false => stream.calls.len() - stream.waiting,
        };
        let newest = begun.checked_sub(1).and_then(|at| stream.calls.get(at));
        let newest = newest.and_then(|key| self.clients.get(key));
        Some(match newest.map(|client| &client.current) {
            Some(Current::Call(call)) => call.last(),
            _ => stream.next.wrapping_sub(1),
        })
    }

    /// Whether the call is the oldest of its stream, or of none.
    pub(crate) fn is_oldest(&self, key: EntityId, run: Option<RunPlace>) -> bool {
        run.and_then(|run| self.streams.get(&run.stream))
            .is_none_or(|stream| stream.calls.front() == Some(&key))
    }

    /// A call leaves now, or when its run is the oldest, or it is itself: where the server takes one at a
    /// time.
    fn send_stream_call(&mut self, key: EntityId) {
        let Some(Current::Call(call)) = self.clients.get(&key).map(|client| &client.current) else {
            return;
        };
        let stream = call.run.and_then(|run| self.streams.get(&run.stream));
        if !stream.is_some_and(|stream| stream.holds_back(key)) {
            self.note_ready(Key::Client(key));
        }
    }

    /// The server does not take runs: the calls are sent one after another, on their own.
    pub(crate) fn refuse_stream(&mut self, id: EntityId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.is_refused = true;
        stream.waiting = 0;
        for key in stream.calls.clone() {
            if let Some(Current::Call(call)) = self.clients.get_mut(&key).map(|c| &mut c.current) {
                if let Some(run) = &mut call.run {
                    (run.not_start, run.not_end) = (false, false);
                }
                call.request.repeat_all();
            }
        }
        self.send_oldest(id);
    }

    /// The server has forgotten the run: it begins again with its oldest call.
    pub(crate) fn restart_run(&mut self, id: EntityId) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        for (number, key) in stream.calls.clone().into_iter().enumerate() {
            if let Some(Current::Call(call)) = self.clients.get_mut(&key).map(|c| &mut c.current) {
                // Those of later runs have their own first calls.
                if let Some(run) = call.run.as_mut().filter(|_| number == 0) {
                    run.not_start = false;
                }
                call.request.repeat_all();
            }
            self.send_stream_call(key);
        }
    }

    fn send_oldest(&mut self, id: EntityId) {
        let oldest = self
            .streams
            .get(&id)
            .and_then(|stream| stream.calls.front());
        if let Some(key) = oldest.copied() {
            self.send_stream_call(key);
        }
    }

    /// A call of a stream is over: the next one is the oldest.
    pub(crate) fn leave_stream(&mut self, key: EntityId, run: RunPlace) {
        self.clients.remove(&key);
        let Some(stream) = self.streams.get_mut(&run.stream) else {
            return;
        };
        let was_oldest = stream.calls.front() == Some(&key);
        let successor = stream.remove_call(key).filter(|_| !run.not_start);
        if let Some(successor) = successor {
            // The run begins with the next call.
            self.begin_run_with(successor);
        }
        let Some(stream) = self.streams.get_mut(&run.stream) else {
            return;
        };
        if stream.calls.is_empty() && !stream.is_begun {
            return self.end_stream(run.stream);
        }
        let Some(oldest) = stream.calls.front().copied().filter(|_| was_oldest) else {
            return;
        };
        if stream.is_refused {
            return self.send_stream_call(oldest);
        }
        if stream.waiting == stream.calls.len() {
            return self.send_next_run(run.stream);
        }
        let now = self.now();
        if let Some(Current::Call(call)) = self.clients.get_mut(&oldest).map(|c| &mut c.current)
            && !call.request.wants_to_send()
            && call.reply.is_none()
        {
            let peer = self.sh.peers.get(call.called.path);
            call.timeout = now + call.response_wait(peer, &self.sh.config);
        }
        self.arm(Key::Client(oldest));
    }

    /// A call of a run that has not begun is the first of it.
    fn begin_run_with(&mut self, key: EntityId) {
        if let Some(Current::Call(call)) = self.clients.get_mut(&key).map(|c| &mut c.current)
            && let Some(run) = &mut call.run
        {
            run.not_start = false;
        }
    }

    /// The oldest run of a stream begins: all of its calls leave.
    fn send_next_run(&mut self, id: EntityId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let is_first = |key: &&EntityId| match self.clients.get(key).map(|c| &c.current) {
            Some(Current::Call(call)) => call.run.is_some_and(|run| !run.not_start),
            _ => false,
        };
        let mut later = stream.calls.iter().skip(1);
        let of_run = 1 + later
            .position(|key| is_first(&key))
            .unwrap_or(stream.calls.len() - 1);
        stream.waiting = stream.calls.len() - of_run;
        let keys: Vec<EntityId> = stream.calls.iter().take(of_run).copied().collect();
        for key in keys {
            self.send_stream_call(key);
        }
    }

    /// The run is over: its client may call on its own.
    fn end_stream(&mut self, id: EntityId) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        self.stream_names.remove(&stream.name);
        if let Some(client) = self.clients.get_mut(&id) {
            client.next = stream.next;
        }
        match self.entities.get_mut(&stream.name.0) {
            Some(entity) => entity.idle.push(id),
            None => drop(self.clients.remove(&id)),
        }
    }

    /// A Response that stands for calls before its own (PGcount) has come: these are answered with
    /// nothing.
    pub(crate) fn answer_earlier(&mut self, key: EntityId, run: RunPlace, groups: u32) {
        let Some(stream) = self.streams.get(&run.stream) else {
            return;
        };
        let own = stream.calls.iter().position(|other| *other == key);
        let earlier: Vec<EntityId> = stream
            .calls
            .iter()
            .take(own.unwrap_or(0))
            .copied()
            .collect();
        let mut left = groups;
        for other in earlier.into_iter().rev() {
            let Some(Current::Call(call)) = self.clients.get(&other).map(|c| &c.current) else {
                return;
            };
            let own_groups = u32::from(call.request.groups());
            if left < own_groups || call.reply.is_some() {
                return;
            }
            left -= own_groups;
            let replied = TransactionEvent::Replied {
                transaction: call.id,
                message: self.sh.next_incoming(),
                from: self.sh.config.entity(call.called.server),
                note: engine::Note {
                    tag: Some(0),
                    ..Default::default()
                },
            };
            self.sh.events.push_back(Event::Transaction(replied));
            self.end_call(other, TransactionEnd::Complete);
        }
    }
}
