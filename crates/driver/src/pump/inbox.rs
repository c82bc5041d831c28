//! What is kept of arrivals until users read it, and how much memory that takes.
//!
//! A window bounds user bytes, not memory: one byte may lie in an arrival of 64 KiB. So an arrival is
//! kept whole only for a circuit to which half of it belongs; what others got of it is copied, joined
//! to what waits for the same user. A circuit whose queue nevertheless takes more memory than its user
//! bytes and one and a quarter of its window together is full: its engine drops what comes until the user has read.

use super::{Pump, mark_changed, recycle};
use crate::circuit_state::CircuitState;
use crate::demultiplex::CircuitDeliveries;
use crate::receive_queue::{Chunk, ChunkSpan, Octets};
use engine::{Address, AssociationId, Associations, Instant};
use std::sync::Arc;
use wire::Wire;

/// Copies are joined up to this length. A longer one would be moved more often, a shorter one leaves
/// more of a 64 KiB arrival unused.
const JOINED_MAX: usize = 32 << 10;

/// Octets beyond its user bytes that a circuit's queue may take even with a smaller window: an
/// arrival.
const SPARE_MIN: u64 = 64 << 10;

/// Octets that the queues of all circuits that are not accepted yet may take: a thousand of them
/// ([`super::BACKLOG`]) with first windows of 64 KiB.
pub(super) const UNACCEPTED_MAX: u64 = 64 << 20;

/// How much memory arrivals take.
#[derive(Debug)]
pub(super) struct InboxMemory {
    /// Octets that a circuit's queue may take beyond its user bytes: a record of 24 octets for each message
    /// of a window, of which the shortest takes 20 (SCTP's, RFC 9260 section 3.3.1).
    spare_max: u64,
    /// Octets of the queues of circuits that are not accepted.
    unaccepted: u64,
    unaccepted_max: u64,
    /// They take more, and so are all full.
    is_over: bool,
    /// Arrivals whose buffers were kept for their users so far.
    kept_arrivals: u64,
}

impl InboxMemory {
    pub(super) fn new(receive_window: u64) -> InboxMemory {
        InboxMemory {
            spare_max: receive_window
                .saturating_add(receive_window / 4)
                .max(SPARE_MIN),
            unaccepted: 0,
            unaccepted_max: UNACCEPTED_MAX,
            is_over: false,
            kept_arrivals: 0,
        }
    }
}

impl InboxMemory {
    /// Whether the queue of a circuit takes too much.
    fn is_full(&self, state: &CircuitState) -> bool {
        let spare = state.queued_octets.saturating_sub(state.queued_bytes);
        spare > self.spare_max || state.is_unaccepted && self.is_over
    }

