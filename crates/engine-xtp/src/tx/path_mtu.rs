//! What is known of an association's path MTU.

/// The path MTU of an association, and the packet whose losses make it doubtful.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathMtu {
    /// Octets of the longest packet that the path carries in one piece (PLPMTU, RFC 8899 section 2).
    pub(crate) packet_len: usize,
    /// User bytes in a slot of the send store.
    pub(crate) slot: u64,
    /// The first byte of the packet that was lost last.
    suspect: u64,
    /// How often in a row it was lost.
    losses: u32,
}

impl PathMtu {
    /// A path that carries `packet_len` octets, and a store cut into slots of `slot` user bytes.
    pub(crate) fn new(packet_len: usize, slot: u64) -> PathMtu {
        PathMtu {
            packet_len,
            slot,
            suspect: 0,
            losses: 0,
        }
    }

    /// The packet that begins at `seq` was lost. Returns how often that has happened in a row.
    pub(crate) fn count_loss(&mut self, seq: u64) -> u32 {
        if self.suspect != seq {
            (self.suspect, self.losses) = (seq, 0);
        }
        self.losses += 1;
        self.losses
    }

    /// Forgets losses: packets are shorter from now on.
    pub(crate) fn forget_losses(&mut self) {
        self.losses = 0;
    }
}
