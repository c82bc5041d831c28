//! A client's session: handles requests, runs workers, sends answers.

use super::session_state::{Action, SessionState, VerifiedPeer};
use super::{AgentShared, AuthenticatedClient, machine, privilege};
use crate::connection::{ConnectionError, FramedConnection, timespec};
use crate::path;
use crate::peer_check;
use control::frame::RESPONSE_MAX;
use control::session::{FromAgent, ToAgent, Token};
use control::{ByteAccount, ChannelError, FromWorker, ToWorker};
use loadgen::WorkerHandle;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Silence after which a client is gone; it sends a clock request at least once a second.
pub(crate) const CLIENT_TIMEOUT: Duration = Duration::from_secs(9);

/// Poll interval for deadlines.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Poll interval while a peer check runs.
const PEER_CHECK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a worker may leave messages unread. It reads before and after a trial; a client that
/// sends to it in between fills the channel and loses the worker.
const WORKER_SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a worker may take to send a complete message.
const WORKER_RECV_TIMEOUT: Duration = Duration::from_secs(5);

/// Lifetime of a worker beyond its measuring time.
const WORKER_GRACE: Duration = Duration::from_secs(60);

/// A running worker.
struct RunningWorker {
    handle: WorkerHandle,
    deadline: Instant,
    /// It has reported and ends by itself, since its circuits may still have to retransmit final
    /// packets.
    reported: bool,
    /// Account of the bytes it moves, once it has a job.
    account: Option<ByteAccount>,
    /// When its threads were last counted, and how many counts in a row exceeded the limit.
    threads_checked_at: Instant,
    excess_checks: u32,
}

impl RunningWorker {
    /// Forwards a message; a job comes with its raw sockets, and the account's descriptor behind them.
    fn forward(&mut self, message: &ToWorker, raw: &[OwnedFd]) -> Result<(), ChannelError> {
        let is_job = matches!(message, ToWorker::Listen(_) | ToWorker::Connect(..));
        let account = self.account.as_ref().filter(|_| is_job);
        let raw = raw.iter().map(AsFd::as_fd);
        let descriptors: Vec<_> = raw.chain(account.map(AsFd::as_fd)).collect();
        let channel = &mut self.handle.channel;
        channel.send_within(message, &descriptors, WORKER_SEND_TIMEOUT)
    }

    /// Why the worker must be ended, if so; it may have `threads` threads.
    fn limit_violation(&mut self, threads: u32) -> Option<String> {
        let now = Instant::now();
        if now > self.deadline {
            return Some("the worker exceeded its time limit".into());
        }
        if now - self.threads_checked_at < POLL_INTERVAL {
            return None;
        }
        self.threads_checked_at = now;
        let has = privilege::threads(self.handle.pid()).filter(|has| *has > threads);
        self.excess_checks = has.map_or(0, |_| self.excess_checks + 1);
        // Helper threads of closed circuits may be about to end, so one excess is tolerated.
        let has = has.filter(|_| self.excess_checks > 1)?;
        Some(format!(
            "the worker has {has} threads, and this agent allows {threads}"
        ))
    }

    /// Ends the worker and waits for it; gives the bytes on its account.
    fn end(self) -> u64 {
        if self.reported {
            self.handle.end();
        } else {
            self.handle.kill();
        }
        self.account.map_or(0, |account| account.take())
    }
}

/// A running peer check, in a thread of its own as the peer may be slow or absent.
pub(crate) type PeerCheck = JoinHandle<PeerCheckResult>;

/// The checked address and the result.
type PeerCheckResult = (SocketAddr, Result<VerifiedPeer, String>);

/// The session of the client being served.
pub(crate) struct ClientSession<'a> {
    shared: &'a AgentShared,
    connection: &'a mut FramedConnection,
    state: SessionState,
    client: SocketAddr,
    /// This host's address towards the client.
    local: IpAddr,
    label: &'a str,
    number: u64,
    workers: BTreeMap<u32, RunningWorker>,
    peer_check: Option<PeerCheck>,
    snapshot_before: Option<host::Snapshot>,
    /// Another race on this host when the trial began.
    race_before: Option<String>,
    /// CPU time of workers that reported since the trial began, s.
    workers_cpu_s: f64,
    deadline: Instant,
}

