//! An association of XTP over rings that die, lie and fill, as drawn from a seed: what each end sends arrives whole
//! and in order, and both close.
//!
//! The engines and pumps are the real ones in one thread, and their clock stands still while packets move, as in
//! the simulator. Rings and sockets are the kernel's, so a run repeats as far as the kernel does. A seed that
//! failed is printed and kept, and tried first by the next run. TOWPATH_SEEDS is the number of seeds, TOWPATH_FIRST_SEED the
//! first of them, TOWPATH_SEED the only one. In one of four seeds ATM cells are below both engines.

use crate::{BootId, MeetingPlace, ShortcutWire};
use driver::Pump;
use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::sys::{Producer, ring};
use engine::{
    Address, AssociationId, Associations, CloseReason, Fragmentation, Framing, Instant, Note,
    PacketLen, Path, Protocol, SendFlags, SplitMix64,
};
use engine_aal34::{Adaptation, Cells, CellsConfig};
use engine_xtp::{Config, Xtp};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::rc::Rc;
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};
use wire_udp::UdpWire;

/// Seeds of a usual run.
const SEEDS: u64 = 60;

/// Octets that an end sends at most.
const SENT_MAX: u64 = 2 << 20;

/// Octets of its send store.
const STORE_LEN: usize = 512 << 10;

/// Octets that an end writes in a round.
const WRITE_LEN: u64 = 20_000;

/// Looks of an end at its wire in a row. Few, so that a run has many rounds.
const ARRIVALS_MAX: usize = 5;

/// Rounds of a run at most: many times what one takes.
const ROUNDS_MAX: u32 = 200_000;

/// Engine time of a run at most: a hundred retransmissions.
const TIME_MAX: Instant = Instant::from_nanos(600_000_000_000);

/// One of so many seeds has cells.
const CELLS_EACH: u64 = 4;

/// Disturbances of a run at most, so that it ends.
const DISTURBANCES_MAX: u32 = 40;

/// A wire that its pump shares with the run, which disturbs it.
struct SharedWire(Rc<RefCell<ShortcutWire>>);

impl Wire for SharedWire {
    fn capabilities(&self) -> Capabilities {
        self.0.borrow().capabilities()
    }

    fn unanswerable(&self) -> u64 {
        self.0.borrow().unanswerable()
    }

    fn receive_drops(&self) -> Option<u64> {
        self.0.borrow().receive_drops()
    }

    // Nobody waits.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_buffered(&self) -> bool {
        self.0.borrow().has_buffered()
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }

    engine::forward! { self.0.borrow_mut();
        fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()>;
        fn send_by_reference(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<wire::Taken>;
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival>;
        fn poll_path_error(&mut self) -> Option<PathReport>;
        fn set_fragmentation(&mut self, fragmentation: Fragmentation);
        fn path_mtu(&mut self, path: Path) -> usize;
        fn set_packet_len(&mut self, packet_len: PacketLen);
        fn may_wait(&mut self) -> bool;
        fn join(&mut self, group: Address) -> io::Result<()>;
        fn leave(&mut self, group: Address) -> io::Result<()>;
    }
}

/// An endpoint and its user, who writes and reads as much as there is.
struct End {
    pump: Pump<Xtp, SharedWire>,
    wire: Rc<RefCell<ShortcutWire>>,
    address: SocketAddr,
    circuit: Option<(AssociationId, Producer)>,
    reader: MessageReader,
    to_send: u64,
    is_finishing: bool,
    received: u64,
    /// Rounds in which it is not served.
    pause: u64,
}

/// An engine with cells of AAL5 below.
fn pump_over_cells(engine: Xtp, wire: SharedWire, seed: u64) -> Pump<Xtp, SharedWire> {
    let config = CellsConfig {
        adaptation: Adaptation::Aal5,
        packet_max: engine.properties().packet_max,
        seed,
        ..CellsConfig::default()
    };
    let cells = Cells::new(config).expect("a configuration of cells");
    Pump::with_layer(engine, wire, Box::new(cells)).expect("packets that cells carry")
}

/// The octet at a position of a stream.
fn octet(position: u64) -> u8 {
    (position ^ (position >> 8) ^ (position >> 16)) as u8
}

impl End {
    fn new(seed: u64, to_send: u64) -> End {
        let udp = UdpWire::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = udp.local_addr().expect("it is bound");
        // A host of its own, so that no other process answers.
        let boot = BootId::new([8; 16]);
        let wire = ShortcutWire::on(udp, MeetingPlace::Namespace, boot).expect("an epoll");
        let wire = Rc::new(RefCell::new(wire));
        let engine = Xtp::new(Config {
            seed,
            ..Config::default()
        });
        let shared = SharedWire(Rc::clone(&wire));
        // Both ends of a run: their seeds are 2n and 2n + 1.
        let pump = match seed / 2 % CELLS_EACH {
            0 => pump_over_cells(engine, shared, seed),
            _ => Pump::new(engine, shared),
        };
        End {
            pump,
            wire,
            address,
            circuit: None,
            reader: MessageReader::new(Framing::Stream),
            to_send,
            is_finishing: false,
            received: 0,
            pause: 0,
        }
    }

