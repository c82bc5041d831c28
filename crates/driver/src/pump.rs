//! The loop body: feeds an engine from a wire, and the wire from the engine.

use crate::inbox::{Chunk, Piece};
use crate::sys::Consumer;
use engine::{Address, Batch, Bytes, CircuitId, CloseReason, Delivery, Engine, Event, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use wire::{Arrival, Wire};

/// An engine and the wire it speaks over.
///
/// The owner calls [`receive`](Pump::receive), [`handle_timeout`](Pump::handle_timeout) and
/// [`transmit`](Pump::transmit) in any order with a `now` that never goes back.
pub struct Pump<E, W> {
    engine: E,
    wire: W,
    batch: Batch,
    circuits: BTreeMap<CircuitId, Held>,
    accepted: VecDeque<(CircuitId, Address)>,
    /// An empty arrival buffer, kept for the next receive.
    spare: Vec<u8>,
    deliveries: Vec<Delivery>,
    arrivals: u64,
    sends: u64,
    /// Packets a full batch holds.
    segments: u64,
}

/// What the host keeps for a circuit.
#[derive(Default)]
struct Held {
    store: Option<Consumer>,
    told: u64,
    inbox: VecDeque<Chunk>,
    connected: bool,
    finished: bool,
    closed: Option<CloseReason>,
    /// Its user is gone; the store stays until the engine has sent what is in it.
    orphan: bool,
}

/// How a circuit stands, as its user sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitStatus {
    /// It can carry data.
    pub connected: bool,
    /// The peer will send no more, and everything was taken.
    pub finished: bool,
    /// It ended.
    pub closed: Option<CloseReason>,
}

/// Arrivals shorter than this are copied out, so that a waiting byte does not hold a whole buffer.
const COPY_BELOW: usize = 16 << 10;

/// Pieces of one circuit that lie in one place: the arrival, or a copy the engine held.
struct Group {
    id: CircuitId,
    held: Option<Vec<u8>>,
    pieces: Vec<Piece>,
}

/// Packets of a segmented send of 64 KiB, and so pieces of a usual arrival.
const PIECES_USUAL: usize = 46;

/// Adds a delivery to the last group of its circuit, if that lies in the arrival too. `start` is
/// where its packet begins in the arrival.
fn sort_in(groups: &mut Vec<Group>, delivery: Delivery, start: usize) {
    let Delivery {
        circuit: id,
        bytes,
        gap,
        end,
    } = delivery;
    let piece = |range: std::ops::Range<usize>| Piece {
        range: range.start as u32..range.end as u32,
        gap,
        end,
    };
    match bytes {
        Bytes::Packet(range) => {
            let piece = piece(start + range.start..start + range.end);
            match groups.iter_mut().rev().find(|group| group.id == id) {
                Some(group) if group.held.is_none() => group.pieces.push(piece),
                _ => {
                    let mut pieces = Vec::with_capacity(PIECES_USUAL);
                    pieces.push(piece);
                    groups.push(Group {
                        id,
                        held: None,
                        pieces,
                    });
                }
            }
        }
        Bytes::Held(held) => {
            let pieces = vec![piece(0..held.len())];
            groups.push(Group {
                id,
                held: Some(held),
                pieces,
            });
        }
    }
}

