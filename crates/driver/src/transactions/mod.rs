//! Message transactions under any number of calling threads.
//!
//! A call is one buffer that stays here until the engine releases it. The calling thread leaves it in
//! a list; the thread that holds the pump's lock takes in the whole list before it sends, so that
//! requests and replies of many threads leave in one call of the wire (flat combining). Each caller
//! sleeps on a place of its own and is woken for its own reply only. One of the threads that wait takes
//! in arrivals for all, and blocks in the wire's receive; a service thread runs the engine's timers, and
//! takes in arrivals while nobody waits.
//!
//! | who | waits for | is woken by |
//! | --- | --- | --- |
//! | caller or server that drives | an arrival | the wire; the service thread when its time is over |
//! | other caller | its place to be filled | the thread that took in its reply, or its time-out |
//! | other server | the queue of requests | the thread that took in a request; one that drives no longer |
//! | service thread | the engine's timeout | a submission that moved the timeout forward |
//!
//! * `state` - what the lock protects: the pump, callers, requests; `incoming` - messages on their way in.
//! * `place` - where a caller waits; `request_queue` - where a request waits for a server.
//! * `submissions`, `work` - what threads want carried out, and what the engine says handed over.
//! * `take_ahead` - arrivals taken in before what was left is sent; `returns`, `company` - users that come back soon; callers whose next calls leave together.
//! * `driving` - who takes in arrivals; `drive`, `waiting`, `look` - users that wait or look; `service` - the service thread.

#[cfg(test)]
mod allocation_tests;
mod company;
mod drive;
mod driving;
#[cfg(test)]
mod host_allocation_tests;
mod incoming;
mod look;
mod observer;
mod place;
mod request_queue;
mod returns;
mod service;
mod state;
mod submissions;
mod take_ahead;
mod waiting;
mod work;

use crate::broken::{Breakable, Broken};
use crate::checked_wire::PathErrors;
use crate::messages::BufferPool;
use crate::packet_pump::{PacketPump, WireCalls};
use crate::shared::monotonic_ns;
use crate::wakeup::EventFd;
use crate::wire_descriptor::WireDescriptor;
use driving::Driving;
use engine::{Address, EntityId, Instant, Layer, Note, TransactionId, Transactions};
use place::{Filler, Place, Places};
use request_queue::RequestQueue;
use service::Service;
use state::{State, Submission};
use submissions::SubmissionList;
use work::By;

pub use crate::messages::Message;
pub use observer::TransactionObserver;
pub use state::{FailureCode, Held};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{Receiver, Wire};

/// A request that a server is to answer.
#[derive(Debug)]
pub struct Request {
    transaction: TransactionId,
    /// The entity that calls.
    pub from: EntityId,
    /// The entity that is called.
    pub to: EntityId,
    /// The entity that answers: the one that is called, or the member of the group.
    pub answerer: EntityId,
    /// What travelled with it.
    pub note: Note,
    /// The message.
    pub octets: Vec<u8>,
}

/// What a call was answered with.
#[derive(Debug)]
pub struct Reply {
    /// The entity that answered.
    pub from: EntityId,
    /// What travelled with it.
    pub note: Note,
    /// The message.
    pub octets: Vec<u8>,
}

/// A call that was begun. One that is dropped goes on; its reply is lost.
#[derive(Debug)]
pub struct Call {
    place: Arc<Place>,
}

/// Arrivals that [`TransactionEndpoint::poll`] takes in.
const POLL_MAX: usize = 64;

struct Shared<E, W> {
    state: Mutex<State<E, W>>,
    broken: Broken,
    /// What threads want done, until a holder of the lock does it.
    submissions: SubmissionList,
    /// Those beyond its room are abandoned, and their callers told.
    requests: Mutex<RequestQueue>,
    /// Whether there are any: a server that drives looks several times a request. Written under their lock.
    has_requests: AtomicBool,
    request_arrived: Condvar,
    /// CLOCK_MONOTONIC when it began, ns.
    started_ns: u64,
    descriptor: WireDescriptor,
    /// What a user that drives blocks in, if the wire has it.
    receiver: Option<Box<dyn Receiver>>,
    /// When that is to end, nanoseconds.
    receive_until: AtomicU64,
    driving: Driving,
    /// Wakes a user that drives and polls.
    driver_wakeup: EventFd,
    service_wakeup: EventFd,
    /// When the service thread wakes by itself, nanoseconds; 0: it is awake.
    sleeps_until: AtomicU64,
    /// The service thread wakes when the wire has room.
    watches_room: AtomicBool,
    closed: AtomicBool,
    buffers: Arc<BufferPool>,
    places: Arc<Places>,
}

