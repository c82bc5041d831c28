//! Pairs of hosts with at least one agent, as the environment of a race.

use crate::loads::{LoadPlan, RunningLoad};
use crate::worker_host::LocalPeer;
use crate::{AgentHost, Session, SessionError};
use agent::path;
use control::session::{FromAgent, ToAgent};
use control::validate;
use loadgen::{LocalHost, WorkerHost};
use measure::Environment;
use measure::environment::{EnvironmentReport, HostPair};
use results::{Cell, Machine, TestSpec};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Minimum of the maximum one-way delay over a network, beyond twice the idle RTT. Packets that
/// queue longer count as lost.
const ONE_WAY_DELAY_MIN: Duration = Duration::from_millis(20);

/// Longest round trip between hosts whose contestants take turns: what is sent in a turn arrives well
/// before the next one.
const TURN_RTT_MAX: Duration = Duration::from_micros(250);

/// How far apart two ends may be about the time of a turn: a quarter of what does not count of it.
const TURN_CLOCK_ERROR_MAX: Duration = Duration::from_micros(250);

/// One end of a pair.
#[derive(Clone)]
pub enum PathEnd {
    /// This host.
    Local,
    /// An agent's host.
    Agent(Arc<Session>),
}

impl PathEnd {
    fn name(&self) -> String {
        match self {
            PathEnd::Local => "here".into(),
            PathEnd::Agent(session) => session.target().to_string(),
        }
    }

    fn session(&self) -> Option<&Arc<Session>> {
        match self {
            PathEnd::Local => None,
            PathEnd::Agent(session) => Some(session),
        }
    }
}

/// A pair with its worker hosts: the connecting and the listening one.
struct AgentPair {
    ends: [PathEnd; 2],
    places: [Box<dyn WorkerHost>; 2],
    interface: String,
    loopback_only: bool,
}

/// Pairs of hosts; each is a setting of the race, or all run concurrently.
pub struct AgentEnvironment {
    pairs: Vec<AgentPair>,
    /// The pairs that the current setting uses.
    active: Range<usize>,
    concurrent: bool,
    loads: LoadPlan,
    running_loads: Vec<RunningLoad>,
}

impl AgentEnvironment {
    /// Creates the pairs, each as connecting end and listening end. `here` starts local workers.
    ///
    /// # Errors
    ///
    /// When two agents cannot reach each other.
    pub fn new(
        pairs: Vec<[PathEnd; 2]>,
        here: &LocalHost,
    ) -> Result<AgentEnvironment, SessionError> {
        let pairs: Result<Vec<AgentPair>, SessionError> = pairs
            .into_iter()
            .map(|ends| AgentPair::new(ends, here))
            .collect();
        Ok(AgentEnvironment {
            pairs: pairs?,
            active: 0..1,
            concurrent: false,
            loads: LoadPlan::default(),
            running_loads: Vec::new(),
        })
    }

    /// Loads the two hosts of each pair, each pair under each setting of the plan.
    #[must_use]
    pub fn loaded(mut self, loads: LoadPlan) -> AgentEnvironment {
        self.loads = loads;
        self
    }

    /// Runs all pairs concurrently in each trial, instead of one pair a setting.
    #[must_use]
    pub fn concurrent(mut self) -> AgentEnvironment {
        self.concurrent = true;
        self.active = 0..self.pairs.len();
        self
    }

    /// Adds the agents' host facts and doctor findings to this host's.
    ///
    /// # Errors
    ///
    /// When an agent is gone.
    pub fn describe(&self, test: &TestSpec, machine: &mut Machine) -> Result<(), SessionError> {
        for session in self.sessions() {
            let host = session.target().to_string();
            let found = describe_host(session, test)?;
            machine
                .facts
                .extend(found.facts.into_iter().map(|mut fact| {
                    fact.group = format!("{host}: {}", fact.group);
                    fact
                }));
            machine
                .findings
                .extend(found.findings.into_iter().map(|mut finding| {
                    finding.what = format!("{host}: {}", finding.what);
                    finding
                }));
        }
        Ok(())
    }

