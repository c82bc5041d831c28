//! Validation of client requests, without sockets and processes.
//!
//! Each request is checked against earlier ones and against the caps; the result is the action to
//! take. A protocol violation ends the session; a request beyond the caps is refused.

use control::session::{FromAgent, ToAgent, Token};
use control::{Caps, FromWorker, Job, LoadJob, Side, ToWorker, WorkerQuota};
use loadgen::contestant::Component;
use results::TestSpec;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use towpath::raw_sockets::with_hardware;

/// Peer checks per session; each connects to an address that the client names.
const PEER_CHECKS_MAX: u32 = 64;

/// Octets of a rendezvous at most: addresses of 64 circuits, and a key.
const RENDEZVOUS_MAX: usize = 8 << 10;

/// Names in the description of a race at most, and octets of each.
const NAMES_MAX: usize = 64;
const NAME_MAX: usize = 256;

/// The action for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send this answer.
    Answer(FromAgent),
    /// Answer clock request number n.
    Clock(u32),
    /// Send host facts and findings.
    Describe(TestSpec),
    /// Start a worker.
    Spawn(u32),
    /// Forward a message to a worker.
    Forward(u32, Box<ToWorker>),
    /// End a worker.
    EndWorker(u32),
    /// Snapshot the host's counters.
    BeginTrial,
    /// Send the difference of the counters.
    EndTrial,
    /// Issue a token for another agent.
    IssueToken,
    /// Check another agent's address.
    CheckPeer(SocketAddr, Token),
    /// Send the facts about the connection's path.
    Path,
    /// The client leaves.
    Leave,
}

/// A request that no correct client sends; it ends the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolViolation(pub String);

/// The state of a worker.
#[derive(Clone, Debug)]
struct WorkerState {
    job: Option<Job>,
    /// Copies of a load that it runs instead of a job.
    load: u32,
    started: bool,
    peer_done: bool,
    /// Its share of the caps; none after its report.
    share: WorkerQuota,
    reported: bool,
}

/// Why a component's transport cannot be used with these caps.
pub type TransportCheck = fn(&str, &Caps) -> Result<(), String>;

/// A validated address pair: another host's and the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedPeer {
    /// The other host, which has echoed a token.
    pub peer: IpAddr,
    /// The local address that it did so to.
    pub local: IpAddr,
}

/// The state of a session being served.
#[derive(Debug)]
pub struct SessionState {
    caps: Caps,
    /// The client's own address first.
    verified_peers: Vec<VerifiedPeer>,
    workers: BTreeMap<u32, WorkerState>,
    bytes_left: u64,
    peer_checks: u32,
    trial_running: bool,
    check_transport: TransportCheck,
}

impl SessionState {
    /// A session with `client`, whose address is validated. `check_transport` says why a
    /// component's transport cannot be used here.
    pub fn new(caps: Caps, client: VerifiedPeer, usable: TransportCheck) -> SessionState {
        SessionState {
            bytes_left: caps.bytes,
            caps,
            verified_peers: vec![client],
            workers: BTreeMap::new(),
            peer_checks: 0,
            trial_running: false,
            check_transport: usable,
        }
    }

    /// Adds a validated peer.
    pub fn add_verified_peer(&mut self, other: VerifiedPeer) {
        if !self.verified_peers.contains(&other)
            && self.verified_peers.len() <= PEER_CHECKS_MAX as usize
        {
            self.verified_peers.push(other);
        }
    }

    /// Bytes that the client may still move.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Number of workers that have not ended.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// A worker's job.
    pub fn job(&self, worker: u32) -> Option<&Job> {
        self.workers.get(&worker)?.job.as_ref()
    }

    /// Validates a request.
    ///
    /// # Errors
    ///
    /// A [`ProtocolViolation`]; the session must end.
    pub fn handle_request(&mut self, request: ToAgent) -> Result<Action, ProtocolViolation> {
        match request {
            ToAgent::Hello(_) => violation("a second hello"),
            ToAgent::Clock(number) => Ok(Action::Clock(number)),
            ToAgent::Machine(test) => check_test(test),
            ToAgent::Spawn(worker) => Ok(self.spawn(worker)),
            ToAgent::ToWorker(worker, message) => self.forward(worker, *message),
            // The worker may have ended by itself.
            ToAgent::EndWorker(worker) => Ok(Action::EndWorker(worker)),
            ToAgent::BeginTrial => {
                self.trial_running = true;
                Ok(Action::BeginTrial)
            }
            ToAgent::EndTrial if !std::mem::take(&mut self.trial_running) => {
                violation("the end of a trial that never began")
            }
            ToAgent::EndTrial => Ok(Action::EndTrial),
            ToAgent::ExpectPeer | ToAgent::CheckPeer(..) => Ok(self.peer_check(request)),
            ToAgent::Probe(octets) => Ok(Action::Answer(FromAgent::Probe(octets))),
            ToAgent::Path => Ok(Action::Path),
            ToAgent::Leave => Ok(Action::Leave),
        }
    }

