//! Two XTP endpoints in virtual time, with a tap on each wire.

use capture::{Recorder, Tap, ip};
use driver::Pump;
use driver::sys::{Producer, ring};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Framing, Instant, Path, Protocol,
    SplitMix64,
};
use engine_xtp::{Config, Xtp};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use wire::{Capabilities, MemoryMedium, MemoryWire};

/// Propagation delay of the wire.
pub const DELAY_NS: u64 = 1_000_003;

/// Packets a send may carry, as UDP segmentation has it.
const SEGMENTS: usize = 46;

/// Batches in flight: arrival time, octets, length of each packet.
type InFlight = Arc<Mutex<VecDeque<(u64, Vec<u8>, usize)>>>;

/// A wire that keeps segmented sends together, as the kernel does on the loopback, and loses whole
/// batches.
struct Batches {
    own: u32,
    clock: Arc<AtomicU64>,
    incoming: InFlight,
    outgoing: InFlight,
    loss_percent: u64,
    random: SplitMix64,
}

impl MemoryMedium for Batches {
    fn capabilities(&self) -> Capabilities {
        // A batch is lost whole, so a wire that loses carries short ones.
        let segments_max = if self.loss_percent > 0 { 2 } else { SEGMENTS };
        Capabilities {
            packet_max: 1472,
            segments_max,
            batch_bytes_max: 65_507,
            receive_len: 65_536,
        }
    }

    fn send(&mut self, _: Path, slices: &[IoSlice<'_>], size: usize) -> io::Result<()> {
        if self.random.below(100) < self.loss_percent {
            return Ok(());
        }
        let parts = slices.iter().flat_map(|slice| slice.iter().copied());
        let at = self.clock.load(Ordering::Relaxed) + DELAY_NS;
        let mut queue = self.outgoing.lock().expect("no panic");
        queue.push_back((at, parts.collect(), size));
        Ok(())
    }

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        let mut queue = self.incoming.lock().expect("no panic");
        let now = self.clock.load(Ordering::Relaxed);
        let (_, octets, segment_size) = queue.pop_front_if(|front| front.0 <= now)?;
        let from = Path::to(Address::Station(3 - self.own));
        Some((from, octets, segment_size))
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}
}

/// Configuration of a session.
#[derive(Clone, Debug)]
pub struct Script {
    pub name: &'static str,
    pub configs: [Config; 2],
    /// Messages of each side; the second side sends when the first has finished.
    pub sends: [Vec<Vec<u8>>; 2],
    pub loss_percent: u64,
    /// When virtual time begins, ns.
    pub start_ns: u64,
}

/// Results of a session.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes each side's user received.
    pub received: [u64; 2],
    pub retransmissions: u64,
    /// Packets and calls that sent them, of the first side.
    pub packets_built: u64,
    pub sends: u64,
}

/// Runs a session to the end of both sides.
pub fn run(script: &Script, recorder: &Recorder) -> Outcome {
    let mut session = Session::new(script, recorder);
    session.pumps[1].engine().listen(true);
    let now = session.now();
    let id = session.pumps[0]
        .engine()
        .connect(now, &[Address::Station(2)]);
    session.attach(0, id.expect("room for one"));
    session.act(0);
    while session.step() {
        if let Some((id, _)) = session.pumps[1].accept()
            && session.users[1].circuit.is_none()
        {
            session.attach(1, id);
        }
        session.act(0);
        session.act(1);
    }
    let counters = [0, 1].map(|side: usize| session.pumps[side].engine().counters());
    Outcome {
        received: session.users.each_ref().map(|user| user.received),
        retransmissions: counters.iter().map(|each| each.retransmissions).sum(),
        packets_built: counters[0].packets_built,
        sends: session.pumps[0].wire_calls().0,
    }
}

struct User {
    circuit: Option<(AssociationId, Producer)>,
    framing: Framing,
    sends: VecDeque<Vec<u8>>,
    done: bool,
    received: u64,
}

struct Session {
    pumps: [Pump<Xtp, Tap<MemoryWire<Batches>>>; 2],
    in_flight: [InFlight; 2],
    clock: Arc<AtomicU64>,
    users: [User; 2],
}

impl Session {
    fn new(script: &Script, recorder: &Recorder) -> Session {
        let clock = Arc::new(AtomicU64::new(script.start_ns));
        let in_flight = [InFlight::default(), InFlight::default()];
        let pumps = [0, 1].map(|side: usize| {
            let wire = MemoryWire(Batches {
                own: side as u32 + 1,
                clock: Arc::clone(&clock),
                incoming: Arc::clone(&in_flight[side]),
                outgoing: Arc::clone(&in_flight[1 - side]),
                loss_percent: script.loss_percent,
                random: SplitMix64::new(side as u64),
            });
            let stamp = Arc::clone(&clock);
            let stamp = Arc::new(move || stamp.load(Ordering::Relaxed));
            let own = Address::Station(wire.0.own);
            let name = format!("{} {}", script.name, wire.0.own);
            let tap = capture::tap(wire, recorder, &name, own, ip::XTP, stamp);
            Pump::new(Xtp::new(script.configs[side].clone()), tap.expect("room"))
        });
        let users = [0, 1].map(|side: usize| User {
            circuit: None,
            framing: script.configs[side].framing,
            sends: script.sends[side].iter().cloned().collect(),
            done: false,
            received: 0,
        });
        Session {
            pumps,
            in_flight,
            clock,
            users,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    fn attach(&mut self, side: usize, id: AssociationId) {
        let layout = self.pumps[side].engine().layout(None);
        let (producer, consumer) = ring(layout, 512 << 10);
        self.pumps[side].attach(id, consumer);
        self.users[side].circuit = Some((id, producer));
    }

    /// Advances to the next arrival or timeout; false when there is none.
    fn step(&mut self) -> bool {
        let now = self.now();
        for pump in &mut self.pumps {
            pump.submit_all_and_flush(now, true)
                .expect("this wire does not fail");
        }
        let arrivals = self.in_flight.iter().filter_map(|queue| {
            let queue = queue.lock().expect("no panic");
            queue.front().map(|front| front.0)
        });
        let deadlines = self.pumps.iter().filter_map(|pump| pump.poll_timeout());
        let next = arrivals.chain(deadlines.map(|at| at.as_nanos())).min();
        let Some(next) = next else {
            return false;
        };
        self.clock.fetch_max(next, Ordering::Relaxed);
        let now = self.now();
        for pump in &mut self.pumps {
            while pump.receive(now).expect("this wire does not fail") {}
            pump.handle_timeout(now);
        }
        true
    }

    /// Lets a user read what arrived and send its messages.
    fn act(&mut self, side: usize) {
        let now = self.now();
        let (user, pump) = (&mut self.users[side], &mut self.pumps[side]);
        let Some((id, producer)) = &mut user.circuit else {
            return;
        };
        let id = *id;
        while let Some(chunk) = pump.pop_chunk(id) {
            user.received += chunk.len();
            pump.consume(now, id, chunk);
        }
        if side == 1 && !pump.status(id).finished {
            return;
        }
        while let Some(bytes) = user.sends.front() {
            let taken = match user.framing {
                Framing::Messages => producer.append_message(bytes),
                _ => producer.append_bytes(bytes),
            };
            if !taken {
                break;
            }
            user.sends.pop_front();
        }
        if user.sends.is_empty() && !user.done {
            let end = producer.position();
            // The flush submits the ends of messages, which must precede the finish.
            pump.submit_all_and_flush(now, true)
                .expect("this wire does not fail");
            pump.engine().push(now, id, end);
            pump.engine().finish(now, id);
            user.done = true;
        }
    }
}
