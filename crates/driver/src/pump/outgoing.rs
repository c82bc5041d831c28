//! From the stores through the engine to the wire.

use super::{Pump, touch};
use crate::circuits::Circuits;
use crate::parcel::Parcel;
use engine::{Batch, AssociationId, Engine, Instant};
use std::io;
use wire::Wire;

/// Last words that wait for each other. What both ends remember of their circuits stays in the
/// caches; with many more, transactions take longer than with none.
const LATE_MAX: usize = 8;

impl<E: Engine, W: Wire> Pump<E, W> {
    /// Offers what all stores hold, then sends what there is to send. For hosts with few circuits.
    ///
    /// # Errors
    ///
    /// As [`flush`](Pump::flush).
    pub fn transmit(&mut self, now: Instant, push: bool) -> io::Result<()> {
        for index in 0..self.stored.len() {
            self.offer(now, self.stored[index], push);
        }
        self.flush(now)
    }

    /// Tells the engine of new bytes of circuit `id`: all of them if pushed, else whole batches
    /// only, so that no call of the wire is spent on the few packets by which messages overshoot
    /// a batch. `push` says that the user waits for part-filled packets to leave.
    pub fn offer(&mut self, now: Instant, id: AssociationId, push: bool) {
        let Some(held) = self.circuits.get_mut(&id) else {
            return;
        };
        let Some(store) = &mut held.store else {
            return;
        };
        // The head first: every message below it has its end in the list, every loan is known.
        let head = store.head();
        store.take_loans();
        if held.closed.is_some() {
            store.return_all();
        }
        let engine = &mut self.engine;
        store.take_ends(|end| engine.end_message(id, end));
        let payload = engine.layout().payload as u64;
        let told = store.told();
        let first = told.div_ceil(payload);
        let batches = (head / payload).saturating_sub(first) / self.segments;
        let end = match batches {
            _ if push => head,
            0 => told,
            _ => (first + batches * self.segments) * payload,
        };
        if end > told || push {
            let end = end.max(told);
            store.set_told(end);
            engine.submit(now, id, end, push);
            touch(&mut self.touched, id, held);
        }
    }

    /// Sends what the engine has to send.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`, which leaves the rest for the next call.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        let result = self.send_all(now);
        self.drain_events(now);
        self.settle();
        result
    }

    /// Sends what the engine has to send, and what was said late.
    ///
    /// # Errors
    ///
    /// As [`flush`](Pump::flush).
    pub fn flush_late(&mut self, now: Instant) -> io::Result<()> {
        self.flush(now)?;
        let result = send_parcel(&mut self.wire, &mut self.late, &mut self.sends);
        self.unless_blocked(result)
    }

    /// Whether something said late waits to be sent.
    pub fn is_late(&self) -> bool {
        !self.late.is_empty()
    }

    fn send_all(&mut self, now: Instant) -> io::Result<()> {
        let result = self.send_until_blocked(now);
        self.unless_blocked(result)
    }

    fn unless_blocked(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => {
                self.batch.clear();
                self.parcel.clear();
                self.late.clear();
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
                return send_parcel(&mut self.wire, &mut self.parcel, &mut self.sends);
            }
            if self.batch.has_trailers() {
                send_parcel(&mut self.wire, &mut self.parcel, &mut self.sends)?;
                self.send_copied()?;
            } else if !self.put_off()? {
                self.send_or_pack()?;
            }
            self.batch.clear();
            self.drain_events(now);
        }
    }

    fn send_or_pack(&mut self) -> io::Result<()> {
        if !self.parcel.fits(&self.batch) {
            send_parcel(&mut self.wire, &mut self.parcel, &mut self.sends)?;
        }
        if !self.parcel.fits(&self.batch) {
            return self.send_batch();
        }
        pack(&mut self.parcel, &mut self.batch, &mut self.circuits);
        Ok(())
    }

    /// Puts the batch off if it is of a circuit whose words may be late.
    fn put_off(&mut self) -> io::Result<bool> {
        let circuit = self.batch.destination().map(|(id, _)| id);
        let held = circuit.and_then(|id| self.circuits.get(&id));
        if !held.is_some_and(|held| held.late) {
            return Ok(false);
        }
        if self.late.segments() >= LATE_MAX || !self.late.fits(&self.batch) {
            send_parcel(&mut self.wire, &mut self.late, &mut self.sends)?;
        }
        let fits = self.late.fits(&self.batch);
        if fits {
            pack(&mut self.late, &mut self.batch, &mut self.circuits);
        }
        Ok(fits)
    }

    fn send_batch(&mut self) -> io::Result<()> {
        let Some((id, to)) = self.batch.destination() else {
            return Ok(());
        };
        let segment_size = self.batch.segment_size();
        let mut pieces = Vec::with_capacity(2);
        let held = self.circuits.get_mut(&id);
        if let Some(store) = held.and_then(|held| held.store.as_mut()) {
            self.batch.extend_checksums(|payload| store.sum(payload));
            store.gather(&self.batch, &mut pieces);
        } else {
            let segments = self.batch.segments().iter();
            pieces.extend(segments.map(|segment| io::IoSlice::new(self.batch.header(segment))));
        }
        self.wire.send(to, &pieces, segment_size)?;
        self.sends += 1;
        Ok(())
    }

    /// Sends packets whose user bytes something follows: in one piece each, so copied.
    fn send_copied(&mut self) -> io::Result<()> {
        let Some((id, to)) = self.batch.destination() else {
            return Ok(());
        };
        let held = self.circuits.get_mut(&id);
        let store = held.and_then(|held| held.store.as_mut());
        let mut octets = Vec::new();
        for segment in self.batch.segments() {
            self.batch.write(segment, &mut octets, |payload, octets| {
                if let Some(store) = &store {
                    store.copy(payload, octets);
                }
            });
        }
        let piece = io::IoSlice::new(&octets);
        self.wire.send(to, &[piece], self.batch.segment_size())?;
        self.sends += 1;
        Ok(())
    }
}

/// Copies a batch of small packets into `parcel`, which has room for it.
fn pack(parcel: &mut Parcel, batch: &mut Batch, circuits: &mut Circuits) {
    let Some((id, to)) = batch.destination() else {
        return;
    };
    let held = circuits.get_mut(&id);
    let store = held.and_then(|held| held.store.as_mut());
    if let Some(store) = &store {
        batch.extend_checksums(|payload| store.sum(payload));
    }
    parcel.pack(to, batch, |payload, octets| {
        if let Some(store) = &store {
            store.copy(payload, octets);
        }
    });
}

fn send_parcel<W: Wire>(wire: &mut W, parcel: &mut Parcel, sends: &mut u64) -> io::Result<()> {
    let Some(to) = parcel.to() else {
        return Ok(());
    };
    let piece = io::IoSlice::new(parcel.octets());
    wire.send(to, &[piece], parcel.segment_size())?;
    parcel.clear();
    *sends += 1;
    Ok(())
}
