//! Two endpoints in virtual time, each with a user that follows a plan, over a path with faults.
//! The harness checks the invariants at every step of a run.

use crate::user::{Plan, User};
use engine::{
    Address, Associations, Batch, CloseReason, Counters, Deliveries, Event, Instant, PathError,
    PathFault, Protocol, Received, SplitMix64,
};
use engine_xtp::config::Holdings;
use engine_xtp::pdu::v3::{BodyV3, HeaderV3, PacketV3};
use engine_xtp::pdu::{Body, Header, Packet, SyncNumber, Version};
use engine_xtp::{Config, Xtp};
use link::{Link, LinkConfig};
use std::collections::BTreeMap;
use std::ops::Range;

/// A millisecond in picoseconds.
pub const MS: u64 = 1_000_000_000;

/// Octets of framing around a packet: 14 Ethernet, 20 IPv4, 8 UDP, 4 frame check sequence.
const FRAME_OVERHEAD: usize = 46;

/// A link of 100 Mbit/s with a delay of a millisecond and no faults.
pub fn clean() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: MS,
        ..LinkConfig::default()
    }
}

/// Both directions of the path between the stations.
#[derive(Clone, Debug)]
pub struct Path {
    pub link: LinkConfig,
    /// When no packet arrives.
    pub partition_ps: Range<u64>,
    /// Packets in a million that are duplicated, with the copy delayed by `delayed_copy_ps`.
    pub delayed_copy_ppm: u64,
    pub delayed_copy_ps: u64,
    /// Packets in a batch at most.
    pub segments_max: usize,
    /// How the path becomes narrow, if it does.
    pub narrows: Option<Narrowing>,
}

/// From some time on a path carries no longer packets.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing {
    pub at_ps: u64,
    pub mtu: usize,
    /// The host says so of each packet that is too long; else it is a black hole.
    pub is_notified: bool,
}

impl From<LinkConfig> for Path {
    fn from(link: LinkConfig) -> Path {
        Path {
            link,
            partition_ps: 0..0,
            delayed_copy_ppm: 0,
            delayed_copy_ps: 0,
            segments_max: 1,
            narrows: None,
        }
    }
}

/// A packet entering a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    pub at_ps: u64,
    pub from: usize,
    pub packet: Vec<u8>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What each side's user received.
    pub received: [Vec<Vec<u8>>; 2],
    /// Gaps reported to each side's user.
    pub gaps: [u64; 2],
    /// Which messages of each side's user began with a tag.
    pub tagged: [Vec<bool>; 2],
    /// Which of them ended with one.
    pub end_tagged: [Vec<bool>; 2],
    /// Why each side's association ended.
    pub closed: [Option<CloseReason>; 2],
    pub finished: [bool; 2],
    pub counters: [Counters; 2],
    pub holdings: [Holdings; 2],
    /// Packets corrupted by the links.
    pub damaged: u64,
    pub trace: Vec<TraceLine>,
    pub end_ps: u64,
}

impl Outcome {
    /// Both ends closed as their users asked, and hold nothing.
    #[track_caller]
    pub fn assert_ended(&self, run: &str) {
        assert_eq!(self.closed, [Some(CloseReason::Graceful); 2], "{run}");
        assert_eq!(self.holdings, [Holdings::default(); 2], "{run}");
    }
}

enum NetEvent {
    Arrival(usize, Vec<u8>),
    /// The pause of a user is over.
    Wake(usize),
}

struct PairSim {
    engines: [Xtp; 2],
    users: [User; 2],
    links: [Link; 2],
    path: Path,
    version: Version,
    seed: u64,
    queue: BTreeMap<(u64, u64), NetEvent>,
    made: u64,
    now_ps: u64,
    damaged: u64,
    trace: Vec<TraceLine>,
}

/// Packets one side may send at one instant; more means an endless loop.
const BURST_MAX: usize = 100_000;

