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
    pub(crate) store: Option<Consumer>,
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
}

/// Circuits by number. Never iterated, so its order decides nothing.
pub(crate) type CircuitTable = HashMap<AssociationId, CircuitState, BuildHasherDefault<IdHasher>>;

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
