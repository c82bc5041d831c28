//! Stations on a medium: the event loop.

mod adapters;
mod air;
mod callings;
mod calls;
mod circuits;
mod disturbances;
mod layers;
mod packets;
mod processes;
mod rings;
mod sources;

use crate::cost::HostCost;
use crate::disturbance::Disturbance;
use crate::flow::{Flow, FlowReport};
use crate::frames::FrameTable;
use crate::host::{Host, Process, StationReport};
use crate::medium::{Medium, MediumConfig};
use crate::node::Node;
use crate::shortcut::{Pair, Shortcuts};
use crate::store::BytePattern;
use engine::{Batch, Deliveries, Instant, SplitMix64, TransactionId};
use link::{EtherCounters, EtherTime, EventQueue, LinkConfig};
use sources::{TrafficSource, UnsentSource};
use std::rc::Rc;

/// What does not belong to a single station.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// The medium between the stations.
    pub medium: MediumConfig,
    /// Faults of arrivals at each receiver of an ether, independent of each other.
    pub faults: Option<LinkConfig>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// A packet event, as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation<'a> {
    /// When, ps.
    pub at_ps: u64,
    /// What happened.
    pub event: PacketEvent,
    /// At which station.
    pub station: usize,
    /// Which station built the packet.
    pub from: usize,
    /// The path it is sent by.
    pub path: u16,
    /// It goes through a ring of its host, not over the medium.
    pub by_ring: bool,
    /// The packet; empty for a collision, and for rings.
    pub packet: &'a [u8],
}

/// What can happen to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// Its sender gave it to the network controller.
    Offered,
    /// It arrived.
    Arrived,
    /// It did not arrive.
    Lost,
    /// Its controller dropped it.
    Dropped,
    /// Its controller passed it by: it is for a group of which no user of the station is a member.
    Filtered,
    /// The station's transmission collided.
    Collided,
    /// Packets between the stations `station` and `from` go through rings from now on.
    RingsBegan,
    /// They go over the medium again.
    RingsEnded,
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// As many messages as wanted are settled, or all are and nothing is in flight.
    Complete,
    /// The time limit was reached.
    TimeLimit,
    /// No event is scheduled, and messages are left.
    Stuck,
    /// It took more steps than allowed.
    Exhausted,
}

/// Everything a run measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkReport {
    /// Why it stopped.
    pub ending: StopReason,
    /// Simulated time, ps.
    pub elapsed_ps: u64,
    /// Each circuit's traffic.
    pub flows: Vec<FlowReport>,
    /// Each station.
    pub stations: Vec<StationReport>,
    /// Counters of the first path's ether, if it is one.
    pub ether: Option<(EtherCounters, EtherTime)>,
    /// Events handled.
    pub events: u64,
}

/// Scheduled events. At equal times the medium's come first, then these in the order in which they
/// were scheduled.
#[derive(Clone, Copy, Debug)]
enum ScheduledEvent {
    MessageProduced {
        traffic: usize,
    },
    UnsentWritten {
        source: usize,
    },
    ServiceDone {
        station: usize,
    },
    TimerExpired {
        station: usize,
    },
    TimerServiceDone {
        station: usize,
    },
    PacketDeparture {
        tag: u64,
    },
    AdapterTimer {
        station: usize,
        fills: u64,
    },
    Disturbance {
        index: usize,
    },
    Reopen {
        flow: usize,
    },
    RingsMet {
        stations: Pair,
        life: u32,
    },
    RingArrival {
        tag: u64,
        to: usize,
        life: u32,
    },
    RequestServed {
        station: usize,
        transaction: TransactionId,
    },
    CollectingDone {
        station: usize,
        transaction: TransactionId,
    },
}

