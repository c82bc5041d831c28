//! Tags: eight octets in front of a message, and in 3.x behind it, that the sender set apart (0007,
//! Tags).

use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::pdu::TAG_LEN;
use engine::{Framing, Note, NoteFields};

/// Tags belong to messages; an ETAG there is in 3.x alone (0007, Tags).
pub(crate) fn note_fields(ep: &EndpointState) -> NoteFields {
    let has_messages = ep.config.framing == Framing::Messages;
    NoteFields {
        tag: has_messages,
        end_tag: has_messages && ep.codec.has_end_tags(),
        tags_are_data: true,
        ..NoteFields::NONE
    }
}

/// Marks the tags of the message from the last submission to `end`: it is submitted in one piece.
#[cold]
pub(crate) fn mark(ctx: &mut Context, ep: &EndpointState, end: u64, note: &Note) {
    let carried = note_fields(ep);
    let start = ctx.tx.queue.submitted;
    if note.tag.is_some() && carried.tag && end >= start + TAG_LEN {
        ctx.tx.queue.begin_tags.push(start);
    }
    if note.end_tag.is_some() && carried.end_tag && end >= start + TAG_LEN {
        ctx.tx.queue.end_tags.push(end);
    }
}
