//! State of one association.

use engine::{Address, Instant};

/// State of an association. The close of a direction is part of [`SendState`] and
/// [`ReceiveState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// An Open was sent and not yet answered.
    Opening {
        /// The token the answer must echo.
        token: u64,
        /// Opens sent so far.
        attempts: u32,
    },
    /// Both sides know each other's number: established.
    Open,
}

/// The sending direction, all in positions of the send store.
#[derive(Clone, Debug, Default)]
pub struct SendState {
    /// The store holds bytes below this.
    pub end: u64,
    /// Bytes below this were sent.
    pub sent: u64,
    /// Bytes below this no longer count against the window: acknowledged, or considered lost.
    pub acknowledged: u64,
    /// Bytes below this are sent even in a part-filled packet.
    pub pushed: u64,
    /// The user closed this direction.
    pub finishing: bool,
    /// The Final packet was sent.
    pub final_sent: bool,
    /// The Final packet was acknowledged.
    pub final_acknowledged: bool,
    /// Loss timeouts or Finals in a row without an answer.
    pub retries: u32,
}

impl SendState {
    /// Bytes in flight, which count against the window.
    pub fn bytes_in_flight(&self) -> u64 {
        self.sent - self.acknowledged.min(self.sent)
    }
}

/// The receiving direction, in positions of the peer's stream.
#[derive(Clone, Debug, Default)]
pub struct ReceiveState {
    /// The next byte expected.
    pub expected: u64,
    /// Bytes delivered to the host that its user has not read.
    pub unread: u64,
    /// The last position acknowledged to the peer.
    pub last_acknowledged: u64,
    /// The Final packet arrived.
    pub finished: bool,
    /// An acknowledgement must be sent, alone if need be.
    pub ack_due: bool,
    /// The host has no room: user bytes are dropped as if they had been lost.
    pub is_full: bool,
}

impl ReceiveState {
    /// The position that an acknowledgement sent now carries. The Final packet counts as one byte.
    pub fn position(&self) -> u64 {
        self.expected - self.unread.min(self.expected) + u64::from(self.finished)
    }
}

/// One association.
#[derive(Clone, Debug)]
pub struct Association {
    /// The peer's address.
    pub peer: Address,
    /// The peer's number of this association, 0 while opening.
    pub peer_id: u32,
    /// The token of its Open, by which a repeated Open is recognised.
    pub token: u64,
    /// Opening or open.
    pub state: AssociationState,
    /// The sending direction.
    pub tx: SendState,
    /// The receiving direction.
    pub rx: ReceiveState,
    /// When the last packet of the peer arrived.
    pub last_received_at: Instant,
    /// Its end was reported; it only acknowledges repeated Finals (TIME_WAIT).
    pub closed: bool,
}

/// The timers of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Retransmit the Open.
    Open,
    /// Send a delayed acknowledgement.
    Ack,
    /// No packet arrived while bytes were in flight: consider them lost.
    Loss,
    /// Retransmit the Final.
    Final,
    /// Remove a closed association.
    TimeWait,
}
