//! A client's session, from its turn to its end: requests in, workers at work, answers out.

use super::state::{Acquaintance, Act, State};
use super::{Client, Shared, machine, privilege};
use crate::greeting;
use crate::link::{Link, LinkError, timespec};
use crate::path;
use control::frame::ANSWER_MAX;
use control::session::{FromAgent, ToAgent, Token};
use control::{Account, ChannelError, FromWorker, ToWorker};
use measure::WorkerHandle;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A client that was not heard for this long is gone; it speaks once a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(9);

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);

/// How often, while another agent is being greeted.
const GREETING_TICK: Duration = Duration::from_millis(5);

/// How long a worker may leave what it is told lying. It reads before and after a trial; a client that
/// talks to one in the middle of opening its circuits fills the channel, and loses it.
const TELL_LIMIT: Duration = Duration::from_secs(1);

/// How long a worker of this program may take to send a message whole.
const WORKER_LIMIT: Duration = Duration::from_secs(5);

/// How much longer than the time it measures a worker may live.
const WORKER_GRACE: Duration = Duration::from_secs(60);

/// A worker at work.
struct Worker {
    handle: WorkerHandle,
    until: Instant,
    /// It has reported: its circuits may have last packets to repeat, so it ends by itself.
    reported: bool,
    /// Where it books what it moves, once it has a job.
    account: Option<Account>,
    /// When its threads were last looked at, and how many looks in a row found too many.
    looked: Instant,
    crowded: u32,
}

impl Worker {
    /// Passes a message on; the account goes with the job.
    fn told(&mut self, message: &ToWorker) -> Result<(), ChannelError> {
        let is_job = matches!(message, ToWorker::Listen(_) | ToWorker::Connect(..));
        let account = self.account.as_ref().filter(|_| is_job);
        let descriptors: Vec<_> = account.map(AsFd::as_fd).into_iter().collect();
        let channel = &mut self.handle.channel;
        channel.send_within(message, &descriptors, TELL_LIMIT)
    }

    /// Why it must not go on, if so, where it may have `threads`.
    fn excess(&mut self, threads: u32) -> Option<String> {
        let now = Instant::now();
        if now > self.until {
            return Some("the worker took longer than its job may".into());
        }
        if now - self.looked < TICK {
            return None;
        }
        self.looked = now;
        let has = privilege::threads(self.handle.id()).filter(|has| *has > threads);
        self.crowded = has.map_or(0, |_| self.crowded + 1);
        // Helpers of circuits that have gone may be about to go.
        let has = has.filter(|_| self.crowded > 1)?;
        Some(format!(
            "the worker has {has} threads, and this agent allows {threads}"
        ))
    }

    /// Ends it and waits for it; gives the bytes that it booked.
    fn end(self) -> u64 {
        if self.reported {
            self.handle.end();
        } else {
            self.handle.kill();
        }
        self.account.map_or(0, |account| account.take())
    }
}

/// Another agent is being greeted, by a thread of its own: it may be far, or not there.
pub(crate) type Greeting = JoinHandle<FromGreeting>;

/// Whom, and what came of it.
type FromGreeting = (SocketAddr, Result<Acquaintance, String>);

/// The session of the client whose turn it is.
pub(crate) struct Session<'a> {
    shared: &'a Shared,
    link: &'a mut Link,
    state: State,
    client: SocketAddr,
    who: &'a str,
    number: u64,
    workers: BTreeMap<u32, Worker>,
    greeting: Option<Greeting>,
    before: Option<host::Snapshot>,
    /// Processor seconds of workers that reported since the trial began.
    own_s: f64,
    until: Instant,
}

