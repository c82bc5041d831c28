//! The thread that emulates a link.

use super::link_report::LinkReport;
use super::membership::is_group_membership;
use super::path_model::FrameModel;
use super::queue_record::QueueRecord;
use super::sleep_latency::{SleepLatency, WAKE_EARLY_NS};
use crate::error::TestbedError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Largest frame with its Ethernet header and, if a super-frame, its virtio header.
pub const FRAME_MAX: usize = 65_536 + 128;

/// Frames read from a port before other ports and due frames are served.
const BATCH: usize = 32;

/// Wake-up samples, and their interval.
const WAKEUP_SAMPLES: usize = 15;
const WAKEUP_SAMPLE_INTERVAL: Duration = Duration::from_millis(2);

/// Nice value of the thread.
const THREAD_NICE: i32 = -15;

/// Longest sleep, ns; it bounds the effect of a lost wake-up.
const SLEEP_MAX_NS: u64 = 1_000_000_000;

/// A host's interface, as seen by this process.
#[derive(Debug)]
pub struct Port {
    device: OwnedFd,
}

impl Port {
    /// Uses `device`, which must be non-blocking.
    pub(crate) fn new(device: OwnedFd) -> Port {
        Port { device }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Port> {
        let device = self.device.try_clone()?;
        Ok(Port { device })
    }

    /// Reads the next frame from the host; None if there is none.
    fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        match rustix::io::read(&self.device, buffer) {
            Ok(len) if len > 0 => Some(len),
            _ => None,
        }
    }

