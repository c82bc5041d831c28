//! A thread that carries frames.

use super::path_model::FrameModel;
use crate::error::TestbedError;
use link::LinkCounters;
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

/// A frame with its Ethernet header and, of a super-frame, the header in front of that.
pub const FRAME_MAX: usize = 65_536 + 128;

/// Frames read from one port before others have their turn and due frames are written.
const BATCH: usize = 32;

/// A sleep longer than this may let the processor halt, from which it takes longer to wake, ns.
const IDLE_STATE_NS: u64 = 250_000;

/// Sleeps end before a frame is due by as much as earlier ones were late, within these bounds, ns.
/// The rest is spent looking at the clock.
const WAKE_EARLY_NS: (u64, u64) = (10_000, 200_000);

/// How often a lane is woken to learn how long that takes, and how far apart.
const WAKEUP_SAMPLES: usize = 15;
const WAKEUP_SAMPLE_INTERVAL: Duration = Duration::from_millis(2);

/// Nice value of a lane.
const THREAD_NICE: i32 = -15;

/// Longest sleep, ns, so that a lost wake-up would only cost this.
const SLEEP_MAX_NS: u64 = 1_000_000_000;

/// A host's interface, as this process sees it.
#[derive(Debug)]
pub struct Port {
    device: OwnedFd,
}

impl Port {
    /// Frames go through `device`, which must not block.
    pub(crate) fn new(device: OwnedFd) -> Port {
        Port { device }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Port> {
        let device = self.device.try_clone()?;
        Ok(Port { device })
    }

    /// The next frame the host sent; None when there is none.
    fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        match rustix::io::read(&self.device, buffer) {
            Ok(len) if len > 0 => Some(len),
            _ => None,
        }
    }

    /// Hands the host a frame; whether it took it.
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

/// The ports of a lane that frames may be written to, by host number.
#[derive(Debug)]
pub struct OutputPorts {
    ports: Vec<Option<Port>>,
    written: u64,
    refused: u64,
}

impl OutputPorts {
    /// Writes a frame to the host numbered `to`, or to every one.
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

    fn count(&mut self, taken: bool) {
        if taken {
            self.written += 1;
        } else {
            self.refused += 1;
        }
    }
}

/// How late frames were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Frames that waited for their time.
    pub frames: u64,
    /// Sum of their lags, ns.
    pub sum_ns: u64,
    /// The largest, ns.
    pub max_ns: u64,
    /// Those late by more than 50 us.
    pub late: u64,
}

/// A lag that shows in a delay, ns.
const LATE_NS: u64 = 50_000;

impl Lag {
    /// Counts a frame that was due at `due_ps` and written at `now_ps`.
    pub(crate) fn record(&mut self, due_ps: u64, now_ps: u64) {
        let ns = now_ps.saturating_sub(due_ps) / 1000;
        self.frames += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.late += u64::from(ns > LATE_NS);
    }

    /// Mean lag, us; 0 without frames.
    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / 1000.0 / self.frames.max(1) as f64
    }
}

/// What a lane did since its measurement began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// The model's counts: frames as they were read, super-frames counted once; octets as they
    /// would be on a wire.
    pub link: LinkCounters,
    /// Frames handed to hosts, super-frames counted once.
    pub written: u64,
    /// Frames a host's interface did not take.
    pub refused: u64,
    /// Frames dropped because those under way filled the emulator's memory.
    pub overflowed: u64,
    /// Frames under way now.
    pub in_flight: u64,
    /// Transmissions that collided; only on a shared ether.
    pub collisions: u64,
    /// How late frames were.
    pub lag: Lag,
    /// Processor time of the lane, ns: reading, the model, and the hosts' receiving, which the
    /// kernel does within the write.
    pub cpu_ns: u64,
    /// Time since the measurement began, ns.
    pub elapsed_ns: u64,
}

/// What a lane is told.
enum Command {
    Begin(u64, Sender<()>),
    End(Sender<LinkReport>),
    Report(Sender<LinkReport>),
    /// Say how late this is, given at the time, ns.
    MeasureWakeup(u64, Sender<u64>),
    /// Take frames that end a sleep for so much older, ns.
    SetWakeupLatency(u64),
    Stop,
}

/// A lane's thread.
#[derive(Debug)]
pub struct LinkThread {
    commands: Sender<Command>,
    wakeup: Arc<WakeupEvent>,
    thread: Option<JoinHandle<()>>,
}

/// Says that there are orders: a flag to look at, a descriptor to wake from a sleep.
#[derive(Debug)]
struct WakeupEvent {
    signalled: AtomicBool,
    event: OwnedFd,
}

impl LinkThread {
    /// Carries frames from the ports of `from` to those of `to`.
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

    /// Learns how long it takes to wake for a frame. The lower quartile stands for all, so that a
    /// busy moment makes no frame older than it is.
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

