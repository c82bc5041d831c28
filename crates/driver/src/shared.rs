//! State shared by the users of an endpoint and its helper thread.

use crate::broken::{self, Breakable, Broken, Guard};
use crate::pump::Pump;
use crate::sys::{StorePool, UnsubmittedStore};
use crate::timeout::finite;
use crate::wait_list::{EventFd, WaitList, thread_eventfd};
use crate::wire_descriptor::WireDescriptor;
use engine::{Address, AssociationId, Associations, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use wire::{Arrival, Receiver, Wire};

pub(crate) struct EndpointShared<E, W> {
    pub(crate) pump: Mutex<Pump<E, W>>,
    /// A panic under the lock of the pump.
    broken: Broken,
    start: std::time::Instant,
    pub(crate) pool: Arc<StorePool>,
    /// Users blocked in a wait; they receive for themselves.
    pub(crate) waiting_users: AtomicU32,
    /// Counts locks taken by users: unchanged since the last tick means that no user is active.
    /// Written under the lock of the pump, as is `poll_generation`.
    pub(crate) lock_generation: AtomicU64,
    /// Counts polls of the wire.
    pub(crate) poll_generation: AtomicU64,
    /// The wire's descriptor, to poll without the lock; None in virtual time.
    pub(crate) descriptor: Option<WireDescriptor>,
    /// The wire's receiver, to block in a receive without the lock.
    receiver: Option<Box<dyn Receiver>>,
    /// A user is blocked in a receive; no other thread may receive meanwhile.
    user_receiving: AtomicBool,
    /// When that receive must end. The helper interrupts it then.
    receive_deadline_ns: AtomicU64,
    wait_list: WaitList,
    /// Stores with bytes that were not submitted to the engine.
    unsubmitted: Mutex<Vec<(AssociationId, UnsubmittedStore)>>,
    /// Packets that may be deferred are ready to be sent.
    flush_pending: AtomicBool,
    /// Wakes the helper.
    pub(crate) helper_wakeup: EventFd,
    pub(crate) helper_parked: AtomicBool,
    /// The helper ticks at its idle rate and must be woken for work.
    pub(crate) helper_idle_rate: AtomicBool,
    /// The last handle of the endpoint was dropped.
    pub(crate) closed: AtomicBool,
    /// Readiness of the endpoint's watch, if it has one.
    pub(crate) readiness_fd: OnceLock<EventFd>,
    /// `readiness_fd` is readable.
    pub(crate) readiness_signalled: AtomicBool,
}

/// Result of a wait in a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// A packet arrived, perhaps for another circuit, the wait was interrupted, or a path said that
    /// a packet sent earlier was lost.
    Woken,
    /// The receiver's longest wait passed.
    TimedOut,
    /// The medium was shut down: nothing will ever arrive.
    ShutDown,
    /// No receiver, another user in it, unsent packets, or a receiver that would wait longer than
    /// the user.
    Unavailable,
}

/// Handle of an endpoint, shared with its circuits. Dropping the last one ends the helper and drops
/// the companions.
pub(crate) struct EndpointHandle<E, W>(pub(crate) Arc<EndpointShared<E, W>>, pub(crate) Companions);

/// Values that live as long as an endpoint.
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

/// The pump, locked.
pub(crate) type PumpGuard<'a, E, W> = Guard<'a, EndpointShared<E, W>>;

impl<E: Associations, W: Wire> Breakable for EndpointShared<E, W> {
    type Locked = Pump<E, W>;

    fn mutex(&self) -> &Mutex<Pump<E, W>> {
        &self.pump
    }

    fn broken(&self) -> &Broken {
        &self.broken
    }

    fn wake_everybody(&self) {
        self.wait_list.wake_all();
        self.interrupt();
        self.helper_wakeup.signal();
        if let Some(eventfd) = self.readiness_fd.get() {
            eventfd.signal();
        }
    }
}

impl<E: Associations, W: Wire> EndpointShared<E, W> {
    pub(crate) fn new(engine: E, mut wire: W, store_bytes: usize) -> io::Result<Self> {
        if let Some(packet_len) = engine.properties().packet_len {
            wire.set_packet_len(packet_len);
        }
        EndpointShared::over(Pump::new(engine, wire), store_bytes)
    }

