//! What an engine hands to a wire in one call.

use crate::{Address, CircuitId};
use core::ops::Range;

/// One packet: a header the engine wrote and a range of the circuit's send store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where the header lies in the batch's header bytes.
    pub header: Range<usize>,
    /// Positions of the user bytes that follow it, possibly none.
    pub payload: Range<u64>,
    /// Offset in the header of an Internet checksum, over the header so far, that the host is to
    /// extend over the payload. The header's length is even then.
    pub checksum_at: Option<usize>,
}

/// Up to n packets of one circuit to one destination, all of the same size but the last, which
/// may be shorter. That is what one call of segmented UDP carries.
///
/// The host says beforehand how many segments and octets the wire takes; the engine fills in no
/// more and keeps the rest.
#[derive(Debug)]
pub struct Batch {
    segments_max: usize,
    octets_max: usize,
    /// Segments it may hold, from the size of the first on.
    limit: usize,
    destination: Option<(CircuitId, Address)>,
    headers: Vec<u8>,
    segments: Vec<Segment>,
}

impl Batch {
    /// An empty batch for a wire that takes `segments_max` packets a call, of any length.
    pub fn new(segments_max: usize) -> Self {
        Batch::limited(segments_max, usize::MAX)
    }

    /// An empty batch for a wire that takes `segments_max` packets and `octets_max` octets a call.
    pub fn limited(segments_max: usize, octets_max: usize) -> Self {
        Batch {
            segments_max,
            octets_max,
            limit: segments_max,
            destination: None,
            headers: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Empties the batch; the memory stays.
    pub fn clear(&mut self) {
        self.destination = None;
        self.limit = self.segments_max;
        self.headers.clear();
        self.segments.clear();
    }

    /// Names the circuit whose store the ranges belong to, and the destination.
    pub fn address_to(&mut self, circuit: CircuitId, destination: Address) {
        self.destination = Some((circuit, destination));
    }

    /// Adds a packet. The caller keeps the rule of equal sizes, which is checked in debug builds.
    pub fn push(&mut self, header: &[u8], payload: Range<u64>) {
        self.push_summed(header, payload, None);
    }

    /// Adds a packet whose checksum, at `checksum_at` of its header, the host extends over the
    /// payload; see [`Segment::checksum_at`].
    pub fn push_summed(&mut self, header: &[u8], payload: Range<u64>, checksum_at: Option<usize>) {
        debug_assert!(self.room() > 0, "the wire takes no more segments");
        debug_assert!(
            self.segments.is_empty() || self.size_of_last() == self.segment_size(),
            "only the last segment may be short"
        );
        let start = self.headers.len();
        self.headers.extend_from_slice(header);
        self.segments.push(Segment {
            header: start..self.headers.len(),
            payload,
            checksum_at,
        });
        debug_assert!(self.size_of_last() <= self.segment_size());
        if self.segments.len() == 1 {
            let by_octets = self.octets_max / self.segment_size().max(1);
            self.limit = self.segments_max.min(by_octets).max(1);
        }
    }

    /// How many more segments fit; a first one always does.
    pub fn room(&self) -> usize {
        self.limit - self.segments.len()
    }

    /// Whether nothing was filled in.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The packets, in sending order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The header bytes of `segment`.
    pub fn header(&self, segment: &Segment) -> &[u8] {
        &self.headers[segment.header.clone()]
    }

    /// Extends the checksums that were asked for over their payloads, of which `sum_of` gives the
    /// [`crate::checksum::sum`]. For hosts; once a batch.
    pub fn extend_checksums(&mut self, sum_of: impl Fn(&Range<u64>) -> u16) {
        for segment in &mut self.segments {
            let Some(at) = segment.checksum_at.take() else {
                continue;
            };
            let field = &mut self.headers[segment.header.start + at..][..2];
            let check = u16::from_be_bytes([field[0], field[1]]);
            let whole = crate::checksum::extend(check, sum_of(&segment.payload));
            field.copy_from_slice(&whole.to_be_bytes());
        }
    }

    /// The circuit and the destination, once named.
    pub fn destination(&self) -> Option<(CircuitId, Address)> {
        self.destination
    }

    /// Bytes of the first packet, hence of each but the last; 0 for an empty batch.
    pub fn segment_size(&self) -> usize {
        self.segments.first().map_or(0, size_of)
    }

    fn size_of_last(&self) -> usize {
        self.segments.last().map_or(0, size_of)
    }
}

fn size_of(segment: &Segment) -> usize {
    segment.header.len() + (segment.payload.end - segment.payload.start) as usize
}
