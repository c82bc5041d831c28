//! What the lock of an endpoint of transactions protects.

use super::incoming::IncomingMessages;
use super::place::{Filler, Place, PlaceName, Places};
use super::take_ahead::Backlog;
use super::{Reply, Request};
use crate::messages::{BufferPool, Message};
use crate::packet_pump::PacketPump;
use engine::{
    CallFlags, CommandError, EntityId, Event, FewMap, Instant, Note, OutgoingMessage,
    TransactionEnd, TransactionEvent, TransactionId, Transactions,
};
use std::fmt;
use std::io;
use std::sync::Arc;
use wire::{Arrival, Wire};

/// What a thread wants done.
pub(super) enum Submission {
    /// A call, and who fills its caller's place.
    Call {
        from: EntityId,
        to: EntityId,
        request: Message,
        note: Note,
        filler: Filler,
    },
    /// The reply to a request.
    Reply {
        transaction: TransactionId,
        reply: Message,
        note: Note,
    },
    /// A request gets no reply.
    Refuse(TransactionId),
    /// The caller at this place waits no longer.
    Abandon(Arc<Place>),
}

impl Submission {
    /// Octets of its message.
    pub(super) fn octets(&self) -> usize {
        match self {
            Submission::Call { request, .. } => request.len(),
            Submission::Reply { reply, .. } => reply.len(),
            Submission::Refuse(_) | Submission::Abandon(_) => 0,
        }
    }
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

/// Who waits for the replies to a call.
struct Caller {
    filler: Filler,
    /// More than one may come.
    wants_many: bool,
}

/// What the thread that drives does outside of the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It does not wait.
    #[default]
    Not,
    /// It is in a receive.
    Receiving,
    /// It polls.
    Polling,
}

pub(super) struct State<E, W> {
    pub(super) pump: PacketPump<E, W>,
    /// Requests that are whole, for the queue of servers.
    pub(super) requests: Vec<Request>,
    /// How the user that drives waits.
    pub(super) blocked: Blocked,
    /// Whether arrivals queue up at the wire.
    pub(super) backlog: Backlog,
    /// Octets of messages that came since something was submitted.
    pub(super) octets_ahead: usize,
    /// Something was handed to a caller since this was cleared.
    pub(super) has_filled: bool,
    /// Callers are to be woken when the lock is free.
    pub(super) wakes_callers: bool,
    /// So is a server.
    pub(super) wakes_server: bool,
    /// Memory of submissions.
    pub(super) submissions: Vec<Submission>,
    incoming: IncomingMessages,
    callers: FewMap<TransactionId, Caller>,
    /// The place that the user that drives waits at for one reply, if it is a caller: it takes the reply from here, and the
    /// place, which others fill with its own lock, stays empty.
    pub(super) awaited: Option<PlaceName>,
    pub(super) outcome: Option<io::Result<Reply>>,
    /// The place of the last such call.
    spare_place: Option<Arc<Place>>,
    /// Transactions to be given up because a message found no room.
    without_room: Vec<TransactionId>,
    places: Arc<Places>,
}

impl<E: Transactions, W: Wire> State<E, W> {
    pub(super) fn new(
        pump: PacketPump<E, W>,
        buffers: Arc<BufferPool>,
        places: Arc<Places>,
    ) -> Self {
        State {
            pump,
            requests: Vec::new(),
            blocked: Blocked::Not,
            backlog: Backlog::default(),
            octets_ahead: 0,
            has_filled: false,
            wakes_callers: false,
            wakes_server: false,
            submissions: Vec::new(),
            incoming: IncomingMessages::new(buffers),
            callers: FewMap::new(),
            awaited: None,
            outcome: None,
            spare_place: None,
            without_room: Vec::new(),
            places,
        }
    }

    pub(super) fn held(&self) -> Held {
        Held {
            outgoing: self.pump.messages.len(),
            incoming: self.incoming.len(),
            incoming_bytes: self.incoming.octets(),
            callers: self.callers.len(),
        }
    }

    /// Whether a timer of the engine has expired.
    pub(super) fn is_timer_due(&self, now: Instant) -> bool {
        self.pump.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Whether more than one call is not answered.
    pub(super) fn awaits_several(&self) -> bool {
        self.callers.len() > 1
    }

    /// Nobody will be answered: callers are told.
    pub(super) fn fail_callers(&mut self) {
        self.callers.clear();
        self.submissions.clear();
    }

    /// Gives up transactions whose message found no room; whether there were any.
    pub(super) fn abandon_without_room(&mut self, now: Instant) -> bool {
        let any = !self.without_room.is_empty();
        for transaction in self.without_room.drain(..) {
            self.pump.engine.abandon(now, transaction);
        }
        any
    }

    /// Takes in one arrival; false when nothing was there.
    pub(super) fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let received = self.receive_by(|| now)?;
        Ok(received.is_some())
    }

    /// Takes in one arrival, and says when by the clock, which is read only then; None when nothing was there.
    pub(super) fn receive_by(
        &mut self,
        clock: impl FnOnce() -> Instant,
    ) -> io::Result<Option<Instant>> {
        let incoming = &mut self.incoming;
        let ahead = &mut self.octets_ahead;
        let taken = self.pump.receive(clock, |block, octets| {
            *ahead += octets.len();
            incoming.keep(block, octets);
        });
        if !matches!(taken, Ok(None)) {
            self.drain_events();
        }
        taken
    }

