//! What the users of an endpoint and its helper thread share.

use crate::pump::Pump;
use crate::sys::{StorePool, UnsubmittedStore};
use crate::wait_list::{EventFd, WaitList, thread_eventfd};
use engine::{AssociationId, Associations, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use wire::{Receiver, Wire};

pub(crate) struct EndpointShared<E, W> {
    pub(crate) pump: Mutex<Pump<E, W>>,
    start: std::time::Instant,
    pub(crate) pool: Arc<StorePool>,
    /// Users inside a wait, who take arrivals in themselves.
    pub(crate) waiting_users: AtomicU32,
    /// Counts user visits, so that the helper sees whether there were any. Under the lock of the
    /// pump, as `looks` is.
    pub(crate) lock_generation: AtomicU64,
    /// Counts how often somebody looked for arrivals.
    pub(crate) poll_generation: AtomicU64,
    /// The wire's, to sleep on without the lock; None in virtual time.
    pub(crate) descriptor: Option<OwnedFd>,
    /// The wire's, to wait in a receive without the lock.
    receiver: Option<Box<dyn Receiver>>,
    /// A user waits in a receive, and nobody else may receive.
    user_receiving: AtomicBool,
    /// Until when, in nanoseconds; for the helper, who ends the wait then.
    receive_deadline_ns: AtomicU64,
    wait_list: WaitList,
    /// Circuits whose store holds bytes that nobody offered yet.
    unsubmitted: Mutex<Vec<(AssociationId, UnsubmittedStore)>>,
    /// Packets that may wait for company are ready to be sent.
    flush_pending: AtomicBool,
    /// Rings for the helper when it sleeps long.
    pub(crate) helper_wakeup: EventFd,
    pub(crate) helper_parked: AtomicBool,
    /// The helper looks less often, and is to be told of what is left to it.
    pub(crate) helper_idle_rate: AtomicBool,
    /// Nobody holds the endpoint any more.
    pub(crate) closed: AtomicBool,
    /// Rings for the watcher of the endpoint, if it has one.
    pub(crate) readiness_fd: OnceLock<EventFd>,
    /// It rings already.
    pub(crate) readiness_signalled: AtomicBool,
}

/// What waiting in a receive came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Something arrived, perhaps for another circuit, or happened otherwise.
    Woken,
    /// The receiver's patience ended, or its medium was shut down.
    TimedOut,
    /// No receiver, another user in it, something to send, or a receiver more patient than the
    /// user.
    Unavailable,
}

/// What an endpoint and its circuits hold; the helper ends when the last of them goes, and what the
/// endpoint keeps is dropped.
pub(crate) struct EndpointHandle<E, W>(pub(crate) Arc<EndpointShared<E, W>>, pub(crate) Companions);

/// What is to live as long as an endpoint.
pub(crate) type Companions = Mutex<Vec<Box<dyn Send>>>;

impl<E, W> std::ops::Deref for EndpointHandle<E, W> {
    type Target = EndpointShared<E, W>;

    fn deref(&self) -> &EndpointShared<E, W> {
        &self.0
    }
}

impl<E, W> Drop for EndpointHandle<E, W> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.helper_wakeup.signal();
    }
}

