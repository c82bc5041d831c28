//! What can go wrong, each with its remedy.

use crate::arena::MEMBERS_MAX;
use crate::broadcast::BROADCAST_RECEIVERS_MAX;
use crate::gather::SENDERS_MAX;
use crate::geometry::{RING_OCTETS_MAX, SLOT_LEN_MAX, SLOT_LEN_MIN};
use crate::opening::NAMES_MAX;
use std::io;

/// Why a channel could not be set up, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A slot length that no ring has.
    #[error("a slot of {0} octets: take a power of two from {SLOT_LEN_MIN} to {SLOT_LEN_MAX}")]
    SlotLen(u32),
    /// A number of slots that no ring has.
    #[error(
        "{slots} slots of {slot_len} octets: take a power of two, with at most {RING_OCTETS_MAX} octets in all"
    )]
    SlotCount {
        /// Number of slots.
        slots: u32,
        /// Octets of each.
        slot_len: u32,
    },
    /// What came is not the opening of a channel.
    #[error(
        "the peer sent no opening of a channel: both ends need the same version of this library"
    )]
    Opening,
    /// The peer's channel has other modules.
    #[error(
        "this end has the modules {own}, the peer {peer}: give both ends the same, in the same order"
    )]
    OtherModules {
        /// Those of this end.
        own: String,
        /// Those that the peer named.
        peer: String,
    },
    /// A name that an opening cannot carry.
    #[error(
        "'{0}' names no modules: take letters, digits, '-', '.' and '=', with at most {NAMES_MAX} octets for all"
    )]
    ModuleName(String),
    /// The opening came with another number of descriptors than its channels have segments.
    #[error(
        "the opening came with {found} descriptors instead of {expected}: open a channel on both sides, or a pair on both"
    )]
    Descriptors {
        /// Descriptors that came.
        found: usize,
        /// Segments of the channels that are accepted.
        expected: usize,
    },
    /// A segment that its owner could shorten under the reader, which would end it by SIGBUS.
    #[error(
        "the peer's segment is not sealed: create it with memfd_create and seal it against shrinking and growing"
    )]
    Unsealed,
    /// A segment of another length than the opening said.
    #[error(
        "the peer's segment has {found} octets instead of {expected}: both ends need the same version of this library"
    )]
    SegmentLen {
        /// Octets it has.
        found: u64,
        /// Octets that the opening asks for.
        expected: u64,
    },
    /// The socket's other end belongs to another user.
    #[error("the peer is of user {peer}, this process of {own}: run both as one user")]
    OtherUser {
        /// User of the peer.
        peer: u32,
        /// User of this process.
        own: u32,
    },
    /// A message longer than all slots of the ring, or than those that were lent for it.
    #[error(
        "a message of {len} octets has room for {max}: open the channel with more slots, or send it in parts"
    )]
    TooLong {
        /// Octets of the message.
        len: usize,
        /// Octets of the ring, or of the slots that were lent.
        max: u32,
    },
    /// A word of the peer's that no correct peer writes. The channel is of no use any more.
    #[error(
        "the peer wrote {what} {value}, which is impossible: close the channel and look at the peer"
    )]
    Corrupt {
        /// Which word.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// All numbers of an arena's members are in use.
    #[error("the arena has {MEMBERS_MAX} members: end one, or make another arena")]
    ArenaFull,
    /// All numbers of a ring's senders are in use.
    #[error("the ring has {SENDERS_MAX} senders: make another one, or a channel for each sender")]
    SendersFull,
    /// All numbers of a ring's receivers were given.
    #[error(
        "the ring has had {BROADCAST_RECEIVERS_MAX} receivers: make another one, or a channel for each receiver"
    )]
    ReceiversFull,
    /// The process at the other end, or the message, belongs to another arena, or to none.
    #[error("the other end is no member of this arena: let the arena's owner admit it first")]
    OtherArena,
    /// A message that other members read now.
    #[error("the message is held by others, who read it: write into a slot that was not passed on")]
    Shared,
    /// A message that the receiver has not let go yet.
    #[error("the receiver holds this message already: pass it again after the receiver dropped it")]
    AlreadyHeld,
    /// The peer ended without closing its end, or, for a sender, closed it.
    #[error("the peer of the channel is gone: open another channel")]
    PeerGone,
    /// The system refused.
    #[error("{action}: {source}")]
    System {
        /// What was attempted.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// Adds what was attempted to an error of the system.
pub(crate) fn system(action: &'static str) -> impl Fn(rustix::io::Errno) -> ChannelError {
    move |errno| ChannelError::System {
        action,
        source: errno.into(),
    }
}
