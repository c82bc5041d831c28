//! Copies of a batch for each receiver, where the medium has no multicast.

use core::ops::Range;
use engine::{Address, AssociationId, Batch};
use std::collections::VecDeque;

/// A packet of the batch that is repeated.
#[derive(Clone, Debug)]
struct PacketCopy {
    header: Vec<u8>,
    payload: Range<u64>,
    checksum_at: Option<usize>,
}

/// A batch that went to the first receiver and is to go to others.
#[derive(Debug, Default)]
pub(super) struct Replicator {
    association: Option<AssociationId>,
    packets: Vec<PacketCopy>,
    destinations: VecDeque<Address>,
}

impl Replicator {
    /// Sees to it that `batch`, which was addressed to a group, goes to each of `to` instead.
    pub(super) fn replicate(&mut self, batch: &mut Batch, to: &[Address]) {
        let Some((circuit, _)) = batch.destination() else {
            return;
        };
        let Some((&first, others)) = to.split_first() else {
            return;
        };
        batch.set_destination(circuit, first);
        self.association = Some(circuit);
        self.destinations = others.iter().copied().collect();
        let part = |segment: &engine::Segment| PacketCopy {
            header: batch.header(segment).to_vec(),
            payload: segment.payload.clone(),
            checksum_at: segment.checksum_at.map(usize::from),
        };
        self.packets = batch.segments().iter().map(part).collect();
    }

    /// Fills `batch` with the copy for the next receiver, if there is one.
    pub(super) fn poll_transmit(&mut self, batch: &mut Batch) -> bool {
        if self.packets.is_empty() {
            self.destinations.clear();
        }
        let (Some(circuit), Some(to)) = (self.association, self.destinations.pop_front()) else {
            return false;
        };
        batch.set_destination(circuit, to);
        for part in &self.packets {
            batch.push_with_checksum(&part.header, part.payload.clone(), part.checksum_at);
        }
        true
    }

    /// Copies still to come.
    pub(super) fn copies_left(&self) -> usize {
        self.destinations.len()
    }

    /// Bytes of `circuit` below `position` may be gone: nobody lacks them.
    pub(super) fn release(&mut self, circuit: AssociationId, position: u64) {
        if Some(circuit) == self.association {
            let needed =
                |part: &PacketCopy| part.payload.is_empty() || part.payload.start >= position;
            self.packets.retain(needed);
        }
    }
}