    pub(crate) fn over(mut pump: Pump<E, W>, store_bytes: usize) -> io::Result<Self> {
        let wire = pump.wire();
        Ok(EndpointShared {
            descriptor: WireDescriptor::new(wire)?,
            receiver: wire.receiver(),
            pool: StorePool::new(pump.engine().layout(None), store_bytes),
            pump: Mutex::new(pump),
            broken: Broken::default(),
            user_receiving: AtomicBool::new(false),
            receive_deadline_ns: AtomicU64::new(u64::MAX),
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

    /// Takes the lock of the pump.
    ///
    /// # Errors
    ///
    /// An earlier panic under it.
    pub(crate) fn lock(&self) -> io::Result<PumpGuard<'_, E, W>> {
        if self.helper_parked.load(Ordering::Relaxed) {
            // The caller may change the engine's timeout.
            self.helper_wakeup.signal();
        }
        let pump = broken::lock(self)?;
        increment(&self.lock_generation);
        Ok(pump)
    }

    /// Takes the lock to look at the pump, also after a panic.
    pub(crate) fn look(&self) -> MutexGuard<'_, Pump<E, W>> {
        broken::look(self)
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Receives everything that arrived, runs timers, sends.
    pub(crate) fn drive(&self, pump: &mut Pump<E, W>) -> io::Result<()> {
        let now = self.now();
        self.receive_all(pump, now)?;
        pump.handle_timeout(now);
        pump.flush(now)?;
        self.signal_readiness(pump);
        Ok(())
    }

    /// Whether a user is blocked in a receive.
    pub(crate) fn is_user_receiving(&self) -> bool {
        self.user_receiving.load(Ordering::Relaxed)
    }

    /// When a user's receive must end, if it has a limit.
    pub(crate) fn receive_deadline(&self) -> Option<Instant> {
        let until = self.receive_deadline_ns.load(Ordering::Relaxed);
        (self.is_user_receiving() && until < u64::MAX).then(|| Instant::from_nanos(until))
    }

    /// The caller has sent a request and blocks next: the receiver may busy-poll.
    pub(crate) fn hint_busy_poll(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.hint_busy_poll();
        }
    }

    /// Interrupts a user's receive: its deadline passed, or an event that no packet announces
    /// concerns its circuit.
    pub(crate) fn interrupt(&self) {
        if let (true, Some(receiver)) = (self.is_user_receiving(), &self.receiver) {
            // A receiver that cannot be interrupted returns by itself after its longest wait.
            let _ = receiver.interrupt();
        }
    }

    /// Receives everything that arrived, unless a user is blocked in a receive and does so itself.
    pub(crate) fn receive_all(&self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        if self.is_user_receiving() {
            return Ok(());
        }
        increment(&self.poll_generation);
        let before = pump.arrivals();
        let mut receives = 0;
        // Packets buffered in the wire make no descriptor readable.
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

    /// The wire joined a group: threads that poll its descriptor poll anew if that has changed.
    pub(crate) fn refresh_descriptor(&self, pump: &Pump<E, W>) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        if descriptor.refresh(pump.wire())? {
            self.wait_list.wake_all();
            self.helper_wakeup.signal();
            if let Some(eventfd) = self.readiness_fd.get() {
                self.readiness_signalled.store(true, Ordering::Relaxed);
                eventfd.signal();
            }
        }
        Ok(())
    }

    /// Wakes users blocked for an arrival, and the watch.
    pub(crate) fn wake_waiters(&self, pump: &Pump<E, W>) {
        self.wait_list.wake_all();
        self.signal_readiness(pump);
    }

    /// Notifies circuits that were granted a permit.
    pub(crate) fn notify_granted(&self, pump: &mut Pump<E, W>) {
        if self.pool.permits.has_unnotified() {
            pump.mark_ready(&self.pool.permits.take_unnotified());
            self.wake_waiters(pump);
        }
    }

    /// Makes the watch readable if a circuit is ready.
    pub(crate) fn signal_readiness(&self, pump: &Pump<E, W>) {
        if let Some(eventfd) = self.readiness_fd.get()
            && pump.has_ready()
            && !self.readiness_signalled.swap(true, Ordering::Relaxed)
        {
            eventfd.signal();
        }
    }

    /// Lists the store of circuit `id`, which holds bytes not yet submitted, for the helper.
    #[cold]
    pub(crate) fn note_unsubmitted(&self, id: AssociationId, store: UnsubmittedStore) {
        self.lock_unsubmitted().push((id, store));
        self.wake_helper();
    }

    /// Wakes the helper if it is parked or at its idle rate; else its next tick is soon enough.
    fn wake_helper(&self) {
        if self.helper_parked.load(Ordering::SeqCst) || self.helper_idle_rate.load(Ordering::SeqCst)
        {
            self.helper_wakeup.signal();
        }
    }

    /// Defers a flush to the next send of any user, or to the helper.
    pub(crate) fn defer_flush(&self) {
        self.flush_pending.store(true, Ordering::SeqCst);
        self.wake_helper();
    }

    /// Whether a flush was deferred since the last call.
    pub(crate) fn take_flush_pending(&self) -> bool {
        self.flush_pending.swap(false, Ordering::SeqCst)
    }

    /// Takes the list of stores with bytes not yet submitted.
    pub(crate) fn take_unsubmitted(&self) -> Vec<(AssociationId, UnsubmittedStore)> {
        std::mem::take(&mut *self.lock_unsubmitted())
    }

    /// Whether the helper has work.
    pub(crate) fn has_helper_work(&self) -> bool {
        let flush_pending = self.flush_pending.load(Ordering::SeqCst);
        flush_pending || self.pool.permits.has_waiters() || !self.lock_unsubmitted().is_empty()
    }

    fn lock_unsubmitted(&self) -> MutexGuard<'_, Vec<(AssociationId, UnsubmittedStore)>> {
        self.unsubmitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives the next packet, blocking in the receive itself without the lock: one system call
    /// instead of a try, a poll and a receive. Updates `now`.
    pub(crate) fn wait_in_receive<'a>(
        &'a self,
        mut pump: PumpGuard<'a, E, W>,
        now: &mut Instant,
        limit: Duration,
    ) -> io::Result<(PumpGuard<'a, E, W>, WaitOutcome)> {
        let Some(receiver) = &self.receiver else {
            return Ok((pump, WaitOutcome::Unavailable));
        };
        if self.is_user_receiving() || pump.is_blocked() || !can_end_wait(&**receiver, limit) {
            return Ok((pump, WaitOutcome::Unavailable));
        }
        let until = now.as_nanos().saturating_add(nanos(limit));
        self.receive_deadline_ns.store(until, Ordering::Relaxed);
        // Set under the lock, so that helper and other users do not receive from here on. The
        // helper runs timers meanwhile.
        self.user_receiving.store(true, Ordering::Relaxed);
        self.waiting_users.fetch_add(1, Ordering::Relaxed);
        increment(&self.poll_generation);
        let mut buffer = pump.take_receive_buffer();
        drop(pump);
        let arrival = receiver.receive(&mut buffer);
        let mut pump = self.lock()?;
        self.user_receiving.store(false, Ordering::Relaxed);
        self.waiting_users.fetch_sub(1, Ordering::Relaxed);
        *now = self.now();
        let outcome = outcome_without_packet(&**receiver, &arrival);
        if !pump.handle_arrival(*now, buffer, arrival)? {
            return Ok((pump, outcome));
        }
        while pump.wire().has_buffered() && pump.receive(*now)? {}
        self.wake_waiters(&pump);
        Ok((pump, WaitOutcome::Woken))
    }

