//! Two endpoints in virtual time, each with a user that sends what it is given.
#![allow(dead_code, reason = "each test file uses a part")]

use driver::inbox::{Read, Reader};
use driver::sys::{Producer, ring};
use engine::{Address, CircuitId, CloseReason, Counters, Engine, Framing, SplitMix64};
use engine_xtp::api::Holdings;
use engine_xtp::{Config, Xtp};
use link::LinkConfig;
use sim::{TraceLine, World};
use std::collections::VecDeque;

/// A millisecond in picoseconds.
pub const MS: u64 = 1_000_000_000;

/// How many seeds to try: more than CI does when TOWPATH_SEEDS says so.
pub fn seeds(usual: u64) -> u64 {
    let asked = std::env::var("TOWPATH_SEEDS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A link of 100 Mbit/s with a delay of a millisecond and no faults.
pub fn clean() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: MS,
        ..LinkConfig::default()
    }
}

/// What one side does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What it sends, in order.
    pub sends: Vec<Vec<u8>>,
    /// It ends its direction only after the peer ended the other.
    pub answers: bool,
}

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    /// What each side's user received.
    pub received: [Vec<Vec<u8>>; 2],
    /// Why each side's circuit ended.
    pub closed: [Option<CloseReason>; 2],
    pub finished: [bool; 2],
    pub counters: [Counters; 2],
    pub holdings: [Holdings; 2],
    pub trace: Vec<TraceLine>,
    pub end_ps: u64,
}

struct User {
    id: Option<CircuitId>,
    producer: Option<Producer>,
    reader: Reader,
    framing: Framing,
    plan: VecDeque<Vec<u8>>,
    answers: bool,
    done: bool,
    received: Vec<Vec<u8>>,
}

impl User {
    fn new(plan: &Plan, framing: Framing) -> User {
        User {
            id: None,
            producer: None,
            reader: Reader::new(framing),
            framing,
            plan: plan.sends.iter().cloned().collect(),
            answers: plan.answers,
            done: false,
            received: Vec::new(),
        }
    }

    fn attach(&mut self, world: &mut World<Xtp>, station: usize, id: CircuitId) {
        let layout = world.pump(station).engine().layout();
        let (producer, consumer) = ring(layout, 512 << 10);
        world.pump(station).attach(id, consumer);
        self.id = Some(id);
        self.producer = Some(producer);
    }

    fn act(&mut self, world: &mut World<Xtp>, station: usize) {
        if self.id.is_none()
            && let Some((id, _)) = world.pump(station).accept()
        {
            self.attach(world, station, id);
        }
        if let Some(id) = self.id {
            self.take(world, station, id);
        }
        let (Some(id), Some(producer)) = (self.id, self.producer.as_mut()) else {
            return;
        };
        while let Some(bytes) = self.plan.front() {
            let taken = match self.framing {
                Framing::Messages => producer.append_message(bytes),
                _ => producer.append_bytes(bytes),
            };
            if !taken {
                break;
            }
            self.plan.pop_front();
        }
        let peer_done = world.pump(station).status(id).finished;
        if self.plan.is_empty() && !self.done && (peer_done || !self.answers) {
            let now = world.now();
            let end = producer.position();
            // The store is told of message ends by a transmission; a finish comes after it.
            let _ = world.pump(station).transmit(now, true);
            world.pump(station).engine().extend(now, id, end, true);
            world.pump(station).engine().finish(now, id);
            self.done = true;
        }
    }

    fn take(&mut self, world: &mut World<Xtp>, station: usize, id: CircuitId) {
        let mut buffer = vec![0; 64 << 10];
        while let Some(chunk) = world.pump(station).take(id) {
            self.reader.put(chunk);
            while let Read::Message(len) = self.reader.next(&mut buffer) {
                self.received.push(buffer[..len].to_vec());
            }
            let spent = self.reader.take_spent().expect("the chunk just put");
            let now = world.now();
            world.pump(station).give_back(now, id, spent);
        }
    }
}

/// Runs one circuit from station 0 to station 1 until nothing happens any more.
pub fn run(configs: [Config; 2], plans: [Plan; 2], link: LinkConfig, seed: u64) -> Outcome {
    let framings = configs.each_ref().map(|config| config.framing);
    let mut world = World::new(configs.map(Xtp::new), link, seed);
    world.pump(1).engine().listen(true);
    let mut users = [0, 1].map(|side| User::new(&plans[side], framings[side]));
    let now = world.now();
    let id = world.pump(0).engine().connect(now, Address::Station(1));
    users[0].attach(&mut world, 0, id.expect("room for one"));
    let hour = 3_600_000 * MS;
    users[0].act(&mut world, 0);
    while world.step(hour).expect("a simulated wire does not fail") {
        users[0].act(&mut world, 0);
        users[1].act(&mut world, 1);
    }
    outcome(world, users)
}

fn outcome(mut world: World<Xtp>, users: [User; 2]) -> Outcome {
    let end_ps = world.now().as_nanos() * 1000;
    let status = [0, 1].map(|side| {
        let id = users[side].id.unwrap_or(CircuitId(0));
        world.pump(side).status(id)
    });
    Outcome {
        closed: status.map(|status| status.closed),
        finished: status.map(|status| status.finished),
        counters: [0, 1].map(|side| world.pump(side).engine().counters()),
        holdings: [0, 1].map(|side| world.pump(side).engine().holdings()),
        trace: world.trace().to_vec(),
        received: users.map(|user| user.received),
        end_ps,
    }
}

/// Configurations of both sides that differ in their seed.
pub fn both(config: &Config, seed: u64) -> [Config; 2] {
    [0, 1].map(|side| Config {
        seed: seed * 2 + side,
        ..config.clone()
    })
}

/// `count` messages of lengths that meet every border.
pub fn messages(random: &mut SplitMix64, count: usize) -> Vec<Vec<u8>> {
    let lengths = [1, 64, 1384, 1416, 1439, 1440, 1441, 5000];
    let message = |index: usize, random: &mut SplitMix64| {
        let len = lengths[random.below(8) as usize];
        (0..len).map(|at| (index * 31 + at) as u8).collect()
    };
    (0..count).map(|index| message(index, random)).collect()
}

/// The octets of all messages in a row.
pub fn joined(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.concat()
}
