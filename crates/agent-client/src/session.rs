//! A session with an agent.

use crate::clock::ClockEstimator;
use crate::handshake;
use crate::session_thread::{Command, SessionThread};
use agent::AgentAddress;
use agent::keys::KeyFolder;
use control::Channel;
use control::session::{AgentHello, FromAgent, PathFacts, ToAgent};
use loadgen::ClockOffset;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Timeout of a request: examining its machine takes an agent 1/8 s, and an outage of the
/// connection may intervene.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a remote worker may take to end: two seconds of its own, and the path.
const WORKER_END_TIMEOUT: Duration = Duration::from_secs(10);

/// Clock samples taken before and after a trial.
const CLOCK_SAMPLES: u32 = 8;

/// Why a session could not be opened, or ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("agent {agent}: {reason}")]
pub struct SessionError {
    /// The agent.
    pub agent: String,
    /// The reason and the remedy.
    pub reason: String,
}

/// A session with an agent; dropping it ends it.
pub struct Session {
    target: AgentAddress,
    peer: SocketAddr,
    local: SocketAddr,
    /// The connection's socket, for path queries.
    socket: OwnedFd,
    welcome: AgentHello,
    commands: Mutex<Sender<Command>>,
    wakeup: UnixStream,
    shared: Arc<Mutex<SessionShared>>,
    next_worker: AtomicU32,
    /// Locked while a request awaits its answer.
    request_lock: Mutex<()>,
    answer_timeout: Duration,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the session thread.
#[derive(Default)]
pub(crate) struct SessionShared {
    pub(crate) clock: ClockEstimator,
    /// Why the session ended.
    pub(crate) closed_reason: Option<String>,
}

pub(crate) fn lock(state: &Mutex<SessionShared>) -> MutexGuard<'_, SessionShared> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Connects to `target`, authenticates both ends and waits in its queue. `waiting` is called
    /// with the number of clients ahead; setting `stop` aborts at any step. The agents at `others` are
    /// refused: with one of these, reached by another name, the client would wait for itself.
    ///
    /// # Errors
    ///
    /// A [`SessionError`] that says what to do.
    pub fn connect(
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
            (local.ip(), peer.ip()),
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

    /// The agent's address as the user gave it.
    pub fn target(&self) -> &AgentAddress {
        &self.target
    }

    /// The agent's socket address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The local socket address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The agent's limits and capabilities.
    pub fn welcome(&self) -> &AgentHello {
        &self.welcome
    }

    /// Why the session ended, if it has.
    pub fn closed_reason(&self) -> Option<String> {
        lock(&self.shared).closed_reason.clone()
    }

    /// The minimum RTT so far.
    pub fn min_rtt(&self) -> Duration {
        Duration::from_nanos(lock(&self.shared).clock.min_rtt_ns())
    }

    /// The connection as this host's kernel sees it.
    pub fn local_path(&self) -> PathFacts {
        agent::path::path_facts(self.socket.as_fd())
    }

    /// The connection as the agent's kernel sees it.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn remote_path(&self) -> Result<PathFacts, SessionError> {
        match self.request(ToAgent::Path)? {
            FromAgent::Path(facts) => Ok(control::validate::path(facts)),
            _ => Err(self.error("it does not report on its end of the connection".into())),
        }
    }

    /// Sends a request and waits for its answer. Answers carry no request number, so a late one
    /// would be taken for the next request's: a timeout ends the session.
    ///
    /// # Errors
    ///
    /// The agent's refusal, or why it is gone.
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

    /// Takes some clock samples; gives the offset by all samples so far.
    ///
    /// # Errors
    ///
    /// Why the agent is gone.
    pub fn clock_offset(&self) -> Result<ClockOffset, SessionError> {
        let book = self.compare_clocks()?;
        let offset = book.offset(loadgen::clock::now_ns());
        offset.ok_or_else(|| self.error("it reports an impossible time".into()))
    }

