//! Replication of a batch for each receiver on media without multicast (0009, No multicast).

use core::ops::Range;
use engine::{Address, AssociationId, Batch, Integrity, Part, Path, Store};
use std::collections::VecDeque;

/// A packet of the replicated batch.
#[derive(Clone, Debug)]
struct PacketCopy {
    parts: Vec<CopiedPart>,
    integrity: Integrity,
}

#[derive(Clone, Debug)]
enum CopiedPart {
    Own(Vec<u8>),
    User(Store, Range<u64>),
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
        let Some(association) = batch.sender() else {
            return;
        };
        let Some((&first, others)) = to.split_first() else {
            return;
        };
        batch.set_path(first, Some(association));
        self.association = Some(association);
        self.destinations = others.iter().copied().collect();
        self.packets.clear();
        for packet in batch.packets() {
            let copied = batch.parts(packet).iter().map(|part| match part {
                Part::Own(range) => CopiedPart::Own(batch.own(range).to_vec()),
                Part::User(store, range) => CopiedPart::User(*store, range.clone()),
            });
            self.packets.push(PacketCopy {
                parts: copied.collect(),
                integrity: packet.integrity(),
            });
        }
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
        batch.set_path(Path::to(to), Some(association));
        for packet in &self.packets {
            let mut builder = batch.begin();
            for part in &packet.parts {
                builder = match part {
                    CopiedPart::Own(octets) => builder.own(octets),
                    CopiedPart::User(store, range) => builder.user(*store, range.clone()),
                };
            }
            builder.end(packet.integrity);
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
            let kept = |part: &CopiedPart| !matches!(part, CopiedPart::User(_, range) if range.start < position);
            self.packets.retain(|packet| packet.parts.iter().all(kept));
        }
    }
}
