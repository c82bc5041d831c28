//! The messages.

use crate::{ProgramJob, ProgramReport, ServerJob, Turns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// To a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Prepare, as the listening side.
    Listen(Job),
    /// Prepare, as the connecting side, towards these listeners, one per component.
    Connect(Job, Vec<RendezvousFrame>),
    /// Start at this time of the worker's CLOCK_MONOTONIC, ns; 0 or a past time means at once.
    Go(u64),
    /// Start, and run in these turns. Agents refuse it: turns are shared on one clock.
    GoInTurns(Turns),
    /// The peer sent everything, this many messages.
    PeerDone(u64),
    /// Stop now and report.
    Stop,
    /// Run a server of another project until `Stop`. Agents refuse it.
    Serve(ServerJob),
    /// Run a client of another project to its end. Agents refuse it.
    Run(ProgramJob),
    /// Load the host until `Stop`. Agents refuse it unless their operator allows loads.
    Load(LoadJob),
}

/// From a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The listeners are ready, one per component.
    Listening(Vec<RendezvousFrame>),
    /// All circuits are connected.
    Connected,
    /// All circuits are accepted.
    Accepted,
    /// The measuring threads run.
    Running,
    /// Everything was sent, this many messages.
    SourceDone(u64),
    /// The end, with what was measured.
    Finished(Box<WorkerReport>),
    /// The job failed.
    Failed(String),
    /// The server is ready at this port.
    Serving(u16),
    /// The program has ended.
    Ran(Box<ProgramReport>),
    /// The load has ended.
    Loaded(LoadReport),
}

/// A load of a host that neither writes files nor starts programs: processor work and copies of memory in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadJob {
    /// Threads that work.
    pub copies: u32,
    /// When they end at the latest, ns from now.
    pub time_ns: u64,
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Rounds of processor work.
    pub cpu_runs: u64,
    /// Copies of memory.
    pub memory_runs: u64,
    /// Processor time of all copies, ns.
    pub cpu_ns: u64,
}

/// How to find a listener; its descriptors travel with the frame, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RendezvousFrame {
    /// 0 process, 1 host, 2 network.
    pub reach: u8,
    /// The transport's address.
    pub bytes: Vec<u8>,
    /// How many of the frame's descriptors belong to it.
    pub descriptors: u32,
}

/// The job of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Which side of the set-up.
    pub side: Side,
    /// What it does with its circuits.
    pub role: Role,
    /// What is measured.
    pub workload: Workload,
    /// The circuits.
    pub components: Vec<ComponentSpec>,
    /// Options of the circuits.
    pub circuit_options: CircuitOptions,
    /// Address the listeners bind to; None for the loopback.
    pub bind: Option<IpAddr>,
    /// Addresses of this side, one a link between the hosts; empty within a host.
    pub local_addresses: Vec<IpAddr>,
    /// Addresses of the other side, link by link as `local_addresses`.
    pub peer_addresses: Vec<IpAddr>,
    /// The only peer address that is accepted; None for any.
    pub peer: Option<IpAddr>,
    /// Offset to add to the other side's time stamps to get this side's clock, ns.
    pub clock_offset_ns: i64,
    /// Bytes a second all circuits together may send; None for no limit.
    pub pace_bytes_per_s: Option<u64>,
    /// Bytes all circuits together may move, both directions counted, None for no limit. A limit
    /// comes with a [`ByteAccount`](crate::ByteAccount), the last descriptor of the frame.
    pub allowance_bytes: Option<u64>,
    /// Largest path delay, ns; 0 within a host.
    pub path_delay_ns: u64,
    /// Bytes of a message; of a request, where there are replies.
    pub message_len: u64,
    /// Bytes of a reply of workload transactions; 0 for the others, whose replies are as long as their
    /// requests.
    pub reply_len: u64,
    /// Time that a server of workload transactions takes for a request before it answers, ns.
    pub service_ns: u64,
    /// Two sizes instead of one.
    pub mix: Option<Mix>,
    /// When to stop.
    pub limits: Limits,
    /// Open loop: how fast.
    pub rate: Option<Rate>,
    /// Processor to run on.
    pub pin: Option<u32>,
    /// Nice value, -20 to 19.
    pub priority: Option<i32>,
    /// Busy-poll with non-blocking calls instead of sleeping.
    pub busy_poll: bool,
    /// Record what the first circuit of each component that sends says of its connection, once a slice.
    pub series: bool,
    /// The raw sockets that come with the job, in the order of their descriptors: set by an agent, empty elsewhere.
    pub raw_sockets: Vec<RawSocketGrant>,
    /// Seed of random choices.
    pub seed: u64,
}