/// An endpoint of transactions: threads call through it and serve with it.
pub struct TransactionEndpoint<E: Transactions, W: Wire> {
    shared: Arc<Shared<E, W>>,
    service: Option<JoinHandle<()>>,
}

impl<E: Transactions + Send + 'static, W: Wire + Send + 'static> TransactionEndpoint<E, W> {
    /// Runs `engine` on `wire`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a wire without a descriptor, or when there is no thread or descriptor left.
    pub fn new(engine: E, wire: W) -> io::Result<Self> {
        TransactionEndpoint::start(PacketPump::new(engine, wire))
    }

    /// Runs `engine` on `wire`, with `layer` between packets and frames.
    /// Errors are those of [`new`](TransactionEndpoint::new), and `InvalidInput` when packets do not fit the layer,
    /// or its frames the wire.
    pub fn with_layer(engine: E, wire: W, layer: Box<dyn Layer + Send>) -> io::Result<Self> {
        TransactionEndpoint::start(PacketPump::with_layer(engine, wire, layer)?)
    }

    fn start(pump: PacketPump<E, W>) -> io::Result<Self> {
        let descriptor = WireDescriptor::new(pump.wire())?.ok_or(io::ErrorKind::Unsupported)?;
        let (buffers, places) = (Arc::default(), Arc::default());
        let shared = Arc::new(Shared {
            receiver: pump.wire().receiver(),
            receive_until: AtomicU64::new(u64::MAX),
            state: Mutex::new(State::new(pump, Arc::clone(&buffers), Arc::clone(&places))),
            broken: Broken::default(),
            submissions: SubmissionList::default(),
            requests: Mutex::new(RequestQueue::default()),
            has_requests: AtomicBool::new(false),
            request_arrived: Condvar::new(),
            started_ns: monotonic_ns(),
            descriptor,
            driving: Driving::default(),
            driver_wakeup: EventFd::new()?,
            service_wakeup: EventFd::new()?,
            sleeps_until: AtomicU64::new(0),
            watches_room: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            buffers,
            places,
        });
        // Until a user waits.
        shared.driving.call_service();
        let own = Arc::clone(&shared);
        let service = std::thread::Builder::new().name("transactions".to_owned());
        let service = service.spawn(move || Service(&*own).run())?;
        Ok(TransactionEndpoint {
            shared,
            service: Some(service),
        })
    }
}

impl<E: Transactions, W: Wire> TransactionEndpoint<E, W> {
    /// Creates an entity of this end, which may call and is called from now on.
    ///
    /// # Errors
    ///
    /// The engine's, when it has as many as it may.
    pub fn create_entity(&self, entity: EntityId) -> io::Result<()> {
        let create = |state: &mut State<E, W>| state.pump.engine.create_entity(entity);
        self.shared.with_state(create)?.map_err(io::Error::other)
    }

    /// Says where an entity of another host is reached.
    pub fn locate(&self, entity: EntityId, at: Address) {
        let locate = |state: &mut State<E, W>| state.pump.engine.locate(entity, at);
        // A broken endpoint calls nobody, and says so when it is to.
        let _ = self.shared.with_state(locate);
    }

    /// Calls `to` in the name of `from`, and waits for the reply up to `limit`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a call that the engine does not accept, `TimedOut` when no reply came,
    /// `ConnectionRefused` when there is no such entity or it refused, `OutOfMemory` for a reply that
    /// exceeds what incoming messages may take, or the wire's.
    pub fn call(
        &self,
        from: EntityId,
        to: EntityId,
        request: impl Into<Message>,
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        let call = self.begin(from, to, request, &Note::default());
        let reply = self.shared.take(&call, limit);
        reply
            .unwrap_or_else(|| {
                self.abandon(call);
                Err(io::ErrorKind::TimedOut.into())
            })
            .map(|reply| reply.octets)
    }

