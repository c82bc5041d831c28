//! Measures the path to an agent's host: MTU by both kernels after large packets, RTT, and a short
//! TCP trial in each direction.

use crate::environment::{AgentEnvironment, PathEnd, describe_host};
use crate::{Session, SessionError, path_diagnosis};
use control::session::{FromAgent, PathFacts, ToAgent};
use control::{CircuitOptions, Limits, Slice, WorkerReport};
use loadgen::LocalHost;
use measure::RaceSpec;
use measure::spec::Direction;
use measure::trial::{self, Collected, TrialSpec};
use results::{Finding, Machine, TestSpec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Octets echoed so that both kernels send full packets and path MTU discovery runs; less than a
/// frame may have.
const PROBE_LEN: usize = 48 << 10;

/// Message size of the trials.
const MESSAGE_LEN: u64 = 64 << 10;

/// Slices of a trial.
const SLICES: u64 = 100;

/// Parts of a trial that count as its first and its last part.
const FIRST_PART: f64 = 0.2;
const LAST_PART: f64 = 0.5;

/// What was measured on the path to another host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathReport {
    /// The other host as the user named it.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
    /// This host's address on that path.
    pub own_address: IpAddr,
    /// Minimum RTT of the control connection, ns.
    pub round_trip_ns: u64,
    /// Remote CLOCK_MONOTONIC minus the local one, ns.
    pub clock_offset_ns: i64,
    /// Error bound of that offset, ns.
    pub clock_bound_ns: u64,
    /// Rate cap of the agent's workers, bit/s.
    pub agent_rate_bps: Option<u64>,
    /// From this host to the agent's.
    pub there: PathDirection,
    /// From the agent's host to this one.
    pub back: PathDirection,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// The agent's host facts and doctor findings.
    pub machine: Machine,
}

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PathDirection {
    /// Path MTU in octets, as the sending kernel knows it after sending; 0 if unknown.
    pub mtu: u32,
    /// The sending host's interface; empty if unknown.
    pub interface: String,
    /// That interface's MTU; 0 if unknown.
    pub interface_mtu: u32,
    /// That interface's offloads.
    pub offloads: BTreeMap<String, bool>,
    /// The TCP trial.
    pub tcp: TcpSample,
}

/// A short trial of one TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TcpSample {
    /// Measured time, s.
    pub span_s: f64,
    /// Goodput, Mbit/s.
    pub mbit_per_s: f64,
    /// Goodput in the first fifth.
    pub first_mbit_per_s: f64,
    /// Goodput in the last half.
    pub last_mbit_per_s: f64,
    /// Packets sent.
    pub packets: u64,
    /// Of these, retransmissions.
    pub retransmissions: u64,
    /// Maximum segment size, octets.
    pub segment_max: u32,
    /// CPU share of the sending and the receiving worker.
    pub busy: [f64; 2],
    /// Smoothed RTT of the sender at the end, queueing delay included, ns.
    pub round_trip_ns: u64,
}

/// How a path is probed.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// Length of each direction's trial, limited by the agent's cap.
    pub span: Duration,
    /// TCP congestion control.
    pub congestion: String,
    /// The planned race, for doctor.
    pub test: TestSpec,
}

/// Measures the path to the agent of `session`; `here` starts local workers.
///
/// # Errors
///
/// Why the agent is gone, or what cannot be measured.
pub fn probe_path(
    session: &Arc<Session>,
    here: &LocalHost,
    plan: &ProbePlan,
    stop: &AtomicBool,
) -> Result<PathReport, SessionError> {
    let machine = describe_host(session, &plan.test)?;
    session.clock_offset()?;
    probe_mtu(session)?;
    let idle_ns = session.min_rtt().as_nanos() as u64;
    let mut stage = AgentEnvironment::new(
        vec![[PathEnd::Local, PathEnd::Agent(Arc::clone(session))]],
        here,
    )?;
    let mut tried = |direction| {
        let tried = measure_tcp(session, &mut stage, plan, direction, stop);
        tried.map_err(|why| SessionError {
            agent: session.target().to_string(),
            reason: why,
        })
    };
    let (there, back) = (tried(Direction::Forward)?, tried(Direction::Reverse)?);
    // Path MTUs are known only after traffic.
    let clock = session.clock_offset()?;
    let mut report = PathReport {
        host: session.target().to_string(),
        address: session.peer().ip(),
        own_address: session.local().ip(),
        round_trip_ns: idle_ns,
        clock_offset_ns: clock.offset_ns,
        clock_bound_ns: clock.bound_ns,
        agent_rate_bps: session.welcome().caps.rate_bps,
        there: PathDirection::new(session.local_path(), there),
        back: PathDirection::new(session.remote_path()?, back),
        findings: Vec::new(),
        machine,
    };
    report.findings = path_diagnosis::diagnose(&report);
    Ok(report)
}

impl PathDirection {
    fn new(facts: PathFacts, tcp: TcpSample) -> PathDirection {
        PathDirection {
            mtu: facts.mtu,
            interface: facts.interface,
            interface_mtu: facts.interface_mtu,
            offloads: facts.offloads.into_iter().collect(),
            tcp,
        }
    }
}

