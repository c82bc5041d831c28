//! An engine on a real wire under blocking users.

use crate::circuit::Circuit;
use crate::pump::Pump;
use crate::sys;
use engine::{Address, CircuitId, Engine, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;
use wire::{Receiver, Wire};

/// How often the helper thread looks whether the user is still there.
///
/// Also the longest a short message waits for company when its user goes away without a flush.
const HELPER_TICK: Duration = Duration::from_millis(1);

/// How long the helper sleeps on the wire's descriptor at most while the user is away.
const HELPER_SLEEP: Duration = Duration::from_millis(20);

/// An engine, its wire and a helper thread that serves them while no user does.
///
/// Clones share the engine. When the last clone and circuit are gone, the helper ends.
pub struct Endpoint<E, W> {
    shared: Arc<Shared<E, W>>,
}

pub(crate) struct Shared<E, W> {
    pump: Mutex<Pump<E, W>>,
    start: std::time::Instant,
    /// Users inside a wait, who serve the pump themselves.
    pub(crate) waiting: AtomicU32,
    /// Counts user visits, so that the helper sees whether there were any.
    visits: AtomicU64,
    store_bytes: usize,
    /// The wire's, to sleep on without the lock; None in virtual time.
    descriptor: Option<OwnedFd>,
    /// The wire's, to wait in a receive without the lock.
    receiver: Option<Box<dyn Receiver>>,
    /// A user waits in a receive, and nobody else may receive.
    receiving: AtomicBool,
}

impl<E, W> Clone for Endpoint<E, W> {
    fn clone(&self) -> Self {
        Endpoint {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E: Engine + Send + 'static, W: Wire + Send + 'static> Endpoint<E, W> {
    /// Starts `engine` on `wire`. Each circuit gets a send store of `store_bytes`.
    ///
    /// # Errors
    ///
    /// When no thread can be started, or the process is out of descriptors.
    pub fn new(engine: E, wire: W, store_bytes: usize) -> io::Result<Self> {
        let descriptor = wire.descriptor().map(|fd| fd.try_clone_to_owned());
        let shared = Arc::new(Shared {
            descriptor: descriptor.transpose()?,
            receiver: wire.receiver(),
            receiving: AtomicBool::new(false),
            pump: Mutex::new(Pump::new(engine, wire)),
            start: std::time::Instant::now(),
            waiting: AtomicU32::new(0),
            visits: AtomicU64::new(0),
            store_bytes,
        });
        let weak = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("towpath-helper".into())
            .spawn(move || help(&weak))?;
        Ok(Endpoint { shared })
    }

    /// Accepts circuits that peers open, or stops accepting.
    pub fn listen(&self, accept: bool) {
        self.shared.lock().engine().listen(accept);
    }

    /// Opens a circuit to `to` and waits until it is ready.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut` (also when `limit` passes first), or the wire's.
    pub fn connect(&self, to: Address, limit: Duration) -> io::Result<Circuit<E, W>> {
        let mut circuit = {
            let mut pump = self.shared.lock();
            let now = self.shared.now();
            let id = pump.engine().connect(now, to).map_err(io::Error::other)?;
            let circuit = self.attach(&mut pump, id);
            pump.transmit(now, false)?;
            circuit
        };
        circuit.wait_connected(limit)?;
        Ok(circuit)
    }

    /// The next circuit a peer opened; waits for one up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut` when none came, or the wire's.
    pub fn accept(&self, limit: Duration) -> io::Result<Circuit<E, W>> {
        let end = std::time::Instant::now() + limit;
        loop {
            let seen = {
                let mut pump = self.shared.lock();
                self.shared.serve(&mut pump, false)?;
                if let Some((id, _from)) = pump.accept() {
                    return Ok(self.attach(&mut pump, id));
                }
                pump.arrivals()
            };
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no peer opened a circuit",
                ));
            }
            self.shared.sleep(left, seen)?;
        }
    }

    /// Runs `look` with the pump locked.
    pub fn with_pump<R>(&self, look: impl FnOnce(&mut Pump<E, W>) -> R) -> R {
        look(&mut self.shared.lock())
    }

    fn attach(&self, pump: &mut Pump<E, W>, id: CircuitId) -> Circuit<E, W> {
        let (producer, consumer) = sys::ring(pump.engine().layout(), self.shared.store_bytes);
        pump.attach(id, consumer);
        let framing = pump.engine().framing();
        let batch_bytes = pump.batch_bytes();
        Circuit::new(Arc::clone(&self.shared), id, framing, producer, batch_bytes)
    }
}

impl<E: Engine, W: Wire> Shared<E, W> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pump<E, W>> {
        self.visits.fetch_add(1, Ordering::Relaxed);
        // A panic in an engine leaves it inconsistent at worst, and never unsafe.
        self.pump.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Takes in everything that arrived, acts on deadlines, sends.
    pub(crate) fn serve(&self, pump: &mut Pump<E, W>, push: bool) -> io::Result<()> {
        let now = self.now();
        self.receive_all(pump, now)?;
        pump.handle_timeout(now);
        pump.transmit(now, push)
    }

    /// As [`serve`](Shared::serve), with the lock taken for it.
    pub(crate) fn serve_once(&self) -> io::Result<()> {
        let mut pump = self.lock();
        self.serve(&mut pump, false)
    }

    /// Whether a user waits in a receive.
    pub(crate) fn is_receiving(&self) -> bool {
        self.receiving.load(Ordering::Relaxed)
    }

    /// Takes in everything that arrived, unless a user waits in a receive and does so itself.
    pub(crate) fn receive_all(&self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        if self.receiving.load(Ordering::Relaxed) {
            return Ok(());
        }
        for _ in 0..RECEIVES_MAX {
            if !pump.receive(now)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes in the next arrival, waiting for it in the receive itself: one system call instead
    /// of a try, a poll and a receive. False when that is not possible: no receiver, another user
    /// in it, something to send or a deadline within its patience or `limit`.
    pub(crate) fn await_arrival(&self, seen: u64, limit: Duration) -> io::Result<bool> {
        let Some(receiver) = &self.receiver else {
            return Ok(false);
        };
        let mut buffer = {
            let mut pump = self.lock();
            let patience = receiver.patience();
            let soon = pump
                .deadline()
                .is_some_and(|at| at.since(self.now()) < patience);
            let busy = self.receiving.load(Ordering::Relaxed) || pump.is_blocked();
            if pump.arrivals() != seen {
                return Ok(true);
            }
            if soon || busy || limit < patience {
                return Ok(false);
            }
            // While the lock is held, so that helper and other users stay out from here on.
            self.receiving.store(true, Ordering::Relaxed);
            self.waiting.fetch_add(1, Ordering::Relaxed);
            pump.lend_buffer()
        };
        let arrival = receiver.receive(&mut buffer);
        let mut pump = self.lock();
        self.receiving.store(false, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        pump.take_in(self.now(), buffer, arrival)?;
        Ok(true)
    }

    /// Sleeps until something arrives, the engine's deadline comes, or `limit` passes.
    ///
    /// `seen` is the number of arrivals when the caller last looked: when the helper took in more
    /// since, there is nothing to sleep for, and the wire would not wake the caller any more.
    pub(crate) fn sleep(&self, limit: Duration, seen: u64) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        let (deadline, flags) = {
            let pump = self.lock();
            if pump.arrivals() != seen {
                return Ok(());
            }
            // While the lock is held, so that the helper stays out from here on.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pump.is_blocked());
            (pump.deadline(), flags)
        };
        let until = deadline.map_or(limit, |at| at.since(self.now()).min(limit));
        let mut ready = [PollFd::new(descriptor, flags)];
        let result = poll(&mut ready, Some(&timespec(until)));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match result {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Arrivals taken in one go, so that a flood does not keep a user from sending.
const RECEIVES_MAX: usize = 64;

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// The helper thread: serves the pump whenever a tick went by without a user.
fn help<E: Engine, W: Wire>(weak: &Weak<Shared<E, W>>) {
    let mut seen = u64::MAX;
    loop {
        std::thread::park_timeout(HELPER_TICK);
        let Some(shared) = weak.upgrade() else {
            return;
        };
        let visits = shared.visits.load(Ordering::Relaxed);
        let away = visits == seen && shared.waiting.load(Ordering::Relaxed) == 0;
        seen = visits;
        if away && help_once(&shared).is_err() {
            // The user's next call meets the same error and reports it.
            std::thread::park_timeout(HELPER_SLEEP);
        }
    }
}

fn help_once<E: Engine, W: Wire>(shared: &Shared<E, W>) -> io::Result<()> {
    let mut pump = match shared.pump.try_lock() {
        Ok(pump) => pump,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(()),
    };
    if shared.waiting.load(Ordering::Relaxed) > 0 {
        // A user came back and sleeps on the wire: what arrives must wake that one.
        return Ok(());
    }
    shared.serve(&mut pump, true)
}