    /// As [`receive`](State::receive), for what the wire's receiver put into the pump's buffer; what the engine says of it is
    /// not taken.
    pub(super) fn handle_arrival(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
    ) -> io::Result<bool> {
        let incoming = &mut self.incoming;
        let pump = &mut self.pump;
        let ahead = &mut self.octets_ahead;
        let taken = pump.handle_arrival(now, buffer, arrival, |block, octets| {
            *ahead += octets.len();
            incoming.keep(block, octets);
        });
        taken.map(|at| at.is_some())
    }

    /// Carries out what a thread wants.
    pub(super) fn submit(&mut self, now: Instant, submission: Submission) {
        match submission {
            Submission::Call {
                from,
                to,
                request,
                note,
                filler,
            } => self.call(now, (from, to), request, &note, filler),
            Submission::Reply {
                transaction,
                reply,
                note,
            } => {
                let message = self.pump.messages.insert(reply);
                let taken = self.pump.engine.reply(now, transaction, message, &note);
                if taken.is_err() {
                    // Its caller has given up.
                    self.release(message.0);
                }
            }
            Submission::Refuse(transaction) => self.pump.engine.abandon(now, transaction),
            Submission::Abandon(place) => {
                let transaction = place.transaction();
                if self.callers.remove(&transaction).is_some() {
                    self.pump.engine.abandon(now, transaction);
                }
            }
        }
    }

    /// Calls as a submission would, and gives the place where the caller waits.
    pub(super) fn call_at_once(
        &mut self,
        now: Instant,
        between: (EntityId, EntityId),
        request: Message,
        note: &Note,
    ) -> Arc<Place> {
        let place = self.places.take_or(self.spare_place.take());
        let filler = Filler::new(Arc::clone(&place));
        self.call(now, between, request, note, filler);
        place
    }

    fn call(
        &mut self,
        now: Instant,
        (from, to): (EntityId, EntityId),
        request: Message,
        note: &Note,
        filler: Filler,
    ) {
        let message = self.pump.messages.insert(request);
        match self.pump.engine.call(now, from, to, message, note) {
            Ok(transaction) => {
                let wants_many = note.call.flags.has(CallFlags::MANY_REPLIES);
                filler.set_transaction(transaction);
                let caller = Caller { filler, wants_many };
                self.callers.insert(transaction, caller);
            }
            Err(error) => {
                self.release(message.0);
                let error = io::Error::new(io::ErrorKind::InvalidInput, error);
                self.fill_last(filler, Err(error));
            }
        }
    }

    /// The engine needs a message no longer.
    fn release(&mut self, message: OutgoingMessage) {
        if let Some(Message::Own(octets)) = self.pump.messages.remove(message) {
            self.incoming.recycle(octets);
        }
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
                answerer,
                note,
            } => match self.incoming.take(message) {
                Some(octets) => self.requests.push(Request {
                    transaction,
                    from,
                    to,
                    answerer,
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
                let incoming = self.incoming.take(message);
                let outcome = incoming.map(|octets| Reply { from, note, octets });
                self.fill(
                    transaction,
                    outcome.ok_or_else(|| io::ErrorKind::OutOfMemory.into()),
                );
            }
            TransactionEvent::Copied { from, to } => {
                let octets = self.pump.messages.get(from);
                self.incoming
                    .keep_copy(to, octets.map_or(&[], |octets| octets));
            }
            TransactionEvent::Duplicated { from, to } => self.incoming.duplicate(from, to),
            TransactionEvent::Released(message) => self.release(message),
            TransactionEvent::Discarded(message) => drop(self.incoming.take(message)),
            TransactionEvent::Ended(transaction, how) => {
                if let Some(caller) = self.callers.remove(&transaction) {
                    self.fill_last(caller.filler, Err(error_of(how)));
                }
            }
        }
    }

    /// A caller gets what has come.
    fn fill(&mut self, transaction: TransactionId, outcome: io::Result<Reply>) {
        let Some(mut caller) = self.callers.remove(&transaction) else {
            return;
        };
        if caller.wants_many {
            self.wakes_callers |= self.places.fill(&mut caller.filler, outcome);
            self.has_filled = true;
            self.callers.insert(transaction, caller);
        } else if self
            .awaited
            .is_some_and(|awaited| caller.filler.is_of(awaited))
        {
            self.has_filled = true;
            self.outcome = Some(outcome);
            let place = caller.filler.leave();
            match self.spare_place {
                None => self.spare_place = place,
                Some(_) => self.places.keep(place),
            }
        } else {
            self.fill_last(caller.filler, outcome);
        }
    }

    fn fill_last(&mut self, filler: Filler, outcome: io::Result<Reply>) {
        self.has_filled = true;
        self.wakes_callers |= self.places.fill_last(filler, outcome);
    }

    /// Passes a request on to another entity.
    pub(super) fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: Message,
    ) -> Result<(), CommandError> {
        let message = self.pump.messages.insert(request);
        let forwarded = self.pump.engine.forward(now, transaction, to, message);
        if forwarded.is_err() {
            self.release(message.0);
        }
        forwarded
    }
}

/// The code of the protocol that a call failed with: what an error of kind `Other` has inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCode(pub u32);

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the call failed with code {}", self.0)
    }
}

impl std::error::Error for FailureCode {}

fn error_of(how: TransactionEnd) -> io::Error {
    match how {
        TransactionEnd::TimedOut => io::ErrorKind::TimedOut.into(),
        TransactionEnd::Refused => io::ErrorKind::ConnectionRefused.into(),
        TransactionEnd::Abandoned => io::ErrorKind::ConnectionAborted.into(),
        // The reply has filled the place before.
        TransactionEnd::Complete => io::ErrorKind::UnexpectedEof.into(),
        TransactionEnd::Code(code) => io::Error::other(FailureCode(code)),
    }
}
