//! From the send stores through the engine to the wire.

use super::{Pump, mark_changed};
use crate::checked_wire::CheckedWire;
use crate::circuit_state::CircuitTable;
use crate::coalesce::CoalesceBuffer;
use crate::layer_port::LayerPort;
use crate::sys::Consumer;
use engine::{
    AssociationId, Associations, Batch, Fragmentation, Instant, Note, Part, Path, SendFlags,
};
use std::io;
use wire::{Taken, Wire};

/// Deferred final acknowledgements per call of the wire. Measured: 8 keep the contexts of both ends
/// in the caches; with many more, transactions take longer than with none deferred.
const DEFERRED_PACKETS_MAX: usize = 8;

/// Messages that are submitted together however short they are: a protocol that tells them apart adds
/// 16 octets or so to each, and a batch has 64 KiB. A store takes twice as many between two submissions.
const MESSAGES_PER_BATCH: usize = 2048;

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Submits what all stores hold, then flushes. For hosts with few circuits.
    /// Errors are those of [`flush`](Pump::flush).
    pub fn submit_all_and_flush(&mut self, now: Instant, push: bool) -> io::Result<()> {
        for index in 0..self.with_store.len() {
            self.submit_pending(now, self.with_store[index], push);
        }
        self.flush(now)
    }

    /// Submits new bytes of circuit `id` to the engine: all of them with `push`, else whole batches
    /// only, so that no call of the wire is spent on the few packets by which messages exceed a
    /// batch. With `push` the engine sends part-filled packets too.
    #[inline]
    pub fn submit_pending(&mut self, now: Instant, id: AssociationId, push: bool) {
        let flags = SendFlags {
            push,
            ..SendFlags::NONE
        };
        self.submit_store(now, id, flags);
    }

    /// Submits all new bytes of circuit `id` to the engine, which are the last: the engine sends part-filled packets too.
    #[inline]
    pub(crate) fn submit_last(&mut self, now: Instant, id: AssociationId) {
        let flags = SendFlags {
            push: true,
            fin: true,
            ..SendFlags::NONE
        };
        self.submit_store(now, id, flags);
    }

    /// [`submit_pending`](Pump::submit_pending) of what `flags` say.
    fn submit_store(&mut self, now: Instant, id: AssociationId, flags: SendFlags) {
        let push = flags.push;
        let Some(state) = self.circuits.get_mut(id) else {
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
        store.take_message_ends();
        store.take_notes();
        let submitted = store.submitted();
        let end = match push {
            true => head,
            false => whole_batches_end(store, head, self.segments_per_batch),
        };
        if end > submitted || push {
            self.settled_at = None;
            let end = end.max(submitted);
            store.set_submitted(end);
            submit(engine, now, id, store, end, flags);
            mark_changed(&mut self.changed, id, state);
        }
    }

    /// Sends what the engine has to send. What a path does not take is lost, counted, and told to the
    /// engine, which may answer at once.
    /// Errors are those of the wire itself, except `WouldBlock`, which leaves the rest for the next call.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        if self.settled_at.is_some() {
            return Ok(());
        }
        self.last_at = now;
        // A layer sends at its own times.
        self.settled_at = self.layer.is_none().then_some(now);
        let mut result = self.send_all(now);
        if self.wire.report_to(&mut self.engine, now) {
            self.settled_at = None;
            if result.is_ok() {
                // Once: an engine whose answer fails too hears of it at the next flush.
                result = self.send_all(now);
            }
        }
        self.drain_events(now);
        self.publish_changes();
        if result.is_err() || self.is_blocked() {
            self.settled_at = None;
        }
        result
    }

    /// Sends what the engine has to send, and the deferred packets. Errors are those of [`flush`](Pump::flush).
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
                if let Some(port) = &mut self.layer {
                    port.drop_frames();
                }
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn send_until_blocked(&mut self, now: Instant) -> io::Result<()> {
        if self.layer.is_some() {
            return self.send_frames_until_blocked(now);
        }
        loop {
            if self.batch.is_empty() {
                self.engine.poll_transmit(now, &mut self.batch);
            }
            if self.batch.is_empty() {
                return send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends);
            }
            if !self.begin_coalescing() {
                self.send_or_copy()?;
            }
            self.batch.clear();
            if self.has_deferred() {
                // What follows may be deferred too: the peer of this packet works meanwhile.
                send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends)?;
            }
            self.drain_events(now);
        }
    }

    /// Sends the batch, in one piece or as it is cut, or coalesces it.
    #[inline(never)]
    fn send_or_copy(&mut self) -> io::Result<()> {
        let fragmentation = self.batch.fragmentation();
        let is_copied = self.batch.needs_copy() || self.is_scattered();
        if !is_copied && fragmentation == Fragmentation::Usual {
            return self.send_or_coalesce();
        }
        send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends)?;
        self.wire.set_fragmentation(fragmentation);
        let sent = self.send_copied();
        self.wire.set_fragmentation(Fragmentation::Usual);
        sent
    }

    /// Begins to coalesce with the batch, if that is a short packet with nothing in front of it, whose user bytes lie in one
    /// place, and which may not be deferred: as a message to or fro mostly is. False if it is for the general way.
    #[inline]
    fn begin_coalescing(&mut self) -> bool {
        if !self.coalesced.is_empty() || !self.coalesced.fits(&self.batch) {
            return false;
        }
        let Some(packet) = self.batch.plain_packet() else {
            return false;
        };
        let Some(state) = self.batch.sender().and_then(|id| self.circuits.get(id)) else {
            return false;
        };
        let store = state.store.as_deref().filter(|_| !state.may_defer);
        let Some(bytes) = store.and_then(|store| store.in_one_piece(&packet.user)) else {
            return false;
        };
        self.coalesced.begin(&self.batch, &packet, &bytes);
        true
    }

    /// Whether the batch is gathered from so many places that copying it is cheaper.
    fn is_scattered(&mut self) -> bool {
        let store = store_of(&mut self.circuits, self.batch.sender());
        store.is_some_and(|store| store.is_scattered(&self.batch))
    }

    #[inline(never)]
    fn send_frames_until_blocked(&mut self, now: Instant) -> io::Result<()> {
        let Some(mut port) = self.layer.take() else {
            return Ok(());
        };
        let result = self.send_through_layer(now, &mut port);
        self.layer = Some(port);
        result
    }

    /// Sends packets as frames of the layer. It is given more only when the wire has taken its
    /// frames, so that it holds little.
    fn send_through_layer(&mut self, now: Instant, port: &mut LayerPort) -> io::Result<()> {
        loop {
            port.send_frames(now, &mut self.wire)?;
            let mut is_full = false;
            while !is_full {
                self.engine.poll_transmit(now, &mut self.batch);
                if self.batch.is_empty() {
                    // The frames of the last packets.
                    return port.send_frames(now, &mut self.wire);
                }
                let store = store_of(&mut self.circuits, self.batch.sender());
                is_full = port.send_batch(now, &self.batch, |_, payload, octets| {
                    if let Some(store) = &store {
                        store.copy(payload, octets);
                    }
                });
                self.batch.clear();
                self.drain_events(now);
            }
        }
    }

    /// Copies small packets together, those that may be deferred apart, and sends others.
    #[inline]
    fn send_or_coalesce(&mut self) -> io::Result<()> {
        let state = match self.batch.sender() {
            Some(id) => self.circuits.get_mut(id),
            None => None,
        };
        let may_defer = state.as_ref().is_some_and(|state| state.may_defer);
        let store = state.and_then(|state| state.store.as_deref_mut());
        if may_defer {
            if self.deferred.packets() >= DEFERRED_PACKETS_MAX || !self.deferred.fits(&self.batch) {
                send_coalesced(&mut self.wire, &mut self.deferred, &mut self.sends)?;
            }
            if self.deferred.fits(&self.batch) {
                coalesce(&mut self.deferred, &self.batch, store);
                return Ok(());
            }
        }
        if !self.coalesced.fits(&self.batch) {
            send_coalesced(&mut self.wire, &mut self.coalesced, &mut self.sends)?;
            if !self.coalesced.fits(&self.batch) {
                return self.send_batch();
            }
        }
        coalesce(&mut self.coalesced, &self.batch, store);
        Ok(())
    }

    fn send_batch(&mut self) -> io::Result<()> {
        let Some(path) = self.batch.path() else {
            return Ok(());
        };
        let Some(store) = store_of(&mut self.circuits, self.batch.sender()) else {
            return self.send_own(path);
        };
        let packet_len = self.batch.packet_len();
        let mut slices = Vec::with_capacity(2);
        self.batch
            .complete_checks(|_, payload, take| store.visit(payload, take));
        let is_in_place = store.gather(&self.batch, &mut slices);
        if !(is_in_place && self.batch.is_held()) {
            self.sends += u64::from(self.wire.send(path, &slices, packet_len)?);
            return Ok(());
        }
        let taken = self.wire.send_by_reference(path, &slices, packet_len)?;
        self.sends += u64::from(taken.is_some());
        if taken == Some(Taken::ByReference) {
            store.mark_referenced(&self.batch);
        }
        Ok(())
    }

    /// Sends packets of the engine's octets alone.
    fn send_own(&mut self, path: Path) -> io::Result<()> {
        self.batch.complete_checks(|_, _, _| {});
        let packets = self.batch.packets().iter();
        let parts = packets.flat_map(|packet| self.batch.parts(packet));
        let own = parts.filter_map(|part| match part {
            Part::Own(octets) => Some(io::IoSlice::new(self.batch.own(octets))),
            Part::User(..) => None,
        });
        let slices: Vec<io::IoSlice<'_>> = own.collect();
        let sent = self.wire.send(path, &slices, self.batch.packet_len())?;
        self.sends += u64::from(sent);
        Ok(())
    }

    /// Sends packets whose check is completed in the pass that copies them.
    fn send_copied(&mut self) -> io::Result<()> {
        let Some(path) = self.batch.path() else {
            return Ok(());
        };
        let store = store_of(&mut self.circuits, self.batch.sender());
        let mut cursor = store.as_ref().map(|store| store.cursor());
        self.copied.clear();
        for packet in self.batch.packets() {
            self.batch
                .write(packet, &mut self.copied, |_, payload, octets| {
                    if let Some(cursor) = &mut cursor {
                        cursor.copy(payload, octets);
                    }
                });
        }
        let slice = io::IoSlice::new(&self.copied);
        let sent = self.wire.send(path, &[slice], self.batch.packet_len())?;
        self.sends += u64::from(sent);
        Ok(())
    }
}

