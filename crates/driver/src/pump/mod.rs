//! The loop body: feeds an engine from a wire, and the wire from the engine.
//!
//! `arrival` receives; `inbox` keeps what users have not read, `direct_copy` and `request_copy` hand it to one who waits,
//! `transmit` sends, and `events` applies the engine's events.

mod arrival;
mod direct_copy;
mod events;
mod inbox;
#[cfg(test)]
mod inbox_tests;
mod request_copy;
mod transmit;

use crate::checked_wire::{CheckedWire, PathErrors};
use crate::circuit_state::{CircuitState, CircuitStatus, CircuitTable};
use crate::coalesce::CoalesceBuffer;
use crate::demultiplex::CircuitDeliveries;
use crate::layer_port::{self, LayerPort};
use crate::receive_queue::{Chunk, ChunkSpan};
use crate::sys::Consumer;
pub(crate) use direct_copy::DirectCopy;
use engine::{
    Address, AssociationId, Associations, Batch, Deliveries, Framing, Instant, Layer, Path,
};
pub(crate) use request_copy::{DirectOpening, RequestCopy};
use std::collections::VecDeque;
use std::io;
use wire::Wire;

/// An engine and its wire.
///
/// The owner calls [`receive`](Pump::receive), [`handle_timeout`](Pump::handle_timeout),
/// [`submit_pending`](Pump::submit_pending) and [`flush`](Pump::flush) in any order, with a `now`
/// that never goes back.
pub struct Pump<E, W> {
    engine: E,
    /// Between the engine's packets and the wire's frames, if they differ.
    layer: Option<Box<LayerPort>>,
    wire: CheckedWire<W>,
    /// Octets of a receive buffer of the wire.
    receive_len: usize,
    batch: Batch,
    circuits: CircuitTable,
    /// Circuits with a store, for hosts that submit all of them.
    with_store: Vec<AssociationId>,
    accept_queue: VecDeque<(AssociationId, Address)>,
    backlog: usize,
    /// Circuits that changed since changes were last published.
    changed: Vec<AssociationId>,
    /// Circuits to report to the watch.
    ready: Vec<AssociationId>,
    watched: bool,
    /// Empty receive buffers, reused.
    spare_buffers: Vec<Vec<u8>>,
    /// Buffers that short arrivals were copied into, and lists of ranges, reused.
    spare_copies: Vec<Vec<u8>>,
    spare_lists: Vec<Vec<ChunkSpan>>,
    /// Deliveries of the current arrival; empty between arrivals.
    by_circuit: Vec<CircuitDeliveries>,
    /// Small packets, perhaps of several circuits, for one call of the wire.
    coalesced: CoalesceBuffer,
    /// Final acknowledgements of circuits that delay them.
    deferred: CoalesceBuffer,
    /// Packets of a batch that were built in one piece; reused.
    copied: Vec<u8>,
    deliveries: Deliveries,
    arrivals: u64,
    events: u64,
    sends: u64,
    refused: u64,
    /// When the engine last said that it has nothing to send, and was given nothing since; the wire had
    /// taken all of its packets.
    settled_at: Option<Instant>,
    /// The time of the last arrival, flush or timers.
    last_at: Instant,
    /// Packets of a full batch.
    segments_per_batch: u64,
    framing: Framing,
    inbox: inbox::InboxMemory,
}

/// Empty receive buffers kept, and empty copies and lists of each kind.
pub(crate) const SPARE_BUFFERS_MAX: usize = 8;

/// Circuits opened by peers that may wait in the accept queue.
///
/// A thousand, which with first windows of 64 KiB take the 64 MiB that their queues may.
pub const BACKLOG: usize = 1024;

impl<E: Associations, W: Wire> Pump<E, W> {
    /// A pump for an engine and its wire.
    pub fn new(engine: E, wire: W) -> Self {
        let capabilities = wire.capabilities();
        let segments = capabilities.segments(engine.layout(None).packet());
        Pump {
            batch: Batch::limited(capabilities.segments_max, capabilities.batch_bytes_max),
            segments_per_batch: segments as u64,
            spare_buffers: Vec::new(),
            spare_copies: Vec::new(),
            spare_lists: Vec::new(),
            by_circuit: Vec::new(),
            coalesced: CoalesceBuffer::new(&capabilities),
            deferred: CoalesceBuffer::new(&capabilities),
            copied: Vec::new(),
            framing: engine.properties().framing,
            inbox: inbox::InboxMemory::new(engine.receive_window()),
            engine,
            layer: None,
            wire: CheckedWire::new(wire),
            receive_len: capabilities.receive_len,
            circuits: CircuitTable::default(),
            with_store: Vec::new(),
            accept_queue: VecDeque::new(),
            backlog: BACKLOG,
            changed: Vec::new(),
            ready: Vec::new(),
            watched: false,
            deliveries: Deliveries::with_whole_messages(),
            arrivals: 0,
            events: 0,
            sends: 0,
            refused: 0,
            settled_at: None,
            last_at: Instant::ZERO,
        }
    }

