//! State shared by the users of an endpoint and its helper thread.

use crate::broken::{self, Breakable, Broken, Guard};
use crate::pump::{Pump, SPARE_BUFFERS_MAX};
use crate::sys::StorePool;
use crate::timeout::finite;
use crate::wakeup::{Wakeup, thread_eventfd};
use crate::wire_descriptor::WireDescriptor;
use engine::{Address, Associations, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use wire::{Arrival, Receiver, Wire};

pub(crate) struct EndpointShared<E, W> {
    pump: Mutex<Pump<E, W>>,
    /// A panic under the lock of the pump.
    broken: Broken,
    /// CLOCK_MONOTONIC when it began, ns.
    start_ns: u64,
    pub(crate) pool: Arc<StorePool>,
    /// The wire's descriptor, to poll without the lock; None in virtual time.
    pub(crate) descriptor: Option<WireDescriptor>,
    /// The wire's receiver, to block in a receive without the lock.
    receiver: Option<Box<dyn Receiver>>,
    pub(crate) wakeup: Wakeup,
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
        self.0.wakeup.helper.close();
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
        self.interrupt();
        self.wakeup.wake_everybody();
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
            start_ns: monotonic_ns(),
            wakeup: Wakeup::new()?,
        })
    }

    /// Takes the lock of the pump. Errors: an earlier panic under it.
    #[inline]
    pub(crate) fn lock(&self) -> io::Result<PumpGuard<'_, E, W>> {
        let pump = broken::lock(self)?;
        self.wakeup.helper.on_pump_locked();
        self.wakeup.activity.count_lock();
        Ok(pump)
    }

    /// Takes the lock to look at the pump, also after a panic.
    pub(crate) fn look(&self) -> MutexGuard<'_, Pump<E, W>> {
        broken::look(self)
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.start_ns))
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

    /// The caller has sent a request and blocks next: the receiver may busy-poll.
    pub(crate) fn hint_busy_poll(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.hint_busy_poll();
        }
    }

    /// Interrupts a user's receive: its deadline passed, or an event that no packet announces
    /// concerns its circuit.
    pub(crate) fn interrupt(&self) {
        if let (true, Some(receiver)) = (self.wakeup.receive.is_claimed(), &self.receiver) {
            // A receiver that cannot be interrupted returns by itself after its longest wait.
            let _ = receiver.interrupt();
        }
    }

    /// Receives everything that arrived, unless a user is blocked in a receive and does so itself.
    pub(crate) fn receive_all(&self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        if self.wakeup.receive.is_claimed() {
            return Ok(());
        }
        self.wakeup.activity.count_poll();
        let before = pump.arrivals();
        let kept_max = pump.kept_arrivals() + KEPT_ARRIVALS_MAX;
        let mut receives = 0;
        // Packets buffered in the wire make no descriptor readable.
        while receives < RECEIVES_MAX && pump.kept_arrivals() < kept_max
            || pump.wire().has_buffered()
        {
            receives += 1;
            if !pump.receive(now)? {
                break;
            }
        }
        if pump.arrivals() != before {
            self.wakeup.waiters.wake_all();
        }
        Ok(())
    }

    /// The wire joined a group: threads that poll its descriptor poll anew if that has changed.
    pub(crate) fn refresh_descriptor(&self, pump: &Pump<E, W>) -> io::Result<()> {
        let Some(descriptor) = &self.descriptor else {
            return Ok(());
        };
        if descriptor.refresh(pump.wire())? {
            self.wakeup.wake_everybody();
        }
        Ok(())
    }

    /// Wakes users blocked for an arrival, and the watch.
    pub(crate) fn wake_waiters(&self, pump: &Pump<E, W>) {
        self.wakeup.waiters.wake_all();
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
        self.wakeup.readiness.signal_if(|| pump.has_ready());
    }

    /// Whether a user waits, who is to be woken by an arrival.
    pub(crate) fn is_user_waiting(&self) -> bool {
        self.wakeup.receive.is_claimed() || self.wakeup.activity.is_user_asleep()
    }

    /// Whether users left work to the helper, or wait for permits, whose number its ticks adapt.
    pub(crate) fn has_helper_work(&self) -> bool {
        self.wakeup.helper.has_work() || self.pool.permits.has_waiters()
    }

    /// Receives the next packet, blocking in the receive itself without the lock: one system call
    /// instead of a try, a poll and a receive. Updates `now`.
    pub(crate) fn wait_in_receive<'a>(
        &'a self,
        pump: PumpGuard<'a, E, W>,
        now: &mut Instant,
        limit: Duration,
    ) -> io::Result<(PumpGuard<'a, E, W>, WaitOutcome)> {
        self.wait_in_receive_with(pump, now, limit, Pump::handle_arrival)
    }

    /// The same; `handle` is [`Pump::handle_arrival`], or what takes its place.
    #[inline]
    pub(crate) fn wait_in_receive_with<'a>(
        &'a self,
        mut pump: PumpGuard<'a, E, W>,
        now: &mut Instant,
        limit: Duration,
        handle: impl FnOnce(&mut Pump<E, W>, Instant, Vec<u8>, io::Result<Arrival>) -> io::Result<bool>,
    ) -> io::Result<(PumpGuard<'a, E, W>, WaitOutcome)> {
        let Some(receiver) = &self.receiver else {
            return Ok((pump, WaitOutcome::Unavailable));
        };
        if self.wakeup.receive.is_claimed()
            || pump.is_blocked()
            || !can_end_wait(&**receiver, limit)
        {
            return Ok((pump, WaitOutcome::Unavailable));
        }
        let until = now.as_nanos().saturating_add(nanos(limit));
        // Under the lock, so that helper and other users do not receive from here on. The helper runs
        // timers meanwhile.
        self.wakeup.receive.claim(until);
        self.wakeup.activity.count_poll();
        let mut buffer = pump.take_receive_buffer();
        drop(pump);
        let arrival = receiver.receive(&mut buffer);
        let mut pump = self.lock()?;
        self.wakeup.receive.end();
        *now = self.now();
        let outcome = outcome_without_packet(&**receiver, &arrival);
        if !handle(&mut pump, *now, buffer, arrival)? {
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
            let mut pump = self.lock()?;
            if pump.arrivals() != seen_arrivals {
                return Ok(());
            }
            // Who is in the receive has asked already, and wakes this thread.
            if !self.wakeup.receive.is_claimed() && !pump.wire_mut().may_wait() {
                return Ok(());
            }
            // Under the lock, so that the thread that receives next knows of this one.
            self.wakeup.activity.begin_sleep();
            self.wakeup.waiters.add(Arc::clone(&eventfd));
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
        self.wakeup.activity.end_sleep();
        self.wakeup.waiters.remove(&eventfd);
        if signalled {
            eventfd.clear();
        }
        match result {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// CLOCK_MONOTONIC, ns, as one number: an elapsed time of the standard library takes twice as many instructions.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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

/// Arrivals in one go that are kept until their users have read them. As many buffers are reused, and what lies in them
/// is still in the cache when it is read; the rest waits in the wire.
const KEPT_ARRIVALS_MAX: u64 = SPARE_BUFFERS_MAX as u64;

/// `span` for a system call; the longest there is for one that is longer, such as for ever.
pub(crate) fn timespec(span: Duration) -> Timespec {
    let span = finite(span);
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