/// Runs one association from station 0 to station 1 until no event is left.
pub fn run(configs: [Config; 2], plans: [Plan; 2], path: impl Into<Path>, seed: u64) -> Outcome {
    let path = path.into();
    let mut users = [0, 1].map(|side| User::new(&plans[side], &configs[side]));
    let version = configs[0].version;
    let mut engines = configs.map(Xtp::new);
    engines[1].listen(true);
    let id = engines[0].connect(Instant::ZERO, &[Address::Station(1)]);
    users[0].attach(id.expect("room for one"));
    let links = [0, 1].map(|side| Link::new(path.link, seed, side));
    let mut world = PairSim {
        engines,
        users,
        links,
        path,
        version,
        seed,
        queue: BTreeMap::new(),
        made: 0,
        now_ps: 0,
        damaged: 0,
        trace: Vec::new(),
    };
    let long = 300_000 * MS;
    let mut before = (0, 0);
    while world.step() {
        before = match before {
            (at, steps) if at == world.now_ps => (at, steps + 1),
            _ => (world.now_ps, 0),
        };
        let log = || packet_log(&world.trace[world.trace.len().saturating_sub(40)..]);
        assert!(
            before.1 < BURST_MAX,
            "seed {seed}: time does not advance:\n{}",
            log()
        );
        let log = || packet_log(&world.trace[world.trace.len().saturating_sub(400)..]);
        assert!(world.now_ps < long, "seed {seed} never ends:\n{}", log());
    }
    world.outcome()
}

impl PairSim {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// Serves both sides, then advances time to the next event. False if no event is left.
    fn step(&mut self) -> bool {
        for side in [0, 1] {
            self.serve(side);
        }
        let deadlines = self
            .engines
            .iter()
            .filter_map(|engine| engine.poll_timeout());
        let next = deadlines
            .map(|at| at.as_nanos() * 1000)
            .chain(self.queue.keys().next().map(|&(at, _)| at))
            .min();
        let Some(next) = next else {
            return false;
        };
        self.now_ps = self.now_ps.max(next);
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > self.now_ps {
                break;
            }
            match entry.remove() {
                NetEvent::Arrival(to, packet) => self.arrive(to, &packet),
                NetEvent::Wake(side) => self.users[side].wake(),
            }
        }
        for side in [0, 1] {
            self.handle_timeout(side);
        }
        true
    }

    fn handle_timeout(&mut self, side: usize) {
        let now = self.now();
        let engine = &mut self.engines[side];
        if engine.poll_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now);
            let next = engine.poll_timeout();
            assert!(
                next.is_none_or(|at| at > now),
                "an expired timer stays armed"
            );
        }
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        let now = self.now();
        let mut deliveries = Deliveries::default();
        let from = Address::Station(1 - to as u32);
        self.engines[to].handle_packet(now, Received::new(from, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            self.users[to].deliver(delivery, packet);
        }
        self.take_events(to);
    }

    fn take_events(&mut self, side: usize) {
        while let Some(event) = self.engines[side].poll_event() {
            if let Event::Accepted(id, from) = event {
                assert_eq!(from, Address::Station(1 - side as u32));
                self.users[side].attach(id);
            }
            self.users[side].handle_event(event);
        }
    }

    /// Serves the user and the wire of one side until both are idle.
    fn serve(&mut self, side: usize) {
        let now = self.now();
        self.take_events(side);
        if let Some(pause_ps) = self.users[side].act(now, &mut self.engines[side]) {
            self.push(self.now_ps + pause_ps, NetEvent::Wake(side));
        }
        let mut sent = 0;
        loop {
            let mut batch = Batch::new(self.path.segments_max);
            self.engines[side].poll_transmit(now, &mut batch);
            if batch.is_empty() {
                break;
            }
            sent += batch.packets().len();
            assert!(sent < BURST_MAX, "endless transmission");
            for packet in self.users[side].gather(&batch) {
                self.carry(side, packet);
            }
            self.take_events(side);
        }
        self.take_events(side);
    }

    fn push(&mut self, at_ps: u64, event: NetEvent) {
        self.made += 1;
        self.queue.insert((at_ps, self.made), event);
    }

    /// Sends a packet over the link out of `side`.
    fn carry(&mut self, side: usize, mut packet: Vec<u8>) {
        let whole = match self.version {
            Version::V40 => Packet::parse(&packet).map(|_| ()),
            version => PacketV3::parse(version, &packet).map(|_| ()),
        };
        assert_eq!(whole, Ok(()), "a malformed packet was built");
        self.trace.push(TraceLine {
            at_ps: self.now_ps,
            from: side,
            packet: packet.clone(),
        });
        if self.is_too_long(side, packet.len()) {
            return;
        }
        let index = self.trace.len() as u64;
        let verdict = self.links[side].offer(self.now_ps, packet.len() + FRAME_OVERHEAD);
        if let Some(bit) = verdict.corrupt_bit
            && let Some(octet) = packet.get_mut((bit / 8) as usize)
        {
            *octet ^= 1 << (bit % 8);
            self.damaged += 1;
        }
        let delayed = SplitMix64::at(self.seed, index) % 1_000_000 < self.path.delayed_copy_ppm;
        let delayed_copy_ps = verdict.arrival_ps.filter(|_| delayed);
        let delayed_copy_ps = delayed_copy_ps.map(|at| at + self.path.delayed_copy_ps);
        let copies = [verdict.arrival_ps, verdict.copy_ps, delayed_copy_ps];
        for at_ps in copies.into_iter().flatten() {
            if !self.path.partition_ps.contains(&at_ps) {
                self.push(at_ps, NetEvent::Arrival(1 - side, packet.clone()));
            }
        }
    }

    /// Whether the path does not carry a packet of this length, which the host may say.
    fn is_too_long(&mut self, side: usize, len: usize) -> bool {
        let Some(narrowing) = self.path.narrows else {
            return false;
        };
        let is_too_long = self.now_ps >= narrowing.at_ps && len > narrowing.mtu;
        if is_too_long && narrowing.is_notified {
            let fault = PathFault {
                path: Address::Station(1 - side as u32).into(),
                error: PathError::TooBig(narrowing.mtu as u16),
                quoted: &[],
            };
            let now = self.now();
            self.engines[side].handle_path_error(now, fault);
        }
        is_too_long
    }

    fn outcome(self) -> Outcome {
        let each = |of: &dyn Fn(&User) -> bool| self.users.each_ref().map(of);
        Outcome {
            finished: each(&|user| user.peer_finished),
            closed: self.users.each_ref().map(|user| user.closed),
            gaps: self.users.each_ref().map(|user| user.gaps),
            counters: self.engines.each_ref().map(|engine| engine.counters()),
            holdings: self.engines.each_ref().map(|engine| engine.holdings()),
            damaged: self.damaged,
            trace: self.trace,
            tagged: self.users.each_ref().map(|user| user.tagged.clone()),
            end_tagged: self.users.each_ref().map(|user| user.end_tagged.clone()),
            received: self.users.map(|user| user.received),
            end_ps: self.now_ps,
        }
    }
}

