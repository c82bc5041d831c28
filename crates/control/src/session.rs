//! What a measuring client and an agent say to each other.
//!
//! ```text
//! client                         agent
//!   Hello      ------------->
//!              <-------------    Hello      what it allows and has
//!              <-------------    Queued     while another client measures, now and then
//!              <-------------    Ready      the client's turn
//!   Machine    ------------->
//!              <-------------    Machine    facts and findings
//!   Spawn      ------------->               a worker, which gets Tell and answers by Said
//!   Tell       ------------->
//!              <-------------    Said
//!   Clock      ------------->               any time, to compare clocks and to be alive
//!              <-------------    Clock
//!   End        ------------->
//!              <-------------    Ended      the process is gone
//! ```
//!
//! Before any of it both have proved who they are, and the agent has seen that the client really is
//! where it says, see crate `agent`.

use crate::{Caps, FromWorker, ToWorker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Workers of one client at a time: one for each host it has circuits with, or both ends within one.
pub const WORKERS_MAX: u32 = 4;

/// Octets of a token.
pub const TOKEN_LEN: usize = 16;

/// A secret that one end made up and the other must echo.
pub type Token = [u8; TOKEN_LEN];

/// From a client to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message, with the version of the protocol.
    Hello(u32),
    /// Tell the time; the number comes back with it.
    Clock(u32),
    /// Tell what the machine is, and what would spoil the measurement to come.
    Machine(Intent),
    /// Start a worker of that number.
    Spawn(u32),
    /// A message for a worker.
    ToWorker(u32, Box<ToWorker>),
    /// End a worker.
    EndWorker(u32),
    /// A trial begins: note the host's counters.
    BeginTrial,
    /// It has ended: tell what else the host did meanwhile.
    EndTrial,
    /// Expect a greeting from another agent, which will echo the token that is answered.
    ExpectPeer,
    /// Greet the agent at this address with that token.
    CheckPeer(SocketAddr, Token),
    /// Send this many octets back, at most [`crate::frame::REQUEST_MAX`].
    Probe(Vec<u8>),
    /// Tell how this end's connection to the client fares.
    Path,
    /// Nothing more; also to leave the queue.
    Leave,
}

/// From an agent to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The first answer.
    Hello(AgentHello),
    /// Another client measures; this many go first.
    Queued(u32),
    /// The client's turn.
    Ready,
    /// CLOCK_MONOTONIC of the agent's host, ns, for the request of that number.
    Clock(u32, u64),
    /// What the machine is.
    Machine(MachineDescription),
    /// A message of a worker.
    FromWorker(u32, FromWorker),
    /// A worker's process has ended and was waited for.
    WorkerEnded(u32),
    /// What the host did in a trial.
    TrialCounters(HostCounters),
    /// The token another agent must bring.
    ExpectingPeer(Token),
    /// The other agent answered from this address of its own; data may flow between the two.
    PeerChecked(IpAddr),
    /// The octets of a probe.
    Probe(Vec<u8>),
    /// The connection as this end's kernel sees it.
    Path(PathFacts),
    /// Something cannot be done, and why; concerns a worker if it has a number.
    Refused(Option<u32>, String),
    /// The session is over, and why.
    SessionEnded(String),
}

/// What an agent allows and has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentHello {
    /// Version of the protocol.
    pub version: u32,
    /// Version of the program.
    pub program: String,
    /// What a client may ask for.
    pub caps: Caps,
    /// Transports by name; why one cannot be used, if so.
    pub transports: Vec<(String, Option<String>)>,
    /// Congestion controls of TCP that a worker may choose, the usual one first.
    pub congestion: Vec<String>,
    /// Processors a worker may be bound to.
    pub processors: Vec<u32>,
}

/// What is going to be measured, as far as findings depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Workloads by name.
    pub workloads: Vec<String>,
    /// Transports by name.
    pub transports: Vec<String>,
    /// Sender and receiver have a processor each.
    pub pinned: bool,
    /// Ends spin.
    pub busy_poll: bool,
    /// Circuits at a time.
    pub circuits: u32,
    /// Socket buffers asked for, bytes.
    pub buffers: Option<u64>,
    /// Congestion control of TCP.
    pub congestion: String,
}

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDescription {
    /// Group, name, value.
    pub facts: Vec<(String, String, String)>,
    /// What doctor found.
    pub findings: Vec<RemoteFinding>,
}

/// Something doctor noticed on an agent's host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemoteFinding {
    /// 0 good, 1 note, 2 warning, 3 bad.
    pub severity: u8,
    /// What is so.
    pub what: String,
    /// Which measurements it touches.
    pub effect: String,
    /// What to do about it.
    pub remedy: String,
}

/// What an agent's host did in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Evidence by name.
    pub evidence: BTreeMap<String, f64>,
    /// What makes the trial doubtful.
    pub disturbed: Vec<String>,
    /// Datagrams the host dropped for want of buffers.
    pub datagrams_dropped: u64,
}

/// A TCP connection as one end's kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathFacts {
    /// Octets of the largest packet of the path, as far as the kernel knows.
    pub mtu: u32,
    /// The interface it leaves by; empty if unknown.
    pub interface: String,
    /// That interface's MTU.
    pub interface_mtu: u32,
    /// Its offloads: name and whether it is on.
    pub offloads: Vec<(String, bool)>,
}
