//! Messages between a measuring client and an agent.
//!
//! ```text
//! client                         agent
//!   Hello      ------------->
//!              <-------------    Hello      caps and capabilities
//!              <-------------    Queued     while another client measures, now and then
//!              <-------------    Ready      the client's turn
//!   Machine    ------------->
//!              <-------------    Machine    facts and findings
//!   Spawn      ------------->               a worker
//!   ToWorker   ------------->
//!              <-------------    FromWorker
//!   Clock      ------------->               any time, for the clock offset and as keepalive
//!              <-------------    Clock
//!   EndWorker  ------------->
//!              <-------------    WorkerEnded  the process was reaped
//! ```
//!
//! Before that, both sides have authenticated and the agent has validated the client's address, see
//! crate `agent`.

use crate::{Caps, FromWorker, ToWorker};
use results::{Fact, Finding, TestSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Workers of a client at a time unless an agent allows more: one for each host it has circuits with,
/// or both ends within one, or one for each of some contestants in turns.
pub const WORKERS_MAX: u32 = 4;

/// Octets of a token.
pub const TOKEN_LEN: usize = 16;

/// A random secret that the other end must echo.
pub type Token = [u8; TOKEN_LEN];

/// From a client to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message, with the version of the protocol.
    Hello(u32),
    /// Request the agent's clock; the reply carries this number.
    Clock(u32),
    /// Request facts about the machine, and findings that concern this measurement.
    Machine(TestSpec),
    /// Start a worker with this number.
    Spawn(u32),
    /// A message for a worker.
    ToWorker(u32, Box<ToWorker>),
    /// End a worker.
    EndWorker(u32),
    /// A trial begins: read the host's counters.
    BeginTrial,
    /// The trial has ended: report the host's counters.
    EndTrial,
    /// Expect the check of another agent, which must present the token in the reply.
    ExpectPeer,
    /// Check that the agent at this address can be reached, presenting that token.
    CheckPeer(SocketAddr, Token),
    /// Echo these octets, at most [`crate::frame::REQUEST_MAX`].
    Probe(Vec<u8>),
    /// Report how this end's kernel sees the connection to the client.
    Path,
    /// End the session, or leave the queue.
    Leave,
}

/// From an agent to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The first reply.
    Hello(AgentHello),
    /// Another client is measuring; this many are ahead in the queue.
    Queued(u32),
    /// The client's turn.
    Ready,
    /// CLOCK_MONOTONIC of the agent's host, ns, for the request of that number.
    Clock(u32, u64),
    /// What the machine is.
    Machine(MachineDescription),
    /// A message of a worker.
    FromWorker(u32, FromWorker),
    /// A worker's process has exited and was reaped.
    WorkerEnded(u32),
    /// Counters of the host during a trial.
    TrialCounters(HostCounters),
    /// The token another agent must present.
    ExpectingPeer(Token),
    /// The other agent replied from this address; data may flow between the two.
    PeerChecked(IpAddr),
    /// The octets of a probe.
    Probe(Vec<u8>),
    /// The connection as this end's kernel sees it.
    Path(PathFacts),
    /// A request was refused, and why; with the number of the worker it concerns, if any.
    Refused(Option<u32>, String),
    /// The session is over, and why.
    SessionEnded(String),
}

/// Caps and capabilities of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentHello {
    /// Version of the protocol.
    pub version: u32,
    /// Version of the program.
    pub program: String,
    /// What a client may request.
    pub caps: Caps,
    /// Transports by name, with the reason where one is unavailable.
    pub transports: Vec<(String, Option<String>)>,
    /// Congestion controls of TCP that a worker may choose, the default first.
    pub congestion: Vec<String>,
    /// Processors a worker may be bound to.
    pub processors: Vec<u32>,
}

/// Facts and findings of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineDescription {
    /// What it is.
    pub facts: Vec<Fact>,
    /// What doctor found.
    pub findings: Vec<Finding>,
}

/// Counters of an agent's host during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Evidence by name.
    pub evidence: BTreeMap<String, f64>,
    /// Disturbances of the trial.
    pub disturbed: Vec<String>,
    /// Datagrams the host dropped for lack of buffer space.
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

#[cfg(test)]
mod tests {
    use super::*;
    use results::Severity;

    /// Agents of other builds read them: an octet that changes asks for another version of the protocol.
    #[test]
    fn race_and_finding_keep_their_octets() {
        let test = TestSpec {
            workloads: vec!["delay".into()],
            transports: vec!["tcp".into()],
            pinned: true,
            busy_poll: false,
            circuits: 300,
            buffers: Some(65_536),
            congestion: "cubic".into(),
        };
        let octets = postcard::to_stdvec(&ToAgent::Machine(test)).expect("it is coded");
        assert_eq!(
            octets,
            b"\x02\x01\x05delay\x01\x03tcp\x01\x00\xac\x02\x01\x80\x80\x04\x05cubic"
        );
        let text = |text: &str| text.to_owned();
        let description = MachineDescription {
            facts: vec![Fact {
                group: text("cpu"),
                name: text("model"),
                value: text("x"),
            }],
            findings: vec![Finding {
                severity: Severity::Warning,
                what: text("a"),
                effect: text("b"),
                remedy: text("c"),
            }],
        };
        let octets = postcard::to_stdvec(&FromAgent::Machine(description)).expect("it is coded");
        assert_eq!(
            octets,
            b"\x04\x01\x03cpu\x05model\x01x\x01\x02\x01a\x01b\x01c"
        );
    }
}
