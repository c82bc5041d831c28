//! The size of a ring: how many slots, how long each.

use crate::ChannelError;

/// Shortest slot, in octets: a cache line.
pub const SLOT_LEN_MIN: u32 = 64;

/// Longest slot, in octets.
pub const SLOT_LEN_MAX: u32 = 1 << 20;

/// Most octets in the slots of one ring: 256 slots of the longest. A ring takes memory as it is
/// written, so this is also what a peer can make this process map, and make the kernel allocate.
pub const RING_OCTETS_MAX: u64 = 256 << 20;

/// Octets in front of the slots: a page, which holds the words of both ends in lines of their own.
pub(crate) const CONTROL_LEN: usize = 4096;

/// Octets that a slot's length takes.
const LENGTH_LEN: usize = 4;

/// Octets of a cache line.
const LINE_LEN: usize = 64;

/// Octets of the message that sets up a channel: mark, edition, length and number of slots.
pub(crate) const OPENING_LEN: usize = 16;

const MARK: [u8; 4] = *b"TWCH";
const EDITION: u32 = 1;

/// Edition of an opening behind which the names of modules follow.
const EDITION_WITH_MODULES: u32 = 2;

/// The names of no modules.
pub(crate) const NO_MODULES: &str = "none";

/// Length and number of a ring's slots, valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slot_len: u32,
    slots: u32,
}

impl Geometry {
    /// `slots` slots of `slot_len` octets.
    ///
    /// # Errors
    /// A length that is no power of two from 64 to 1 MiB, a number that is no power of two, and a
    /// ring of more than [`RING_OCTETS_MAX`].
    pub fn new(slot_len: u32, slots: u32) -> Result<Self, ChannelError> {
        if !slot_len.is_power_of_two() || !(SLOT_LEN_MIN..=SLOT_LEN_MAX).contains(&slot_len) {
            return Err(ChannelError::SlotLen(slot_len));
        }
        if !slots.is_power_of_two() || u64::from(slots) * u64::from(slot_len) > RING_OCTETS_MAX {
            return Err(ChannelError::SlotCount { slots, slot_len });
        }
        Ok(Self { slot_len, slots })
    }

    /// Octets of a slot.
    #[must_use]
    #[inline]
    pub fn slot_len(self) -> u32 {
        self.slot_len
    }

    /// Number of slots, a power of two.
    #[must_use]
    #[inline]
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Octets of all slots: the longest message, which takes them all.
    #[must_use]
    #[inline]
    pub fn capacity(self) -> u32 {
        self.slots * self.slot_len
    }

    /// Number of slots that a message of `len` octets takes, at least one.
    #[inline]
    pub(crate) fn slots_of(self, len: u32) -> u32 {
        let whole = len >> self.slot_len.trailing_zeros();
        let part = u32::from(len & (self.slot_len - 1) != 0);
        (whole + part).max(1)
    }

    /// As [`Self::slots_of`], of a message that is to be sent.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for one that the ring never holds.
    #[inline]
    pub(crate) fn slots_of_message(self, len: usize) -> Result<u32, ChannelError> {
        let max = self.capacity();
        match u32::try_from(len) {
            Ok(len) if len <= max => Ok(self.slots_of(len)),
            _ => Err(ChannelError::TooLong { len, max }),
        }
    }

    /// Checks where the sender says that it is, `head`, against a receiver at `tail`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for more than the ring has.
    #[inline]
    pub(crate) fn check_head(self, head: u32, tail: u32) -> Result<(), ChannelError> {
        let committed = head.wrapping_sub(tail);
        self.check_position(committed, "a position of its writes of", head)
            .map(drop)
    }

    /// Slots that a receiver at `tail`, as it says, is behind the sender at `head`.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for more than the ring has.
    #[inline]
    pub(crate) fn check_tail(self, head: u32, tail: u32) -> Result<u32, ChannelError> {
        self.check_position(head.wrapping_sub(tail), "a position of its reads of", tail)
    }

    #[inline]
    fn check_position(
        self,
        distance: u32,
        what: &'static str,
        value: u32,
    ) -> Result<u32, ChannelError> {
        if distance > self.slots {
            return Err(ChannelError::Corrupt { what, value });
        }
        Ok(distance)
    }

