//! The loop body: feeds an engine from a wire, and the wire from the engine.
//!
//! Here is what comes in; `outgoing` sends, and `events` carries what the engine says to users.

mod events;
mod transmit;

use crate::circuit_state::{CircuitState, CircuitStatus, CircuitTable};
use crate::coalesce::CoalesceBuffer;
use crate::demultiplex::{CircuitDeliveries, demultiplex};
use crate::receive_queue::{Chunk, ChunkSpan};
use crate::sys::Consumer;
use engine::{Address, AssociationId, Associations, Batch, Deliveries, Instant, Received};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use wire::{Arrival, Wire};

/// An engine and the wire it speaks over.
///
/// The owner calls [`receive`](Pump::receive), [`handle_timeout`](Pump::handle_timeout),
/// [`offer`](Pump::offer) and [`flush`](Pump::flush) in any order with a `now` that never goes
/// back.
pub struct Pump<E, W> {
    engine: E,
    wire: W,
    batch: Batch,
    circuits: CircuitTable,
    /// Circuits with a store, for those who offer all of them.
    with_store: Vec<AssociationId>,
    accept_queue: VecDeque<(AssociationId, Address)>,
    backlog: usize,
    /// Circuits to which something happened since the last call settled.
    changed: Vec<AssociationId>,
    /// Circuits a watcher is to look at.
    ready: Vec<AssociationId>,
    watched: bool,
    /// Empty arrival buffers, kept for the next receives.
    spare_buffers: Vec<Vec<u8>>,
    /// What small arrivals were copied into, and lists of pieces, kept for the next.
    spare_copies: Vec<Arc<Vec<u8>>>,
    spare_lists: Vec<Vec<ChunkSpan>>,
    /// What the arrival at hand brought; empty between arrivals.
    by_circuit: Vec<CircuitDeliveries>,
    /// Small packets, perhaps of several circuits, on their way into one call of the wire.
    coalesced: CoalesceBuffer,
    /// Last words of circuits whose users were patient, until somebody sends them.
    deferred: CoalesceBuffer,
    deliveries: Deliveries,
    arrivals: u64,
    events: u64,
    sends: u64,
    refused: u64,
    /// Packets a full batch holds.
    segments_per_batch: u64,
}

/// Arrivals shorter than this are copied out, so that a waiting byte does not hold a whole buffer
/// of 64 KiB.
const COPY_BELOW: usize = 32 << 10;

/// Empty arrival buffers kept, and empty copies and lists of each kind.
const SPARE_BUFFERS_MAX: usize = 8;