    /// Begins a call. It leaves with the next flush, wait, or submission of another thread, or when 16
    /// have come together.
    pub fn begin(
        &self,
        from: EntityId,
        to: EntityId,
        request: impl Into<Message>,
        note: &Note,
    ) -> Call {
        let place = self.shared.places.take();
        self.shared.leave(Submission::Call {
            from,
            to,
            request: request.into(),
            note: *note,
            filler: Filler::new(Arc::clone(&place)),
        });
        Call { place }
    }

    /// The outcome of a call, waiting for it up to `limit`; None when that is not long enough.
    ///
    /// # Errors
    ///
    /// Of the call, as of [`call`](TransactionEndpoint::call).
    pub fn take(&self, call: &Call, limit: Duration) -> Option<io::Result<Reply>> {
        self.shared.take(call, limit)
    }

    /// The outcome of a call, if it has come.
    ///
    /// # Errors
    ///
    /// Of the call, as of [`call`](TransactionEndpoint::call).
    pub fn try_take(&self, call: &Call) -> Option<io::Result<Reply>> {
        let outcome = call.place.take();
        outcome.or_else(|| self.shared.broken.error().map(Err))
    }

    /// A copy of `octets`, in memory that the endpoint uses again.
    pub fn message(&self, octets: &[u8]) -> Message {
        let mut buffer = self.shared.buffers.take(octets.len());
        buffer.extend_from_slice(octets);
        Message::Own(buffer)
    }

    /// Takes back the octets of a request or of a reply, to use their memory again.
    pub fn recycle(&self, octets: Vec<u8>) {
        self.shared.buffers.give(octets);
    }

    /// Gives a call up.
    pub fn abandon(&self, call: Call) {
        self.shared.submit(Submission::Abandon(call.place));
    }

    /// Sends what was begun, and takes in what has come, without waiting.
    pub fn poll(&self) {
        self.shared.look(POLL_MAX);
    }

    /// Sends what was begun, and takes in one arrival if there is one, without waiting.
    pub fn poll_once(&self) {
        self.shared.look(1);
    }