impl<E: Associations, W: Wire> EndpointShared<E, W> {
    pub(crate) fn new(engine: E, mut wire: W, store_bytes: usize) -> io::Result<Self> {
        if let Some(packet_len) = engine.properties().packet_len {
            wire.set_packet_len(packet_len);
        }
        let descriptor = wire.descriptor().map(|fd| fd.try_clone_to_owned());
        Ok(EndpointShared {
            pool: StorePool::new(engine.layout(None), store_bytes),
            descriptor: descriptor.transpose()?,
            receiver: wire.receiver(),
            user_receiving: AtomicBool::new(false),
            receive_deadline_ns: AtomicU64::new(u64::MAX),
            pump: Mutex::new(Pump::new(engine, wire)),
            start: std::time::Instant::now(),
            waiting_users: AtomicU32::new(0),
            lock_generation: AtomicU64::new(0),
            poll_generation: AtomicU64::new(0),
            wait_list: WaitList::default(),
            unsubmitted: Mutex::new(Vec::new()),
            flush_pending: AtomicBool::new(false),
            helper_wakeup: EventFd::new()?,
            helper_parked: AtomicBool::new(false),
            helper_idle_rate: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            readiness_fd: OnceLock::new(),
            readiness_signalled: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Pump<E, W>> {
        if self.helper_parked.load(Ordering::Relaxed) {
            // Deadlines may change in this visit.
            self.helper_wakeup.signal();
        }
        // A panic in an engine leaves it inconsistent at worst, and never unsafe.
        let pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        increment(&self.lock_generation);
        pump
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Takes in everything that arrived, acts on deadlines, sends.
    pub(crate) fn drive(&self, pump: &mut Pump<E, W>) -> io::Result<()> {
        let now = self.now();
        self.receive_all(pump, now)?;
        pump.handle_timeout(now);
        pump.flush(now)?;
        self.signal_readiness(pump);
        Ok(())
    }

    /// Whether a user waits in a receive.
    pub(crate) fn is_user_receiving(&self) -> bool {
        self.user_receiving.load(Ordering::Relaxed)
    }

    /// Until when a user waits in a receive, if for a limited time.
    pub(crate) fn receive_deadline(&self) -> Option<Instant> {
        let until = self.receive_deadline_ns.load(Ordering::Relaxed);
        (self.is_user_receiving() && until < u64::MAX).then(|| Instant::from_nanos(until))
    }

    /// A user who has just asked waits next.
    pub(crate) fn hint_busy_poll(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.hint_busy_poll();
        }
    }

    /// Ends the wait of a user in a receive: its time is over, or something happened to its
    /// circuit that no arrival tells of.
    pub(crate) fn interrupt(&self) {
        if let (true, Some(receiver)) = (self.is_user_receiving(), &self.receiver) {
            // A receiver that cannot be interrupted looks around by itself.
            let _ = receiver.interrupt();
        }
    }

    /// Takes in everything that arrived, unless a user waits in a receive and does so itself.
    pub(crate) fn receive_all(&self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        if self.is_user_receiving() {
            return Ok(());
        }
        increment(&self.poll_generation);
        let before = pump.arrivals();
        let mut receives = 0;
        // What the wire holds would wake nobody.
        while receives < RECEIVES_MAX || pump.wire().has_buffered() {
            receives += 1;
            if !pump.receive(now)? {
                break;
            }
        }
        if pump.arrivals() != before {
            self.wait_list.wake_all();
        }
        Ok(())
    }

    /// Wakes those who sleep for what was just taken in, and the watcher.
    pub(crate) fn wake_waiters(&self, pump: &Pump<E, W>) {
        self.wait_list.wake_all();
        self.signal_readiness(pump);
    }

    /// Tells circuits that waited for memory to send from that it is their turn.
    pub(crate) fn notify_granted(&self, pump: &mut Pump<E, W>) {
        if self.pool.permits.has_unnotified() {
            pump.mark_ready(&self.pool.permits.take_unnotified());
            self.wake_waiters(pump);
        }
    }

    /// Rings for the watcher if there is something to look at.
    pub(crate) fn signal_readiness(&self, pump: &Pump<E, W>) {
        if let Some(eventfd) = self.readiness_fd.get()
            && pump.has_ready()
            && !self.readiness_signalled.swap(true, Ordering::Relaxed)
        {
            eventfd.signal();
        }
    }

    /// Notes that the store of circuit `id` holds bytes the engine does not know of.
    #[cold]
    pub(crate) fn note_unsubmitted(&self, id: AssociationId, store: UnsubmittedStore) {
        self.lock_unsubmitted().push((id, store));
        self.wake_helper();
    }

    /// Wakes the helper for something left to it, unless it looks soon anyway.
    fn wake_helper(&self) {
        if self.helper_parked.load(Ordering::SeqCst) || self.helper_idle_rate.load(Ordering::SeqCst)
        {
            self.helper_wakeup.signal();
        }
    }

    /// Leaves what the engine has to send to the next who sends anything, or to the helper.
    pub(crate) fn defer_flush(&self) {
        self.flush_pending.store(true, Ordering::SeqCst);
        self.wake_helper();
    }

    /// Whether something was held since the last call.
    pub(crate) fn take_flush_pending(&self) -> bool {
        self.flush_pending.swap(false, Ordering::SeqCst)
    }

    /// Takes the list of circuits with bytes that nobody offered.
    pub(crate) fn take_unsubmitted(&self) -> Vec<(AssociationId, UnsubmittedStore)> {
        std::mem::take(&mut *self.lock_unsubmitted())
    }

    /// Whether anything waits for the helper.
    pub(crate) fn has_helper_work(&self) -> bool {
        let flush_pending = self.flush_pending.load(Ordering::SeqCst);
        flush_pending || self.pool.permits.has_waiters() || !self.lock_unsubmitted().is_empty()
    }

    fn lock_unsubmitted(&self) -> MutexGuard<'_, Vec<(AssociationId, UnsubmittedStore)>> {
        self.unsubmitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the next arrival, waiting for it in the receive itself without the lock: one
    /// system call instead of a try, a poll and a receive. `now` goes on to when it came.
    pub(crate) fn wait_in_receive<'a>(
        &'a self,
        mut pump: MutexGuard<'a, Pump<E, W>>,
        now: &mut Instant,
        limit: Duration,
    ) -> io::Result<(MutexGuard<'a, Pump<E, W>>, WaitOutcome)> {
        let Some(receiver) = &self.receiver else {
            return Ok((pump, WaitOutcome::Unavailable));
        };
        if self.is_user_receiving() || pump.is_blocked() || !can_end_wait(&**receiver, limit) {
            return Ok((pump, WaitOutcome::Unavailable));
        }
        let until = now.as_nanos().saturating_add(nanos(limit));
        self.receive_deadline_ns.store(until, Ordering::Relaxed);
        // While the lock is held, so that helper and other users stay out from here on. The
        // helper acts on deadlines meanwhile.
        self.user_receiving.store(true, Ordering::Relaxed);
        self.waiting_users.fetch_add(1, Ordering::Relaxed);
        increment(&self.poll_generation);
        let mut buffer = pump.take_receive_buffer();
        drop(pump);
        let arrival = receiver.receive(&mut buffer);
        let mut pump = self.lock();
        self.user_receiving.store(false, Ordering::Relaxed);
        self.waiting_users.fetch_sub(1, Ordering::Relaxed);
        *now = self.now();
        let interrupted =
            matches!(&arrival, Err(error) if error.kind() == io::ErrorKind::Interrupted);
        if !pump.handle_arrival(*now, buffer, arrival)? {
            let outcome = if interrupted {
                WaitOutcome::Woken
            } else {
                WaitOutcome::TimedOut
            };
            return Ok((pump, outcome));
        }
        while pump.wire().has_buffered() && pump.receive(*now)? {}
        self.wake_waiters(&pump);
        Ok((pump, WaitOutcome::Woken))
    }

    /// Sleeps until something arrives, the engine's deadline comes, or `limit` passes.
    ///
    /// `seen` is the number of arrivals when the caller last looked: when another took in more
    /// since, there is nothing to sleep for, and the wire would not wake the caller any more.
    pub(crate) fn sleep(&self, limit: Duration, seen_arrivals: u64) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        let eventfd = thread_eventfd()?;
        let (deadline, flags) = {
            let pump = self.lock();
            if pump.arrivals() != seen_arrivals {
                return Ok(());
            }
            // While the lock is held, so that whoever takes in the next arrival knows.
            self.waiting_users.fetch_add(1, Ordering::Relaxed);
            self.wait_list.add(Arc::clone(&eventfd));
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pump.is_blocked());
            (pump.poll_timeout(), flags)
        };
        let until = deadline.map_or(limit, |at| at.since(self.now()).min(limit));
        let mut ready = [
            PollFd::new(eventfd.descriptor(), PollFlags::IN),
            PollFd::new(descriptor, flags),
        ];
        let result = poll(&mut ready, Some(&timespec(until)));
        let signalled = !ready[0].revents().is_empty();
        self.waiting_users.fetch_sub(1, Ordering::Relaxed);
        self.wait_list.remove(&eventfd);
        if signalled {
            eventfd.clear();
        }
        match result {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Counts up what only the holder of the pump's lock changes: no need for a locked instruction.
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The shortest limit of a wait that the helper ends: it is late by a millisecond, or by four.
const HELPER_TIMED_WAIT_MIN: Duration = Duration::from_millis(10);

/// Whether a wait in a receive can end after `limit`.
fn can_end_wait(receiver: &dyn Receiver, limit: Duration) -> bool {
    let helped = receiver.is_interruptible() && limit >= HELPER_TIMED_WAIT_MIN;
    helped || limit >= receiver.max_wait()
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
