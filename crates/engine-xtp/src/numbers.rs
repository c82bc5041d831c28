//! Small types shared by all rooms.

/// Bits of a key that name the slot of its context; the 43 above are random, so that a slot used
/// again has a new key and a stranger does not guess it.
const SLOT_BITS: u32 = 20;

/// Contexts, closed ones in quarantine included, that keys can tell apart.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// Largest byte number taken from a peer: 2^62 bytes are 46 years at 25 Gbit/s, and sums of two
/// still fit into 64 bits.
pub(crate) const SEQ_MAX: u64 = 1 << 62;

/// The key of `slot`: 63 bits, never zero.
pub(crate) fn make_key(slot: u32, random: u64) -> u64 {
    let generation = (random >> (SLOT_BITS + 1)) | 1;
    generation << SLOT_BITS | u64::from(slot)
}

/// The same in 31 bits, as the third revision has it: ten of them are random.
pub(crate) fn make_short_key(slot: u32, random: u64) -> u64 {
    let generation = (random >> 54) << 1 | 1;
    generation << SLOT_BITS | u64::from(slot)
}

/// The slot a key names.
pub(crate) fn key_slot(key: u64) -> usize {
    key as usize & (SLOTS_MAX - 1)
}

/// Whether sync `a` was used before `b`. Syncs wrap; only 2^31 in a row are compared.
pub(crate) fn sync_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_encodes_slot_and_leaves_rtn_clear() {
        for random in [0, u64::MAX, 1 << 40] {
            let key = make_key(77, random);
            assert_eq!(key_slot(key), 77);
            assert!(key >> 63 == 0 && key >> SLOT_BITS != 0);
            let key = make_short_key(77, random);
            assert_eq!(key_slot(key), 77);
            assert!(key >> 31 == 0 && key >> SLOT_BITS != 0);
        }
    }

    #[test]
    fn sync_comparison_wraps() {
        assert!(sync_before(u32::MAX, 0) && !sync_before(0, u32::MAX));
        assert!(sync_before(1, 2) && !sync_before(2, 2));
    }
}
