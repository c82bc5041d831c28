//! From a batch to slices for the wire.

use super::ring::Consumer;
use engine::{Batch, Part};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A batch of fewer packets is gathered wherever they lie.
const SCATTERED_MIN: usize = 4;

/// Packets of fewer octets are copied rather than gathered from two slots.
const SHORT_PACKET_LEN: usize = 4096;

impl Consumer {
    /// Appends the slices of a batch for the wire; headers are written in place where a packet
    /// begins at a slot that the wire does not refer to. Returns whether they all are, or are one packet of lent pages
    /// behind a header: then the wire may refer to the slices, as [`wire::Wire::send_by_reference`] says.
    ///
    /// # Panics
    ///
    /// When the engine names bytes outside the store, lent ones that were given back, or the same
    /// packet twice in a batch: the second header would overwrite the first.
    pub fn gather<'a>(&'a mut self, batch: &'a Batch, slices: &mut Vec<IoSlice<'a>>) -> bool {
        let mut run: Option<Range<usize>> = None;
        // Positions mostly ascend, and then no slot is named twice.
        let mut ascends_from = 0;
        let mut all_placed = true;
        for (index, packet) in batch.packets().iter().enumerate() {
            let parts = batch.parts(packet);
            let placed = match parts {
                [Part::Own(header), Part::User(_, payload)] if !self.is_lent(payload) => {
                    assert!(
                        payload.start >= ascends_from || !is_named_before(batch, index, payload),
                        "the engine names a slot twice in a batch"
                    );
                    ascends_from = ascends_from.max(payload.end);
                    self.place_header(payload, batch.own(header))
                }
                _ => None,
            };
            match (placed, run.as_mut()) {
                (Some(octets), Some(run)) if run.end == octets.start => run.end = octets.end,
                (Some(octets), _) => {
                    slices.extend(run.replace(octets).map(|done| self.io_slice(done)));
                }
                (None, _) => {
                    all_placed = false;
                    slices.extend(run.take().map(|done| self.io_slice(done)));
                    self.gather_parts(batch, parts, slices);
                }
            }
        }
        slices.extend(run.map(|done| self.io_slice(done)));
        all_placed || self.is_packet_of_pages(batch)
    }

    /// The wire refers to the bytes of `batch`, which were gathered in place, and to their headers.
    pub fn mark_referenced(&mut self, batch: &Batch) {
        let ends = batch.packets().iter().flat_map(|packet| batch.user(packet));
        let end = ends.map(|(_, payload)| payload.end).max().unwrap_or(0);
        let referenced = &self.ring.consumer.referenced;
        let end = end.max(referenced.load(Ordering::Relaxed));
        referenced.store(end, Ordering::Relaxed);
    }

    /// Whether most packets of `batch` begin within slots, with short ones in two slots each: the kernel takes
    /// longer for three pieces a packet than a copy does. Lent bytes are never copied for that.
    pub fn is_scattered(&self, batch: &Batch) -> bool {
        let packets = batch.packets();
        if packets.len() < SCATTERED_MIN || batch.packet_len() >= SHORT_PACKET_LEN {
            return false;
        }
        let slot = self.ring.layout.payload as u64;
        let mut inside = 0;
        for packet in packets {
            for (_, payload) in batch.user(packet) {
                if self.is_lent(&payload) {
                    return false;
                }
                inside += usize::from(!payload.start.is_multiple_of(slot));
            }
        }
        2 * inside > packets.len()
    }

    /// Whether `batch` is one packet of lent pages behind a header. Its pages are used again at another time than the
    /// header's place in the store would be, and a header of a later packet would show in front of them.
    fn is_packet_of_pages(&self, batch: &Batch) -> bool {
        let [packet] = batch.packets() else {
            return false;
        };
        match batch.parts(packet) {
            [Part::Own(_), Part::User(_, payload)] => self.is_lent_in_pages(payload),
            _ => false,
        }
    }

    fn gather_parts<'a>(&'a self, batch: &'a Batch, parts: &[Part], slices: &mut Vec<IoSlice<'a>>) {
        for part in parts {
            match part {
                Part::Own(octets) => slices.push(IoSlice::new(batch.own(octets))),
                Part::User(_, payload) if self.is_lent(payload) => {
                    self.gather_lent(payload, slices);
                }
                Part::User(_, payload) => {
                    slices.extend(self.octet_ranges(payload).map(|range| self.io_slice(range)));
                }
            }
        }
    }

    /// Puts `header` in front of `payload` if its place is there: header and bytes in one piece.
    fn place_header(&self, payload: &Range<u64>, header: &[u8]) -> Option<Range<usize>> {
        let layout = self.ring.layout;
        let slot = layout.payload as u64;
        let fits = payload.end - payload.start <= slot && header.len() == layout.header;
        let referenced = self.ring.consumer.referenced.load(Ordering::Relaxed);
        if !payload.start.is_multiple_of(slot) || !fits || payload.start < referenced {
            return None;
        }
        let Range { start, end } = self.octet_ranges(payload).next()?;
        let front = start - layout.header;
        // SAFETY: the header's place in front of a slot's bytes belongs to the consumer, which only
        // `gather` borrows; the bytes are in the ring, so the memory is there.
        unsafe {
            let target = self.ring.base.load(Ordering::Relaxed).add(front);
            target.copy_from_nonoverlapping(header.as_ptr(), header.len());
        }
        Some(front..end)
    }
}

/// Whether a packet of `batch` in front of number `index` begins where `payload` does.
#[cold]
fn is_named_before(batch: &Batch, index: usize, payload: &Range<u64>) -> bool {
    let mut earlier = batch.packets()[..index].iter();
    earlier.any(|packet| match batch.parts(packet) {
        [Part::Own(_), Part::User(_, named)] => named.start == payload.start,
        _ => false,
    })
}