    /// The agents' sessions, each once.
    pub fn sessions(&self) -> Vec<&Arc<Session>> {
        sessions(&self.pairs)
    }

    /// The pairs of the current setting.
    fn active_pairs(&self) -> &[AgentPair] {
        &self.pairs[self.active.clone()]
    }
}

/// The sessions of `pairs`, each once.
fn sessions(pairs: &[AgentPair]) -> Vec<&Arc<Session>> {
    let mut all: Vec<&Arc<Session>> = Vec::new();
    let ends = pairs.iter().flat_map(|pair| &pair.ends);
    for session in ends.filter_map(PathEnd::session) {
        if !all.iter().any(|known| Arc::ptr_eq(known, session)) {
            all.push(session);
        }
    }
    all
}

/// Facts and doctor findings of an agent's host. Fails when the agent is gone.
pub(super) fn describe_host(session: &Session, test: &TestSpec) -> Result<Machine, SessionError> {
    let FromAgent::Machine(found) = session.request(ToAgent::Machine(test.clone()))? else {
        return Ok(Machine::default());
    };
    let found = validate::description(found);
    Ok(Machine {
        version: results::SCHEMA_VERSION,
        facts: found.facts,
        findings: found.findings,
    })
}

impl AgentPair {
    fn new(ends: [PathEnd; 2], here: &LocalHost) -> Result<AgentPair, SessionError> {
        let within = ends
            .iter()
            .filter_map(PathEnd::session)
            .all(|one| one.peer().ip().is_loopback());
        let near = |session: &Session| {
            Box::new(LocalPeer::new(here.clone(), session)) as Box<dyn WorkerHost>
        };
        let far = |session: &Arc<Session>| {
            Box::new(AgentHost::new(Arc::clone(session))) as Box<dyn WorkerHost>
        };
        let places = match &ends {
            [PathEnd::Local, PathEnd::Local] => [
                Box::new(here.clone()) as Box<dyn WorkerHost>,
                Box::new(here.clone()),
            ],
            [PathEnd::Local, PathEnd::Agent(session)] => [near(session), far(session)],
            [PathEnd::Agent(session), PathEnd::Local] => [far(session), near(session)],
            [PathEnd::Agent(one), PathEnd::Agent(other)] if Arc::ptr_eq(one, other) => {
                [far(one), far(one)]
            }
            [PathEnd::Agent(one), PathEnd::Agent(other)] => check_agent_pair(one, other)?,
        };
        let session = ends.iter().find_map(PathEnd::session);
        let interface = session.and_then(|session| interface_of(session.local()));
        Ok(AgentPair {
            ends,
            places,
            interface: interface.unwrap_or_else(|| "lo".into()),
            loopback_only: within,
        })
    }
}

/// The name of this host's interface with this address.
fn interface_of(local: SocketAddr) -> Option<String> {
    let socket = std::net::UdpSocket::bind((local.ip(), 0)).ok()?;
    let interface = path::path_facts(socket.as_fd()).interface;
    (!interface.is_empty()).then_some(interface)
}

/// Has one agent check the other's address, so that data may flow between them.
fn check_agent_pair(
    one: &Arc<Session>,
    other: &Arc<Session>,
) -> Result<[Box<dyn WorkerHost>; 2], SessionError> {
    let odd = |session: &Session| SessionError {
        agent: session.target().to_string(),
        reason: "it did not complete the peer check".into(),
    };
    let FromAgent::ExpectingPeer(token) = other.request(ToAgent::ExpectPeer)? else {
        return Err(odd(other));
    };
    let to = other.peer();
    let FromAgent::PeerChecked(from) = one.request(ToAgent::CheckPeer(to, token))? else {
        return Err(odd(one));
    };
    Ok([
        Box::new(AgentHost::between(Arc::clone(one), from, to.ip())),
        Box::new(AgentHost::between(Arc::clone(other), to.ip(), from)),
    ])
}