/// Submits the bytes of `store` up to `end`, with the messages that end there and before; `last_flags` are for the last of
/// them.
fn submit<E: Associations>(
    engine: &mut E,
    now: Instant,
    id: AssociationId,
    store: &mut Consumer,
    end: u64,
    last_flags: SendFlags,
) {
    let plain = Note::default();
    let mut last = None;
    if !store.has_notes() {
        store.pop_message_ends(end, |ends| engine.submit_all(now, id, ends));
    }
    while let Some(at) = store.pop_message_end(end) {
        let flags = SendFlags {
            push: last_flags.push && at == end,
            fin: last_flags.fin && at == end,
            more: at != end,
            ..SendFlags::END_OF_MESSAGE
        };
        if store.has_notes() {
            engine.submit(now, id, at, flags, &store.pop_note());
        } else {
            engine.submit(now, id, at, flags, &plain);
        }
        last = Some(at);
    }
    if last != Some(end) {
        engine.submit(now, id, end, last_flags, &plain);
    }
}

/// Up to where bytes are submitted that the user has not pushed: the last position that fills a batch.
fn whole_batches_end(store: &Consumer, head: u64, segments_per_batch: u64) -> u64 {
    // Their headers alone fill a batch; and a message with a note is submitted in one piece.
    if store.waiting_messages() >= MESSAGES_PER_BATCH || store.has_notes() {
        return head;
    }
    let payload = store.layout().payload as u64;
    let submitted = store.submitted();
    let first = submitted.div_ceil(payload);
    match (head / payload).saturating_sub(first) / segments_per_batch {
        0 => submitted,
        batches => (first + batches * segments_per_batch) * payload,
    }
}

/// The store of the association that sends a batch.
fn store_of(circuits: &mut CircuitTable, sender: Option<AssociationId>) -> Option<&mut Consumer> {
    circuits.get_mut(sender?)?.store.as_deref_mut()
}

/// Copies a batch of small packets into `coalesced`, which has room for it.
fn coalesce(coalesced: &mut CoalesceBuffer, batch: &Batch, store: Option<&mut Consumer>) {
    coalesced.append(batch, |_, payload, octets| {
        if let Some(store) = &store {
            store.copy(payload, octets);
        }
    });
}

fn send_coalesced<W: Wire>(
    wire: &mut CheckedWire<W>,
    coalesced: &mut CoalesceBuffer,
    sends: &mut u64,
) -> io::Result<()> {
    let Some(path) = coalesced.path() else {
        return Ok(());
    };
    let slice = io::IoSlice::new(coalesced.octets());
    let sent = wire.send(path, &[slice], coalesced.packet_len())?;
    coalesced.clear();
    *sends += u64::from(sent);
    Ok(())
}
