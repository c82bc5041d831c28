//! Traffic: the messages that users send.

use crate::distribution::Distribution;

/// Receivers of a pattern's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// One of these, equally likely.
    One(Vec<usize>),
    /// All other stations at once.
    All,
    /// These at once: stations of transactions only. Each call is one to their group.
    Group(Vec<usize>),
}

/// What the user of a called entity answers: stations of transactions only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reply {
    /// Nothing but the answer itself.
    #[default]
    Empty,
    /// As many bytes as the request has.
    SameLength,
    /// This many bytes.
    Bytes(u64),
}

/// How calls of a pattern hang together, and who answers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calling {
    /// Each is on its own, and the first reply settles it.
    #[default]
    Single,
    /// Calls of a sender to a receiver are in flight together, and are served and answered in order, in
    /// runs of so many, at least one.
    Stream(u64),
    /// The called user passes each request on to this station, whose user answers.
    Forwarded(usize),
    /// Replies of a group's members are collected.
    Collected {
        /// For so long, ps.
        time_ps: u64,
        /// Replies that settle a call at once; it is given up if fewer have come in time. None: all that
        /// come in time, and at least one.
        replies: Option<u64>,
    },
    /// Nobody answers: each request is a datagram, of which so many copies are sent, and which is settled
    /// when the last has left.
    Datagrams(u8),
}

/// How often a request is sent, and what is done about lost blocks of it (RFC 1045 section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// Times that it is sent, at most; 0: as the engine is configured.
    pub tries: u8,
    /// Between two of them, us, without back-off; 0: as the engine measures.
    pub spacing_us: u32,
    /// Its receiver does not ask for lost blocks: after a time-out the sender sends all of it again.
    pub no_repair: bool,
}

/// How users of a pattern that calls behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// What calls are answered with.
    pub reply: Reply,
    /// Time that the called user takes for a request, ps. Several take it at once.
    pub time_ps: u64,
    /// Callers, each of which produces its next message an interval after its last one was settled or
    /// given up, and a microsecond at least; None for messages that do not wait for each other.
    pub clients: Option<u64>,
    /// How calls hang together.
    pub calling: Calling,
    /// How often requests are sent.
    pub retries: Retries,
}

/// A pattern of messages: senders, receivers, lengths and intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Stations that send, equally likely.
    pub senders: Vec<usize>,
    /// How likely each sender is to be drawn; empty for equally.
    pub sender_weights: Vec<u64>,
    /// Stations that receive. A sender is never its own receiver.
    pub receivers: Receivers,
    /// How likely each of [`Receivers::One`] is to be drawn; empty for equally.
    pub receiver_weights: Vec<u64>,
    /// Messages that are produced at once, at least one.
    pub burst: u64,
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
    /// Who calls and how calls are answered: of stations of transactions.
    pub service: Service,
}

/// Messages that a user writes and no association carries: their copies take the processor, and nothing
/// else becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsentMessages {
    /// Station of the user.
    pub station: usize,
    /// Bytes of a message, at least one.
    pub length: Distribution,
    /// Time from one message to the next, ps; at least 1. They begin with the simulation and never end.
    pub interarrival_ps: Distribution,
}