    /// Takes some clock samples; gives the largest deviation of the offset from `first` since then,
    /// ns.
    ///
    /// # Errors
    ///
    /// Why the agent is gone, or that a clock was stepped.
    pub fn clock_error_since(&self, first: ClockOffset) -> Result<u64, SessionError> {
        let book = self.compare_clocks()?;
        let bound_ns = book.error_bound_since(first, loadgen::clock::now_ns());
        let jumped = "its clock or ours was stepped, or drifts too fast";
        bound_ns.ok_or_else(|| self.error(jumped.into()))
    }

    fn compare_clocks(&self) -> Result<ClockEstimator, SessionError> {
        let (done, waited) = channel();
        self.command(Command::CompareClocks(CLOCK_SAMPLES, done))?;
        self.wait(&waited, ANSWER_TIMEOUT)?;
        Ok(lock(&self.shared).clock.clone())
    }

    /// Starts a remote worker; the channel carries its messages. Errors: why the agent is gone.
    pub(crate) fn spawn(&self) -> Result<(u32, Channel), SessionError> {
        let pair = UnixStream::pair().map_err(|error| self.error(error.to_string()))?;
        let number = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.command(Command::Spawn(number, Channel::new(pair.1.into())))?;
        Ok((number, Channel::new(pair.0.into())))
    }

    /// Waits until a remote worker has ended. If the agent is gone, so are its workers, or soon
    /// will be.
    pub(crate) fn await_end(&self, number: u32) {
        let (ended, waited) = channel();
        if self.command(Command::AwaitEnd(number, ended)).is_ok() {
            // On a timeout the agent ends the worker by itself.
            let _ = waited.recv_timeout(WORKER_END_TIMEOUT);
        }
    }

    /// Ends the session for this reason, unless it has ended for another.
    fn abort(&self, why: &str) {
        lock(&self.shared)
            .closed_reason
            .get_or_insert_with(|| why.to_owned());
        // Fails only if the thread has ended.
        let _ = self.command(Command::Leave);
    }

    fn command(&self, command: Command) -> Result<(), SessionError> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).map_err(|_| self.closed_error())?;
        // A full socket means that a wake-up is pending.
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
            // A panic there was already printed.
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

    /// An agent that withholds its first path answer until the next request, but answers clock
    /// requests; gives the number of path requests.
    fn slow_agent(listener: &TcpListener) -> u32 {
        let (mut client, _) = listener.accept().expect("a client");
        let version =
            agent::version_exchange::encode_agent(agent::version_exchange::AuthMode::NoKeys);
        client.write_all(&version).expect("it is sent");
        let mut piece = [0; 4096];
        client
            .read_exact(&mut piece[..version.len()])
            .expect("a version exchange");
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
                    // The client may have left.
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
        let session = Session::connect(&[], &target, &nowhere, false, &stop, &mut |_| {});
        let mut session = session.unwrap_or_else(|error| panic!("{error}"));
        session.answer_timeout = Duration::from_millis(20);
        let why = session
            .remote_path()
            .expect_err("it does not answer")
            .reason;
        assert!(why.contains("no answer within 20ms"), "{why}");
        session.answer_timeout = Duration::from_secs(60);
        // The session ends with the first timeout and keeps its reason.
        for _ in 0..2 {
            assert_eq!(session.remote_path().expect_err("it is over").reason, why);
            assert_eq!(session.closed_reason(), Some(why.clone()));
        }
        drop(session);
        assert_eq!(agent.join().expect("no panic"), 1);
    }

    #[test]
    fn stop_flag_aborts_connect() {
        // The listener sends nothing, so each step would wait for its timeout.
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
        let session = Session::connect(&[], &target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").reason;
        assert!(why.contains("stopped by the user"), "{why}");
        drop(stopping.join().expect("no panic"));
        // The flag also stops a connect that has not begun.
        let session = Session::connect(&[], &target, &nowhere, false, &stop, &mut |_| {});
        let why = session.err().expect("no session").reason;
        assert!(why.contains("stopped by the user"), "{why}");
    }
}
