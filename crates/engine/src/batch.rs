//! What an engine hands to a wire in one call.
//!
//! A [`Batch`] belongs to one [`Path`] and holds [`Packet`]s of equal length, of which the last may
//! be shorter: what one call of segmented UDP carries. A packet is a list of [`Part`]s under one
//! [`Integrity`] word. Octets that the engine wrote lie in the batch; user bytes are named by their
//! [`Store`] and positions, so that packets of many users share a call.

mod builder;
mod plain_packet;

pub use builder::PacketBuilder;
pub use plain_packet::PlainPacket;

use crate::checksum::{self, Crc32c};
use crate::{AssociationId, OutgoingMessage, Path};
use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

/// What the host keeps user bytes in until the engine releases them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// The send store of an association; positions count its bytes.
    Association(AssociationId),
    /// The buffer of a message; positions are offsets.
    Message(OutgoingMessage),
}

/// A part of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Octets of the engine's own: headers, padding, trailers. See [`Batch::own`].
    Own(Range<u32>),
    /// User bytes.
    User(Store, Range<u64>),
}

/// The check of a packet that covers user bytes, which an engine never sees: it writes the packet's
/// check field as if there were none, and the host completes it in the pass that copies or sums
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Integrity {
    /// No check, or one that covers octets of the engine alone.
    #[default]
    None,
    /// An Internet checksum (RFC 1071) at this offset of the first part. The engine has summed all
    /// its own octets, which come first and are even in number.
    Internet {
        /// Offset of the field.
        at: u16,
    },
    /// The last four octets are [`checksum::cxor`] of the packet from this offset up to them
    /// (XTP 3.x).
    Cxor {
        /// The first octet covered.
        from: u8,
    },
    /// The last four octets are [`checksum::vmtp`] of all before them (RFC 1045 section 2.4).
    Vmtp,
    /// A CRC-32c at this offset, least octet first, of the whole packet with zeros in its place
    /// (RFC 9260 section 6.8).
    Crc32c {
        /// Offset of the field, which lies in the first part.
        at: u16,
    },
    /// The batch's [`Seal`], and then a CRC-32c as above if there is one (RFC 4895 section 6.2).
    Sealed {
        /// Offset of the CRC-32c.
        crc_at: Option<u16>,
    },
}

/// A message authentication code over a whole packet: its key is the engine's, and the host has the
/// user bytes.
pub trait Seal: Debug + Send + Sync {
    /// Completes the code in `packet`, whose octets are final but for it and a checksum.
    fn seal(&self, packet: &mut [u8]);
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    parts: Range<u32>,
    len: u32,
    integrity: Integrity,
}

impl Packet {
    /// Its octets.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no octets.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its check.
    pub fn integrity(&self) -> Integrity {
        self.integrity
    }
}

/// Whether a packet that is longer than the medium carries in one piece may travel in fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragmentation {
    /// As the host does it for all of its packets.
    #[default]
    Usual,
    /// It may, here and on the way: its contents cannot be cut anew.
    Allowed,
    /// It must not: it arrives whole or not at all, as a probe of the path MTU does (RFC 8899 section
    /// 4.1, rule 3), whatever the host believes of the path.
    Refused,
}

/// Parts of two packets that are gathered: a header, user bytes in two places of a store, a trailer
/// each. One call takes 1024 parts (IOV_MAX of Linux), and a batch has some 60 packets.
const PARTS_OF_TWO_MAX: usize = 8;

/// The same of short packets, which leave faster when a trailer has them copied first: XTP 3.6, with
/// packets of 1.4 kB (docs/performance.md, "Against an earlier build").
const SHORT_PARTS_OF_TWO_MAX: usize = 5;

/// Packets of fewer octets are short.
const SHORT_PACKET_LEN: usize = 4096;

/// Octets of a part, on average, from which on any number of them is gathered: shorter ones are copied in the
/// time that the kernel takes for one more address (docs/performance.md, "SCTP"). A call of 64 KiB has 64.
const LONG_PART_LEN: usize = 1024;

/// Up to n packets of one path, all of the same length but the last, which may be shorter.
///
/// The host says beforehand how many packets and octets the wire takes; the engine fills in no more
/// and keeps the rest.
#[derive(Debug)]
pub struct Batch {
    packets_max: usize,
    octets_max: usize,
    /// Packets it may hold, from the length of the first on.
    limit: usize,
    path: Option<Path>,
    sender: Option<AssociationId>,
    seal: Option<Arc<dyn Seal>>,
    fragmentation: Fragmentation,
    is_held: bool,
    own: Vec<u8>,
    parts: Vec<Part>,
    packets: Vec<Packet>,
}

impl Batch {
    /// An empty batch for a wire that takes `packets_max` packets a call, of any length.
    pub fn new(packets_max: usize) -> Self {
        Batch::limited(packets_max, usize::MAX)
    }

