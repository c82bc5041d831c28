//! Programs of other projects, which a worker runs and watches.

use crate::CpuUse;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Octets of a program's standard output that are kept: the last ones.
pub const PROGRAM_OUTPUT_MAX: usize = 2 << 20;

/// Octets of a program's standard error that are kept: the last ones.
pub const PROGRAM_ERRORS_MAX: usize = 64 << 10;

/// A program that a worker runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramJob {
    /// The program and its arguments. A server's may hold [`ProgramJob::PORT`].
    pub words: Vec<String>,
    /// Processor to run on.
    pub pin: Option<u32>,
    /// Nice value, -20 to 19.
    pub priority: Option<i32>,
    /// Time it may take, ns: a client to end, a server to be ready.
    pub limit_ns: u64,
}

impl ProgramJob {
    /// Stands for the server's port, a free one that its worker chooses.
    pub const PORT: &'static str = "{port}";
}

/// How a server is seen to be ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// Its port listens for TCP connections.
    Tcp,
    /// Its port is bound for UDP.
    Udp,
    /// A line of its output contains this text.
    Line(String),
}

/// A server that a worker runs until it is told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerJob {
    /// The program.
    pub program: ProgramJob,
    /// Address at which it listens.
    pub address: IpAddr,
    /// How it is seen to be ready.
    pub readiness: Readiness,
    /// Whether it ends by itself after its client: it then has a while before it is ended.
    pub ends_itself: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramExit {
    /// With this exit code.
    Code(i32),
    /// By this signal, which was not the worker's.
    Signal(i32),
    /// By the worker, because it took longer than it may.
    Late,
    /// By the worker, which was told to stop.
    #[default]
    Stopped,
}

/// What a worker saw of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramReport {
    /// How it ended.
    pub exit: ProgramExit,
    /// The end of its standard output.
    pub output: String,
    /// The end of its standard error.
    pub errors: String,
    /// Time from its start to its end, ns.
    pub span_ns: u64,
    /// CPU of the program and of all its children.
    pub cpu: CpuUse,
    /// Children that it left running, by command; they were ended.
    pub left: Vec<String>,
    /// What each interface of its host carried meanwhile.
    pub traffic: BTreeMap<String, HostTraffic>,
}

/// Octets and packets that interfaces of a host carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Octets sent.
    pub sent_octets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Octets received.
    pub received_octets: u64,
    /// Packets received.
    pub received_packets: u64,
}

impl std::ops::Add for HostTraffic {
    type Output = HostTraffic;

    fn add(self, other: HostTraffic) -> HostTraffic {
        HostTraffic {
            sent_octets: self.sent_octets.saturating_add(other.sent_octets),
            sent_packets: self.sent_packets.saturating_add(other.sent_packets),
            received_octets: self.received_octets.saturating_add(other.received_octets),
            received_packets: self.received_packets.saturating_add(other.received_packets),
        }
    }
}
