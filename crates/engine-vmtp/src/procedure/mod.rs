//! Procedures of the protocol, one file each (RFC 1045 sections 4 and 5).

mod dispatch;
mod forward;
mod introduce;
mod local;
mod manage;
mod members;
mod notify_receive;
pub(crate) mod prediction;
pub(crate) mod probe;
mod request_receive;
mod request_send;
mod response_receive;
mod response_send;
mod run;
pub(crate) mod stream;
mod timeout;

pub(crate) use dispatch::LastGroup;
pub(crate) use local::LocalCall;
pub(crate) use run::Run;

use crate::pdu::{Control, ResponseCode, VmtpHeader};
use engine::{CallNote, CommandError, Note, Reliability};

/// Whether a packet that finds its message complete is answered: a burst of several is answered once.
fn wants_answer(header: &VmtpHeader) -> bool {
    header.control.has(Control::ACKNOWLEDGE)
        || header.delivery.is_empty()
        || header.delivery.0 & 1 == 1
}

/// What a note says.
#[derive(Clone, Copy, Debug)]
struct Asked {
    code: u32,
    /// It is to be sent once.
    once: bool,
    call: CallNote,
    /// Of a call, the stream that it belongs to; 0 for none.
    stream: u16,
}

/// What a note says. Fails with `Unsupported` for a note that says more than VMTP carries.
fn read_note(note: &Note) -> Result<Asked, CommandError> {
    let code = note.tag.unwrap_or(0);
    let once = note.reliability == Reliability::Retransmissions(0);
    // Field by field: it is asked of each call and reply.
    let Note {
        stream: _,
        tag: _,
        end_tag,
        unordered,
        reliability: _,
        context,
        call: _,
    } = note;
    let is_carried = end_tag.is_none() && !*unordered && *context == 0;
    let is_known = once || note.reliability == Reliability::Full;
    let fits = code <= u64::from(ResponseCode::MAX.0);
    match is_carried && is_known && fits {
        true => Ok(Asked {
            code: code as u32,
            once,
            call: note.call,
            stream: note.stream,
        }),
        false => Err(CommandError::Unsupported),
    }
}
