//! Any number of stations on a medium: the event loop.

mod air;
mod circuits;
mod packets;
mod processes;

use crate::cost::HostCost;
use crate::flow::{Flow, FlowReport, Target};
use crate::frames::Frames;
use crate::host::{Host, Process, StationReport};
use crate::medium::{Medium, MediumConfig};
use crate::queue::EventQueue;
use crate::store::Pattern;
use crate::traffic::{Receivers, Traffic};
use engine::{CommandError, Engine, Instant, SplitMix64};
use link::{EtherCounters, EtherTime, LinkConfig};

/// What does not belong to a single station.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// What joins the stations.
    pub medium: MediumConfig,
    /// What befalls arrivals at each receiver of an ether, independently.
    pub faults: Option<LinkConfig>,
    /// All random choices follow from it.
    pub seed: u64,
}

/// Something an observer may want to write down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation<'a> {
    /// When, ps.
    pub at_ps: u64,
    /// What happened.
    pub what: Happening,
    /// At which station.
    pub station: usize,
    /// Which station built the packet.
    pub from: usize,
    /// The packet; empty for a collision.
    pub packet: &'a [u8],
}

/// What can happen to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Its sender gave it to the network controller.
    Offered,
    /// It arrived.
    Arrived,
    /// It did not arrive.
    Lost,
    /// Its controller gave it up.
    Dropped,
    /// The station's transmission collided.
    Collided,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As many messages as wanted are settled, or all are and nothing is on its way.
    Complete,
    /// The time was up.
    TimeLimit,
    /// Nothing will ever happen again, and messages are left.
    Stuck,
}

/// Everything a run measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// How it ended.
    pub ending: Ending,
    /// Simulated time, ps.
    pub elapsed_ps: u64,
    /// Each circuit's traffic.
    pub flows: Vec<FlowReport>,
    /// Each station.
    pub stations: Vec<StationReport>,
    /// What happened on the ether, if there is one.
    pub ether: Option<(EtherCounters, EtherTime)>,
    /// Events worked off.
    pub events: u64,
}

/// Things that are due. At equal times the medium comes first, then these in the order in which
/// they were asked for.
#[derive(Clone, Copy, Debug)]
enum Due {
    Message { traffic: usize },
    Served { station: usize },
    Timer { station: usize },
    TimerServed { station: usize },
    Leave { tag: u64 },
}

