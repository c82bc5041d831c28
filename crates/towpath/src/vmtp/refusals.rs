//! What VMTP's codes say to the user of a call that failed.

use driver::transactions::FailureCode;
use engine_vmtp::pdu::ResponseCode;
use std::{fmt, io};

/// A call that failed with a code of VMTP (RFC 1045 section 2.13): what an error of kind `Other` has
/// inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFailed {
    /// The code.
    pub code: ResponseCode,
}

impl CallFailed {
    /// The one inside of an error of a call.
    pub fn of(error: &io::Error) -> Option<CallFailed> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// Whether a part of the reply came, and then no more: its server has executed the request, and has
    /// stopped or was restarted since.
    pub fn is_partial_reply(self) -> bool {
        self.code == ResponseCode::BAD_REPLY_SEGMENT
    }
}

impl fmt::Display for CallFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = match self.code {
            ResponseCode::STREAMING_NOT_SUPPORTED => {
                ": the server takes messages of one packet group; send 16384 octets at most"
            }
            ResponseCode::BAD_REPLY_SEGMENT => {
                ": the server stopped in the middle of its reply, so call again if that does no harm; or the \
                 reply is longer than this end takes, so raise message_max"
            }
            ResponseCode::SECURITY_NOT_SUPPORTED => ": the server has no security; call without it",
            _ => "",
        };
        write!(f, "the call failed with {}{remedy}", self.code)
    }
}

impl std::error::Error for CallFailed {}

/// The error of a call: one with a code of VMTP names it, with the remedy if there is one.
pub(super) fn named(error: io::Error) -> io::Error {
    let inner = error.get_ref();
    let code = inner.and_then(|inner| inner.downcast_ref::<FailureCode>());
    match code.map(|code| ResponseCode(code.0)) {
        Some(code) => io::Error::other(CallFailed { code }),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_named_with_the_remedy_and_other_errors_stay() {
        let text = |code| named(io::Error::other(FailureCode(code))).to_string();
        assert_eq!(
            text(11),
            "the call failed with STREAMING_NOT_SUPPORTED: the server takes messages of one packet group; \
             send 16384 octets at most"
        );
        assert_eq!(text(9), "the call failed with MSGTRANS_OVERFLOW");
        let partial = named(io::Error::other(FailureCode(17)));
        assert!(CallFailed::of(&partial).is_some_and(CallFailed::is_partial_reply));
        let away = named(io::ErrorKind::TimedOut.into());
        assert_eq!(away.kind(), io::ErrorKind::TimedOut);
    }
}
