//! What the lock of an endpoint of transactions protects.

use super::place::Place;
use super::{Reply, Request};
use crate::packet_pump::PacketPump;
use engine::{
    Block, CallFlags, CommandError, EntityId, Event, IncomingMessage, Instant, Note,
    OutgoingMessage, TransactionEnd, TransactionEvent, TransactionId, Transactions,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wire::Wire;

/// Octets that messages on their way in may take together: peers say how long they are.
const INCOMING_MAX: u64 = 64 << 20;

/// What a thread wants done.
pub(super) enum Submission {
    /// A call; its caller waits at the place.
    Call {
        from: EntityId,
        to: EntityId,
        request: Arc<[u8]>,
        note: Note,
        place: Arc<Place>,
    },
    /// The reply to a request.
    Reply {
        transaction: TransactionId,
        reply: Arc<[u8]>,
        note: Note,
    },
    /// A request gets no reply.
    Refuse(TransactionId),
    /// The caller at this place waits no longer.
    Abandon(Arc<Place>),
}

/// What an endpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Messages that the engine has not released.
    pub outgoing: usize,
    /// Messages on their way in.
    pub incoming: usize,
    /// Octets these take.
    pub incoming_bytes: u64,
    /// Callers that wait.
    pub callers: usize,
}

/// A message on its way in.
enum Incoming {
    /// Its octets, those that have not come as zeros.
    Buffer(Vec<u8>),
    /// There was no room for it.
    NoRoom,
}

/// Who waits for the replies to a call.
struct Caller {
    place: Arc<Place>,
    /// More than one may come.
    wants_many: bool,
}

pub(super) struct State<E, W> {
    pub(super) pump: PacketPump<E, W>,
    /// Requests that are whole, for the queue of servers.
    pub(super) requests: Vec<Request>,
    incoming: BTreeMap<IncomingMessage, Incoming>,
    incoming_bytes: u64,
    callers: BTreeMap<TransactionId, Caller>,
    last_message: u64,
    /// Transactions to be given up because a message found no room.
    without_room: Vec<TransactionId>,
}

impl<E: Transactions, W: Wire> State<E, W> {
    pub(super) fn new(pump: PacketPump<E, W>) -> Self {
        State {
            pump,
            requests: Vec::new(),
            incoming: BTreeMap::new(),
            incoming_bytes: 0,
            callers: BTreeMap::new(),
            last_message: 0,
            without_room: Vec::new(),
        }
    }

    pub(super) fn held(&self) -> Held {
        Held {
            outgoing: self.pump.messages.len(),
            incoming: self.incoming.len(),
            incoming_bytes: self.incoming_bytes,
            callers: self.callers.len(),
        }
    }

    /// Gives up transactions whose message found no room; whether there were any.
    pub(super) fn abandon_without_room(&mut self, now: Instant) -> bool {
        let any = !self.without_room.is_empty();
        for transaction in std::mem::take(&mut self.without_room) {
            self.pump.engine.abandon(now, transaction);
        }
        any
    }