    /// Sleeps until a packet arrives, the engine's timeout is due, or `limit` passes.
    ///
    /// `seen_arrivals` is the number of arrivals at the caller's last poll. If another thread has
    /// received since, the caller returns at once: the wire's descriptor would not wake it.
    pub(crate) fn sleep(&self, limit: Duration, seen_arrivals: u64) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        let eventfd = thread_eventfd()?;
        let (deadline, flags) = {
            let pump = self.lock()?;
            if pump.arrivals() != seen_arrivals {
                return Ok(());
            }
            // Set under the lock, so that the thread that receives next knows of this one.
            self.waiting_users.fetch_add(1, Ordering::Relaxed);
            self.wait_list.add(Arc::clone(&eventfd));
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pump.is_blocked());
            (pump.poll_timeout(), flags)
        };
        let until = deadline.map_or(limit, |at| at.since(self.now()).min(limit));
        let mut ready = [
            PollFd::new(eventfd.descriptor(), PollFlags::IN),
            PollFd::new(descriptor.get(), flags),
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

/// What a receive means that brought no packet.
fn outcome_without_packet(receiver: &dyn Receiver, arrival: &io::Result<Arrival>) -> WaitOutcome {
    let is_from_nobody = |arrival: &Arrival| match arrival.path.remote {
        Address::Socket(from) => from.port() == 0,
        _ => false,
    };
    match arrival {
        // A socket that was shut down returns nothing, from nobody; if it is connected, from its peer.
        Ok(arrival) if !receiver.is_interruptible() || is_from_nobody(arrival) => {
            WaitOutcome::ShutDown
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => WaitOutcome::TimedOut,
        // Interrupted, a report of a path, or an empty packet.
        _ => WaitOutcome::Woken,
    }
}

/// Increments a counter that only the holder of the pump's lock writes: no locked instruction.
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Shortest wait that the helper ends: the helper ticks every 1 or 4 ms.
const HELPER_TIMED_WAIT_MIN: Duration = Duration::from_millis(10);

/// Whether a wait in a receive can end after `limit`.
pub(crate) fn can_end_wait(receiver: &dyn Receiver, limit: Duration) -> bool {
    let helped = receiver.is_interruptible() && limit >= HELPER_TIMED_WAIT_MIN;
    helped || limit >= receiver.max_wait()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Receives in one go, so that a flood does not keep a user from sending.
const RECEIVES_MAX: usize = 64;

/// `span` for a system call; the longest there is for one that is longer, such as for ever.
pub(crate) fn timespec(span: Duration) -> Timespec {
    let span = finite(span);
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