/// Echoes large packets, after small ones have passed.
fn probe_mtu(session: &Session) -> Result<(), SessionError> {
    let octets: Vec<u8> = (0..PROBE_LEN).map(|at| at as u8).collect();
    let odd = |why: String| SessionError {
        agent: session.target().to_string(),
        reason: why,
    };
    match session.request(ToAgent::Probe(octets.clone())) {
        Ok(FromAgent::Probe(back)) if back == octets => Ok(()),
        Ok(_) => Err(odd("it echoes other octets than were sent".into())),
        Err(error) => Err(odd(format!(
            "small packets pass and {PROBE_LEN} octets at once do not ({}): packets beyond \
             the path MTU may be dropped without an ICMP message; try a smaller MTU on the interface here",
            error.reason
        ))),
    }
}

/// A trial of one TCP connection in one direction.
fn measure_tcp(
    session: &Session,
    stage: &mut AgentEnvironment,
    plan: &ProbePlan,
    direction: Direction,
    stop: &AtomicBool,
) -> Result<TcpSample, String> {
    let most_ns = session.welcome().caps.trial_ns;
    let time_ns = (plan.span.as_nanos() as u64).min(most_ns);
    let ipv6 = session.peer().is_ipv6();
    let message_len = MESSAGE_LEN.min(session.welcome().caps.message_len);
    let spec = race_spec(direction, ipv6, message_len, &plan.congestion);
    let contest = spec.contests().pop().ok_or("there is nothing to try")?;
    let trial = TrialSpec {
        contest,
        contestant: "tcp".into(),
        limits: Limits {
            messages: u64::MAX,
            time_ns,
            slice_ns: (time_ns / SLICES).max(1),
        },
        rate_per_s: None,
        seed: 1,
    };
    let collected = trial::run(&spec, &trial, 1, stage, stop).map_err(|error| error.to_string())?;
    tcp_sample(&collected)
}

fn tcp_sample(collected: &Collected) -> Result<TcpSample, String> {
    let (sender, receiver) = (&collected.sender, &collected.receiver);
    let one = |report: &WorkerReport| report.circuits.first().cloned();
    let (Some(source), Some(sink)) = (one(sender), one(receiver)) else {
        return Err("a worker reports on no circuit".into());
    };
    if let Some(error) = [&source, &sink].iter().find_map(|one| one.error.clone()) {
        return Err(error);
    }
    let span_s = sink.last_ns.saturating_sub(sink.first_ns) as f64 * 1e-9;
    let share = |report: &WorkerReport| report.cpu.task_ns as f64 * 1e-9 / span_s.max(1e-9);
    let count = |name: &str| source.counts.get(name).copied().unwrap_or(0);
    let segment = source.effective.get("segment_max");
    Ok(TcpSample {
        span_s,
        mbit_per_s: sink.received_bytes as f64 * 8e-6 / span_s.max(1e-9),
        first_mbit_per_s: mean_rate(&sink.slices, 0.0, FIRST_PART),
        last_mbit_per_s: mean_rate(&sink.slices, 1.0 - LAST_PART, 1.0),
        packets: count("packets_sent"),
        retransmissions: count("retransmissions"),
        segment_max: segment.and_then(|text| text.parse().ok()).unwrap_or(0),
        busy: [share(sender), share(receiver)],
        round_trip_ns: count("round_trip_us").saturating_mul(1000),
    })
}

/// Mean rate between two fractions of the trial, Mbit/s.
fn mean_rate(slices: &[Slice], from: f64, to: f64) -> f64 {
    let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
        return 0.0;
    };
    let span_ns = last.at_ns.saturating_sub(first.at_ns) as f64;
    let at = |part: f64| {
        let wanted_ns = first.at_ns.saturating_add((span_ns * part) as u64);
        slices.iter().find(|slice| slice.at_ns >= wanted_ns)
    };
    let (Some(one), Some(other)) = (at(from), at(to)) else {
        return 0.0;
    };
    let taken_s = other.at_ns.saturating_sub(one.at_ns) as f64 * 1e-9;
    other.bytes.saturating_sub(one.bytes) as f64 * 8e-6 / taken_s.max(1e-9)
}

/// The race specification of a single trial.
fn race_spec(direction: Direction, ipv6: bool, message_len: u64, congestion: &str) -> RaceSpec {
    RaceSpec {
        sizes: vec![message_len],
        circuit_options: CircuitOptions {
            ipv6,
            read_len: message_len,
            congestion: congestion.to_owned(),
            ..CircuitOptions::default()
        },
        direction,
        ..RaceSpec::one_block(&["tcp"], &["throughput"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_rate_of_part_of_slices() {
        // 10 MB/s for a second, then 1 MB/s for four.
        let slices: Vec<Slice> = (0..=50u64)
            .map(|tenth| Slice {
                at_ns: 7_000 + tenth * 100_000_000,
                messages: 0,
                bytes: tenth.min(10) * 1_000_000 + tenth.saturating_sub(10) * 100_000,
            })
            .collect();
        assert!((mean_rate(&slices, 0.0, 0.2) - 80.0).abs() < 0.01);
        assert!((mean_rate(&slices, 0.5, 1.0) - 8.0).abs() < 0.01);
        assert_eq!(mean_rate(&[], 0.0, 1.0), 0.0);
        assert_eq!(mean_rate(&slices[..1], 0.0, 1.0), 0.0);
    }
}
