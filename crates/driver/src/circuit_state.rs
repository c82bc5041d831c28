//! The pump's state of each circuit.

use crate::failed::FailedMessages;
use crate::receive_queue::Chunk;
use crate::sys::Consumer;
use engine::{AssociationId, CloseReason};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// State of a circuit, as its user sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitStatus {
    /// The circuit can carry data.
    pub connected: bool,
    /// The peer will send no more, and everything was read.
    pub finished: bool,
    /// Why the circuit is closed, if it is.
    pub closed: Option<CloseReason>,
    /// Bytes were received that the user has not read.
    pub has_bytes: bool,
}

#[derive(Default)]
pub(crate) struct CircuitState {
    pub(crate) store: Option<Box<Consumer>>,
    pub(crate) receive_queue: VecDeque<Chunk>,
    /// Octets of memory that the queue takes, with what the user is reading, and user bytes in them.
    pub(crate) queued_octets: u64,
    pub(crate) queued_bytes: u64,
    /// The engine drops what comes, because the queue takes too much memory.
    pub(crate) is_full: bool,
    /// It waits in the accept queue.
    pub(crate) is_unaccepted: bool,
    pub(crate) connected: bool,
    pub(crate) finished: bool,
    pub(crate) closed: Option<CloseReason>,
    /// Its user dropped it; the store stays until the engine has sent what is in it.
    pub(crate) detached: bool,
    /// Its final acknowledgements may be deferred and coalesced with those of other circuits.
    pub(crate) may_defer: bool,
    /// It is in the pump's list of changed circuits.
    pub(crate) in_changed_list: bool,
    /// It became ready since changes were last published.
    pub(crate) newly_ready: bool,
    /// It is in the list of ready circuits.
    pub(crate) in_ready_list: bool,
    /// Messages that were given up, if its user wants them.
    pub(crate) failed: Option<Box<FailedMessages>>,
}

impl CircuitState {
    pub(crate) fn status(&self) -> CircuitStatus {
        CircuitStatus {
            connected: self.connected,
            finished: self.finished && self.receive_queue.is_empty(),
            closed: self.closed,
            has_bytes: !self.receive_queue.is_empty(),
        }
    }
}

impl CircuitState {
    /// Drops what was received.
    pub(crate) fn clear_queue(&mut self) {
        self.receive_queue.clear();
        (self.queued_octets, self.queued_bytes) = (0, 0);
    }

    /// Makes it as new where it lies; a short queue keeps its memory.
    fn reset(&mut self) {
        let mut receive_queue = std::mem::take(&mut self.receive_queue);
        receive_queue.clear();
        if receive_queue.capacity() > FEW {
            receive_queue = VecDeque::new();
        }
        *self = CircuitState {
            receive_queue,
            ..CircuitState::default()
        };
    }
}

/// So many circuits are looked for in a list: those of a server of transactions whose last acknowledgements are
/// deferred, and those after them.
const FEW: usize = 16;

/// Stores kept of circuits that are gone, for those after them.
const SPARE_STORES_MAX: usize = FEW;

/// Circuits by number. Never iterated, so its order decides nothing.
///
/// A message asks for its circuit some ten times, and most endpoints have a few: theirs lie in a list,
/// which takes less code than a hash table. A circuit stays where it was put, and the next one has the memory of one that
/// is gone.
#[expect(clippy::vec_box, reason = "a circuit is not moved while it is in use")]
#[derive(Default)]
pub(crate) struct CircuitTable {
    /// The numbers of the circuits in `few`, in the same order.
    few_ids: Vec<AssociationId>,
    few: Vec<Box<CircuitState>>,
    many: HashMap<AssociationId, Box<CircuitState>, BuildHasherDefault<IdHasher>>,
    spare_states: Vec<Box<CircuitState>>,
    spare_stores: Vec<Box<Consumer>>,
}

impl CircuitTable {
    #[inline]
    fn index(&self, id: AssociationId) -> Option<usize> {
        // The youngest first: those before it may be at their end.
        self.few_ids.iter().rposition(|known| *known == id)
    }

