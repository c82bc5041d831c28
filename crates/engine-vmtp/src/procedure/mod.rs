//! Procedures of the protocol, one file each (RFC 1045 sections 4 and 5).

mod notify_receive;
pub(crate) mod probe;
mod request_receive;
mod request_send;
mod response_receive;
mod response_send;
mod timeout;

use crate::pdu::{Control, ResponseCode, VmtpHeader};
use engine::{CommandError, Note, Reliability};

/// Whether a packet that finds its message complete is answered: a burst of several is answered once.
fn wants_answer(header: &VmtpHeader) -> bool {
    header.control.has(Control::ACKNOWLEDGE)
        || header.delivery.is_empty()
        || header.delivery.0 & 1 == 1
}

/// The code of a note, and whether it is to be sent once.
///
/// # Errors
///
/// `Unsupported` for a note that says more.
fn code_and_once(note: &Note) -> Result<(u32, bool), CommandError> {
    let code = note.tag.unwrap_or(0);
    let once = note.reliability == Reliability::Retransmissions(0);
    let carried = Note {
        tag: note.tag,
        reliability: note.reliability,
        ..Note::default()
    };
    let is_known = once || note.reliability == Reliability::Full;
    let fits = code <= u64::from(ResponseCode::MAX.0);
    match *note == carried && is_known && fits {
        true => Ok((code as u32, once)),
        false => Err(CommandError::Unsupported),
    }
}