    /// Writes a frame to the host; false if it was refused.
    fn write(&self, frame: &[u8]) -> bool {
        loop {
            match rustix::io::write(&self.device, frame) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// The ports that frames are written to, by host number.
#[derive(Debug)]
pub struct OutputPorts {
    ports: Vec<Option<Port>>,
    written: u64,
    refused: u64,
}

impl OutputPorts {
    /// Writes a frame to the host numbered `to`, or to all.
    pub(crate) fn write(&mut self, to: Option<usize>, frame: &[u8]) {
        match to {
            Some(number) => {
                let port = self.ports.get(number).and_then(Option::as_ref);
                self.count(port.is_some_and(|port| port.write(frame)));
            }
            None => {
                for at in 0..self.ports.len() {
                    if let Some(port) = &self.ports[at] {
                        let taken = port.write(frame);
                        self.count(taken);
                    }
                }
            }
        }
    }

    /// Writes a frame to all hosts but its sender, numbered `from`, and counts nothing.
    fn pass(&self, from: usize, frame: &[u8]) {
        let ports = self.ports.iter().enumerate();
        let others = ports.filter(|(at, _)| *at != from);
        for port in others.filter_map(|(_, port)| port.as_ref()) {
            port.write(frame);
        }
    }

    fn count(&mut self, taken: bool) {
        if taken {
            self.written += 1;
        } else {
            self.refused += 1;
        }
    }
}

/// Commands to a link thread.
enum Command {
    Begin(u64, Sender<()>),
    End(Sender<LinkReport>),
    Report(Sender<LinkReport>),
    /// Record the queues, at most once in so many ns.
    RecordQueues(u64),
    TakeQueues(Sender<[Vec<(u64, u64)>; 2]>),
    /// Answer with the time since this one, ns.
    MeasureWakeup(u64, Sender<u64>),
    /// Take the arrival of frames that end a sleep as this much earlier, ns.
    SetWakeupLatency(u64),
    Stop,
}

/// Handle of a link thread.
#[derive(Debug)]
pub struct LinkThread {
    commands: Sender<Command>,
    wakeup: Arc<WakeupEvent>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread for commands: a flag to poll, an eventfd to end a sleep.
#[derive(Debug)]
struct WakeupEvent {
    signalled: AtomicBool,
    event: OwnedFd,
}

impl LinkThread {
    /// Starts a thread that passes frames from the ports of `from` to those of `to`.
    pub(crate) fn start(
        name: &str,
        from: Vec<Option<Port>>,
        to: Vec<Option<Port>>,
        model: impl FrameModel + 'static,
    ) -> Result<LinkThread, TestbedError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| TestbedError::kernel("an event descriptor")(error.into()))?;
        let wakeup = Arc::new(WakeupEvent {
            signalled: AtomicBool::new(false),
            event,
        });
        let (orders, receiver) = channel();
        let runner = LinkLoop {
            from,
            outputs: OutputPorts {
                ports: to,
                written: 0,
                refused: 0,
            },
            model,
            commands: receiver,
            wakeup: Arc::clone(&wakeup),
            began: StartReadings::default(),
            sleep_latency: SleepLatency::default(),
            wakeup_latency_ns: 0,
            slept_since_ns: None,
            queues: None,
            buffer: vec![0; FRAME_MAX],
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runner.run())
            .map_err(TestbedError::kernel("a thread for the link"))?;
        Ok(LinkThread {
            commands: orders,
            wakeup,
            thread: Some(thread),
        })
    }

    pub(crate) fn begin(&self, seed: u64) {
        self.request(|done| Command::Begin(seed, done));
    }

    pub(crate) fn end(&self) -> LinkReport {
        self.request(Command::End).unwrap_or_default()
    }

    /// Measures the wake-up latency. The lower quartile is used, so that a busy moment does not
    /// backdate frames.
    pub(crate) fn measure_wakeup(&self) {
        let mut late_ns: Vec<u64> = Vec::new();
        for _ in 0..WAKEUP_SAMPLES {
            std::thread::sleep(WAKEUP_SAMPLE_INTERVAL);
            let now_ns = clock_ns(ClockId::Monotonic);
            late_ns.extend(self.request(|done| Command::MeasureWakeup(now_ns, done)));
        }
        late_ns.sort_unstable();
        let quartile = late_ns.get(late_ns.len() / 4).copied().unwrap_or(0);
        self.send(Command::SetWakeupLatency(quartile.min(WAKE_EARLY_NS.1)));
    }

    pub(crate) fn record_queues(&self, every_ns: u64) {
        self.send(Command::RecordQueues(every_ns));
    }

    /// The queues of [`FrameModel::queued_octets`].
    pub(crate) fn take_queues(&self) -> [Vec<(u64, u64)>; 2] {
        self.request(Command::TakeQueues).unwrap_or_default()
    }

    pub(crate) fn report(&self) -> LinkReport {
        self.request(Command::Report).unwrap_or_default()
    }

    /// Sends a command and waits for the answer; None if the thread has ended.
    fn request<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (done, answer) = channel();
        self.send(command(done));
        answer.recv().ok()
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.wakeup.signalled.store(true, Ordering::Release);
            // A full counter wakes the thread too.
            let _ = rustix::io::write(&self.wakeup.event, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic was already printed.
            let _ = thread.join();
        }
    }
}

/// Readings at the begin of a measurement.
#[derive(Clone, Copy, Debug, Default)]
struct StartReadings {
    at_ns: u64,
    cpu_ns: u64,
    written: u64,
    refused: u64,
}

/// The state of the thread.
struct LinkLoop<C> {
    from: Vec<Option<Port>>,
    outputs: OutputPorts,
    model: C,
    commands: Receiver<Command>,
    wakeup: Arc<WakeupEvent>,
    began: StartReadings,
    sleep_latency: SleepLatency,
    /// Wake-up latency, ns.
    wakeup_latency_ns: u64,
    /// Begin of the sleep that a frame or command has just ended, ns.
    slept_since_ns: Option<u64>,
    /// Records of the queues, while they are asked for.
    queues: Option<[QueueRecord; 2]>,
    buffer: Vec<u8>,
}

impl<C: FrameModel> LinkLoop<C> {
    fn run(mut self) {
        // The default timer slack is 50 us. If it cannot be changed, the lag shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // If hosts share its CPU, the link goes first, if permitted. This is the priority of this
        // thread alone.
        let _ = rustix::process::setpriority_process(None, THREAD_NICE);
        self.began = self.now();
        loop {
            if self.wakeup.signalled.swap(false, Ordering::Acquire) && self.handle_commands() {
                return;
            }
            let mut now_ps = now_ps();
            // After a wake-up, read frames that arrived before now, then deliver.
            if self.slept_since_ns.is_none() {
                self.model.deliver(now_ps, &mut self.outputs);
            }
            let mut read = 0;
            for at in 0..self.from.len() {
                read += self.read_port(at);
            }
            self.slept_since_ns = None;
            self.record_queues();
            if read > 0 {
                continue;
            }
            now_ps = self::now_ps();
            match self.model.due_ps() {
                Some(due_ps) => {
                    let left_ns = due_ps.saturating_sub(now_ps) / 1000;
                    let early_ns = self.sleep_latency.early_ns(left_ns);
                    if left_ns > early_ns {
                        self.timed_sleep(left_ns - early_ns);
                    }
                }
                None => {
                    self.sleep(SLEEP_MAX_NS);
                }
            }
        }
    }

