//! The thread of a session: it keeps the connection alive, and passes messages between the agent and
//! the channels of the workers there, as if these were processes of this host.

use super::{Known, lock};
use crate::link::{Link, LinkError, timespec};
use crate::server::state::readdressed;
use control::frame::REQUEST_MAX;
use control::session::{FromAgent, ToAgent};
use control::{Channel, FromWorker, Job, ToWorker, Workload, vet};
use measure::clock::now_ns;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the clocks are compared, which also says that this end is alive.
const COMPARE_EVERY: Duration = Duration::from_millis(500);

/// How often while one-way delays are measured, which clocks must not have run far apart for.
const COMPARE_OFTEN: Duration = Duration::from_millis(100);

/// Comparisons without an answer that are remembered: those of the time until an agent is gone.
const QUESTIONS_MAX: usize = 128;

/// An agent that was not heard for this long is gone; it answers each comparison.
const SILENCE: Duration = Duration::from_secs(9);

/// How long a channel of this process may take.
const LOCAL_LIMIT: Duration = Duration::from_secs(5);

/// What the session asks of its thread.
pub(super) enum Command {
    /// Send a request and pass on its answer.
    Ask(ToAgent, Sender<FromAgent>),
    /// Send a request.
    Tell(ToAgent),
    /// Compare the clocks so many times, one round trip after another.
    Compare(u32, Sender<()>),
    /// Start a worker, spoken to through this end of a channel.
    Spawn(u32, Channel),
    /// Tell when a worker has ended.
    AwaitEnd(u32, Sender<()>),
    /// Go.
    Leave,
}

/// A worker on the agent's host.
struct Worker {
    channel: Option<Channel>,
    job: Option<Job>,
    waiting: Vec<Sender<()>>,
}

/// The thread's state.
pub(super) struct Pump {
    link: Link,
    commands: Receiver<Command>,
    rope: UnixStream,
    known: Arc<Mutex<Known>>,
    agent: IpAddr,
    workers: BTreeMap<u32, Worker>,
    asked: Option<Sender<FromAgent>>,
    /// Comparisons to come, and who waits for them.
    compare: Option<(u32, Sender<()>)>,
    /// Comparisons under way, by their numbers and when they were sent: on a long way there are
    /// several.
    questions: VecDeque<(u32, u64)>,
    next_question: u32,
    compared: Instant,
    leaving: bool,
}

impl Pump {
    pub(super) fn new(
        link: Link,
        commands: Receiver<Command>,
        rope: UnixStream,
        known: Arc<Mutex<Known>>,
        agent: IpAddr,
    ) -> Pump {
        Pump {
            link,
            commands,
            rope,
            known,
            agent,
            workers: BTreeMap::new(),
            asked: None,
            compare: None,
            questions: VecDeque::new(),
            next_question: 1,
            compared: Instant::now(),
            leaving: false,
        }
    }

    /// Runs until the session is left or the agent is gone; why is noted.
    pub(super) fn run(mut self) {
        let why = match self.serve() {
            Ok(()) => "the session was left".to_owned(),
            Err(error) => error.to_string(),
        };
        let why = lock(&self.known).gone.get_or_insert(why).clone();
        for worker in self.workers.values_mut() {
            if let Some(channel) = &mut worker.channel {
                // Whoever waits for the worker hears why it will say nothing more.
                let text = format!("the agent is gone: {why}");
                let _ = channel.send(&FromWorker::Failed(text), &[]);
            }
        }
    }

    fn serve(&mut self) -> Result<(), LinkError> {
        loop {
            self.obey()?;
            if self.leaving {
                self.ask(&ToAgent::Leave)?;
                return Ok(());
            }
            if self.compared.elapsed() > self.compare_every() {
                self.compare_once()?;
            }
            let spoken = self.wait()?;
            // What was asked for before a worker was told anything goes first: an agent divides what it
            // allows among the workers that it knows of.
            self.obey()?;
            for number in spoken {
                self.hear(number)?;
            }
            self.link.flush()?;
            self.link.fill()?;
            while let Some(answer) = self.link.take::<FromAgent>()? {
                self.answered(answer)?;
            }
            self.link.check()?;
            if self.link.heard().elapsed() > SILENCE {
                return Err(LinkError::Silent(SILENCE));
            }
        }
    }

    fn ask(&mut self, request: &ToAgent) -> Result<(), LinkError> {
        self.link.send(request, REQUEST_MAX)
    }