    /// Takes in one arrival; false when nothing was there.
    pub(super) fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let (incoming, total) = (&mut self.incoming, &mut self.incoming_bytes);
        let taken = self.pump.receive(now, |block, octets| {
            keep_block(incoming, total, block, octets);
        });
        self.drain_events();
        taken
    }

    /// Carries out what a thread wants.
    pub(super) fn submit(&mut self, now: Instant, submission: Submission) {
        match submission {
            Submission::Call {
                from,
                to,
                request,
                note,
                place,
            } => self.call(now, (from, to), request, &note, place),
            Submission::Reply {
                transaction,
                reply,
                note,
            } => {
                let message = self.keep(reply);
                let taken = self.pump.engine.reply(now, transaction, message, &note);
                if taken.is_err() {
                    // Its caller has given up.
                    self.pump.messages.remove(&message.0);
                }
            }
            Submission::Refuse(transaction) => self.pump.engine.abandon(now, transaction),
            Submission::Abandon(place) => {
                let waits =
                    |(_, other): &(&TransactionId, &Caller)| Arc::ptr_eq(&other.place, &place);
                let known = self.callers.iter().find(waits).map(|(id, _)| *id);
                if let Some(transaction) = known {
                    self.callers.remove(&transaction);
                    self.pump.engine.abandon(now, transaction);
                }
            }
        }
    }

    fn call(
        &mut self,
        now: Instant,
        (from, to): (EntityId, EntityId),
        request: Arc<[u8]>,
        note: &Note,
        place: Arc<Place>,
    ) {
        let message = self.keep(request);
        match self.pump.engine.call(now, from, to, message, note) {
            Ok(transaction) => {
                let wants_many = note.call.flags.has(CallFlags::MANY_REPLIES);
                self.callers
                    .insert(transaction, Caller { place, wants_many });
            }
            Err(error) => {
                self.pump.messages.remove(&message.0);
                place.fill(Err(io::Error::new(io::ErrorKind::InvalidInput, error)));
            }
        }
    }

    /// Keeps a message until the engine releases it.
    fn keep(&mut self, octets: Arc<[u8]>) -> (OutgoingMessage, u64) {
        self.last_message += 1;
        let id = OutgoingMessage(self.last_message);
        let len = octets.len() as u64;
        self.pump.messages.insert(id, octets);
        (id, len)
    }

    /// Takes what the engine says.
    pub(super) fn drain_events(&mut self) {
        while let Some(event) = self.pump.poll_event() {
            if let Event::Transaction(event) = event {
                self.handle_event(event);
            }
        }
    }

    fn handle_event(&mut self, event: TransactionEvent) {
        match event {
            TransactionEvent::Requested {
                transaction,
                message,
                from,
                to,
                note,
            } => match self.take_incoming(message) {
                Some(octets) => self.requests.push(Request {
                    transaction,
                    from,
                    to,
                    note,
                    octets,
                }),
                None => self.without_room.push(transaction),
            },
            TransactionEvent::Replied {
                transaction,
                message,
                from,
                note,
            } => {
                let incoming = self.take_incoming(message);
                let outcome = incoming.map(|octets| Reply { from, note, octets });
                self.fill(
                    transaction,
                    outcome.ok_or_else(|| io::ErrorKind::OutOfMemory.into()),
                );
            }
            TransactionEvent::Copied { from, to } => {
                let octets = self.pump.messages.get(&from).map(Arc::clone);
                self.keep_copy(to, &octets.unwrap_or_default());
            }
            TransactionEvent::Released(message) => drop(self.pump.messages.remove(&message)),
            TransactionEvent::Discarded(message) => drop(self.take_incoming(message)),
            TransactionEvent::Ended(transaction, how) => {
                if let Some(caller) = self.callers.remove(&transaction) {
                    caller.place.fill(Err(error_of(how)));
                }
            }
        }
    }

    /// A caller gets what has come.
    fn fill(&mut self, transaction: TransactionId, outcome: io::Result<Reply>) {
        let Some(caller) = self.callers.get(&transaction) else {
            return;
        };
        if caller.wants_many {
            return caller.place.fill(outcome);
        }
        if let Some(caller) = self.callers.remove(&transaction) {
            caller.place.fill(outcome);
        }
    }

    /// Passes a request on to another entity.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: Arc<[u8]>,
    ) -> Result<(), CommandError> {
        let message = self.keep(request);
        let forwarded = self.pump.engine.forward(now, transaction, to, message);
        if forwarded.is_err() {
            self.pump.messages.remove(&message.0);
        }
        forwarded
    }

    /// A message that stays at this end becomes one that has come.
    fn keep_copy(&mut self, message: IncomingMessage, octets: &[u8]) {
        let block = Block {
            message,
            message_len: octets.len() as u64,
            offset: 0,
            range: 0..octets.len(),
        };
        keep_block(&mut self.incoming, &mut self.incoming_bytes, &block, octets);
    }

    /// A message that is whole; None if there was no room for it. An empty one has no blocks.
    fn take_incoming(&mut self, message: IncomingMessage) -> Option<Vec<u8>> {
        match self.incoming.remove(&message) {
            Some(Incoming::Buffer(octets)) => {
                self.incoming_bytes -= octets.len() as u64;
                Some(octets)
            }
            Some(Incoming::NoRoom) => None,
            None => Some(Vec::new()),
        }
    }
}

/// Copies a block to its place. The message gets its memory with its first block.
fn keep_block(
    incoming: &mut BTreeMap<IncomingMessage, Incoming>,
    total: &mut u64,
    block: &Block,
    octets: &[u8],
) {
    let entry = incoming.entry(block.message).or_insert_with(|| {
        let fits = block.message_len <= INCOMING_MAX - *total;
        *total += if fits { block.message_len } else { 0 };
        match fits {
            true => Incoming::Buffer(vec![0; block.message_len as usize]),
            false => Incoming::NoRoom,
        }
    });
    if let Incoming::Buffer(buffer) = entry {
        let at = block.offset as usize;
        buffer[at..at + octets.len()].copy_from_slice(octets);
    }
}

fn error_of(how: TransactionEnd) -> io::Error {
    match how {
        TransactionEnd::TimedOut => io::ErrorKind::TimedOut.into(),
        TransactionEnd::Refused => io::ErrorKind::ConnectionRefused.into(),
        TransactionEnd::Abandoned => io::ErrorKind::ConnectionAborted.into(),
        // The reply has filled the place before.
        TransactionEnd::Complete => io::ErrorKind::UnexpectedEof.into(),
        TransactionEnd::Code(code) => io::Error::other(format!("the call failed with code {code}")),
    }
}
