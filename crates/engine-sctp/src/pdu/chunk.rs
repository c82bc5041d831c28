//! Chunks: a type, flags, a length, a value, and padding to a multiple of four octets (RFC 9260
//! section 3.2).

use super::data::{DATA_HEADER_LEN, DataHeader};
use super::{header::COMMON_HEADER_LEN, u16_at};
use core::ops::Range;

/// Octets in front of a chunk's value.
pub const CHUNK_HEADER_LEN: usize = 4;

/// The type of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkType(pub u8);

impl ChunkType {
    /// User data.
    pub const DATA: ChunkType = ChunkType(0);
    /// Opens an association.
    pub const INIT: ChunkType = ChunkType(1);
    /// Answers an INIT with a state cookie.
    pub const INIT_ACK: ChunkType = ChunkType(2);
    /// Acknowledges user data.
    pub const SACK: ChunkType = ChunkType(3);
    /// Asks whether a path carries packets.
    pub const HEARTBEAT: ChunkType = ChunkType(4);
    /// Answers a HEARTBEAT with its contents.
    pub const HEARTBEAT_ACK: ChunkType = ChunkType(5);
    /// Ends an association at once.
    pub const ABORT: ChunkType = ChunkType(6);
    /// All data of the sender were acknowledged, and it wants to end the association.
    pub const SHUTDOWN: ChunkType = ChunkType(7);
    /// Answers a SHUTDOWN.
    pub const SHUTDOWN_ACK: ChunkType = ChunkType(8);
    /// Reports faults that do not end the association.
    pub const ERROR: ChunkType = ChunkType(9);
    /// Returns the state cookie.
    pub const COOKIE_ECHO: ChunkType = ChunkType(10);
    /// Answers a COOKIE-ECHO.
    pub const COOKIE_ACK: ChunkType = ChunkType(11);
    /// Reserved for explicit congestion notification.
    pub const ECNE: ChunkType = ChunkType(12);
    /// Reserved for explicit congestion notification.
    pub const CWR: ChunkType = ChunkType(13);
    /// Answers a SHUTDOWN-ACK.
    pub const SHUTDOWN_COMPLETE: ChunkType = ChunkType(14);
    /// The chunks behind it are authenticated (RFC 4895).
    pub const AUTH: ChunkType = ChunkType(15);
    /// User data whose messages may take turns (RFC 8260).
    pub const I_DATA: ChunkType = ChunkType(64);
    /// Answers an ASCONF.
    pub const ASCONF_ACK: ChunkType = ChunkType(128);
    /// Streams begin anew, or become more (RFC 6525).
    pub const RE_CONFIG: ChunkType = ChunkType(130);
    /// Padding, which a receiver skips (RFC 4820).
    pub const PAD: ChunkType = ChunkType(132);
    /// Addresses of the sender come and go (RFC 5061).
    pub const ASCONF: ChunkType = ChunkType(193);
    /// Chunks that the peer is not to wait for (RFC 3758).
    pub const FORWARD_TSN: ChunkType = ChunkType(192);
    /// The same between ends that use I-DATA (RFC 8260).
    pub const I_FORWARD_TSN: ChunkType = ChunkType(194);

    /// The rest of a packet is dropped when the type is unknown (RFC 9260 section 3.2).
    pub fn unknown_stops(self) -> bool {
        self.0 & 0x80 == 0
    }

    /// An unknown type is reported with an ERROR.
    pub fn unknown_is_reported(self) -> bool {
        self.0 & 0x40 != 0
    }
}

/// Flag T of ABORT and SHUTDOWN-COMPLETE: the packet carries the sender's tag, reflected.
pub const FLAG_T: u8 = 1;

/// A chunk of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Its type.
    pub kind: ChunkType,
    /// Its flags.
    pub flags: u8,
    /// Its value, without padding.
    pub value: &'a [u8],
    /// Where in the packet the value lies.
    pub at: Range<usize>,
}

impl Chunk<'_> {
    /// Its octets with the header, for reports of unknown chunks.
    pub fn octets<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        &packet[self.at.start - CHUNK_HEADER_LEN..self.at.end]
    }
}