/// A raw socket that comes with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSocketGrant {
    /// The component that it is for.
    pub component: u32,
    /// The port of its frames; 0 if they have none.
    pub port: u16,
}

impl Job {
    /// Throughput on one circuit of `transport` for a second, for callers other than a race: messages of 1000
    /// bytes over the loopback, with TCP's cubic, and workers that are not pinned.
    pub fn one_circuit(transport: &str, side: Side, role: Role) -> Job {
        Job {
            side,
            role,
            workload: Workload::Throughput,
            components: vec![ComponentSpec {
                transport: transport.to_owned(),
                circuits: 1,
            }],
            circuit_options: CircuitOptions {
                read_len: 64 << 10,
                congestion: "cubic".to_owned(),
                ..CircuitOptions::default()
            },
            bind: None,
            local_addresses: Vec::new(),
            peer_addresses: Vec::new(),
            peer: None,
            clock_offset_ns: 0,
            pace_bytes_per_s: None,
            allowance_bytes: None,
            path_delay_ns: 0,
            message_len: 1000,
            reply_len: 0,
            service_ns: 0,
            mix: None,
            limits: Limits {
                messages: 1_000_000,
                time_ns: 1_000_000_000,
                slice_ns: 1_000_000,
            },
            rate: None,
            pin: None,
            priority: None,
            busy_poll: false,
            series: false,
            raw_sockets: Vec::new(),
            seed: 1,
        }
    }

    /// Whether both ends are on one host, connected by its loopback.
    pub fn is_within_host(&self) -> bool {
        self.path_delay_ns == 0 && self.bind.is_none_or(|address| address.is_loopback())
    }

    /// Number of circuits of all components.
    pub fn circuits(&self) -> u64 {
        self.components
            .iter()
            .map(|component| u64::from(component.circuits))
            .sum()
    }

    /// Bytes of its longest message, replies not counted.
    pub fn request_len_max(&self) -> u64 {
        self.mix
            .map_or(self.message_len, |mix| mix.small.max(mix.full))
    }

    /// Bytes of its longest message, either way.
    pub fn message_len_max(&self) -> u64 {
        self.request_len_max().max(self.reply_len)
    }

    /// Mean bytes of a message.
    pub fn message_len_mean(&self) -> f64 {
        self.mix.map_or(self.message_len as f64, |mix| {
            let small = f64::from(mix.small_percent.min(100)) / 100.0;
            mix.small as f64 * small + mix.full as f64 * (1.0 - small)
        })
    }

    /// Whether its loops send user data, as they are chosen by workload and role.
    pub fn sends(&self) -> bool {
        match self.workload {
            Workload::Connect => true,
            Workload::Offered | Workload::Send => self.role == Role::Source,
            Workload::Throughput
            | Workload::Delay
            | Workload::Transactions
            | Workload::Responsive => self.role != Role::Sink,
        }
    }
}

/// Which side of the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Waits for the peer.
    Listen,
    /// Connects to the peer.
    Connect,
}

/// What a worker does with its circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Sends.
    Source,
    /// Receives.
    Sink,
    /// Sends and receives.
    Both,
    /// Sends requests and waits for the replies.
    Client,
    /// Replies to requests.
    Server,
    /// Sends each message to the peers of all its circuits.
    SourceToAll,
    /// Sends each message to the peer of a circuit that has room for it.
    SourceToOne,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// As many messages as possible, one way.
    Throughput,
    /// Request and reply, closed loop.
    Delay,
    /// Messages at given times, one way, open loop.
    Offered,
    /// Set-up, request, reply, tear-down.
    Connect,
    /// Requests of several clients and their replies, closed loop: each component's circuits are its
    /// clients.
    Transactions,
    /// Round trips of short messages on the first circuit of each component, as long as `reply_len`,
    /// beside bulk of `message_len` on the others, from a quarter of the time on.
    Responsive,
    /// As many messages as possible into a wire that copies its packets and forgets them.
    Send,
}