impl AgentPair {
    /// `lab1`, or `lab1>lab2` where the connecting end is not this host.
    fn name(&self) -> String {
        match &self.ends {
            [PathEnd::Local, to] => to.name(),
            [from, to] => format!("{}>{}", from.name(), to.name()),
        }
    }

    fn between(&self) -> HostPair<'_> {
        HostPair {
            name: self.name(),
            connector: self.places[0].as_ref(),
            listener: self.places[1].as_ref(),
        }
    }

    /// Why contestants on these hosts cannot take turns.
    fn pause_hindrance(&self, contestants: usize) -> Option<String> {
        let ends = || self.ends.iter().filter_map(PathEnd::session);
        for session in ends() {
            let own = ends().filter(|other| Arc::ptr_eq(session, other)).count();
            let why = session_hindrance(session, contestants * own);
            if let Some(why) = why {
                return Some(format!("{}: {why}", session.target()));
            }
        }
        let rtt: Duration = ends().map(|session| session.min_rtt()).sum();
        (!self.loopback_only && rtt > TURN_RTT_MAX).then(|| {
            format!(
                "what is sent in a turn would arrive in the next one: {} us there and back",
                rtt.as_micros()
            )
        })
    }

    /// The maximum one-way delay of a packet.
    fn longest_way(&self) -> Duration {
        if self.loopback_only {
            return Duration::ZERO;
        }
        let trips = self.ends.iter().filter_map(PathEnd::session);
        ONE_WAY_DELAY_MIN + trips.map(|one| one.min_rtt()).sum::<Duration>() * 2
    }
}

/// Why an agent cannot run so many workers that take turns.
fn session_hindrance(session: &Session, workers: usize) -> Option<String> {
    let caps = &session.welcome().caps;
    if workers > caps.workers as usize {
        return Some(format!(
            "{workers} workers are needed at once and its agent has {}; start it with --max-workers {workers}",
            caps.workers
        ));
    }
    if caps.rate_bps.is_some() {
        return Some("its agent divides its rate (--max-rate) among all workers".into());
    }
    match session.clock_offset() {
        Err(error) => Some(error.reason),
        Ok(clock) if Duration::from_nanos(clock.bound_ns) > TURN_CLOCK_ERROR_MAX => Some(format!(
            "its clock is known within {} us only",
            clock.bound_ns / 1000
        )),
        Ok(_) => None,
    }
}

impl AgentEnvironment {
    /// Starts the loads of a setting, for one trial.
    fn start_loads(&mut self, setting: usize) -> Result<(), String> {
        self.running_loads.clear();
        let Some(&(sender, receiver)) = self.loads.settings.get(setting) else {
            return Ok(());
        };
        let by_place = match self.loads.reversed {
            true => [receiver, sender],
            false => [sender, receiver],
        };
        let places = &self.pairs[self.active.start].places;
        let mut running = Vec::new();
        for (place, copies) in places.iter().zip(by_place) {
            if copies > 0 {
                let load = RunningLoad::start(place.as_ref(), copies, self.loads.time);
                running.push(load?);
            }
        }
        self.running_loads = running;
        Ok(())
    }

    /// Ends the loads, and adds what they did.
    fn report_loads(&mut self, into: &mut EnvironmentReport) {
        for load in std::mem::take(&mut self.running_loads) {
            let is_here = load.is_here();
            let (did, seconds) = match load.stop() {
                Ok(did) => did,
                Err(why) => {
                    into.disturbed.push(format!("a load was lost: {why}"));
                    continue;
                }
            };
            let cpu_s = did.cpu_ns as f64 * 1e-9;
            *into.cpu_s.entry("load".into()).or_default() += cpu_s;
            if is_here {
                into.other_process_cpu_s += cpu_s;
            }
            for (part, runs) in [("cpu", did.cpu_runs), ("memory", did.memory_runs)] {
                let name = format!("load_{part}_per_s");
                *into.evidence.entry(name).or_default() += runs as f64 / seconds.max(1e-9);
            }
        }
    }
}

