//! Pairs of hosts, one of them an agent's at least, as what surrounds a race.

use super::place::NearPlace;
use super::{AgentPlace, Session, SessionError};
use crate::path;
use control::session::{FromAgent, Intent, ToAgent};
use control::vet;
use measure::stage::{Between, Surroundings};
use measure::{Place, Stage, ThisHost};
use results::{Cell, Fact, Finding, Machine, Severity};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The least a packet is said to be on its way over a network, beyond its round trip when nothing else
/// is there: what waits in a queue counts as lost when it comes later still.
const WAY_LEAST: Duration = Duration::from_millis(20);

/// One end of a pair.
#[derive(Clone)]
pub enum End {
    /// This host.
    Here,
    /// An agent's.
    There(Arc<Session>),
}

impl End {
    fn name(&self) -> String {
        match self {
            End::Here => "here".into(),
            End::There(session) => session.target().to_string(),
        }
    }

    fn session(&self) -> Option<&Arc<Session>> {
        match self {
            End::Here => None,
            End::There(session) => Some(session),
        }
    }
}

/// A pair with its places: where circuits are opened, and where they are awaited.
struct Pair {
    ends: [End; 2],
    places: [Box<dyn Place>; 2],
    interface: String,
    within: bool,
}

/// Pairs of hosts; each is a setting of the race, or all together are one.
pub struct AgentStage {
    pairs: Vec<Pair>,
    /// The pairs whose turn it is.
    now: Range<usize>,
    together: bool,
}

impl AgentStage {
    /// The pairs, in order: who opens circuits, and who awaits them. `here` starts workers of this
    /// host.
    ///
    /// # Errors
    ///
    /// When two agents cannot reach each other.
    pub fn new(pairs: Vec<[End; 2]>, here: &ThisHost) -> Result<AgentStage, SessionError> {
        let pairs: Result<Vec<Pair>, SessionError> = pairs
            .into_iter()
            .map(|ends| Pair::new(ends, here))
            .collect();
        Ok(AgentStage {
            pairs: pairs?,
            now: 0..1,
            together: false,
        })
    }

    /// All pairs at once in each trial, instead of one after another.
    #[must_use]
    pub fn together(mut self) -> AgentStage {
        self.together = true;
        self.now = 0..self.pairs.len();
        self
    }

