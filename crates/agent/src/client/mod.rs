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

mod address;
pub mod clock;
pub mod environment;
mod handshake;
mod path_diagnosis;
pub mod path_probe;
mod session_thread;
pub mod worker_host;

pub use address::AgentAddress;
pub use environment::{AgentEnvironment, PathEnd};
pub use worker_host::AgentHost;

use crate::keys::KeyFolder;
use clock::ClockEstimator;
use control::Channel;
use control::session::{AgentHello, FromAgent, PathFacts, ToAgent};
use measure::ClockOffset;
use session_thread::{Command, SessionThread};
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
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a worker there may take to end: two seconds of its own, and the way.
const WORKER_END_TIMEOUT: Duration = Duration::from_secs(10);

/// Round trips that compare the clocks before and after a trial.
const CLOCK_SAMPLES: u32 = 8;

/// Why there is no session, or none any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("agent {agent}: {reason}")]
pub struct SessionError {
    /// The agent.
    pub agent: String,
    /// What is wrong and what to do.
    pub reason: String,
}

/// A session with an agent. It ends when this is dropped.
pub struct Session {
    target: AgentAddress,
    peer: SocketAddr,
    local: SocketAddr,
    /// The connection's socket, to ask the kernel about it.
    socket: OwnedFd,
    welcome: AgentHello,
    commands: Mutex<Sender<Command>>,
    wakeup: UnixStream,
    shared: Arc<Mutex<SessionShared>>,
    next_worker: AtomicU32,
    /// Held by who waits for an answer.
    request_lock: Mutex<()>,
    answer_timeout: Duration,
    thread: Option<JoinHandle<()>>,
}

/// What the pump has found out.
#[derive(Default)]
struct SessionShared {
    clock: ClockEstimator,
    /// Why the session is over.
    closed_reason: Option<String>,
}

