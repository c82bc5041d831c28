//! What a client may ask when, apart from sockets and processes.
//!
//! Each request is held against what came before it and against the caps; what comes out is what is to
//! be done. A client that breaks the rules is told and sent away; one that asks for too much is told.

use control::session::{FromAgent, Intent, ToAgent, Token};
use control::{Caps, FromWorker, Job, Share, Side, ToWorker};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Greetings of other agents in one session; each is a connection to where the client says.
const GREETINGS_MAX: u32 = 64;

/// Octets of a rendezvous at most: an address for each of 64 circuits, and a key.
const RENDEZVOUS_MAX: usize = 8 << 10;

/// Names in an intent at most, and octets of each.
const NAMES_MAX: usize = 64;
const NAME_MAX: usize = 256;

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Answer at once.
    Answer(FromAgent),
    /// Tell the time under this number.
    Clock(u32),
    /// Describe the machine.
    Describe(Intent),
    /// Start a worker.
    Spawn(u32),
    /// Pass this on to a worker.
    Tell(u32, ToWorker),
    /// End a worker.
    End(u32),
    /// Note the host's counters.
    Begin,
    /// Tell what they did.
    Settle,
    /// Make up a token for another agent.
    Expect,
    /// Greet another agent.
    Greet(SocketAddr, Token),
    /// Tell of the connection.
    Path,
    /// The client goes.
    Leave,
}

/// What the client did that no client does; the session ends with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// How far a worker is.
#[derive(Clone, Debug)]
struct Worker {
    job: Option<Job>,
    went: bool,
    over: bool,
    /// What it may move; nothing more once it has reported.
    share: Share,
    reported: bool,
}

/// Why a leg's transport cannot be used by a client with these caps.
pub type Usable = fn(&str, &Caps) -> Result<(), String>;

/// Two addresses that have spoken with each other: another host's and this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquaintance {
    /// The other host, which has echoed a token.
    pub peer: IpAddr,
    /// The address of this one that it did so to.
    pub local: IpAddr,
}

/// A session whose turn it is.
#[derive(Debug)]
pub struct State {
    caps: Caps,
    /// The client itself first.
    known: Vec<Acquaintance>,
    workers: BTreeMap<u32, Worker>,
    bytes_left: u64,
    greetings: u32,
    counting: bool,
    usable: Usable,
}

impl State {
    /// A session with `client`, which has proved to be there. `usable` says why a leg's transport
    /// cannot be used here.
    pub fn new(caps: Caps, client: Acquaintance, usable: Usable) -> State {
        State {
            bytes_left: caps.bytes,
            caps,
            known: vec![client],
            workers: BTreeMap::new(),
            greetings: 0,
            counting: false,
            usable,
        }
    }

    /// Another agent has greeted, or was greeted.
    pub fn meet(&mut self, other: Acquaintance) {
        if !self.known.contains(&other) && self.known.len() <= GREETINGS_MAX as usize {
            self.known.push(other);
        }
    }

    /// Bytes the client may still move.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Workers that have not ended.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The job a worker was given.
    pub fn job(&self, worker: u32) -> Option<&Job> {
        self.workers.get(&worker)?.job.as_ref()
    }

    /// The next request.
    ///
    /// # Errors
    ///
    /// A [`Fault`]; the session must end.
    pub fn request(&mut self, request: ToAgent) -> Result<Act, Fault> {
        match request {
            ToAgent::Hello(_) => fault("a second hello"),
            ToAgent::Clock(number) => Ok(Act::Clock(number)),
            ToAgent::Machine(intent) => describe(intent),
            ToAgent::Spawn(worker) => Ok(self.spawn(worker)),
            ToAgent::Tell(worker, message) => self.tell(worker, *message),
            // One that ended by itself meanwhile is gone already.
            ToAgent::End(worker) => Ok(Act::End(worker)),
            ToAgent::Begin => {
                self.counting = true;
                Ok(Act::Begin)
            }
            ToAgent::Settle if !std::mem::take(&mut self.counting) => {
                fault("the end of a trial that never began")
            }
            ToAgent::Settle => Ok(Act::Settle),
            ToAgent::Expect | ToAgent::Greet(..) => Ok(self.greeting(request)),
            ToAgent::Probe(octets) => Ok(Act::Answer(FromAgent::Probe(octets))),
            ToAgent::Path => Ok(Act::Path),
            ToAgent::Leave => Ok(Act::Leave),
        }
    }