    /// The queue of a circuit takes more: octets of memory, and user bytes. True when something is
    /// full because of that.
    fn grow(&mut self, state: &mut CircuitState, (octets, bytes): (u64, u64)) -> bool {
        state.queued_octets += octets;
        state.queued_bytes += bytes;
        if state.is_unaccepted {
            self.unaccepted += octets;
        }
        let is_over = self.unaccepted > self.unaccepted_max;
        self.is_full(state) != state.is_full || is_over != self.is_over
    }
}

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Puts the deliveries of a short arrival, `octets`, into the receive queues: all of them are
    /// copied.
    #[inline]
    pub(super) fn queue_short(&mut self, now: Instant, octets: &[u8]) {
        if let Some(mut whole) = self.deliveries.whole.take() {
            for range in whole.ranges.drain(..) {
                let mut list = self.spare_lists.pop().unwrap_or_default();
                list.push(ChunkSpan::of_message(range));
                let entry = CircuitDeliveries::of_whole(whole.association, list);
                self.queue_copy(now, entry, octets);
            }
            self.deliveries.whole = Some(whole);
        }
        let mut deliveries = std::mem::take(&mut self.deliveries.bytes);
        for delivery in deliveries.drain(..) {
            let list = self.spare_lists.pop().unwrap_or_default();
            self.queue_copy(now, CircuitDeliveries::of_one(delivery, 0, list), octets);
        }
        self.deliveries.bytes = deliveries;
    }

    /// Puts the deliveries of an arrival of `len` octets in `buffer` into the receive queues.
    pub(super) fn queue_deliveries(&mut self, now: Instant, mut buffer: Vec<u8>, len: usize) {
        let receive_len = self.receive_len;
        let mut by_circuit = std::mem::take(&mut self.by_circuit);
        let is_kept = |entry: &CircuitDeliveries| {
            entry.reassembled.is_none() && entry.user_bytes() >= receive_len / 2
        };
        let keeps_any = by_circuit.iter().any(is_kept);
        self.inbox.kept_arrivals += u64::from(keeps_any);
        if by_circuit.len() == 1 && keeps_any {
            for entry in by_circuit.drain(..) {
                self.queue_chunk(
                    now,
                    entry.id,
                    entry.into_chunk(Octets::Own(std::mem::take(&mut buffer))),
                );
            }
        } else if keeps_any {
            let arrival = Arc::new(buffer);
            for entry in by_circuit.drain(..) {
                if is_kept(&entry) {
                    let octets = Octets::Shared(Arc::clone(&arrival));
                    self.queue_chunk(now, entry.id, entry.into_chunk(octets));
                } else {
                    self.queue_copy(now, entry, &arrival);
                }
            }
        } else {
            for entry in by_circuit.drain(..) {
                self.queue_copy(now, entry, &buffer[..len.min(buffer.len())]);
            }
            self.recycle_arrival(buffer);
        }
        self.by_circuit = by_circuit;
    }

    /// Arrivals so far whose buffers are kept until their users have read them: each needs another buffer.
    pub(crate) fn kept_arrivals(&self) -> u64 {
        self.inbox.kept_arrivals
    }

    /// Recycles the memory of an arrival. A packet of a layer has the layer's.
    pub(super) fn recycle_arrival(&mut self, buffer: Vec<u8>) {
        match &mut self.layer {
            _ if buffer.len() == self.receive_len => recycle(&mut self.spare_buffers, buffer),
            Some(port) => port.recycle_packet(buffer),
            None => {}
        }
    }

    /// Copies what `entry` has of `octets`, behind what waits for the same user if that is a copy too.
    fn queue_copy(&mut self, now: Instant, entry: CircuitDeliveries, octets: &[u8]) {
        let CircuitDeliveries {
            id,
            reassembled,
            spans,
            notes,
        } = entry;
        let octets = reassembled.as_deref().unwrap_or(octets);
        let state = self.circuits.get_or_default(id);
        let joined = state.receive_queue.back_mut().and_then(|last| {
            let before = (last.memory(), last.len());
            let joined = last.join(octets, &spans, &notes, self.framing, JOINED_MAX);
            joined.then(|| (last.memory() - before.0, last.len() - before.1))
        });
        let more = match joined {
            Some(more) => {
                recycle_list(&mut self.spare_lists, spans);
                more
            }
            None if state.detached => {
                let len = spans.iter().map(|span| span.range.len() as u64).sum();
                recycle_list(&mut self.spare_lists, spans);
                return self.engine.consume(now, id, len);
            }
            None => {
                let own = self.spare_copies.pop().unwrap_or_default();
                let chunk = if spans.len() == 1 {
                    Chunk::of_one(own, octets, spans, notes)
                } else {
                    let list = self.spare_lists.pop().unwrap_or_default();
                    let chunk = Chunk::of_many(own, octets, (&spans, list), &notes, self.framing);
                    recycle_list(&mut self.spare_lists, spans);
                    chunk
                };
                let more = (chunk.memory(), chunk.len());
                state.receive_queue.push_back(chunk);
                more
            }
        };
        state.newly_ready = true;
        mark_changed(&mut self.changed, id, state);
        if self.inbox.grow(state, more) {
            self.check_full(id);
            self.check_unaccepted();
        }
    }

    fn queue_chunk(&mut self, now: Instant, id: AssociationId, chunk: Chunk) {
        let state = self.circuits.get_or_default(id);
        if state.detached {
            return self.engine.consume(now, id, chunk.len());
        }
        let more = (chunk.memory(), chunk.len());
        state.receive_queue.push_back(chunk);
        state.newly_ready = true;
        mark_changed(&mut self.changed, id, state);
        if self.inbox.grow(state, more) {
            self.check_full(id);
            self.check_unaccepted();
        }
    }

    /// Tells the engine that the queue of circuit `id` is full, or has room again.
    pub(super) fn check_full(&mut self, id: AssociationId) {
        let Some(state) = self.circuits.get_mut(id) else {
            return;
        };
        let is_full = self.inbox.is_full(state);
        if is_full != state.is_full {
            state.is_full = is_full;
            self.settled_at = None;
            self.engine.set_receive_full(id, is_full);
        }
    }

    /// When the queues of circuits that are not accepted together take too much, all of them are full.
    fn check_unaccepted(&mut self) {
        let is_over = self.inbox.unaccepted > self.inbox.unaccepted_max;
        if is_over != self.inbox.is_over {
            self.inbox.is_over = is_over;
            for index in 0..self.accept_queue.len() {
                self.check_full(self.accept_queue[index].0);
            }
        }
    }

    /// Whether one more circuit may wait to be accepted.
    pub(super) fn has_room_for_unaccepted(&self) -> bool {
        self.accept_queue.len() < self.backlog && !self.inbox.is_over
    }

    /// Tells the engine that the user has read `chunk`, and recycles its memory.
    pub fn consume(&mut self, now: Instant, id: AssociationId, chunk: Chunk) {
        let len = chunk.len();
        self.settled_at = None;
        self.engine.consume(now, id, len);
        if let Some(state) = self.circuits.get_mut(id) {
            state.queued_octets = state.queued_octets.saturating_sub(chunk.memory());
            state.queued_bytes = state.queued_bytes.saturating_sub(len);
            if state.is_full {
                self.check_full(id);
            }
        }
        let Chunk { octets, spans, .. } = chunk;
        recycle_list(&mut self.spare_lists, spans);
        self.recycle_octets(octets);
    }

    /// Recycles the memory of a chunk unless another chunk refers to it.
    fn recycle_octets(&mut self, octets: Octets) {
        let mut own = match octets {
            Octets::Own(own) => own,
            Octets::Shared(arrival) => match Arc::try_unwrap(arrival) {
                Ok(own) => own,
                Err(_) => return,
            },
        };
        if own.len() < self.receive_len {
            if let Some(port) = &mut self.layer {
                return port.recycle_packet(own);
            }
            own.clear();
            recycle(&mut self.spare_copies, own);
        } else {
            recycle(&mut self.spare_buffers, own);
        }
    }

    /// Takes the oldest circuit of the accept queue.
    pub fn accept(&mut self) -> Option<(AssociationId, Address)> {
        let accepted = self.accept_queue.pop_front()?;
        self.leave_unaccepted(accepted.0);
        self.check_full(accepted.0);
        Some(accepted)
    }

    /// Circuit `id` waits to be accepted.
    pub(super) fn enter_unaccepted(&mut self, id: AssociationId) {
        let state = self.circuits.get_or_default(id);
        state.is_unaccepted = true;
        self.inbox.unaccepted += state.queued_octets;
        self.check_unaccepted();
        self.check_full(id);
    }

    /// The queue of circuit `id` counts no more among those that are not accepted.
    pub(super) fn leave_unaccepted(&mut self, id: AssociationId) {
        let Some(state) = self.circuits.get_mut(id) else {
            return;
        };
        if std::mem::take(&mut state.is_unaccepted) {
            self.inbox.unaccepted -= state.queued_octets;
            self.check_unaccepted();
        }
    }
}

fn recycle_list(spares: &mut Vec<Vec<ChunkSpan>>, mut spans: Vec<ChunkSpan>) {
    spans.clear();
    recycle(spares, spans);
}