impl Workload {
    /// All, by their names in command lines, plans and results.
    pub const ALL: [(&'static str, Workload); 7] = [
        ("throughput", Workload::Throughput),
        ("delay", Workload::Delay),
        ("offered", Workload::Offered),
        ("connect", Workload::Connect),
        ("transactions", Workload::Transactions),
        ("responsive", Workload::Responsive),
        ("send", Workload::Send),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Workload::ALL.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }

    /// The workload of that name.
    pub fn named(name: &str) -> Option<Workload> {
        let found = Workload::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, workload)| *workload)
    }
}

/// A component of a contestant: circuits of one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentSpec {
    /// Its name and its options: `NAME[,KEY=VALUE...]`.
    pub transport: String,
    /// How many.
    pub circuits: u32,
}

/// Options of the circuits; see the library's options for their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitOptions {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Bytes per read of a byte stream.
    pub read_len: u64,
    /// Socket buffers, bytes.
    pub buffers: Option<u64>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// TCP congestion control.
    pub congestion: String,
    /// Packets a batched call carries.
    pub batch: Option<u64>,
    /// Network interface.
    pub interface: Option<String>,
    /// Ethernet type.
    pub ethertype: u16,
}

/// Two message sizes in random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Bytes of a small message.
    pub small: u64,
    /// Bytes of a full one.
    pub full: u64,
    /// Per cent of the messages that are small.
    pub small_percent: u32,
}

/// When to stop: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Messages (round trips, connections) of each circuit.
    pub messages: u64,
    /// Time, ns.
    pub time_ns: u64,
    /// Length of a slice of the time series, ns.
    pub slice_ns: u64,
}

/// How fast an open loop sends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Messages a second on each circuit.
    pub per_s: f64,
    /// How they are spaced.
    pub arrivals: Arrivals,
}

/// How messages of an open loop are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrivals {
    /// Constant gaps.
    Fixed,
    /// Exponential gaps: a Poisson process.
    Exponential,
}

/// What a worker measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// One entry a circuit.
    pub circuits: Vec<CircuitReport>,
    /// User bytes sent and received, where an allowance was given; else 0.
    pub moved_bytes: u64,
    /// CPU use from Go to the end.
    pub cpu: CpuUse,
    /// Options as they took effect.
    pub effective: BTreeMap<String, String>,
}

/// What one circuit's thread measured. Times are CLOCK_MONOTONIC of the worker's host, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CircuitReport {
    /// Its component's label, as in the job.
    pub transport: String,
    /// Messages handed to the transport.
    pub sent: u64,
    /// Messages received; on a byte stream reads.
    pub received: u64,
    /// User bytes received.
    pub received_bytes: u64,
    /// Calls that moved something.
    pub calls: u64,
    /// When it began.
    pub first_ns: u64,
    /// When the last message was sent or received.
    pub last_ns: u64,
    /// The time series.
    pub slices: Vec<Slice>,
    /// What its connection said of itself over time, by the names of
    /// [`CONNECTION_VALUES`](crate::CONNECTION_VALUES): when, ns, and the value.
    pub connection: BTreeMap<String, Vec<(u64, u64)>>,
    /// HDR histograms by name, in the text form of results.
    pub histograms: BTreeMap<String, String>,
    /// The transport's counts.
    pub counts: BTreeMap<String, u64>,
    /// The median delay of each turn, us, in order; 0 for a turn without a call. Empty without turns.
    pub turn_delays_us: Vec<f64>,
    /// Other measures by name.
    pub measures: BTreeMap<String, f64>,
    /// Options as they took effect.
    pub effective: BTreeMap<String, String>,
    /// Why its result is invalid.
    pub invalid: Option<String>,
    /// Why it was aborted.
    pub error: Option<String>,
}

/// Cumulative counts at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// When, ns.
    pub at_ns: u64,
    /// Messages so far (reads on a byte stream).
    pub messages: u64,
    /// Bytes so far.
    pub bytes: u64,
}

/// CPU of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Time its threads ran, ns.
    pub task_ns: u64,
    /// Ticks in user mode, as ns.
    pub user_ns: u64,
    /// Ticks in the kernel, as ns.
    pub system_ns: u64,
    /// Times it slept and was woken.
    pub voluntary_switches: u64,
    /// Times it was preempted.
    pub involuntary_switches: u64,
}
