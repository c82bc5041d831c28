//! What travels with a message.

use core::time::Duration;

/// How hard the sender tries to get a message through (RFC 3758, RFC 7496).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Until the association ends.
    #[default]
    Full,
    /// Until this much time has passed since it was submitted.
    Lifetime(Duration),
    /// This many retransmissions.
    Retransmissions(u32),
    /// Until the send buffer is needed for a message of a lower value.
    Priority(u16),
}

/// What travels with a message: given with its submission, it comes back with its delivery, or with
/// the report that it was abandoned. Each protocol carries the fields it has; a host refuses the
/// others with `Unsupported`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The stream it belongs to.
    pub stream: u16,
    /// A tag at its front: XTP's BTAG, or SCTP's payload protocol identifier.
    pub tag: Option<u64>,
    /// A tag at its end: XTP 3.x's ETAG.
    pub end_tag: Option<u64>,
    /// It may overtake earlier messages of its stream.
    pub unordered: bool,
    /// How hard the sender tries.
    pub reliability: Reliability,
    /// The user's own number for it, which stays on this side.
    pub context: u64,
}

impl Note {
    /// Whether it says no more than that there is a message.
    pub fn is_plain(&self) -> bool {
        *self == Note::default()
    }
}

/// What a submission asks for besides sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// The user waits for the bytes to leave: a part-filled packet need not wait for more.
    pub push: bool,
    /// A message ends at the submitted position (XTP EOM, SCTP's E bit).
    pub end_of_message: bool,
    /// The user waits until the peer has everything: an acknowledgement is solicited now.
    pub request_ack: bool,
    /// No more bytes follow: the sending direction ends (TCP FIN, XTP WCLOSE).
    pub fin: bool,
}

impl SendFlags {
    /// More bytes, which may wait for company.
    pub const NONE: SendFlags = SendFlags {
        push: false,
        end_of_message: false,
        request_ack: false,
        fin: false,
    };
    /// More bytes, which leave now.
    pub const PUSH: SendFlags = SendFlags {
        push: true,
        ..SendFlags::NONE
    };
    /// A message ends here.
    pub const END_OF_MESSAGE: SendFlags = SendFlags {
        end_of_message: true,
        ..SendFlags::NONE
    };
    /// An acknowledgement is solicited.
    pub const REQUEST_ACK: SendFlags = SendFlags {
        request_ack: true,
        ..SendFlags::NONE
    };
    /// The sending direction ends.
    pub const FIN: SendFlags = SendFlags {
        fin: true,
        ..SendFlags::NONE
    };
}
