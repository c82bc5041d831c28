//! What the users of an endpoint and its helper thread share.

use crate::pump::Pump;
use crate::sleepers::{Bell, Sleepers, own_bell};
use crate::sys::{Pool, Waiting};
use engine::{AssociationId, Engine, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use wire::{Receiver, Wire};

pub(crate) struct Shared<E, W> {
    pub(crate) pump: Mutex<Pump<E, W>>,
    start: std::time::Instant,
    pub(crate) pool: Arc<Pool>,
    /// Users inside a wait, who take arrivals in themselves.
    pub(crate) waiting: AtomicU32,
    /// Counts user visits, so that the helper sees whether there were any. Under the lock of the
    /// pump, as `looks` is.
    pub(crate) visits: AtomicU64,
    /// Counts how often somebody looked for arrivals.
    pub(crate) looks: AtomicU64,
    /// The wire's, to sleep on without the lock; None in virtual time.
    pub(crate) descriptor: Option<OwnedFd>,
    /// The wire's, to wait in a receive without the lock.
    receiver: Option<Box<dyn Receiver>>,
    /// A user waits in a receive, and nobody else may receive.
    receiving: AtomicBool,
    /// Until when, in nanoseconds; for the helper, who ends the wait then.
    receive_until: AtomicU64,
    sleepers: Sleepers,
    /// Circuits whose store holds bytes that nobody offered yet.
    announced: Mutex<Vec<(AssociationId, Waiting)>>,
    /// Packets that may wait for company are ready to be sent.
    held: AtomicBool,
    /// Rings for the helper when it sleeps long.
    pub(crate) nudge: Bell,
    pub(crate) dozing: AtomicBool,
    /// The helper looks less often, and is to be told of what is left to it.
    pub(crate) is_slow: AtomicBool,
    /// Nobody holds the endpoint any more.
    pub(crate) ended: AtomicBool,
    /// Rings for the watcher of the endpoint, if it has one.
    pub(crate) watch: OnceLock<Bell>,
    /// It rings already.
    pub(crate) told: AtomicBool,
}

/// What waiting in a receive came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Something arrived, perhaps for another circuit, or happened otherwise.
    Arrival,
    /// The receiver's patience ended, or its medium was shut down.
    Nothing,
    /// No receiver, another user in it, something to send, or a receiver more patient than the
    /// user.
    Impossible,
}

/// What an endpoint and its circuits hold; the helper ends when the last of them goes, and what the
/// endpoint keeps is dropped.
pub(crate) struct Owner<E, W>(pub(crate) Arc<Shared<E, W>>, pub(crate) Kept);

/// What is to live as long as an endpoint.
pub(crate) type Kept = Mutex<Vec<Box<dyn Send>>>;

impl<E, W> std::ops::Deref for Owner<E, W> {
    type Target = Shared<E, W>;

    fn deref(&self) -> &Shared<E, W> {
        &self.0
    }
}

impl<E, W> Drop for Owner<E, W> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.nudge.ring();
    }
}