    /// Does what the session asked for.
    fn obey(&mut self) -> Result<(), LinkError> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Ask(request, answer)) => {
                    self.asked = Some(answer);
                    self.ask(&request)?;
                }
                Ok(Command::Tell(request)) => self.ask(&request)?,
                Ok(Command::Compare(times, done)) => {
                    self.compare = Some((times, done));
                    self.compare_once()?;
                }
                Ok(Command::Spawn(number, channel)) => {
                    let worker = Worker {
                        channel: Some(channel),
                        job: None,
                        waiting: Vec::new(),
                    };
                    self.workers.insert(number, worker);
                    self.ask(&ToAgent::Spawn(number))?;
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

    fn await_end(&mut self, number: u32, ended: Sender<()>) -> Result<(), LinkError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            let _ = ended.send(());
            return Ok(());
        };
        worker.waiting.push(ended);
        if worker.channel.take().is_some() {
            self.ask(&ToAgent::End(number))?;
        }
        Ok(())
    }

    fn compare_every(&self) -> Duration {
        let is_one_way = |worker: &Worker| {
            let job = worker.job.as_ref();
            job.is_some_and(|job| job.workload == Workload::Offered)
        };
        if self.workers.values().any(is_one_way) {
            COMPARE_OFTEN
        } else {
            COMPARE_EVERY
        }
    }

    fn compare_once(&mut self) -> Result<(), LinkError> {
        self.compared = Instant::now();
        let number = self.next_question;
        self.next_question = number.wrapping_add(1);
        if self.questions.len() == QUESTIONS_MAX {
            self.questions.pop_front();
        }
        self.questions.push_back((number, now_ns()));
        self.ask(&ToAgent::Clock(number))
    }

    /// Sleeps until something happens; the workers whose channels have something.
    fn wait(&mut self) -> Result<Vec<u32>, LinkError> {
        let agent = self.link.descriptor();
        let mut ready = vec![
            PollFd::new(&agent, self.link.interest()),
            PollFd::new(&self.rope, PollFlags::IN),
        ];
        let open = |(number, worker): (&u32, &Worker)| worker.channel.is_some().then_some(*number);
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
        let span = self.compare_every().saturating_sub(self.compared.elapsed());
        match poll(&mut ready, Some(&timespec(span))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LinkError::Io(error.into())),
        }
        let rung = !ready[1].revents().is_empty();
        let spoke = ready[2..].iter().map(|one| !one.revents().is_empty());
        let spoken = numbers.into_iter().zip(spoke).filter(|(_, spoke)| *spoke);
        let spoken = spoken.map(|(number, _)| number).collect();
        if rung {
            // How often it was rung does not matter.
            let _ = self.rope.read(&mut [0; 64]);
        }
        Ok(spoken)
    }

    /// A message for a worker, or the end of its channel.
    fn hear(&mut self, number: u32) -> Result<(), LinkError> {
        let Some(worker) = self.workers.get_mut(&number) else {
            return Ok(());
        };
        let Some(channel) = &mut worker.channel else {
            return Ok(());
        };
        match channel.receive::<ToWorker>(LOCAL_LIMIT) {
            Ok((message, _)) => {
                if let ToWorker::Listen(job) | ToWorker::Connect(job, _) = &message {
                    worker.job = Some(job.clone());
                }
                self.ask(&ToAgent::Tell(number, Box::new(message)))
            }
            Err(_) => {
                worker.channel = None;
                self.ask(&ToAgent::End(number))
            }
        }
    }

    fn answered(&mut self, answer: FromAgent) -> Result<(), LinkError> {
        match answer {
            FromAgent::Clock(number, theirs_ns) => return self.clock(number, theirs_ns),
            FromAgent::Said(number, message) => self.said(number, message),
            FromAgent::Refused(Some(number), why) => {
                self.said(number, FromWorker::Failed(why));
            }
            FromAgent::Ended(number) => {
                if let Some(worker) = self.workers.remove(&number) {
                    // Who waits may have given up.
                    for waiting in worker.waiting {
                        let _ = waiting.send(());
                    }
                }
            }
            FromAgent::Over(why) => return Err(LinkError::Keys(vet::sentence(&why))),
            FromAgent::Hello(_) | FromAgent::Queued(_) | FromAgent::Ready => {}
            FromAgent::Refused(None, why) => {
                self.pass(FromAgent::Refused(None, vet::sentence(&why)))
            }
            other => self.pass(other),
        }
        Ok(())
    }

    fn pass(&mut self, answer: FromAgent) {
        if let Some(asked) = self.asked.take() {
            let _ = asked.send(answer);
        }
    }

    fn clock(&mut self, number: u32, theirs_ns: u64) -> Result<(), LinkError> {
        let known = |question: &(u32, u64)| question.0 == number;
        // Answers to what nobody asked, or asked too long ago, say nothing.
        let Some(at) = self.questions.iter().position(known) else {
            return Ok(());
        };
        let sent_ns = self.questions[at].1;
        self.questions.drain(..=at);
        lock(&self.known).clock.add(sent_ns, theirs_ns, now_ns());
        match self.compare.take() {
            Some((0 | 1, done)) => drop(done.send(())),
            Some((left, done)) => {
                self.compare = Some((left - 1, done));
                return self.compare_once();
            }
            None => {}
        }
        Ok(())
    }

    /// What a worker there said, once it has been looked at.
    fn said(&mut self, number: u32, message: FromWorker) {
        let agent = self.agent;
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        let message = vet::message(message, worker.job.as_ref()).unwrap_or_else(|why| {
            FromWorker::Failed(format!("the agent's answer makes no sense: {why}"))
        });
        let message = match message {
            // Wherever it says its listeners are, they are where it is itself.
            FromWorker::Listening(frames) => FromWorker::Listening(
                frames
                    .into_iter()
                    .map(|frame| readdressed(frame, agent))
                    .collect(),
            ),
            other => other,
        };
        if let Some(channel) = &mut worker.channel
            && channel.send(&message, &[]).is_err()
        {
            worker.channel = None;
        }
    }
}
