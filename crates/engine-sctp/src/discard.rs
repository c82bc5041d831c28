//! Packets and chunks that were dropped, counted by reason.

/// Why a packet or a chunk was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// A header or chunk is shorter or longer than it says.
    Malformed,
    /// The checksum is wrong.
    Checksum,
    /// The verification tag is not that of the association, or the ports are others.
    Tag,
    /// No association has that tag, and the packet is none that opens one.
    OutOfTheBlue,
    /// The state cookie was not made here, or was changed.
    Cookie,
    /// The chunk has no meaning in the association's state.
    State,
    /// A user chunk for which there is no room.
    Window,
    /// An acknowledgement older than the last, or one whose blocks are impossible.
    Sack,
    /// A chunk that is taken only behind an AUTH had none, or the AUTH is wrong.
    Authentication,
    /// The endpoint has no room for one more association or answer.
    Full,
}

/// Counts of dropped packets and chunks, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discards([u64; 10]);

impl Discards {
    /// How many were dropped for `reason`.
    pub fn count(&self, reason: DiscardReason) -> u64 {
        self.0[reason as usize]
    }

    pub(crate) fn add(&mut self, reason: DiscardReason) {
        self.0[reason as usize] += 1;
    }
}
