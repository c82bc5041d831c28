//! Deliveries of one arrival, demultiplexed by circuit.

use crate::receive_queue::{Chunk, ChunkSpan, Octets};
use engine::{AssociationId, Bytes, Delivery, Note, WholeMessages};

/// Delivered ranges of one circuit that lie in one buffer: the arrival, or a copy by the engine.
pub(crate) struct CircuitDeliveries {
    pub(crate) id: AssociationId,
    pub(crate) reassembled: Option<Vec<u8>>,
    pub(crate) spans: Vec<ChunkSpan>,
    /// As in [`crate::receive_queue::Chunk::notes`].
    pub(crate) notes: Vec<(u32, Note)>,
}

impl CircuitDeliveries {
    /// One delivery, of a packet that begins at `start` of the arrival. `spans` is an empty list.
    #[inline]
    pub(crate) fn of_one(delivery: Delivery, start: usize, mut spans: Vec<ChunkSpan>) -> Self {
        spans.push(span_of(&delivery, start));
        let mut notes = Vec::new();
        if !delivery.note.is_plain() {
            notes.push((0, delivery.note));
        }
        CircuitDeliveries {
            id: delivery.association,
            reassembled: match delivery.bytes {
                Bytes::Packet(_) => None,
                Bytes::Reassembled(bytes) => Some(bytes),
            },
            spans,
            notes,
        }
    }

    /// Whole messages without notes.
    #[inline]
    pub(crate) fn of_whole(id: AssociationId, spans: Vec<ChunkSpan>) -> Self {
        CircuitDeliveries {
            id,
            reassembled: None,
            spans,
            notes: Vec::new(),
        }
    }

    /// Adds a delivery that lies in the same arrival.
    fn add(&mut self, delivery: &Delivery, start: usize) {
        if !delivery.note.is_plain() {
            self.notes.push((self.spans.len() as u32, delivery.note));
        }
        self.spans.push(span_of(delivery, start));
    }

    /// User bytes of all ranges.
    pub(crate) fn user_bytes(&self) -> usize {
        let spans = self.spans.iter();
        spans.map(|span| span.range.len()).sum()
    }

    /// Its ranges of `octets`, for a receive queue.
    pub(crate) fn into_chunk(self, octets: Octets) -> Chunk {
        Chunk {
            octets,
            spans: self.spans,
            notes: self.notes,
        }
    }
}

/// Packets of a segmented send of 64 KiB, and so ranges of a usual arrival.
const SPANS_USUAL: usize = 46;

/// Adds a delivery to the last entry of its circuit, if that lies in the arrival too. `start` is
/// where its packet begins in the arrival, `more` how many packets may follow. Lists of ranges are
/// taken from `spare_lists` while there are some.
pub(crate) fn demultiplex(
    by_circuit: &mut Vec<CircuitDeliveries>,
    spare_lists: &mut Vec<Vec<ChunkSpan>>,
    delivery: Delivery,
    start: usize,
    more: usize,
) {
    if matches!(delivery.bytes, Bytes::Packet(_))
        && let Some(entry) = by_circuit
            .iter_mut()
            .rev()
            .find(|entry| entry.id == delivery.association)
        && entry.reassembled.is_none()
    {
        return entry.add(&delivery, start);
    }
    let mut list = spare_lists.pop().unwrap_or_default();
    list.reserve((more + 1).min(SPANS_USUAL));
    by_circuit.push(CircuitDeliveries::of_one(delivery, start, list));
}

/// As [`demultiplex`], of whole messages of a packet, which are taken out of `messages`.
pub(crate) fn demultiplex_whole(
    by_circuit: &mut Vec<CircuitDeliveries>,
    spare_lists: &mut Vec<Vec<ChunkSpan>>,
    messages: &mut WholeMessages,
    start: usize,
) {
    if messages.ranges.is_empty() {
        return;
    }
    let id = messages.association;
    let last = by_circuit.iter().rposition(|entry| entry.id == id);
    let usable = last.filter(|at| by_circuit[*at].reassembled.is_none());
    let index = usable.unwrap_or_else(|| {
        let list = spare_lists.pop().unwrap_or_default();
        by_circuit.push(CircuitDeliveries::of_whole(id, list));
        by_circuit.len() - 1
    });
    let start = start as u32;
    let ranges = messages.ranges.drain(..);
    let spans = ranges.map(|range| ChunkSpan::of_message(start + range.start..start + range.end));
    by_circuit[index].spans.extend(spans);
}

/// Where a delivery lies in its buffer; `start` is where its packet begins.
fn span_of(delivery: &Delivery, start: usize) -> ChunkSpan {
    let range = match &delivery.bytes {
        Bytes::Packet(range) => start + range.start..start + range.end,
        Bytes::Reassembled(bytes) => 0..bytes.len(),
    };
    ChunkSpan {
        range: range.start as u32..range.end as u32,
        gap: delivery.gap,
        begin_tag: delivery.begin_tag,
        end_tag: delivery.end_tag,
        end_of_message: delivery.end_of_message,
    }
}
