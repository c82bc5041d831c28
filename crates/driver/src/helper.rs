//! The helper thread: serves an endpoint while no user does.

use crate::pump::Pump;
use crate::shared::{Shared, timespec};
use crate::sys::Waiting;
use engine::{AssociationId, Engine};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Wire;

/// How often the helper looks whether the user is still there.
///
/// Also the longest a short message waits for company when its user goes away without a flush.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without a user after which the helper sleeps until something happens; and ticks with users
/// who left nothing to it, after which it looks less often.
const TICKS_AWAKE: u32 = 20;

/// How often it looks then. With many endpoints in use on one processor, looking every millisecond
/// took a tenth of it.
const SLOW_TICK: Duration = Duration::from_millis(4);

/// The longest sleep.
const DOZE: Duration = Duration::from_millis(100);

/// What the helper remembers from one tick to the next.
#[derive(Default)]
pub(crate) struct Helper {
    visits: u64,
    looks: u64,
    /// Ticks in a row without a user or bytes held back.
    quiet: u32,
    /// Ticks in a row without bytes held back.
    unneeded: u32,
    /// Circuits announced since the tick before, with what was offered of their bytes.
    seen: Vec<Seen>,
}

struct Seen {
    id: AssociationId,
    waiting: Waiting,
    /// Up to where bytes were offered, if there were more.
    told: Option<u64>,
    /// How often it was looked at while nothing was held back.
    idle: u32,
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
        // Nobody is left to tell about an error of the last packets.
        let now = shared.now();
        let _ = shared.lock().flush_late(now);
    }

    fn sleep<E: Engine, W: Wire>(&self, shared: &Shared<E, W>) {
        let mut limit = TICK;
        let mut descriptors = vec![PollFd::new(shared.nudge.descriptor(), PollFlags::IN)];
        if self.unneeded >= TICKS_AWAKE {
            shared.is_slow.store(true, Ordering::SeqCst);
            limit = unneeded_for(shared).min(SLOW_TICK);
        }
        if self.quiet >= TICKS_AWAKE {
            shared.dozing.store(true, Ordering::SeqCst);
            limit = unneeded_for(shared);
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
        shared.is_slow.store(false, Ordering::SeqCst);
        if !descriptors[0].revents().is_empty() {
            shared.nudge.hush();
        }
    }

    fn look<E: Engine, W: Wire>(&mut self, shared: &Shared<E, W>) -> io::Result<()> {
        let visits = shared.visits.load(Ordering::Relaxed);
        let away = visits == self.visits;
        self.visits = visits;
        if shared.receive_until().is_some_and(|at| at <= shared.now()) {
            shared.interrupt();
        }
        let late = self.find_late(shared, away);
        let held = shared.take_held();
        let looks = shared.looks.load(Ordering::Relaxed);
        if away || looks != self.looks {
            shared.pool.turns.tick();
        }
        self.looks = looks;
        let called = shared.pool.turns.has_called();
        let needed = !self.seen.is_empty() || held || called;
        let one_more = |ticks: u32, is_so: bool| if is_so { ticks.saturating_add(1) } else { 0 };
        self.unneeded = one_more(self.unneeded, !needed);
        self.quiet = one_more(self.quiet, !needed && away);
        if !away && late.is_empty() && !held && !called {
            return Ok(());
        }
        let mut pump = match shared.pump.try_lock() {
            Ok(pump) => pump,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if held {
                    shared.hold();
                }
                return Ok(());
            }
        };
        let now = shared.now();
        for id in late {
            pump.offer(now, id, true);
        }
        shared.call_next(&mut pump);
        if held {
            pump.flush_late(now)?;
        }
        if pump.is_late() {
            // The wire had no room.
            shared.hold();
        }
        if away {
            serve(shared, &mut pump)
        } else {
            pump.flush(now)
        }
    }

    /// Circuits whose user is away, or did nothing for them for a tick, and that hold bytes back.
    /// No lock of the pump is taken to find them.
    fn find_late<E: Engine, W: Wire>(
        &mut self,
        shared: &Shared<E, W>,
        away: bool,
    ) -> Vec<AssociationId> {
        let mut late = Vec::new();
        self.seen.retain_mut(|seen| {
            let told = seen.waiting.told();
            if told.is_some() && (away || told == seen.told) {
                late.push(seen.id);
            }
            seen.told = told;
            if told.is_some() {
                // Its user may have announced it anew since it was unmarked.
                let mine = seen.idle == 0 || seen.waiting.mark();
                seen.idle = 0;
                return mine;
            }
            // Unmarked first, and looked at once more a tick later: a message written at the very
            // moment may have found the mark still there.
            seen.idle += 1;
            if seen.idle == 1 {
                seen.waiting.unmark();
            }
            seen.idle < 2
        });
        let announced = shared.take_announced().into_iter();
        self.seen.extend(announced.map(|(id, waiting)| Seen {
            id,
            told: waiting.told(),
            waiting,
            idle: 0,
        }));
        late
    }
}

/// How long nothing needs the helper, as far as it can see now.
fn unneeded_for<E: Engine, W: Wire>(shared: &Shared<E, W>) -> Duration {
    let pump = match shared.pump.try_lock() {
        Ok(pump) if !shared.has_announced() => pump,
        _ => return TICK,
    };
    let next = pump.deadline().into_iter().chain(shared.receive_until());
    let left = next.min().map(|at| at.since(shared.now()));
    left.map_or(DOZE, |left| left.clamp(TICK, DOZE))
}

fn serve<E: Engine, W: Wire>(shared: &Shared<E, W>, pump: &mut Pump<E, W>) -> io::Result<()> {
    if shared.waiting.load(Ordering::Relaxed) == 0 {
        return shared.serve(pump);
    }
    // A user sleeps on the wire, and what arrives must wake that one; but that user knows nothing
    // of deadlines that came up since.
    let now = shared.now();
    if pump.deadline().is_some_and(|at| at <= now) {
        let before = pump.events();
        pump.handle_timeout(now);
        if pump.events() != before {
            shared.wake_others(pump);
            shared.interrupt();
        }
    }
    pump.flush(now)
}