    /// The circuit of this number.
    #[inline]
    pub(crate) fn get(&self, id: AssociationId) -> Option<&CircuitState> {
        match self.index(id) {
            Some(index) => self.few.get(index).map(|state| &**state),
            None => self.get_of_many(id),
        }
    }

    #[inline(never)]
    fn get_of_many(&self, id: AssociationId) -> Option<&CircuitState> {
        self.many.get(&id).map(|state| &**state)
    }

    /// The circuit of this number, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut CircuitState> {
        match self.index(id) {
            Some(index) => self.few.get_mut(index).map(|state| &mut **state),
            None => self.get_mut_of_many(id),
        }
    }

    #[inline(never)]
    fn get_mut_of_many(&mut self, id: AssociationId) -> Option<&mut CircuitState> {
        self.many.get_mut(&id).map(|state| &mut **state)
    }

    /// The circuit of this number; a new one if there is none.
    #[inline]
    pub(crate) fn get_or_default(&mut self, id: AssociationId) -> &mut CircuitState {
        match self.index(id) {
            Some(index) => &mut self.few[index],
            None => self.get_or_default_of_many(id),
        }
    }

    #[inline(never)]
    fn get_or_default_of_many(&mut self, id: AssociationId) -> &mut CircuitState {
        if self.few.len() < FEW && !self.many.contains_key(&id) {
            self.few_ids.push(id);
            let state = self.spare_states.pop().unwrap_or_default();
            return self.few.push_mut(state);
        }
        let spare_states = &mut self.spare_states;
        let entry = self.many.entry(id);
        entry.or_insert_with(|| spare_states.pop().unwrap_or_default())
    }

    /// Removes the circuit of this number; whether it had a store.
    pub(crate) fn remove(&mut self, id: AssociationId) -> bool {
        let removed = match self.index(id) {
            Some(index) => {
                self.few_ids.swap_remove(index);
                Some(self.few.swap_remove(index))
            }
            None => self.many.remove(&id),
        };
        let Some(mut state) = removed else {
            return false;
        };
        let store = state.store.take();
        let had_store = store.is_some();
        if let Some(mut store) = store
            && self.spare_stores.len() < SPARE_STORES_MAX
            && store.make_spare()
        {
            self.spare_stores.push(store);
        }
        if self.spare_states.len() < FEW {
            state.reset();
            self.spare_states.push(state);
        }
        had_store
    }

    /// A store that no circuit has, for [`StorePool::store_of`](crate::sys::StorePool::store_of).
    pub(crate) fn take_spare_store(&mut self) -> Option<Box<Consumer>> {
        self.spare_stores.pop()
    }
}

/// Hashes circuit numbers, which the engine counts up and no peer chooses.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;
    use std::collections::BTreeMap;

    /// Made, found and removed at random, circuits are those of a map, whether there are few or many.
    #[test]
    fn circuits_are_found_wherever_they_lie() {
        let (mut table, mut model) = (CircuitTable::default(), BTreeMap::new());
        let mut random = SplitMix64::new(11);
        for step in 0..10_000 {
            // More circuits for a while than are kept in the list.
            let ids = if step / 200 % 2 == 0 { 3 * FEW } else { FEW };
            let id = AssociationId(random.below(ids as u64) as u32);
            match random.below(3) {
                0 => {
                    let found = table.get(id).map(|state| state.queued_bytes);
                    assert_eq!(found, model.remove(&id));
                    assert!(!table.remove(id), "it has no store");
                    assert!(table.get(id).is_none());
                }
                1 => {
                    table.get_or_default(id).queued_bytes = step;
                    model.insert(id, step);
                }
                _ => {
                    let found = table.get_mut(id).map(|state| state.queued_bytes);
                    assert_eq!(found, model.get(&id).copied());
                    assert_eq!(table.get(id).map(|state| state.queued_bytes), found);
                }
            }
        }
    }
}
