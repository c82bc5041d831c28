//! A segment in a model: words and slots of which loom knows each access, and reports two that are not ordered.

use crate::ChannelError;
use crate::geometry::{CONTROL_LEN, Geometry};
use crate::sync::AtomicU32;
use loom::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Octets between two words of the ends.
const WORD_STRIDE: usize = 128;

/// Words of the ends: at the offsets 0, 128, ... 1152, of which a ring of two receivers has the last, one behind the first of them,
/// and one behind each receiver's.
const WORDS: usize = 13;

/// Where the receivers' words begin.
const OF_RECEIVERS: usize = 8;

const SLOT_LEN: usize = 64;

/// One of the two mappings.
pub struct Segment(Arc<Memory>);

struct Memory {
    slots_offset: usize,
    words: Vec<AtomicU32>,
    slots: Vec<UnsafeCell<[u8; SLOT_LEN]>>,
}

// SAFETY: loom's cells are what this is about: it reports each access to a slot that another thread's does not
// precede, and runs one thread at a time.
unsafe impl Send for Segment {}

impl std::fmt::Debug for Segment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Segment").finish_non_exhaustive()
    }
}

impl Segment {
    /// Both mappings of a segment, all zero.
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "a segment is sent, as said above"
    )]
    pub(crate) fn both(geometry: Geometry) -> [Self; 2] {
        assert_eq!(geometry.slot_len() as usize, SLOT_LEN);
        let slots = geometry.slots() as usize;
        let memory = Arc::new(Memory {
            slots_offset: geometry.slots_offset(),
            words: (0..WORDS + slots).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..slots).map(|_| UnsafeCell::new([0; SLOT_LEN])).collect(),
        });
        [Self(Arc::clone(&memory)), Self(memory)]
    }

    /// As many mappings of a segment, all zero.
    pub(crate) fn shared<const N: usize>(geometry: Geometry) -> [Self; N] {
        let [first, _] = Self::both(geometry);
        std::array::from_fn(|_| Self(Arc::clone(&first.0)))
    }

    /// No model passes a segment to another process.
    pub(crate) fn create(_: usize) -> Result<(Self, OwnedFd), ChannelError> {
        Err(ChannelError::Unsealed)
    }

    /// As [`Self::create`].
    pub(crate) fn adopt(_: &OwnedFd, _: usize) -> Result<Self, ChannelError> {
        Err(ChannelError::Unsealed)
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        match offset.checked_sub(CONTROL_LEN) {
            None if !offset.is_multiple_of(WORD_STRIDE) => {
                let receiver = (offset / WORD_STRIDE + 1).saturating_sub(OF_RECEIVERS);
                &self.0.words[10 + receiver]
            }
            None => &self.0.words[offset / WORD_STRIDE],
            Some(length) => &self.0.words[WORDS + length / 4],
        }
    }

    /// Copies octets of one slot.
    pub(crate) fn write(&self, offset: usize, octets: &[u8]) {
        let at = offset - self.0.slots_offset;
        let range = at % SLOT_LEN..at % SLOT_LEN + octets.len();
        self.0.slots[at / SLOT_LEN].with_mut(|slot| {
            // SAFETY: loom has checked that no other access is possible now.
            unsafe { (&mut *slot)[range].copy_from_slice(octets) }
        });
    }

    /// Copies octets of one slot.
    pub(crate) fn read(&self, offset: usize, target: &mut [u8]) {
        let at = offset - self.0.slots_offset;
        let range = at % SLOT_LEN..at % SLOT_LEN + target.len();
        self.0.slots[at / SLOT_LEN].with(|slot| {
            // SAFETY: as in `write`, no write is possible now.
            target.copy_from_slice(unsafe { &(&*slot)[range] });
        });
    }

    /// What a processor fetches no model sees.
    pub(crate) fn fetch(&self, _: usize) {}

    /// As [`Self::fetch`].
    pub(crate) fn fetch_to_write(&self, _: usize) {}
}
