//! One program of messages over the shortcut, over UDP, and in virtual time: the users of both ends get equal octets in
//! equal order, and each end's close after all of them.
//!
//! A program follows from a seed, and so does what each end has to get. Ends are compared by a hash of what they got.

use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::sys::{Producer, ring};
use engine::{Address, AssociationId, Associations, AssociationsExt, Framing, SplitMix64};
use engine_xtp::{Config, Xtp};
use link::LinkConfig;
use sim::World;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, Shortcut};

const LIMIT: Duration = Duration::from_secs(20);

/// Octets of messages: the least, lengths about a packet's and a ring slot's, and many packets.
const LENGTHS: [u64; 8] = [1, 7, 64, 65, 1431, 1473, 9000, 60_000];

/// Octets of a send store in virtual time: more than two of the longest message.
const STORE_LEN: usize = 256 << 10;

/// Simulated time of a run at most: 1000 s, ps.
const TIME_MAX_PS: u64 = 1_000_000_000_000_000;

/// What one end sends before it closes.
type Program = VecDeque<Vec<u8>>;

/// The programs of both ends. They differ in length, so that one direction is closed while the other goes on.
fn programs(seed: u64) -> [Program; 2] {
    [0, 1].map(|side| {
        let mut random = SplitMix64::new(SplitMix64::at(seed, side));
        let count = 5 + random.below(80);
        let message = |_| {
            let longest = LENGTHS[random.below(8) as usize];
            let len = longest - random.below(longest.min(9));
            (0..len).map(|_| random.next_u64() as u8).collect()
        };
        (0..count).map(message).collect()
    })
}

/// What the user of an end got: all octets in order, and each message's length where boundaries are kept.
struct Received {
    framing: Framing,
    octets: Vec<u8>,
    lengths: Vec<usize>,
    has_ended: bool,
}

impl Received {
    fn new(framing: Framing) -> Received {
        Received {
            framing,
            octets: Vec::new(),
            lengths: Vec::new(),
            has_ended: false,
        }
    }

    fn add(&mut self, octets: &[u8]) {
        assert!(!self.has_ended, "octets after the end");
        if self.framing == Framing::Messages {
            self.lengths.push(octets.len());
        }
        self.octets.extend_from_slice(octets);
    }

    fn result(&self) -> EndResult {
        let mut hasher = DefaultHasher::new();
        (&self.octets, &self.lengths).hash(&mut hasher);
        EndResult {
            hash: hasher.finish(),
            octets: self.octets.len(),
            has_ended: self.has_ended,
        }
    }

    /// What an end has to get whose peer sends `program`.
    fn of(program: &Program, framing: Framing) -> EndResult {
        let mut received = Received::new(framing);
        program.iter().for_each(|message| received.add(message));
        received.has_ended = true;
        received.result()
    }
}

/// What is compared of an end.
#[derive(Debug, PartialEq, Eq)]
struct EndResult {
    hash: u64,
    octets: usize,
    has_ended: bool,
}

/// What both ends got: the first got what the second sent.
type Results = [EndResult; 2];

fn expected([first, second]: &[Program; 2], framing: Framing) -> Results {
    [second, first].map(|program| Received::of(program, framing))
}

fn endpoint(shortcut: &Shortcut, framing: Framing) -> Endpoint {
    let config = EndpointConfig {
        shortcut: shortcut.clone(),
        ..EndpointConfig::default()
    };
    let local = "127.0.0.1:0".parse().expect("a literal address");
    match framing {
        Framing::Messages => Endpoint::bind_messages(local, &config),
        _ => Endpoint::bind(local, &config),
    }
    .expect("the loopback has a free port")
}

/// Sends and receives, whichever is possible, until both directions have ended.
fn run_end(mut circuit: Circuit, mut program: Program, framing: Framing) -> EndResult {
    let mut received = Received::new(framing);
    let mut buffer = vec![0; 64 << 10];
    let mut is_finished = false;
    while !(is_finished && received.has_ended) {
        let sent = program.front().map(|message| circuit.try_send(message));
        match sent {
            Some(Ok(())) => drop(program.pop_front()),
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            Some(Err(error)) => panic!("send: {error}"),
            None if is_finished => {}
            None => match circuit.finish() {
                Ok(()) => is_finished = true,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            },
        }
        if received.has_ended {
            continue;
        }
        match circuit.recv(&mut buffer, Duration::from_micros(100)) {
            Ok(Some(len)) => received.add(&buffer[..len]),
            Ok(None) => received.has_ended = true,
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "receive: {error}"),
        }
    }
    circuit.close(LIMIT).expect("the peer closes too");
    received.result()
}

/// Over sockets of the loopback; also the octets that the first end's ring took, if it has one.
fn over_sockets(
    shortcut: &Shortcut,
    [first, second]: [Program; 2],
    framing: Framing,
) -> (Results, Option<u64>) {
    let server = endpoint(shortcut, framing);
    server.listen(true);
    let to = server.local_addr();
    let client = endpoint(shortcut, framing);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let circuit = server.accept(LIMIT).expect("the client connects");
            run_end(circuit, second, framing)
        });
        let circuit = client.connect(to, LIMIT).expect("the server accepts");
        let near = run_end(circuit, first, framing);
        let far = serving.join().expect("it does not panic");
        let ring = client.rings().first().map(|ring| ring.octets_sent);
        ([near, far], ring)
    })
}

/// An end in virtual time.
struct VirtualEnd {
    id: AssociationId,
    producer: Producer,
    program: Program,
    is_finished: bool,
    reader: MessageReader,
    received: Received,
}

