//! Copies of a batch for each receiver, where the medium has no multicast.

use core::ops::Range;
use engine::{Address, Batch, AssociationId};
use std::collections::VecDeque;

/// A packet of the batch that is repeated.
#[derive(Clone, Debug)]
struct Part {
    header: Vec<u8>,
    payload: Range<u64>,
    checksum_at: Option<usize>,
}

/// A batch that went to the first receiver and is to go to others.
#[derive(Debug, Default)]
pub(super) struct Replica {
    circuit: Option<AssociationId>,
    parts: Vec<Part>,
    to: VecDeque<Address>,
}

impl Replica {
    /// Sees to it that `batch`, which was addressed to a group, goes to each of `to` instead.
    pub(super) fn spread(&mut self, batch: &mut Batch, to: &[Address]) {
        let Some((circuit, _)) = batch.destination() else {
            return;
        };
        let Some((&first, others)) = to.split_first() else {
            return;
        };
        batch.set_destination(circuit, first);
        self.circuit = Some(circuit);
        self.to = others.iter().copied().collect();
        let part = |segment: &engine::Segment| Part {
            header: batch.header(segment).to_vec(),
            payload: segment.payload.clone(),
            checksum_at: segment.checksum_at.map(usize::from),
        };
        self.parts = batch.segments().iter().map(part).collect();
    }

    /// Fills `batch` with the copy for the next receiver, if there is one.
    pub(super) fn transmit(&mut self, batch: &mut Batch) -> bool {
        if self.parts.is_empty() {
            self.to.clear();
        }
        let (Some(circuit), Some(to)) = (self.circuit, self.to.pop_front()) else {
            return false;
        };
        batch.set_destination(circuit, to);
        for part in &self.parts {
            batch.push_with_checksum(&part.header, part.payload.clone(), part.checksum_at);
        }
        true
    }

    /// Copies still to come.
    pub(super) fn left(&self) -> usize {
        self.to.len()
    }

    /// Bytes of `circuit` below `position` may be gone: nobody lacks them.
    pub(super) fn release(&mut self, circuit: AssociationId, position: u64) {
        if Some(circuit) == self.circuit {
            let needed = |part: &Part| part.payload.is_empty() || part.payload.start >= position;
            self.parts.retain(needed);
        }
    }
}