impl<E: Engine, W: Wire> Pump<E, W> {
    /// Joins an engine and a wire.
    pub fn new(engine: E, wire: W) -> Self {
        let capabilities = wire.capabilities();
        let segments = capabilities.segments(engine.layout().packet());
        Pump {
            batch: Batch::new(segments),
            segments: segments as u64,
            spare: vec![0; capabilities.receive_len],
            engine,
            wire,
            circuits: BTreeMap::new(),
            accepted: VecDeque::new(),
            deliveries: Vec::new(),
            arrivals: 0,
            sends: 0,
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
        self.segments * self.engine.layout().payload as u64
    }

    /// Bytes of circuit `id`'s store below this position were handed to the engine.
    pub fn told(&self, id: CircuitId) -> u64 {
        self.circuits.get(&id).map_or(0, |held| held.told)
    }

    /// Calls of the wire so far that sent and that received something.
    pub fn wire_calls(&self) -> (u64, u64) {
        (self.sends, self.arrivals)
    }

    /// Arrivals taken in so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Whether packets wait for the wire to have room.
    pub fn is_blocked(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Gives circuit `id` the store its user writes to.
    pub fn attach(&mut self, id: CircuitId, store: Consumer) {
        self.circuits.entry(id).or_default().store = Some(store);
    }

    /// Lets go of a circuit whose user is gone: it is forgotten when the engine reports its end.
    pub fn detach(&mut self, id: CircuitId) {
        match self.circuits.get_mut(&id) {
            Some(held) if held.closed.is_none() => {
                held.orphan = true;
                held.inbox.clear();
            }
            _ => {
                self.circuits.remove(&id);
            }
        }
    }

    /// A circuit a peer opened, oldest first.
    pub fn accept(&mut self) -> Option<(CircuitId, Address)> {
        self.accepted.pop_front()
    }

    /// The oldest bytes that arrived for circuit `id`.
    pub fn take(&mut self, id: CircuitId) -> Option<Chunk> {
        self.circuits.get_mut(&id)?.inbox.pop_front()
    }

    /// How circuit `id` stands.
    pub fn status(&self, id: CircuitId) -> CircuitStatus {
        self.circuits
            .get(&id)
            .map_or_else(CircuitStatus::default, |held| CircuitStatus {
                connected: held.connected,
                finished: held.finished && held.inbox.is_empty(),
                closed: held.closed,
            })
    }

    /// Tells the engine that the user is done with `chunk`, and keeps its memory for the next.
    pub fn give_back(&mut self, now: Instant, id: CircuitId, chunk: Chunk) {
        self.engine.consume(now, id, chunk.len());
        if let Ok(octets) = Arc::try_unwrap(chunk.octets)
            && octets.capacity() > self.spare.capacity()
        {
            self.spare = octets;
        }
    }

    /// Takes in one arrival; false when nothing was there.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`.
    pub fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let mut buffer = self.lend_buffer();
        let arrival = self.wire.receive(&mut buffer);
        self.take_in(now, buffer, arrival)
    }

    /// A buffer to receive into, for [`take_in`](Pump::take_in).
    pub fn lend_buffer(&mut self) -> Vec<u8> {
        let len = self.wire.capabilities().receive_len;
        let mut buffer = std::mem::take(&mut self.spare);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        buffer
    }

    /// Takes in what was received into a lent buffer; false when it was nothing.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`.
    pub fn take_in(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
    ) -> io::Result<bool> {
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(error) => {
                self.spare = buffer;
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                    // An answer to a datagram sent earlier: the port it went to is closed. The
                    // engine's timers deal with a peer that is gone.
                    io::ErrorKind::ConnectionRefused => Ok(false),
                    _ => Err(error),
                };
            }
        };
        self.arrivals += 1;
        let octets = &buffer[..arrival.len.min(buffer.len())];
        let groups = self.handle(now, arrival.from, octets, arrival.segment_size);
        self.keep(groups, buffer, arrival.len);
        self.drain_events();
        Ok(true)
    }

    /// Lets the engine act on its deadline if it has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.engine.deadline().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            self.drain_events();
        }
    }

    /// Sends what there is to send. `push` says that users wait for part-filled packets to leave.
    ///
    /// # Errors
    ///
    /// The wire's, except `WouldBlock`, which leaves the rest for the next call.
    pub fn transmit(&mut self, now: Instant, push: bool) -> io::Result<()> {
        self.extend_stores(now, push);
        loop {
            if self.batch.is_empty() {
                self.engine.transmit(now, &mut self.batch);
            }
            if self.batch.is_empty() {
                break;
            }
            match self.send_batch() {
                Ok(()) => self.batch.clear(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.batch.clear();
                    return Err(error);
                }
            }
            self.drain_events();
        }
        self.drain_events();
        self.mark_idle();
        Ok(())
    }

    /// When the engine wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.engine.deadline()
    }

    /// Gives the packets of an arrival to the engine, and sorts what it delivers by circuit.
    fn handle(
        &mut self,
        now: Instant,
        from: Address,
        octets: &[u8],
        segment_size: usize,
    ) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut start = 0;
        for packet in octets.chunks(segment_size.max(1)) {
            self.engine
                .handle_packet(now, from, packet, &mut self.deliveries);
            for delivery in self.deliveries.drain(..) {
                sort_in(&mut groups, delivery, start);
            }
            start += packet.len();
        }
        groups
    }

    /// Puts the deliveries of one arrival into the inboxes.
    fn keep(&mut self, groups: Vec<Group>, mut buffer: Vec<u8>, len: usize) {
        if groups.iter().all(|group| group.held.is_some()) {
            self.spare = buffer;
            buffer = Vec::new();
        } else if len < COPY_BELOW {
            let copy = buffer[..len].to_vec();
            self.spare = std::mem::replace(&mut buffer, copy);
        }
        let arrival = Arc::new(buffer);
        for Group { id, held, pieces } in groups {
            let octets = held.map_or_else(|| Arc::clone(&arrival), Arc::new);
            let user = self.circuits.entry(id).or_default();
            if !user.orphan {
                user.inbox.push_back(Chunk { octets, pieces });
            }
        }
    }

    /// Tells the engine of new bytes: all of them if pushed, else whole batches only, so that no
    /// call of the wire is spent on the few packets by which messages overshoot a batch.
    fn extend_stores(&mut self, now: Instant, push: bool) {
        let payload = self.engine.layout().payload as u64;
        for (&id, held) in &mut self.circuits {
            let Some(store) = &held.store else {
                continue;
            };
            let engine = &mut self.engine;
            store.take_ends(|end| engine.end_message(id, end));
            let head = store.head();
            let first = held.told.div_ceil(payload);
            let batches = (head / payload).saturating_sub(first) / self.segments;
            let end = match batches {
                _ if push => head,
                0 => held.told,
                _ => (first + batches * self.segments) * payload,
            };
            if end > held.told || push {
                held.told = held.told.max(end);
                self.engine.extend(now, id, held.told, push);
            }
        }
    }

    fn send_batch(&mut self) -> io::Result<()> {
        let Some((id, to)) = self.batch.destination() else {
            return Ok(());
        };
        let segment_size = self.batch.segment_size();
        let mut pieces = Vec::with_capacity(2);
        match self
            .circuits
            .get_mut(&id)
            .and_then(|held| held.store.as_mut())
        {
            Some(store) => {
                self.batch.extend_checksums(|payload| store.sum(payload));
                store.gather(&self.batch, &mut pieces);
            }
            None => pieces.extend(
                self.batch
                    .segments()
                    .iter()
                    .map(|segment| io::IoSlice::new(self.batch.header(segment))),
            ),
        }
        self.wire.send(to, &pieces, segment_size)?;
        self.sends += 1;
        Ok(())
    }

    fn drain_events(&mut self) {
        if !self.batch.is_empty() {
            // Released bytes may be part of a batch the wire has not taken.
            return;
        }
        while let Some(event) = self.engine.poll_event() {
            self.handle_event(event);
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Connected(id) => self.circuits.entry(id).or_default().connected = true,
            Event::Accepted(id, from) => {
                self.circuits.entry(id).or_default().connected = true;
                self.accepted.push_back((id, from));
            }
            Event::Released(id, position) => {
                let held = self.circuits.get_mut(&id);
                if let Some(store) = held.and_then(|held| held.store.as_mut()) {
                    store.release(position);
                }
            }
            Event::Finished(id) => {
                if let Some(held) = self.circuits.get_mut(&id) {
                    held.finished = true;
                }
            }
            Event::Closed(id, reason) => {
                if let Some(held) = self.circuits.get_mut(&id) {
                    held.closed = Some(reason);
                    if held.orphan {
                        self.circuits.remove(&id);
                    }
                }
            }
        }
    }

    fn mark_idle(&mut self) {
        for (&id, held) in &self.circuits {
            if let Some(store) = &held.store {
                store.set_idle(self.engine.in_flight(id) == 0);
            }
        }
    }
}
