//! A router in a thread of its own: nobody calls it, it forwards what arrives.

use crate::broken::{self, Breakable, Broken, Guard};
use crate::checked_wire::PathErrors;
use crate::packet_pump::{PacketPump, WireCalls};
use crate::shared::timespec;
use crate::wakeup::EventFd;
use crate::wire_descriptor::WireDescriptor;
use engine::{Address, Instant, Layer, Router};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Wire;

/// The longest sleep of the thread.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Pause after an error of the wire, so that one that lasts does not take a processor.
const ERROR_PAUSE: Duration = Duration::from_millis(1);

/// Arrivals taken in before what they caused is sent.
const RECEIVES_MAX: usize = 64;

struct RouterShared<R, W> {
    pump: Mutex<PacketPump<R, W>>,
    broken: Broken,
    started_at: std::time::Instant,
    descriptor: WireDescriptor,
    /// Wakes the thread.
    wakeup: EventFd,
    closed: AtomicBool,
}

/// A router on a wire, forwarding until it is dropped.
pub struct RouterHost<R: Router, W: Wire> {
    shared: Arc<RouterShared<R, W>>,
    thread: Option<JoinHandle<()>>,
}

impl<R: Router + Send + 'static, W: Wire + Send + 'static> RouterHost<R, W> {
    /// Starts `router` on `wire`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a wire without a descriptor, or when there is no thread or descriptor left.
    pub fn new(router: R, wire: W) -> io::Result<Self> {
        RouterHost::start(PacketPump::new(router, wire))
    }

    /// Starts `router` on `wire`, with `layer` between packets and frames.
    /// Errors are those of [`new`](RouterHost::new), and `InvalidInput` when packets do not fit the layer, or its
    /// frames the wire.
    pub fn with_layer(router: R, wire: W, layer: Box<dyn Layer + Send>) -> io::Result<Self> {
        RouterHost::start(PacketPump::with_layer(router, wire, layer)?)
    }

    fn start(pump: PacketPump<R, W>) -> io::Result<Self> {
        let descriptor = WireDescriptor::new(pump.wire())?.ok_or(io::ErrorKind::Unsupported)?;
        let shared = Arc::new(RouterShared {
            pump: Mutex::new(pump),
            broken: Broken::default(),
            started_at: std::time::Instant::now(),
            descriptor,
            wakeup: EventFd::new()?,
            closed: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("router".to_owned());
        let thread = thread.spawn(move || own.run())?;
        Ok(RouterHost {
            shared,
            thread: Some(thread),
        })
    }
}

impl<R: Router, W: Wire> RouterHost<R, W> {
    /// Carries out a command of the router, and sends what follows from it. Errors are those of the wire.
    pub fn command(&self, act: impl FnOnce(&mut R, Instant)) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        act(&mut pump.engine, now);
        pump.flush(now)
    }

    /// Whether the router works.
    ///
    /// # Errors
    ///
    /// A panic in the router: it forwards no more.
    pub fn check(&self) -> io::Result<()> {
        self.shared.broken.error().map_or(Ok(()), Err)
    }

    /// Calls `look` with the router.
    pub fn with_router<T>(&self, look: impl FnOnce(&R) -> T) -> T {
        look(&broken::look(&*self.shared).engine)
    }

    /// Makes the wire join the multicast group `group`; see [`Wire::join`]. Errors are those of the wire.
    pub fn join(&self, group: Address) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        pump.wire_mut().join(group)?;
        if self.shared.descriptor.refresh(pump.wire())? {
            self.shared.wakeup.signal();
        }
        Ok(())
    }

    /// Makes the wire leave the multicast group `group`; see [`Wire::leave`]. Errors are those of the wire.
    pub fn leave(&self, group: Address) -> io::Result<()> {
        self.shared.lock()?.wire_mut().leave(group)
    }

    /// What paths said so far of packets that they did not carry.
    pub fn path_errors(&self) -> PathErrors {
        broken::look(&*self.shared).path_errors().clone()
    }

    /// Calls of its wire so far.
    pub fn wire_calls(&self) -> WireCalls {
        broken::look(&*self.shared).wire_calls()
    }
}

impl<R: Router, W: Wire> Drop for RouterHost<R, W> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.wakeup.signal();
        if let Some(thread) = self.thread.take() {
            // A panic in the router was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl<R: Router, W: Wire> Breakable for RouterShared<R, W> {
    type Locked = PacketPump<R, W>;

    fn mutex(&self) -> &Mutex<PacketPump<R, W>> {
        &self.pump
    }

    fn broken(&self) -> &Broken {
        &self.broken
    }

    fn wake_everybody(&self) {
        self.wakeup.signal();
    }
}

impl<R: Router, W: Wire> RouterShared<R, W> {
    fn lock(&self) -> io::Result<Guard<'_, Self>> {
        broken::lock(self)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.started_at.elapsed().as_nanos() as u64)
    }

    fn run(&self) {
        while !self.closed.load(Ordering::Acquire) {
            let (timeout, blocked, may_wait) = match self.lock() {
                Ok(mut pump) => {
                    let may_wait = pump.wire_mut().may_wait();
                    (pump.poll_timeout(), pump.is_blocked(), may_wait)
                }
                // [`RouterHost::check`] reports it.
                Err(_) => return,
            };
            let left = match may_wait {
                true => timeout.map_or(SLEEP_MAX, |at| at.since(self.now()).min(SLEEP_MAX)),
                false => Duration::ZERO,
            };
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, blocked);
            let mut ready = [
                PollFd::new(self.descriptor.get(), flags),
                PollFd::new(self.wakeup.descriptor(), PollFlags::IN),
            ];
            // An interrupted sleep is a short one.
            let _ = poll(&mut ready, Some(&timespec(left)));
            if !ready[1].revents().is_empty() {
                self.wakeup.clear();
            }
            if self.forward().is_err() {
                // An error about one destination is a lost packet; the others are served.
                std::thread::sleep(ERROR_PAUSE);
            }
        }
    }

    fn forward(&self) -> io::Result<()> {
        let mut pump = self.lock()?;
        let now = self.now();
        pump.handle_timeout(now);
        for _ in 0..RECEIVES_MAX {
            if pump.receive(|| now, |_, _| {})?.is_none() && !pump.wire().has_buffered() {
                break;
            }
        }
        pump.flush(now)
    }
}
