//! Small packets to one destination, copied together and sent in one call of the wire.
//!
//! Acknowledgements and short messages of different circuits are coalesced that way. Copying so few
//! octets takes less time than the kernel's handling of two more addresses a packet.

use engine::batch::PlainPacket;
use engine::{AssociationId, Batch, Fragmentation, Path, Store};
use std::cmp::Ordering;
use std::ops::Range;
use wire::Capabilities;

/// Shorter packets are copied.
const COPY_BELOW: usize = 512;

pub(crate) struct CoalesceBuffer {
    path: Option<Path>,
    /// The circuit of the last packets.
    last_sender: Option<AssociationId>,
    octets: Vec<u8>,
    packet_len: usize,
    packets: usize,
    /// Its last packet is shorter than the others: no packet may follow.
    ended: bool,
    packets_max: usize,
    octets_max: usize,
}

impl CoalesceBuffer {
    pub(crate) fn new(capabilities: &Capabilities) -> CoalesceBuffer {
        CoalesceBuffer {
            path: None,
            last_sender: None,
            octets: Vec::new(),
            packet_len: 0,
            packets: 0,
            ended: false,
            packets_max: capabilities.segments_max,
            octets_max: capabilities.batch_bytes_max,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.path.is_none()
    }

    pub(crate) fn path(&self) -> Option<Path> {
        self.path
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn packet_len(&self) -> usize {
        self.packet_len
    }

    /// Packets in the buffer.
    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    pub(crate) fn clear(&mut self) {
        self.path = None;
        self.octets.clear();
        self.packet_len = 0;
        self.packets = 0;
        self.ended = false;
    }

    /// Whether `batch` may be appended.
    pub(crate) fn fits(&self, batch: &Batch) -> bool {
        let size = batch.packet_len();
        if size >= COPY_BELOW || batch.fragmentation() != Fragmentation::Usual {
            return false;
        }
        let Some(path) = self.path else {
            return true;
        };
        !self.ended
            && batch.path() == Some(path)
            && self.lengths_allow(batch)
            && self.has_room_for(batch)
    }

    /// Whether packets of the lengths of `batch` may join: in one call of the wire only the last
    /// packet may be shorter.
    fn lengths_allow(&self, batch: &Batch) -> bool {
        let is_single = batch.packets().len() == 1;
        match batch.packet_len().cmp(&self.packet_len) {
            Ordering::Equal => true,
            // It becomes the last.
            Ordering::Less => is_single,
            // The one in the buffer becomes the last.
            Ordering::Greater => is_single && self.may_reorder_before(batch),
        }
    }

    fn has_room_for(&self, batch: &Batch) -> bool {
        let count = batch.packets().len();
        self.packets + count <= self.packets_max
            && self.octets.len() + count * batch.packet_len() <= self.octets_max
    }

    /// Whether the packet of `batch` may be put before the only one in the buffer: packets of
    /// different circuits have no order.
    fn may_reorder_before(&self, batch: &Batch) -> bool {
        self.packets == 1 && batch.sender() != self.last_sender
    }

    /// Packs `packet`, which is all of `batch` and fits, with its user bytes, into the empty buffer.
    #[inline]
    pub(crate) fn begin(&mut self, batch: &Batch, packet: &PlainPacket<'_>, bytes: &[u8]) {
        self.path = batch.path();
        self.last_sender = batch.sender();
        self.packet_len = batch.packet_len();
        self.packets = 1;
        packet.write(bytes, &mut self.octets);
    }

    /// Packs `batch`, which fits; `copy` appends the user bytes of a range.
    pub(crate) fn append(
        &mut self,
        batch: &Batch,
        copy: impl Fn(Store, &Range<u64>, &mut Vec<u8>),
    ) {
        let is_longer = batch.packet_len() > self.packet_len;
        let overtaken = if is_longer { self.octets.len() } else { 0 };
        self.ended = self.path.is_some() && batch.packet_len() < self.packet_len;
        self.packet_len = self.packet_len.max(batch.packet_len());
        self.path = batch.path();
        self.last_sender = batch.sender();
        self.packets += batch.packets().len();
        for packet in batch.packets() {
            batch.write(packet, &mut self.octets, &copy);
            self.ended |= packet.len() < self.packet_len;
        }
        if overtaken > 0 {
            self.octets.rotate_left(overtaken);
            self.ended = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> CoalesceBuffer {
        CoalesceBuffer::new(&Capabilities {
            packet_max: 1000,
            segments_max: 4,
            batch_bytes_max: 2000,
            receive_len: 2000,
        })
    }

    /// A batch of packets that are all header.
    fn batch(circuit: u32, packets: &[&[u8]]) -> Batch {
        let mut batch = Batch::new(8);
        batch.set_path(engine::Address::Station(1), Some(AssociationId(circuit)));
        for packet in packets {
            batch.push_own(packet);
        }
        batch
    }

    fn append(buffer: &mut CoalesceBuffer, batch: &Batch) -> bool {
        let fits = buffer.fits(batch);
        if fits {
            buffer.append(batch, |_, _, _| {});
        }
        fits
    }

    #[test]
    fn shorter_packet_ends_the_buffer() {
        let mut buffer = buffer();
        assert!(append(&mut buffer, &batch(1, &[b"aaaa", b"bbbb"])));
        assert!(append(&mut buffer, &batch(2, &[b"cc"])));
        assert_eq!(buffer.octets(), b"aaaabbbbcc");
        assert_eq!(buffer.packet_len(), 4);
        assert!(!append(&mut buffer, &batch(3, &[b"cc"])), "it has its last");
        buffer.clear();
        assert!(append(&mut buffer, &batch(3, &[b"cc"])));
        assert_eq!(buffer.packet_len(), 2);
    }

    #[test]
    fn longer_packet_of_other_circuit_moves_before_single_packet() {
        let mut buffer = buffer();
        assert!(append(&mut buffer, &batch(1, &[b"ack"])));
        assert!(!append(&mut buffer, &batch(1, &[b"data of the same"])));
        assert!(append(&mut buffer, &batch(2, &[b"request"])));
        assert_eq!(buffer.octets(), b"requestack");
        assert_eq!(buffer.packet_len(), 7);
        assert!(!append(&mut buffer, &batch(3, &[b"request"])));
    }

    #[test]
    fn several_packets_keep_order_and_limits_hold() {
        let mut buffer = buffer();
        assert!(append(&mut buffer, &batch(1, &[b"ack", b"ack"])));
        assert!(!append(&mut buffer, &batch(2, &[b"request"])));
        assert!(append(&mut buffer, &batch(2, &[b"ack", b"ack"])));
        assert!(
            !append(&mut buffer, &batch(3, &[b"ack"])),
            "four are enough"
        );
    }
}