impl<'a> ClientSession<'a> {
    /// Prepares the session.
    pub(crate) fn new(
        shared: &'a AgentShared,
        client: &'a mut AuthenticatedClient,
        number: u64,
    ) -> ClientSession<'a> {
        let AuthenticatedClient {
            connection,
            addresses: (client, local),
            label,
            ..
        } = client;
        let known = VerifiedPeer {
            peer: client.ip(),
            local: local.ip(),
        };
        ClientSession {
            state: SessionState::new(shared.caps.clone(), known, machine::check_transport),
            deadline: Instant::now() + Duration::from_secs(shared.caps.session_s),
            shared,
            connection,
            client: *client,
            local: local.ip(),
            label,
            number,
            workers: BTreeMap::new(),
            peer_check: None,
            snapshot_before: None,
            race_before: None,
            workers_cpu_s: 0.0,
        }
    }

    /// Runs until the client leaves, is gone, violates the protocol or its time is over. A running
    /// peer check is returned, to be joined.
    pub(crate) fn run(mut self) -> (Result<(), ConnectionError>, Option<PeerCheck>) {
        let result = self.serve();
        (result, self.peer_check.take())
    }

    fn serve(&mut self) -> Result<(), ConnectionError> {
        self.send(&FromAgent::Ready)?;
        loop {
            let readable = self.wait()?;
            for number in readable {
                self.receive_from_worker(number)?;
            }
            self.connection.flush()?;
            self.connection.read_available()?;
            // Before requests that may depend on validated peers.
            self.finish_peer_checks()?;
            while let Some(request) = self.connection.take_message::<ToAgent>()? {
                // Many requests may have arrived at once; deadlines apply between them too.
                if !self.handle_request(request)? || self.check_deadlines()? {
                    return Ok(());
                }
            }
            if self.check_deadlines()? {
                return Ok(());
            }
        }
    }

    /// Sleeps until an event; gives the workers with messages.
    fn wait(&self) -> Result<Vec<u32>, ConnectionError> {
        let client = self.connection.descriptor();
        let sockets: Vec<_> = self
            .workers
            .values()
            .map(|worker| worker.handle.channel.descriptor())
            .collect();
        let mut ready = vec![PollFd::new(&client, self.connection.poll_flags())];
        ready.extend(
            sockets
                .iter()
                .map(|socket| PollFd::new(socket, PollFlags::IN)),
        );
        let tick = match self.peer_check {
            Some(_) => PEER_CHECK_POLL_INTERVAL,
            None => POLL_INTERVAL,
        };
        match poll(&mut ready, Some(&timespec(tick))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ConnectionError::Io(error.into())),
        }
        let readable = ready[1..].iter().map(|one| !one.revents().is_empty());
        let numbers = self.workers.keys().zip(readable);
        Ok(numbers
            .filter(|(_, readable)| *readable)
            .map(|(number, _)| *number)
            .collect())
    }

    /// Enforces deadlines; true, with a message to the client, if the session must end.
    fn check_deadlines(&mut self) -> Result<bool, ConnectionError> {
        self.connection.check_timeouts()?;
        if self.connection.last_received_at().elapsed() > CLIENT_TIMEOUT {
            return Err(ConnectionError::TimedOut(CLIENT_TIMEOUT));
        }
        let caps = &self.shared.caps;
        let threads = match caps.load {
            0 => caps.threads,
            load => caps.threads.max(load.saturating_add(2)),
        };
        let workers = self.workers.iter_mut();
        let unfit: Vec<(u32, String)> = workers
            .filter_map(|(number, worker)| Some((*number, worker.limit_violation(threads)?)))
            .collect();
        for (number, why) in unfit {
            self.fail(number, why)?;
            self.end(number)?;
        }
        if Instant::now() > self.deadline {
            let why = format!("a session ends after {} s", self.shared.caps.session_s);
            self.send(&FromAgent::SessionEnded(why))?;
            return Ok(true);
        }
        if self.shared.is_stopped() {
            self.send(&FromAgent::SessionEnded("the agent was stopped".into()))?;
            return Ok(true);
        }
        Ok(false)
    }

    fn send(&mut self, answer: &FromAgent) -> Result<(), ConnectionError> {
        self.connection.send(answer, RESPONSE_MAX)
    }

    /// Handles a request; false when the client leaves.
    fn handle_request(&mut self, request: ToAgent) -> Result<bool, ConnectionError> {
        let act = match self.state.handle_request(request) {
            Ok(act) => act,
            Err(fault) => {
                self.shared.metrics.count_violation();
                self.send(&FromAgent::SessionEnded(fault.to_string()))?;
                return Ok(false);
            }
        };
        match act {
            Action::Answer(answer) => self.send(&answer)?,
            Action::Clock(number) => {
                let now_ns = loadgen::clock::now_ns();
                self.send(&FromAgent::Clock(number, now_ns))?;
            }
            Action::Describe(test) => self.send(&FromAgent::Machine(machine::describe(&test)))?,
            Action::Spawn(number) => self.spawn(number)?,
            Action::Forward(number, message) => self.forward_to_worker(number, *message)?,
            Action::EndWorker(number) => self.end(number)?,
            Action::BeginTrial => {
                self.workers_cpu_s = 0.0;
                self.race_before = self.race_beside();
                self.snapshot_before = Some(host::Snapshot::take());
            }
            Action::EndTrial => self.end_trial()?,
            Action::IssueToken => {
                let token = self.shared.tokens.issue(self.number);
                self.send(&FromAgent::ExpectingPeer(token))?;
            }
            Action::CheckPeer(to, token) => self.start_peer_check(to, token)?,
            Action::Path => {
                let facts = path::path_facts(self.connection.descriptor());
                self.send(&FromAgent::Path(facts))?;
            }
            Action::Leave => return Ok(false),
        }
        Ok(true)
    }

    fn spawn(&mut self, number: u32) -> Result<(), ConnectionError> {
        let worker = match self.shared.worker_host.spawn() {
            Ok(worker) => worker,
            Err(error) => {
                self.state.worker_ended(number, 0);
                return self.fail(number, error.to_string());
            }
        };
        privilege::confine(worker.pid(), self.shared.caps.memory);
        self.shared.metrics.count_worker();
        let deadline = Instant::now() + WORKER_GRACE;
        let worker = RunningWorker {
            handle: worker,
            deadline,
            reported: false,
            account: None,
            threads_checked_at: Instant::now(),
            excess_checks: 0,
        };
        self.workers.insert(number, worker);
        Ok(())
    }

    fn forward_to_worker(
        &mut self,
        number: u32,
        mut message: ToWorker,
    ) -> Result<(), ConnectionError> {
        let raw = match &self.shared.raw_sockets {
            Some(source) => source.grant(&mut message),
            None => Ok(Vec::new()),
        };
        let raw = match raw {
            Ok(raw) => raw,
            Err(why) => return self.fail(number, why),
        };
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        if let ToWorker::Load(job) = &message {
            worker.deadline = Instant::now() + Duration::from_nanos(job.time_ns) + WORKER_GRACE;
        }
        if let ToWorker::Listen(job) | ToWorker::Connect(job, _) = &message {
            let path = Duration::from_nanos(job.path_delay_ns) * 8;
            let measured = Duration::from_nanos(job.limits.time_ns);
            worker.deadline = Instant::now() + measured + path + WORKER_GRACE;
            match ByteAccount::new() {
                Ok(account) => worker.account = Some(account),
                Err(error) => return self.fail(number, error.to_string()),
            }
        }
        if let Err(ChannelError::TimedOut(_)) = worker.forward(&message, &raw) {
            self.fail(number, "the worker does not read its messages".into())?;
            return self.end(number);
        }
        // If the worker has ended, its channel will report that.
        Ok(())
    }

    /// Receives a worker's message, or its end.
    fn receive_from_worker(&mut self, number: u32) -> Result<(), ConnectionError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        match worker
            .handle
            .channel
            .receive::<FromWorker>(WORKER_RECV_TIMEOUT)
        {
            Ok((message, _)) => {
                if let FromWorker::Finished(report) = &message {
                    worker.reported = true;
                    self.workers_cpu_s += report.cpu.task_ns as f64 * 1e-9;
                    self.shared.metrics.count_report();
                }
                if let FromWorker::Loaded(did) = &message {
                    self.workers_cpu_s += did.cpu_ns as f64 * 1e-9;
                }
                let answer = self.state.handle_worker_message(number, message);
                self.send(&answer)
            }
            Err(_) => self.end(number),
        }
    }

    fn end(&mut self, number: u32) -> Result<(), ConnectionError> {
        let worker = self.workers.remove(&number);
        let booked_bytes = worker.map_or(0, RunningWorker::end);
        self.state.worker_ended(number, booked_bytes);
        self.send(&FromAgent::WorkerEnded(number))
    }

    fn fail(&mut self, number: u32, why: String) -> Result<(), ConnectionError> {
        let answer = self
            .state
            .handle_worker_message(number, FromWorker::Failed(why));
        self.send(&answer)
    }

    /// Another race on this host now, as a disturbance. The agent itself holds no lock.
    fn race_beside(&self) -> Option<String> {
        let variable = std::env::var_os(host::RACE_LOCK_VARIABLE);
        let lock = host::race_lock_file(variable.as_deref());
        machine::race_beside(lock.as_deref(), self.client.ip(), self.local)
    }

    fn end_trial(&mut self) -> Result<(), ConnectionError> {
        let Some(before) = self.snapshot_before.take() else {
            return Ok(());
        };
        let seen = before.until(&host::Snapshot::take());
        let interface = path::path_facts(self.connection.descriptor()).interface;
        let mut counters = machine::counters(&seen, self.workers_cpu_s, interface);
        let before = self.race_before.take();
        counters
            .disturbed
            .extend(before.or_else(|| self.race_beside()));
        self.send(&FromAgent::TrialCounters(counters))
    }

    fn start_peer_check(&mut self, to: SocketAddr, token: Token) -> Result<(), ConnectionError> {
        let started = if self.peer_check.is_some() {
            Err("another peer check is running".into())
        } else if self.shared.tokens.is_own_token(&token) {
            Err("an agent does not check itself".into())
        } else {
            peer_check::check_target_address(to, self.client.ip()).and_then(|to| {
                let check = move || (to, peer_check::check_peer(to, token));
                let thread = std::thread::Builder::new().name("peer check".into());
                let thread = thread.stack_size(super::THREAD_STACK_LEN).spawn(check);
                thread.map_err(|error| error.to_string())
            })
        };
        match started {
            Ok(check) => {
                self.peer_check = Some(check);
                Ok(())
            }
            Err(why) => self.send(&FromAgent::Refused(None, format!("{to}: {why}"))),
        }
    }

    /// Takes in peers that presented tokens, and the result of a finished peer check.
    fn finish_peer_checks(&mut self) -> Result<(), ConnectionError> {
        for known in self.shared.tokens.take_verified(self.number) {
            self.state.add_verified_peer(known);
        }
        let Some(done) = self.peer_check.take_if(|check| check.is_finished()) else {
            return Ok(());
        };
        let answer = match done.join() {
            Ok((_, Ok(known))) => {
                self.state.add_verified_peer(known);
                FromAgent::PeerChecked(known.local)
            }
            Ok((to, Err(why))) => FromAgent::Refused(None, format!("{to}: {why}")),
            Err(_) => FromAgent::Refused(None, "the peer check failed".into()),
        };
        self.send(&answer)
    }
}

/// Whatever ends a session, a panic too, its workers are waited for and its tokens are void.
impl Drop for ClientSession<'_> {
    fn drop(&mut self) {
        for (_, worker) in std::mem::take(&mut self.workers) {
            worker.end();
        }
        self.shared.tokens.revoke(self.number);
        self.shared.log(format_args!("{} has left", self.label));
    }
}