impl<'a> Session<'a> {
    /// Serves a client.
    pub(crate) fn new(shared: &'a Shared, client: &'a mut Client, number: u64) -> Session<'a> {
        let Client {
            link,
            addresses: (client, local),
            who,
            ..
        } = client;
        let known = Acquaintance {
            peer: client.ip(),
            local: local.ip(),
        };
        Session {
            state: State::new(shared.caps.clone(), known, machine::usable),
            until: Instant::now() + Duration::from_secs(shared.caps.session_s),
            shared,
            link,
            client: *client,
            who,
            number,
            workers: BTreeMap::new(),
            greeting: None,
            before: None,
            own_s: 0.0,
        }
    }

    /// Runs until the client leaves, is gone, breaks the rules or its time is over. All workers have
    /// ended then; a greeting may go on for its few seconds, and is to be waited for.
    pub(crate) fn run(&mut self) -> (Result<(), LinkError>, Option<Greeting>) {
        let result = self.serve();
        for (_, worker) in std::mem::take(&mut self.workers) {
            worker.end();
        }
        self.shared.tokens.forget(self.number);
        (result, self.greeting.take())
    }

    fn serve(&mut self) -> Result<(), LinkError> {
        self.answer(&FromAgent::Ready)?;
        loop {
            let spoken = self.wait()?;
            for number in spoken {
                self.hear(number)?;
            }
            self.link.flush()?;
            self.link.fill()?;
            // Before requests that may rest on who has greeted.
            self.meet()?;
            while let Some(request) = self.link.take::<ToAgent>()? {
                // Many requests may have come at once; deadlines hold between them too.
                if !self.serve_one(request)? || self.is_over()? {
                    return Ok(());
                }
            }
            if self.is_over()? {
                return Ok(());
            }
        }
    }

    /// Sleeps until something happens; the workers that said something.
    fn wait(&self) -> Result<Vec<u32>, LinkError> {
        let client = self.link.descriptor();
        let sockets: Vec<_> = self
            .workers
            .values()
            .map(|worker| worker.handle.channel.descriptor())
            .collect();
        let mut ready = vec![PollFd::new(&client, self.link.interest())];
        ready.extend(
            sockets
                .iter()
                .map(|socket| PollFd::new(socket, PollFlags::IN)),
        );
        let tick = match self.greeting {
            Some(_) => GREETING_TICK,
            None => TICK,
        };
        match poll(&mut ready, Some(&timespec(tick))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LinkError::Io(error.into())),
        }
        let spoke = ready[1..].iter().map(|one| !one.revents().is_empty());
        let numbers = self.workers.keys().zip(spoke);
        Ok(numbers
            .filter(|(_, spoke)| *spoke)
            .map(|(number, _)| *number)
            .collect())
    }

    /// Whether deadlines have passed; the client is told of those that end its session.
    fn is_over(&mut self) -> Result<bool, LinkError> {
        self.link.check()?;
        if self.link.heard().elapsed() > SILENCE {
            return Err(LinkError::Silent(SILENCE));
        }
        let threads = self.shared.caps.threads;
        let workers = self.workers.iter_mut();
        let unfit: Vec<(u32, String)> = workers
            .filter_map(|(number, worker)| Some((*number, worker.excess(threads)?)))
            .collect();
        for (number, why) in unfit {
            self.fail(number, why)?;
            self.end(number)?;
        }
        if Instant::now() > self.until {
            let why = format!("a session ends after {} s", self.shared.caps.session_s);
            self.answer(&FromAgent::Over(why))?;
            return Ok(true);
        }
        if self.shared.is_stopped() {
            self.answer(&FromAgent::Over("the agent was stopped".into()))?;
            return Ok(true);
        }
        Ok(false)
    }

    fn answer(&mut self, answer: &FromAgent) -> Result<(), LinkError> {
        self.link.send(answer, ANSWER_MAX)
    }

    /// False when the client leaves.
    fn serve_one(&mut self, request: ToAgent) -> Result<bool, LinkError> {
        let act = match self.state.request(request) {
            Ok(act) => act,
            Err(fault) => {
                self.shared.counts.faults();
                self.answer(&FromAgent::Over(fault.to_string()))?;
                return Ok(false);
            }
        };
        match act {
            Act::Answer(answer) => self.answer(&answer)?,
            Act::Clock(number) => {
                let now_ns = measure::clock::now_ns();
                self.answer(&FromAgent::Clock(number, now_ns))?;
            }
            Act::Describe(intent) => self.answer(&FromAgent::Machine(machine::describe(intent)))?,
            Act::Spawn(number) => self.spawn(number)?,
            Act::Tell(number, message) => self.tell(number, &message)?,
            Act::End(number) => self.end(number)?,
            Act::Begin => {
                self.own_s = 0.0;
                self.before = Some(host::Snapshot::take());
            }
            Act::Settle => self.settle()?,
            Act::Expect => {
                let token = self.shared.tokens.make(self.number);
                self.answer(&FromAgent::Expected(token))?;
            }
            Act::Greet(to, token) => self.greet(to, token)?,
            Act::Path => {
                let facts = path::facts(self.link.descriptor());
                self.answer(&FromAgent::Path(facts))?;
            }
            Act::Leave => return Ok(false),
        }
        Ok(true)
    }

    fn spawn(&mut self, number: u32) -> Result<(), LinkError> {
        let worker = match self.shared.place.spawn() {
            Ok(worker) => worker,
            Err(error) => {
                self.state.ended(number, 0);
                return self.fail(number, error.to_string());
            }
        };
        privilege::confine(worker.id(), self.shared.caps.memory);
        self.shared.counts.worker();
        let until = Instant::now() + WORKER_GRACE;
        let worker = Worker {
            handle: worker,
            until,
            reported: false,
            account: None,
            looked: Instant::now(),
            crowded: 0,
        };
        self.workers.insert(number, worker);
        Ok(())
    }

    fn tell(&mut self, number: u32, message: &ToWorker) -> Result<(), LinkError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        if let ToWorker::Listen(job) | ToWorker::Connect(job, _) = message {
            let path = Duration::from_nanos(job.path_ns) * 8;
            let measured = Duration::from_nanos(job.limits.time_ns);
            worker.until = Instant::now() + measured + path + WORKER_GRACE;
            match Account::new() {
                Ok(account) => worker.account = Some(account),
                Err(error) => return self.fail(number, error.to_string()),
            }
        }
        if let Err(ChannelError::TimedOut(_)) = worker.told(message) {
            self.fail(
                number,
                "the worker was told more than it can listen to".into(),
            )?;
            return self.end(number);
        }
        // One that is gone is noticed by its silence.
        Ok(())
    }

    /// A worker has something to say, or is gone.
    fn hear(&mut self, number: u32) -> Result<(), LinkError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        match worker.handle.channel.receive::<FromWorker>(WORKER_LIMIT) {
            Ok((message, _)) => {
                if let FromWorker::Finished(report) = &message {
                    worker.reported = true;
                    self.own_s += report.cpu.task_ns as f64 * 1e-9;
                    self.shared.counts.trial();
                }
                let said = self.state.said(number, message);
                self.answer(&said)
            }
            Err(_) => self.end(number),
        }
    }

    fn end(&mut self, number: u32) -> Result<(), LinkError> {
        let worker = self.workers.remove(&number);
        let booked_bytes = worker.map_or(0, Worker::end);
        self.state.ended(number, booked_bytes);
        self.answer(&FromAgent::Ended(number))
    }

    fn fail(&mut self, number: u32, why: String) -> Result<(), LinkError> {
        let said = self.state.said(number, FromWorker::Failed(why));
        self.answer(&said)
    }

    fn settle(&mut self) -> Result<(), LinkError> {
        let Some(before) = self.before.take() else {
            return Ok(());
        };
        let seen = before.until(&host::Snapshot::take());
        let interface = path::facts(self.link.descriptor()).interface;
        let counters = machine::counters(&seen, self.own_s, interface);
        self.answer(&FromAgent::Settled(counters))
    }

    fn greet(&mut self, to: SocketAddr, token: Token) -> Result<(), LinkError> {
        let started = if self.greeting.is_some() {
            Err("another greeting is on its way".into())
        } else if self.shared.tokens.is_own(&token) {
            Err("an agent does not greet itself".into())
        } else {
            greeting::reachable(to, self.client.ip()).and_then(|to| {
                let greet = move || (to, greeting::greet(to, token));
                let thread = std::thread::Builder::new().name("greeting".into());
                let thread = thread.stack_size(super::STACK).spawn(greet);
                thread.map_err(|error| error.to_string())
            })
        };
        match started {
            Ok(greeting) => {
                self.greeting = Some(greeting);
                Ok(())
            }
            Err(why) => self.answer(&FromAgent::Refused(None, format!("{to}: {why}"))),
        }
    }

    /// Other agents that have greeted meanwhile, or were greeted.
    fn meet(&mut self) -> Result<(), LinkError> {
        for known in self.shared.tokens.take(self.number) {
            self.state.meet(known);
        }
        let Some(done) = self.greeting.take_if(|greeting| greeting.is_finished()) else {
            return Ok(());
        };
        let answer = match done.join() {
            Ok((_, Ok(known))) => {
                self.state.meet(known);
                FromAgent::Greeted(known.local)
            }
            Ok((to, Err(why))) => FromAgent::Refused(None, format!("{to}: {why}")),
            Err(_) => FromAgent::Refused(None, "the greeting broke".into()),
        };
        self.answer(&answer)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.shared.log(format_args!("{} has left", self.who));
    }
}