impl VirtualEnd {
    fn attach(
        (world, station): (&mut World<Xtp>, usize),
        id: AssociationId,
        program: Program,
        framing: Framing,
    ) -> VirtualEnd {
        let pump = world.pump(station);
        let layout = pump.engine().layout(Some(id));
        let (producer, consumer) = ring(layout, STORE_LEN);
        pump.attach(id, consumer);
        VirtualEnd {
            id,
            producer,
            program,
            is_finished: false,
            reader: MessageReader::new(framing),
            received: Received::new(framing),
        }
    }

    fn send(&mut self, world: &mut World<Xtp>, station: usize) {
        while let Some(message) = self.program.front() {
            let is_taken = match self.received.framing {
                Framing::Messages => self.producer.append_message(message),
                _ => self.producer.append_bytes(message),
            };
            if !is_taken {
                return;
            }
            self.program.pop_front();
        }
        if !std::mem::replace(&mut self.is_finished, true) {
            let now = world.now();
            world.pump(station).submit_pending(now, self.id, true);
            world.pump(station).engine().finish(now, self.id);
        }
    }

    fn receive(&mut self, world: &mut World<Xtp>, station: usize) {
        let mut buffer = vec![0; 64 << 10];
        while let Some(chunk) = world.pump(station).pop_chunk(self.id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                self.received.add(&buffer[..len]);
            }
            let now = world.now();
            let chunk = self.reader.take_consumed().expect("it was put");
            world.pump(station).consume(now, self.id, chunk);
        }
        self.received.has_ended = world.pump(station).status(self.id).finished;
    }
}

/// In virtual time, over links that lose, double and delay packets.
fn in_virtual_time(seed: u64, [first, second]: [Program; 2], framing: Framing) -> Results {
    let engines = [0, 1].map(|station| {
        Xtp::new(Config {
            seed: 2 * seed + station,
            framing,
            ..Config::default()
        })
    });
    let faults = LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: 1_000_000_000,
        reorder_ps: 1_000_000_000,
        loss_ppm: 5_000,
        duplicate_ppm: 5_000,
        reorder_ppm: 5_000,
        ..LinkConfig::default()
    };
    let mut world = World::new(engines, faults, seed);
    world.pump(1).engine().listen(true);
    let now = world.now();
    let opened = world.pump(0).engine().connect(now, &[Address::Station(1)]);
    let id = opened.expect("room for one");
    let mut near = VirtualEnd::attach((&mut world, 0), id, first, framing);
    let (mut far, mut waiting) = (None, Some(second));
    loop {
        near.send(&mut world, 0);
        let goes_on = world.step(TIME_MAX_PS).expect("a simulated wire");
        if let Some(program) = waiting.take_if(|_| world.pump(1).has_pending_accept()) {
            let (id, _) = world.pump(1).accept().expect("it is pending");
            far = Some(VirtualEnd::attach((&mut world, 1), id, program, framing));
        }
        near.receive(&mut world, 0);
        if let Some(far) = &mut far {
            far.receive(&mut world, 1);
            far.send(&mut world, 1);
            if near.received.has_ended && far.received.has_ended {
                return [near.received.result(), far.received.result()];
            }
        }
        assert!(goes_on, "seed {seed}: it does not end");
    }
}

/// Whether one program has the same result over all three, which is what it has to be; the octets through the ring.
fn is_equal_over_all(seed: u64, framing: Framing) -> Option<u64> {
    let programs = programs(seed);
    let expected = expected(&programs, framing);
    let (by_ring, ring) = over_sockets(&Shortcut::On, programs.clone(), framing);
    assert_eq!(by_ring, expected, "seed {seed}, {framing:?}: the shortcut");
    let (by_udp, none) = over_sockets(&Shortcut::Off, programs.clone(), framing);
    assert_eq!(by_udp, expected, "seed {seed}, {framing:?}: UDP");
    assert_eq!(none, None, "no ring");
    let virtual_time = in_virtual_time(seed, programs, framing);
    assert_eq!(
        virtual_time, expected,
        "seed {seed}, {framing:?}: virtual time"
    );
    ring
}

#[test]
fn user_octets_are_equal_over_shortcut_udp_and_virtual_time() {
    for framing in [Framing::Stream, Framing::Messages] {
        let through: u64 = (0..6)
            .filter_map(|seed| is_equal_over_all(seed, framing))
            .sum();
        // Six programs have some millions of octets; a ring that was not used would show nothing.
        assert!(through > 1_000_000, "{framing:?}: {through} through rings");
    }
}

/// What the comparison must find: an octet that is another, messages in another order, a boundary that moved.
#[test]
fn comparison_finds_a_changed_octet_an_order_and_a_boundary() {
    let original = programs(3);
    let expected = expected(&original, Framing::Messages);
    let changed: [fn(&mut Program); 3] = [
        |program| program[2][0] ^= 1,
        |program| program.swap(0, 1),
        |program| {
            let octet = program[1].pop().expect("no message is empty");
            program[2].insert(0, octet);
        },
    ];
    for change in changed {
        let mut faulty = original.clone();
        change(&mut faulty[0]);
        let [near, far] = in_virtual_time(3, faulty.clone(), Framing::Messages);
        assert_eq!(near, expected[0], "it got what was not changed");
        assert_ne!(far, expected[1], "virtual time");
        let ([near, far], _) = over_sockets(&Shortcut::On, faulty, Framing::Messages);
        assert_eq!(near, expected[0], "it got what was not changed");
        assert_ne!(far, expected[1], "the shortcut");
    }
}
