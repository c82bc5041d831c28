//! Packets, part by part.

use super::{Batch, Integrity, Packet, Part, Store};
use core::ops::Range;

/// A packet of a [`Batch`] in the making.
#[must_use]
#[derive(Debug)]
pub struct PacketBuilder<'a> {
    batch: &'a mut Batch,
    /// The number of its first part.
    first: usize,
    len: u64,
}

impl<'a> PacketBuilder<'a> {
    pub(super) fn new(batch: &'a mut Batch) -> PacketBuilder<'a> {
        PacketBuilder {
            first: batch.parts.len(),
            len: 0,
            batch,
        }
    }

    /// Appends octets of the engine's own.
    pub fn own(mut self, octets: &[u8]) -> Self {
        self.add_own(octets);
        self
    }

    /// Appends octets of the engine's own, in one part with those right in front of them.
    pub fn join_own(mut self, octets: &[u8]) -> Self {
        self.add_joined(octets);
        self
    }

    /// Appends user bytes; none for an empty range.
    pub fn user(mut self, store: Store, range: Range<u64>) -> Self {
        self.add_user(store, range);
        self
    }

    /// As [`PacketBuilder::own`], in place: for loops, where moving a builder that was just written stalls.
    #[inline(always)]
    pub fn add_own(&mut self, octets: &[u8]) {
        if !octets.is_empty() {
            let start = self.batch.own.len() as u32;
            self.batch.own.extend_from_slice(octets);
            let range = start..start + octets.len() as u32;
            self.batch.parts.push(Part::Own(range));
            self.len += octets.len() as u64;
        }
    }

    /// As [`PacketBuilder::join_own`], in place.
    #[inline(always)]
    pub fn add_joined(&mut self, octets: &[u8]) {
        let is_first = self.batch.parts.len() == self.first;
        match self.batch.parts.last_mut() {
            Some(Part::Own(range)) if !is_first => {
                self.batch.own.extend_from_slice(octets);
                range.end += octets.len() as u32;
                self.len += octets.len() as u64;
            }
            _ => self.add_own(octets),
        }
    }

    /// As [`PacketBuilder::user`], in place.
    #[inline(always)]
    pub fn add_user(&mut self, store: Store, range: Range<u64>) {
        if !range.is_empty() {
            self.len += range.end - range.start;
            self.batch.parts.push(Part::User(store, range));
        }
    }

    /// Ends the packet.
    pub fn end(self, integrity: Integrity) {
        let batch = self.batch;
        let parts = self.first as u32..batch.parts.len() as u32;
        batch.packets.push(Packet {
            parts,
            len: self.len as u32,
            integrity,
        });
        debug_assert!(batch.len_of_last() <= batch.packet_len());
        if batch.packets.len() == 1 {
            batch.limit = batch.limit_of(batch.packet_len());
        }
    }
}
