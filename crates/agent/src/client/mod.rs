//! The measuring side: a session with an agent, and what a race needs of it.
//!
//! * [`Session`] - the connection, from its first octet to the last; a thread of its own keeps it alive.
//! * `open` - from nothing to the client's turn.
//! * `pump` - that thread: requests out, answers in, workers' messages to and fro.
//! * [`clock`] - how the agent's clock compares with ours.
//! * [`place`] - where workers run, for crate `measure`.
//! * [`stage`] - pairs of hosts, as what surrounds a race.
//! * [`survey`] - what lies between two hosts, and `findings` - what that means for a race.

pub mod clock;
mod findings;
mod open;
pub mod place;
mod pump;
pub mod stage;
pub mod survey;

pub use place::AgentPlace;
pub use stage::{AgentStage, End};

use crate::PORT;
use crate::keys::KeyFolder;
use clock::ClockBook;
use control::Channel;
use control::session::{FromAgent, PathFacts, ToAgent, Welcome};
use measure::ClockOffset;
use pump::{Command, Pump};
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an agent may take to answer a request: a look at its machine takes an eighth of a second,
/// and a cut of the connection may lie between.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// How long a worker there may take to end: two seconds of its own, and the way.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Round trips that compare the clocks before and after a trial.
const ROUND_TRIPS: u32 = 8;

/// An agent as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let odd = || {
            format!("'{text}' is no host; give a name or an address, with :PORT or [ADDRESS]:PORT")
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Target {
                host: address.ip().to_string(),
                port: address.port(),
            });
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(Target {
                host: address.to_string(),
                port: PORT,
            });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| odd())?),
            None => (text, PORT),
        };
        let fine = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || host.len() > 253 || !host.chars().all(fine) || port == 0 {
            return Err(odd());
        }
        Ok(Target {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        if self.port == PORT {
            Ok(())
        } else {
            write!(f, ":{}", self.port)
        }
    }
}

impl Target {
    /// Its addresses of one family.
    fn addresses(&self, ipv6: bool) -> io::Result<Vec<SocketAddr>> {
        let all = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut all: Vec<SocketAddr> = all.collect();
        let literal = self.host.parse::<IpAddr>().is_ok();
        all.retain(|address| literal || address.is_ipv6() == ipv6);
        all.truncate(8);
        Ok(all)
    }
}

/// Why there is no session, or none any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("agent {agent}: {why}")]
pub struct SessionError {
    /// The agent.
    pub agent: String,
    /// What is wrong and what to do.
    pub why: String,
}

/// A session with an agent. It ends when this is dropped.
pub struct Session {
    target: Target,
    peer: SocketAddr,
    local: SocketAddr,
    /// The connection's socket, to ask the kernel about it.
    socket: OwnedFd,
    welcome: Welcome,
    commands: Mutex<Sender<Command>>,
    bell: UnixStream,
    state: Arc<Mutex<Known>>,
    workers: AtomicU32,
    pump: Option<JoinHandle<()>>,
}

/// What the pump has found out.
#[derive(Default)]
struct Known {
    clock: ClockBook,
    /// Why the session is over.
    gone: Option<String>,
}

