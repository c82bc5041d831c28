//! What VMTP's codes say to the user of a call that failed.

use driver::transactions::FailureCode;
use engine_vmtp::pdu::ResponseCode;
use std::io;

/// The error of a call: one with a code of VMTP names it, with the remedy if there is one.
pub(super) fn named(error: io::Error) -> io::Error {
    let inner = error.get_ref();
    let code = inner.and_then(|inner| inner.downcast_ref::<FailureCode>());
    let Some(code) = code.map(|code| ResponseCode(code.0)) else {
        return error;
    };
    let remedy = match code {
        ResponseCode::STREAMING_NOT_SUPPORTED => {
            ": the server takes messages of one packet group; send 16384 octets at most"
        }
        ResponseCode::BAD_REPLY_SEGMENT => {
            ": the reply is longer than this end takes, or came in part; raise message_max"
        }
        ResponseCode::SECURITY_NOT_SUPPORTED => ": the server has no security; call without it",
        _ => "",
    };
    io::Error::other(format!("the call failed with {code}{remedy}"))
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
        let away = named(io::ErrorKind::TimedOut.into());
        assert_eq!(away.kind(), io::ErrorKind::TimedOut);
    }
}
