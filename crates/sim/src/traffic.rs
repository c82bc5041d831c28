//! Where messages come from.

use crate::distribution::Distribution;

/// Who a pattern's messages go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// To one of these, each as often as another.
    One(Vec<usize>),
    /// To all other stations at once.
    All,
}

/// A pattern of messages: who sends to whom, how long they are and how often they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Stations messages come up at, each as often as another.
    pub senders: Vec<usize>,
    /// Where they go. A sender is never its own receiver.
    pub receivers: Receivers,
    /// Bytes of a message, at least one.
    pub length: Distribution,
    /// Time from one message of the pattern to the next, ps.
    pub interarrival_ps: Distribution,
    /// Messages in all.
    pub messages: u64,
    /// Messages not settled at most; the next one comes up an interval after there is room. None
    /// for users that never wait.
    pub outstanding: Option<u64>,
    /// Time before the first interval begins, ps.
    pub start_ps: u64,
}