fn lock(state: &Mutex<SessionShared>) -> MutexGuard<'_, SessionShared> {
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
        target: &AgentAddress,
        keys: &KeyFolder,
        ipv6: bool,
        stop: &AtomicBool,
        waiting: &mut dyn FnMut(u32),
    ) -> Result<Session, SessionError> {
        Session::connect_excluding(&[], target, keys, ipv6, stop, waiting)
    }

    /// The same beside sessions with the agents at `others`: one of these, by another name, would have
    /// this client wait for itself.
    ///
    /// # Errors
    ///
    /// As [`Session::connect`].
    pub fn connect_excluding(
        others: &[SocketAddr],
        target: &AgentAddress,
        keys: &KeyFolder,
        ipv6: bool,
        stop: &AtomicBool,
        waiting: &mut dyn FnMut(u32),
    ) -> Result<Session, SessionError> {
        let wrong = |why: String| SessionError {
            agent: target.to_string(),
            reason: why,
        };
        let socket = handshake::dial(target, ipv6, stop).map_err(wrong)?;
        if let Some(peer) = socket.peer_addr().ok().filter(|peer| others.contains(peer)) {
            let twice = "takes part already by another name; give each agent once";
            return Err(wrong(format!("the agent at {peer} {twice}")));
        }
        let (mut connection, peer, local) =
            handshake::authenticate(socket, target, keys, stop).map_err(wrong)?;
        let welcome = handshake::hello(&mut connection, stop).map_err(wrong)?;
        handshake::wait_in_queue(&mut connection, stop, waiting).map_err(wrong)?;
        let socket = connection.descriptor().try_clone_to_owned();
        let socket = socket.map_err(|error| wrong(error.to_string()))?;
        let (commands, received) = channel();
        let (wakeup, wakeup_rx) = UnixStream::pair().map_err(|error| wrong(error.to_string()))?;
        wakeup
            .set_nonblocking(true)
            .map_err(|error| wrong(error.to_string()))?;
        let state = Arc::<Mutex<SessionShared>>::default();
        let thread = SessionThread::new(
            connection,
            received,
            wakeup_rx,
            Arc::clone(&state),
            peer.ip(),
        );
        let thread = std::thread::Builder::new()
            .name("agent session".into())
            .spawn(move || thread.run());
        Ok(Session {
            thread: Some(thread.map_err(|error| wrong(error.to_string()))?),
            target: target.clone(),
            peer,
            local,
            socket,
            welcome,
            commands: Mutex::new(commands),
            wakeup,
            shared: state,
            next_worker: AtomicU32::new(1),
            request_lock: Mutex::new(()),
            answer_timeout: ANSWER_TIMEOUT,
        })
    }

    /// The agent, as the user named it.
    pub fn target(&self) -> &AgentAddress {
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
    pub fn welcome(&self) -> &AgentHello {
        &self.welcome
    }

    /// Why the session is over, if it is.
    pub fn closed_reason(&self) -> Option<String> {
        lock(&self.shared).closed_reason.clone()
    }

    /// The shortest round trip so far.
    pub fn min_rtt(&self) -> Duration {
        Duration::from_nanos(lock(&self.shared).clock.min_rtt_ns())
    }

    /// The connection as this host's kernel sees it.
    pub fn local_path(&self) -> PathFacts {
        crate::path::path_facts(self.socket.as_fd())
    }

    /// The connection as the agent's kernel sees it.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn remote_path(&self) -> Result<PathFacts, SessionError> {
        match self.request(ToAgent::Path)? {
            FromAgent::Path(facts) => Ok(control::validate::path(facts)),
            _ => Err(self.error("it does not say how its end of the connection fares".into())),
        }
    }

    /// Asks and waits for the answer. Answers have no numbers: one that came too late would be taken for
    /// the next question's, so the session ends where one does not come.
    ///
    /// # Errors
    ///
    /// What the agent refuses, or why it is gone.
    pub fn request(&self, request: ToAgent) -> Result<FromAgent, SessionError> {
        let _one_at_a_time = self
            .request_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.closed_reason() {
            return Err(self.error(why));
        }
        let (answer, answered) = channel();
        self.command(Command::Request(request, answer))?;
        let answer = self.wait(&answered, self.answer_timeout);
        match answer.inspect_err(|error| self.abort(&error.reason))? {
            FromAgent::Refused(_, why) => Err(self.error(why)),
            other => Ok(other),
        }
    }

    /// Sends a request that has no answer.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn send(&self, request: ToAgent) -> Result<(), SessionError> {
        self.command(Command::Send(request))
    }

    /// Compares the clocks by a few round trips, and says what all of them tell.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn clock_offset(&self) -> Result<ClockOffset, SessionError> {
        let book = self.compare_clocks()?;
        let offset = book.offset(measure::clock::now_ns());
        offset.ok_or_else(|| self.error("it tells no time that can be".into()))
    }

    /// Compares the clocks again: how far they were from `first` since then, at the most, ns.
    ///
    /// # Errors
    ///
    /// Why the agent is gone, or that a clock jumped.
    pub fn clock_error_since(&self, first: ClockOffset) -> Result<u64, SessionError> {
        let book = self.compare_clocks()?;
        let bound_ns = book.error_bound_since(first, measure::clock::now_ns());
        let jumped = "its clock or ours was set meanwhile, or runs faster than clocks are turned";
        bound_ns.ok_or_else(|| self.error(jumped.into()))
    }

    fn compare_clocks(&self) -> Result<ClockEstimator, SessionError> {
        let (done, waited) = channel();
        self.command(Command::CompareClocks(CLOCK_SAMPLES, done))?;
        self.wait(&waited, ANSWER_TIMEOUT)?;
        Ok(lock(&self.shared).clock.clone())
    }

    /// Starts a worker there; its messages come and go through the channel.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub(crate) fn spawn(&self) -> Result<(u32, Channel), SessionError> {
        let pair = UnixStream::pair().map_err(|error| self.error(error.to_string()))?;
        let number = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.command(Command::Spawn(number, Channel::new(pair.1.into())))?;
        Ok((number, Channel::new(pair.0.into())))
    }

    /// Waits until a worker there has ended; one whose agent is gone has, or soon will.
    pub(crate) fn await_end(&self, number: u32) {
        let (ended, waited) = channel();
        if self.command(Command::AwaitEnd(number, ended)).is_ok() {
            // An agent that says nothing ends it by itself.
            let _ = waited.recv_timeout(WORKER_END_TIMEOUT);
        }
    }

    /// The session is over for that reason, if it was not for another.
    fn abort(&self, why: &str) {
        lock(&self.shared)
            .closed_reason
            .get_or_insert_with(|| why.to_owned());
        // One that has ended needs no telling.
        let _ = self.command(Command::Leave);
    }

    fn command(&self, command: Command) -> Result<(), SessionError> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).map_err(|_| self.closed_error())?;
        // A bell that was rung and not heard yet rings for this one too.
        let _ = (&self.wakeup).write(&[1]);
        Ok(())
    }

    fn wait<T>(&self, answered: &Receiver<T>, limit: Duration) -> Result<T, SessionError> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        answered.recv_timeout(limit).map_err(|error| match error {
            Timeout => self.error(format!("no answer within {limit:?}")),
            Disconnected => self.closed_error(),
        })
    }

    fn closed_error(&self) -> SessionError {
        self.error(
            self.closed_reason()
                .unwrap_or_else(|| "the session is over".into()),
        )
    }

    fn error(&self, why: String) -> SessionError {
        SessionError {
            agent: self.target.to_string(),
            reason: why,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.command(Command::Leave);
        if let Some(thread) = self.thread.take() {
            // A panic there was told when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::frame::{FrameDecoder, RESPONSE_MAX, encode};
    use std::io::Read;
    use std::net::TcpListener;

    /// An agent that keeps its first answer about the way back until it is asked again, and tells the time
    /// meanwhile; how often it was asked.
    fn slow_agent(listener: &TcpListener) -> u32 {
        let (mut client, _) = listener.accept().expect("a client");
        let preface =
            crate::version_exchange::encode_agent(crate::version_exchange::AuthMode::NoKeys);
        client.write_all(&preface).expect("it is sent");
        let mut piece = [0; 4096];
        client
            .read_exact(&mut piece[..preface.len()])
            .expect("a preface");
        let mut frames = FrameDecoder::new(RESPONSE_MAX);
        let mut asked = 0;
        while let Ok(len @ 1..) = client.read(&mut piece) {
            frames.push(&piece[..len]);
            while let Some(request) = frames.next_message::<ToAgent>().expect("good frames") {
                let answers = match request {
                    ToAgent::Hello(version) => {
                        let welcome = AgentHello {
                            version,
                            ..AgentHello::default()
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
                    let _ = client.write_all(&encode(&answer, RESPONSE_MAX).expect("it fits"));
                }
            }
        }
        asked
    }

    #[test]
    fn late_answer_closes_session() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let agent = std::thread::spawn(move || slow_agent(&listener));
        let nowhere = KeyFolder::at("/nowhere/towpath-keys");
        let (target, stop) = (address.parse().expect("an address"), AtomicBool::new(false));
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let mut session = session.unwrap_or_else(|error| panic!("{error}"));
        session.answer_timeout = Duration::from_millis(20);
        let why = session
            .remote_path()
            .expect_err("it does not answer")
            .reason;
        assert!(why.contains("no answer within 20ms"), "{why}");
        session.answer_timeout = Duration::from_secs(60);
        // The session ends with it, and says why for as long as anybody asks.
        for _ in 0..2 {
            assert_eq!(session.remote_path().expect_err("it is over").reason, why);
            assert_eq!(session.closed_reason(), Some(why.clone()));
        }
        drop(session);
        assert_eq!(agent.join().expect("no panic"), 1);
    }

    #[test]
    fn stop_flag_aborts_connect() {
        // Somebody listens and says nothing, so each step would wait for its limit.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("bound").to_string();
        let target: AgentAddress = address.parse().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let stopping = std::thread::spawn(move || {
            let client = listener.accept().expect("a client");
            theirs.store(true, Ordering::Relaxed);
            client
        });
        let nowhere = KeyFolder::at("/nowhere/towpath-keys");
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").reason;
        assert!(why.contains("stopped by the user"), "{why}");
        drop(stopping.join().expect("no panic"));
        // And where nobody has been asked yet.
        let session = Session::connect(&target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").reason;
        assert!(why.contains("stopped by the user"), "{why}");
    }
}
