//! What travels with a message.

use crate::CallNote;
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
    /// What a message of a transaction asks for besides.
    pub call: CallNote,
}

impl Note {
    /// Whether it says no more than that there is a message.
    #[inline]
    pub fn is_plain(&self) -> bool {
        // Field by field: it is asked of every message, and a comparison of whole notes is four calls.
        let Note {
            stream,
            tag,
            end_tag,
            unordered,
            reliability,
            context,
            call,
        } = self;
        *stream == 0
            && tag.is_none()
            && end_tag.is_none()
            && !*unordered
            && matches!(reliability, Reliability::Full)
            && *context == 0
            && call.is_none()
    }
}

/// The fields of a [`Note`] that a protocol carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteFields {
    /// [`Note::stream`].
    pub stream: bool,
    /// [`Note::tag`].
    pub tag: bool,
    /// [`Note::end_tag`].
    pub end_tag: bool,
    /// [`Note::unordered`].
    pub unordered: bool,
    /// [`Note::reliability`].
    pub reliability: bool,
    /// [`Note::context`].
    pub context: bool,
    /// [`Note::call`].
    pub call: bool,
    /// Tags are octets of the byte stream, eight each in network byte order, in front of the message
    /// and behind it (XTP). The host writes them there, and takes them out where
    /// [`crate::Delivery::begin_tag`] and [`crate::Delivery::end_tag`] say that they are.
    pub tags_are_data: bool,
}

impl NoteFields {
    /// A protocol without notes.
    pub const NONE: NoteFields = NoteFields {
        stream: false,
        tag: false,
        end_tag: false,
        unordered: false,
        reliability: false,
        context: false,
        call: false,
        tags_are_data: false,
    };

    /// The first field in which `note` says more than the default and that the protocol does not
    /// carry.
    pub fn missing_for(&self, note: &Note) -> Option<&'static str> {
        let fields = [
            ("stream", self.stream, note.stream != 0),
            ("tag", self.tag, note.tag.is_some()),
            ("end_tag", self.end_tag, note.end_tag.is_some()),
            ("unordered", self.unordered, note.unordered),
            (
                "reliability",
                self.reliability,
                note.reliability != Reliability::Full,
            ),
            ("context", self.context, note.context != 0),
            ("call", self.call, note.call != CallNote::default()),
        ];
        let missing = fields
            .into_iter()
            .find(|(_, carried, set)| *set && !carried);
        missing.map(|(name, ..)| name)
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
    /// Another submission of this association follows at once, before the engine is asked for
    /// packets: it may leave to that one what it decides once a submission (MSG_MORE).
    pub more: bool,
}

impl SendFlags {
    /// More bytes, which may wait for company.
    pub const NONE: SendFlags = SendFlags {
        more: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_not_carried_are_named() {
        let urgent = CallNote::of_priority(12);
        let notes = [
            (
                "stream",
                Note {
                    stream: 1,
                    ..Note::default()
                },
            ),
            (
                "tag",
                Note {
                    tag: Some(0),
                    ..Note::default()
                },
            ),
            (
                "end_tag",
                Note {
                    end_tag: Some(0),
                    ..Note::default()
                },
            ),
            (
                "unordered",
                Note {
                    unordered: true,
                    ..Note::default()
                },
            ),
            (
                "reliability",
                Note {
                    reliability: Reliability::Retransmissions(0),
                    ..Note::default()
                },
            ),
            (
                "context",
                Note {
                    context: 1,
                    ..Note::default()
                },
            ),
            (
                "call",
                Note {
                    call: urgent,
                    ..Note::default()
                },
            ),
        ];
        let all = NoteFields {
            stream: true,
            tag: true,
            end_tag: true,
            unordered: true,
            reliability: true,
            context: true,
            call: true,
            tags_are_data: false,
        };
        for (name, note) in notes {
            assert!(!note.is_plain(), "{name}");
            assert_eq!(NoteFields::NONE.missing_for(&note), Some(name));
            assert_eq!(all.missing_for(&note), None, "{name}");
        }
        assert_eq!(NoteFields::NONE.missing_for(&Note::default()), None);
    }
}
