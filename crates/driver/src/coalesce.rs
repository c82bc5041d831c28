//! Small packets to one destination, copied together and sent in one call of the wire.
//!
//! Acknowledgements and short messages of different circuits are coalesced that way. Copying so few
//! octets takes less time than the kernel's handling of two more addresses a packet.

use engine::{Address, AssociationId, Batch};
use std::ops::Range;
use wire::Capabilities;

/// Shorter packets are copied.
const COPY_BELOW: usize = 512;

pub(crate) struct CoalesceBuffer {
    destination: Option<Address>,
    /// The circuit of the last packets.
    last_circuit: Option<AssociationId>,
    octets: Vec<u8>,
    segment_size: usize,
    segments: usize,
    /// Its last packet is shorter than the others: no packet may follow.
    ended: bool,
    segments_max: usize,
    octets_max: usize,
}

impl CoalesceBuffer {
    pub(crate) fn new(capabilities: &Capabilities) -> CoalesceBuffer {
        CoalesceBuffer {
            destination: None,
            last_circuit: None,
            octets: Vec::new(),
            segment_size: 0,
            segments: 0,
            ended: false,
            segments_max: capabilities.segments_max,
            octets_max: capabilities.batch_bytes_max,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.destination.is_none()
    }

    pub(crate) fn destination(&self) -> Option<Address> {
        self.destination
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Packets in the buffer.
    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn clear(&mut self) {
        self.destination = None;
        self.octets.clear();
        self.segment_size = 0;
        self.segments = 0;
        self.ended = false;
    }

    /// Whether `batch` may be appended.
    pub(crate) fn fits(&self, batch: &Batch) -> bool {
        let size = batch.segment_size();
        if size >= COPY_BELOW {
            return false;
        }
        let Some(to) = self.destination else {
            return true;
        };
        let count = batch.segments().len();
        !self.ended
            && batch.destination().is_some_and(|(_, other)| other == to)
            && (size == self.segment_size
                || count == 1 && (size < self.segment_size || self.may_reorder_before(batch)))
            && self.segments + count <= self.segments_max
            && self.octets.len() + count * size <= self.octets_max
    }

    /// Whether the packet of `batch` may be put before the only one in the buffer: in one call of
    /// the wire only the last packet may be shorter, and packets of different circuits have no
    /// order.
    fn may_reorder_before(&self, batch: &Batch) -> bool {
        self.segments == 1 && batch.destination().map(|(id, _)| id) != self.last_circuit
    }

    /// Appends `batch`, which fits, for `to`; `copy` appends the user bytes of a range.
    pub(crate) fn append(
        &mut self,
        to: Address,
        batch: &Batch,
        copy: impl Fn(&Range<u64>, &mut Vec<u8>),
    ) {
        let overtaken = if batch.segment_size() > self.segment_size {
            self.octets.len()
        } else {
            0
        };
        self.ended = self.destination.is_some() && batch.segment_size() < self.segment_size;
        self.segment_size = self.segment_size.max(batch.segment_size());
        self.destination = Some(to);
        self.last_circuit = batch.destination().map(|(id, _)| id);
        self.segments += batch.segments().len();
        for segment in batch.segments() {
            let start = self.octets.len();
            self.octets.extend_from_slice(batch.header(segment));
            copy(&segment.payload, &mut self.octets);
            self.ended |= self.octets.len() - start < self.segment_size;
        }
        self.octets.rotate_left(overtaken);
        self.ended |= overtaken > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Address = Address::Station(1);

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
        batch.set_destination(AssociationId(circuit), PEER);
        for packet in packets {
            batch.push(packet, 0..0);
        }
        batch
    }

    fn append(buffer: &mut CoalesceBuffer, batch: &Batch) -> bool {
        let fits = buffer.fits(batch);
        if fits {
            buffer.append(PEER, batch, |_, _| {});
        }
        fits
    }

    #[test]
    fn shorter_packet_ends_the_buffer() {
        let mut buffer = buffer();
        assert!(append(&mut buffer, &batch(1, &[b"aaaa", b"bbbb"])));
        assert!(append(&mut buffer, &batch(2, &[b"cc"])));
        assert_eq!(buffer.octets(), b"aaaabbbbcc");
        assert_eq!(buffer.segment_size(), 4);
        assert!(!append(&mut buffer, &batch(3, &[b"cc"])), "it has its last");
        buffer.clear();
        assert!(append(&mut buffer, &batch(3, &[b"cc"])));
        assert_eq!(buffer.segment_size(), 2);
    }

    #[test]
    fn longer_packet_of_other_circuit_moves_before_single_packet() {
        let mut buffer = buffer();
        assert!(append(&mut buffer, &batch(1, &[b"ack"])));
        assert!(!append(&mut buffer, &batch(1, &[b"data of the same"])));
        assert!(append(&mut buffer, &batch(2, &[b"request"])));
        assert_eq!(buffer.octets(), b"requestack");
        assert_eq!(buffer.segment_size(), 7);
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