    /// Checks the length of a message, as its sender says, of which at most `committed` slots are there.
    ///
    /// # Errors
    /// [`ChannelError::Corrupt`] for a length that no such message has.
    #[inline]
    pub(crate) fn check_len(self, len: u32, committed: u32) -> Result<(), ChannelError> {
        if len > self.capacity() || self.slots_of(len) > committed {
            return Err(ChannelError::Corrupt {
                what: "a message's length of",
                value: len,
            });
        }
        Ok(())
    }

    /// Octets of the segment: the words of both ends, a length for each slot, the slots. At most
    /// 4 KiB + 16 MiB + 256 MiB (4 Mi slots of 64 octets), so it fits a `usize` of 32 bits.
    #[inline]
    pub(crate) fn segment_len(self) -> usize {
        self.slots_offset() + self.slots as usize * self.slot_len as usize
    }

    /// Octets of an arena's segment: the same, and a line for each slot's word, which several processors write in turn.
    pub(crate) fn arena_len(self) -> usize {
        self.segment_len() + self.slots as usize * LINE_LEN
    }

    /// Where the word of an arena's slot lies.
    #[inline]
    pub(crate) fn arena_word_offset(self, slot: u32) -> usize {
        self.segment_len() + self.index(slot) * LINE_LEN
    }

    /// Where the length of the slot at `position` lies.
    #[inline]
    pub(crate) fn length_offset(self, position: u32) -> usize {
        CONTROL_LEN + self.index(position) * LENGTH_LEN
    }

    /// Where octet `offset` of the message at `position` lies, below [`Geometry::capacity`], and how
    /// many follow it before the ring's end, behind which a message goes on in the first slot.
    #[inline]
    pub(crate) fn place(self, position: u32, offset: usize) -> (usize, usize) {
        let capacity = self.capacity() as usize;
        let at = (self.index(position) * self.slot_len as usize + offset) & (capacity - 1);
        (self.slots_offset() + at, capacity - at)
    }

    /// Where the first slot begins. The lengths are padded to a line, so that no slot shares one
    /// with them.
    #[inline]
    pub(crate) fn slots_offset(self) -> usize {
        CONTROL_LEN + (self.slots as usize * LENGTH_LEN).next_multiple_of(SLOT_LEN_MIN as usize)
    }

    #[inline]
    fn index(self, position: u32) -> usize {
        (position & (self.slots - 1)) as usize
    }

    pub(crate) fn encode(self) -> [u8; OPENING_LEN] {
        self.encode_as(EDITION)
    }

    /// The opening of a channel whose modules have these names.
    pub(crate) fn encode_with(self, modules: &str) -> Vec<u8> {
        let opening = self.encode_as(EDITION_WITH_MODULES);
        [&opening, modules.as_bytes()].concat()
    }

    fn encode_as(self, edition: u32) -> [u8; OPENING_LEN] {
        let mut opening = [0; OPENING_LEN];
        opening[..4].copy_from_slice(&MARK);
        opening[4..8].copy_from_slice(&edition.to_le_bytes());
        opening[8..12].copy_from_slice(&self.slot_len.to_le_bytes());
        opening[12..].copy_from_slice(&self.slots.to_le_bytes());
        opening
    }

    /// # Errors
    /// Octets that are no opening of this edition, or of a ring that [`Geometry::new`] refuses.
    pub(crate) fn decode(opening: &[u8]) -> Result<Self, ChannelError> {
        let opening: &[u8; OPENING_LEN] = opening.try_into().map_err(|_| ChannelError::Opening)?;
        match read_word(opening, 4) {
            _ if opening[..4] != MARK => Err(ChannelError::Opening),
            EDITION => Self::new(read_word(opening, 8), read_word(opening, 12)),
            EDITION_WITH_MODULES => Err(ChannelError::OtherModules {
                own: NO_MODULES.into(),
                peer: "some".into(),
            }),
            _ => Err(ChannelError::Opening),
        }
    }

    /// The ring of an opening, and the names of its modules as its sender wrote them.
    ///
    /// # Errors
    /// Those of [`Self::decode`].
    pub(crate) fn decode_with(opening: &[u8]) -> Result<(Self, String), ChannelError> {
        let Some((front, modules)) = opening.split_first_chunk::<OPENING_LEN>() else {
            return Err(ChannelError::Opening);
        };
        if front[..4] != MARK || read_word(front, 4) != EDITION_WITH_MODULES {
            return Self::decode(opening).map(|geometry| (geometry, NO_MODULES.into()));
        }
        let geometry = Self::new(read_word(front, 8), read_word(front, 12))?;
        Ok((geometry, String::from_utf8_lossy(modules).into_owned()))
    }
}

