//! The receiving end of a circuit.

use super::packet::{Control, unwrap};
use engine::{Address, Instant};

/// The state of a circuit a peer opened.
#[derive(Clone, Debug)]
pub(super) struct Receiving {
    pub(super) peer: Address,
    pub(super) key: u32,
    pub(super) in_group: bool,
    /// Received in order up to here.
    pub(super) rseq: u64,
    /// Read by the user up to here.
    pub(super) dseq: u64,
    /// Where the last message ended.
    ended: u64,
    /// The sync to answer.
    pub(super) due: Option<u32>,
    /// When, if not at once.
    pub(super) due_at: Option<Instant>,
}

impl Receiving {
    pub(super) fn new(peer: Address, key: u32, in_group: bool) -> Receiving {
        Receiving {
            peer,
            key,
            in_group,
            rseq: 0,
            dseq: 0,
            ended: 0,
            due: None,
            due_at: None,
        }
    }

    /// Takes `len` bytes at `start`: how many of them at the front came before, or None when
    /// something in front is missing or they are all old. The sender goes back, so nothing is
    /// kept.
    pub(super) fn accept(&mut self, start: u64, len: u64) -> Option<u64> {
        if start > self.rseq || start + len <= self.rseq {
            return None;
        }
        let old = self.rseq - start;
        self.rseq = start + len;
        Some(old)
    }

    /// A message ends at `position`; false when that is known or not yet true.
    pub(super) fn end_message(&mut self, position: u64) -> bool {
        let news = position == self.rseq && position > self.ended;
        if news {
            self.ended = position;
        }
        news
    }

    /// Another receiver answered: whether that makes the own answer unnecessary.
    pub(super) fn overhear(&mut self, control: &Control) -> bool {
        let covered = unwrap(control.rseq, self.rseq) <= self.rseq;
        let same = self.due == Some(control.echo) && covered;
        if same {
            self.due = None;
            self.due_at = None;
        }
        same
    }
}
