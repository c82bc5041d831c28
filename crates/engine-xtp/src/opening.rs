//! Where the opening of an association stands (0007, Setting up).

use crate::numbers::SyncNumber;

/// State of a context in use (XTP 4.0 s. 6.1). Listening is a property of the endpoint; the
/// inactive state is [`InactiveContext`](crate::context_table::InactiveContext).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextState {
    /// This side opens the association, and FIRST was not answered yet.
    Opening {
        first: FirstPacket,
        /// Explicit open: FIRST carries no user data, and data wait for its answer.
        explicit: bool,
    },
    /// A packet of the peer was received.
    Active,
    /// Closed; the endpoint retires the context.
    Closed {
        /// Whether the key goes into quarantine, so that late packets are answered with END.
        quarantine: bool,
    },
}

impl ContextState {
    /// The state of an association that this side opens.
    pub(crate) fn opening(explicit: bool) -> ContextState {
        let first = match explicit {
            true => FirstPacket::Due,
            false => FirstPacket::AwaitsData,
        };
        ContextState::Opening { first, explicit }
    }

    /// FIRST, as long as it was not answered.
    #[inline]
    pub(crate) fn first(self) -> Option<FirstPacket> {
        match self {
            ContextState::Opening { first, .. } => Some(first),
            ContextState::Active | ContextState::Closed { .. } => None,
        }
    }
}

/// The FIRST packet of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPacket {
    /// An implicit open waits for user data, which go with it.
    AwaitsData,
    /// To be sent.
    Due,
    /// Sent with so many user bytes.
    Sent(u64),
    /// To be retransmitted: with the same user bytes, unless the path does not carry them.
    Lost(u64),
}

impl FirstPacket {
    pub(crate) fn is_due(self) -> bool {
        matches!(self, FirstPacket::Due | FirstPacket::Lost(_))
    }

    pub(crate) fn is_sent(self) -> bool {
        self.data_len().is_some()
    }

    /// User bytes in it, once it was sent.
    pub(crate) fn data_len(self) -> Option<u64> {
        match self {
            FirstPacket::AwaitsData | FirstPacket::Due => None,
            FirstPacket::Sent(len) | FirstPacket::Lost(len) => Some(len),
        }
    }

    /// It is to be sent, or sent again.
    pub(crate) fn schedule(&mut self) {
        *self = match *self {
            FirstPacket::AwaitsData | FirstPacket::Due => FirstPacket::Due,
            FirstPacket::Sent(len) | FirstPacket::Lost(len) => FirstPacket::Lost(len),
        };
    }
}

/// What the host knows of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenReport {
    /// Nothing.
    Pending,
    /// A peer opened the association, and the user has not admitted it yet.
    AwaitingAdmission,
    /// Connected or Accepted was reported, and the user admits it.
    Done,
}

/// The packet and rate limits of this side, which the peer is to learn (0007, Rates).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitsReport {
    /// The peer has them, or there are none.
    Done,
    /// Not sent yet.
    Pending,
    /// Sent with this sync, which the peer has not echoed yet.
    AwaitingEcho(SyncNumber),
}

impl LimitsReport {
    /// A packet with the limits was sent; whether an echo confirms it is recorded with its sync.
    pub(crate) fn record_sent(&mut self) {
        if *self == LimitsReport::Pending {
            *self = LimitsReport::Done;
        }
    }

    /// The peer echoed `echo`.
    pub(crate) fn record_echo(&mut self, echo: SyncNumber) {
        if matches!(*self, LimitsReport::AwaitingEcho(sync) if !echo.is_before(sync)) {
            *self = LimitsReport::Done;
        }
    }
}
