//! Frames, events and counts of the ether.

/// Destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherDestination {
    /// One station.
    Station(usize),
    /// All other stations.
    All,
}

/// A frame, without its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherFrame {
    /// The owner's name for it.
    pub tag: u64,
    /// Octets from destination address to check sequence, before padding.
    pub octets: u32,
    /// Destination.
    pub to: EtherDestination,
}

/// An event on the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherEvent {
    /// `from` starts its `attempt`-th transmission of a frame.
    Started {
        /// Time, ps.
        at_ps: u64,
        /// The sender.
        from: usize,
        /// 1 for the first.
        attempt: u32,
        /// The frame.
        frame: EtherFrame,
    },
    /// The last bit of a frame was sent, without a collision at the sender.
    Sent {
        /// Time, ps.
        at_ps: u64,
        /// The sender.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A frame arrived undamaged at `station`.
    Delivered {
        /// Arrival of its last bit, ps.
        at_ps: u64,
        /// The receiver.
        station: usize,
        /// The sender.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A frame overlapped another one at `station`. Each [`Sent`](EtherEvent::Sent) is followed by
    /// one `Delivered` or `Damaged` for every receiver.
    Damaged {
        /// Arrival of its last bit, ps.
        at_ps: u64,
        /// The receiver.
        station: usize,
        /// The sender.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A sender detected a collision.
    Collided {
        /// Time, ps.
        at_ps: u64,
        /// The sender.
        station: usize,
        /// Collisions of this frame so far.
        attempt: u32,
    },
    /// A frame was dropped after the last attempt.
    Dropped {
        /// Time, ps.
        at_ps: u64,
        /// The sender.
        station: usize,
        /// The frame.
        frame: EtherFrame,
    },
}

/// Counts of an ether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtherCounters {
    /// Frames offered by stations.
    pub offered: u64,
    /// Frames sent without a collision.
    pub sent: u64,
    /// Frames received undamaged, counted once a receiver.
    pub delivered: u64,
    /// Frames that overlapped another one at a receiver.
    pub damaged: u64,
    /// Transmissions that collided.
    pub collisions: u64,
    /// Late collisions, after the slot time: the cable is longer than the standard allows.
    pub late_collisions: u64,
    /// Frames dropped after the last attempt.
    pub dropped: u64,
    /// Events processed.
    pub events: u64,
}

/// Use of the cable's time. The parts add up to the time that has passed; transmissions count as
/// their senders see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtherTime {
    /// Successful frames, ps.
    pub carrying_ps: u64,
    /// Collisions and jams, ps.
    pub collided_ps: u64,
    /// Idle time, gaps included, ps.
    pub idle_ps: u64,
}
