//! What one circuit remembers.

use engine::{Address, Instant};

/// A circuit's life. The close of one direction is part of [`Sending`] and [`Receiving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// An Open was sent, its answer is awaited.
    Opening {
        /// The token the answer must echo.
        token: u64,
        /// Opens sent so far.
        attempts: u32,
    },
    /// Both sides know each other's number.
    Open,
}

/// The sending direction, all in positions of the send store.
#[derive(Clone, Debug, Default)]
pub struct SendState {
    /// The store holds bytes below this.
    pub end: u64,
    /// Bytes below this were sent.
    pub sent: u64,
    /// Bytes below this no longer count against the window: acknowledged, or taken for lost.
    pub acknowledged: u64,
    /// Bytes below this leave even in a part-filled packet.
    pub pushed: u64,
    /// The user will add no more.
    pub finishing: bool,
    /// The Final packet left.
    pub final_sent: bool,
    /// The peer has the Final packet.
    pub final_acknowledged: bool,
    /// Stalls or Finals in a row without an answer.
    pub retries: u32,
}

impl SendState {
    /// Bytes that count against the window.
    pub fn bytes_in_flight(&self) -> u64 {
        self.sent - self.acknowledged.min(self.sent)
    }
}

/// The receiving direction, in positions of the peer's stream.
#[derive(Clone, Debug, Default)]
pub struct ReceiveState {
    /// The next byte expected.
    pub expected: u64,
    /// Bytes delivered to the host that its user has not taken.
    pub unread: u64,
    /// The last position acknowledged to the peer.
    pub last_acknowledged: u64,
    /// The Final packet arrived.
    pub finished: bool,
    /// An acknowledgement must go out even if nothing else does.
    pub ack_due: bool,
}

impl ReceiveState {
    /// What an acknowledgement sent now would say. The Final packet counts as one byte.
    pub fn position(&self) -> u64 {
        self.expected - self.unread.min(self.expected) + u64::from(self.finished)
    }
}

/// One circuit.
#[derive(Clone, Debug)]
pub struct Association {
    /// Where the peer is.
    pub peer: Address,
    /// The peer's number for this circuit, 0 while opening.
    pub peer_id: u32,
    /// The token it was opened with, so that a repeated Open is known again.
    pub token: u64,
    /// Opening or open.
    pub state: AssociationState,
    /// The sending direction.
    pub tx: SendState,
    /// The receiving direction.
    pub rx: ReceiveState,
    /// When the peer was last heard.
    pub last_received_at: Instant,
    /// Its end was reported; it only answers repeated Finals.
    pub closed: bool,
}

/// Which timer of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Send the Open again.
    Open,
    /// Acknowledge what arrived.
    Ack,
    /// Nothing was heard while something was in flight.
    Loss,
    /// Send the Final again.
    Final,
    /// Forget a circuit that ended.
    TimeWait,
}
