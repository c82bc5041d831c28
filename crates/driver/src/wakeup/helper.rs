//! The helper thread: runs the pump of an endpoint while no user does.

use crate::broken::{self, Breakable};
use crate::pump::Pump;
use crate::shared::{EndpointShared, timespec};
use crate::sys::UnsubmittedStore;
use crate::wakeup::{Generation, HelperSleep};
use engine::{AssociationId, Associations};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::time::Duration;
use wire::Wire;

/// How often the helper checks whether a user is active.
///
/// Also the longest a short message is coalesced when its user stops without a flush.
const TICK: Duration = Duration::from_millis(1);

/// Ticks without an active user after which the helper parks, and ticks without work after which it
/// ticks at the idle rate.
const IDLE_AFTER_TICKS: u32 = 20;

/// The idle rate. With many endpoints in use on one processor, ticks of a millisecond took a tenth
/// of it.
const IDLE_TICK: Duration = Duration::from_millis(4);

/// Ticks after which stores that nobody needed meanwhile are unmapped; a parked helper does so each time it wakes.
const TRIM_EVERY_TICKS: u32 = 256;

/// The longest sleep of a parked helper.
const PARK_MAX: Duration = Duration::from_millis(100);

/// What the helper remembers between ticks.
#[derive(Default)]
pub(crate) struct Helper {
    generation: Generation,
    /// Ticks in a row without an active user and without work.
    idle_ticks: u32,
    /// Ticks in a row without work.
    ticks_without_work: u32,
    /// Ticks since the pool of stores was trimmed.
    ticks_untrimmed: u32,
    /// Listed stores, with how far each was submitted.
    pending: Vec<PendingStore>,
}

/// What there is to do in a tick.
struct Work {
    /// No user took the lock of the pump since the last tick.
    user_away: bool,
    /// Circuits whose bytes are to be submitted.
    stalled: Vec<AssociationId>,
    flush_pending: bool,
    /// Circuits are to be notified of permits.
    permits_granted: bool,
}

impl Work {
    fn is_none(&self) -> bool {
        let needed = self.flush_pending || self.permits_granted || !self.stalled.is_empty();
        !needed && !self.user_away
    }

    fn run<E: Associations, W: Wire>(
        self,
        shared: &EndpointShared<E, W>,
        pump: &mut Pump<E, W>,
    ) -> io::Result<()> {
        let now = shared.now();
        for id in self.stalled {
            pump.submit_pending(now, id, true);
        }
        shared.notify_granted(pump);
        if self.flush_pending {
            pump.flush_deferred(now)?;
        }
        if pump.has_deferred() {
            // The wire had no room.
            shared.wakeup.helper.defer_flush();
        }
        match self.user_away {
            true => drive(shared, pump),
            false => pump.flush(now),
        }
    }
}

struct PendingStore {
    id: AssociationId,
    store: UnsubmittedStore,
    /// How far the store was submitted, if it held more bytes.
    submitted: Option<u64>,
    /// Ticks at which it held nothing to submit.
    empty_ticks: u32,
}

impl Helper {
    /// Runs until the last handle of the endpoint is dropped, or a panic left the engine inconsistent.
    pub(crate) fn run<E: Associations, W: Wire>(mut self, shared: &EndpointShared<E, W>) {
        while !shared.wakeup.helper.is_closed() && !shared.broken().is_broken() {
            self.sleep(shared);
            if self.tick(shared).is_err() {
                // The user's next call meets the same error and reports it.
                std::thread::sleep(TICK);
            }
        }
        // No user is left to receive an error of the last packets.
        let now = shared.now();
        if let Ok(mut pump) = shared.lock() {
            let _ = pump.flush_deferred(now);
        }
    }

    fn sleep<E: Associations, W: Wire>(&self, shared: &EndpointShared<E, W>) {
        let state = &shared.wakeup.helper;
        let mut descriptors = vec![PollFd::new(state.eventfd().descriptor(), PollFlags::IN)];
        let sleep = self.next_sleep();
        state.fall_asleep(sleep);
        let mut limit = match sleep {
            HelperSleep::Ticking => TICK,
            HelperSleep::Idle => idle_for(shared).min(IDLE_TICK),
            HelperSleep::Parked => idle_for(shared),
        };
        // An arrival must wake the user who waits for it, and only that one.
        if let Some(wire) = &shared.descriptor
            && sleep == HelperSleep::Parked
            && !shared.is_user_waiting()
        {
            match may_wait(shared) {
                true => descriptors.push(PollFd::new(wire.get(), PollFlags::IN)),
                false => limit = limit.min(TICK),
            }
        }
        // An interrupted sleep is a short one.
        let _ = poll(&mut descriptors, Some(&timespec(limit)));
        state.wake_up();
        if !descriptors[0].revents().is_empty() {
            state.eventfd().clear();
        }
    }

    fn next_sleep(&self) -> HelperSleep {
        if self.idle_ticks >= IDLE_AFTER_TICKS {
            HelperSleep::Parked
        } else if self.ticks_without_work >= IDLE_AFTER_TICKS {
            HelperSleep::Idle
        } else {
            HelperSleep::Ticking
        }
    }