    /// A pump whose packets pass through `layer`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the engine's packets do not fit the layer, or its frames the wire.
    pub fn with_layer(engine: E, wire: W, layer: Box<dyn Layer + Send>) -> io::Result<Self> {
        let packet_max = engine.properties().packet_max;
        let port = LayerPort::new(layer, packet_max, &wire.capabilities())?;
        let mut pump = Pump::new(engine, wire);
        pump.layer = Some(Box::new(port));
        Ok(pump)
    }

    /// The engine, for commands.
    pub fn engine(&mut self) -> &mut E {
        self.settled_at = None;
        &mut self.engine
    }

    /// The engine, to be looked at.
    pub(crate) fn engine_ref(&self) -> &E {
        &self.engine
    }

    /// The wire.
    pub fn wire(&self) -> &W {
        self.wire.wire()
    }

    pub(crate) fn engine_and_wire(&mut self) -> (&mut E, &mut W) {
        self.settled_at = None;
        (&mut self.engine, self.wire.wire_mut())
    }

    pub(crate) fn wire_mut(&mut self) -> &mut W {
        self.wire.wire_mut()
    }

    /// What paths said so far of packets that they did not carry.
    pub fn path_errors(&self) -> &PathErrors {
        self.wire.errors()
    }

    /// Packets that the wire dropped on arrival because nobody can answer them.
    pub fn unanswerable(&self) -> u64 {
        self.wire().unanswerable()
    }

    /// Packets that the system dropped because its buffer for the wire was full, see [`Wire::receive_drops`].
    pub fn receive_drops(&self) -> Option<u64> {
        self.wire().receive_drops()
    }

    /// Tells the engine how long packets of circuit `id` to `peer` may be.
    pub(crate) fn learn_path_mtu(&mut self, now: Instant, id: AssociationId, peer: Address) {
        // The packets of a layer are not what the path carries.
        if self.layer.is_some() {
            return;
        }
        let mtu = self.wire.path_mtu(now, Path::to(peer));
        if mtu < self.engine.properties().packet_max {
            self.settled_at = None;
            self.engine.set_path_mtu(now, id, mtu);
        }
    }

    /// How circuits keep messages apart.
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Why the last send to `peer` failed, if it did since this was last asked.
    pub(crate) fn take_send_error(&mut self, peer: Address) -> Option<io::Error> {
        self.wire.take_send_error(peer)
    }

    /// User bytes of a full batch.
    pub fn batch_bytes(&self) -> u64 {
        self.segments_per_batch * self.engine.layout(None).payload as u64
    }

    /// The engine knows of circuit `id`'s bytes below this position.
    pub fn submitted(&self, id: AssociationId) -> u64 {
        let store = self
            .circuits
            .get(id)
            .and_then(|state| state.store.as_deref());
        store.map_or(0, Consumer::submitted)
    }

    /// Whether all bytes of a circuit are acknowledged: none are in flight, and none wait for the peer's
    /// window, which the engine has not released.
    pub fn is_drained(&self, id: AssociationId) -> bool {
        let store = self
            .circuits
            .get(id)
            .and_then(|state| state.store.as_deref());
        self.engine.status(id).bytes_in_flight == 0 && store.is_none_or(Consumer::is_empty)
    }

    /// Whether the peer has acknowledged all bytes of circuit `id`; its end may be on its way.
    pub fn is_acknowledged(&self, id: AssociationId) -> bool {
        let store = self
            .circuits
            .get(id)
            .and_then(|state| state.store.as_deref());
        store.is_none_or(Consumer::is_empty)
    }

    /// Whether a circuit that its user dropped has not ended at both ends.
    pub fn has_dropped_circuits(&self) -> bool {
        let mut known = self
            .with_store
            .iter()
            .filter_map(|id| self.circuits.get(*id));
        known.any(|state| state.detached)
    }

    /// Calls of the wire so far that sent and that received something.
    pub fn wire_calls(&self) -> (u64, u64) {
        let through_layer = self.layer.as_ref().map_or(0, |port| port.calls().sends);
        (self.sends + through_layer, self.arrivals)
    }