type ObserverFn = Box<dyn FnMut(&Observation<'_>)>;

/// Called with the time, ps, and the number of settled messages.
type ProgressListener = Box<dyn FnMut(u64, u64)>;

/// Paths a network may have. The clock looks at each medium at every step; hosts have a handful of
/// addresses.
pub const PATHS_MAX: usize = 16;

/// Steps of the event loop between two calls of a listener: some 10 ms.
const PROGRESS_EVERY_STEPS: u64 = 1 << 15;

/// Stations on a medium, and their traffic.
pub struct Network {
    hosts: Vec<Host>,
    flows: Vec<Flow>,
    /// The flow of the packet that a receiver handles.
    arriving_flow: Option<usize>,
    sources: Vec<TrafficSource>,
    unsent: Vec<UnsentSource>,
    disturbances: Vec<Option<Disturbance>>,
    reopened: u64,
    /// One a path; at least one.
    media: Vec<Medium>,
    /// Of each path and station a bit for each partition it is in; frames pass between stations with equal bits.
    partitions: Vec<Vec<u64>>,
    /// Octets of the longest packet that links carry in one piece; None for any.
    path_mtu: Option<usize>,
    shortcuts: Shortcuts,
    queue: EventQueue<ScheduledEvent>,
    frames: FrameTable,
    /// The packet that an engine builds, and what one brings, until they are queued: never more than one station's.
    batch: Batch,
    deliveries: Deliveries,
    pattern: BytePattern,
    now_ps: u64,
    seed: u64,
    seed_of_paths: u64,
    events: u64,
    /// Messages produced but not settled, and patterns not finished.
    unsettled: u64,
    unfinished_sources: u64,
    settled: u64,
    observer: Option<ObserverFn>,
    listener: Option<ProgressListener>,
    started: bool,
    steps_max: u64,
}

impl Network {
    /// A network of `stations`, each an engine and the cost of its host's work. All of them listen.
    pub fn new(config: &NetworkConfig, stations: Vec<(Node, HostCost)>) -> Network {
        let count = stations.len();
        let mut medium = Medium::new(&config.medium, count, config.faults, config.seed);
        for (station, (_, cost)) in stations.iter().enumerate() {
            medium.set_cut_through(station, cost.cut_through);
        }
        let mut shared = Rc::new(HostCost::FREE);
        let hosts = stations.into_iter().enumerate();
        let hosts = hosts.map(|(station, (mut engine, cost))| {
            if let Some(users) = engine.users_mut() {
                users.listen(true);
            }
            calls::create_entity(&mut engine, station);
            if *shared != cost {
                shared = Rc::new(cost);
            }
            Host::new(engine, Rc::clone(&shared))
        });
        Network {
            hosts: hosts.collect(),
            flows: Vec::new(),
            arriving_flow: None,
            sources: Vec::new(),
            unsent: Vec::new(),
            disturbances: Vec::new(),
            reopened: 0,
            media: vec![medium],
            partitions: vec![vec![0; count]],
            path_mtu: None,
            shortcuts: Shortcuts::default(),
            queue: EventQueue::new(),
            frames: FrameTable::default(),
            batch: Batch::new(1),
            deliveries: Deliveries::default(),
            pattern: BytePattern::new(),
            now_ps: 0,
            seed: SplitMix64::at(config.seed, 0x7472_6166),
            seed_of_paths: SplitMix64::at(config.seed, 0x7061_7468),
            events: 0,
            unsettled: 0,
            unfinished_sources: 0,
            settled: 0,
            observer: None,
            listener: None,
            started: false,
            steps_max: u64::MAX,
        }
    }

    /// Adds a path: another medium beside those there are, with its own random choices. Each station
    /// has one more address, [`engine::LocalAddress`] with the path's number, which is returned.
    ///
    /// # Panics
    ///
    /// When there are [`PATHS_MAX`] already.
    pub fn add_path(&mut self, medium: &MediumConfig, faults: Option<LinkConfig>) -> usize {
        let path = self.media.len();
        assert!(path < PATHS_MAX, "more than {PATHS_MAX} paths");
        let seed = SplitMix64::at(self.seed_of_paths, path as u64);
        let mut medium = Medium::new(medium, self.hosts.len(), faults, seed);
        for (station, host) in self.hosts.iter().enumerate() {
            medium.set_cut_through(station, host.cost.cut_through);
        }
        self.partitions.push(vec![0; self.hosts.len()]);
        self.media.push(medium);
        path
    }

    /// Calls `observer` for every packet event.
    pub fn observe(&mut self, observer: impl FnMut(&Observation<'_>) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// Calls `listener` now and then with the time, ps, and the messages settled so far.
    pub fn on_progress(&mut self, listener: impl FnMut(u64, u64) + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// Stops runs after `steps` steps of the event loop.
    pub fn limit_steps(&mut self, steps: u64) {
        self.steps_max = steps;
    }

    /// The simulated time, as engines with an exact clock see it.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// Runs until everything is settled, or until `limit_ps`.
    pub fn run(&mut self, limit_ps: u64) -> StopReason {
        self.run_until(limit_ps, u64::MAX)
    }

    /// Runs until `settled` messages are settled, everything is, or until `limit_ps`.
    pub fn run_until(&mut self, limit_ps: u64, settled: u64) -> StopReason {
        self.start_processes();
        let mut step = 0u64;
        loop {
            step += 1;
            if step.is_multiple_of(PROGRESS_EVERY_STEPS)
                && let Some(listener) = &mut self.listener
            {
                listener(self.now_ps, self.settled);
            }
            if step > self.steps_max {
                return StopReason::Exhausted;
            }
            if self.settled >= settled || self.is_complete() {
                return StopReason::Complete;
            }
            let own = self.queue.next_time();
            let medium = self.media_deadline();
            let next = engine::time::earlier(own, medium);
            let Some(at_ps) = next.filter(|at_ps| *at_ps <= limit_ps) else {
                let ending = next.map_or(StopReason::Stuck, |_| StopReason::TimeLimit);
                self.now_ps = self.now_ps.max(if next.is_some() { limit_ps } else { 0 });
                return ending;
            };
            self.now_ps = at_ps;
            if medium == Some(at_ps) {
                self.advance_media(at_ps);
            } else if let Some((_, due)) = self.queue.pop() {
                self.events += u64::from(self.handle_event(due));
            }
            self.drain_media();
        }
    }

    /// When a medium wants to act next; nearly always there is one.
    #[inline]
    fn media_deadline(&self) -> Option<u64> {
        match &self.media[..] {
            [only] => only.deadline(),
            several => several.iter().filter_map(Medium::deadline).min(),
        }
    }

    /// Runs the media whose deadline is `at_ps`.
    #[inline]
    fn advance_media(&mut self, at_ps: u64) {
        match &mut self.media[..] {
            [only] => only.advance(at_ps),
            several => {
                let due = |medium: &&mut Medium| medium.deadline() == Some(at_ps);
                several
                    .iter_mut()
                    .filter(due)
                    .for_each(|medium| medium.advance(at_ps));
            }
        }
    }

    fn start_processes(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        for station in 0..self.hosts.len() {
            self.hosts[station].signal(Process::Sender);
            self.run_processes(station);
        }
        self.drain_media();
    }

    /// The measurements so far.
    pub fn report(&mut self, ending: StopReason) -> NetworkReport {
        let now_ps = self.now_ps;
        let stations = self.hosts.iter_mut().map(|host| {
            host.change_controller_queue(now_ps, 0);
            StationReport {
                counters: host.counters(),
                adapter: host
                    .adapter
                    .as_ref()
                    .map_or_else(Default::default, |chip| chip.report),
                ..host.report()
            }
        });
        let stations = stations.collect();
        NetworkReport {
            ending,
            elapsed_ps: now_ps,
            flows: self.flows.iter().map(|flow| flow.report.clone()).collect(),
            stations,
            ether: self.media[0].shared(now_ps),
            events: self.events + self.media.iter().map(Medium::events_handled).sum::<u64>(),
        }
    }

    fn is_complete(&self) -> bool {
        self.unsettled == 0
            && self.unfinished_sources == 0
            && self.frames.in_flight() == 0
            && self.hosts.iter().all(Host::is_idle)
    }

    /// Handles an event; false if it was stale.
    fn handle_event(&mut self, due: ScheduledEvent) -> bool {
        match due {
            ScheduledEvent::MessageProduced { traffic } => self.produce_message(traffic),
            ScheduledEvent::UnsentWritten { source } => self.write_unsent(source),
            ScheduledEvent::ServiceDone { station } => {
                // A crash cancels a service, but not its event.
                let now_ps = self.now_ps;
                let host = &mut self.hosts[station];
                let done = host.in_service.take_if(|(_, done)| *done == now_ps);
                let Some((process, _)) = done else {
                    return false;
                };
                self.finish_service(station, process);
                self.run_processes(station);
            }
            ScheduledEvent::TimerExpired { station } => return self.handle_timer(station),
            ScheduledEvent::TimerServiceDone { station } => {
                self.hosts[station].signal(Process::Sender);
                self.run_processes(station);
            }
            ScheduledEvent::PacketDeparture { tag } => self.offer_to_controller(tag),
            ScheduledEvent::AdapterTimer { station, fills } => {
                return self.handle_adapter_timer(station, fills);
            }
            ScheduledEvent::Disturbance { index } => self.apply_disturbance(index),
            ScheduledEvent::Reopen { flow } => self.reopen_flow(flow),
            ScheduledEvent::RingsMet { stations, life } => {
                return self.join_rings(stations, life);
            }
            ScheduledEvent::RingArrival { tag, to, life } => self.arrive_by_ring(tag, to, life),
            ScheduledEvent::RequestServed {
                station,
                transaction,
            } => return self.finish_serving(station, transaction),
            ScheduledEvent::CollectingDone {
                station,
                transaction,
            } => return self.finish_collecting(station, transaction),
        }
        true
    }
}
