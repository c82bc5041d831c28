//! Pairs of hosts, one of them an agent's at least, as what surrounds a race.

use super::place::NearPlace;
use super::{AgentPlace, Session, SessionError};
use crate::path;
use control::session::{FromAgent, Intent, ToAgent};
use control::vet;
use measure::stage::Surroundings;
use measure::{Place, Stage, ThisHost};
use results::{Cell, Fact, Finding, Machine, Severity};
use std::net::SocketAddr;
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

/// Pairs of hosts; each is a setting of the race.
pub struct AgentStage {
    pairs: Vec<Pair>,
    now: usize,
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
            now: 0,
        })
    }

    /// What the agents' hosts are and what doctor finds on them, added to what is known of this one.
    ///
    /// # Errors
    ///
    /// When an agent is gone.
    pub fn describe(&self, intent: &Intent, machine: &mut Machine) -> Result<(), SessionError> {
        for session in self.sessions() {
            let answer = session.ask(ToAgent::Machine(intent.clone()))?;
            let FromAgent::Machine(found) = answer else {
                continue;
            };
            let host = session.target().to_string();
            let found = vet::description(found);
            let fact = |(group, name, value): (String, String, String)| Fact {
                group: format!("{host}: {group}"),
                name,
                value,
            };
            machine.facts.extend(found.facts.into_iter().map(fact));
            let finding = |found: control::session::FoundThere| Finding {
                severity: match found.severity {
                    0 => Severity::Good,
                    1 => Severity::Note,
                    2 => Severity::Warning,
                    _ => Severity::Bad,
                },
                what: format!("{host}: {}", found.what),
                effect: found.effect,
                remedy: found.remedy,
            };
            machine
                .findings
                .extend(found.findings.into_iter().map(finding));
        }
        Ok(())
    }

    /// The agents, each once.
    pub fn sessions(&self) -> Vec<&Arc<Session>> {
        let mut all: Vec<&Arc<Session>> = Vec::new();
        for session in self
            .pairs
            .iter()
            .flat_map(|pair| &pair.ends)
            .filter_map(End::session)
        {
            if !all.iter().any(|known| Arc::ptr_eq(known, session)) {
                all.push(session);
            }
        }
        all
    }

    fn pair(&self) -> &Pair {
        &self.pairs[self.now]
    }
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

impl Stage for AgentStage {
    fn settings(&self) -> Vec<Cell> {
        if self.pairs.len() == 1 {
            return vec![Cell::default()];
        }
        let cell = |pair: &Pair| {
            let [from, to] = &pair.ends;
            Cell::default()
                .with("from", from.name().as_str())
                .with("to", to.name().as_str())
        };
        self.pairs.iter().map(cell).collect()
    }

    fn set(&mut self, setting: usize) -> Result<(), String> {
        self.now = setting.min(self.pairs.len() - 1);
        let gone = |session: &Arc<Session>| {
            let why = session.gone()?;
            Some(format!("agent {}: {why}", session.target()))
        };
        match self
            .pair()
            .ends
            .iter()
            .filter_map(End::session)
            .find_map(gone)
        {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn places(&self) -> (&dyn Place, &dyn Place) {
        let [from, to] = &self.pair().places;
        (from.as_ref(), to.as_ref())
    }

    fn interface(&self) -> &str {
        &self.pair().interface
    }

    fn longest_way(&self) -> Duration {
        if self.pair().within {
            return Duration::ZERO;
        }
        let trips = self
            .pair()
            .ends
            .iter()
            .filter_map(End::session)
            .map(|one| one.round_trip());
        WAY_LEAST + trips.sum::<Duration>() * 2
    }

    fn begin(&mut self, _seed: u64) {
        for session in self.pair().ends.iter().filter_map(End::session) {
            // One that is gone shows in the trial.
            let _ = session.tell(ToAgent::Begin);
        }
    }

    fn end(&mut self) -> Surroundings {
        let mut made = Surroundings {
            network: !self.pair().within,
            ..Surroundings::default()
        };
        for session in self.pair().ends.iter().filter_map(End::session) {
            let Ok(FromAgent::Settled(found)) = session.ask(ToAgent::Settle) else {
                continue;
            };
            let found = vet::counters(found);
            let host = session.target();
            let told = found
                .disturbed
                .into_iter()
                .map(|what| format!("{host}: {what}"));
            made.disturbed.extend(told);
            let named = found.evidence.into_iter().filter_map(|(name, value)| {
                Some((format!("agent_{}", name.strip_prefix("host_")?), value))
            });
            made.evidence.extend(named);
        }
        made
    }
}
