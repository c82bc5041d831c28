//! A station's controller: its queue and its state.

use super::event::{EtherDestination, EtherFrame};
use engine::SplitMix64;
use std::collections::VecDeque;

/// A station's controller.
#[derive(Clone, Debug)]
pub(super) struct Station {
    pub(super) position_ps: u64,
    pub(super) state: MacState,
    pub(super) frames: VecDeque<EtherFrame>,
    pub(super) attempts: u32,
    pub(super) random: SplitMix64,
    /// Index in `deferring`, while deferring.
    pub(super) deferring_at: Option<usize>,
    /// When the last frame to each destination ended; kept only if the interface leaves a gap.
    pub(super) sent_to: Vec<(EtherDestination, u64)>,
}

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MacState {
    /// No frame.
    Idle,
    /// Senses the carrier at `at_ps`.
    Waiting { at_ps: u64 },
    /// Attempts at `at_ps`, a gap after the cable is idle at `idle_from_ps`.
    Deferring { at_ps: u64, idle_from_ps: u64 },
    /// Transmits.
    Sending {
        activity: u64,
        end_ps: u64,
        collision_ps: Option<u64>,
    },
    /// Sends the jam after a collision.
    Jamming { end_ps: u64 },
}

impl Station {
    /// A station without frames whose backoff follows `seed`.
    pub(super) fn new(position_ps: u64, seed: u64) -> Station {
        Station {
            position_ps,
            state: MacState::Idle,
            frames: VecDeque::new(),
            attempts: 0,
            random: SplitMix64::new(seed),
            deferring_at: None,
            sent_to: Vec::new(),
        }
    }

    /// When the interface may send the next frame to `to`.
    pub(super) fn free_ps(&self, to: EtherDestination, gap_ps: u64) -> u64 {
        let last = self.sent_to.iter().find(|(known, _)| *known == to);
        last.map_or(0, |(_, end)| end + gap_ps)
    }

    /// Notes that a frame to `to` ended.
    pub(super) fn note_sent(&mut self, to: EtherDestination, now_ps: u64) {
        self.sent_to.retain(|(known, _)| *known != to);
        self.sent_to.push((to, now_ps));
    }
}