type Observer = Box<dyn FnMut(&Observation<'_>)>;

struct Source {
    traffic: Traffic,
    random: SplitMix64,
    produced: u64,
    /// The flow from each sender to each receiver.
    flows: Vec<Vec<usize>>,
}

/// Stations on a medium, and their traffic.
pub struct Network<E> {
    hosts: Vec<Host<E>>,
    flows: Vec<Flow>,
    sources: Vec<Source>,
    medium: Medium,
    queue: EventQueue<Due>,
    frames: Frames,
    pattern: Pattern,
    now_ps: u64,
    seed: u64,
    events: u64,
    /// Messages produced but not settled, and patterns not done.
    unsettled: u64,
    unproduced: u64,
    settled: u64,
    observer: Option<Observer>,
    scratch: Vec<u8>,
}

impl<E: Engine> Network<E> {
    /// Joins `stations`, each an engine and the cost of its host's work. All of them listen.
    pub fn new(config: &NetworkConfig, stations: Vec<(E, HostCost)>) -> Network<E> {
        let medium = Medium::new(&config.medium, stations.len(), config.faults, config.seed);
        let hosts = stations.into_iter().map(|(mut engine, cost)| {
            engine.listen(true);
            Host::new(engine, cost)
        });
        Network {
            hosts: hosts.collect(),
            flows: Vec::new(),
            sources: Vec::new(),
            medium,
            queue: EventQueue::new(),
            frames: Frames::default(),
            pattern: Pattern::new(),
            now_ps: 0,
            seed: SplitMix64::at(config.seed, 0x7472_6166),
            events: 0,
            unsettled: 0,
            unproduced: 0,
            settled: 0,
            observer: None,
            scratch: Vec::new(),
        }
    }

    /// Calls `observer` for everything that happens to packets.
    pub fn observe(&mut self, observer: impl FnMut(&Observation<'_>) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// The time as engines see it.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// Adds a pattern of messages and opens the circuits it needs.
    ///
    /// # Errors
    ///
    /// The engine's, when it opens no more circuits.
    ///
    /// # Panics
    ///
    /// When the pattern names a station that does not exist.
    pub fn add_traffic(&mut self, traffic: Traffic) -> Result<(), CommandError> {
        let mut flows = Vec::new();
        for &sender in &traffic.senders {
            let targets: Vec<Target> = match &traffic.receivers {
                Receivers::All => vec![Target::All],
                Receivers::One(stations) => {
                    let others = stations.iter().filter(|&&station| station != sender);
                    others.map(|&station| Target::Station(station)).collect()
                }
            };
            let opened = targets.into_iter().map(|to| self.open(sender, to));
            flows.push(opened.collect::<Result<Vec<usize>, CommandError>>()?);
        }
        let index = self.sources.len();
        let mut random = SplitMix64::new(SplitMix64::at(self.seed, index as u64));
        if traffic.messages > 0 && flows.iter().any(|flows| !flows.is_empty()) {
            let first = traffic.start_ps + traffic.interarrival_ps.draw(&mut random);
            self.unproduced += 1;
            self.queue.push(first, 1, Due::Message { traffic: index });
        }
        self.sources.push(Source {
            traffic,
            random,
            produced: 0,
            flows,
        });
        Ok(())
    }

    /// Runs until everything is settled, or until `limit_ps`.
    pub fn run(&mut self, limit_ps: u64) -> Ending {
        self.run_until(limit_ps, u64::MAX)
    }

    /// Runs until `settled` messages are settled, everything is, or until `limit_ps`.
    pub fn run_until(&mut self, limit_ps: u64, settled: u64) -> Ending {
        for station in 0..self.hosts.len() {
            self.hosts[station].signal(Process::Sender);
            self.serve(station);
        }
        self.drain_medium();
        loop {
            if self.settled >= settled || self.is_complete() {
                return Ending::Complete;
            }
            let own = self.queue.next_time();
            let medium = self.medium.deadline();
            let next = own.into_iter().chain(medium).min();
            let Some(at_ps) = next.filter(|at_ps| *at_ps <= limit_ps) else {
                let ending = next.map_or(Ending::Stuck, |_| Ending::TimeLimit);
                self.now_ps = self.now_ps.max(if next.is_some() { limit_ps } else { 0 });
                return ending;
            };
            self.now_ps = at_ps;
            if medium == Some(at_ps) {
                self.medium.advance(at_ps);
            } else if let Some((_, due)) = self.queue.pop() {
                self.events += 1;
                self.work_off(due);
            }
            self.drain_medium();
        }
    }

    /// What was measured so far.
    pub fn report(&mut self, ending: Ending) -> NetworkReport {
        let now_ps = self.now_ps;
        let stations = self.hosts.iter_mut().map(|host| {
            host.note_controller(now_ps, 0);
            host.report.counters = host.engine.counters();
            host.report.clone()
        });
        let stations = stations.collect();
        NetworkReport {
            ending,
            elapsed_ps: now_ps,
            flows: self.flows.iter().map(|flow| flow.report.clone()).collect(),
            stations,
            ether: self
                .medium
                .ether()
                .map(|ether| (ether.counters(), ether.medium())),
            events: self.events + self.medium.work(),
        }
    }

    fn is_complete(&self) -> bool {
        self.unsettled == 0
            && self.unproduced == 0
            && self.frames.live() == 0
            && self.hosts.iter().all(Host::is_idle)
    }

    fn work_off(&mut self, due: Due) {
        match due {
            Due::Message { traffic } => self.produce(traffic),
            Due::Served { station } => {
                if let Some(process) = self.hosts[station].serving.take() {
                    self.finish(station, process);
                }
                self.serve(station);
            }
            Due::Timer { station } => self.ring(station),
            Due::TimerServed { station } => {
                self.hosts[station].signal(Process::Sender);
                self.serve(station);
            }
            Due::Leave { tag } => self.offer(tag),
        }
    }

    fn produce(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let random = &mut source.random;
        let sender = random.below(source.flows.len() as u64) as usize;
        let receiver = random.below(source.flows[sender].len() as u64) as usize;
        let length = source.traffic.length.draw(random);
        source.produced += 1;
        let more = source.produced < source.traffic.messages;
        if more {
            let next = self.now_ps + source.traffic.interarrival_ps.draw(random);
            self.queue.push(next, 1, Due::Message { traffic: index });
        } else {
            self.unproduced -= 1;
        }
        let Some(&flow) = source.flows[sender].get(receiver) else {
            return;
        };
        self.unsettled += 1;
        self.flows[flow].note_offered(self.now_ps, length);
        if self.flows[flow].connected {
            self.write(flow, length);
        } else {
            self.flows[flow].early.push_back(length);
        }
        self.serve(self.flows[flow].from);
    }
}
