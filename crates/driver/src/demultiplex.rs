//! Deliveries of one arrival, demultiplexed by circuit.

use crate::receive_queue::{Chunk, ChunkSpan};
use engine::{AssociationId, Bytes, Delivery, Note};
use std::ops::Range;
use std::sync::Arc;

/// Delivered ranges of one circuit that lie in one buffer: the arrival, or a copy by the engine.
pub(crate) struct CircuitDeliveries {
    pub(crate) id: AssociationId,
    pub(crate) reassembled: Option<Vec<u8>>,
    pub(crate) spans: Vec<ChunkSpan>,
    /// As in [`crate::receive_queue::Chunk::notes`].
    pub(crate) notes: Vec<(u32, Note)>,
}

impl CircuitDeliveries {
    /// User bytes of all ranges.
    pub(crate) fn user_bytes(&self) -> usize {
        let spans = self.spans.iter();
        spans.map(|span| span.range.len()).sum()
    }

    /// Its ranges of `octets`, for a receive queue.
    pub(crate) fn into_chunk(self, octets: Arc<Vec<u8>>) -> Chunk {
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
    let Delivery {
        association: id,
        bytes,
        gap,
        begin_tag,
        end_tag,
        end_of_message,
        note,
    } = delivery;
    let span = |range: Range<usize>| ChunkSpan {
        range: range.start as u32..range.end as u32,
        gap,
        begin_tag,
        end_tag,
        end_of_message,
    };
    match bytes {
        Bytes::Packet(range) => {
            let span = span(start + range.start..start + range.end);
            match by_circuit.iter_mut().rev().find(|entry| entry.id == id) {
                Some(entry) if entry.reassembled.is_none() => entry.spans.push(span),
                _ => {
                    let mut spans = spare_lists.pop().unwrap_or_default();
                    spans.reserve((more + 1).min(SPANS_USUAL));
                    spans.push(span);
                    by_circuit.push(CircuitDeliveries {
                        id,
                        reassembled: None,
                        spans,
                        notes: Vec::new(),
                    });
                }
            }
        }
        Bytes::Reassembled(bytes) => {
            let spans = vec![span(0..bytes.len())];
            by_circuit.push(CircuitDeliveries {
                id,
                reassembled: Some(bytes),
                spans,
                notes: Vec::new(),
            });
        }
    }
    if !note.is_plain() {
        keep_note(by_circuit, id, note);
    }
}

/// Keeps the note of the range that was added last to circuit `id`.
#[cold]
fn keep_note(by_circuit: &mut [CircuitDeliveries], id: AssociationId, note: Note) {
    if let Some(entry) = by_circuit.iter_mut().rev().find(|entry| entry.id == id) {
        entry.notes.push((entry.spans.len() as u32 - 1, note));
    }
}