    /// What the agents' hosts are and what doctor finds on them, added to what is known of this one.
    ///
    /// # Errors
    ///
    /// When an agent is gone.
    pub fn describe(&self, intent: &Intent, machine: &mut Machine) -> Result<(), SessionError> {
        for session in self.sessions() {
            let host = session.target().to_string();
            let found = described(session, intent)?;
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

    /// The agents, each once.
    pub fn sessions(&self) -> Vec<&Arc<Session>> {
        sessions(&self.pairs)
    }

    /// Those whose turn it is.
    fn pairs(&self) -> &[Pair] {
        &self.pairs[self.now.clone()]
    }
}

/// The agents of some pairs, each once.
fn sessions(pairs: &[Pair]) -> Vec<&Arc<Session>> {
    let mut all: Vec<&Arc<Session>> = Vec::new();
    let ends = pairs.iter().flat_map(|pair| &pair.ends);
    for session in ends.filter_map(End::session) {
        if !all.iter().any(|known| Arc::ptr_eq(known, session)) {
            all.push(session);
        }
    }
    all
}

/// What an agent's host is and what doctor finds on it.
///
/// # Errors
///
/// When the agent is gone.
pub(super) fn described(session: &Session, intent: &Intent) -> Result<Machine, SessionError> {
    let FromAgent::Machine(found) = session.ask(ToAgent::Machine(intent.clone()))? else {
        return Ok(Machine::default());
    };
    let found = vet::description(found);
    let fact = |(group, name, value)| Fact { group, name, value };
    let finding = |found: control::session::FoundThere| Finding {
        severity: match found.severity {
            0 => Severity::Good,
            1 => Severity::Note,
            2 => Severity::Warning,
            _ => Severity::Bad,
        },
        what: found.what,
        effect: found.effect,
        remedy: found.remedy,
    };
    Ok(Machine {
        version: results::SCHEMA_VERSION,
        facts: found.facts.into_iter().map(fact).collect(),
        findings: found.findings.into_iter().map(finding).collect(),
    })
}

impl Pair {
    fn new(ends: [End; 2], here: &ThisHost) -> Result<Pair, SessionError> {
        let within = ends
            .iter()
            .filter_map(End::session)
            .all(|one| one.peer().ip().is_loopback());
        let near =
            |session: &Session| Box::new(NearPlace::new(here.clone(), session)) as Box<dyn Place>;
        let far = |session: &Arc<Session>| {
            Box::new(AgentPlace::new(Arc::clone(session))) as Box<dyn Place>
        };
        let places = match &ends {
            [End::Here, End::Here] => [
                Box::new(here.clone()) as Box<dyn Place>,
                Box::new(here.clone()),
            ],
            [End::Here, End::There(session)] => [near(session), far(session)],
            [End::There(session), End::Here] => [far(session), near(session)],
            [End::There(one), End::There(other)] if Arc::ptr_eq(one, other) => [far(one), far(one)],
            [End::There(one), End::There(other)] => introduced(one, other)?,
        };
        let session = ends.iter().find_map(End::session);
        let interface = session.and_then(|session| interface_to(session.local()));
        Ok(Pair {
            ends,
            places,
            interface: interface.unwrap_or_else(|| "lo".into()),
            within,
        })
    }
}

/// The name of this host's interface with an address.
fn interface_to(local: SocketAddr) -> Option<String> {
    let socket = std::net::UdpSocket::bind((local.ip(), 0)).ok()?;
    let interface = path::facts(socket.as_fd()).interface;
    (!interface.is_empty()).then_some(interface)
}

/// Makes two agents known to each other.
fn introduced(
    one: &Arc<Session>,
    other: &Arc<Session>,
) -> Result<[Box<dyn Place>; 2], SessionError> {
    let odd = |session: &Session| SessionError {
        agent: session.target().to_string(),
        why: "it does not greet as agents do".into(),
    };
    let FromAgent::Expected(token) = other.ask(ToAgent::Expect)? else {
        return Err(odd(other));
    };
    let to = other.peer();
    let FromAgent::Greeted(from) = one.ask(ToAgent::Greet(to, token))? else {
        return Err(odd(one));
    };
    Ok([
        Box::new(AgentPlace::between(Arc::clone(one), from, to.ip())),
        Box::new(AgentPlace::between(Arc::clone(other), to.ip(), from)),
    ])
}

impl Pair {
    /// `lab1`, or `lab1>lab2` where it does not begin here.
    fn name(&self) -> String {
        match &self.ends {
            [End::Here, to] => to.name(),
            [from, to] => format!("{}>{}", from.name(), to.name()),
        }
    }

    fn between(&self) -> Between<'_> {
        Between {
            name: self.name(),
            connector: self.places[0].as_ref(),
            listener: self.places[1].as_ref(),
        }
    }

    /// The longest a packet may be on its way.
    fn longest_way(&self) -> Duration {
        if self.within {
            return Duration::ZERO;
        }
        let trips = self.ends.iter().filter_map(End::session);
        WAY_LEAST + trips.map(|one| one.round_trip()).sum::<Duration>() * 2
    }
}

impl Stage for AgentStage {
    fn settings(&self) -> Vec<Cell> {
        let cell = |from: String, to: String| {
            Cell::default()
                .with("from", from.as_str())
                .with("to", to.as_str())
        };
        if self.together || self.pairs.len() == 1 {
            return vec![Cell::default()];
        }
        let one = |pair: &Pair| cell(pair.ends[0].name(), pair.ends[1].name());
        self.pairs.iter().map(one).collect()
    }

    fn set(&mut self, setting: usize) -> Result<(), String> {
        if !self.together {
            let at = setting.min(self.pairs.len() - 1);
            self.now = at..at + 1;
        }
        let gone = |session: &Arc<Session>| {
            let why = session.gone()?;
            Some(format!("agent {}: {why}", session.target()))
        };
        match sessions(self.pairs()).into_iter().find_map(gone) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn places(&self) -> (&dyn Place, &dyn Place) {
        let [from, to] = &self.pairs[self.now.start].places;
        (from.as_ref(), to.as_ref())
    }

    fn between(&self) -> Vec<Between<'_>> {
        self.pairs().iter().map(Pair::between).collect()
    }

    fn interface(&self) -> &str {
        &self.pairs[self.now.start].interface
    }

    fn longest_way(&self) -> Duration {
        let ways = self.pairs().iter().map(Pair::longest_way);
        ways.max().unwrap_or_default()
    }

    fn begin(&mut self, _seed: u64) {
        for session in sessions(self.pairs()) {
            // One that is gone shows in the trial.
            let _ = session.tell(ToAgent::Begin);
        }
    }

    fn end(&mut self) -> Surroundings {
        let mut made = Surroundings {
            network: self.pairs().iter().any(|pair| !pair.within),
            ..Surroundings::default()
        };
        let sessions = sessions(self.pairs());
        let several = sessions.len() > 1;
        for session in sessions {
            let Ok(FromAgent::Settled(found)) = session.ask(ToAgent::Settle) else {
                continue;
            };
            let found = vet::counters(found);
            let host = session.target();
            // An agent on this host sees what is seen here, and takes this end's work for another's.
            let own = session.peer().ip().is_loopback();
            let told = found.disturbed.into_iter().filter(|_| !own);
            let told = told.map(|what| format!("{host}: {what}"));
            made.disturbed.extend(told);
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
