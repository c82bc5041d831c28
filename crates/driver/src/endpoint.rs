//! An engine on a real wire under blocking users.

#[cfg(test)]
mod idle_tests;
mod request;
#[cfg(test)]
mod request_tests;

use crate::checked_wire::PathErrors;
use crate::circuit::Circuit;
use crate::pump::{Pump, RequestCopy};
use crate::shared::{Companions, EndpointHandle, EndpointShared, PumpGuard, WaitOutcome};
use crate::single_message::{SingleMessage, attach_store};
use crate::waiter::Waiter;
use crate::wakeup::Helper;
use crate::watch::Watch;
use engine::{Address, AssociationId, Associations, CommandError, Instant, Layer};
pub use request::OpenRequest;
use request::{Accepted, RequestEnd};
use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use wire::Wire;

/// An engine, its wire and a helper thread that runs them while no user does.
///
/// After a panic in the engine every call says so; nobody runs it again.
///
/// Clones share the engine, and so do all circuits, which may be used from different threads. When
/// the last clone and circuit are dropped, the helper ends and the wire is closed.
pub struct Endpoint<E, W> {
    shared: Arc<EndpointHandle<E, W>>,
}

impl<E, W> Clone for Endpoint<E, W> {
    fn clone(&self) -> Self {
        Endpoint {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E: Associations + Send + 'static, W: Wire + Send + 'static> Endpoint<E, W> {
    /// Starts `engine` on `wire`. Each circuit has a send store of `store_bytes` while it has
    /// something to send.
    ///
    /// # Errors
    ///
    /// When no thread can be started, or the process is out of descriptors.
    pub fn new(engine: E, wire: W, store_bytes: usize) -> io::Result<Self> {
        Endpoint::start(EndpointShared::new(engine, wire, store_bytes)?)
    }

    /// The same with `layer` between the engine's packets and the wire's frames.
    /// Errors are those of [`new`](Endpoint::new), and `InvalidInput` when packets do not fit the layer, or its
    /// frames the wire.
    pub fn with_layer(
        engine: E,
        wire: W,
        layer: Box<dyn Layer + Send>,
        store_bytes: usize,
    ) -> io::Result<Self> {
        let pump = Pump::with_layer(engine, wire, layer)?;
        Endpoint::start(EndpointShared::over(pump, store_bytes)?)
    }

    fn start(shared: EndpointShared<E, W>) -> io::Result<Self> {
        let owner = Arc::new(shared);
        let owner = EndpointHandle(owner, Companions::default());
        let shared = Arc::clone(&owner.0);
        std::thread::Builder::new()
            .name("towpath-helper".into())
            .stack_size(HELPER_STACK)
            .spawn(move || Helper::default().run(&shared))?;
        Ok(Endpoint {
            shared: Arc::new(owner),
        })
    }
}

/// A reference to an endpoint that does not keep it alive.
pub struct EndpointObserver<E, W> {
    shared: Weak<EndpointHandle<E, W>>,
}

impl<E: Associations, W: Wire> EndpointObserver<E, W> {
    /// Runs `run` with the pump locked and the endpoint's time; None when the endpoint is gone, or
    /// broken.
    pub fn with_pump<R>(&self, run: impl FnOnce(&mut Pump<E, W>, Instant) -> R) -> Option<R> {
        let shared = self.shared.upgrade()?;
        let mut pump = shared.lock().ok()?;
        let now = shared.now();
        Some(run(&mut pump, now))
    }
}

/// An association that was opened, with the lock of the pump held since.
struct Opened<'a, E: Associations, W: Wire> {
    pump: PumpGuard<'a, E, W>,
    now: Instant,
    id: AssociationId,
}

impl<E: Associations, W: Wire> Opened<'_, E, W> {
    /// [`Circuit::send_last`] on its circuit, at once if there is room.
    #[inline]
    fn send_last(
        mut self,
        circuit: &mut Circuit<E, W>,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        if circuit.append(message) {
            return circuit.finish_at(&mut self.pump, self.now);
        }
        drop(self);
        circuit.send_last(message, limit)
    }
}

/// Octets of stack for the helper: it calls no deep functions.
const HELPER_STACK: usize = 256 << 10;

impl<E: Associations, W: Wire> Endpoint<E, W> {
    /// Accepts circuits that peers open, or stops accepting. A broken endpoint, of which every other
    /// call tells, accepts none.
    pub fn listen(&self, accept: bool) {
        if let Ok(mut pump) = self.shared.lock() {
            pump.engine().listen(accept);
        }
    }

    /// Opens a circuit to `to` and waits until it is connected.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut` (also after `limit`), why nothing can be sent to `to`, or
    /// errors of the wire.
    pub fn connect(&self, to: Address, limit: Duration) -> io::Result<Circuit<E, W>> {
        self.connect_by(to, limit, |engine, now| engine.connect(now, &[to]))
    }

