//! Counts of an engine's work.

use crate::{Block, Received};

/// Work done by an engine since it was made.
///
/// The counts are part of the contract: a profile divides by them, and the simulator derives
/// processing time from them. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets built and handed to the wire.
    pub packets_built: u64,
    /// Packets given to `handle_packet`, discarded ones included.
    pub packets_parsed: u64,
    /// Packets that were malformed or unexpected, and dropped.
    pub packets_discarded: u64,
    /// User bytes in packets built, retransmissions included.
    pub bytes_sent: u64,
    /// User bytes delivered to the user.
    pub bytes_delivered: u64,
    /// User bytes lost: neither delivered nor retransmitted.
    pub bytes_lost: u64,
    /// Runs of user bytes that were lost, each between bytes that were not.
    pub gaps: u64,
    /// Bytes the engine copied itself.
    pub bytes_copied: u64,
    /// Bytes the engine computed a checksum over.
    pub bytes_summed: u64,
    /// Packets retransmitted because they were considered lost.
    pub retransmissions: u64,
    /// Timers armed or re-armed.
    pub timers_set: u64,
}

impl Counters {
    /// A packet whose checksum covers all of it was handled or discarded; `blocks` are delivered of it.
    #[inline]
    pub fn count_packet(&mut self, packet: &Received<'_>, is_handled: bool, blocks: &[Block]) {
        self.packets_parsed += 1;
        self.bytes_summed += packet.octets.len() as u64;
        self.packets_discarded += u64::from(!is_handled);
        let delivered: usize = blocks.iter().map(|block| block.range.len()).sum();
        self.bytes_delivered += delivered as u64;
    }

    /// So many user bytes in a row are lost; nothing for 0. A peer may claim any number.
    #[inline]
    pub fn count_gap(&mut self, bytes: u64) {
        self.bytes_lost = self.bytes_lost.saturating_add(bytes);
        self.gaps += u64::from(bytes > 0);
    }
}

impl core::ops::Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            packets_built: self.packets_built + other.packets_built,
            packets_parsed: self.packets_parsed + other.packets_parsed,
            packets_discarded: self.packets_discarded + other.packets_discarded,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_delivered: self.bytes_delivered + other.bytes_delivered,
            bytes_lost: self.bytes_lost + other.bytes_lost,
            gaps: self.gaps + other.gaps,
            bytes_copied: self.bytes_copied + other.bytes_copied,
            bytes_summed: self.bytes_summed + other.bytes_summed,
            retransmissions: self.retransmissions + other.retransmissions,
            timers_set: self.timers_set + other.timers_set,
        }
    }
}