/// Circuits opened by peers that may wait for somebody to accept them.
///
/// A thousand: with their first windows of 64 KiB they hold 64 MiB at worst.
pub const BACKLOG: usize = 1024;

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Joins an engine and a wire.
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
            engine,
            wire,
            circuits: CircuitTable::default(),
            with_store: Vec::new(),
            accept_queue: VecDeque::new(),
            backlog: BACKLOG,
            changed: Vec::new(),
            ready: Vec::new(),
            watched: false,
            deliveries: Deliveries::default(),
            arrivals: 0,
            events: 0,
            sends: 0,
            refused: 0,
        }
    }

    /// The engine, for commands.
    pub fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    /// The wire.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// User bytes a full batch carries.
    pub fn batch_bytes(&self) -> u64 {
        self.segments_per_batch * self.engine.layout(None).payload as u64
    }

    /// Bytes of circuit `id`'s store below this position were handed to the engine.
    pub fn submitted(&self, id: AssociationId) -> u64 {
        let store = self
            .circuits
            .get(&id)
            .and_then(|state| state.store.as_ref());
        store.map_or(0, Consumer::submitted)
    }

    /// Calls of the wire so far that sent and that received something.
    pub fn wire_calls(&self) -> (u64, u64) {
        (self.sends, self.arrivals)
    }

    /// Arrivals taken in so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// What the engine told of circuits so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Circuits opened by peers that were ended because nobody accepted them in time.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many circuits opened by peers may wait to be accepted; see [`BACKLOG`].
    pub fn set_backlog(&mut self, backlog: usize) {
        self.backlog = backlog;
    }

    /// Whether packets wait for the wire to have room.
    pub fn is_blocked(&self) -> bool {
        !self.batch.is_empty() || !self.coalesced.is_empty()
    }

    /// Gives circuit `id` the store its user writes to.
    pub fn attach(&mut self, id: AssociationId, store: Consumer) {
        self.circuits.entry(id).or_default().store = Some(store);
        self.with_store.push(id);
    }

    /// Lets go of a circuit whose user is gone: it is forgotten when the engine reports its end.
    /// What is still to be said for it may be `late`: it leaves with the next
    /// [`flush_late`](Pump::flush_late), or when there is a call of the wire full of the like.
    pub fn detach(&mut self, id: AssociationId, may_defer: bool) {
        match self.circuits.get_mut(&id) {
            Some(state) if state.closed.is_none() => {
                state.detached = true;
                state.may_defer = may_defer;
                state.receive_queue.clear();
            }
            _ => self.remove_circuit(id),
        }
    }

    /// A circuit a peer opened, oldest first.
    pub fn accept(&mut self) -> Option<(AssociationId, Address)> {
        self.accept_queue.pop_front()
    }

    /// The oldest bytes that arrived for circuit `id`.
    pub fn pop_chunk(&mut self, id: AssociationId) -> Option<Chunk> {
        self.circuits.get_mut(&id)?.receive_queue.pop_front()
    }

    /// How circuit `id` stands.
    pub fn status(&self, id: AssociationId) -> CircuitStatus {
        self.circuits
            .get(&id)
            .map_or_else(CircuitStatus::default, CircuitState::status)
    }

    /// Makes the pump keep a list of the circuits to which something happened.
    pub fn track_ready(&mut self) {
        self.watched = true;
    }

    /// Whether somebody watches, and receives and flushes for all circuits in one go.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Circuits to which something happened since the last call; each once, the most urgent first.
    /// For a watcher.
    pub fn take_ready(&mut self, ready: &mut Vec<AssociationId>) {
        for id in &self.ready {
            if let Some(state) = self.circuits.get_mut(id) {
                state.in_ready_list = false;
            }
        }
        self.engine.sort_by_priority(&mut self.ready);
        ready.append(&mut self.ready);
    }

    /// Whether a watcher has something to look at.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.watched && self.has_pending_accept()
    }

    /// Whether a circuit opened by a peer waits to be accepted.
    pub fn has_pending_accept(&self) -> bool {
        !self.accept_queue.is_empty()
    }

    /// Tells the engine that the user is done with `chunk`, and keeps its memory for the next.
    pub fn consume(&mut self, now: Instant, id: AssociationId, chunk: Chunk) {
        self.engine.consume(now, id, chunk.len());
        let Chunk {
            octets,
            spans: mut spans,
        } = chunk;
        spans.clear();
        recycle(&mut self.spare_lists, spans);
        self.recycle_octets(octets);
    }

    /// Keeps the memory of an arrival that nobody else reads any more.
    fn recycle_octets(&mut self, mut octets: Arc<Vec<u8>>) {
        let Some(own) = Arc::get_mut(&mut octets) else {
            return;
        };
        if own.len() < self.wire.capabilities().receive_len {
            recycle(&mut self.spare_copies, octets);
        } else {
            recycle(&mut self.spare_buffers, std::mem::take(own));
        }
    }

    /// Takes in one arrival; false when nothing was there.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`.
    pub fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let mut buffer = self.take_receive_buffer();
        let arrival = self.wire.receive(&mut buffer);
        self.handle_arrival(now, buffer, arrival)
    }

    /// A buffer to receive into, for [`take_in`](Pump::take_in).
    pub fn take_receive_buffer(&mut self) -> Vec<u8> {
        let len = self.wire.capabilities().receive_len;
        self.spare_buffers.pop().unwrap_or_else(|| vec![0; len])
    }

    /// Takes in what was received into a lent buffer; false when it was nothing.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`.
    pub fn handle_arrival(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
    ) -> io::Result<bool> {
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(error) => {
                recycle(&mut self.spare_buffers, buffer);
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                    // An answer to a datagram sent earlier: the port it went to is closed. The
                    // engine's timers deal with a peer that is gone.
                    io::ErrorKind::ConnectionRefused => Ok(false),
                    _ => Err(error),
                };
            }
        };
        if arrival.len == 0 {
            // An empty datagram, or a wire that was shut down: nothing an engine could use.
            recycle(&mut self.spare_buffers, buffer);
            return Ok(false);
        }
        self.arrivals += 1;
        let octets = &buffer[..arrival.len.min(buffer.len())];
        self.handle_packets(now, arrival.from, octets, arrival.segment_size.max(1));
        self.queue_deliveries(buffer, arrival.len);
        self.drain_events(now);
        self.publish_changes();
        Ok(true)
    }

    /// Lets the engine act on its deadline if it has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            self.drain_events(now);
            self.publish_changes();
        }
    }

    /// When the engine wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.engine.poll_timeout()
    }

    /// Gives the packets of an arrival to the engine, and sorts what it delivers by circuit.
    fn handle_packets(&mut self, now: Instant, from: Address, octets: &[u8], segment_size: usize) {
        let mut start = 0;
        for packet in octets.chunks(segment_size) {
            self.engine
                .handle_packet(now, Received::new(from, packet), &mut self.deliveries);
            let more = (octets.len() - start) / segment_size;
            for delivery in self.deliveries.bytes.drain(..) {
                demultiplex(
                    &mut self.by_circuit,
                    &mut self.spare_lists,
                    delivery,
                    start,
                    more,
                );
            }
            start += packet.len();
        }
    }

    /// Puts the deliveries of one arrival into the inboxes.
    fn queue_deliveries(&mut self, buffer: Vec<u8>, len: usize) {
        let mut arrival = if self
            .by_circuit
            .iter()
            .all(|entry| entry.reassembled.is_some())
        {
            recycle(&mut self.spare_buffers, buffer);
            None
        } else if len < COPY_BELOW {
            let copy = copy_reusing(self.spare_copies.pop(), &buffer[..len]);
            recycle(&mut self.spare_buffers, buffer);
            Some(copy)
        } else {
            Some(Arc::new(buffer))
        };
        let mut left = self.by_circuit.len();
        for CircuitDeliveries {
            id,
            reassembled,
            spans,
        } in self.by_circuit.drain(..)
        {
            left -= 1;
            let octets = match reassembled {
                Some(copy) => Some(Arc::new(copy)),
                None if left == 0 => arrival.take(),
                None => arrival.clone(),
            };
            let state = self.circuits.entry(id).or_default();
            if let (false, Some(octets)) = (state.detached, octets) {
                state.receive_queue.push_back(Chunk { octets, spans });
                state.newly_ready = true;
                mark_changed(&mut self.changed, id, state);
            }
        }
    }
}

fn recycle<T>(spares: &mut Vec<T>, spare: T) {
    if spares.len() < SPARE_BUFFERS_MAX {
        spares.push(spare);
    }
}

/// A copy of `octets`, in memory kept from an earlier one if there is some.
fn copy_reusing(spare: Option<Arc<Vec<u8>>>, octets: &[u8]) -> Arc<Vec<u8>> {
    let mut copy = spare.unwrap_or_default();
    match Arc::get_mut(&mut copy) {
        Some(own) => {
            own.clear();
            own.extend_from_slice(octets);
            copy
        }
        None => Arc::new(octets.to_vec()),
    }
}

fn mark_changed(changed: &mut Vec<AssociationId>, id: AssociationId, state: &mut CircuitState) {
    if !state.in_changed_list {
        state.in_changed_list = true;
        changed.push(id);
    }
}