/// The chunks of a packet, in order. It ends at the first chunk that is broken.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    packet: &'a [u8],
    at: usize,
    is_broken: bool,
}

impl<'a> Chunks<'a> {
    /// Those of `packet`, behind its common header.
    pub fn new(packet: &'a [u8]) -> Chunks<'a> {
        Chunks {
            packet,
            at: COMMON_HEADER_LEN,
            is_broken: false,
        }
    }

    /// Those of `packet` behind the first `count`.
    pub(crate) fn behind(packet: &'a [u8], count: usize) -> Chunks<'a> {
        let mut chunks = Chunks::new(packet);
        chunks.by_ref().take(count).for_each(drop);
        chunks
    }

    /// Those of `octets`, which have no common header in front.
    pub(crate) fn of(octets: &'a [u8]) -> Chunks<'a> {
        Chunks {
            packet: octets,
            at: 0,
            is_broken: false,
        }
    }

    /// Passes over the next chunk if it is DATA with user bytes, and its header is `expected` but for the length; where the
    /// user bytes lie.
    #[inline]
    pub(crate) fn next_data(&mut self, expected: &DataHeader) -> Option<Range<u32>> {
        let octets = self.packet.get(self.at..)?.first_chunk()?;
        let header = u128::from_be_bytes(*octets);
        let length = usize::from((header >> 96) as u16);
        let user_len = length.checked_sub(DATA_HEADER_LEN).filter(|len| *len > 0)?;
        let end = self.at + length;
        if header != expected.bits(user_len) || end > self.packet.len() {
            return None;
        }
        let start = self.at + DATA_HEADER_LEN;
        self.at += length.next_multiple_of(4);
        Some(start as u32..end as u32)
    }

    /// Whether no octets are left.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.packet.len()
    }

    /// Whether it ended at a chunk shorter than its header or longer than the packet.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    /// Inlined, and called without `skip` where it counts: a chunk whose fields were just written one by one is
    /// waited for when it is moved.
    #[inline]
    fn next(&mut self) -> Option<Chunk<'a>> {
        if self.at >= self.packet.len() || self.is_broken {
            return None;
        }
        let length = u16_at(self.packet, self.at + 2).map_or(0, usize::from);
        let end = self.at + length;
        if length < CHUNK_HEADER_LEN || end > self.packet.len() {
            self.is_broken = true;
            return None;
        }
        let at = self.at + CHUNK_HEADER_LEN..end;
        let chunk = Chunk {
            kind: ChunkType(self.packet[self.at]),
            flags: self.packet[self.at + 1],
            value: &self.packet[at.clone()],
            at,
        };
        self.at += length.next_multiple_of(4);
        Some(chunk)
    }
}

/// Begins a chunk at the end of `out`; [`end_chunk`] gets what this returns.
pub fn begin_chunk(out: &mut Vec<u8>, kind: ChunkType, flags: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[kind.0, flags, 0, 0]);
    start
}

/// Ends the chunk that begins at `start`: writes its length and pads it. The padding of a last
/// parameter or cause is the chunk's, and counts in neither length (RFC 9260 section 3.2).
pub fn end_chunk(out: &mut Vec<u8>, start: usize) {
    end_item(out, start);
    pad(out);
}

/// Writes the length of the chunk, parameter or cause that begins at `start`.
pub(super) fn end_item(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u16;
    out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Pads to a multiple of four octets.
pub(super) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends a chunk of this value.
pub fn push_chunk(out: &mut Vec<u8>, kind: ChunkType, flags: u8, value: &[u8]) {
    let start = begin_chunk(out, kind, flags);
    out.extend_from_slice(value);
    end_chunk(out, start);
}

/// Appends a chunk of padding of `len` octets, header included, at least 4 and a multiple of it
/// (RFC 4820 section 3).
pub fn push_pad(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len >= CHUNK_HEADER_LEN && len.is_multiple_of(4));
    let start = begin_chunk(out, ChunkType::PAD, 0);
    out.resize(start + len, 0);
    // No padding of its own: what is in front of it in `out` may end anywhere.
    end_item(out, start);
}
