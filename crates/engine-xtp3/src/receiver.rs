//! The receiver of an association.

use crate::packet::{ControlSegment, unwrap};
use engine::{Address, Instant};

/// State of an association a peer opened.
#[derive(Clone, Debug)]
pub(super) struct ReceiverState {
    pub(super) peer: Address,
    pub(super) key: u32,
    pub(super) in_group: bool,
    /// Received in order up to here.
    pub(super) rseq: u64,
    /// Read by the user up to here.
    pub(super) dseq: u64,
    /// Where the last message ended.
    last_end: u64,
    /// The sync of the status request to answer.
    pub(super) control_due: Option<u32>,
    /// When to answer, if not at once.
    pub(super) control_at: Option<Instant>,
}

impl ReceiverState {
    pub(super) fn new(peer: Address, key: u32, in_group: bool) -> ReceiverState {
        ReceiverState {
            peer,
            key,
            in_group,
            rseq: 0,
            dseq: 0,
            last_end: 0,
            control_due: None,
            control_at: None,
        }
    }

    /// Accepts `len` bytes at `start`: returns how many of them are duplicates, or None when bytes
    /// before `start` are missing or all are duplicates. With go-back-n nothing out of order is
    /// kept.
    pub(super) fn accept_data(&mut self, start: u64, len: u64) -> Option<u64> {
        if start > self.rseq || start + len <= self.rseq {
            return None;
        }
        let duplicate = self.rseq - start;
        self.rseq = start + len;
        Some(duplicate)
    }

    /// A message ends at `position`; false when that is known or bytes before it are missing.
    pub(super) fn end_message(&mut self, position: u64) -> bool {
        let is_new = position == self.rseq && position > self.last_end;
        if is_new {
            self.last_end = position;
        }
        is_new
    }

    /// Damping: another receiver answered; whether that suppresses the own control packet.
    pub(super) fn overhear(&mut self, control: &ControlSegment) -> bool {
        let covered = unwrap(control.rseq, self.rseq) <= self.rseq;
        let same = self.control_due == Some(control.echo) && covered;
        if same {
            self.control_due = None;
            self.control_at = None;
        }
        same
    }
}