    /// What the layer counts of its own ([`Layer::named_counts`]); empty without a layer.
    pub fn layer_counts(&self) -> Vec<(&'static str, u64)> {
        let layer = self.layer.as_ref();
        layer.map_or_else(Vec::new, |port| port.named_counts())
    }

    /// Arrivals received so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Events of the engine so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Circuits of peers that were aborted because the accept queue was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How long the accept queue may be; see [`BACKLOG`].
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// Whether packets wait for the wire to have room.
    pub fn is_blocked(&self) -> bool {
        let layer = self.layer.as_ref();
        !self.batch.is_empty()
            || !self.coalesced.is_empty()
            || layer.is_some_and(|port| port.is_blocked())
    }

    /// When it was last flushed, if nothing came since that the engine could answer: it has nothing to send
    /// but what its timers bring about.
    #[inline]
    pub(crate) fn settled_at(&self) -> Option<Instant> {
        self.settled_at
    }

    /// When something arrived, was flushed, or timers ran last.
    #[inline]
    pub(crate) fn last_at(&self) -> Instant {
        self.last_at
    }

    /// The store of a circuit that is gone, if there is one, for the next circuit.
    pub(crate) fn take_spare_store(&mut self) -> Option<Box<Consumer>> {
        self.circuits.take_spare_store()
    }

    /// Gives circuit `id` the store its user writes to.
    pub fn attach(&mut self, id: AssociationId, store: Box<Consumer>) {
        self.circuits.get_or_default(id).store = Some(store);
        self.with_store.push(id);
    }

    /// Detaches a circuit whose user dropped it: its state goes when the engine reports it closed.
    /// What nobody reads any more counts as read, or a shut window would keep the peer from ending.
    /// With `may_defer` its final packets are sent by the next
    /// [`flush_deferred`](Pump::flush_deferred), or when enough of them fill a call of the wire.
    pub fn detach(&mut self, now: Instant, id: AssociationId, may_defer: bool) {
        match self.circuits.get_mut(id) {
            Some(state) if state.closed.is_none() => {
                state.detached = true;
                state.may_defer = may_defer;
                let unread = state.queued_bytes;
                state.clear_queue();
                // What still comes is acknowledged and dropped.
                self.check_full(id);
                if unread > 0 {
                    self.settled_at = None;
                    self.engine.consume(now, id, unread);
                }
            }
            _ => self.remove_circuit(id),
        }
    }

    /// Takes the oldest bytes received for circuit `id`.
    pub fn pop_chunk(&mut self, id: AssociationId) -> Option<Chunk> {
        self.circuits.get_mut(id)?.receive_queue.pop_front()
    }

    /// The state of circuit `id`.
    pub fn status(&self, id: AssociationId) -> CircuitStatus {
        self.circuits
            .get(id)
            .map_or_else(CircuitStatus::default, CircuitState::status)
    }

    /// Makes the pump keep a list of ready circuits.
    pub fn track_ready(&mut self) {
        self.watched = true;
    }

    /// Whether a watch receives and flushes for all circuits.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Takes the circuits that became ready since the last call; each once, by priority. For a
    /// watch.
    pub fn take_ready(&mut self, ready: &mut Vec<AssociationId>) {
        for id in &self.ready {
            if let Some(state) = self.circuits.get_mut(*id) {
                state.in_ready_list = false;
            }
        }
        self.engine.sort_by_priority(&mut self.ready);
        ready.append(&mut self.ready);
    }

    /// Whether circuits became ready since [`take_ready`](Pump::take_ready) was called last.
    pub fn has_ready_circuits(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether there is something to report to a watch.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.watched && self.has_pending_accept()
    }

    /// Whether the accept queue holds a circuit.
    pub fn has_pending_accept(&self) -> bool {
        !self.accept_queue.is_empty()
    }

    /// Runs the timers that are due.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        self.last_at = now;
        if let Some(port) = &mut self.layer {
            port.handle_timeout(now);
        }
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.settled_at = None;
            self.engine.handle_timeout(now);
            self.drain_events(now);
            self.publish_changes();
        }
    }

    /// When the next timer expires.
    pub fn poll_timeout(&self) -> Option<Instant> {
        layer_port::earlier(self.engine.poll_timeout(), self.layer.as_deref())
    }
}

fn recycle<T>(spares: &mut Vec<T>, spare: T) {
    if spares.len() < SPARE_BUFFERS_MAX {
        spares.push(spare);
    }
}

fn mark_changed(changed: &mut Vec<AssociationId>, id: AssociationId, state: &mut CircuitState) {
    if !state.in_changed_list {
        state.in_changed_list = true;
        changed.push(id);
    }
}
