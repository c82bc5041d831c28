//! Small packets of one destination, copied together to leave in one call of the wire.
//!
//! Acknowledgements and short messages of different circuits travel together that way. Copying
//! so few octets takes less time than the kernel's handling of two more addresses a packet.

use engine::{Address, Batch};
use std::ops::Range;
use wire::Capabilities;

/// Packets shorter than this are copied.
const COPY_BELOW: usize = 512;

pub(crate) struct Parcel {
    to: Option<Address>,
    octets: Vec<u8>,
    segment_size: usize,
    segments: usize,
    /// A packet shorter than the others ended it.
    ended: bool,
    segments_max: usize,
    octets_max: usize,
}

impl Parcel {
    pub(crate) fn new(capabilities: &Capabilities) -> Parcel {
        Parcel {
            to: None,
            octets: Vec::new(),
            segment_size: 0,
            segments: 0,
            ended: false,
            segments_max: capabilities.segments_max,
            octets_max: capabilities.batch_bytes_max,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.to.is_none()
    }

    pub(crate) fn to(&self) -> Option<Address> {
        self.to
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn segment_size(&self) -> usize {
        self.segment_size
    }

    pub(crate) fn clear(&mut self) {
        self.to = None;
        self.octets.clear();
        self.segments = 0;
        self.ended = false;
    }

    /// Whether `batch` may be packed in behind what is there.
    pub(crate) fn fits(&self, batch: &Batch) -> bool {
        let size = batch.segment_size();
        if size >= COPY_BELOW {
            return false;
        }
        let Some(to) = self.to else {
            return true;
        };
        let count = batch.segments().len();
        !self.ended
            && batch.destination().is_some_and(|(_, other)| other == to)
            && size == self.segment_size
            && self.segments + count <= self.segments_max
            && self.octets.len() + count * size <= self.octets_max
    }

    /// Packs `batch`, which fits, for `to`; `copy` appends the user bytes of a range.
    pub(crate) fn pack(
        &mut self,
        to: Address,
        batch: &Batch,
        copy: impl Fn(&Range<u64>, &mut Vec<u8>),
    ) {
        self.to = Some(to);
        self.segment_size = batch.segment_size();
        self.segments += batch.segments().len();
        for segment in batch.segments() {
            let start = self.octets.len();
            self.octets.extend_from_slice(batch.header(segment));
            copy(&segment.payload, &mut self.octets);
            self.ended = self.octets.len() - start < self.segment_size;
        }
    }
}
