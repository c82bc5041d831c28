//! How to add an engine: a whole protocol in one file, run by the same pump as on a real wire.
//!
//! `StopAndWait` sends one packet, waits for its acknowledgement, and sends the next. It has what
//! every engine needs: packets, a timer, a window (of one), events, a close. Its packets also change
//! their length in mid-stream, as they do when a path's MTU is found, shrinks or grows.
//!
//! What to copy: the two `impl` blocks. A real engine becomes a crate `engine-...`, gets a name in
//! crate `scenario` (`engines.rs`) and, for races, a transport in crate `towpath`.

use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::sys::ring;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CloseReason, CommandError, Counters,
    Deliveries, Delivery, Event, Framing, Instant, Integrity, Layout, Note, NoteFields, Path,
    PathFault, Properties, Protocol, Received, SendFlags, Status, Store,
};
use link::LinkConfig;
use sim::World;
use std::collections::VecDeque;
use std::time::Duration;

/// One octet of type, eight of position.
const HEADER_LEN: usize = 9;

/// The retransmission timeout: longer than any round trip of the tests.
const RTO: Duration = Duration::from_millis(50);

const DATA: u8 = 0;
const ACK: u8 = 1;
const FIN: u8 = 2;

/// The only association of an endpoint.
const ID: AssociationId = AssociationId(1);

/// An endpoint with one association in one direction.
#[derive(Default)]
struct StopAndWait {
    peer: Option<Path>,
    /// User bytes of a packet from each position on, as the path changes.
    layouts: VecDeque<(u64, usize)>,
    payload: usize,
    submitted: u64,
    acknowledged: u64,
    /// The packet in flight.
    in_flight: Option<std::ops::Range<u64>>,
    finishing: bool,
    /// A packet is to be sent, or sent again.
    due: bool,
    rto_at: Option<Instant>,
    received: u64,
    ack_due: bool,
    closed: bool,
    events: VecDeque<Event>,
    counters: Counters,
}

impl StopAndWait {
    fn new(layouts: &[(u64, usize)]) -> StopAndWait {
        StopAndWait {
            payload: layouts[0].1,
            layouts: layouts[1..].iter().copied().collect(),
            ..StopAndWait::default()
        }
    }

    fn handle_data(&mut self, from: Path, position: u64, octets: &[u8], out: &mut Deliveries) {
        if self.peer.is_none() {
            self.peer = Some(from);
            self.events.push_back(Event::Accepted(ID, from.remote));
        }
        self.ack_due = true;
        let len = octets.len() - HEADER_LEN;
        if position == self.received && len > 0 {
            self.received += len as u64;
            out.bytes.push(Delivery {
                association: ID,
                bytes: Bytes::Packet(HEADER_LEN..octets.len()),
                gap: false,
                end_of_message: false,
                note: Note::default(),
                begin_tag: false,
                end_tag: false,
            });
        }
        if octets[0] == FIN && position == self.received && !self.closed {
            self.closed = true;
            self.events.push_back(Event::Finished(ID));
        }
    }

    fn handle_ack(&mut self, position: u64) {
        let Some(range) = self.in_flight.take_if(|range| range.end == position) else {
            return;
        };
        self.acknowledged = range.end;
        self.rto_at = None;
        self.due = true;
        self.events.push_back(Event::Released(ID, range.clone()));
        if range.is_empty() {
            self.closed = true;
            self.events
                .push_back(Event::Closed(ID, CloseReason::Graceful));
        }
        while self
            .layouts
            .front()
            .is_some_and(|&(from, _)| from <= self.acknowledged)
        {
            let (from, payload) = self.layouts.pop_front().expect("it was there");
            self.payload = payload;
            self.events.push_back(Event::LayoutChanged(ID, from));
        }
    }

    /// The next range to send: the one in flight again, or new bytes, or the end.
    fn next_range(&self) -> Option<std::ops::Range<u64>> {
        let end = self.submitted.min(self.acknowledged + self.payload as u64);
        let new = self.acknowledged..end;
        let wanted = !new.is_empty() || self.finishing;
        self.in_flight.clone().or(wanted.then_some(new))
    }
}