fn lock(state: &Mutex<Known>) -> MutexGuard<'_, Known> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Connects to `target`, proves keys, and waits for its turn; `waiting` hears how many go first,
    /// and `stop` ends the waiting.
    ///
    /// # Errors
    ///
    /// A [`SessionError`] that says what to do.
    pub fn connect(
        target: &Target,
        keys: &KeyFolder,
        ipv6: bool,
        stop: &AtomicBool,
        waiting: &mut dyn FnMut(u32),
    ) -> Result<Session, SessionError> {
        let wrong = |why: String| SessionError {
            agent: target.to_string(),
            why,
        };
        let socket = open::dial(target, ipv6).map_err(wrong)?;
        let (mut link, peer, local) = open::open(socket, target, keys).map_err(wrong)?;
        let welcome = open::hello(&mut link).map_err(|error| wrong(error.to_string()))?;
        open::queue(&mut link, stop, waiting).map_err(wrong)?;
        let socket = link.descriptor().try_clone_to_owned();
        let socket = socket.map_err(|error| wrong(error.to_string()))?;
        let (commands, received) = channel();
        let (bell, rope) = UnixStream::pair().map_err(|error| wrong(error.to_string()))?;
        bell.set_nonblocking(true)
            .map_err(|error| wrong(error.to_string()))?;
        let state = Arc::<Mutex<Known>>::default();
        let pump = Pump::new(link, received, rope, Arc::clone(&state), peer.ip());
        let pump = std::thread::Builder::new()
            .name("agent session".into())
            .spawn(move || pump.run());
        Ok(Session {
            pump: Some(pump.map_err(|error| wrong(error.to_string()))?),
            target: target.clone(),
            peer,
            local,
            socket,
            welcome,
            commands: Mutex::new(commands),
            bell,
            state,
            workers: AtomicU32::new(1),
        })
    }

    /// The agent, as the user named it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where it is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This end's address on the way there.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What it allows and has.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Why the session is over, if it is.
    pub fn gone(&self) -> Option<String> {
        lock(&self.state).gone.clone()
    }

    /// The shortest round trip so far.
    pub fn round_trip(&self) -> Duration {
        Duration::from_nanos(lock(&self.state).clock.round_trip_ns())
    }

    /// The connection as this host's kernel sees it.
    pub fn path_here(&self) -> PathFacts {
        crate::path::facts(self.socket.as_fd())
    }

    /// The connection as the agent's kernel sees it.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn path_there(&self) -> Result<PathFacts, SessionError> {
        match self.ask(ToAgent::Path)? {
            FromAgent::Path(facts) => Ok(control::vet::path(facts)),
            _ => Err(self.wrong("it does not say how its end of the connection fares".into())),
        }
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// What the agent refuses, or why it is gone.
    pub fn ask(&self, request: ToAgent) -> Result<FromAgent, SessionError> {
        let (answer, answered) = channel();
        self.command(Command::Ask(request, answer))?;
        match self.wait(&answered, ANSWER_LIMIT)? {
            FromAgent::Refused(_, why) => Err(self.wrong(why)),
            other => Ok(other),
        }
    }

    /// Sends a request that has no answer.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn tell(&self, request: ToAgent) -> Result<(), SessionError> {
        self.command(Command::Tell(request))
    }

    /// Compares the clocks by a few round trips, and says what all of them tell.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn clock(&self) -> Result<ClockOffset, SessionError> {
        let book = self.compared()?;
        let offset = book.offset(measure::clock::now_ns());
        offset.ok_or_else(|| self.wrong("it tells no time that can be".into()))
    }

    /// Compares the clocks again: how far they were from `first` since then, at the most, ns.
    ///
    /// # Errors
    ///
    /// Why the agent is gone, or that a clock jumped.
    pub fn clock_since(&self, first: ClockOffset) -> Result<u64, SessionError> {
        let book = self.compared()?;
        let bound_ns = book.bound_since(first, measure::clock::now_ns());
        let jumped = "its clock or ours was set meanwhile, or runs faster than clocks are turned";
        bound_ns.ok_or_else(|| self.wrong(jumped.into()))
    }

    fn compared(&self) -> Result<ClockBook, SessionError> {
        let (done, waited) = channel();
        self.command(Command::Compare(ROUND_TRIPS, done))?;
        self.wait(&waited, ANSWER_LIMIT)?;
        Ok(lock(&self.state).clock.clone())
    }

    /// Starts a worker there; its messages come and go through the channel.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub(crate) fn spawn(&self) -> Result<(u32, Channel), SessionError> {
        let pair = UnixStream::pair().map_err(|error| self.wrong(error.to_string()))?;
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        self.command(Command::Spawn(number, Channel::new(pair.1.into())))?;
        Ok((number, Channel::new(pair.0.into())))
    }

    /// Waits until a worker there has ended; one whose agent is gone has, or soon will.
    pub(crate) fn await_end(&self, number: u32) {
        let (ended, waited) = channel();
        if self.command(Command::AwaitEnd(number, ended)).is_ok() {
            // An agent that says nothing ends it by itself.
            let _ = waited.recv_timeout(END_LIMIT);
        }
    }

    fn command(&self, command: Command) -> Result<(), SessionError> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).map_err(|_| self.over())?;
        // A bell that was rung and not heard yet rings for this one too.
        let _ = (&self.bell).write(&[1]);
        Ok(())
    }

    fn wait<T>(&self, answered: &Receiver<T>, limit: Duration) -> Result<T, SessionError> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        answered.recv_timeout(limit).map_err(|error| match error {
            Timeout => self.wrong(format!("no answer within {limit:?}")),
            Disconnected => self.over(),
        })
    }

    fn over(&self) -> SessionError {
        self.wrong(self.gone().unwrap_or_else(|| "the session is over".into()))
    }

    fn wrong(&self, why: String) -> SessionError {
        SessionError {
            agent: self.target.to_string(),
            why,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.command(Command::Leave);
        if let Some(pump) = self.pump.take() {
            // A panic there was told when it happened.
            let _ = pump.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_in_the_usual_spellings() {
        let is = |text: &str, host: &str, port: u16| {
            let target: Target = text.parse().unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((target.host.as_str(), target.port), (host, port));
        };
        is("lab", "lab", PORT);
        is("lab.example.org:99", "lab.example.org", 99);
        is("192.0.2.1", "192.0.2.1", PORT);
        is("192.0.2.1:5", "192.0.2.1", 5);
        is("2001:db8::1", "2001:db8::1", PORT);
        is("[2001:db8::1]", "2001:db8::1", PORT);
        is("[2001:db8::1]:8", "2001:db8::1", 8);
        for wrong in [
            "",
            "a b",
            "lab:",
            "lab:x",
            "lab:0",
            "http://lab",
            "lab:70000",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
