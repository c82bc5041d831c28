//! From the send stores through the engine to the wire.

use super::{Pump, mark_changed};
use crate::circuit_state::CircuitTable;
use crate::coalesce::CoalesceBuffer;
use engine::{AssociationId, Batch, Engine, Instant};
use std::io;
use wire::Wire;

/// Deferred final acknowledgements per call of the wire. Measured: 8 keep the contexts of both ends
/// in the caches; with many more, transactions take longer than with none deferred.
const DEFERRED_PACKETS_MAX: usize = 8;

impl<E: Engine, W: Wire> Pump<E, W> {
    /// Submits what all stores hold, then flushes. For hosts with few circuits.
    ///
    /// # Errors
    ///
    /// As [`flush`](Pump::flush).
    pub fn submit_all_and_flush(&mut self, now: Instant, push: bool) -> io::Result<()> {
        for index in 0..self.with_store.len() {
            self.submit_pending(now, self.with_store[index], push);
        }
        self.flush(now)
    }

    /// Submits new bytes of circuit `id` to the engine: all of them with `push`, else whole batches
    /// only, so that no call of the wire is spent on the few packets by which messages exceed a
    /// batch. With `push` the engine sends part-filled packets too.
    pub fn submit_pending(&mut self, now: Instant, id: AssociationId, push: bool) {
        let Some(state) = self.circuits.get_mut(&id) else {
            return;
        };
        let Some(store) = &mut state.store else {
            return;
        };
        // The head first: every message end and every loan below it is then known.
        let head = store.head();
        store.take_loans();
        if state.closed.is_some() {
            store.return_all_loans();
        }
        let engine = &mut self.engine;
        store.take_message_ends(|end| engine.end_message(id, end));
        let payload = engine.layout().payload as u64;
        let submitted = store.submitted();
        let first = submitted.div_ceil(payload);
        let batches = (head / payload).saturating_sub(first) / self.segments_per_batch;
        let end = match batches {
            _ if push => head,
            0 => submitted,
            _ => (first + batches * self.segments_per_batch) * payload,
        };
        if end > submitted || push {
            let end = end.max(submitted);
            store.set_submitted(end);
            engine.submit(now, id, end, push);
            mark_changed(&mut self.changed, id, state);
        }
    }

    /// Sends what the engine has to send.
    ///
    /// # Errors
    ///
    /// Errors of the wire, except `WouldBlock`, which leaves the rest for the next call.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        let result = self.send_all(now);
        self.drain_events(now);
        self.publish_changes();
        result
    }

    /// Sends what the engine has to send, and the deferred packets.
    ///
    /// # Errors
    ///
    /// As [`flush`](Pump::flush).
    pub fn flush_deferred(&mut self, now: Instant) -> io::Result<()> {
        self.flush(now)?;
        let result = send_coalesced(&mut self.wire, &mut self.deferred, &mut self.sends);
        self.ignore_would_block(result)
    }

    /// Whether deferred packets wait to be sent.
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    fn send_all(&mut self, now: Instant) -> io::Result<()> {
        let result = self.send_until_blocked(now);
        self.ignore_would_block(result)
    }

    fn ignore_would_block(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => {
                self.batch.clear();
                self.coalesced.clear();
                self.deferred.clear();
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn send_until_blocked(&mut self, now: Instant) -> io::Result<()> {
        loop {
            if self.batch.is_empty() {
                self.engine.poll_transmit(now, &mut self.batch);
            }
            if self.batch.is_empty() {
                return send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends);
            }
            if self.batch.has_trailers() {
                send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends)?;
                self.send_copied()?;
            } else if !self.defer()? {
                self.send_or_coalesce()?;
            }
            self.batch.clear();
            self.drain_events(now);
        }
    }

    fn send_or_coalesce(&mut self) -> io::Result<()> {
        if !self.coalesced.fits(&self.batch) {
            send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends)?;
        }
        if !self.coalesced.fits(&self.batch) {
            return self.send_batch();
        }
        coalesce(&mut self.coalesced, &mut self.batch, &mut self.circuits);
        Ok(())
    }

    /// Defers the batch if its circuit allows that; false if it must be sent now.
    fn defer(&mut self) -> io::Result<bool> {
        let circuit = self.batch.destination().map(|(id, _)| id);
        let state = circuit.and_then(|id| self.circuits.get(&id));
        if !state.is_some_and(|state| state.may_defer) {
            return Ok(false);
        }
        if self.deferred.segments() >= DEFERRED_PACKETS_MAX || !self.deferred.fits(&self.batch) {
            send_coalesced(&mut self.wire, &mut self.deferred, &mut self.sends)?;
        }
        let fits = self.deferred.fits(&self.batch);
        if fits {
            coalesce(&mut self.deferred, &mut self.batch, &mut self.circuits);
        }
        Ok(fits)
    }

    fn send_batch(&mut self) -> io::Result<()> {
        let Some((id, to)) = self.batch.destination() else {
            return Ok(());
        };
        let segment_size = self.batch.segment_size();
        let mut slices = Vec::with_capacity(2);
        let state = self.circuits.get_mut(&id);
        if let Some(store) = state.and_then(|state| state.store.as_mut()) {
            self.batch.extend_checksums(|payload| store.sum(payload));
            store.gather(&self.batch, &mut slices);
        } else {
            let segments = self.batch.segments().iter();
            slices.extend(segments.map(|segment| io::IoSlice::new(self.batch.header(segment))));
        }
        self.wire.send(to, &slices, segment_size)?;
        self.sends += 1;
        Ok(())
    }

    /// Sends packets with trailers, which are copied: header, bytes and trailer in one slice.
    fn send_copied(&mut self) -> io::Result<()> {
        let Some((id, to)) = self.batch.destination() else {
            return Ok(());
        };
        let state = self.circuits.get_mut(&id);
        let store = state.and_then(|state| state.store.as_mut());
        let mut octets = Vec::new();
        for segment in self.batch.segments() {
            self.batch.write(segment, &mut octets, |payload, octets| {
                if let Some(store) = &store {
                    store.copy(payload, octets);
                }
            });
        }
        let slice = io::IoSlice::new(&octets);
        self.wire.send(to, &[slice], self.batch.segment_size())?;
        self.sends += 1;
        Ok(())
    }
}

/// Appends a batch of small packets to `coalesced`, which has room for it.
fn coalesce(coalesced: &mut CoalesceBuffer, batch: &mut Batch, circuits: &mut CircuitTable) {
    let Some((id, to)) = batch.destination() else {
        return;
    };
    let state = circuits.get_mut(&id);
    let store = state.and_then(|state| state.store.as_mut());
    if let Some(store) = &store {
        batch.extend_checksums(|payload| store.sum(payload));
    }
    coalesced.append(to, batch, |payload, octets| {
        if let Some(store) = &store {
            store.copy(payload, octets);
        }
    });
}

fn send_coalesced<W: Wire>(
    wire: &mut W,
    coalesced: &mut CoalesceBuffer,
    sends: &mut u64,
) -> io::Result<()> {
    let Some(to) = coalesced.destination() else {
        return Ok(());
    };
    let slice = io::IoSlice::new(coalesced.octets());
    wire.send(to, &[slice], coalesced.segment_size())?;
    coalesced.clear();
    *sends += 1;
    Ok(())
}
