//! The measuring side: a session with an agent, and what a race needs of it.
//!
//! * [`Target`] - an agent as the user names it.
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
mod target;

pub use place::AgentPlace;
pub use stage::{AgentStage, End};
pub use target::Target;

use crate::keys::KeyFolder;
use clock::ClockBook;
use control::Channel;
use control::session::{FromAgent, PathFacts, ToAgent, Welcome};
use measure::ClockOffset;
use pump::{Command, Pump};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
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
    /// Held by who waits for an answer.
    asking: Mutex<()>,
    answer_limit: Duration,
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
    /// and `stop` ends it at any step.
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
        Session::connect_beside(&[], target, keys, ipv6, stop, waiting)
    }

    /// The same beside sessions with the agents at `others`: one of these, by another name, would have
    /// this client wait for itself.
    ///
    /// # Errors
    ///
    /// As [`Session::connect`].
    pub fn connect_beside(
        others: &[SocketAddr],
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
        let socket = open::dial(target, ipv6, stop).map_err(wrong)?;
        if let Some(peer) = socket.peer_addr().ok().filter(|peer| others.contains(peer)) {
            let twice = "takes part already by another name; give each agent once";
            return Err(wrong(format!("the agent at {peer} {twice}")));
        }
        let (mut link, peer, local) = open::open(socket, target, keys, stop).map_err(wrong)?;
        let welcome = open::hello(&mut link, stop).map_err(wrong)?;
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
            asking: Mutex::new(()),
            answer_limit: ANSWER_LIMIT,
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

    /// Asks and waits for the answer. Answers have no numbers: one that came too late would be taken for
    /// the next question's, so the session ends where one does not come.
    ///
    /// # Errors
    ///
    /// What the agent refuses, or why it is gone.
    pub fn ask(&self, request: ToAgent) -> Result<FromAgent, SessionError> {
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.gone() {
            return Err(self.wrong(why));
        }
        let (answer, answered) = channel();
        self.command(Command::Ask(request, answer))?;
        let answer = self.wait(&answered, self.answer_limit);
        match answer.inspect_err(|error| self.give_up(&error.why))? {
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

    /// The session is over for that reason, if it was not for another.
    fn give_up(&self, why: &str) {
        lock(&self.state).gone.get_or_insert_with(|| why.to_owned());
        // One that has ended needs no telling.
        let _ = self.command(Command::Leave);
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
    use control::frame::{ANSWER_MAX, Frames, encode};
    use std::io::Read;
    use std::net::TcpListener;

    /// An agent that keeps its first answer about the way back until it is asked again, and tells the time
    /// meanwhile; how often it was asked.
    fn tardy(listener: &TcpListener) -> u32 {
        let (mut client, _) = listener.accept().expect("a client");
        let preface = crate::preface::agent(crate::preface::Mode::Open);
        client.write_all(&preface).expect("it is sent");
        let mut piece = [0; 4096];
        client
            .read_exact(&mut piece[..preface.len()])
            .expect("a preface");
        let mut frames = Frames::new(ANSWER_MAX);
        let mut asked = 0;
        while let Ok(len @ 1..) = client.read(&mut piece) {
            frames.push(&piece[..len]);
            while let Some(request) = frames.take::<ToAgent>().expect("good frames") {
                let answers = match request {
                    ToAgent::Hello(version) => {
                        let welcome = Welcome {
                            version,
                            ..Welcome::default()
                        };
                        vec![FromAgent::Hello(welcome), FromAgent::Ready]
                    }
                    ToAgent::Clock(number) => vec![FromAgent::Clock(number, 1)],
                    ToAgent::Path if asked == 0 => {
                        asked += 1;
                        Vec::new()
                    }
                    ToAgent::Path => {
                        asked += 1;
                        vec![FromAgent::Path(PathFacts::default()); 2]
                    }
                    _ => Vec::new(),
                };
                for answer in answers {
                    // A client that has seen enough is gone.
                    let _ = client.write_all(&encode(&answer, ANSWER_MAX).expect("it fits"));
                }
            }
        }
        asked
    }

    #[test]
    fn an_answer_that_comes_too_late_is_nobodys() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let agent = std::thread::spawn(move || tardy(&listener));
        let nowhere = KeyFolder::at("/nowhere/towpath-keys");
        let (target, stop) = (address.parse().expect("an address"), AtomicBool::new(false));
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let mut session = session.unwrap_or_else(|error| panic!("{error}"));
        session.answer_limit = Duration::from_millis(20);
        let why = session.path_there().expect_err("it does not answer").why;
        assert!(why.contains("no answer within 20ms"), "{why}");
        session.answer_limit = Duration::from_secs(60);
        // The session ends with it, and says why for as long as anybody asks.
        for _ in 0..2 {
            assert_eq!(session.path_there().expect_err("it is over").why, why);
            assert_eq!(session.gone(), Some(why.clone()));
        }
        drop(session);
        assert_eq!(agent.join().expect("no panic"), 1);
    }

    #[test]
    fn one_who_wants_to_stop_waits_for_nobody() {
        // Somebody listens and says nothing, so each step would wait for its limit.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let target: Target = address.parse().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let stopping = std::thread::spawn(move || {
            let client = listener.accept().expect("a client");
            theirs.store(true, Ordering::Relaxed);
            client
        });
        let nowhere = KeyFolder::at("/nowhere/towpath-keys");
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").why;
        assert!(why.contains("stopped by the user"), "{why}");
        drop(stopping.join().expect("no panic"));
        // And where nobody has been asked yet.
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").why;
        assert!(why.contains("stopped by the user"), "{why}");
    }
}