    /// An empty batch for a wire that takes `packets_max` packets and `octets_max` octets a call.
    pub fn limited(packets_max: usize, octets_max: usize) -> Self {
        Batch {
            packets_max,
            octets_max,
            limit: packets_max,
            path: None,
            sender: None,
            seal: None,
            fragmentation: Fragmentation::Usual,
            is_held: false,
            own: Vec::new(),
            parts: Vec::new(),
            packets: Vec::new(),
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.path = None;
        self.sender = None;
        self.seal = None;
        self.fragmentation = Fragmentation::Usual;
        self.is_held = false;
        self.limit = self.packets_max;
        self.own.clear();
        self.parts.clear();
        self.packets.clear();
    }

    /// Names the path, and the association whose packets these are, if they are of one.
    pub fn set_path(&mut self, path: impl Into<Path>, sender: Option<AssociationId>) {
        self.path = Some(path.into());
        self.sender = sender;
    }

    /// Names what completes its packets under [`Integrity::Sealed`].
    pub fn set_seal(&mut self, seal: Arc<dyn Seal>) {
        self.seal = Some(seal);
    }

    /// Says whether its packets may travel in fragments.
    pub fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation = fragmentation;
    }

    /// Says that its user bytes are sent for the first time, and will be released only once the peer has
    /// acknowledged them or the association has ended: a medium may refer to them instead of copying them.
    pub fn mark_held(&mut self) {
        self.is_held = true;
    }

    /// Whether its user bytes are held: see [`mark_held`](Batch::mark_held).
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether its packets may travel in fragments.
    pub fn fragmentation(&self) -> Fragmentation {
        self.fragmentation
    }

    /// The path; None for an empty batch.
    pub fn path(&self) -> Option<Path> {
        self.path
    }

    /// The association that sends all of its packets; None when there are several, or none.
    pub fn sender(&self) -> Option<AssociationId> {
        self.sender
    }

    /// Adds a packet of the engine's own octets alone.
    pub fn push_own(&mut self, octets: &[u8]) {
        self.begin().own(octets).end(Integrity::None);
    }

    /// Adds a packet of a header and user bytes.
    pub fn push(&mut self, header: &[u8], store: Store, range: Range<u64>, integrity: Integrity) {
        self.begin().own(header).user(store, range).end(integrity);
    }

