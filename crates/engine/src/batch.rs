//! What an engine hands to a wire in one call.

use crate::{Address, AssociationId};
use core::ops::Range;

/// One packet: a header the engine wrote and a range of the association's send store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Range of the header in the batch's header bytes.
    pub header: Range<usize>,
    /// Positions of the user bytes that follow it, possibly none.
    pub payload: Range<u64>,
    /// Offset in the header of an Internet checksum over the header, which the host extends over
    /// the payload. The header's length is even then.
    pub checksum_at: Option<u16>,
    /// Octets of the trailer behind the user bytes; it is stored behind the header in the batch's
    /// header bytes.
    pub trailer_len: u8,
    /// The last four octets of the trailer are [`crate::checksum::cxor`] over the packet from this
    /// offset up to them; [`Batch::write`] fills them in.
    pub cxor_from: Option<u8>,
}

/// Up to n packets of one association to one destination, all of the same size but the last, which
/// may be shorter: what one call of segmented UDP carries.
///
/// The host sets how many segments and octets the wire takes; the engine fills in no more and keeps
/// the rest.
#[derive(Debug)]
pub struct Batch {
    segments_max: usize,
    octets_max: usize,
    /// Segments it may hold, once the size of the first is known.
    limit: usize,
    destination: Option<(AssociationId, Address)>,
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

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.destination = None;
        self.limit = self.segments_max;
        self.headers.clear();
        self.segments.clear();
    }

    /// Sets the association whose store the ranges belong to, and the destination.
    pub fn set_destination(&mut self, association: AssociationId, destination: Address) {
        self.destination = Some((association, destination));
    }

    /// Adds a packet. All but the last must have the same size, which debug builds check.
    pub fn push(&mut self, header: &[u8], payload: Range<u64>) {
        self.push_with_checksum(header, payload, None);
    }

    /// Adds a packet whose checksum, at `checksum_at` of its header, the host extends over the
    /// payload; see [`Segment::checksum_at`].
    pub fn push_with_checksum(
        &mut self,
        header: &[u8],
        payload: Range<u64>,
        checksum_at: Option<usize>,
    ) {
        debug_assert!(self.room() > 0, "the wire takes no more segments");
        self.assert_last_is_full();
        let start = self.headers.len();
        self.headers.extend_from_slice(header);
        self.segments.push(Segment {
            header: start..self.headers.len(),
            payload,
            checksum_at: checksum_at.map(|at| at as u16),
            trailer_len: 0,
            cxor_from: None,
        });
        self.update_limit();
    }

    /// Adds a packet with the trailer `tail`, shorter than 256 octets, behind its user bytes; for
    /// `check_from` see [`Segment::cxor_from`].
    pub fn push_with_trailer(
        &mut self,
        header: &[u8],
        payload: Range<u64>,
        tail: &[u8],
        check_from: Option<u8>,
    ) {
        debug_assert!(self.room() > 0, "the wire takes no more segments");
        self.assert_last_is_full();
        let start = self.headers.len();
        self.headers.extend_from_slice(header);
        self.segments.push(Segment {
            header: start..self.headers.len(),
            payload,
            checksum_at: None,
            trailer_len: tail.len() as u8,
            cxor_from: check_from,
        });
        self.headers.extend_from_slice(tail);
        self.update_limit();
    }

    fn assert_last_is_full(&self) {
        debug_assert!(
            self.segments.is_empty() || self.size_of_last() == self.segment_size(),
            "only the last segment may be short"
        );
    }

    #[inline]
    fn update_limit(&mut self) {
        debug_assert!(self.size_of_last() <= self.segment_size());
        if self.segments.len() == 1 {
            let by_octets = self.octets_max / self.segment_size().max(1);
            self.limit = self.segments_max.min(by_octets).max(1);
        }
    }

    /// Segments that still fit; a first one always does.
    pub fn room(&self) -> usize {
        self.limit - self.segments.len()
    }

    /// Whether it has no packets.
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

    /// Whether its packets have trailers, so that hosts must copy each packet into one buffer.
    pub fn has_trailers(&self) -> bool {
        self.segments
            .first()
            .is_some_and(|segment| segment.trailer_len > 0)
    }

    /// Appends the whole packet of `segment` to `out`; `copy` appends its user bytes.
    pub fn write(
        &self,
        segment: &Segment,
        out: &mut Vec<u8>,
        copy: impl FnOnce(&Range<u64>, &mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(self.header(segment));
        copy(&segment.payload, out);
        let tail = segment.header.end..segment.header.end + usize::from(segment.trailer_len);
        out.extend_from_slice(&self.headers[tail]);
        if let Some(from) = segment.cxor_from {
            let at = out.len() - 4;
            let check = crate::checksum::cxor(&out[start + usize::from(from)..at]);
            out[at..].copy_from_slice(&check.to_be_bytes());
        }
    }

    /// Extends the requested checksums over the payloads; `sum_of` is the [`crate::checksum::sum`]
    /// of a range. For hosts, once a batch.
    pub fn extend_checksums(&mut self, sum_of: impl Fn(&Range<u64>) -> u16) {
        for segment in &mut self.segments {
            let Some(at) = segment.checksum_at.take() else {
                continue;
            };
            let field = &mut self.headers[segment.header.start + usize::from(at)..][..2];
            let check = u16::from_be_bytes([field[0], field[1]]);
            let whole = crate::checksum::extend(check, sum_of(&segment.payload));
            field.copy_from_slice(&whole.to_be_bytes());
        }
    }

    /// The association and the destination, once set.
    pub fn destination(&self) -> Option<(AssociationId, Address)> {
        self.destination
    }

    /// Octets of the first packet, hence of each but the last; 0 for an empty batch.
    pub fn segment_size(&self) -> usize {
        self.segments.first().map_or(0, size_of)
    }

    /// Octets of the last packet; 0 for an empty batch.
    pub fn size_of_last(&self) -> usize {
        self.segments.last().map_or(0, size_of)
    }
}

fn size_of(segment: &Segment) -> usize {
    let payload = (segment.payload.end - segment.payload.start) as usize;
    segment.header.len() + payload + usize::from(segment.trailer_len)
}