impl Protocol for StopAndWait {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: 1500,
            packet_len: None,
            framing: Framing::Stream,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, _now: Instant, packet: Received<'_>, out: &mut Deliveries) {
        self.counters.packets_parsed += 1;
        let octets = packet.octets;
        let Some((&kind, rest)) = octets.split_first() else {
            return;
        };
        let Some(position) = rest.first_chunk().map(|octets| u64::from_be_bytes(*octets)) else {
            return;
        };
        match kind {
            DATA | FIN => self.handle_data(packet.path, position, octets, out),
            ACK => self.handle_ack(position),
            _ => self.counters.packets_discarded += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.rto_at.take_if(|at| *at <= now).is_some() {
            self.due = true;
            self.counters.retransmissions += 1;
        }
    }

    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        let Some(peer) = self.peer else {
            return;
        };
        batch.set_path(peer, Some(ID));
        if std::mem::take(&mut self.ack_due) {
            batch.push_own(&[&[ACK][..], &self.received.to_be_bytes()].concat());
            return;
        }
        if self.closed || !std::mem::take(&mut self.due) {
            return;
        }
        let Some(range) = self.next_range() else {
            return;
        };
        let kind = if range.is_empty() { FIN } else { DATA };
        let header = [&[kind][..], &range.start.to_be_bytes()].concat();
        batch.push(
            &header,
            Store::Association(ID),
            range.clone(),
            Integrity::None,
        );
        self.counters.packets_built += 1;
        self.in_flight = Some(range);
        self.rto_at = Some(now + RTO);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.rto_at
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Associations for StopAndWait {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: HEADER_LEN,
            payload: self.payload,
            trailer: 0,
        }
    }

    fn connect(&mut self, _now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        let &[to] = to else {
            return Err(CommandError::Unsupported);
        };
        self.peer = Some(Path::to(to));
        self.events.push_back(Event::Connected(ID));
        Ok(ID)
    }

    fn listen(&mut self, _accept: bool) {}

    fn submit(&mut self, _: Instant, _: AssociationId, end: u64, flags: SendFlags, _: &Note) {
        self.submitted = self.submitted.max(end);
        self.finishing |= flags.fin;
        self.due |= self.in_flight.is_none();
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, _now: Instant, _id: AssociationId, _bytes: u64) {}

    fn close(&mut self, now: Instant, id: AssociationId, _how: Close) {
        self.submit(now, id, 0, SendFlags::FIN, &Note::default());
    }

    fn status(&self, _id: AssociationId) -> Status {
        Status {
            bytes_in_flight: self.submitted - self.acknowledged,
        }
    }

    fn receive_window(&self) -> u64 {
        u64::MAX
    }

    fn set_receive_full(&mut self, _: AssociationId, _: bool) {}

    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}

/// Octets of the transfer.
const TOTAL: usize = 60_000;

fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

/// Sends [`TOTAL`] octets; gives what arrived, and the lengths of the packets on the link.
fn transfer(layouts: &[(u64, usize)], config: LinkConfig, seed: u64) -> (Vec<u8>, Vec<usize>) {
    let engines = [StopAndWait::new(layouts), StopAndWait::new(&[(0, 100)])];
    let mut world = World::new(engines, config, seed);
    let now = world.now();
    let opened = world.pump(0).engine().connect(now, &[Address::Station(1)]);
    let id = opened.expect("it has room for one");
    let layout = world.pump(0).engine().layout(Some(id));
    let (mut producer, consumer) = ring(layout, 20_000);
    world.pump(0).attach(id, consumer);
    let all: Vec<u8> = (0..TOTAL).map(byte).collect();
    let (mut written, mut received, mut finished) = (0, Vec::new(), false);
    let mut reader = MessageReader::new(Framing::Stream);
    let mut buffer = [0; 2000];
    loop {
        // Pieces of no particular length: they do not end where packets end.
        let piece = all[written..].chunks(777).next().unwrap_or_default();
        if !piece.is_empty() && producer.append_bytes(piece) {
            written += piece.len();
        } else if piece.is_empty() && !std::mem::replace(&mut finished, true) {
            let now = world.now();
            let (engine, position) = (world.pump(0).engine(), producer.position());
            engine.submit(now, id, position, SendFlags::FIN, &Note::default());
        }
        if !world
            .step(10_000_000_000_000_000)
            .expect("no wire fails here")
        {
            return (received, data_lengths(&world));
        }
        while let Some(chunk) = world.pump(1).pop_chunk(ID) {
            reader.put(chunk);
            while let ReadOutcome::Message(len) = reader.next(&mut buffer) {
                received.extend_from_slice(&buffer[..len]);
            }
            let now = world.now();
            let chunk = reader.take_consumed().expect("it was put");
            world.pump(1).consume(now, ID, chunk);
        }
    }
}

fn data_lengths(world: &World<StopAndWait>) -> Vec<usize> {
    let packets = world.trace().iter().map(|line| &line.packet);
    packets
        .filter(|packet| packet[0] == DATA)
        .map(Vec::len)
        .collect()
}

fn lossy() -> LinkConfig {
    LinkConfig {
        delay_ps: 1_000_000_000,
        loss_ppm: 100_000,
        ..LinkConfig::default()
    }
}

#[test]
fn transfer_is_whole_over_a_link_that_loses() {
    for seed in 0..5 {
        let (received, lengths) = transfer(&[(0, 700)], lossy(), seed);
        assert!(
            received.iter().copied().eq((0..TOTAL).map(byte)),
            "seed {seed}"
        );
        assert!(
            lengths.len() > TOTAL / 700,
            "seed {seed}: some were sent again"
        );
    }
}

#[test]
fn layout_that_changes_in_mid_stream_loses_no_octet() {
    let layouts = [
        (0, 700),
        (10_000, 256),
        (20_000, 1491),
        (35_000, 700),
        (50_000, 1),
    ];
    for (config, seed) in [(LinkConfig::default(), 0), (lossy(), 1), (lossy(), 2)] {
        let (received, lengths) = transfer(&layouts[..4], config, seed);
        assert!(
            received.iter().copied().eq((0..TOTAL).map(byte)),
            "seed {seed}"
        );
        for (_, payload) in &layouts[..4] {
            let full = lengths.iter().filter(|len| **len == HEADER_LEN + payload);
            assert!(full.count() > 5, "seed {seed}: packets of {payload} bytes");
        }
    }
}

#[test]
fn same_seed_gives_same_packets() {
    assert_eq!(
        transfer(&[(0, 700)], lossy(), 3),
        transfer(&[(0, 700)], lossy(), 3)
    );
    assert_ne!(
        transfer(&[(0, 700)], lossy(), 3).1,
        transfer(&[(0, 700)], lossy(), 4).1
    );
}