    /// Opens a circuit to `to` by a command of the engine and waits until it is connected.
    /// Errors are those of [`connect`](Endpoint::connect), and the error of `command`.
    pub fn connect_by(
        &self,
        to: Address,
        limit: Duration,
        command: impl FnOnce(&mut E, Instant) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Circuit<E, W>> {
        let mut circuit = self.open(to, command)?;
        circuit.flush()?;
        circuit.wait_connected(limit)?;
        Ok(circuit)
    }

    /// Opens a circuit to `peer` by a command of the engine, without waiting.
    ///
    /// # Errors
    ///
    /// The error of `command`.
    pub fn open(
        &self,
        peer: Address,
        command: impl FnOnce(&mut E, Instant) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Circuit<E, W>> {
        let mut opened = self.open_locked(peer, command)?;
        Ok(self.attach(&mut opened.pump, opened.id, peer))
    }

    /// [`open`](Endpoint::open), and [`Circuit::send_last`] of `message` in the same turn, if the new circuit has room for it.
    ///
    /// # Errors
    ///
    /// The error of `command`, or those of `send_last`.
    pub fn open_with_last(
        &self,
        peer: Address,
        command: impl FnOnce(&mut E, Instant) -> Result<AssociationId, CommandError>,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<Circuit<E, W>> {
        let mut opened = self.open_locked(peer, command)?;
        let mut circuit = self.attach(&mut opened.pump, opened.id, peer);
        opened.send_last(&mut circuit, message, limit)?;
        Ok(circuit)
    }

    /// A transaction: [`open_with_last`](Endpoint::open_with_last) of `request`, then [`Circuit::recv_all`] into `reply` with
    /// [delayed acknowledgements](Circuit::set_delayed_ack). Its errors are theirs.
    pub fn exchange(
        &self,
        peer: Address,
        command: impl FnOnce(&mut E, Instant) -> Result<AssociationId, CommandError>,
        (request, reply): (&[u8], &mut [u8]),
        limit: Duration,
    ) -> io::Result<usize> {
        let Opened { mut pump, now, id } = self.open_locked(peer, command)?;
        let mut end = SingleMessage::attach(&self.shared, &mut pump, id, peer);
        match end.send(&mut pump, now, request) {
            Ok(true) => end.receive_answer(pump, now, reply, limit),
            Ok(false) => {
                let mut circuit = end.into_delaying_circuit(pump);
                circuit.send_last(request, limit)?;
                circuit.recv_all(reply, limit)
            }
            Err(error) => {
                drop(pump);
                end.abandon();
                Err(error)
            }
        }
    }

    #[inline]
    fn open_locked(
        &self,
        peer: Address,
        command: impl FnOnce(&mut E, Instant) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Opened<'_, E, W>> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        // An error of an earlier association says nothing of this one.
        pump.take_send_error(peer);
        let id = command(pump.engine(), now).map_err(io::Error::other)?;
        pump.learn_path_mtu(now, id, peer);
        Ok(Opened { pump, now, id })
    }

    /// Accepts the next circuit a peer opened; waits for one up to `limit`, and looks at what arrived if
    /// that is zero.
    ///
    /// # Errors
    ///
    /// `TimedOut` when none came, or errors of the wire.
    pub fn accept(&self, limit: Duration) -> io::Result<Circuit<E, W>> {
        let mut nowhere = RequestCopy {
            buffer: &mut [],
            opened: None,
        };
        let (mut pump, (id, peer)) = match self.await_opening(limit, &mut nowhere)? {
            Accepted::Queued(pump, queued) => (pump, queued),
            Accepted::WithBytes(pump, opened) => (pump, (opened.id, opened.peer)),
        };
        let mut circuit = self.attach(&mut pump, id, peer);
        circuit.take_first(&mut pump);
        Ok(circuit)
    }

    /// Waits up to `limit` for a circuit that a peer opens, and looks at what arrived if that is zero. `place` takes one that is
    /// opened meanwhile, with its first bytes; others come from the accept queue.
    /// Errors are those of [`accept`](Endpoint::accept).
    #[inline]
    fn await_opening(
        &self,
        limit: Duration,
        place: &mut RequestCopy<'_>,
    ) -> io::Result<Accepted<'_, E, W>> {
        let mut now = self.shared.now();
        let end = now + limit;
        let mut pump = self.shared.lock()?;
        if limit.is_zero() && !pump.has_pending_accept() {
            self.shared.drive(&mut pump)?;
        }
        let mut seen_arrivals = None;
        loop {
            let arrivals = pump.arrivals();
            if seen_arrivals.is_some_and(|seen| seen != arrivals) {
                // A peer opens a circuit, and its next packet, or its next circuit, comes at once.
                self.shared.hint_busy_poll();
            }
            seen_arrivals = Some(arrivals);
            if let Some(opened) = place.opened.take() {
                return Ok(Accepted::WithBytes(pump, opened));
            }
            if let Some(queued) = pump.accept() {
                return Ok(Accepted::Queued(pump, queued));
            }
            let left = end.since(now);
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no peer opened a circuit",
                ));
            }
            pump = match self.wait_for_arrival(pump, &mut now, left, place) {
                Ok(pump) => pump,
                Err(error) => {
                    self.leave_opened(place);
                    return Err(error);
                }
            };
        }
    }

