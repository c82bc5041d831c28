//! The sending side of an association: messages that wait, and chunks in flight.

mod messages;
mod outstanding;

pub(crate) use messages::{MessageRules, Messages};
pub(crate) use outstanding::{ChunkStatus, OutChunk, Outstanding};

use crate::numbers::{LongTsn, Tsn};

/// The sending side. Bytes are named by their positions in the host's store.
#[derive(Debug)]
pub(crate) struct SendState {
    pub(crate) messages: Messages,
    pub(crate) outstanding: Outstanding,
    /// Room at the peer for bytes that were not sent yet.
    pub(crate) rwnd: u64,
    /// All TSNs outstanding when fast recovery began; it ends when the peer has them.
    pub(crate) recovery: Option<LongTsn>,
    /// The next packet of retransmissions may exceed the congestion window: a fast retransmit.
    pub(crate) fast_retransmit: bool,
    /// One chunk may leave although the peer's window is shut.
    pub(crate) probes_window: bool,
    /// How many probes in a row found the window shut.
    pub(crate) window_probes: u32,
}

impl SendState {
    pub(crate) fn new(initial: Tsn) -> SendState {
        SendState {
            messages: Messages::default(),
            outstanding: Outstanding::new(LongTsn::first(initial)),
            rwnd: 0,
            recovery: None,
            fast_retransmit: false,
            probes_window: false,
            window_probes: 0,
        }
    }

    /// Whether all that was submitted is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.unsent() == 0 && self.outstanding.is_empty()
    }

    /// Bytes submitted that the peer has not acknowledged.
    pub(crate) fn bytes_unacknowledged(&self) -> u64 {
        self.messages.unsent() + self.outstanding.bytes()
    }
}