    /// The next request for an entity of this end, waiting for it up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`.
    pub fn receive(&self, limit: Duration) -> io::Result<Request> {
        let request = self.shared.next_request(limit);
        if let Some(error) = self.shared.broken.error() {
            return Err(error);
        }
        request.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// The next request that has come.
    pub fn try_receive(&self) -> Option<Request> {
        self.shared.take_request()
    }

    /// Waits until a request has come, up to `limit`; whether there is one.
    pub fn wait_request(&self, limit: Duration) -> bool {
        self.shared.wait_request(limit)
    }

    /// Answers a request. A caller that gave up meanwhile does not get the reply.
    pub fn reply(&self, request: Request, reply: impl Into<Message>) {
        let (transaction, reply) = (request.transaction, reply.into());
        let note = Note::default();
        self.recycle(request.octets);
        self.shared.submit(Submission::Reply {
            transaction,
            reply,
            note,
        });
    }

    /// Answers a request with a note. The reply leaves as a call does: see
    /// [`begin`](TransactionEndpoint::begin).
    pub fn reply_noted(&self, request: Request, reply: impl Into<Message>, note: &Note) {
        self.recycle(request.octets);
        self.shared.leave(Submission::Reply {
            transaction: request.transaction,
            reply: reply.into(),
            note: *note,
        });
    }

    /// Passes a request on to another entity, which answers the caller itself.
    ///
    /// # Errors
    ///
    /// `InvalidInput` with the engine's reason; the request is refused then.
    pub fn forward(
        &self,
        request: Request,
        to: EntityId,
        octets: impl Into<Message>,
    ) -> io::Result<()> {
        let now = self.shared.now();
        let octets = octets.into();
        let forwarded = self
            .shared
            .with_state(|state| state.forward(now, request.transaction, to, octets))?;
        if let Err(error) = forwarded {
            self.refuse(request);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        self.settle()
    }

    /// Sends what was begun, also while another thread works: when this returns, the engine has it.
    ///
    /// # Errors
    ///
    /// That of a broken endpoint.
    pub fn settle(&self) -> io::Result<()> {
        let mut state = self.shared.lock()?;
        self.shared
            .work_off(&mut state, self.shared.now(), By::Another);
        self.shared.unlock(state);
        Ok(())
    }

    /// Calls `act` with the engine, for commands beyond the contract; what they cause is sent.
    ///
    /// # Errors
    ///
    /// That of a broken endpoint.
    pub fn with_engine<T>(&self, act: impl FnOnce(&mut E, Instant) -> T) -> io::Result<T> {
        let now = self.shared.now();
        let outcome = self
            .shared
            .with_state(|state| act(&mut state.pump.engine, now))?;
        self.settle()?;
        Ok(outcome)
    }

    /// Refuses a request.
    pub fn refuse(&self, request: Request) {
        let transaction = request.transaction;
        self.recycle(request.octets);
        self.shared.submit(Submission::Refuse(transaction));
    }

    /// Makes the wire join the multicast group `group`; see [`Wire::join`]. Errors are those of the wire.
    pub fn join(&self, group: Address) -> io::Result<()> {
        let joined = self.shared.with_state(|state| {
            state.pump.wire_mut().join(group)?;
            self.shared.descriptor.refresh(state.pump.wire())
        })?;
        if joined? {
            // Who polls, polls anew. A receiver of the wire hears of the group from the wire.
            self.shared.driver_wakeup.signal();
            self.shared.service_wakeup.signal();
        }
        Ok(())
    }

    /// Makes the wire leave the multicast group `group`; see [`Wire::leave`]. Errors are those of the wire.
    pub fn leave(&self, group: Address) -> io::Result<()> {
        let leave = |state: &mut State<E, W>| state.pump.wire_mut().leave(group);
        self.shared.with_state(leave)?
    }

    /// An observer of the engine.
    pub fn observer(&self) -> TransactionObserver<E, W> {
        TransactionObserver(Arc::downgrade(&self.shared))
    }

    /// What paths said so far of packets that they did not carry.
    pub fn path_errors(&self) -> PathErrors {
        self.shared
            .look_at(|state| state.pump.path_errors().clone())
    }

    /// Calls of the wire so far, and the packets they carried.
    pub fn wire_calls(&self) -> WireCalls {
        self.shared.look_at(|state| state.pump.wire_calls())
    }

    /// Packets that the system dropped because its buffer for the wire was full, see [`Wire::receive_drops`].
    pub fn receive_drops(&self) -> Option<u64> {
        self.shared
            .look_at(|state| state.pump.wire().receive_drops())
    }

    /// The engine's work so far.
    pub fn counters(&self) -> engine::Counters {
        self.shared.look_at(|state| state.pump.engine.counters())
    }

    /// What the layer below the engine counts of its own
    /// ([`Layer::named_counts`]); empty without a layer.
    pub fn layer_counts(&self) -> Vec<(&'static str, u64)> {
        self.shared.look_at(|state| state.pump.layer_counts())
    }

    /// What the endpoint holds right now.
    pub fn held(&self) -> Held {
        self.shared.look_at(State::held)
    }
}

impl<E: Transactions, W: Wire> Drop for TransactionEndpoint<E, W> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.service_wakeup.signal();
        if let Some(service) = self.service.take() {
            // A panic in the engine was reported when it happened.
            let _ = service.join();
        }
    }
}

impl<E: Transactions, W: Wire> Breakable for Shared<E, W> {
    type Locked = State<E, W>;

    fn mutex(&self) -> &Mutex<State<E, W>> {
        &self.state
    }

    fn broken(&self) -> &Broken {
        &self.broken
    }

    /// Users that drive. Those that sleep are told by the service thread, as its last deed.
    fn wake_everybody(&self) {
        if let Some(receiver) = &self.receiver {
            // One that cannot be interrupted returns by itself after its longest wait.
            let _ = receiver.interrupt();
        }
        self.driver_wakeup.signal();
        self.service_wakeup.signal();
    }
}
