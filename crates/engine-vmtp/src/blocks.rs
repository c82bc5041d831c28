//! Messages as groups of blocks, and masks of blocks (RFC 1045 section 2.6).

use std::ops::Range;

/// Octets of a block; the last of a segment may be shorter.
pub const BLOCK_LEN: u64 = 512;

/// Blocks of a packet group: as many as a mask has bits.
pub const BLOCKS_MAX: u32 = 32;

/// Octets of a packet group's segment.
pub const GROUP_LEN: u64 = BLOCK_LEN * BLOCKS_MAX as u64;

/// Packet groups of a message: as many transaction numbers as a flag skips.
pub const GROUPS_MAX: u16 = 256;

/// Octets of the longest message: 4 MiB.
pub const MESSAGE_MAX: u64 = GROUP_LEN * GROUPS_MAX as u64;

/// Octets of a message that travel in a header.
pub const HEADER_DATA_MAX: u64 = 20;

/// Blocks of a packet group; bit 0 is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockMask(pub u32);

impl BlockMask {
    /// No block.
    pub const NONE: BlockMask = BlockMask(0);

    /// The first `count` blocks, at most 32.
    pub fn first(count: u32) -> BlockMask {
        match count {
            0..BLOCKS_MAX => BlockMask((1 << count) - 1),
            _ => BlockMask(u32::MAX),
        }
    }

    /// Whether it has no block.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many blocks it has.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Blocks of both.
    pub fn and(self, other: BlockMask) -> BlockMask {
        BlockMask(self.0 & other.0)
    }

    /// Blocks of either.
    pub fn or(self, other: BlockMask) -> BlockMask {
        BlockMask(self.0 | other.0)
    }

    /// Blocks of this one that the other has not.
    pub fn without(self, other: BlockMask) -> BlockMask {
        BlockMask(self.0 & !other.0)
    }

    /// Its first blocks, as many as `count` or as there are.
    pub fn lowest(self, count: u32) -> BlockMask {
        let mut rest = self.0;
        for _ in 0..count {
            rest &= rest.wrapping_sub(1);
        }
        BlockMask(self.0 & !rest)
    }

    /// Its blocks in runs of adjacent ones, ascending: the first of each and the one behind its last.
    pub fn runs(self) -> impl Iterator<Item = Range<u32>> {
        let mut rest = u64::from(self.0);
        std::iter::from_fn(move || {
            let start = rest.trailing_zeros();
            let end = start + (rest >> start.min(63)).trailing_ones();
            rest &= !0 << end.min(63);
            (start < BLOCKS_MAX).then_some(start..end)
        })
    }

    /// The numbers of its blocks, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let block = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (block < BLOCKS_MAX).then_some(block)
        })
    }
}

/// The part of a message that travels in blocks: all of it, or nothing of one that fits a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    len: u64,
}

impl Segment {
    /// A segment of `len` octets; 0 for none.
    pub fn new(len: u64) -> Segment {
        Segment { len }
    }

    /// That of a message of `len` octets.
    pub fn of_message(len: u64) -> Segment {
        Segment::new(if len > HEADER_DATA_MAX { len } else { 0 })
    }

    /// Its octets.
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Packet groups of the message, at least one.
    #[inline]
    pub fn groups(self) -> u16 {
        match self.len <= GROUP_LEN {
            true => 1,
            false => self.len.div_ceil(GROUP_LEN).min(u64::from(u16::MAX)) as u16,
        }
    }

    /// All blocks of a group.
    pub fn blocks(self, group: u16) -> BlockMask {
        let rest = self.len.saturating_sub(u64::from(group) * GROUP_LEN);
        BlockMask::first(rest.min(GROUP_LEN).div_ceil(BLOCK_LEN) as u32)
    }

    /// The octets of a block of a group.
    pub fn range(self, group: u16, block: u32) -> Range<u64> {
        let start = u64::from(group) * GROUP_LEN + u64::from(block) * BLOCK_LEN;
        start.min(self.len)..self.len.min(start + BLOCK_LEN)
    }

    /// The octets of a run of adjacent blocks of a group.
    pub fn range_of(self, group: u16, blocks: Range<u32>) -> Range<u64> {
        let at = |block: u32| u64::from(group) * GROUP_LEN + u64::from(block) * BLOCK_LEN;
        at(blocks.start).min(self.len)..at(blocks.end).min(self.len)
    }

    /// Octets of these blocks of a group.
    pub fn octets(self, group: u16, blocks: BlockMask) -> u64 {
        let all = self.blocks(group);
        let whole = u64::from(blocks.and(all).count()) * BLOCK_LEN;
        // The last block of the segment may be shorter.
        let end = u64::from(group) * GROUP_LEN + u64::from(all.count()) * BLOCK_LEN;
        let last = BlockMask(all.0 ^ all.0 >> 1);
        match blocks.and(last).is_empty() {
            true => whole,
            false => whole - end.saturating_sub(self.len),
        }
    }
}

