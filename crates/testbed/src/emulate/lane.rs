//! A thread that carries frames.

use super::carrier::Carrier;
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
const HALT_NS: u64 = 250_000;

/// Sleeps end before a frame is due by as much as earlier ones were late, within these bounds, ns.
/// The rest is spent looking at the clock.
const WAKE_EARLY_NS: (u64, u64) = (10_000, 200_000);

/// How often a lane is woken to learn how long that takes, and how far apart.
const WAKES: usize = 15;
const WAKES_APART: Duration = Duration::from_millis(2);

/// Nice value of a lane.
const LANE_PRIORITY: i32 = -15;

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
pub struct Outlets {
    ports: Vec<Option<Port>>,
    written: u64,
    refused: u64,
}

impl Outlets {
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
pub struct LaneReport {
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
enum Order {
    Begin(u64, Sender<()>),
    End(Sender<LaneReport>),
    Report(Sender<LaneReport>),
    /// Say how late this is, given at the time, ns.
    Wake(u64, Sender<u64>),
    /// Take frames that end a sleep for so much older, ns.
    Early(u64),
    Stop,
}

/// A lane's thread.
#[derive(Debug)]
pub struct Lane {
    orders: Sender<Order>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Says that there are orders: a flag to look at, a descriptor to wake from a sleep.
#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    event: OwnedFd,
}

impl Lane {
    /// Carries frames from the ports of `from` to those of `to`.
    pub(crate) fn start(
        name: &str,
        from: Vec<Option<Port>>,
        to: Vec<Option<Port>>,
        carrier: impl Carrier + 'static,
    ) -> Result<Lane, TestbedError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| TestbedError::kernel("an event descriptor")(error.into()))?;
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            event,
        });
        let (orders, receiver) = channel();
        let runner = Runner {
            from,
            outlets: Outlets {
                ports: to,
                written: 0,
                refused: 0,
            },
            carrier,
            orders: receiver,
            bell: Arc::clone(&bell),
            began: Began::default(),
            lateness: Lateness::default(),
            wake_ns: 0,
            woken: None,
            buffer: vec![0; FRAME_MAX],
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runner.run())
            .map_err(TestbedError::kernel("a thread for the link"))?;
        Ok(Lane {
            orders,
            bell,
            thread: Some(thread),
        })
    }

    pub(crate) fn begin(&self, seed: u64) {
        self.ask(|done| Order::Begin(seed, done));
    }

    pub(crate) fn end(&self) -> LaneReport {
        self.ask(Order::End).unwrap_or_default()
    }

    /// Learns how long it takes to wake for a frame. The lower quartile stands for all, so that a
    /// busy moment makes no frame older than it is.
    pub(crate) fn learn(&self) {
        let mut late_ns: Vec<u64> = Vec::new();
        for _ in 0..WAKES {
            std::thread::sleep(WAKES_APART);
            let now_ns = clock_ns(ClockId::Monotonic);
            late_ns.extend(self.ask(|done| Order::Wake(now_ns, done)));
        }
        late_ns.sort_unstable();
        let quartile = late_ns.get(late_ns.len() / 4).copied().unwrap_or(0);
        self.tell(Order::Early(quartile.min(WAKE_EARLY_NS.1)));
    }

    pub(crate) fn report(&self) -> LaneReport {
        self.ask(Order::Report).unwrap_or_default()
    }

    /// The lane's answer; None from one that is gone.
    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (done, answer) = channel();
        self.tell(order(done));
        answer.recv().ok()
    }

    fn tell(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.bell.rung.store(true, Ordering::Release);
            // A counter that is full wakes the lane just as well.
            let _ = rustix::io::write(&self.bell.event, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.tell(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

/// How late sleeps end, as a running mean: short ones, and those that may halt the processor.
#[derive(Clone, Copy, Debug, Default)]
struct Lateness {
    mean_ns: [u64; 2],
}

impl Lateness {
    /// How much before `left_ns` from now a sleep should end.
    fn early_ns(&self, left_ns: u64) -> u64 {
        let mean_ns = self.mean_ns[usize::from(left_ns > HALT_NS)];
        (mean_ns * 3 / 2).clamp(WAKE_EARLY_NS.0, WAKE_EARLY_NS.1)
    }

    /// A sleep of `asked_ns` that nothing ended early took `slept_ns`.
    fn learn(&mut self, asked_ns: u64, slept_ns: u64) {
        let late_ns = slept_ns.saturating_sub(asked_ns);
        let mean_ns = &mut self.mean_ns[usize::from(asked_ns > HALT_NS)];
        *mean_ns = (*mean_ns * 7 + late_ns) / 8;
    }
}

/// Readings when a measurement began.
#[derive(Clone, Copy, Debug, Default)]
struct Began {
    at_ns: u64,
    cpu_ns: u64,
    written: u64,
    refused: u64,
}

/// The inside of a lane.
struct Runner<C> {
    from: Vec<Option<Port>>,
    outlets: Outlets,
    carrier: C,
    orders: Receiver<Order>,
    bell: Arc<Bell>,
    began: Began,
    lateness: Lateness,
    /// How long it takes to wake, ns.
    wake_ns: u64,
    /// When the sleep began that somebody has just ended, ns.
    woken: Option<u64>,
    buffer: Vec<u8>,
}

impl<C: Carrier> Runner<C> {
    fn run(mut self) {
        // A thread's timers are late by 50 us unless it says that it minds. Where it may not say
        // so, the lag shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // Where hosts share its processor a lane goes first, if it may: a link does not wait for
        // its hosts. This is the priority of the thread alone.
        let _ = rustix::process::setpriority_process(None, LANE_PRIORITY);
        self.began = self.now();
        loop {
            if self.bell.rung.swap(false, Ordering::Acquire) && self.obey() {
                return;
            }
            let mut now_ps = now_ps();
            // Time goes forward: what came before this moment is taken in first.
            if self.woken.is_none() {
                self.carrier.deliver(now_ps, &mut self.outlets);
            }
            let mut read = 0;
            for at in 0..self.from.len() {
                read += self.take_in(at);
            }
            self.woken = None;
            if read > 0 {
                continue;
            }
            now_ps = self::now_ps();
            match self.carrier.due_ps() {
                Some(due_ps) => {
                    let left_ns = due_ps.saturating_sub(now_ps) / 1000;
                    let early_ns = self.lateness.early_ns(left_ns);
                    if left_ns > early_ns {
                        self.nap(left_ns - early_ns);
                    }
                }
                None => {
                    self.sleep(SLEEP_MAX_NS);
                }
            }
        }
    }

    /// Takes what the host at `at` has sent; gives the number of frames.
    fn take_in(&mut self, at: usize) -> usize {
        for count in 0..BATCH {
            let port = self.from[at].as_ref();
            let Some(len) = port.and_then(|port| port.read(&mut self.buffer)) else {
                return count;
            };
            let now_ps = self.arrival_ps();
            self.carrier
                .offer(now_ps, at, &mut self.buffer[..len], &mut self.outlets);
        }
        BATCH
    }

    /// When the frame came that was read just now: the one that ended a sleep did so before the lane
    /// was awake, but not before it slept.
    fn arrival_ps(&mut self) -> u64 {
        let now_ns = clock_ns(ClockId::Monotonic);
        let came_ns = match self.woken.take() {
            Some(slept_ns) => now_ns.saturating_sub(self.wake_ns).max(slept_ns),
            None => now_ns,
        };
        came_ns.wrapping_mul(1000)
    }

    /// Sleeps for `ns`, and learns how late sleeps end.
    fn nap(&mut self, ns: u64) {
        let began_ns = clock_ns(ClockId::Monotonic);
        if self.sleep(ns) {
            let slept_ns = clock_ns(ClockId::Monotonic) - began_ns;
            self.lateness.learn(ns, slept_ns);
        }
    }

    /// Sleeps until a host sends, an order comes, or `ns` have passed; true for the
    /// last.
    fn sleep(&mut self, ns: u64) -> bool {
        let began_ns = clock_ns(ClockId::Monotonic);
        let ports = self.from.iter().flatten().map(|port| port.device.as_fd());
        let all = ports.chain([self.bell.event.as_fd()]);
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
        self.woken = matches!(ended, Ok(1..)).then_some(began_ns);
        matches!(ended, Ok(0))
    }

    /// Does what was ordered; true when it is to stop.
    fn obey(&mut self) -> bool {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.bell.event, &mut counter);
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Begin(seed, done) => {
                    self.carrier.begin(now_ps(), seed);
                    self.began = self.now();
                    let _ = done.send(());
                }
                Order::End(done) => {
                    let _ = done.send(self.report());
                    self.carrier.end();
                }
                Order::Report(done) => {
                    let _ = done.send(self.report());
                }
                Order::Wake(then_ns, done) => {
                    let _ = done.send(clock_ns(ClockId::Monotonic).saturating_sub(then_ns));
                }
                Order::Early(ns) => self.wake_ns = ns,
                Order::Stop => return true,
            }
        }
        false
    }

    fn now(&self) -> Began {
        Began {
            at_ns: clock_ns(ClockId::Monotonic),
            cpu_ns: clock_ns(ClockId::ThreadCPUTime),
            written: self.outlets.written,
            refused: self.outlets.refused,
        }
    }

    fn report(&self) -> LaneReport {
        let now = self.now();
        LaneReport {
            written: now.written - self.began.written,
            refused: now.refused - self.began.refused,
            cpu_ns: now.cpu_ns - self.began.cpu_ns,
            elapsed_ns: now.at_ns - self.began.at_ns,
            ..self.carrier.report()
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
