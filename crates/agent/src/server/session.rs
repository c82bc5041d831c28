//! A client's session, from its turn to its end: requests in, workers at work, answers out.

use super::state::{Acquaintance, Act, State};
use super::{Shared, machine};
use crate::greeting;
use crate::link::{Link, LinkError, timespec};
use crate::path;
use control::frame::ANSWER_MAX;
use control::session::{FromAgent, ToAgent};
use control::{FromWorker, ToWorker};
use measure::WorkerHandle;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A client that was not heard for this long is gone; it speaks once a second.
pub(crate) const SILENCE: Duration = Duration::from_secs(9);

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);

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
}

impl Worker {
    /// Ends it and waits for it.
    fn end(self) {
        if self.reported {
            self.handle.end();
        } else {
            self.handle.kill();
        }
    }
}

/// The session of the client whose turn it is.
pub(crate) struct Session<'a> {
    shared: &'a Shared,
    link: &'a mut Link,
    state: State,
    client: SocketAddr,
    number: u64,
    workers: BTreeMap<u32, Worker>,
    before: Option<host::Snapshot>,
    /// Processor seconds of workers that reported since the trial began.
    own_s: f64,
    until: Instant,
}

impl<'a> Session<'a> {
    /// Serves `client` on `link`.
    pub(crate) fn new(
        shared: &'a Shared,
        link: &'a mut Link,
        (client, local): (SocketAddr, SocketAddr),
        number: u64,
    ) -> Session<'a> {
        let known = Acquaintance {
            peer: client.ip(),
            local: local.ip(),
        };
        Session {
            state: State::new(shared.caps.clone(), known, machine::usable),
            until: Instant::now() + Duration::from_secs(shared.caps.session_s),
            shared,
            link,
            client,
            number,
            workers: BTreeMap::new(),
            before: None,
            own_s: 0.0,
        }
    }

    /// Runs until the client leaves, is gone, breaks the rules or its time is over. All workers have
    /// ended then.
    pub(crate) fn run(&mut self) -> Result<(), LinkError> {
        let result = self.serve();
        for (_, worker) in std::mem::take(&mut self.workers) {
            worker.end();
        }
        self.shared.tokens.forget(self.number);
        result
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
            while let Some(request) = self.link.take::<ToAgent>()? {
                if !self.serve_one(request)? {
                    return Ok(());
                }
            }
            self.meet()?;
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
        match poll(&mut ready, Some(&timespec(TICK))) {
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
        let late: Vec<u32> = self
            .workers
            .iter()
            .filter(|(_, worker)| Instant::now() > worker.until)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            self.fail(number, "the worker took longer than its job may".into())?;
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
                self.state.ended(number);
                return self.fail(number, error.to_string());
            }
        };
        crate::server::privilege::confine(worker.id(), self.shared.caps.memory);
        self.shared.counts.worker();
        let until = Instant::now() + WORKER_GRACE;
        let worker = Worker {
            handle: worker,
            until,
            reported: false,
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
        }
        // One that is gone is noticed by its silence.
        let _ = worker.handle.channel.send(message, &[]);
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
        if let Some(worker) = self.workers.remove(&number) {
            worker.end();
        }
        self.state.ended(number);
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

    fn greet(&mut self, to: SocketAddr, token: control::session::Token) -> Result<(), LinkError> {
        let met = greeting::greet(to, token);
        let answer = match met {
            Ok(known) => {
                self.state.meet(known);
                FromAgent::Greeted(known.local)
            }
            Err(why) => FromAgent::Refused(None, format!("{to}: {why}")),
        };
        self.answer(&answer)
    }

    /// Other agents that have greeted meanwhile.
    fn meet(&mut self) -> Result<(), LinkError> {
        for known in self.shared.tokens.take(self.number) {
            self.state.meet(known);
        }
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.shared.log(format_args!("{} has left", self.client));
    }
}