/// A mask for each packet group of a message. A message of one group needs no memory for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupMasks {
    first: BlockMask,
    rest: Vec<BlockMask>,
}

impl GroupMasks {
    /// No block of `groups` groups.
    pub(crate) fn none(groups: u16) -> GroupMasks {
        GroupMasks {
            first: BlockMask::NONE,
            // `vec!` takes sixty instructions for no masks at all.
            rest: match groups {
                0 | 1 => Vec::new(),
                _ => vec![BlockMask::NONE; usize::from(groups - 1)],
            },
        }
    }

    pub(crate) fn get(&self, group: u16) -> BlockMask {
        match group {
            0 => self.first,
            _ => self
                .rest
                .get(usize::from(group) - 1)
                .copied()
                .unwrap_or_default(),
        }
    }

    pub(crate) fn set(&mut self, group: u16, blocks: BlockMask) {
        match group {
            0 => self.first = blocks,
            _ => {
                if let Some(place) = self.rest.get_mut(usize::from(group) - 1) {
                    *place = blocks;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_of_the_rfc_makes_six_packets_of_two_blocks() {
        // RFC 1045 section 2.6: 0x1D00 octets, MsgDelivery 0x74ff.
        let segment = Segment::new(0x1d00);
        assert_eq!(segment.blocks(0), BlockMask(0x7fff));
        let mut rest = BlockMask(0x74ff);
        let mut packets = Vec::new();
        while !rest.is_empty() {
            let packet = rest.lowest(2);
            rest = rest.without(packet);
            packets.push(packet.0);
        }
        assert_eq!(packets, [0x3, 0xc, 0x30, 0xc0, 0x1400, 0x6000]);
        assert_eq!(segment.octets(0, BlockMask(0x6000)), 512 + 256);
    }

    #[test]
    fn groups_of_a_message_hold_16_kib_each() {
        for (len, groups, last) in [
            (0, 1, 0),
            (20, 1, 0),
            (21, 1, 1),
            (16_384, 1, u32::MAX),
            (16_385, 2, 1),
            (MESSAGE_MAX, GROUPS_MAX, u32::MAX),
        ] {
            let segment = Segment::of_message(len);
            assert_eq!(segment.groups(), groups, "{len}");
            assert_eq!(segment.blocks(groups - 1), BlockMask(last), "{len}");
            assert_eq!(segment.blocks(groups), BlockMask::NONE, "{len}");
        }
        assert_eq!(Segment::new(17_000).range(1, 1), 16_896..17_000);
    }

    #[test]
    fn octets_of_blocks_are_the_sum_of_their_ranges() {
        let mut random = engine::SplitMix64::new(3);
        for len in [0, 1, 511, 512, 513, 7424, 16_384, 16_385, 40_000] {
            let segment = Segment::new(len);
            for group in 0..segment.groups() + 1 {
                for _ in 0..50 {
                    let blocks = BlockMask(random.next_u64() as u32);
                    let ranges = blocks.iter().map(|block| segment.range(group, block));
                    let sum: u64 = ranges
                        .map(|range| range.end.saturating_sub(range.start))
                        .sum();
                    assert_eq!(
                        segment.octets(group, blocks),
                        sum,
                        "{len} {group} {blocks:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn runs_are_the_ranges_of_their_blocks_joined() {
        let mut random = engine::SplitMix64::new(9);
        let segment = Segment::new(40_000);
        let masks = (0..200).map(|_| random.next_u64() as u32);
        for mask in masks.chain([0, 1, u32::MAX, 1 << 31, 0xffff_fffe]) {
            let mask = BlockMask(mask);
            let blocks: Vec<u32> = mask.runs().flatten().collect();
            assert_eq!(blocks, mask.iter().collect::<Vec<_>>(), "{mask:?}");
            let ends = mask.runs().map(|run| run.end);
            let starts = mask.runs().skip(1).map(|run| run.start);
            assert!(ends.zip(starts).all(|(end, start)| end < start), "{mask:?}");
            for run in mask.runs() {
                let joined = segment.range(1, run.start).start..segment.range(1, run.end - 1).end;
                assert_eq!(segment.range_of(1, run.clone()), joined, "{run:?}");
            }
        }
    }

    #[test]
    fn masks_of_groups_are_kept_apart() {
        let mut masks = GroupMasks::none(3);
        masks.set(0, BlockMask(1));
        masks.set(2, BlockMask(4));
        masks.set(3, BlockMask(8));
        let all: Vec<u32> = (0..4).map(|group| masks.get(group).0).collect();
        assert_eq!(all, [1, 0, 4, 0]);
    }
}