    fn tick<E: Associations, W: Wire>(&mut self, shared: &EndpointShared<E, W>) -> io::Result<()> {
        let receive = &shared.wakeup.receive;
        if receive.deadline().is_some_and(|at| at <= shared.now()) {
            shared.interrupt();
        }
        self.trim_stores(shared);
        let work = self.find_work(shared);
        if work.is_none() {
            return Ok(());
        }
        match broken::try_lock(shared)? {
            Some(mut pump) => work.run(shared, &mut pump),
            None if work.flush_pending => {
                shared.wakeup.helper.defer_flush();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn trim_stores<E: Associations, W: Wire>(&mut self, shared: &EndpointShared<E, W>) {
        self.ticks_untrimmed += 1;
        let is_parked = self.next_sleep() == HelperSleep::Parked;
        if is_parked || self.ticks_untrimmed >= TRIM_EVERY_TICKS {
            self.ticks_untrimmed = 0;
            shared.pool.trim();
        }
    }

    /// What there is to do in this tick, and counts of ticks without. Needs no lock of the pump.
    fn find_work<E: Associations, W: Wire>(&mut self, shared: &EndpointShared<E, W>) -> Work {
        let generation = shared.wakeup.activity.generation();
        let user_away = generation.locks == self.generation.locks;
        if user_away || generation.polls != self.generation.polls {
            shared.pool.permits.tick();
        }
        self.generation = generation;
        let work = Work {
            user_away,
            stalled: self.find_stalled(shared, user_away),
            flush_pending: shared.wakeup.helper.take_flush_pending(),
            permits_granted: shared.pool.permits.has_unnotified(),
        };
        let has_work = !self.pending.is_empty() || work.flush_pending || work.permits_granted;
        let count_if = |ticks: u32, holds: bool| if holds { ticks.saturating_add(1) } else { 0 };
        self.ticks_without_work = count_if(self.ticks_without_work, !has_work);
        self.idle_ticks = count_if(self.idle_ticks, !has_work && user_away);
        work
    }

    /// Circuits with bytes to submit whose user is inactive, or submitted none of them for a tick.
    /// Needs no lock of the pump.
    fn find_stalled<E: Associations, W: Wire>(
        &mut self,
        shared: &EndpointShared<E, W>,
        user_away: bool,
    ) -> Vec<AssociationId> {
        let mut stalled = Vec::new();
        self.pending.retain_mut(|pending| {
            let submitted = pending.store.submitted_if_behind();
            if submitted.is_some() && (user_away || submitted == pending.submitted) {
                stalled.push(pending.id);
            }
            pending.submitted = submitted;
            if submitted.is_some() {
                // Its user may have listed it again since the note was cleared.
                let is_first_note = pending.empty_ticks == 0 || pending.store.set_noted();
                pending.empty_ticks = 0;
                return is_first_note;
            }
            // The note is cleared first and the store checked once more a tick later: a message
            // written meanwhile may have found the note still set.
            pending.empty_ticks += 1;
            if pending.empty_ticks == 1 {
                pending.store.clear_noted();
            }
            pending.empty_ticks < 2
        });
        let listed = shared.wakeup.helper.take_unsubmitted().into_iter();
        self.pending.extend(listed.map(|(id, store)| PendingStore {
            id,
            submitted: store.submitted_if_behind(),
            store,
            empty_ticks: 0,
        }));
        stalled
    }
}

/// How long the helper has nothing to do, as far as it can see now.
fn idle_for<E: Associations, W: Wire>(shared: &EndpointShared<E, W>) -> Duration {
    let pump = match broken::try_lock(shared) {
        Ok(Some(pump)) if !shared.has_helper_work() => pump,
        _ => return TICK,
    };
    let next = pump
        .poll_timeout()
        .into_iter()
        .chain(shared.wakeup.receive.deadline());
    let left = next.min().map(|at| at.since(shared.now()));
    left.map_or(PARK_MAX, |left| left.clamp(TICK, PARK_MAX))
}

/// Whether the wire shows by its descriptor what arrives from now on; false also while a user has the lock.
fn may_wait<E: Associations, W: Wire>(shared: &EndpointShared<E, W>) -> bool {
    let locked = broken::try_lock(shared);
    locked.is_ok_and(|pump| pump.is_some_and(|mut pump| pump.wire_mut().may_wait()))
}

fn drive<E: Associations, W: Wire>(
    shared: &EndpointShared<E, W>,
    pump: &mut Pump<E, W>,
) -> io::Result<()> {
    if !shared.is_user_waiting() {
        shared.drive(pump)?;
        // An event loop may be waiting for the descriptor since before this thread received.
        if !pump.wire_mut().may_wait() {
            shared.wakeup.readiness.signal();
        }
        return Ok(());
    }
    // A user polls the wire, and an arrival must wake that user; but that user does not know of
    // timeouts that became due since.
    let now = shared.now();
    if pump.poll_timeout().is_some_and(|at| at <= now) {
        let before = pump.events();
        pump.handle_timeout(now);
        if pump.events() != before {
            shared.wake_waiters(pump);
            shared.interrupt();
        }
    }
    pump.flush(now)
}
