//! Any number of stations on a medium: the event loop.

use crate::cost::HostCost;
use crate::flow::{Flow, FlowReport, Target, records_in};
use crate::frames::Frames;
use crate::host::{Arrived, GROUP, Host, Piece, Process, Reading, Role, StationReport, address};
use crate::medium::{Medium, MediumConfig, MediumEvent, Offered};
use crate::queue::EventQueue;
use crate::store::Pattern;
use crate::traffic::{Receivers, Traffic};
use engine::{
    Address, Bytes, CircuitId, CommandError, Delivery, Engine, Event, Framing, Instant, SplitMix64,
};
use link::{EtherCounters, EtherTime, EtherTo, LinkConfig};

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

    fn open(&mut self, from: usize, to: Target) -> Result<usize, CommandError> {
        let now = self.now();
        let index = self.flows.len();
        let host = &mut self.hosts[from];
        let (framing, layout) = (host.engine.framing(), host.engine.layout());
        let mut flow = Flow::new(from, framing, layout.payload);
        let circuit = host.engine.connect(now, address(to))?;
        flow.circuit = Some(circuit);
        host.circuits.insert(circuit, Role::Sends(index));
        match to {
            Target::Station(station) => {
                flow.add_receiver(station);
            }
            Target::All => {
                for station in (0..self.hosts.len()).filter(|&station| station != from) {
                    flow.add_receiver(station);
                }
            }
        }
        self.flows.push(flow);
        self.drain_events(from, now.as_nanos() * 1000);
        Ok(index)
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

    /// Hands a message to the writer, in pieces as long as a packet's payload.
    fn write(&mut self, flow: usize, length: u64) {
        let host = &mut self.hosts[self.flows[flow].from];
        let payload = host.engine.layout().payload as u64;
        let report = &self.flows[flow].report;
        let index = report.offered - 1 - self.flows[flow].early.len() as u64;
        let mut done = 0;
        loop {
            let len = (length - done).min(payload);
            host.writer.push_back(Piece {
                flow,
                len,
                first: done == 0,
                last: done + len == length,
                index,
            });
            done += len;
            if done == length {
                break;
            }
        }
        host.signal(Process::Writer);
    }

    /// Lets the main processor of `station` work until something takes time.
    fn serve(&mut self, station: usize) {
        while self.hosts[station].serving.is_none() {
            let Some(process) = self.hosts[station].next() else {
                break;
            };
            let service_ps = self.start(station, process);
            if service_ps == 0 {
                self.finish(station, process);
                continue;
            }
            let host = &mut self.hosts[station];
            host.report.busy_ps[process as usize] += service_ps;
            host.serving = Some(process);
            let due = Due::Served { station };
            self.queue.push(self.now_ps + service_ps, 0, due);
        }
        self.arm(station);
    }

    /// Begins a service: the engine gets its input now. Says how long the service takes.
    fn start(&mut self, station: usize, process: Process) -> u64 {
        let host = &self.hosts[station];
        match process {
            Process::Writer => host
                .writer
                .front()
                .map_or(0, |piece| host.cost.copying(piece.len)),
            Process::Reader => host.reader.front().map_or(0, |reading| match reading.user {
                0 => 0,
                user => host.cost.copying(user),
            }),
            Process::Sender => self.build(station),
            Process::Receiver => self.parse(station),
        }
    }

    /// Ends a service: its outputs leave now.
    fn finish(&mut self, station: usize, process: Process) {
        match process {
            Process::Writer => self.finish_writer(station),
            Process::Reader => self.finish_reader(station),
            Process::Sender => self.finish_sender(station),
            Process::Receiver => self.finish_receiver(station),
        }
    }

    fn finish_writer(&mut self, station: usize) {
        let now = self.now();
        let host = &mut self.hosts[station];
        let Some(piece) = host.writer.pop_front() else {
            return;
        };
        let flow = &mut self.flows[piece.flow];
        flow.store
            .append(&self.pattern, piece.len, piece.first, piece.last);
        let Some(circuit) = flow.circuit else {
            return;
        };
        // The protocol gets a message when all of it is copied.
        if piece.last {
            let end = flow.note_written(piece.index);
            if flow.framing == Framing::Messages {
                host.engine.end_message(circuit, end);
            }
            host.engine.extend(now, circuit, end, true);
            host.signal(Process::Sender);
        }
        if !host.writer.is_empty() {
            host.signal(Process::Writer);
        }
    }

    fn finish_reader(&mut self, station: usize) {
        let now = self.now();
        let host = &mut self.hosts[station];
        let Some(reading) = host.reader.pop_front() else {
            return;
        };
        if reading.stream > 0 {
            host.engine.consume(now, reading.circuit, reading.stream);
        }
        if let Some((flow, place)) = reading.of {
            self.flows[flow].note_read(self.now_ps, place, reading.user, reading.ends);
        }
        host.signal(Process::Sender);
        if !host.reader.is_empty() {
            host.signal(Process::Reader);
        }
    }

    /// The sender asks the engine for a packet.
    fn build(&mut self, station: usize) -> u64 {
        let now = self.now();
        let host = &mut self.hosts[station];
        let before = host.engine.counters();
        host.batch.clear();
        host.engine.transmit(now, &mut host.batch);
        let Some((circuit, destination)) = host.batch.destination() else {
            return 0;
        };
        if host.batch.is_empty() {
            return 0;
        }
        let to = match destination {
            GROUP => EtherTo::All,
            Address::Station(to) => EtherTo::Station(to as usize),
            Address::Socket(_) => EtherTo::Station(usize::MAX),
        };
        let tag = self.frames.add(station, to);
        self.scratch.clear();
        let payload = host.batch.segments()[0].payload.clone();
        if let Some(Role::Sends(flow)) = host.circuits.get(&circuit)
            && payload.end > payload.start
        {
            let store = &self.flows[*flow].store;
            store.gather(&self.pattern, payload.clone(), &mut self.scratch);
            self.frames.get_mut(tag).carries = Some((*flow, payload.start, payload.end));
        }
        let sum = &self.scratch;
        host.batch.extend_checksums(|_| engine::checksum::sum(sum));
        let packet = &mut self.frames.get_mut(tag).packet;
        packet.extend_from_slice(host.batch.header(&host.batch.segments()[0]));
        packet.extend_from_slice(&self.scratch);
        host.built = Some(tag);
        let after = host.engine.counters();
        host.cost.working(&before, &after)
    }

    fn finish_sender(&mut self, station: usize) {
        self.drain_events(station, self.now_ps);
        let host = &mut self.hosts[station];
        let Some(tag) = host.built.take() else {
            return;
        };
        host.signal(Process::Sender);
        // The rate controller keeps packets apart.
        let leave_ps = host.rate_free_ps.max(self.now_ps);
        host.rate_free_ps = leave_ps + host.cost.separation_ps;
        if leave_ps > self.now_ps {
            self.queue.push(leave_ps, 0, Due::Leave { tag });
        } else {
            self.offer(tag);
        }
    }

    fn offer(&mut self, tag: u64) {
        let frame = self.frames.get(tag);
        let (from, to) = (frame.from, frame.to);
        let packet = frame.packet.len() as u32;
        self.note(Happening::Offered, from, tag);
        self.hosts[from].note_controller(self.now_ps, 1);
        let offered = Offered { tag, packet, to };
        self.medium.offer(self.now_ps, from, offered);
    }

    /// The receiver gives a packet to the engine.
    fn parse(&mut self, station: usize) -> u64 {
        let now = self.now();
        let host = &mut self.hosts[station];
        let Some(arrived) = host.receiver.pop_front() else {
            return 0;
        };
        let frame = self.frames.get_mut(arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            damage(&mut frame.packet, bit);
        }
        let from = Address::Station(frame.from as u32);
        let before = host.engine.counters();
        let deliveries = &mut host.deliveries;
        host.engine
            .handle_packet(now, from, &frame.packet, deliveries);
        let after = host.engine.counters();
        let service = host.cost.interrupt_ps + host.cost.working(&before, &after);
        self.drain_events(station, arrived.at_ps);
        self.sort_deliveries(station, arrived.tag);
        if let Some(bit) = arrived.corrupt_bit {
            // Other receivers got it whole.
            damage(&mut self.frames.get_mut(arrived.tag).packet, bit);
        }
        self.frames.release(arrived.tag);
        service
    }

    /// Turns the deliveries of a packet into work for the reader.
    fn sort_deliveries(&mut self, station: usize, tag: u64) {
        let mut deliveries = std::mem::take(&mut self.hosts[station].deliveries);
        let mut counted = false;
        for delivery in deliveries.drain(..) {
            let packet = &self.frames.get(tag).packet;
            let octets = packet.len() as u64;
            let held;
            let bytes = match &delivery.bytes {
                Bytes::Packet(range) => &packet[range.clone()],
                Bytes::Held(bytes) => {
                    held = bytes;
                    held.as_slice()
                }
            };
            let role = self.hosts[station].circuits.get(&delivery.circuit);
            let of = match role {
                Some(&Role::Receives { flow, place }) => Some((flow, place)),
                _ => None,
            };
            let flow = of.map(|(flow, place)| (&mut self.flows[flow], place));
            let mut reading = read(&delivery, bytes, flow, &self.pattern);
            reading.of = of;
            if let (Some((flow, place)), false, true) = (of, counted, reading.stream > 0) {
                self.flows[flow].report.receivers[place].packet_bytes += octets;
                counted = true;
            }
            self.hosts[station].found.push(reading);
        }
        self.hosts[station].deliveries = deliveries;
    }

    fn finish_receiver(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let found = std::mem::take(&mut host.found);
        if !found.is_empty() {
            host.reader.extend(&found);
            host.signal(Process::Reader);
        }
        host.found = found;
        host.found.clear();
        host.signal(Process::Sender);
        if !host.receiver.is_empty() {
            host.signal(Process::Receiver);
        }
    }

    fn drain_events(&mut self, station: usize, at_ps: u64) {
        while let Some(event) = self.hosts[station].engine.poll_event() {
            match event {
                Event::Connected(circuit) => self.connected(station, circuit),
                Event::Accepted(circuit, from) => self.accepted(station, circuit, from),
                Event::Released(circuit, position) => {
                    let role = self.hosts[station].circuits.get(&circuit);
                    if let Some(&Role::Sends(flow)) = role {
                        let flow = &mut self.flows[flow];
                        let before = flow.report.settled;
                        flow.note_released(at_ps, position);
                        let settled = flow.report.settled - before;
                        self.unsettled -= settled;
                        self.settled += settled;
                    }
                }
                Event::Finished(_) | Event::Closed(..) => {}
            }
        }
    }

    fn connected(&mut self, station: usize, circuit: CircuitId) {
        let role = self.hosts[station].circuits.get(&circuit);
        let Some(&Role::Sends(flow)) = role else {
            return;
        };
        self.flows[flow].connected = true;
        while let Some(length) = self.flows[flow].early.pop_front() {
            self.write(flow, length);
        }
    }

    /// A circuit a peer opened belongs to the first flow from there that has none here yet.
    fn accepted(&mut self, station: usize, circuit: CircuitId, from: Address) {
        let Address::Station(from) = from else {
            return;
        };
        let bound: Vec<usize> = self.hosts[station]
            .circuits
            .values()
            .filter_map(|role| match role {
                Role::Receives { flow, .. } => Some(*flow),
                Role::Sends(_) => None,
            })
            .collect();
        let found = self.flows.iter().enumerate().find_map(|(index, flow)| {
            let place = flow.receiver(station)?;
            (flow.from == from as usize && !bound.contains(&index)).then_some((index, place))
        });
        if let Some((flow, place)) = found {
            let role = Role::Receives { flow, place };
            self.hosts[station].circuits.insert(circuit, role);
        }
    }

    /// Sees to it that the timer chip wakes when the engine wants.
    fn arm(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let Some(deadline) = host.engine.deadline() else {
            return;
        };
        let at_ps = deadline.as_nanos().saturating_mul(1000).max(self.now_ps);
        if host.timer_at_ps.is_none_or(|known| at_ps < known) {
            host.timer_at_ps = Some(at_ps);
            self.queue.push(at_ps, 2, Due::Timer { station });
        }
    }

    fn ring(&mut self, station: usize) {
        let (now, now_ps) = (self.now(), self.now_ps);
        let host = &mut self.hosts[station];
        if host.timer_at_ps != Some(now_ps) {
            return;
        }
        host.timer_at_ps = None;
        if host.engine.deadline().is_some_and(|at| at <= now) {
            host.engine.handle_timeout(now);
            if host.engine.deadline().is_some_and(|at| at <= now) {
                // An engine that asks for the same moment again must not stop the clock.
                host.timer_at_ps = Some(now_ps + 1000);
                self.queue.push(now_ps + 1000, 2, Due::Timer { station });
            }
            let served_ps = now_ps + host.cost.timer_ps;
            self.drain_events(station, now_ps);
            self.queue.push(served_ps, 0, Due::TimerServed { station });
        }
        self.arm(station);
    }

    fn drain_medium(&mut self) {
        while let Some(event) = self.medium.poll() {
            match event {
                MediumEvent::Taken { at_ps, tag } => {
                    if let Some((flow, start, end)) = self.frames.get(tag).carries {
                        self.flows[flow].note_taken(at_ps, start, end);
                    }
                }
                MediumEvent::Sent {
                    at_ps,
                    tag,
                    arrivals,
                } => {
                    let from = self.frames.get(tag).from;
                    self.hosts[from].note_controller(at_ps, -1);
                    self.frames.spread(tag, arrivals);
                }
                MediumEvent::Dropped { at_ps, tag } => {
                    let from = self.frames.get(tag).from;
                    self.note(Happening::Dropped, from, tag);
                    self.hosts[from].note_controller(at_ps, -1);
                    self.frames.release(tag);
                }
                MediumEvent::Arrived {
                    at_ps,
                    station,
                    tag,
                    corrupt_bit,
                } => {
                    self.note(Happening::Arrived, station, tag);
                    let host = &mut self.hosts[station];
                    host.receiver.push_back(Arrived {
                        tag,
                        at_ps,
                        corrupt_bit,
                    });
                    let waiting = host.receiver.len() as u64;
                    host.report.arrivals_max = host.report.arrivals_max.max(waiting);
                    host.signal(Process::Receiver);
                    self.serve(station);
                }
                MediumEvent::Lost { station, tag, .. } => {
                    self.note(Happening::Lost, station, tag);
                    self.frames.release(tag);
                }
                MediumEvent::Collided { at_ps, station } => {
                    if let Some(observer) = &mut self.observer {
                        observer(&Observation {
                            at_ps,
                            what: Happening::Collided,
                            station,
                            from: station,
                            packet: &[],
                        });
                    }
                }
            }
        }
    }

    fn note(&mut self, what: Happening, station: usize, tag: u64) {
        if let Some(observer) = &mut self.observer {
            let frame = self.frames.get(tag);
            observer(&Observation {
                at_ps: self.now_ps,
                what,
                station,
                from: frame.from,
                packet: &frame.packet,
            });
        }
    }
}

/// What a delivery means to the reader.
fn read(
    delivery: &Delivery,
    bytes: &[u8],
    of: Option<(&mut Flow, usize)>,
    pattern: &Pattern,
) -> Reading {
    let stream = bytes.len() as u64;
    let (mut user, mut ends) = (stream, u64::from(delivery.end));
    if let Some((flow, place)) = of {
        flow.check(place, bytes, delivery.gap, pattern);
        match flow.framing {
            Framing::Records => (user, ends) = records_in(bytes),
            Framing::Stream => ends = flow.ends_below(place, stream),
            Framing::Messages => {}
        }
    }
    Reading {
        circuit: delivery.circuit,
        of: None,
        stream,
        user,
        ends,
    }
}

/// Turns a bit of a frame over; bits of the frame around the packet are not kept.
fn damage(packet: &mut [u8], bit: u64) {
    if let Some(octet) = packet.get_mut((bit / 8) as usize) {
        *octet ^= 1 << (bit % 8);
    }
}