    /// Adds a packet part by part. The caller keeps the rule of equal lengths, which is checked in
    /// debug builds.
    pub fn begin(&mut self) -> PacketBuilder<'_> {
        debug_assert!(self.room() > 0, "the wire takes no more packets");
        debug_assert!(
            self.packets.is_empty() || self.len_of_last() == self.packet_len(),
            "only the last packet may be short"
        );
        PacketBuilder::new(self)
    }

    /// How many packets of `len` octets it may hold, of which a first one always fits. Most often all of them do, which is
    /// found out without a division.
    #[inline]
    fn limit_of(&self, len: usize) -> usize {
        match len.saturating_mul(self.packets_max) <= self.octets_max {
            true => self.packets_max,
            false => (self.octets_max / len.max(1)).max(1),
        }
    }

    /// How many more packets fit; a first one always does.
    pub fn room(&self) -> usize {
        self.limit - self.packets.len()
    }

    /// Whether it has no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets, in sending order.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// The parts of `packet`.
    pub fn parts(&self, packet: &Packet) -> &[Part] {
        &self.parts[packet.parts.start as usize..packet.parts.end as usize]
    }

    /// Octets of the engine's own.
    pub fn own(&self, range: &Range<u32>) -> &[u8] {
        &self.own[range.start as usize..range.end as usize]
    }

    /// The user bytes that `packet` carries: nearly always one range.
    pub fn user(&self, packet: &Packet) -> impl Iterator<Item = (Store, Range<u64>)> {
        self.parts(packet).iter().filter_map(|part| match part {
            Part::User(store, range) => Some((*store, range.clone())),
            Part::Own(_) => None,
        })
    }

    /// Octets of all packets but perhaps the last; 0 for an empty batch.
    pub fn packet_len(&self) -> usize {
        self.packets.first().map_or(0, Packet::len)
    }

    /// Octets of the last packet; 0 for an empty batch.
    pub fn len_of_last(&self) -> usize {
        self.packets.last().map_or(0, Packet::len)
    }

    /// Whether its packets are to be built in one piece: a check is completed only there, or they have
    /// so many parts that gathering them costs more than copying, and a call takes no more of them. The check of a
    /// short packet costs less in the memory where it was just copied to.
    pub fn needs_copy(&self) -> bool {
        let mut packets = self.packets.iter();
        let len = self.packet_len();
        let is_short = len < SHORT_PACKET_LEN;
        let limit = match is_short {
            true => SHORT_PARTS_OF_TWO_MAX,
            false => PARTS_OF_TWO_MAX.max(2 * (len / LONG_PART_LEN)),
        };
        let is_in_pieces = 2 * self.parts.len() > limit * self.packets.len();
        is_in_pieces
            || packets.any(|packet| match packet.integrity {
                Integrity::None | Integrity::Internet { .. } => false,
                Integrity::Crc32c { .. } => is_short,
                _ => true,
            })
    }

    /// Completes the checks of packets that are gathered, once a batch. `visit` gives the user bytes of a range,
    /// slice by slice, to its last argument.
    pub fn complete_checks(&mut self, visit: impl Fn(Store, &Range<u64>, &mut dyn FnMut(&[u8]))) {
        for index in 0..self.packets.len() {
            let packet = &mut self.packets[index];
            let parts = packet.parts.start as usize..packet.parts.end as usize;
            let integrity = core::mem::take(&mut packet.integrity);
            let Some(Part::Own(header)) = self.parts[parts.clone()].first() else {
                continue;
            };
            let header = header.start as usize;
            match integrity {
                Integrity::Internet { at } => {
                    let sum = self.sum_of_user(parts, &visit);
                    add_to_checksum(&mut self.own[header + usize::from(at)..], sum);
                }
                Integrity::Crc32c { at } => {
                    let field = header + usize::from(at);
                    self.own[field..field + 4].fill(0);
                    let crc = self.crc(parts, &visit).finish();
                    self.own[field..field + 4].copy_from_slice(&crc.to_le_bytes());
                }
                _ => {}
            }
        }
    }

    /// The [`checksum::sum`] of the user bytes of these parts.
    fn sum_of_user(
        &self,
        parts: Range<usize>,
        visit: impl Fn(Store, &Range<u64>, &mut dyn FnMut(&[u8])),
    ) -> u16 {
        let (mut sum, mut len) = (0, 0);
        for part in &self.parts[parts] {
            if let Part::User(store, range) = part {
                visit(*store, range, &mut |bytes| {
                    sum = checksum::combine(sum, len, checksum::sum(bytes));
                    len += bytes.len();
                });
            }
        }
        sum
    }

    /// The CRC-32c of these parts.
    fn crc(
        &self,
        parts: Range<usize>,
        visit: impl Fn(Store, &Range<u64>, &mut dyn FnMut(&[u8])),
    ) -> Crc32c {
        let mut crc = Crc32c::new();
        for part in &self.parts[parts] {
            match part {
                Part::Own(range) => crc.update(self.own(range)),
                Part::User(store, range) => visit(*store, range, &mut |bytes| crc.update(bytes)),
            }
        }
        crc
    }

    /// The octets of `packet` in one piece behind what is in `out`, its check completed; `copy`
    /// appends user bytes.
    pub fn write(
        &self,
        packet: &Packet,
        out: &mut Vec<u8>,
        mut copy: impl FnMut(Store, &Range<u64>, &mut Vec<u8>),
    ) {
        let start = out.len();
        out.reserve(packet.len());
        let mut user = None;
        for part in self.parts(packet) {
            match part {
                Part::Own(range) => append(out, self.own(range)),
                Part::User(store, range) => {
                    user.get_or_insert(out.len() - start);
                    copy(*store, range, out);
                }
            }
        }
        let packet_octets = &mut out[start..];
        let mut integrity = packet.integrity;
        if let Integrity::Sealed { crc_at } = integrity {
            if let Some(seal) = &self.seal {
                seal.seal(packet_octets);
            }
            integrity = crc_at.map_or(Integrity::None, |at| Integrity::Crc32c { at });
        }
        complete(packet_octets, integrity, user);
    }
}

/// Appends octets. A header of 16, as each of a packet's many chunks may have one, is copied without a call.
#[inline]
fn append(out: &mut Vec<u8>, octets: &[u8]) {
    match octets.as_array::<16>() {
        Some(header) => out.extend_from_slice(header),
        None => out.extend_from_slice(octets),
    }
}

/// Completes the check of a packet in one piece, whose user bytes begin at `user`.
fn complete(packet: &mut [u8], integrity: Integrity, user: Option<usize>) {
    let end = packet.len().saturating_sub(4);
    match integrity {
        Integrity::None | Integrity::Sealed { .. } => {}
        Integrity::Internet { at } => {
            let sum = user.map_or(0, |from| checksum::sum(&packet[from..]));
            add_to_checksum(&mut packet[usize::from(at)..], sum);
        }
        Integrity::Cxor { from } => {
            let check = checksum::cxor(&packet[usize::from(from)..end]);
            packet[end..].copy_from_slice(&check.to_be_bytes());
        }
        Integrity::Vmtp => {
            let check = checksum::vmtp(&packet[..end]);
            packet[end..].copy_from_slice(&check.to_be_bytes());
        }
        Integrity::Crc32c { at } => {
            let at = usize::from(at);
            packet[at..at + 4].fill(0);
            let mut crc = Crc32c::new();
            crc.update(packet);
            packet[at..at + 4].copy_from_slice(&crc.finish().to_le_bytes());
        }
    }
}

fn add_to_checksum(field: &mut [u8], sum: u16) {
    let check = checksum::extend(u16::from_be_bytes([field[0], field[1]]), sum);
    field[..2].copy_from_slice(&check.to_be_bytes());
}

#[cfg(test)]
mod tests;
