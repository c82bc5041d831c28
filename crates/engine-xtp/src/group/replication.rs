//! Replication of a batch for each receiver on media without multicast (0009, No multicast).

use core::ops::Range;
use engine::{Address, AssociationId, Batch};
use std::collections::VecDeque;

/// A packet of the replicated batch.
#[derive(Clone, Debug)]
struct PacketCopy {
    header: Vec<u8>,
    payload: Range<u64>,
    checksum_at: Option<usize>,
}

/// A batch that was sent to the first receiver and still has to go to the others.
#[derive(Debug, Default)]
pub(super) struct Replicator {
    association: Option<AssociationId>,
    packets: Vec<PacketCopy>,
    destinations: VecDeque<Address>,
}

impl Replicator {
    /// Redirects `batch`, addressed to a group, to the first of `to` and keeps it for the others.
    pub(super) fn replicate(&mut self, batch: &mut Batch, to: &[Address]) {
        let Some((association, _)) = batch.destination() else {
            return;
        };
        let Some((&first, others)) = to.split_first() else {
            return;
        };
        batch.set_destination(association, first);
        self.association = Some(association);
        self.destinations = others.iter().copied().collect();
        let part = |segment: &engine::Segment| PacketCopy {
            header: batch.header(segment).to_vec(),
            payload: segment.payload.clone(),
            checksum_at: segment.checksum_at.map(usize::from),
        };
        self.packets = batch.segments().iter().map(part).collect();
    }

    /// Fills `batch` with the copy for the next receiver; false if there is none.
    pub(super) fn poll_transmit(&mut self, batch: &mut Batch) -> bool {
        if self.packets.is_empty() {
            self.destinations.clear();
        }
        let (Some(association), Some(to)) = (self.association, self.destinations.pop_front())
        else {
            return false;
        };
        batch.set_destination(association, to);
        for part in &self.packets {
            batch.push_with_checksum(&part.header, part.payload.clone(), part.checksum_at);
        }
        true
    }

    /// Copies still to be sent.
    pub(super) fn copies_left(&self) -> usize {
        self.destinations.len()
    }

    /// Drops packets of `association` that begin below `position`: their bytes were released.
    pub(super) fn release(&mut self, association: AssociationId, position: u64) {
        if Some(association) == self.association {
            let needed =
                |part: &PacketCopy| part.payload.is_empty() || part.payload.start >= position;
            self.packets.retain(needed);
        }
    }
}
