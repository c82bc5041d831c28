//! Keys, sequence numbers and sync values.

/// Bits of a key that name the slot of its context. The 43 bits above are random, so a reused
/// slot has a new key and an off-path attacker cannot guess it (0007, Keys).
const SLOT_BITS: u32 = 20;

/// Contexts that keys can distinguish, closed ones in quarantine included.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// Largest sequence number accepted from a peer: 2^62 bytes take 46 years at 25 Gbit/s, and the
/// sum of two still fits into 64 bits.
pub(crate) const SEQ_MAX: u64 = 1 << 62;

/// The key of `slot`: 63 bits, never zero.
pub(crate) fn make_key(slot: u32, random: u64) -> u64 {
    let generation = (random >> (SLOT_BITS + 1)) | 1;
    generation << SLOT_BITS | u64::from(slot)
}

/// The 31-bit key of `slot` for XTP 3.x: ten bits are random (0008, Names).
pub(crate) fn make_short_key(slot: u32, random: u64) -> u64 {
    let generation = (random >> 54) << 1 | 1;
    generation << SLOT_BITS | u64::from(slot)
}

/// The slot that a key names.
pub(crate) fn key_slot(key: u64) -> usize {
    key as usize & (SLOTS_MAX - 1)
}

/// Whether sync `a` was used before `b`: serial number arithmetic (RFC 1982).
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
