//! Why a packet was dropped, and how often.

/// The first rule a packet broke. The wire rules come in the order they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// Shorter than a header.
    Short,
    /// Another version of the protocol.
    Version,
    /// `dlen` is not what came.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// An unassigned packet format.
    Format,
    /// The body is not what its format demands.
    Body,
    /// No context has the key.
    UnknownKey,
    /// The context's peer lives at another address.
    ForeignSource,
    /// Multicast, which this engine does not speak.
    Multicast,
    /// No room for another context.
    NoRoom,
    /// Nobody listens, or not for this.
    Refused,
    /// Data beyond the allocation, or more than may be kept.
    BeyondWindow,
    /// Acknowledges, or lists, bytes that were never sent.
    NeverSent,
    /// Asks again for bytes that were acknowledged before.
    Released,
    /// The context is not in a state for it.
    State,
}

impl Reject {
    /// All of them.
    pub const ALL: [Reject; COUNT] = [
        Reject::Short,
        Reject::Version,
        Reject::Length,
        Reject::Checksum,
        Reject::Format,
        Reject::Body,
        Reject::UnknownKey,
        Reject::ForeignSource,
        Reject::Multicast,
        Reject::NoRoom,
        Reject::Refused,
        Reject::BeyondWindow,
        Reject::NeverSent,
        Reject::Released,
        Reject::State,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Reject::Short => "too short",
            Reject::Version => "another version",
            Reject::Length => "wrong length",
            Reject::Checksum => "wrong checksum",
            Reject::Format => "unknown format",
            Reject::Body => "malformed body",
            Reject::UnknownKey => "unknown key",
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

    /// Packets dropped in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
