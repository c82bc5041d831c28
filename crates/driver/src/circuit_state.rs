//! What the host keeps for each circuit.

use crate::receive_queue::Chunk;
use crate::sys::Consumer;
use engine::{AssociationId, CloseReason};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// How a circuit stands, as its user sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitStatus {
    /// It can carry data.
    pub connected: bool,
    /// The peer will send no more, and everything was taken.
    pub finished: bool,
    /// It ended.
    pub closed: Option<CloseReason>,
}

#[derive(Default)]
pub(crate) struct CircuitState {
    pub(crate) store: Option<Consumer>,
    pub(crate) receive_queue: VecDeque<Chunk>,
    pub(crate) connected: bool,
    pub(crate) finished: bool,
    pub(crate) closed: Option<CloseReason>,
    /// Its user is gone; the store stays until the engine has sent what is in it.
    pub(crate) detached: bool,
    /// What the engine still has to say for it may wait for the like of other circuits.
    pub(crate) may_defer: bool,
    /// Something happened to it since the pump last settled.
    pub(crate) in_changed_list: bool,
    /// Something came from the peer since the pump last settled.
    pub(crate) newly_ready: bool,
    /// Waits in the list of circuits that are ready.
    pub(crate) in_ready_list: bool,
}

impl CircuitState {
    pub(crate) fn status(&self) -> CircuitStatus {
        CircuitStatus {
            connected: self.connected,
            finished: self.finished && self.receive_queue.is_empty(),
            closed: self.closed,
        }
    }
}

/// Circuits by number. Never iterated, so its order decides nothing.
pub(crate) type CircuitTable = HashMap<AssociationId, CircuitState, BuildHasherDefault<IdHasher>>;

/// Spreads circuit numbers, which the engine counts up and no peer chooses.
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