fn read_word(opening: &[u8; OPENING_LEN], at: usize) -> u32 {
    let octets = [0, 1, 2, 3].map(|offset| opening[at + offset]);
    u32::from_le_bytes(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_with_a_count_that_is_no_power_of_two_is_refused() {
        assert!(matches!(
            Geometry::new(64, 3),
            Err(ChannelError::SlotCount { slots: 3, .. })
        ));
        assert!(matches!(
            Geometry::new(64, 0),
            Err(ChannelError::SlotCount { slots: 0, .. })
        ));
    }

    #[test]
    fn geometry_with_slots_of_odd_length_is_refused() {
        for len in [0, 32, 100, SLOT_LEN_MAX * 2] {
            assert!(
                matches!(Geometry::new(len, 4), Err(ChannelError::SlotLen(_))),
                "{len}"
            );
        }
    }

    #[test]
    fn geometry_beyond_the_limit_is_refused() {
        assert!(Geometry::new(SLOT_LEN_MAX, 256).is_ok());
        assert!(Geometry::new(SLOT_LEN_MAX, 512).is_err());
        assert!(Geometry::new(64, 1 << 31).is_err());
    }

    #[test]
    fn slots_of_a_ring_lie_apart_and_inside_the_segment() {
        for (len, slots) in [(64, 1), (64, 1024), (SLOT_LEN_MAX, 256)] {
            let ring = Geometry::new(len, slots).unwrap();
            let (first, capacity) = ring.place(0, 0);
            assert!(ring.length_offset(slots - 1) + LENGTH_LEN <= first);
            assert_eq!(first + capacity, ring.segment_len());
            let (last, left) = ring.place(slots - 1, 0);
            assert_eq!((last + left, left), (ring.segment_len(), len as usize));
            assert_eq!(ring.place(slots, 0), ring.place(0, 0));
            assert_eq!(ring.place(slots - 1, len as usize), ring.place(0, 0));
        }
    }

    #[test]
    fn words_of_an_arena_lie_apart_and_behind_the_slots() {
        let slots = Geometry::new(4096, 8).unwrap();
        let words: Vec<usize> = (0..8).map(|slot| slots.arena_word_offset(slot)).collect();
        assert!(words.windows(2).all(|pair| pair[1] - pair[0] >= LINE_LEN));
        assert!(words[0] >= slots.segment_len() && words[0].is_multiple_of(LINE_LEN));
        assert!(words[7] + 4 <= slots.arena_len());
    }

    #[test]
    fn message_takes_as_many_slots_as_hold_it_and_at_least_one() {
        let ring = Geometry::new(64, 8).unwrap();
        let taken = [0, 1, 64, 65, 128, 512].map(|len| ring.slots_of(len));
        assert_eq!(taken, [1, 1, 1, 2, 2, 8]);
        assert_eq!(ring.capacity(), 512);
    }

    #[test]
    fn opening_decoded_equals_what_was_encoded_and_any_changed_mark_is_refused() {
        let ring = Geometry::new(4096, 8).unwrap();
        let opening = ring.encode();
        assert_eq!(Geometry::decode(&opening).unwrap(), ring);
        for at in 0..8 {
            let mut changed = opening;
            changed[at] ^= 1;
            assert!(
                matches!(Geometry::decode(&changed), Err(ChannelError::Opening)),
                "octet {at}"
            );
        }
        assert!(Geometry::decode(&opening[..15]).is_err());
    }

    #[test]
    fn opening_of_any_octets_is_refused_or_within_the_limit() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut opening = Geometry::new(64, 1).unwrap().encode();
            for octet in &mut opening[8..] {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *octet = if state >> 63 == 0 {
                    0
                } else {
                    1 << (state >> 60 & 7)
                };
            }
            if let Ok(ring) = Geometry::decode(&opening) {
                assert!(ring.segment_len() as u64 <= RING_OCTETS_MAX + (17 << 20));
            }
        }
    }
}