    fn greeting(&mut self, request: ToAgent) -> Act {
        if self.greetings >= GREETINGS_MAX {
            let why = format!("a session greets {GREETINGS_MAX} agents at most");
            return Act::Answer(FromAgent::Refused(None, why));
        }
        self.greetings += 1;
        match request {
            ToAgent::Greet(to, token) => Act::Greet(to, token),
            _ => Act::Expect,
        }
    }

    fn spawn(&mut self, worker: u32) -> Act {
        if self.workers.contains_key(&worker) {
            return refuse(worker, "there is a worker of that number");
        }
        let most = self.caps.workers;
        if self.workers.len() >= most as usize {
            return refuse(worker, &format!("a client has {most} workers at most"));
        }
        let fresh = Worker {
            job: None,
            went: false,
            over: false,
            share: Share::default(),
            reported: false,
        };
        self.workers.insert(worker, fresh);
        Act::Spawn(worker)
    }

    fn tell(&mut self, number: u32, message: ToWorker) -> Result<Act, Fault> {
        let Some(worker) = self.workers.get(&number) else {
            // It may have ended while the message was on its way.
            return Ok(refuse(number, "there is no such worker any more"));
        };
        let (given, went, over) = (worker.job.is_some(), worker.went, worker.over);
        match message {
            ToWorker::Listen(job) if !given => Ok(self.give(number, Side::Listen, job, Vec::new())),
            ToWorker::Connect(job, frames) if !given => {
                Ok(self.give(number, Side::Connect, job, frames))
            }
            ToWorker::Go(_) if given && !went => {
                self.change(number, |worker| worker.went = true);
                Ok(Act::Tell(number, message))
            }
            ToWorker::PeerDone(_) if went && !over => {
                self.change(number, |worker| worker.over = true);
                Ok(Act::Tell(number, message))
            }
            ToWorker::Stop if given => Ok(Act::Tell(number, message)),
            _ => fault("a worker's messages out of order"),
        }
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Worker)) {
        if let Some(worker) = self.workers.get_mut(&number) {
            change(worker);
        }
    }

    /// A job for a worker, if it is within the caps, with what the agent decides: which address it
    /// binds to and speaks with, and how much it may send.
    fn give(
        &mut self,
        number: u32,
        side: Side,
        job: Job,
        frames: Vec<control::RendezvousFrame>,
    ) -> Act {
        let share = self.share(&job);
        let checked = self.check(side, &job, &frames, share);
        let known = match checked {
            Ok(known) => known,
            Err(why) => return refuse(number, &why),
        };
        let mut job = self.caps.hold(job, share);
        job.bind = Some(known.local);
        job.peer = Some(known.peer);
        job.settings.ipv6 = known.local.is_ipv6();
        self.change(number, |worker| {
            worker.job = Some(job.clone());
            worker.share = share;
        });
        Act::Tell(
            number,
            match side {
                Side::Listen => ToWorker::Listen(job),
                Side::Connect => {
                    let there = |frame| readdressed(frame, known.peer);
                    ToWorker::Connect(job, frames.into_iter().map(there).collect())
                }
            },
        )
    }

    /// What is left of the session's bytes and of its pace, divided among the workers that have no job
    /// yet. One that only receives needs none of the pace.
    fn share(&self, job: &Job) -> Share {
        let given = |of: fn(&Share) -> u64| -> u64 {
            let shares = self.workers.values().map(|one| of(&one.share));
            shares.fold(0, u64::saturating_add)
        };
        let waiting = self.workers.values().filter(|one| one.job.is_none());
        let waiting = (waiting.count() as u64).max(1);
        let bytes = given(|share| share.bytes);
        let paces = given(|share| share.pace_bytes_per_s.unwrap_or(0));
        let pace = self.caps.bytes_per_s().filter(|_| job.sends());
        Share {
            bytes: self.bytes_left.saturating_sub(bytes) / waiting,
            pace_bytes_per_s: pace.map(|pace| pace.saturating_sub(paces) / waiting),
        }
    }

    /// Whether all workers together stay within what the threads of two are.
    fn check_together(&self, job: &Job, share: Share) -> Result<(), String> {
        let jobs = self.workers.values().filter_map(|one| one.job.as_ref());
        let most = 2 * u64::from(self.caps.circuits);
        if jobs.chain([job]).map(Job::circuits).sum::<u64>() > most {
            return Err(format!(
                "a number of circuits of all workers together beyond {most} is more than this agent allows"
            ));
        }
        if share.pace_bytes_per_s == Some(0) {
            return Err("other workers send all that this agent allows".into());
        }
        Ok(())
    }

    fn check(
        &self,
        side: Side,
        job: &Job,
        frames: &[control::RendezvousFrame],
        share: Share,
    ) -> Result<Acquaintance, String> {
        if job.side != side {
            return Err("a job for the other side".into());
        }
        self.caps.check(job, share)?;
        self.check_together(job, share)?;
        for leg in &job.legs {
            (self.usable)(&leg.transport, &self.caps)?;
        }
        if side == Side::Connect && frames.len() != job.legs.len() {
            return Err("the listener tells of another number of legs".into());
        }
        let odd = |frame: &control::RendezvousFrame| {
            frame.descriptors != 0 || frame.bytes.len() > RENDEZVOUS_MAX
        };
        if frames.iter().any(odd) {
            return Err("an address that is none".into());
        }
        let Some(peer) = job.peer else {
            return Ok(self.known[0]);
        };
        let known = self.known.iter().find(|known| known.peer == peer);
        known.copied().ok_or_else(|| {
            format!("{peer} has not shown that it is there; data goes to nobody else")
        })
    }

    /// What a worker said, on its way to the client. A report ends what it may move.
    pub fn said(&mut self, worker: u32, message: FromWorker) -> FromAgent {
        if let FromWorker::Finished(report) = &message
            && let Some(worker) = self.workers.get_mut(&worker)
            && !std::mem::replace(&mut worker.reported, true)
        {
            worker.share = Share::default();
            self.bytes_left = self.bytes_left.saturating_sub(report.moved_bytes);
        }
        FromAgent::Said(worker, message)
    }

    /// A worker is gone, whose account says `booked_bytes`: the bytes it moved, and some more that it was
    /// about to. They count where it has not reported how many they were in the end.
    pub fn ended(&mut self, worker: u32, booked_bytes: u64) {
        let gone = self.workers.remove(&worker);
        if gone.is_some_and(|worker| !worker.reported) {
            self.bytes_left = self.bytes_left.saturating_sub(booked_bytes);
        }
    }
}

/// A rendezvous at another address: what a peer names is never gone to.
pub fn readdressed(mut frame: control::RendezvousFrame, to: IpAddr) -> control::RendezvousFrame {
    let line = |line: &[u8]| {
        let text = std::str::from_utf8(line).ok();
        let address = text.and_then(|text| text.parse::<SocketAddr>().ok());
        match address {
            Some(address) => SocketAddr::new(to, address.port()).to_string().into_bytes(),
            // A key; a transport that looks for an address in it finds none.
            None => line.to_vec(),
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

fn describe(intent: Intent) -> Result<Act, Fault> {
    let long = |names: &[String]| {
        names.len() > NAMES_MAX || names.iter().any(|name| name.len() > NAME_MAX)
    };
    if long(&intent.workloads) || long(&intent.transports) || intent.congestion.len() > NAME_MAX {
        return fault("an intent that is too long");
    }
    Ok(Act::Describe(intent))
}

fn refuse(worker: u32, why: &str) -> Act {
    Act::Answer(FromAgent::Refused(Some(worker), why.to_owned()))
}

fn fault<T>(what: &str) -> Result<T, Fault> {
    Err(Fault(format!("the client sent {what}")))
}