    fn attach(&mut self, id: AssociationId) {
        let layout = self.pump.engine().layout(Some(id));
        let (producer, consumer) = ring(layout, STORE_LEN);
        self.pump.attach(id, consumer);
        self.circuit = Some((id, producer));
    }

    /// Serves user, engine and wire once; whether anything came or went.
    fn serve(&mut self, now: Instant) -> bool {
        let before = self.pump.wire_calls();
        // The first wish for a wake makes the second look at everything, the socket too.
        for _ in 0..2 {
            for _ in 0..ARRIVALS_MAX {
                self.pump.receive(now).expect("the loopback receives");
            }
            self.wire.borrow_mut().may_wait();
        }
        if self.circuit.is_none()
            && let Some((id, _)) = self.pump.accept()
        {
            self.attach(id);
        }
        let has_moved = self.write(now) | self.read(now);
        let flushed = self.pump.submit_all_and_flush(now, true);
        flushed.expect("the loopback sends");
        has_moved || self.pump.wire_calls() != before
    }

    fn write(&mut self, now: Instant) -> bool {
        let Some((id, producer)) = &mut self.circuit else {
            return false;
        };
        let from = producer.position();
        let mut has_moved = false;
        let end = self.to_send.min(from + WRITE_LEN);
        if from < end {
            let octets: Vec<u8> = (from..end).map(octet).collect();
            has_moved |= producer.append_bytes(&octets);
        }
        if producer.position() == self.to_send && !std::mem::replace(&mut self.is_finishing, true) {
            let (engine, position) = (self.pump.engine(), producer.position());
            engine.submit(now, *id, position, SendFlags::FIN, &Note::default());
            has_moved = true;
        }
        has_moved
    }

    fn read(&mut self, now: Instant) -> bool {
        let Some((id, _)) = self.circuit else {
            return false;
        };
        let (mut buffer, before) = ([0; 4096], self.received);
        while let Some(chunk) = self.pump.pop_chunk(id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                let expected = (self.received..).map(octet);
                let is_right = buffer[..len].iter().copied().eq(expected.take(len));
                assert!(is_right, "octets from {} on are wrong", self.received);
                self.received += len as u64;
            }
            let chunk = self.reader.take_consumed().expect("it was put");
            self.pump.consume(now, id, chunk);
        }
        self.received != before
    }

    fn is_over(&self, expected: u64) -> bool {
        let Some((id, _)) = &self.circuit else {
            return false;
        };
        let status = self.pump.status(*id);
        let is_whole = self.received == expected;
        match status.closed {
            None => false,
            Some(CloseReason::Graceful) if is_whole => true,
            Some(reason) => panic!("closed after {} of {expected}: {reason:?}", self.received),
        }
    }

    fn rings(&self) -> usize {
        let handle = self.wire.borrow().handle();
        handle.expect("it is on").rings().len()
    }
}

/// What happened in runs, so that none is without what it is for.
#[derive(Debug, Default)]
struct Tally {
    met: u32,
    ended: u32,
    halves_ended: u32,
    lies: u32,
    junk_batches: u32,
    full: u32,
}

