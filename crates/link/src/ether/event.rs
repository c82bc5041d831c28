//! What goes over the ether and what happens there.

/// Who a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherDestination {
    /// One station.
    Station(usize),
    /// All others.
    All,
}

/// A frame as the ether sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherFrame {
    /// Names it to its owner.
    pub tag: u64,
    /// Octets from destination address to check sequence, before padding.
    pub octets: u32,
    /// Who it is for.
    pub to: EtherDestination,
}

/// Something that happened on the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherEvent {
    /// `from` begins its `attempt`-th transmission of a frame.
    Started {
        /// When, ps.
        at_ps: u64,
        /// Who.
        from: usize,
        /// 1 for the first.
        attempt: u32,
        /// The frame.
        frame: EtherFrame,
    },
    /// The last bit of a frame left its sender, which saw no collision.
    Sent {
        /// When, ps.
        at_ps: u64,
        /// Who.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A frame arrived whole at `station`.
    Delivered {
        /// When its last bit arrived, ps.
        at_ps: u64,
        /// Who has it.
        station: usize,
        /// Who sent it.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A frame reached `station` with another one over it. Each [`Sent`](EtherEvent::Sent) is
    /// followed by one `Delivered` or `Damaged` for every receiver.
    Damaged {
        /// When its last bit arrived, ps.
        at_ps: u64,
        /// Who cannot read it.
        station: usize,
        /// Who sent it.
        from: usize,
        /// The frame.
        frame: EtherFrame,
    },
    /// A sender saw its transmission collide.
    Collided {
        /// When, ps.
        at_ps: u64,
        /// Who.
        station: usize,
        /// Collisions of this frame so far.
        attempt: u32,
    },
    /// A frame was given up after the last attempt.
    Dropped {
        /// When, ps.
        at_ps: u64,
        /// Who.
        station: usize,
        /// The frame.
        frame: EtherFrame,
    },
}

/// What an ether has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtherCounters {
    /// Frames offered by stations.
    pub offered: u64,
    /// Frames sent without a collision.
    pub sent: u64,
    /// Frames received whole, counted once a receiver.
    pub delivered: u64,
    /// Frames that reached a receiver with another over them.
    pub damaged: u64,
    /// Transmissions that collided.
    pub collisions: u64,
    /// Of these, after the slot time: the cable is longer than the rules allow.
    pub late_collisions: u64,
    /// Frames given up after the last attempt.
    pub dropped: u64,
    /// Events worked off.
    pub events: u64,
}

/// Where the time of the cable went. The parts add up to the time that has passed, with
/// transmissions taken as their senders see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtherTime {
    /// Frames that came through, ps.
    pub carrying_ps: u64,
    /// Collisions and jam, ps.
    pub collided_ps: u64,
    /// Silence, gaps included, ps.
    pub idle_ps: u64,
}