impl<E: Engine, W: Wire> Shared<E, W> {
    pub(crate) fn new(engine: E, mut wire: W, store_bytes: usize) -> io::Result<Self> {
        if let Some(packet_len) = engine.packet_len() {
            wire.set_packet_len(packet_len);
        }
        let descriptor = wire.descriptor().map(|fd| fd.try_clone_to_owned());
        Ok(Shared {
            pool: Pool::new(engine.layout(), store_bytes),
            descriptor: descriptor.transpose()?,
            receiver: wire.receiver(),
            receiving: AtomicBool::new(false),
            receive_until: AtomicU64::new(u64::MAX),
            pump: Mutex::new(Pump::new(engine, wire)),
            start: std::time::Instant::now(),
            waiting: AtomicU32::new(0),
            visits: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            sleepers: Sleepers::default(),
            announced: Mutex::new(Vec::new()),
            held: AtomicBool::new(false),
            nudge: Bell::new()?,
            dozing: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            watch: OnceLock::new(),
            told: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Pump<E, W>> {
        if self.dozing.load(Ordering::Relaxed) {
            // Deadlines may change in this visit.
            self.nudge.ring();
        }
        // A panic in an engine leaves it inconsistent at worst, and never unsafe.
        let pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        count(&self.visits);
        pump
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Takes in everything that arrived, acts on deadlines, sends.
    pub(crate) fn serve(&self, pump: &mut Pump<E, W>) -> io::Result<()> {
        let now = self.now();
        self.receive_all(pump, now)?;
        pump.handle_timeout(now);
        pump.flush(now)?;
        self.tell(pump);
        Ok(())
    }

    /// Whether a user waits in a receive.
    pub(crate) fn is_receiving(&self) -> bool {
        self.receiving.load(Ordering::Relaxed)
    }

    /// Until when a user waits in a receive, if for a limited time.
    pub(crate) fn receive_until(&self) -> Option<Instant> {
        let until = self.receive_until.load(Ordering::Relaxed);
        (self.is_receiving() && until < u64::MAX).then(|| Instant::from_nanos(until))
    }

    /// A user who has just asked waits next.
    pub(crate) fn expect_soon(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.expect_soon();
        }
    }

    /// Ends the wait of a user in a receive: its time is over, or something happened to its
    /// circuit that no arrival tells of.
    pub(crate) fn interrupt(&self) {
        if let (true, Some(receiver)) = (self.is_receiving(), &self.receiver) {
            // A receiver that cannot be interrupted looks around by itself.
            let _ = receiver.interrupt();
        }
    }

    /// Takes in everything that arrived, unless a user waits in a receive and does so itself.
    pub(crate) fn receive_all(&self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        if self.is_receiving() {
            return Ok(());
        }
        count(&self.looks);
        let before = pump.arrivals();
        let mut receives = 0;
        // What the wire holds would wake nobody.
        while receives < RECEIVES_MAX || pump.wire().holds() {
            receives += 1;
            if !pump.receive(now)? {
                break;
            }
        }
        if pump.arrivals() != before {
            self.sleepers.wake();
        }
        Ok(())
    }

    /// Wakes those who sleep for what was just taken in, and the watcher.
    pub(crate) fn wake_others(&self, pump: &Pump<E, W>) {
        self.sleepers.wake();
        self.tell(pump);
    }

    /// Tells circuits that waited for memory to send from that it is their turn.
    pub(crate) fn call_next(&self, pump: &mut Pump<E, W>) {
        if self.pool.turns.has_called() {
            pump.note_room(&self.pool.turns.take_called());
            self.wake_others(pump);
        }
    }

    /// Rings for the watcher if there is something to look at.
    pub(crate) fn tell(&self, pump: &Pump<E, W>) {
        if let Some(bell) = self.watch.get()
            && pump.has_ready()
            && !self.told.swap(true, Ordering::Relaxed)
        {
            bell.ring();
        }
    }

    /// Notes that the store of circuit `id` holds bytes the engine does not know of.
    #[cold]
    pub(crate) fn announce(&self, id: AssociationId, waiting: Waiting) {
        self.lock_announced().push((id, waiting));
        self.call_helper();
    }

    /// Wakes the helper for something left to it, unless it looks soon anyway.
    fn call_helper(&self) {
        if self.dozing.load(Ordering::SeqCst) || self.is_slow.load(Ordering::SeqCst) {
            self.nudge.ring();
        }
    }

    /// Leaves what the engine has to send to the next who sends anything, or to the helper.
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
        self.call_helper();
    }

    /// Whether something was held since the last call.
    pub(crate) fn take_held(&self) -> bool {
        self.held.swap(false, Ordering::SeqCst)
    }

    /// Takes the list of circuits with bytes that nobody offered.
    pub(crate) fn take_announced(&self) -> Vec<(AssociationId, Waiting)> {
        std::mem::take(&mut *self.lock_announced())
    }

    /// Whether anything waits for the helper.
    pub(crate) fn has_announced(&self) -> bool {
        let held = self.held.load(Ordering::SeqCst);
        held || self.pool.turns.is_wanted() || !self.lock_announced().is_empty()
    }

    fn lock_announced(&self) -> MutexGuard<'_, Vec<(AssociationId, Waiting)>> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the next arrival, waiting for it in the receive itself without the lock: one
    /// system call instead of a try, a poll and a receive. `now` goes on to when it came.
    pub(crate) fn await_arrival<'a>(
        &'a self,
        mut pump: MutexGuard<'a, Pump<E, W>>,
        now: &mut Instant,
        limit: Duration,
    ) -> io::Result<(MutexGuard<'a, Pump<E, W>>, Awaited)> {
        let Some(receiver) = &self.receiver else {
            return Ok((pump, Awaited::Impossible));
        };
        if self.is_receiving() || pump.is_blocked() || !may_wait(&**receiver, limit) {
            return Ok((pump, Awaited::Impossible));
        }
        let until = now.as_nanos().saturating_add(nanos(limit));
        self.receive_until.store(until, Ordering::Relaxed);
        // While the lock is held, so that helper and other users stay out from here on. The
        // helper acts on deadlines meanwhile.
        self.receiving.store(true, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        count(&self.looks);
        let mut buffer = pump.lend_buffer();
        drop(pump);
        let arrival = receiver.receive(&mut buffer);
        let mut pump = self.lock();
        self.receiving.store(false, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        *now = self.now();
        let interrupted =
            matches!(&arrival, Err(error) if error.kind() == io::ErrorKind::Interrupted);
        if !pump.take_in(*now, buffer, arrival)? {
            let awaited = if interrupted {
                Awaited::Arrival
            } else {
                Awaited::Nothing
            };
            return Ok((pump, awaited));
        }
        while pump.wire().holds() && pump.receive(*now)? {}
        self.wake_others(&pump);
        Ok((pump, Awaited::Arrival))
    }

    /// Sleeps until something arrives, the engine's deadline comes, or `limit` passes.
    ///
    /// `seen` is the number of arrivals when the caller last looked: when another took in more
    /// since, there is nothing to sleep for, and the wire would not wake the caller any more.
    pub(crate) fn sleep(&self, limit: Duration, seen: u64) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        let bell = own_bell()?;
        let (deadline, flags) = {
            let pump = self.lock();
            if pump.arrivals() != seen {
                return Ok(());
            }
            // While the lock is held, so that whoever takes in the next arrival knows.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.sleepers.add(Arc::clone(&bell));
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pump.is_blocked());
            (pump.deadline(), flags)
        };
        let until = deadline.map_or(limit, |at| at.since(self.now()).min(limit));
        let mut ready = [
            PollFd::new(bell.descriptor(), PollFlags::IN),
            PollFd::new(descriptor, flags),
        ];
        let result = poll(&mut ready, Some(&timespec(until)));
        let rang = !ready[0].revents().is_empty();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.sleepers.remove(&bell);
        if rang {
            bell.hush();
        }
        match result {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Counts up what only the holder of the pump's lock changes: no need for a locked instruction.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The shortest limit of a wait that the helper ends: it is late by a millisecond, or by four.
const HELPED_WAIT_MIN: Duration = Duration::from_millis(10);

/// Whether a wait in a receive can end after `limit`.
fn may_wait(receiver: &dyn Receiver, limit: Duration) -> bool {
    let helped = receiver.is_interruptible() && limit >= HELPED_WAIT_MIN;
    helped || limit >= receiver.patience()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Arrivals taken in one go, so that a flood does not keep a user from sending.
const RECEIVES_MAX: usize = 64;

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
