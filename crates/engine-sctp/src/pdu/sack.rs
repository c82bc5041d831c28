//! SACK: what arrived, and room for more (RFC 9260 section 3.3.4).

use super::chunk::end_chunk;
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::Tsn;
use core::ops::RangeInclusive;

/// Octets of a SACK without gaps and duplicates.
pub const SACK_LEN: usize = 16;

/// A SACK of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// All TSNs up to this one arrived.
    pub cumulative: Tsn,
    /// Bytes of room for more.
    pub rwnd: u32,
    gaps: &'a [u8],
    duplicates: &'a [u8],
}

impl<'a> Sack<'a> {
    /// Of a chunk's value; None if it is shorter than its counts say, or if its blocks overlap, touch
    /// backwards or have a start beyond their end: an honest peer sends them in ascending order.
    pub fn parse(value: &'a [u8]) -> Option<Sack<'a>> {
        let gaps_len = 4 * usize::from(u16_at(value, 8)?);
        let duplicates_len = 4 * usize::from(u16_at(value, 10)?);
        let (gaps, rest) = value.get(12..)?.split_at_checked(gaps_len)?;
        let sack = Sack {
            cumulative: Tsn(u32_at(value, 0)?),
            rwnd: u32_at(value, 4)?,
            gaps,
            duplicates: rest.get(..duplicates_len)?,
        };
        let mut last = 0;
        for block in sack.gaps() {
            if *block.start() <= last || block.is_empty() {
                return None;
            }
            last = *block.end();
        }
        Some(sack)
    }

    /// The blocks beyond the first gap, as offsets from the cumulative TSN, ascending.
    pub fn gaps(&self) -> impl Iterator<Item = RangeInclusive<u16>> + use<'a> {
        let (blocks, _) = self.gaps.as_chunks::<4>();
        blocks.iter().map(|block| {
            u16::from_be_bytes([block[0], block[1]])..=u16::from_be_bytes([block[2], block[3]])
        })
    }

    /// TSNs that arrived more than once.
    pub fn duplicates(&self) -> impl Iterator<Item = Tsn> + use<'a> {
        let (all, _) = self.duplicates.as_chunks::<4>();
        all.iter().map(|octets| Tsn(u32::from_be_bytes(*octets)))
    }
}

/// A SACK without gaps and duplicates as a number, the first octet the highest.
#[inline]
pub(crate) fn sack_bits(cumulative: Tsn, rwnd: u32) -> u128 {
    u128::from(ChunkType::SACK.0) << 120
        | (SACK_LEN as u128) << 96
        | u128::from(cumulative.0) << 64
        | u128::from(rwnd) << 32
}

/// Appends a SACK of at most `room` octets, of which it needs [`SACK_LEN`]: blocks from the lowest,
/// then duplicates, as many as fit.
pub fn push_sack(
    out: &mut Vec<u8>,
    room: usize,
    (cumulative, rwnd): (Tsn, u32),
    gaps: impl Iterator<Item = RangeInclusive<u16>>,
    duplicates: &[Tsn],
) {
    let start = out.len();
    // As one number: octets written one by one are waited for when they are copied together.
    out.extend_from_slice(&sack_bits(cumulative, rwnd).to_be_bytes());
    let entries_max = room.saturating_sub(SACK_LEN) / 4;
    let mut blocks: u16 = 0;
    for block in gaps.take(entries_max) {
        out.extend(block.start().to_be_bytes());
        out.extend(block.end().to_be_bytes());
        blocks += 1;
    }
    let left = entries_max - usize::from(blocks);
    let duplicates = &duplicates[..duplicates.len().min(left)];
    for tsn in duplicates {
        out.extend(tsn.0.to_be_bytes());
    }
    out[start + 12..start + 14].copy_from_slice(&blocks.to_be_bytes());
    out[start + 14..start + 16].copy_from_slice(&(duplicates.len() as u16).to_be_bytes());
    end_chunk(out, start);
}