/// The configuration of both sides, with different seeds.
pub fn both(config: &Config, seed: u64) -> [Config; 2] {
    [0, 1].map(|side| Config {
        seed: seed * 2 + side,
        ..config.clone()
    })
}

/// `count` messages with lengths around all packet boundaries.
pub fn messages(random: &mut SplitMix64, count: usize) -> Vec<Vec<u8>> {
    let lengths = [1, 64, 1384, 1416, 1439, 1440, 1441, 5000];
    let message = |index: usize, random: &mut SplitMix64| {
        let len = lengths[random.below(8) as usize];
        (0..len).map(|at| (index * 31 + at) as u8).collect()
    };
    (0..count).map(|index| message(index, random)).collect()
}

/// The octets of all messages, concatenated.
pub fn joined(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.concat()
}

/// A 3.x packet as a line of the log.
fn log_v3_packet(line: &TraceLine) -> String {
    let known = [Version::V33, Version::V35, Version::V36];
    let mut parsed = known.map(|version| PacketV3::parse(version, &line.packet).ok());
    let us = line.at_ps / 1_000_000;
    match parsed.iter_mut().find_map(Option::take) {
        Some(PacketV3 { header, body }) => {
            let details = match body {
                BodyV3::Cntl(control, pairs) => {
                    let pairs: Vec<_> = pairs.iter().collect();
                    format!("{control:?} {pairs:?}")
                }
                _ => format!("{} bytes", header.dlen),
            };
            let HeaderV3 {
                kind,
                options,
                key,
                route,
                seq,
                dseq,
                sync: SyncNumber(sync),
                ..
            } = header;
            format!(
                "{us:>9} us {}: {kind:?} {options} key {key:x} route {route:x} seq {seq} dseq {dseq} sync {sync:x} {details}\n",
                line.from
            )
        }
        None => format!("{us:>9} us {}: unreadable\n", line.from),
    }
}

/// The packets of a run as text, for the message of a failed assertion.
pub fn packet_log(trace: &[TraceLine]) -> String {
    let line = |line: &TraceLine| {
        let Ok(packet) = Packet::parse(&line.packet) else {
            return log_v3_packet(line);
        };
        let (us, header) = (line.at_ps / 1_000_000, packet.header);
        let report = match packet.body {
            Body::Cntl(common) | Body::Ecntl(common, _) | Body::Tcntl { common, .. } => {
                format!("{common:?}")
            }
            _ => format!("{} bytes", header.dlen),
        };
        let Header {
            format,
            options,
            seq,
            sync: SyncNumber(sync),
            ..
        } = header;
        let from = line.from;
        format!("{us:>9} us {from}: {format:?} {options} seq {seq} sync {sync:x} {report}\n")
    };
    trace.iter().map(line).collect()
}