    fn peer_check(&mut self, request: ToAgent) -> Action {
        if self.peer_checks >= PEER_CHECKS_MAX {
            let why = format!("a session checks at most {PEER_CHECKS_MAX} agents");
            return Action::Answer(FromAgent::Refused(None, why));
        }
        self.peer_checks += 1;
        match request {
            ToAgent::CheckPeer(to, token) => Action::CheckPeer(to, token),
            _ => Action::IssueToken,
        }
    }

    fn spawn(&mut self, worker: u32) -> Action {
        if self.workers.contains_key(&worker) {
            return refuse(worker, "there is a worker of that number");
        }
        let most = self.caps.workers;
        if self.workers.len() >= most as usize {
            return refuse(worker, &format!("a client has {most} workers at most"));
        }
        let fresh = WorkerState {
            job: None,
            load: 0,
            started: false,
            peer_done: false,
            share: WorkerQuota::default(),
            reported: false,
        };
        self.workers.insert(worker, fresh);
        Action::Spawn(worker)
    }

    fn forward(&mut self, number: u32, message: ToWorker) -> Result<Action, ProtocolViolation> {
        let Some(worker) = self.workers.get(&number) else {
            // The worker may have ended while the message was in flight.
            return Ok(refuse(number, "this worker has ended"));
        };
        let (given, went, over) = (worker.job.is_some(), worker.started, worker.peer_done);
        let loads = worker.load > 0;
        match message {
            ToWorker::Load(job) if !given && !loads => Ok(self.assign_load(number, job)),
            ToWorker::Stop if loads => Ok(Action::Forward(number, message.into())),
            _ if loads => violation("a load's messages out of order"),
            ToWorker::Listen(job) if !given => {
                Ok(self.assign_job(number, Side::Listen, job, Vec::new()))
            }
            ToWorker::Connect(job, frames) if !given => {
                Ok(self.assign_job(number, Side::Connect, job, frames))
            }
            ToWorker::GoInTurns(turns) if !turns.is_valid() => violation("impossible turns"),
            ToWorker::Go(_) | ToWorker::GoInTurns(_) if given && !went => {
                self.update_worker(number, |worker| worker.started = true);
                Ok(Action::Forward(number, message.into()))
            }
            ToWorker::PeerDone(_) if went && !over => {
                self.update_worker(number, |worker| worker.peer_done = true);
                Ok(Action::Forward(number, message.into()))
            }
            ToWorker::Stop if given => Ok(Action::Forward(number, message.into())),
            _ => violation("a worker's messages out of order"),
        }
    }

    /// Checks a load against the caps.
    fn assign_load(&mut self, number: u32, job: LoadJob) -> Action {
        let loads = self.workers.values().map(|worker| worker.load);
        let running = loads.fold(0, u32::saturating_add);
        if let Err(why) = self.caps.check_load(job, running) {
            return refuse(number, &why);
        }
        self.update_worker(number, |worker| worker.load = job.copies);
        Action::Forward(number, ToWorker::Load(job).into())
    }

    fn update_worker(&mut self, number: u32, change: impl FnOnce(&mut WorkerState)) {
        if let Some(worker) = self.workers.get_mut(&number) {
            change(worker);
        }
    }

    /// Checks a job against the caps and fills in what the agent decides: bind address, peer
    /// address, and how much it may send.
    fn assign_job(
        &mut self,
        number: u32,
        side: Side,
        job: Job,
        frames: Vec<control::RendezvousFrame>,
    ) -> Action {
        let share = self.share(&job);
        let checked = self.check_job(side, &job, &frames, share);
        let known = match checked {
            Ok(known) => known,
            Err(why) => return refuse(number, &why),
        };
        let mut job = self.caps.limit_job(job, share);
        // The agent alone gives some.
        job.raw_sockets.clear();
        job.bind = Some(known.local);
        job.peer = Some(known.peer);
        // Other addresses of this host are none of the client's business.
        job.local_addresses = vec![known.local];
        job.peer_addresses = vec![known.peer];
        job.circuit_options.ipv6 = known.local.is_ipv6();
        self.update_worker(number, |worker| {
            worker.job = Some(job.clone());
            worker.share = share;
        });
        let message = match side {
            Side::Listen => ToWorker::Listen(job),
            Side::Connect => {
                let there = |frame| with_address(frame, known.peer);
                ToWorker::Connect(job, frames.into_iter().map(there).collect())
            }
        };
        Action::Forward(number, message.into())
    }

    /// The remaining bytes and rate of the session, divided among the workers without a job. A
    /// receiver needs no share of the rate.
    fn share(&self, job: &Job) -> WorkerQuota {
        let given = |of: fn(&WorkerQuota) -> u64| -> u64 {
            let shares = self.workers.values().map(|one| of(&one.share));
            shares.fold(0, u64::saturating_add)
        };
        let waiting = self.workers.values();
        let waiting = waiting.filter(|one| one.job.is_none() && one.load == 0);
        let waiting = (waiting.count() as u64).max(1);
        let bytes = given(|share| share.bytes);
        let paces = given(|share| share.pace_bytes_per_s.unwrap_or(0));
        let pace = self.caps.bytes_per_s().filter(|_| job.sends());
        WorkerQuota {
            bytes: self.bytes_left.saturating_sub(bytes) / waiting,
            pace_bytes_per_s: pace.map(|pace| pace.saturating_sub(paces) / waiting),
        }
    }

