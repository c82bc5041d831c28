//! Keys, sequence numbers and sync values.

use crate::pdu::RTN;

/// Bits of a key that name the slot of its context. The 43 bits above are random, so a reused
/// slot has a new key and an off-path attacker cannot guess it (0007, Keys).
const SLOT_BITS: u32 = 20;

/// Contexts that keys can distinguish, closed ones in quarantine included.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// Largest sequence number accepted from a peer: 2^62 bytes take 46 years at 25 Gbit/s, and the
/// sum of two still fits into 64 bits.
pub(crate) const SEQ_MAX: u64 = 1 << 62;

/// What names an association at one of its ends: 63 bits, 31 in 3.x. A field of a packet is a number: a key of its sender, or
/// with RTN in the top bit one that returns to its owner (0007, Keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u64);

impl Key {
    /// The key of `slot`: 63 bits, never zero.
    pub(crate) fn of_slot(slot: u32, random: u64) -> Key {
        let generation = (random >> (SLOT_BITS + 1)) | 1;
        Key(generation << SLOT_BITS | u64::from(slot))
    }

    /// The 31-bit key of `slot` for XTP 3.x: ten bits are random (0008, Names).
    pub(crate) fn short_of_slot(slot: u32, random: u64) -> Key {
        let generation = (random >> 54) << 1 | 1;
        Key(generation << SLOT_BITS | u64::from(slot))
    }

    /// The key that the sender of a packet states as its own in `field`; None for zero and for a returned key.
    pub(crate) fn stated(field: u64) -> Option<Key> {
        (field != 0 && field & RTN == 0).then_some(Key(field))
    }

    /// The key in `field`, of either end.
    #[inline]
    pub(crate) fn in_field(field: u64) -> Key {
        Key(field & !RTN)
    }

    /// The field with which its owner states it.
    pub(crate) fn field(self) -> u64 {
        self.0
    }

    /// The field with which the other end returns it.
    pub(crate) fn returned(self) -> u64 {
        self.0 | RTN
    }

    /// The slot that it names, if it is of this side and no cookie.
    #[inline]
    pub(crate) fn slot(self) -> usize {
        self.0 as usize & (SLOTS_MAX - 1)
    }
}

/// Most syncs between the highest one of a peer and one that is still taken for its. By default a
/// status request goes out every 120 KiB, so 2^14 of them cover nearly twice the longest window, 1 GiB;
/// the sync of another association is as near once in 2^32 / 2^15 = 2^17 times.
const SYNC_SPAN: u32 = 1 << 14;

/// The number of a status request, `sync` of a header and `echo` of its answer. It wraps around, so it has no order
/// but that of serial numbers (RFC 1982).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SyncNumber(pub u32);

impl SyncNumber {
    /// The echo of a peer that was asked nothing.
    pub const NONE: SyncNumber = SyncNumber(0);

    /// The number of the request after this one.
    pub(crate) fn next(self) -> SyncNumber {
        SyncNumber(self.0.wrapping_add(1))
    }

    /// Whether it was used before `other`.
    pub(crate) fn is_before(self, other: SyncNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether both may come from one direction of one association (0008, Names).
    pub(crate) fn is_near(self, other: SyncNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32).unsigned_abs() <= SYNC_SPAN
    }

    /// Whether it is one of the last of an association that used `last` last, after `made` others.
    pub(crate) fn was_used(self, last: SyncNumber, made: u32) -> bool {
        last.0.wrapping_sub(self.0) <= made.min(SYNC_SPAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_encodes_slot_and_leaves_rtn_clear() {
        for random in [0, u64::MAX, 1 << 40] {
            for (key, bits) in [
                (Key::of_slot(77, random), 63),
                (Key::short_of_slot(77, random), 31),
            ] {
                assert_eq!(key.slot(), 77);
                assert!(key.field() >> bits == 0 && key.field() >> SLOT_BITS != 0);
            }
        }
    }

    #[test]
    fn sync_comparison_wraps() {
        let before = |a: u32, b: u32| SyncNumber(a).is_before(SyncNumber(b));
        assert!(before(u32::MAX, 0) && !before(0, u32::MAX));
        assert!(before(1, 2) && !before(2, 2));
    }

    #[test]
    fn syncs_near_within_span_on_both_sides_of_zero() {
        let near = |a: u32, b: u32| SyncNumber(a).is_near(SyncNumber(b));
        for (a, b) in [(0, 0), (SYNC_SPAN, 0), (u32::MAX, SYNC_SPAN - 1)] {
            assert!(near(a, b) && near(b, a), "{a} {b}");
        }
        for (a, b) in [(SYNC_SPAN + 1, 0), (u32::MAX, SYNC_SPAN), (1 << 31, 0)] {
            assert!(!near(a, b) && !near(b, a), "{a} {b}");
        }
    }

    #[test]
    fn only_syncs_made_were_used() {
        let used = |sync: u32, last: u32, made| SyncNumber(sync).was_used(SyncNumber(last), made);
        assert!(used(9, 10, 1) && used(10, 10, 0));
        assert!(!used(8, 10, 1) && !used(11, 10, 1));
        assert!(used(u32::MAX, 1, 2) && !used(u32::MAX, 1, 1));
        assert!(!used(0, SYNC_SPAN + 1, u32::MAX));
    }
}