    /// Ends a circuit whose user gets an error instead.
    #[cold]
    fn leave_opened(&self, place: &mut RequestCopy<'_>) {
        if let Some(opened) = place.opened.take() {
            drop(self.request(opened.peer, RequestEnd::Single(opened.id)));
        }
    }

    /// Waits for the next arrival and updates `now`.
    fn wait_for_arrival<'a>(
        &'a self,
        mut pump: PumpGuard<'a, E, W>,
        now: &mut Instant,
        left: Duration,
        place: &mut RequestCopy<'_>,
    ) -> io::Result<PumpGuard<'a, E, W>> {
        pump.handle_timeout(*now);
        pump.flush(*now)?;
        let handle = |pump: &mut Pump<E, W>, now, octets, arrival| {
            pump.handle_arrival_for_request(now, octets, arrival, place)
        };
        let (mut pump, outcome) = self.shared.wait_in_receive_with(pump, now, left, handle)?;
        if outcome != WaitOutcome::Unavailable {
            return Ok(pump);
        }
        self.shared.drive(&mut pump)?;
        let seen_arrivals = pump.arrivals();
        if pump.has_pending_accept() {
            return Ok(pump);
        }
        drop(pump);
        self.shared.sleep(left, seen_arrivals)?;
        *now = self.shared.now();
        self.shared.lock()
    }

    /// Accepts the next circuit a peer opened.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, or errors of the wire.
    pub fn try_accept(&self) -> io::Result<Circuit<E, W>> {
        let mut pump = self.shared.lock()?;
        if !pump.has_pending_accept() {
            self.shared.drive(&mut pump)?;
        }
        let accepted = pump.accept().ok_or(io::ErrorKind::WouldBlock)?;
        Ok(self.attach(&mut pump, accepted.0, accepted.1))
    }

    /// What waits for arrivals at the endpoint.
    pub fn waiter(&self) -> Waiter<E, W> {
        Waiter::new(Arc::clone(&self.shared))
    }

    /// A watch: readiness of all circuits on one descriptor. An endpoint has at most one.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a second one, `Unsupported` in virtual time, or out of descriptors.
    pub fn watch(&self) -> io::Result<Watch<E, W>> {
        Watch::new(Arc::clone(&self.shared))
    }

    /// Runs a command of the engine and sends the packets that follow from it. Errors are those of the wire.
    pub fn command(&self, command: impl FnOnce(&mut E, Instant)) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        command(pump.engine(), now);
        pump.flush(now)
    }

    /// Runs a command that changes the engine and the wire together, such as a local address that comes or
    /// goes, and sends the packets that follow from it. The wire's descriptor must stay the same.
    /// Errors are those of the wire.
    pub fn command_with_wire<R>(
        &self,
        command: impl FnOnce(&mut E, &mut W, Instant) -> R,
    ) -> io::Result<R> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        let (engine, wire) = pump.engine_and_wire();
        let done = command(engine, wire, now);
        pump.flush(now)?;
        Ok(done)
    }

    /// Makes the wire join the multicast group `group`; see [`Wire::join`]. Errors are those of the wire.
    pub fn join(&self, group: Address) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        pump.wire_mut().join(group)?;
        self.shared.refresh_descriptor(&pump)
    }

    /// Makes the wire leave the multicast group `group`; see [`Wire::leave`]. Errors are those of the wire.
    pub fn leave(&self, group: Address) -> io::Result<()> {
        self.shared.lock()?.wire_mut().leave(group)
    }

    /// What paths said so far of packets that they did not carry.
    pub fn path_errors(&self) -> PathErrors {
        self.shared.look().path_errors().clone()
    }

    /// Keeps `companion` for as long as the endpoint or one of its circuits lives.
    pub fn keep(&self, companion: Box<dyn Send>) {
        let mut kept = self.shared.1.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(companion);
    }

    /// A reference that does not keep the endpoint alive.
    pub fn observer(&self) -> EndpointObserver<E, W> {
        EndpointObserver {
            shared: Arc::downgrade(&self.shared),
        }
    }

    /// Whether a circuit that its user dropped has not ended at both ends. A broken endpoint ends none.
    pub fn has_dropped_circuits(&self) -> bool {
        self.shared
            .lock()
            .is_ok_and(|pump| pump.has_dropped_circuits())
    }

    /// Runs `run` with the pump locked, also of a broken endpoint: to look at it.
    pub fn with_pump<R>(&self, run: impl FnOnce(&mut Pump<E, W>) -> R) -> R {
        run(&mut self.shared.look())
    }

    fn attach(&self, pump: &mut Pump<E, W>, id: AssociationId, peer: Address) -> Circuit<E, W> {
        let producer = attach_store(&self.shared, pump, id);
        let properties = pump.engine_ref().properties();
        let batch_bytes = pump.batch_bytes();
        let shared = Arc::clone(&self.shared);
        Circuit::new(shared, id, properties, producer, batch_bytes, peer)
    }
}