impl Environment for AgentEnvironment {
    fn settings(&self) -> Vec<Cell> {
        let cell = |pair: &AgentPair| {
            Cell::default()
                .with("from", pair.ends[0].name().as_str())
                .with("to", pair.ends[1].name().as_str())
        };
        let pairs = match self.concurrent || self.pairs.len() == 1 {
            true => vec![Cell::default()],
            false => self.pairs.iter().map(cell).collect(),
        };
        if self.loads.settings.is_empty() {
            return pairs;
        }
        let under = |pair: &Cell, (sender, receiver): (u32, u32)| {
            let pair = pair.clone().with("sender_load", u64::from(sender));
            pair.with("receiver_load", u64::from(receiver))
        };
        let under_all = |pair: &Cell| {
            let loads = self.loads.settings.iter();
            loads.map(|loads| under(pair, *loads)).collect::<Vec<_>>()
        };
        pairs.iter().flat_map(under_all).collect()
    }

    fn apply_setting(&mut self, setting: usize) -> Result<(), String> {
        let loads = self.loads.settings.len().max(1);
        if !self.concurrent {
            let at = (setting / loads).min(self.pairs.len() - 1);
            self.active = at..at + 1;
        }
        let gone = |session: &Arc<Session>| {
            let why = session.closed_reason()?;
            Some(format!("agent {}: {why}", session.target()))
        };
        match sessions(self.active_pairs()).into_iter().find_map(gone) {
            Some(why) => Err(why),
            None => self.start_loads(setting % loads),
        }
    }

    fn worker_hosts(&self) -> (&dyn WorkerHost, &dyn WorkerHost) {
        let [from, to] = &self.pairs[self.active.start].places;
        (from.as_ref(), to.as_ref())
    }

    fn host_pairs(&self) -> Vec<HostPair<'_>> {
        self.active_pairs().iter().map(AgentPair::between).collect()
    }

    fn pause_hindrance(&self, contestants: usize) -> Option<String> {
        if self.active_pairs().len() > 1 {
            return Some("several pairs of hosts run at once".into());
        }
        if !self.loads.settings.is_empty() {
            return Some("a load's work is accounted for trial by trial".into());
        }
        let pairs = self.active_pairs().iter();
        pairs
            .filter_map(|pair| pair.pause_hindrance(contestants))
            .next()
    }

    fn interfaces(&self) -> Vec<String> {
        vec![self.pairs[self.active.start].interface.clone()]
    }

    fn path_delay_max(&self) -> Duration {
        let ways = self.active_pairs().iter().map(AgentPair::longest_way);
        ways.max().unwrap_or_default()
    }

    fn begin(&mut self, _seed: u64) {
        for session in sessions(self.active_pairs()) {
            // If the agent is gone the trial will fail.
            let _ = session.send(ToAgent::BeginTrial);
        }
    }

    fn end(&mut self) -> EnvironmentReport {
        let mut made = EnvironmentReport {
            crosses_network: self.active_pairs().iter().any(|pair| !pair.loopback_only),
            ..EnvironmentReport::default()
        };
        self.report_loads(&mut made);
        let sessions = sessions(self.active_pairs());
        let several = sessions.len() > 1;
        for session in sessions {
            let Ok(FromAgent::TrialCounters(found)) = session.request(ToAgent::EndTrial) else {
                continue;
            };
            let found = validate::counters(found);
            let host = session.target();
            // An agent on this host sees the same host, and would count this end's work as a
            // disturbance.
            let own = session.peer().ip().is_loopback();
            let disturbed = found.disturbed.into_iter().filter(|_| !own);
            let disturbed = disturbed.map(|what| format!("{host}: {what}"));
            made.disturbed.extend(disturbed);
            let named = found.evidence.into_iter().filter_map(|(name, value)| {
                let name = format!("agent_{}", name.strip_prefix("host_")?);
                let name = if several {
                    format!("{name}@{host}")
                } else {
                    name
                };
                Some((name, value))
            });
            made.evidence.extend(named);
        }
        made
    }
}
