//! The helper thread: serves an endpoint while no user does.

use crate::pump::Pump;
use crate::shared::{Shared, timespec};
use engine::{CircuitId, Engine};
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::HashMap;
use std::io;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Wire;

/// How often the helper looks whether the user is still there.
///
/// Also the longest a short message waits for company when its user goes away without a flush.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without a user after which the helper sleeps until something happens.
const TICKS_AWAKE: u32 = 20;

/// The longest sleep.
const DOZE: Duration = Duration::from_millis(100);

/// What the helper remembers from one tick to the next.
#[derive(Default)]
pub(crate) struct Helper {
    visits: u64,
    /// Ticks in a row without a user.
    quiet: u32,
    /// Circuits that had unoffered bytes a tick ago, and up to where theirs were offered.
    late: HashMap<CircuitId, u64>,
}

impl Helper {
    /// Serves until the last handle of the endpoint is gone.
    pub(crate) fn run<E: Engine, W: Wire>(mut self, shared: &Shared<E, W>) {
        while !shared.ended.load(Ordering::Acquire) {
            self.sleep(shared);
            if self.look(shared).is_err() {
                // The user's next call meets the same error and reports it.
                std::thread::sleep(TICK);
            }
        }
    }

    fn sleep<E: Engine, W: Wire>(&self, shared: &Shared<E, W>) {
        let mut limit = TICK;
        let mut descriptors = vec![PollFd::new(shared.nudge.descriptor(), PollFlags::IN)];
        if self.quiet >= TICKS_AWAKE {
            shared.dozing.store(true, Ordering::SeqCst);
            limit = match shared.pump.try_lock() {
                Ok(pump) if !shared.has_announced() => nap(shared, &pump),
                _ => TICK,
            };
            // What arrives must wake the user who waits for it, and only that one.
            if let Some(wire) = &shared.descriptor
                && shared.waiting.load(Ordering::Relaxed) == 0
            {
                descriptors.push(PollFd::new(wire, PollFlags::IN));
            }
        }
        // An interrupted sleep is a short one.
        let _ = poll(&mut descriptors, Some(&timespec(limit)));
        shared.dozing.store(false, Ordering::SeqCst);
        if !descriptors[0].revents().is_empty() {
            shared.nudge.hush();
        }
    }

    fn look<E: Engine, W: Wire>(&mut self, shared: &Shared<E, W>) -> io::Result<()> {
        let visits = shared.visits.load(Ordering::Relaxed);
        let away = visits == self.visits;
        self.visits = visits;
        if !away && !shared.has_announced() {
            self.quiet = 0;
            self.late.clear();
            return Ok(());
        }
        let mut pump = match shared.pump.try_lock() {
            Ok(pump) => pump,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let offered = self.offer_late(shared, &mut pump, away);
        self.quiet = if away && !offered { self.quiet + 1 } else { 0 };
        if away {
            return serve(shared, &mut pump);
        }
        if offered {
            pump.flush(shared.now())
        } else {
            Ok(())
        }
    }

    /// Offers what circuits hold back, if their user is away or did nothing for them for a tick.
    /// Whether there was anything held back.
    fn offer_late<E: Engine, W: Wire>(
        &mut self,
        shared: &Shared<E, W>,
        pump: &mut Pump<E, W>,
        away: bool,
    ) -> bool {
        let ids = shared.take_announced();
        let before = std::mem::take(&mut self.late);
        let now = shared.now();
        for &id in &ids {
            let told = pump.told(id);
            if away || before.get(&id) == Some(&told) {
                pump.offer(now, id, true);
            } else {
                self.late.insert(id, told);
                shared.keep_announced(id);
            }
        }
        !ids.is_empty()
    }
}

/// How long nothing needs the helper.
fn nap<E: Engine, W: Wire>(shared: &Shared<E, W>, pump: &Pump<E, W>) -> Duration {
    let deadline = pump.deadline().map(|at| at.since(shared.now()));
    deadline.map_or(DOZE, |left| left.clamp(TICK, DOZE))
}

fn serve<E: Engine, W: Wire>(shared: &Shared<E, W>, pump: &mut Pump<E, W>) -> io::Result<()> {
    if shared.waiting.load(Ordering::Relaxed) == 0 {
        return shared.serve(pump);
    }
    // A user sleeps on the wire, and what arrives must wake that one; but that user knows nothing
    // of deadlines that came up since.
    let now = shared.now();
    if pump.deadline().is_some_and(|at| at <= now) {
        pump.handle_timeout(now);
        shared.wake_others(pump);
    }
    pump.flush(now)
}
