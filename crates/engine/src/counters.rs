//! What an engine has done so far, as plain counts.

/// Work done by an engine since it was made.
///
/// The counts are part of the contract: a profile divides by them, and the simulator turns their
/// change into host time. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets built and handed to the wire.
    pub packets_built: u64,
    /// Packets given to `handle_packet`, whatever became of them.
    pub packets_parsed: u64,
    /// Packets that were not understood or not expected, and dropped.
    pub packets_discarded: u64,
    /// User bytes named in packets built, retransmissions included.
    pub bytes_sent: u64,
    /// User bytes handed to the receiving user.
    pub bytes_delivered: u64,
    /// User bytes known to be lost: never delivered, never to come.
    pub bytes_lost: u64,
    /// Bytes the engine copied itself.
    pub bytes_copied: u64,
    /// Bytes the engine ran a checksum over.
    pub bytes_summed: u64,
    /// Packets built again because the first copy was taken for lost.
    pub retransmissions: u64,
    /// Timers armed or moved.
    pub timers_set: u64,
}
