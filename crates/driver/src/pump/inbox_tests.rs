//! Memory of receive queues under a counting allocator, with senders that waste it.

use super::{BACKLOG, Pump};
use crate::sys::StorePool;
use crate::sys::counting_allocator::allocated;
use engine::{
    Address, AssociationId, Associations, Batch, Bytes, Close, CommandError, Counters, Deliveries,
    Delivery, Ecn, Event, Framing, Instant, Layout, Note, NoteFields, Path, PathFault, Properties,
    Protocol, Received, SendFlags, Status,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::time::Duration;
use wire::{Arrival, Capabilities, MemoryMedium, MemoryWire};

const WINDOW: u64 = 256 << 10;

/// An arrival: 64 KiB.
const ARRIVAL: usize = 65_536;

/// Octets of a packet of [`Funnel`] in front of its user bytes: the circuit and their number, of four
/// octets each.
const HEADER: usize = 8;

/// What the tests allow for tables and spare lists.
const TABLES: isize = 64 << 10;

/// Delivers the user bytes that each packet says it has, within a window.
struct Funnel {
    framing: Framing,
    unread: BTreeMap<AssociationId, u64>,
    full: BTreeMap<AssociationId, bool>,
    events: VecDeque<Event>,
    dropped: u64,
    /// How often it was asked for packets.
    polls: u32,
    timeout: Option<Instant>,
}

impl Funnel {
    fn new(framing: Framing) -> Funnel {
        Funnel {
            framing,
            unread: BTreeMap::new(),
            full: BTreeMap::new(),
            events: VecDeque::new(),
            dropped: 0,
            polls: 0,
            timeout: None,
        }
    }
}

impl Protocol for Funnel {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: ARRIVAL,
            packet_len: None,
            framing: self.framing,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, _: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        let word = |at: usize| {
            let octets = packet.octets[at..at + 4].try_into().expect("four octets");
            u32::from_be_bytes(octets)
        };
        let (id, len) = (AssociationId(word(0)), word(4) as usize);
        let unread = self.unread.entry(id).or_insert_with(|| {
            self.events
                .push_back(Event::Accepted(id, packet.path.remote));
            0
        });
        let is_full = self.full.get(&id).copied().unwrap_or(false);
        if is_full || *unread + len as u64 > WINDOW {
            self.dropped += 1;
            return;
        }
        *unread += len as u64;
        deliveries.bytes.push(Delivery {
            association: id,
            bytes: Bytes::Packet(HEADER..HEADER + len),
            gap: false,
            end_of_message: self.framing == Framing::Messages,
            note: Note::default(),
            begin_tag: false,
            end_tag: false,
        });
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.timeout = None;
    }

    fn handle_path_error(&mut self, _: Instant, _: PathFault<'_>) {}

    fn poll_transmit(&mut self, _: Instant, _: &mut Batch) {
        self.polls += 1;
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Associations for Funnel {
    fn layout(&self, _: Option<AssociationId>) -> Layout {
        Layout {
            header: HEADER,
            payload: 1000,
            trailer: 0,
        }
    }

    fn connect(&mut self, _: Instant, _: &[Address]) -> Result<AssociationId, CommandError> {
        Err(CommandError::Unsupported)
    }

    fn listen(&mut self, _: bool) {}

    fn submit(&mut self, _: Instant, _: AssociationId, _: u64, _: SendFlags, _: &Note) {}

    fn submit_all(&mut self, _: Instant, _: AssociationId, _: &[u64]) {}

    fn consume(&mut self, _: Instant, id: AssociationId, bytes: u64) {
        *self.unread.entry(id).or_default() -= bytes;
    }

    fn close(&mut self, _: Instant, _: AssociationId, _: Close) {}

    fn status(&self, _: AssociationId) -> Status {
        Status::default()
    }

    fn receive_window(&self) -> u64 {
        WINDOW
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        self.full.insert(id, is_full);
    }

    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    fn sort_by_priority(&self, _: &mut [AssociationId]) {}
}

/// A wire that the tests do without: they hand arrivals to the pump.
struct NoMedium;

impl MemoryMedium for NoMedium {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: ARRIVAL,
            segments_max: 1,
            batch_bytes_max: ARRIVAL,
            receive_len: ARRIVAL,
        }
    }

    fn send(&mut self, _: Path, _: &[IoSlice<'_>], _: usize) -> io::Result<()> {
        Ok(())
    }

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        None
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}
}

/// An arrival of `len` octets in packets of `segment`, each for a circuit of `circuits` in turn, with
/// `used` user bytes.
fn arrive(
    pump: &mut Pump<Funnel, MemoryWire<NoMedium>>,
    circuits: &[u32],
    len: usize,
    segment: usize,
    used: u32,
) {
    let mut buffer = pump.take_receive_buffer();
    for (index, packet) in buffer[..len].chunks_mut(segment).enumerate() {
        let circuit = circuits[index % circuits.len()];
        packet[..4].copy_from_slice(&circuit.to_be_bytes());
        packet[4..8].copy_from_slice(&used.to_be_bytes());
        packet[8..8 + used as usize].fill(circuit as u8);
    }
    let arrival = Arrival {
        path: Path::to(Address::Station(9)),
        ecn: Ecn::NotEct,
        len,
        segment_size: segment,
    };
    let handled = pump.handle_arrival(Instant::ZERO, buffer, Ok(arrival));
    assert!(handled.expect("no error"));
}

/// Accepts circuit 1, lets arrivals come, and checks what they take; then reads, and lets more come.
fn check(framing: Framing, len: usize, segment: usize, used: u32) {
    let mut pump = Pump::new(Funnel::new(framing), MemoryWire(NoMedium));
    arrive(&mut pump, &[1], 100, 100, 1);
    let (id, _) = pump.accept().expect("it opened");
    let most = 2 * WINDOW as isize + ARRIVAL as isize + TABLES;
    for _ in 0..3 {
        let before = allocated();
        let dropped = pump.engine().dropped;
        // Enough to fill the window byte by byte.
        while pump.engine().dropped < dropped + 1000 {
            arrive(&mut pump, &[1], len, segment, used);
        }
        let taken = allocated() - before;
        assert!(taken < most, "{taken} octets for a window of {WINDOW}");
        let mut read = 0;
        while let Some(chunk) = pump.pop_chunk(id) {
            for span in &chunk.spans {
                let bytes = &chunk.octets[span.range.start as usize..span.range.end as usize];
                assert!(bytes.iter().all(|byte| *byte == 1));
            }
            read += chunk.len();
            pump.consume(Instant::ZERO, id, chunk);
        }
        assert!(read > 0, "nothing came");
        assert_eq!(pump.engine().unread[&id], 0);
        assert_ne!(
            pump.engine().full.get(&id),
            Some(&true),
            "it has room again"
        );
    }
}

#[test]
fn one_byte_of_each_arrival_takes_no_more_than_twice_the_window() {
    for framing in [Framing::Stream, Framing::Messages, Framing::Records] {
        check(framing, ARRIVAL, ARRIVAL, 1);
    }
}

#[test]
fn packets_of_one_byte_take_no_more_than_twice_the_window() {
    for framing in [Framing::Stream, Framing::Messages, Framing::Records] {
        check(framing, 32 * 1000, 32, 1);
        check(framing, 32, 32, 1);
    }
}

#[test]
fn bytes_of_a_stream_in_packets_of_one_fill_the_whole_window() {
    let mut pump = Pump::new(Funnel::new(Framing::Stream), MemoryWire(NoMedium));
    for _ in 0..=WINDOW {
        arrive(&mut pump, &[1], 40, 40, 1);
    }
    assert_eq!(pump.engine().unread[&AssociationId(1)], WINDOW);
    assert_eq!(pump.engine().full.get(&AssociationId(1)), None);
}

#[test]
fn arrivals_of_which_a_little_over_a_quarter_is_of_use_are_copied() {
    check(Framing::Stream, ARRIVAL, 16 << 10, 5000);
    check(Framing::Stream, ARRIVAL, 1472, 400);
}

#[test]
fn full_arrivals_are_kept_where_they_lie() {
    let mut pump = Pump::new(Funnel::new(Framing::Stream), MemoryWire(NoMedium));
    arrive(&mut pump, &[1], 64_768, 1472, 1464);
    let chunk = pump.pop_chunk(AssociationId(1)).expect("it came");
    assert_eq!(chunk.octets.len(), ARRIVAL);
    assert_eq!(chunk.len(), 44 * 1464);
}

#[test]
fn circuit_with_a_byte_in_an_arrival_of_another_does_not_keep_it() {
    let mut pump = Pump::new(Funnel::new(Framing::Stream), MemoryWire(NoMedium));
    let many: Vec<u32> = (0..44).map(|at| if at == 20 { 2 } else { 1 }).collect();
    arrive(&mut pump, &many, 64_768, 1472, 1464);
    let small = pump.pop_chunk(AssociationId(2)).expect("it came");
    assert_eq!((small.octets.len(), small.len()), (1464, 1464));
    assert!(small.octets.iter().all(|byte| *byte == 2));
}

#[test]
fn circuits_that_nobody_accepts_take_64_mib_together() {
    let mut pump = Pump::new(Funnel::new(Framing::Stream), MemoryWire(NoMedium));
    let before = allocated();
    for round in 0..5 {
        for circuit in 0..2 * BACKLOG as u32 {
            // Whole arrivals, and single bytes of them.
            let used = [ARRIVAL as u32 / 2, 1][(circuit + round) as usize % 2];
            arrive(&mut pump, &[circuit], ARRIVAL, ARRIVAL, used);
        }
    }
    let taken = allocated() - before;
    let most = (64 << 20) + ARRIVAL as isize + 20 * TABLES;
    assert!(taken < most, "{taken} octets");
    assert!(pump.engine().dropped > 1000, "there was room for all");
    // Each one that is accepted gets its bytes, and gives its room to others.
    let mut bytes = 0;
    while let Some((id, _)) = pump.accept() {
        while let Some(chunk) = pump.pop_chunk(id) {
            bytes += chunk.len();
            pump.consume(Instant::ZERO, id, chunk);
        }
        assert_ne!(pump.engine().full.get(&id), Some(&true));
    }
    assert!(bytes > 16 << 20, "{bytes} bytes");
}

#[test]
fn dropped_circuit_keeps_its_window_open() {
    // Chunks that are kept where they lie, and copies.
    for (len, segment, used) in [(ARRIVAL, ARRIVAL, ARRIVAL as u32 / 2), (1472, 1472, 400)] {
        let mut pump = Pump::new(Funnel::new(Framing::Messages), MemoryWire(NoMedium));
        arrive(&mut pump, &[1], len, segment, used);
        let (id, _) = pump.accept().expect("it opened");
        while pump.engine().dropped == 0 {
            arrive(&mut pump, &[1], len, segment, used);
        }
        let reading = pump.pop_chunk(id).expect("it came");
        pump.consume(Instant::ZERO, id, reading);
        pump.detach(Instant::ZERO, id, false);
        assert_eq!(pump.engine().unread[&id], 0, "nobody will read the rest");
        let dropped = pump.engine().dropped;
        for _ in 0..2 * WINDOW / u64::from(used) {
            arrive(&mut pump, &[1], len, segment, used);
        }
        assert_eq!(pump.engine().dropped, dropped, "the window stayed open");
        assert_eq!(pump.engine().unread[&id], 0);
    }
}

/// An engine that has nothing to send is asked again after each input, and not before.
#[test]
fn settled_engine_is_asked_for_packets_after_each_input() {
    type Input = fn(&mut Pump<Funnel, MemoryWire<NoMedium>>);
    const NOW: Instant = Instant::ZERO;
    const ID: AssociationId = AssociationId(1);
    let mut pump = Pump::new(Funnel::new(Framing::Messages), MemoryWire(NoMedium));
    arrive(&mut pump, &[1], 100, 100, 1);
    assert_eq!(pump.accept().map(|(id, _)| id), Some(ID));
    let layout = pump.engine().layout(None);
    let (_producer, consumer) = StorePool::new(layout, 1 << 16).store(ID, layout);
    pump.attach(ID, consumer);
    let inputs: [(&str, Input); 6] = [
        ("a packet", |pump| arrive(pump, &[1], 100, 100, 1)),
        ("a receive without a packet", |pump| {
            pump.receive(NOW).expect("no error");
        }),
        ("bytes to send", |pump| pump.submit_pending(NOW, ID, true)),
        ("bytes read", |pump| {
            let chunk = pump.pop_chunk(ID).expect("bytes");
            pump.consume(NOW, ID, chunk);
        }),
        ("a timer", |pump| {
            pump.engine.timeout = Some(NOW);
            pump.handle_timeout(NOW);
        }),
        ("a command", |pump| {
            pump.engine();
        }),
    ];
    for (name, input) in inputs {
        pump.flush(NOW).expect("no error");
        let before = pump.engine.polls;
        pump.flush(NOW).expect("no error");
        assert_eq!(pump.engine.polls, before, "before {name}");
        input(&mut pump);
        pump.flush(NOW).expect("no error");
        assert!(pump.engine.polls > before, "after {name}");
    }
}
