//! The session thread: keeps the connection alive, and passes messages between the agent and the
//! channels of its workers, as if these were local processes.

use crate::session::{SessionShared, lock};
use agent::connection::{ConnectionError, FramedConnection, timespec};
use agent::server::raw_sockets::{hardware_of, locate};
use agent::server::session_state::with_address;
use control::frame::REQUEST_MAX;
use control::session::{FromAgent, ToAgent};
use control::{Channel, FromWorker, Job, RendezvousFrame, ToWorker, Workload, validate};
use loadgen::clock::now_ns;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Interval of clock requests, which also serve as keepalives.
const COMPARE_INTERVAL: Duration = Duration::from_millis(500);

/// The interval while one-way delays are measured, so that the clocks drift less in between.
const ONE_WAY_COMPARE_INTERVAL: Duration = Duration::from_millis(100);

/// Unanswered clock requests kept: those sent within the agent timeout.
const CLOCK_REQUESTS_MAX: usize = 128;

/// Silence after which the agent is gone; it answers each clock request.
const AGENT_TIMEOUT: Duration = Duration::from_secs(9);

/// Timeout of a local worker channel.
const CHANNEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Commands from the session to its thread.
pub(super) enum Command {
    /// Send a request and pass on its answer.
    Request(ToAgent, Sender<FromAgent>),
    /// Send a request.
    Send(ToAgent),
    /// Take this many clock samples, one after another.
    CompareClocks(u32, Sender<()>),
    /// Start a worker whose messages use this channel.
    Spawn(u32, Channel),
    /// Report the end of a worker.
    AwaitEnd(u32, Sender<()>),
    /// Leave the session.
    Leave,
}

/// A worker on the agent's host.
struct RemoteWorker {
    channel: Option<Channel>,
    job: Option<Job>,
    end_waiters: Vec<Sender<()>>,
}

/// The thread's state.
pub(super) struct SessionThread {
    connection: FramedConnection,
    commands: Receiver<Command>,
    wakeup: UnixStream,
    shared: Arc<Mutex<SessionShared>>,
    agent_ip: IpAddr,
    /// This host's address towards the agent.
    local_ip: IpAddr,
    workers: BTreeMap<u32, RemoteWorker>,
    pending_request: Option<Sender<FromAgent>>,
    /// Clock samples still to take, and the waiter.
    clock_comparison: Option<(u32, Sender<()>)>,
    /// Clock requests in flight, by number and send time; on a long path there are several.
    clock_requests: VecDeque<(u32, u64)>,
    next_clock_request: u32,
    last_compared_at: Instant,
    leaving: bool,
}

impl SessionThread {
    pub(super) fn new(
        connection: FramedConnection,
        commands: Receiver<Command>,
        rope: UnixStream,
        known: Arc<Mutex<SessionShared>>,
        (local, agent): (IpAddr, IpAddr),
    ) -> SessionThread {
        SessionThread {
            connection,
            commands,
            wakeup: rope,
            shared: known,
            agent_ip: agent,
            local_ip: local,
            workers: BTreeMap::new(),
            pending_request: None,
            clock_comparison: None,
            clock_requests: VecDeque::new(),
            next_clock_request: 1,
            last_compared_at: Instant::now(),
            leaving: false,
        }
    }

    /// Runs until the session is left or the agent is gone, and records the reason.
    pub(super) fn run(mut self) {
        let why = match self.serve() {
            Ok(()) => "the session was left".to_owned(),
            Err(error) => error.to_string(),
        };
        let why = lock(&self.shared).closed_reason.get_or_insert(why).clone();
        for worker in self.workers.values_mut() {
            if let Some(channel) = &mut worker.channel {
                // Waiters for the worker get the reason.
                let text = format!("the agent is gone: {why}");
                let _ = channel.send(&FromWorker::Failed(text), &[]);
            }
        }
    }