    /// Reads frames from the host at `at`; gives their number. What a kernel says of its groups, at times
    /// of its own, passes beside the model: it would shift the fate of every later frame.
    fn read_port(&mut self, at: usize) -> usize {
        for count in 0..BATCH {
            let port = self.from[at].as_ref();
            let Some(len) = port.and_then(|port| port.read(&mut self.buffer)) else {
                return count;
            };
            let now_ps = self.arrival_ps();
            let octets = &mut self.buffer[..len];
            let frame = octets.get(self.model.ether_header_at()..);
            if frame.is_some_and(is_group_membership) {
                self.outputs.pass(at, octets);
            } else {
                self.model.offer(now_ps, at, octets, &mut self.outputs);
            }
        }
        BATCH
    }

    #[inline]
    fn record_queues(&mut self) {
        let Some(records) = &mut self.queues else {
            return;
        };
        let now_ps = now_ps();
        if !records.iter().any(|record| record.is_due(now_ps)) {
            return;
        }
        let octets = self.model.queued_octets(now_ps);
        for (record, octets) in records.iter_mut().zip(octets) {
            if let (true, Some(octets)) = (record.is_due(now_ps), octets) {
                record.push(now_ps, octets);
            }
        }
    }

    /// Arrival time of the frame just read: one that ended a sleep arrived a wake-up latency
    /// earlier, but not before the sleep began.
    fn arrival_ps(&mut self) -> u64 {
        let now_ns = clock_ns(ClockId::Monotonic);
        let came_ns = match self.slept_since_ns.take() {
            Some(slept_ns) => now_ns.saturating_sub(self.wakeup_latency_ns).max(slept_ns),
            None => now_ns,
        };
        came_ns.wrapping_mul(1000)
    }

    /// Sleeps for `ns`, and measures how late the sleep ends.
    fn timed_sleep(&mut self, ns: u64) {
        let began_ns = clock_ns(ClockId::Monotonic);
        if self.sleep(ns) {
            let slept_ns = clock_ns(ClockId::Monotonic) - began_ns;
            self.sleep_latency.learn(ns, slept_ns);
        }
    }

    /// Sleeps until a frame or a command arrives, or for `ns`; true for the latter.
    fn sleep(&mut self, ns: u64) -> bool {
        let began_ns = clock_ns(ClockId::Monotonic);
        let ports = self.from.iter().flatten().map(|port| port.device.as_fd());
        let all = ports.chain([self.wakeup.event.as_fd()]);
        let mut waited: Vec<PollFd<'_>> = all
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let ns = ns.min(SLEEP_MAX_NS);
        let span = Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        // A signal may shorten the sleep.
        let ended = poll(&mut waited, Some(&span));
        self.slept_since_ns = matches!(ended, Ok(1..)).then_some(began_ns);
        matches!(ended, Ok(0))
    }

    /// Handles commands; true for stop.
    fn handle_commands(&mut self) -> bool {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.wakeup.event, &mut counter);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Begin(seed, done) => {
                    self.model.begin(now_ps(), seed);
                    self.began = self.now();
                    let _ = done.send(());
                }
                Command::End(done) => {
                    let _ = done.send(self.report());
                    self.model.end();
                }
                Command::Report(done) => {
                    let _ = done.send(self.report());
                }
                Command::RecordQueues(every_ns) => {
                    self.queues = Some([0; 2].map(|_| QueueRecord::new(every_ns, now_ps())));
                }
                Command::TakeQueues(done) => {
                    let now = (now_ps(), clock_ns(ClockId::Monotonic));
                    let taken = self.queues.take();
                    let finish = |all: [QueueRecord; 2]| all.map(|one| one.finish(now.0, now.1));
                    let _ = done.send(taken.map(finish).unwrap_or_default());
                }
                Command::MeasureWakeup(then_ns, done) => {
                    let _ = done.send(clock_ns(ClockId::Monotonic).saturating_sub(then_ns));
                }
                Command::SetWakeupLatency(ns) => self.wakeup_latency_ns = ns,
                Command::Stop => return true,
            }
        }
        false
    }

    fn now(&self) -> StartReadings {
        StartReadings {
            at_ns: clock_ns(ClockId::Monotonic),
            cpu_ns: clock_ns(ClockId::ThreadCPUTime),
            written: self.outputs.written,
            refused: self.outputs.refused,
        }
    }

    fn report(&self) -> LinkReport {
        let now = self.now();
        LinkReport {
            written: now.written - self.began.written,
            refused: now.refused - self.began.refused,
            cpu_ns: now.cpu_ns - self.began.cpu_ns,
            elapsed_ns: now.at_ns - self.began.at_ns,
            ..self.model.report()
        }
    }
}

pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The links' clock: ps since boot, which overflow after 200 days.
pub(crate) fn now_ps() -> u64 {
    clock_ns(ClockId::Monotonic).wrapping_mul(1000)
}
