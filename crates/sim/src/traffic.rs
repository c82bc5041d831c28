//! Traffic: the messages that users send.

use crate::distribution::Distribution;

/// Receivers of a pattern's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// One of these, equally likely.
    One(Vec<usize>),
    /// All other stations at once.
    All,
}

/// What the user of a called entity answers: stations of transactions only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but the answer itself.
    #[default]
    Empty,
    /// As many bytes as the request has.
    SameLength,
}

/// A pattern of messages: senders, receivers, lengths and intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Stations that send, equally likely.
    pub senders: Vec<usize>,
    /// Stations that receive. A sender is never its own receiver.
    pub receivers: Receivers,
    /// Bytes of a message, at least one.
    pub length: Distribution,
    /// Time from one message of the pattern to the next, ps.
    pub interarrival_ps: Distribution,
    /// Messages in all.
    pub messages: u64,
    /// Unsettled messages at most; the next one is produced an interval after there is room. None
    /// for no limit.
    pub outstanding: Option<u64>,
    /// Time before the first interval, ps.
    pub start_ps: u64,
    /// What calls are answered with.
    pub reply: Reply,
}