    /// Checks that all workers together have at most the circuits of two.
    fn check_totals(&self, job: &Job, share: WorkerQuota) -> Result<(), String> {
        let jobs = self.workers.values().filter_map(|one| one.job.as_ref());
        let most = 2 * u64::from(self.caps.circuits);
        if jobs.chain([job]).map(Job::circuits).sum::<u64>() > most {
            return Err(format!(
                "a number of circuits of all workers together beyond {most} is more than this agent allows"
            ));
        }
        if share.pace_bytes_per_s == Some(0) {
            return Err("other workers use the whole rate that this agent allows".into());
        }
        Ok(())
    }

    fn check_job(
        &self,
        side: Side,
        job: &Job,
        frames: &[control::RendezvousFrame],
        share: WorkerQuota,
    ) -> Result<VerifiedPeer, String> {
        if job.side != side {
            return Err("a job for the other side".into());
        }
        self.caps.check(job, share)?;
        self.check_totals(job, share)?;
        for component in &job.components {
            (self.check_transport)(&component.transport, &self.caps)?;
            if side == Side::Connect && is_group(&component.transport) {
                return Err(
                    "an agent sends to no group; have the race's own host send to it".into(),
                );
            }
        }
        if side == Side::Connect && frames.len() != job.components.len() {
            return Err("the listener reports another number of components".into());
        }
        let odd = |frame: &control::RendezvousFrame| {
            frame.descriptors != 0 || frame.bytes.len() > RENDEZVOUS_MAX
        };
        if frames.iter().any(odd) {
            return Err("a malformed address".into());
        }
        let Some(peer) = job.peer else {
            return Ok(self.verified_peers[0]);
        };
        let known = self.verified_peers.iter().find(|known| known.peer == peer);
        known.copied().ok_or_else(|| {
            format!("{peer} is not validated; data go only to peers that have echoed a token")
        })
    }

    /// Handles a worker's message on its way to the client. A report releases the worker's share.
    pub fn handle_worker_message(&mut self, worker: u32, message: FromWorker) -> FromAgent {
        if let FromWorker::Finished(report) = &message
            && let Some(worker) = self.workers.get_mut(&worker)
            && !std::mem::replace(&mut worker.reported, true)
        {
            worker.share = WorkerQuota::default();
            self.bytes_left = self.bytes_left.saturating_sub(report.moved_bytes);
        }
        FromAgent::FromWorker(worker, message)
    }

    /// A worker has ended; its account says `booked_bytes`: the bytes it moved, and some it was
    /// about to move. They are charged unless it has reported the exact number.
    pub fn worker_ended(&mut self, worker: u32, booked_bytes: u64) {
        let gone = self.workers.remove(&worker);
        if gone.is_some_and(|worker| !worker.reported) {
            self.bytes_left = self.bytes_left.saturating_sub(booked_bytes);
        }
    }
}

/// Replaces the addresses of a rendezvous: an address named by a peer is never used.
pub fn with_address(mut frame: control::RendezvousFrame, to: IpAddr) -> control::RendezvousFrame {
    let line = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok();
        let address = text.and_then(|text| text.parse::<SocketAddr>().ok());
        match address {
            Some(address) => SocketAddr::new(to, address.port()).to_string().into_bytes(),
            // Where an address of Ethernet leads is filled in by who knows the link; else a key, not an address.
            None => with_hardware(line, [0; 6]).unwrap_or_else(|| line.to_vec()),
        }
    };
    let lines: Vec<Vec<u8>> = frame
        .bytes
        .split(|&octet| octet == b'\n')
        .map(line)
        .collect();
    frame.bytes = lines.join(&b'\n');
    frame.reach = 2;
    frame
}

/// Whether a component sends to a group of receivers.
fn is_group(text: &str) -> bool {
    Component::parse(text).is_ok_and(|component| component.transport().is_one_to_many())
}

fn check_test(test: TestSpec) -> Result<Action, ProtocolViolation> {
    let long = |names: &[String]| {
        names.len() > NAMES_MAX || names.iter().any(|name| name.len() > NAME_MAX)
    };
    if long(&test.workloads) || long(&test.transports) || test.congestion.len() > NAME_MAX {
        return violation("a description of a race that is too long");
    }
    Ok(Action::Describe(test))
}

fn refuse(worker: u32, why: &str) -> Action {
    Action::Answer(FromAgent::Refused(Some(worker), why.to_owned()))
}

fn violation<T>(what: &str) -> Result<T, ProtocolViolation> {
    Err(ProtocolViolation(format!("the client sent {what}")))
}
