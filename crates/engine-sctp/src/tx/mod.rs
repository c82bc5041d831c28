//! The sending side of an association: messages that wait, and chunks in flight.

mod in_order;
mod messages;
mod numbering;
mod outstanding;
mod run;
mod scheduled;

pub(crate) use messages::{Messages, Submission};
pub(crate) use numbering::{Cut, MessageRules, Tracked};
pub(crate) use outstanding::{ChunkHeader, ChunkStatus, OutChunk, Outstanding};
pub(crate) use run::Run;

use crate::config::SctpConfig;
use crate::numbers::{LongTsn, Tsn};
use engine::Instant;
use std::collections::BTreeMap;

/// The sending side. Bytes are named by their positions in the host's store.
#[derive(Debug)]
pub(crate) struct SendState {
    pub(crate) messages: Messages,
    pub(crate) outstanding: Outstanding,
    /// Room at the peer for bytes that were not sent yet.
    pub(crate) rwnd: u64,
    /// Octets of chunks sent since the peer was last asked for an acknowledgement (flag I).
    pub(crate) unasked: u64,
    /// All TSNs outstanding when fast recovery began; it ends when the peer has them.
    pub(crate) recovery: Option<LongTsn>,
    /// The next packet of retransmissions may exceed the congestion window: a fast retransmit.
    pub(crate) fast_retransmit: bool,
    /// One chunk may leave although the peer's window is shut.
    pub(crate) probes_window: bool,
    /// The timer of the next probe may run.
    pub(crate) awaits_probe: bool,
    /// How many probes in a row found the window shut.
    pub(crate) window_probes: u32,
    /// Messages that were begun and that may be given up, or that their user knows by a number; by
    /// where they begin in the store.
    pub(crate) tracked: BTreeMap<u64, Tracked>,
    /// The last TSN that the peer was told not to wait for, and when.
    pub(crate) forwarded: LongTsn,
    pub(crate) forwarded_at: Instant,
    /// The peer has not acknowledged that.
    pub(crate) awaits_forward: bool,
    /// The user wants to know when nothing is left to send.
    pub(crate) reports_dry: bool,
}

impl SendState {
    pub(crate) fn new(initial: Tsn, config: &SctpConfig) -> SendState {
        SendState {
            messages: Messages::new(config),
            outstanding: Outstanding::new(LongTsn::first(initial)),
            rwnd: 0,
            unasked: 0,
            recovery: None,
            fast_retransmit: false,
            probes_window: false,
            awaits_probe: false,
            window_probes: 0,
            tracked: BTreeMap::new(),
            forwarded: LongTsn::default(),
            forwarded_at: Instant::from_nanos(0),
            awaits_forward: false,
            reports_dry: false,
        }
    }

    /// The message that the byte at `position` of the store belongs to, if it is tracked.
    pub(crate) fn tracked_of(&self, position: u64) -> Option<&Tracked> {
        let (_, message) = self.tracked.range(..=position).next_back()?;
        let contains = !message.has_end || position < message.range.end;
        contains.then_some(message)
    }

    /// The last fragment of a message was cut: it ends at `end`.
    pub(crate) fn end_tracked(&mut self, end: u64) {
        if let Some((_, message)) = self.tracked.range_mut(..end).next_back()
            && !message.has_end
        {
            message.has_end = true;
            message.range.end = end;
        }
    }

    /// The peer has the message that ends with the byte at `position`.
    pub(crate) fn forget_tracked(&mut self, position: u64) {
        let start = self.tracked_of(position).map(|message| message.range.start);
        if let Some(start) = start {
            self.tracked.remove(&start);
        }
    }

    /// Whether there may be a chunk to send: one that is marked, or bytes that were not cut.
    #[inline]
    pub(crate) fn has_chunks(&self) -> bool {
        self.outstanding.has_marked() || self.messages.has_uncut()
    }

    /// The length of the message that waits, if it is whole, without a note, and nothing else waits or is outstanding.
    #[inline]
    pub(crate) fn lone_message(&self) -> Option<u64> {
        let is_idle = self.outstanding.is_empty() && self.tracked.is_empty();
        self.messages.lone().filter(|_| is_idle)
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
