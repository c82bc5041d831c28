//! Reasons to drop a packet, and their counters.

/// The first rule that a packet broke, in the order of checking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// Shorter than a header.
    Short,
    /// A different protocol version.
    Version,
    /// `dlen` differs from the octets received.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// An unassigned packet format.
    Format,
    /// The body is malformed for its format.
    Body,
    /// No context has the key.
    UnknownKey,
    /// A FIRST on a route that is not known (XTP 3.x).
    UnknownRoute,
    /// The source is not the address of the context's peer.
    ForeignSource,
    /// A multicast packet at the unicast engine.
    Multicast,
    /// No room for another context.
    NoRoom,
    /// No listener for it.
    Refused,
    /// Data beyond the allocation, or beyond the limit of the reassembly queue.
    BeyondWindow,
    /// Acknowledges or lists bytes that were never sent.
    NeverSent,
    /// Requests retransmission of acknowledged bytes.
    Released,
    /// Not allowed in the state of the context.
    State,
}

impl Reject {
    /// All reasons.
    pub const ALL: [Reject; COUNT] = [
        Reject::Short,
        Reject::Version,
        Reject::Length,
        Reject::Checksum,
        Reject::Format,
        Reject::Body,
        Reject::UnknownKey,
        Reject::UnknownRoute,
        Reject::ForeignSource,
        Reject::Multicast,
        Reject::NoRoom,
        Reject::Refused,
        Reject::BeyondWindow,
        Reject::NeverSent,
        Reject::Released,
        Reject::State,
    ];

    /// Name for the user.
    pub fn name(self) -> &'static str {
        match self {
            Reject::Short => "too short",
            Reject::Version => "another version",
            Reject::Length => "wrong length",
            Reject::Checksum => "wrong checksum",
            Reject::Format => "unknown format",
            Reject::Body => "malformed body",
            Reject::UnknownKey => "unknown key",
            Reject::UnknownRoute => "unknown route",
            Reject::ForeignSource => "foreign source",
            Reject::Multicast => "multicast",
            Reject::NoRoom => "no room",
            Reject::Refused => "refused",
            Reject::BeyondWindow => "beyond the window",
            Reject::NeverSent => "about bytes never sent",
            Reject::Released => "about bytes released",
            Reject::State => "not in this state",
        }
    }
}

const COUNT: usize = Reject::State as usize + 1;

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejects([u64; COUNT]);

impl Rejects {
    /// Counts one packet.
    pub fn record(&mut self, reason: Reject) {
        self.0[reason as usize] += 1;
    }

    /// Packets dropped for `reason`.
    pub fn count(&self, reason: Reject) -> u64 {
        self.0[reason as usize]
    }

    /// All packets dropped.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
