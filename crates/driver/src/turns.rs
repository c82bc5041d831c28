//! Turns at filling send stores.
//!
//! When very many circuits of an endpoint send all they can, what they write is out of the caches
//! before it leaves, and so is what the kernel holds of it: on a loopback a thousand circuits
//! together got half of what one gets. Therefore only some fill their stores at a time. A circuit
//! needs a turn to have more than a batch in its store; those with short messages never wait. Who
//! has a turn and finds others waiting gives it up after one store's worth. When turns come back
//! slowly, as over long paths or from readers that stopped, there are more of them.

use engine::AssociationId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns before anybody waits for one. As many circuits never wait for each other.
const AT_ONCE: usize = 16;

/// Ticks of the helper within which as many turns are to come back as there are; else there may be
/// more of them. Those in which nobody looked for answers do not count.
const COME_BACK: u32 = 8;

/// How a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Turn {
    /// It sends little, or nobody waits.
    Free,
    /// It waits, or was called and does not know.
    Waits,
    /// It fills its store.
    Has,
    /// It had one until its store was empty.
    Had,
}

/// Who may fill stores.
#[derive(Default)]
pub(crate) struct Turns {
    /// Whether circuits wait, and whether some were called and not told; for a look without the
    /// lock.
    waiting: AtomicBool,
    untold: AtomicBool,
    state: Mutex<State>,
}

struct State {
    taken: usize,
    allowed: usize,
    /// Ticks, and turns that came back, since their number was last looked at.
    ticks: u32,
    returned: usize,
    queue: VecDeque<AssociationId>,
    /// Whose turn it is and who did not take it yet.
    called: BTreeSet<AssociationId>,
    untold: Vec<AssociationId>,
}

impl Default for State {
    fn default() -> State {
        State {
            taken: 0,
            allowed: AT_ONCE,
            ticks: 0,
            returned: 0,
            queue: VecDeque::new(),
            called: BTreeSet::new(),
            untold: Vec::new(),
        }
    }
}

impl Turns {
    /// Whether circuit `id`, which does not wait, has a turn now; if not, it waits and is called.
    pub(crate) fn ask(&self, id: AssociationId) -> bool {
        let mut state = self.lock();
        let granted = state.queue.is_empty() && state.has_room();
        if granted {
            state.taken += 1;
        } else {
            state.queue.push_back(id);
            self.note(&state);
        }
        granted
    }

    /// Whether circuit `id`, which waits, was called and has a turn now.
    pub(crate) fn claim(&self, id: AssociationId) -> bool {
        let mut state = self.lock();
        let called = state.called.remove(&id);
        state.taken += usize::from(called);
        called
    }

    /// A turn is over.
    pub(crate) fn give_back(&self) {
        let mut state = self.lock();
        state.taken -= 1;
        state.returned += 1;
        state.call_next();
        self.note(&state);
    }

    /// Circuit `id`, which waits, is gone.
    pub(crate) fn leave(&self, id: AssociationId) {
        let mut state = self.lock();
        if state.called.remove(&id) {
            state.call_next();
        } else {
            state.queue.retain(|&other| other != id);
        }
        self.note(&state);
    }

    /// Whether circuits wait for their turn.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether circuits were called and not told.
    #[inline]
    pub(crate) fn has_called(&self) -> bool {
        self.untold.load(Ordering::Relaxed)
    }

    /// The circuits called since the last call.
    pub(crate) fn take_called(&self) -> Vec<AssociationId> {
        let mut state = self.lock();
        let untold = std::mem::take(&mut state.untold);
        self.note(&state);
        untold
    }

    /// To be called about each millisecond in which somebody looked for arrivals: makes more turns if few came back.
    pub(crate) fn tick(&self) {
        if !self.is_wanted() {
            return;
        }
        let mut state = self.lock();
        state.ticks += 1;
        if state.ticks < COME_BACK {
            return;
        }
        let out = state.taken + state.called.len();
        if state.returned < out {
            state.allowed = 2 * out.max(AT_ONCE);
            state.call_next();
        }
        (state.ticks, state.returned) = (0, 0);
        self.note(&state);
    }

    fn note(&self, state: &State) {
        self.waiting
            .store(!state.queue.is_empty(), Ordering::Relaxed);
        self.untold
            .store(!state.untold.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.taken + self.called.len() < self.allowed
    }

    /// Calls those who waited longest, as far as there is room.
    fn call_next(&mut self) {
        while self.has_room()
            && let Some(id) = self.queue.pop_front()
        {
            self.called.insert(id);
            self.untold.push(id);
        }
        if self.queue.is_empty() {
            self.allowed = AT_ONCE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets circuits ask; how many got a turn.
    fn ask(turns: &Turns, circuits: std::ops::Range<usize>) -> usize {
        let asks = circuits.map(|number| turns.ask(AssociationId(number as u32)));
        asks.filter(|&granted| granted).count()
    }

    #[test]
    fn who_waited_longest_is_next() {
        let turns = Turns::default();
        assert_eq!(ask(&turns, 0..AT_ONCE + 3), AT_ONCE);
        assert!(turns.is_wanted() && !turns.has_called());
        turns.give_back();
        // The one who gave it back is behind the others now.
        assert_eq!(ask(&turns, 0..1), 0);
        let first = AssociationId(AT_ONCE as u32);
        assert_eq!(turns.take_called(), [first]);
        assert!(turns.claim(first) && !turns.claim(first));
        for expected in [AT_ONCE as u32 + 1, AT_ONCE as u32 + 2, 0] {
            turns.give_back();
            assert_eq!(turns.take_called(), [AssociationId(expected)]);
        }
        assert!(!turns.is_wanted());
    }

    #[test]
    fn who_leaves_keeps_nobody_waiting() {
        let turns = Turns::default();
        ask(&turns, 0..AT_ONCE + 3);
        let waiting = |number| AssociationId((AT_ONCE + number) as u32);
        turns.leave(waiting(1));
        turns.give_back();
        turns.leave(waiting(0));
        assert_eq!(turns.take_called(), [waiting(0), waiting(2)]);
        assert!(!turns.claim(waiting(0)) && turns.claim(waiting(2)));
        assert_eq!(turns.lock().taken, AT_ONCE);
    }

    #[test]
    fn there_are_more_turns_when_none_comes_back() {
        let turns = Turns::default();
        let mut got = ask(&turns, 0..10 * AT_ONCE);
        assert_eq!(got, AT_ONCE);
        for _ in 0..4 {
            (0..COME_BACK).for_each(|_| turns.tick());
            let called = turns.take_called();
            got += called.len();
            assert!(called.into_iter().all(|id| turns.claim(id)));
        }
        assert_eq!(got, 10 * AT_ONCE);
        (0..got).for_each(|_| turns.give_back());
        assert_eq!(ask(&turns, 0..10 * AT_ONCE), AT_ONCE);
        (0..AT_ONCE).for_each(|_| turns.give_back());
        (0..COME_BACK).for_each(|_| turns.tick());
        assert_eq!(turns.take_called().len(), AT_ONCE, "enough come back");
    }
}