    pub(crate) fn report(&self) -> LinkReport {
        self.request(Command::Report).unwrap_or_default()
    }

    /// The lane's answer; None from one that is gone.
    fn request<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (done, answer) = channel();
        self.send(command(done));
        answer.recv().ok()
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.wakeup.signalled.store(true, Ordering::Release);
            // A counter that is full wakes the lane just as well.
            let _ = rustix::io::write(&self.wakeup.event, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// How late sleeps end, as a running mean: short ones, and those that may halt the processor.
#[derive(Clone, Copy, Debug, Default)]
struct SleepLatency {
    mean_ns: [u64; 2],
}

impl SleepLatency {
    /// How much before `left_ns` from now a sleep should end.
    fn early_ns(&self, left_ns: u64) -> u64 {
        let mean_ns = self.mean_ns[usize::from(left_ns > IDLE_STATE_NS)];
        (mean_ns * 3 / 2).clamp(WAKE_EARLY_NS.0, WAKE_EARLY_NS.1)
    }

    /// A sleep of `asked_ns` that nothing ended early took `slept_ns`.
    fn learn(&mut self, asked_ns: u64, slept_ns: u64) {
        let late_ns = slept_ns.saturating_sub(asked_ns);
        let mean_ns = &mut self.mean_ns[usize::from(asked_ns > IDLE_STATE_NS)];
        *mean_ns = (*mean_ns * 7 + late_ns) / 8;
    }
}

/// Readings when a measurement began.
#[derive(Clone, Copy, Debug, Default)]
struct StartReadings {
    at_ns: u64,
    cpu_ns: u64,
    written: u64,
    refused: u64,
}

/// The inside of a lane.
struct LinkLoop<C> {
    from: Vec<Option<Port>>,
    outputs: OutputPorts,
    model: C,
    commands: Receiver<Command>,
    wakeup: Arc<WakeupEvent>,
    began: StartReadings,
    sleep_latency: SleepLatency,
    /// How long it takes to wake, ns.
    wakeup_latency_ns: u64,
    /// When the sleep began that somebody has just ended, ns.
    slept_since_ns: Option<u64>,
    buffer: Vec<u8>,
}

impl<C: FrameModel> LinkLoop<C> {
    fn run(mut self) {
        // A thread's timers are late by 50 us unless it says that it minds. Where it may not say
        // so, the lag shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // Where hosts share its processor a lane goes first, if it may: a link does not wait for
        // its hosts. This is the priority of the thread alone.
        let _ = rustix::process::setpriority_process(None, THREAD_NICE);
        self.began = self.now();
        loop {
            if self.wakeup.signalled.swap(false, Ordering::Acquire) && self.handle_commands() {
                return;
            }
            let mut now_ps = now_ps();
            // Time goes forward: what came before this moment is taken in first.
            if self.slept_since_ns.is_none() {
                self.model.deliver(now_ps, &mut self.outputs);
            }
            let mut read = 0;
            for at in 0..self.from.len() {
                read += self.read_port(at);
            }
            self.slept_since_ns = None;
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

    /// Takes what the host at `at` has sent; gives the number of frames.
    fn read_port(&mut self, at: usize) -> usize {
        for count in 0..BATCH {
            let port = self.from[at].as_ref();
            let Some(len) = port.and_then(|port| port.read(&mut self.buffer)) else {
                return count;
            };
            let now_ps = self.arrival_ps();
            self.model
                .offer(now_ps, at, &mut self.buffer[..len], &mut self.outputs);
        }
        BATCH
    }

    /// When the frame came that was read just now: the one that ended a sleep did so before the lane
    /// was awake, but not before it slept.
    fn arrival_ps(&mut self) -> u64 {
        let now_ns = clock_ns(ClockId::Monotonic);
        let came_ns = match self.slept_since_ns.take() {
            Some(slept_ns) => now_ns.saturating_sub(self.wakeup_latency_ns).max(slept_ns),
            None => now_ns,
        };
        came_ns.wrapping_mul(1000)
    }

    /// Sleeps for `ns`, and learns how late sleeps end.
    fn timed_sleep(&mut self, ns: u64) {
        let began_ns = clock_ns(ClockId::Monotonic);
        if self.sleep(ns) {
            let slept_ns = clock_ns(ClockId::Monotonic) - began_ns;
            self.sleep_latency.learn(ns, slept_ns);
        }
    }

    /// Sleeps until a host sends, an order comes, or `ns` have passed; true for the
    /// last.
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
        // A signal only makes the sleep shorter.
        let ended = poll(&mut waited, Some(&span));
        self.slept_since_ns = matches!(ended, Ok(1..)).then_some(began_ns);
        matches!(ended, Ok(0))
    }

    /// Does what was ordered; true when it is to stop.
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

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The links' clock: ps since the system began, which lasts for 200 days.
fn now_ps() -> u64 {
    clock_ns(ClockId::Monotonic).wrapping_mul(1000)
}