    fn serve(&mut self) -> Result<(), ConnectionError> {
        loop {
            self.handle_commands()?;
            if self.leaving {
                self.send(&ToAgent::Leave)?;
                return Ok(());
            }
            if self.last_compared_at.elapsed() > self.compare_interval() {
                self.compare_once()?;
            }
            let readable = self.wait()?;
            // Earlier commands go first: the agent divides its caps among the workers it knows of.
            self.handle_commands()?;
            for number in readable {
                self.receive_for_worker(number)?;
            }
            self.connection.flush()?;
            self.connection.read_available()?;
            while let Some(answer) = self.connection.take_message::<FromAgent>()? {
                self.handle_answer(answer)?;
            }
            self.connection.check_timeouts()?;
            if self.connection.last_received_at().elapsed() > AGENT_TIMEOUT {
                return Err(ConnectionError::TimedOut(AGENT_TIMEOUT));
            }
        }
    }

    fn send(&mut self, request: &ToAgent) -> Result<(), ConnectionError> {
        self.connection.send(request, REQUEST_MAX)
    }

    /// Handles pending commands.
    fn handle_commands(&mut self) -> Result<(), ConnectionError> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Request(request, answer)) => {
                    self.pending_request = Some(answer);
                    self.send(&request)?;
                }
                Ok(Command::Send(request)) => self.send(&request)?,
                Ok(Command::CompareClocks(times, done)) => {
                    self.clock_comparison = Some((times, done));
                    self.compare_once()?;
                }
                Ok(Command::Spawn(number, channel)) => {
                    let worker = RemoteWorker {
                        channel: Some(channel),
                        job: None,
                        end_waiters: Vec::new(),
                    };
                    self.workers.insert(number, worker);
                    self.send(&ToAgent::Spawn(number))?;
                }
                Ok(Command::AwaitEnd(number, ended)) => self.await_end(number, ended)?,
                Ok(Command::Leave) | Err(TryRecvError::Disconnected) => {
                    self.leaving = true;
                    return Ok(());
                }
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    fn await_end(&mut self, number: u32, ended: Sender<()>) -> Result<(), ConnectionError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            let _ = ended.send(());
            return Ok(());
        };
        worker.end_waiters.push(ended);
        if worker.channel.take().is_some() {
            self.send(&ToAgent::EndWorker(number))?;
        }
        Ok(())
    }

    fn compare_interval(&self) -> Duration {
        let is_one_way = |worker: &RemoteWorker| {
            let job = worker.job.as_ref();
            job.is_some_and(|job| job.workload == Workload::Offered)
        };
        if self.workers.values().any(is_one_way) {
            ONE_WAY_COMPARE_INTERVAL
        } else {
            COMPARE_INTERVAL
        }
    }

    fn compare_once(&mut self) -> Result<(), ConnectionError> {
        self.last_compared_at = Instant::now();
        let number = self.next_clock_request;
        self.next_clock_request = number.wrapping_add(1);
        if self.clock_requests.len() == CLOCK_REQUESTS_MAX {
            self.clock_requests.pop_front();
        }
        self.clock_requests.push_back((number, now_ns()));
        self.send(&ToAgent::Clock(number))
    }

    /// Sleeps until an event; gives the workers whose channels are readable.
    fn wait(&mut self) -> Result<Vec<u32>, ConnectionError> {
        let agent = self.connection.descriptor();
        let mut ready = vec![
            PollFd::new(&agent, self.connection.poll_flags()),
            PollFd::new(&self.wakeup, PollFlags::IN),
        ];
        let open =
            |(number, worker): (&u32, &RemoteWorker)| worker.channel.is_some().then_some(*number);
        let numbers: Vec<u32> = self.workers.iter().filter_map(open).collect();
        let channels: Vec<_> = self
            .workers
            .values()
            .filter_map(|worker| worker.channel.as_ref())
            .collect();
        let sockets: Vec<_> = channels
            .iter()
            .map(|channel| channel.descriptor())
            .collect();
        ready.extend(
            sockets
                .iter()
                .map(|socket| PollFd::new(socket, PollFlags::IN)),
        );
        let span = self
            .compare_interval()
            .saturating_sub(self.last_compared_at.elapsed());
        match poll(&mut ready, Some(&timespec(span))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ConnectionError::Io(error.into())),
        }
        let woken = !ready[1].revents().is_empty();
        let readable = ready[2..].iter().map(|one| !one.revents().is_empty());
        let readable = numbers
            .into_iter()
            .zip(readable)
            .filter(|(_, readable)| *readable);
        let readable = readable.map(|(number, _)| number).collect();
        if woken {
            // The number of wake-ups does not matter.
            let _ = self.wakeup.read(&mut [0; 64]);
        }
        Ok(readable)
    }

    /// Forwards a message for a worker, or the end of its channel.
    fn receive_for_worker(&mut self, number: u32) -> Result<(), ConnectionError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        let Some(channel) = &mut worker.channel else {
            return Ok(());
        };
        match channel.receive::<ToWorker>(CHANNEL_TIMEOUT) {
            Ok((message, _)) => {
                if let ToWorker::Listen(job) | ToWorker::Connect(job, _) = &message {
                    worker.job = Some(job.clone());
                }
                self.send(&ToAgent::ToWorker(number, Box::new(message)))
            }
            Err(_) => {
                worker.channel = None;
                self.send(&ToAgent::EndWorker(number))
            }
        }
    }

    fn handle_answer(&mut self, answer: FromAgent) -> Result<(), ConnectionError> {
        match answer {
            FromAgent::Clock(number, theirs_ns) => {
                return self.handle_clock_reply(number, theirs_ns);
            }
            FromAgent::FromWorker(number, message) => self.handle_worker_message(number, message),
            FromAgent::Refused(Some(number), why) => {
                self.handle_worker_message(number, FromWorker::Failed(why));
            }
            FromAgent::WorkerEnded(number) => {
                if let Some(worker) = self.workers.remove(&number) {
                    // The waiter may have timed out.
                    for waiting in worker.end_waiters {
                        let _ = waiting.send(());
                    }
                }
            }
            FromAgent::SessionEnded(why) => {
                return Err(ConnectionError::Refused(validate::sentence(&why)));
            }
            FromAgent::Hello(_) | FromAgent::Queued(_) | FromAgent::Ready => {}
            FromAgent::Refused(None, why) => {
                self.complete_request(FromAgent::Refused(None, validate::sentence(&why)))
            }
            other => self.complete_request(other),
        }
        Ok(())
    }

    fn complete_request(&mut self, answer: FromAgent) {
        if let Some(asked) = self.pending_request.take() {
            let _ = asked.send(answer);
        }
    }

    fn handle_clock_reply(&mut self, number: u32, theirs_ns: u64) -> Result<(), ConnectionError> {
        let known = |question: &(u32, u64)| question.0 == number;
        // Ignore answers to unknown or expired requests.
        let Some(at) = self.clock_requests.iter().position(known) else {
            return Ok(());
        };
        let sent_ns = self.clock_requests[at].1;
        self.clock_requests.drain(..=at);
        lock(&self.shared)
            .clock
            .add_sample(sent_ns, theirs_ns, now_ns());
        match self.clock_comparison.take() {
            Some((0 | 1, done)) => drop(done.send(())),
            Some((left, done)) => {
                self.clock_comparison = Some((left - 1, done));
                return self.compare_once();
            }
            None => {}
        }
        Ok(())
    }

    /// Validates a remote worker's message and passes it on.
    fn handle_worker_message(&mut self, number: u32, message: FromWorker) {
        let agent = self.agent_ip;
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        let message = validate::message(message, worker.job.as_ref()).unwrap_or_else(|why| {
            FromWorker::Failed(format!("the agent's answer makes no sense: {why}"))
        });
        let message = match message {
            // Its listeners are at the agent's address, whatever address it reports.
            FromWorker::Listening(frames) => {
                let frames = frames.into_iter().map(|frame| with_address(frame, agent));
                let is_own = worker.job.as_ref().is_none_or(|job| job.peer.is_none());
                located(frames.collect(), (self.local_ip, agent), is_own)
            }
            other => other,
        };
        if let Some(channel) = &mut worker.channel
            && channel.send(&message, &[]).is_err()
        {
            worker.channel = None;
        }
    }
}

/// The agent's listeners with its hardware address, which this host knows if they are on one link. Where the peer is
/// another agent (not `is_own`), that one fills in what it knows itself.
fn located(
    mut frames: Vec<RendezvousFrame>,
    (local, agent): (IpAddr, IpAddr),
    is_own: bool,
) -> FromWorker {
    let hardware = || match hardware_of(local, agent) {
        Err(why) if is_own => Err(why),
        known => Ok(known.unwrap_or_default()),
    };
    match locate(&mut frames, hardware) {
        Ok(()) => FromWorker::Listening(frames),
        Err(why) => FromWorker::Failed(why),
    }
}