/// Two ends and what disturbs them.
struct Run {
    random: SplitMix64,
    ends: [End; 2],
    now: Instant,
    disturbances: u32,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = SplitMix64::new(seed);
        let ends = [0, 1].map(|side| End::new(2 * seed + side, random.below(SENT_MAX)));
        Run {
            random,
            ends,
            now: Instant::ZERO,
            disturbances: 0,
        }
    }

    fn finish(&mut self, tally: &mut Tally) {
        let [near, far] = &mut self.ends;
        far.pump.engine().listen(true);
        let to = Address::Socket(far.address);
        let opened = near.pump.engine().connect(self.now, &[to]);
        near.attach(opened.expect("room for one"));
        self.offer(0);
        for _ in 0..ROUNDS_MAX {
            if self.is_over() {
                return;
            }
            if self.random.below(3) == 0 && self.disturbances < DISTURBANCES_MAX {
                self.disturbances += 1;
                self.disturb(tally);
            }
            let before = self.ends[0].rings();
            // The clock stands still while an end pauses, or packets are on their way.
            let mut has_moved = false;
            for end in &mut self.ends {
                has_moved |= end.pause > 0 || end.serve(self.now);
                end.pause = end.pause.saturating_sub(1);
            }
            tally.met += u32::from(self.ends[0].rings() > before);
            if !has_moved {
                self.advance();
            }
        }
        panic!("{ROUNDS_MAX} rounds, and it is not over");
    }

    fn is_over(&self) -> bool {
        let [near, far] = &self.ends;
        near.is_over(far.to_send) && far.is_over(near.to_send)
    }

    /// To the next timeout of an engine.
    fn advance(&mut self) {
        let deadlines = self.ends.iter().filter_map(|end| end.pump.poll_timeout());
        let next = deadlines
            .min()
            .expect("an association that is not over has a timer");
        self.now = self.now.max(next);
        assert!(self.now < TIME_MAX, "it does not end");
        for end in &mut self.ends {
            end.pump.handle_timeout(self.now);
        }
    }

    fn offer(&mut self, side: usize) {
        let peer = self.ends[1 - side].address;
        let handle = self.ends[side].wire.borrow().handle();
        handle.expect("it is on").offer_to(peer);
    }

    fn disturb(&mut self, tally: &mut Tally) {
        let side = self.random.below(2) as usize;
        match self.random.below(8) {
            0 => {
                tally.ended += self.ends[side].rings() as u32;
                let handle = self.ends[side].wire.borrow().handle();
                handle.expect("it is on").end_rings();
            }
            1 => tally.halves_ended += u32::from(self.end_half(side)),
            2 if self.random.below(4) == 0 => tally.lies += u32::from(self.lie(side)),
            3 => self.fill(side, tally),
            4 => self.ends[side].pause = 1 + self.random.below(20),
            _ => self.offer(side),
        }
    }

    /// The sending half of a ring ends, as if its process died between two packets.
    fn end_half(&mut self, side: usize) -> bool {
        let mut wire = self.ends[side].wire.borrow_mut();
        let ring = wire
            .shortcut
            .as_mut()
            .and_then(|one| one.outbound.rings.pop());
        ring.map(crate::ring::RingSender::end).is_some()
    }

    /// A message that no correct peer writes.
    fn lie(&mut self, side: usize) -> bool {
        let lengths: [u32; 4] = [0, 9, u32::MAX, self.random.next_u64() as u32];
        let packet_len = lengths[self.random.below(4) as usize];
        let mut octets = packet_len.to_ne_bytes().to_vec();
        octets.resize(4 + self.random.below(9) as usize, 7);
        self.write(side, &octets)
    }

    /// Packets of drawn octets until the ring has no room.
    fn fill(&mut self, side: usize, tally: &mut Tally) {
        let mut octets = 1472_u32.to_ne_bytes().to_vec();
        let len = 1 + self.random.below(60_000);
        octets.extend((0..len).map(|_| self.random.next_u64() as u8));
        let batches = (0..1200).take_while(|_| self.write(side, &octets)).count() as u32;
        tally.junk_batches += batches;
        tally.full += u32::from((1..1200).contains(&batches));
    }

    /// Writes a message into the ring of a side; whether it has one, with room.
    fn write(&mut self, side: usize, octets: &[u8]) -> bool {
        let mut wire = self.ends[side].wire.borrow_mut();
        let rings = wire.shortcut.as_mut().map(|one| &mut one.outbound.rings);
        let ring = rings.and_then(|rings| rings.first_mut());
        ring.is_some_and(|ring| ring.write_raw(octets))
    }
}

/// The seeds that failed, one a line.
fn kept_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/shortcut-violations.txt")
}

fn kept_seeds() -> Vec<u64> {
    let text = std::fs::read_to_string(kept_file()).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Prints a seed that failed, and keeps it.
fn keep(seed: u64) {
    eprintln!(
        "seed {seed} failed; again: TOWPATH_SEED={seed} cargo test -p towpath-wire-shortcut swarm"
    );
    let mut seeds = kept_seeds();
    if !seeds.contains(&seed) {
        seeds.push(seed);
        let text: String = seeds.iter().map(|seed| format!("{seed}\n")).collect();
        // Where it cannot be kept, it was printed.
        let _ = std::fs::write(kept_file(), text);
    }
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("TOWPATH_SEED") {
        return vec![seed];
    }
    let first = number("TOWPATH_FIRST_SEED").unwrap_or(0);
    let drawn = first..first + number("TOWPATH_SEEDS").unwrap_or(SEEDS);
    kept_seeds().into_iter().chain(drawn).collect()
}

#[test]
fn association_outlives_rings_that_die_lie_and_fill() {
    let mut tally = Tally::default();
    let seeds = seeds();
    for &seed in &seeds {
        let run = || Run::new(seed).finish(&mut tally);
        let run = std::panic::AssertUnwindSafe(run);
        if let Err(panic) = std::panic::catch_unwind(run) {
            keep(seed);
            std::panic::resume_unwind(panic);
        }
    }
    println!("{} seeds: {tally:?}", seeds.len());
    if seeds.len() >= SEEDS as usize {
        let Tally {
            met,
            ended,
            halves_ended,
            lies,
            full,
            ..
        } = tally;
        let all = [met, ended, halves_ended, lies, full];
        assert!(all.iter().all(|&count| count >= 5), "{tally:?}");
    }
}
